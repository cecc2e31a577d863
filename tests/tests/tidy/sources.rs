//! Rules about source files: length, words, lints.

use crate::assert_none;
use crate::tree::{files, root, rust_files};

/// Lines of a Rust file from which it must be split, whatever it is.
const MOST_LINES: usize = 600;

/// Lines of a Rust file from which it needs a reason in [`LONG_FILES`].
const MANY_LINES: usize = 400;

/// Files longer than [`MANY_LINES`], each with why it is better whole.
const LONG_FILES: [(&str, &str); 0] = [];

#[test]
fn rust_files_are_short() {
    let excused = |path: &str| LONG_FILES.iter().any(|(long, _)| *long == path);
    let breaches: Vec<String> = rust_files()
        .map(|file| (file.text.lines().count(), file.path))
        .filter(|(lines, path)| *lines > MOST_LINES || (*lines > MANY_LINES && !excused(path)))
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    assert_none(&breaches);
}

/// Text that no Rust file may hold, and why. This file is not read.
const FORBIDDEN: [(&str, &str); 8] = [
    ("todo!(", "finish it, or file an issue"),
    ("unimplemented!(", "finish it, or file an issue"),
    ("dbg!(", "log a field instead"),
    ("#[allow(", "say #[expect(lint, reason = ...)]"),
    ("#![allow(", "say #![expect(lint, reason = ...)]"),
    ("#[ignore]", "say why in #[ignore = ...]"),
    ("unbounded_channel", "every queue has a bound"),
    ("FIXME", "fix it, or file an issue"),
];

#[test]
fn forbidden_words_are_absent() {
    let ours = "tests/tests/tidy/";
    let breaches: Vec<String> = rust_files()
        .filter(|file| !file.path.starts_with(ours))
        .flat_map(|file| {
            let hits = FORBIDDEN
                .iter()
                .flat_map(move |(word, why)| file.hits(word).into_iter().map(move |hit| format!("{hit} ({why})")));
            hits.collect::<Vec<_>>()
        })
        .collect();
    assert_none(&breaches);
}

/// Beginnings of paths that exist on the machine of whoever wrote the line, and on no other.
const MACHINE_PATHS: [&str; 4] = ["/work/", "/root/", "/home/user", "/Users/"];

#[test]
fn no_file_names_a_path_of_somebodys_machine() {
    let own = "tests/tests/tidy/sources.rs";
    let breaches: Vec<String> = files()
        .into_iter()
        .filter(|file| file.path != own)
        .flat_map(|file| MACHINE_PATHS.iter().flat_map(|path| file.hits(path)).collect::<Vec<_>>())
        .collect();
    assert_none(&breaches);
}

/// Names that say nothing of what a module holds.
const EMPTY_NAMES: [&str; 9] = ["util", "utils", "helper", "helpers", "manager", "common", "misc", "shared", "stuff"];

#[test]
fn modules_are_named_after_what_they_hold() {
    let breaches: Vec<String> = rust_files()
        .filter(|file| file.path.trim_end_matches(".rs").split('/').any(|part| EMPTY_NAMES.contains(&part)))
        .map(|file| file.path)
        .collect();
    assert_none(&breaches);
}

#[test]
fn modules_say_what_they_are_for() {
    let breaches: Vec<String> = rust_files()
        .filter(|file| !file.text.starts_with("//!"))
        .map(|file| format!("{}: does not begin with a //! line", file.path))
        .collect();
    assert_none(&breaches);
}

#[test]
fn every_member_takes_the_workspaces_lints() {
    let manifests = files().into_iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    let breaches: Vec<String> = manifests
        .filter(|file| !file.text.contains("[lints]\nworkspace = true"))
        .map(|file| format!("{}: no [lints] workspace = true", file.path))
        .collect();
    assert_none(&breaches);
}

#[test]
fn scripts_stop_at_the_first_error_and_may_be_run() {
    use std::os::unix::fs::PermissionsExt;
    let scripts = files().into_iter().filter(|file| file.text.starts_with("#!") && file.text.contains("sh\n"));
    let breaches: Vec<String> = scripts
        .flat_map(|file| {
            let mode = root().join(&file.path).metadata().unwrap().permissions().mode();
            let strict = file.text.contains("set -euo pipefail") || file.text.contains("\nexec bash");
            let mut wrong = Vec::new();
            if mode & 0o100 == 0 {
                wrong.push(format!("{}: not executable", file.path));
            }
            if !strict {
                wrong.push(format!("{}: no `set -euo pipefail`", file.path));
            }
            wrong
        })
        .collect();
    assert_none(&breaches);
}
