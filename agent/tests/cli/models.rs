//! `idlewild models`: files in, names out.

use crate::exit;
use crate::home::Home;

/// The smallest GGUF that says what it is: no tensors, an architecture, a context length.
pub(crate) fn gguf(context_tokens: u32) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend(2_u64.to_le_bytes());
    let text = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    text(&mut bytes, "general.architecture");
    bytes.extend(8_u32.to_le_bytes());
    text(&mut bytes, "llama");
    text(&mut bytes, "llama.context_length");
    bytes.extend(4_u32.to_le_bytes());
    bytes.extend(context_tokens.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes
}

#[test]
fn an_imported_model_is_listed_by_name_and_hash() {
    let home = Home::new();
    home.run(&["models", "list"]).check(exit::FINE, &["there are no models yet", "hint: idlewild models import"]);
    let file = home.path("Tiny-Q4_1.gguf");
    std::fs::write(&file, gguf(512)).unwrap();
    let imported = home.run(&["models", "import", file.to_str().unwrap()]);
    imported.check(exit::FINE, &[]);
    assert!(imported.out.starts_with("tiny-q4_1  "), "{}", imported.out);
    let list = home.run(&["models", "list", "--json"]).json();
    assert_eq!(list["models"][0]["name"], "tiny-q4_1");
    assert_eq!((&list["models"][0]["context_tokens"], &list["models"][0]["here"]), (&512.into(), &true.into()));
    let renamed = home.run(&["models", "import", file.to_str().unwrap(), "--name", "tiny", "--json"]).json();
    assert_eq!((&renamed["name"], &renamed["id"]), (&"tiny".into(), &list["models"][0]["id"]));
    assert_eq!(home.run(&["models", "list", "--json"]).json()["models"].as_array().unwrap().len(), 1);
    let table = home.run(&["models", "list"]);
    assert!(table.out.lines().next().unwrap().starts_with("NAME") && table.out.contains("tiny"), "{}", table.out);
}

#[test]
fn a_model_that_is_imported_while_the_agent_runs_is_there_at_once() {
    let home = Home::new();
    let _agent = home.up(&["--set", "engine.backend=llama", "--set", "engine.context_tokens=128"]);
    home.run(&["run", "hi"]).check(exit::NOT_FOUND, &["no peer of this swarm has a model yet", "models import"]);
    let file = home.path("tiny.gguf");
    std::fs::write(&file, gguf(512)).unwrap();
    home.run(&["models", "import", file.to_str().unwrap()]).check(exit::FINE, &[]);
    let list = home.run(&["models", "list", "--json"]).json();
    assert_eq!((&list["models"][0]["name"], &list["models"][0]["here"]), (&"tiny".into(), &true.into()));
    assert_eq!(list["models"][0]["context_tokens"], 128, "what a request may have, not what the model was made for");
    assert_eq!(home.run(&["status", "--json"]).json()["models"][0]["context_tokens"], 128);
    // Nobody is away, so nobody can serve it: but the model is known, also by the beginning of its hash.
    let id = list["models"][0]["id"].as_str().unwrap();
    home.run(&["run", "hi", "--model", &id[..8]]).check(exit::NO_PEER, &["takes no work now"]);
}

#[test]
fn a_default_model_that_nobody_has_is_warned_of() {
    let home = Home::new();
    let _agent = home.up(&["--model", "nosuch"]);
    home.run(&["status"]).check(exit::FINE, &["warning: no peer seen so far has the model \"nosuch\""]);
}

#[test]
fn a_file_that_is_no_model_says_why_and_what_to_do() {
    let home = Home::new();
    let cases: [(&str, &[u8], &str); 3] = [
        ("picture.gguf", b"\x89PNG", "not a GGUF file"),
        ("cut.gguf", &gguf(1)[..40], "truncated"),
        ("empty.gguf", b"", "not a GGUF file"),
    ];
    for (name, bytes, says) in cases {
        let file = home.path(name);
        std::fs::write(&file, bytes).unwrap();
        home.run(&["models", "import", file.to_str().unwrap()]).check(exit::FAILED, &[name, says]);
    }
    let gone = home.path("gone.gguf");
    home.run(&["models", "import", gone.to_str().unwrap()]).check(exit::FAILED, &["gone.gguf", "No such file"]);
    let list = home.run(&["models", "list", "--json"]).json();
    assert_eq!(list["models"].as_array().unwrap().len(), 0);
}

#[test]
fn a_bad_or_taken_name_is_a_usage_error() {
    let home = Home::new();
    let (one, two) = (home.path("one.gguf"), home.path("two.gguf"));
    std::fs::write(&one, gguf(1)).unwrap();
    std::fs::write(&two, gguf(2)).unwrap();
    home.run(&["models", "import", one.to_str().unwrap(), "--name", "a"]).check(exit::FINE, &[]);
    let two = two.to_str().unwrap();
    home.run(&["models", "import", two, "--name", "A"]).check(exit::USAGE, &["called \"A\" already", "hint: "]);
    home.run(&["models", "import", two, "--name", "a b"]).check(exit::USAGE, &["cannot be a model's name"]);
}
