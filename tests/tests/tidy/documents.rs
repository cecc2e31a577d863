//! Rules about documents: what they name exists.

use std::collections::{BTreeMap, BTreeSet};

use crate::assert_none;
use crate::tree::{File, between, files, root};

fn read(path: &str) -> String {
    let found = files().into_iter().find(|file| file.path == path);
    found.map(|file| file.text).unwrap()
}

/// The numbers of the decisions in `docs/adr`, with their files.
fn decisions() -> BTreeMap<String, File> {
    let files = files().into_iter().filter(File::is_markdown);
    files
        .filter_map(|file| Some((file.path.strip_prefix("docs/adr/")?.get(..4)?.to_owned(), file)))
        .filter(|(number, _)| number.chars().all(|c| c.is_ascii_digit()))
        .collect()
}

#[test]
fn decisions_are_numbered_without_a_gap_and_say_what_was_weighed() {
    let decisions = decisions();
    for (at, (number, file)) in decisions.iter().enumerate() {
        assert_eq!(*number, format!("{:04}", at + 1), "{}", file.path);
        for heading in ["\n## Decision\n", "\n## Why\n", "\n## Alternatives\n"] {
            assert!(file.text.contains(heading), "{} has no {heading:?}", file.path);
        }
    }
    assert!(decisions.len() >= 8);
}

#[test]
fn every_decision_that_a_file_refers_to_exists() {
    let decisions = decisions();
    let mut breaches = Vec::new();
    for file in files().iter().filter(|file| !file.path.starts_with("tests/tests/tidy/")) {
        for mark in ["docs/adr/", "ADR "] {
            let numbers = file.text.split(mark).skip(1).filter_map(|rest| rest.get(..4));
            let numbers = numbers.filter(|number| number.chars().all(|c| c.is_ascii_digit()));
            let missing = numbers.filter(|number| !decisions.contains_key(*number));
            breaches.extend(missing.map(|number| format!("{}: {mark}{number}", file.path)));
        }
    }
    assert_none(&breaches);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut breaches = Vec::new();
    for file in files().iter().filter(|file| file.is_markdown()) {
        let folder = root().join(&file.path).parent().unwrap().to_owned();
        for link in between(&file.text, "](", ")") {
            let target = link.split('#').next().unwrap();
            let is_ours = !target.is_empty() && !target.contains("://") && !target.contains(' ');
            if is_ours && !folder.join(target).exists() {
                breaches.push(format!("{}: {link}", file.path));
            }
        }
    }
    assert_none(&breaches);
}

/// Names of all tests in Rust sources: of the functions below `#[test]` or `#[tokio::test`.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in files().iter().filter(|file| file.is_rust()) {
        for after in file.text.split("#[test]").skip(1).chain(file.text.split("#[tokio::test").skip(1)) {
            let name = after.split_once("fn ").and_then(|(_, rest)| rest.split(['(', '<']).next());
            names.extend(name.map(str::to_owned));
        }
    }
    names
}

#[test]
fn every_invariant_names_the_tests_that_back_it() {
    let text = read("ARCHITECTURE.md");
    let tests = tests();
    let mut breaches = Vec::new();
    // An invariant ends with a blank line; its tests stand in backticks after "Tests:".
    let paragraphs: Vec<&str> = text.split("\n\n").filter(|p| p.contains("Invariant:")).collect();
    for paragraph in &paragraphs {
        let (what, backing) = paragraph.split_once("Tests:").unwrap_or((paragraph, ""));
        let named: Vec<&str> = backing.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            breaches.push(format!("names no test: {what}"));
        }
        let missing = named.iter().filter(|name| !tests.contains(**name));
        breaches.extend(missing.map(|name| format!("there is no test called {name}")));
    }
    assert!(paragraphs.len() >= 10, "ARCHITECTURE.md lists {} invariants", paragraphs.len());
    assert_none(&breaches);
}

/// Lines of the README's shell blocks.
fn commands() -> Vec<String> {
    let text = read("README.md");
    let blocks = between(&text, "```sh\n", "```");
    let lines = blocks.iter().flat_map(|block| block.lines()).map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn the_readmes_scripts_exist() {
    let commands = commands();
    let scripts: Vec<&str> =
        commands.iter().filter_map(|line| line.split(' ').find(|word| word.rsplit('.').next() == Some("sh"))).collect();
    let breaches: Vec<String> =
        scripts.iter().filter(|script| !root().join(script).is_file()).map(|script| (*script).to_owned()).collect();
    assert!(scripts.contains(&"packaging/quickstart.sh") && scripts.contains(&"tests/run.sh"), "{scripts:?}");
    assert_none(&breaches);
}

/// The product's commands that the README and the guides show, as far as their first options: `idlewild models add`.
fn shown_subcommands() -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    for file in files().iter().filter(|file| file.is_markdown()) {
        for block in between(&file.text, "```sh\n", "```") {
            for line in block.lines() {
                let Some((before, after)) = line.trim().split_once("idlewild ") else { continue };
                let is_command =
                    before.is_empty() || before.ends_with("| ") || before.ends_with("$(") || before.ends_with('/');
                let is_word =
                    |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
                let words = after.split(' ').take_while(|word| is_word(word) && !word.starts_with('-'));
                if is_command {
                    found.insert(words.take(2).map(str::to_owned).collect());
                }
            }
        }
    }
    found
}

/// Runs only where the product is built: `IDLEWILD_BIN` names it (tests/run.sh sets it).
#[test]
fn the_documents_show_commands_that_the_program_knows() {
    let Some(program) = std::env::var_os("IDLEWILD_BIN") else {
        println!("SKIPPED: IDLEWILD_BIN does not name the program");
        return;
    };
    let shown = shown_subcommands();
    assert!(shown.len() >= 4, "{shown:?}");
    let mut breaches = Vec::new();
    for words in shown {
        let known = |words: &[String]| {
            let output = std::process::Command::new(&program).args(words).arg("--help").output().unwrap();
            output.status.success()
        };
        // The second word may be an argument (`idlewild explain REQUEST`): the first alone decides then.
        if !known(&words) && !known(&words[..words.len().min(1)]) {
            breaches.push(format!("idlewild {}", words.join(" ")));
        }
    }
    assert_none(&breaches);
}

/// Names of the settings, from the one place where they are declared.
fn settings() -> Vec<String> {
    let text = read("agent/src/config/settings.rs");
    let declared = between(&text, "\nsettings! {\n", "\n}\n");
    let mut section = "";
    let mut names = Vec::new();
    for line in declared.first().unwrap().lines().filter(|line| !line.trim().starts_with("///")) {
        let Some((name, rest)) = line.trim().split_once(": ") else { continue };
        if rest.ends_with(" {") {
            section = name;
        } else if rest.contains(" = ") || rest.ends_with('=') {
            names.push(format!("`{section}.{name}`"));
        }
    }
    names
}

#[test]
fn the_operating_guide_explains_every_setting_and_no_other() {
    let guide = read("docs/operating.md");
    let settings = settings();
    assert!(settings.len() > 20, "{settings:?}");
    let missing = settings.iter().filter(|name| !guide.contains(*name)).map(|name| format!("{name} is not explained"));
    let sections: BTreeSet<&str> = settings.iter().filter_map(|name| name[1..].split('.').next()).collect();
    let shown = guide.split('`').skip(1).step_by(2).filter(|word| {
        let key = word
            .split_once('.')
            .filter(|(_, key)| key.chars().all(|c| c.is_ascii_lowercase() || "_0123456789".contains(c)));
        key.is_some_and(|(section, key)| sections.contains(section) && !["json", "toml", "db"].contains(&key))
    });
    let strange =
        shown.filter(|word| !settings.contains(&format!("`{word}`"))).map(|word| format!("{word} is no setting"));
    assert_none(&missing.chain(strange).collect::<Vec<_>>());
}

#[test]
fn the_operating_guide_lists_every_exit_code() {
    let text = read("agent/src/cli/exit.rs");
    let arms = between(&text, "pub fn code(self) -> u8 {", "\n    }\n");
    let codes: Vec<&str> = between(arms[0], "=> ", ",");
    let guide = read("docs/operating.md");
    let missing = codes.iter().filter(|code| !guide.contains(&format!("\n| {code} |")));
    assert!(codes.len() > 5, "{codes:?}");
    assert_none(&missing.map(|code| format!("exit code {code}")).collect::<Vec<_>>());
}

#[test]
fn the_changelog_speaks_of_the_version_that_is_built() {
    let version = format!("\n## {}", env!("CARGO_PKG_VERSION"));
    assert!(read("CHANGELOG.md").contains(&version), "CHANGELOG.md has no section {version}");
}
