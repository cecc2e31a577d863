//! Which of some programs run, by the names of their processes.

use super::roots::{Roots, entries, text};

/// The kernel cuts names of processes to so many bytes.
const COMM_BYTES: usize = 15;

/// Those of `wanted` that run: by the kernel's name of a process, or the file that it was started as. Upper and lower case
/// are alike; a name may end in `*`.
pub(super) fn running(roots: &Roots, wanted: &[String]) -> Vec<String> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let mut names = Vec::new();
    for process in entries(&roots.proc("")) {
        if !process.file_name().is_some_and(|name| is_process(&name.to_string_lossy())) {
            continue;
        }
        let Some(short) = text(&process.join("comm")) else { continue };
        if short.len() < COMM_BYTES {
            names.push(short.to_lowercase());
            continue;
        }
        // Cut: its whole name is the end of the first word that it was started with.
        let command = text(&process.join("cmdline")).unwrap_or_default();
        let program = command.split('\0').next().unwrap_or_default();
        names.push(program.rsplit('/').next().unwrap_or_default().to_lowercase());
        names.push(short.to_lowercase());
    }
    wanted.iter().filter(|wanted| names.iter().any(|name| is_meant(wanted, name))).cloned().collect()
}

fn is_meant(wanted: &str, name: &str) -> bool {
    let wanted = wanted.trim().to_lowercase();
    wanted.strip_suffix('*').map_or_else(|| name == wanted, |beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::super::roots::tree;
    use super::*;

    #[test]
    fn programs_are_known_by_either_of_their_names() {
        let (_dir, roots) = tree(&[
            ("proc/1/comm", "init\n"),
            ("proc/22/comm", "Blender\n"),
            ("proc/33/comm", "very-long-progr\n"),
            ("proc/33/cmdline", "/opt/x/very-long-program\0--fast\0"),
            ("proc/44/comm", "steam_app_1\n"),
            ("proc/self/comm", "ghost\n"),
            ("proc/55/status", "gone while it was read\n"),
        ]);
        let wanted = ["blender", "very-long-program", "steam_app_*", "ghost", "ini"].map(str::to_owned);
        assert_eq!(running(&roots, &wanted), ["blender", "very-long-program", "steam_app_*"]);
        assert!(running(&roots, &[]).is_empty());
    }
}
