//! The repository's text files.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file, by its path from the repository's root.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn is_rust(&self) -> bool {
        self.has_extension("rs")
    }

    pub(crate) fn is_markdown(&self) -> bool {
        self.has_extension("md")
    }

    fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    /// The lines that hold `needle`, each as `path:line: needle`.
    pub(crate) fn hits(&self, needle: &str) -> Vec<String> {
        let lines = self.text.lines().enumerate().filter(|(_, line)| line.contains(needle));
        lines.map(|(at, _)| format!("{}:{}: {needle}", self.path, at + 1)).collect()
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Folders that are not ours: build output and git's own.
const SKIPPED: [&str; 2] = ["target", ".git"];

/// Every file that is text, sorted by path.
pub(crate) fn files() -> Vec<File> {
    let root = root();
    let mut found = Vec::new();
    collect(&root, &root, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 50, "this is not the repository: {}", root.display());
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<File>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                collect(root, &path, found);
            }
        } else if let Ok(text) = fs::read_to_string(&path) {
            let path = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            found.push(File { path, text });
        }
    }
}

pub(crate) fn rust_files() -> impl Iterator<Item = File> {
    files().into_iter().filter(File::is_rust)
}

/// What stands between `open` and `close`, each time.
pub(crate) fn between<'t>(text: &'t str, open: &str, close: &str) -> Vec<&'t str> {
    text.split(open).skip(1).filter_map(|rest| Some(rest.split_once(close)?.0)).collect()
}
