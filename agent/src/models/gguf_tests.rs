//! Whole, cut and damaged headers.

use super::*;

/// A small GGUF: one F32 tensor of four elements.
pub(crate) fn sample(name: &str, context_tokens: u32) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend(5_u64.to_le_bytes());
    text(&mut bytes, "general.architecture");
    text_value(&mut bytes, "llama");
    text(&mut bytes, "general.name");
    text_value(&mut bytes, name);
    text(&mut bytes, "llama.context_length");
    bytes.extend(4_u32.to_le_bytes());
    bytes.extend(context_tokens.to_le_bytes());
    text(&mut bytes, "tokenizer.ggml.tokens");
    bytes.extend(9_u32.to_le_bytes());
    bytes.extend(8_u32.to_le_bytes());
    bytes.extend(2_u64.to_le_bytes());
    text(&mut bytes, "a");
    text(&mut bytes, "b");
    text(&mut bytes, "tokenizer.chat_template");
    text_value(&mut bytes, "{{ messages }}");
    text(&mut bytes, "output.weight");
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(4_u64.to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(32) + 16, 0);
    bytes
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn text_value(bytes: &mut Vec<u8>, value: &str) {
    bytes.extend(8_u32.to_le_bytes());
    text(bytes, value);
}

fn read(bytes: &[u8]) -> Result<GgufHeader, GgufError> {
    read_gguf_header(bytes, bytes.len() as u64)
}

#[test]
fn the_header_says_what_the_model_is() {
    let header = read(&sample("Smol", 2048)).unwrap();
    assert_eq!(
        header,
        GgufHeader {
            name: Some("Smol".into()),
            architecture: "llama".into(),
            context_tokens: 2048,
            has_chat_template: true,
            tensors: 1,
        }
    );
}

#[test]
fn a_file_cut_anywhere_is_an_error_that_says_so() {
    let whole = sample("Smol", 2048);
    for length in 0..whole.len() {
        let error = read(&whole[..length]).unwrap_err();
        let says = error.to_string();
        assert!(length < 4 && says.contains("not a GGUF") || says.contains("truncated"), "{length}: {says}");
    }
}

#[test]
fn no_single_wrong_byte_makes_the_reader_panic_or_allocate_without_bound() {
    let whole = sample("Smol", 2048);
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            let _ = read(&bytes);
        }
    }
}

#[test]
fn strange_files_say_what_they_are() {
    let with = |at: usize, value: &[u8]| {
        let mut bytes = sample("Smol", 2048);
        bytes[at..at + value.len()].copy_from_slice(value);
        read(&bytes).unwrap_err().to_string()
    };
    assert!(with(0, b"PK").contains("not a GGUF"));
    assert!(with(4, &[1]).contains("version 1"));
    assert!(with(8, &[0xff; 8]).contains("too many tensors"));
    assert!(with(16, &[0xff; 8]).contains("too many keys"));
    assert!(with(24, &[0xff; 8]).contains("a text is too long"));
    assert!(read(b"").unwrap_err().to_string().contains("not a GGUF"));
}
