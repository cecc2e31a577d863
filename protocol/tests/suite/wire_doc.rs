//! `docs/wire.md` is the data: every example in it decodes to the words beside it, and is what we write.
//!
//! An example is a block with the information string `hex KIND NAME` that holds a whole frame, where `#` begins a remark,
//! and right after it a block `text` that holds the message as Rust's `Debug` prints it. White space does not count in
//! either.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use idlewild_protocol::{DecodeError, FRAME_HEADER_BYTES};

use crate::erased::{KINDS, STRUCTURES};
use crate::samples::{samples, ticket};

const DOC: &str = include_str!("../../../docs/wire.md");

#[derive(Default)]
struct Example {
    frame: Vec<u8>,
    words: String,
}

/// The examples by kind and name.
fn examples() -> BTreeMap<(String, String), Example> {
    let mut found: BTreeMap<(String, String), Example> = BTreeMap::new();
    let mut last = None;
    for (info, block) in blocks() {
        let mut words = info.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("hex"), Some(kind), Some(name)) => {
                let key = (kind.to_owned(), name.to_owned());
                let frame = bytes_of(&block);
                assert!(found.insert(key.clone(), Example { frame, words: String::new() }).is_none(), "{key:?} twice");
                last = Some(key);
            }
            (Some("text"), None, None) => {
                if let Some(key) = last.take() {
                    found.get_mut(&key).unwrap().words = without_space(&block);
                }
            }
            _ => {}
        }
    }
    found
}

/// Fenced blocks: information string and content.
fn blocks() -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in DOC.lines() {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(info), None) => open = Some((info.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, block))) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

fn bytes_of(block: &str) -> Vec<u8> {
    let hex: String = block.lines().map(|line| without_space(line.split('#').next().unwrap())).collect();
    HEXLOWER.decode(hex.as_bytes()).unwrap()
}

fn without_space(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn every_example_decodes_to_the_words_beside_it() {
    for ((kind, name), example) in examples() {
        let kind = KINDS.iter().find(|k| k.name == kind).unwrap_or_else(|| panic!("no kind {kind}"));
        let (header, body) = example.frame.split_first_chunk::<FRAME_HEADER_BYTES>().unwrap();
        assert_eq!((kind.frame_len)(*header), Ok(body.len()), "{name}");
        let again = (kind.again)(body).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(without_space(&again.debug), example.words, "{name}");
        assert_eq!(again.bytes, body, "{name}");
    }
}

#[test]
fn every_sample_is_written_as_the_document_shows() {
    let examples = examples();
    let samples = samples();
    for sample in &samples {
        let key = (sample.kind.name.to_owned(), sample.name.to_owned());
        let shown = examples.get(&key).unwrap_or_else(|| panic!("docs/wire.md does not show {key:?}"));
        assert_eq!(HEXLOWER.encode(&sample.frame), HEXLOWER.encode(&shown.frame), "{}", sample.name);
    }
    assert_eq!(samples.len(), examples.len(), "the document shows an example that is no sample");
}

/// A tag exists if some body of zeros after it is read, or is refused for a value and not for its form.
fn tag_exists(decode: fn(&[u8]) -> Result<(), DecodeError>, tag: u8) -> bool {
    (0..400).any(|zeros| {
        let bytes = [vec![tag], vec![0; zeros]].concat();
        matches!(decode(&bytes), Ok(()) | Err(DecodeError::OutOfRange))
    })
}

#[test]
fn every_variant_of_every_kind_has_an_example() {
    let examples = examples();
    for kind in KINDS.iter().filter(|kind| !STRUCTURES.contains(&kind.name)) {
        let shown = |tag| {
            let mut of_kind = examples.iter().filter(|((name, _), _)| name == kind.name);
            of_kind.any(|(_, example)| example.frame[FRAME_HEADER_BYTES] == tag)
        };
        for tag in (0..100).filter(|tag| tag_exists(kind.decode, *tag)) {
            assert!(shown(tag), "{} {tag} has no example in docs/wire.md", kind.name);
        }
    }
    assert!(tag_exists(KINDS[3].decode, 0) && !tag_exists(KINDS[3].decode, 99), "the probe itself works");
}

#[test]
fn the_tickets_text_is_the_documents() {
    let shown = blocks().into_iter().find(|(info, _)| info == "ticket").unwrap().1;
    assert_eq!(without_space(&shown), ticket().to_string());
}

#[test]
fn every_limit_is_in_the_document() {
    for kind in KINDS {
        let row = format!("| `{}` | {} |", kind.name, kind.max_bytes);
        assert!(DOC.contains(&row), "docs/wire.md has no row {row}");
    }
}

/// Prints the blocks of every sample, to be pasted after a deliberate change:
/// `cargo nextest run --release -p idlewild-protocol --run-ignored only --no-capture print_examples`.
#[test]
#[ignore = "prints the document's blocks; checks nothing"]
fn print_examples() {
    for sample in samples() {
        println!("```hex {} {}", sample.kind.name, sample.name);
        for line in sample.frame.chunks(32) {
            println!("{}", HEXLOWER.encode(line));
        }
        println!("```\n```text\n{}\n```\n", wrapped(&sample.debug));
    }
    println!("```ticket\n{}\n```", ticket());
}

/// Words in lines of about 110 characters.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() <= 110 => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}
