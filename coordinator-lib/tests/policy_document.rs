//! `docs/policy.md` names what exists: its names are words of the library's sources, and its figures are there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn document() -> String {
    fs::read_to_string(crate_folder().join("../docs/policy.md")).unwrap()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every word that could be a name, comments left out: a name that only a comment has is no name in code.
fn words_in_code() -> BTreeSet<String> {
    let mut files = Vec::new();
    for module in ["hazard", "cost", "policy", "view"] {
        sources(&crate_folder().join("src").join(module), &mut files);
    }
    let mut words = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        for line in text.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
            words.extend(line.split(|c: char| !(c.is_alphanumeric() || c == '_')).map(str::to_owned));
        }
    }
    words
}

/// What stands between backticks, by path segments; paths of files are no names.
fn names(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2).filter(|quoted| !quoted.contains('/'));
    quoted.flat_map(|quoted| quoted.split("::")).collect()
}

fn missing<'t>(text: &'t str, words: &BTreeSet<String>) -> Vec<&'t str> {
    names(text).into_iter().filter(|name| !words.contains(*name)).collect()
}

#[test]
fn every_name_in_the_document_is_one_in_code() {
    let (text, words) = (document(), words_in_code());
    assert!(names(&text).len() > 60, "hardly any names were found");
    assert_eq!(missing(&text, &words), [""; 0]);
    assert_eq!(missing("| T | `Residual`, `mean_thyme_s` |", &words), ["mean_thyme_s"]);
}

#[test]
fn every_symbol_has_a_name() {
    let text = document();
    let table = text.split("## Symbols").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 25, "{}", rows.len());
    for row in rows {
        assert!(!names(row.split('|').nth(2).unwrap()).is_empty(), "{row}");
    }
}

#[test]
fn every_figure_is_there() {
    let text = document();
    let figures: Vec<&str> = text.split("](figures/").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert_eq!(figures.len(), 2);
    for figure in figures {
        let drawn = fs::read_to_string(crate_folder().join("../docs/figures").join(figure)).unwrap();
        assert!(drawn.contains("<svg") && drawn.contains("</svg>"), "{figure}");
    }
}
