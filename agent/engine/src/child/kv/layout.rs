//! The fingerprint of a layout: a hash over a text that says everything on which the meaning of a chunk depends.
//!
//! A text, so that two peers whose fingerprints differ can be compared by eye (it is logged at DEBUG).

use core::fmt::Write as _;

use idlewild_protocol::LayoutFingerprint;

use super::{Cache, Format, STATE_FORMAT};

/// Hyperparameters in the GGUF that change nothing about the KV cache.
const WITHOUT_MEANING: [&str; 2] = ["vocab_size", "context_length"];

/// What is read of the model beside its state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hyperparameters {
    /// The GGUF's `general.architecture`.
    pub(crate) architecture: String,
    /// The GGUF's keys and values, all of them.
    pub(crate) metadata: Vec<(String, String)>,
    /// llama.cpp's number of how positions turn keys.
    pub(crate) rope_type: i32,
    /// The factor by which positions were scaled in training.
    pub(crate) rope_scale: f32,
}

/// The fingerprint of a format with these hyperparameters, for this engine's one configuration.
pub(crate) fn fingerprint(format: &Format, of: &Hyperparameters) -> LayoutFingerprint {
    let text = describe(format, of);
    tracing::debug!(layout = text, "contexts of this model travel");
    LayoutFingerprint(*blake3::hash(text.as_bytes()).as_bytes())
}

fn describe(format: &Format, of: &Hyperparameters) -> String {
    let mut text = format!("state format {STATE_FORMAT}\nunified cache, flash attention, V not transposed\n");
    // Writing to a string does not fail.
    let _ = writeln!(text, "architecture {}", of.architecture);
    let _ = writeln!(text, "rope type {}, scale {:#010x}", of.rope_type, of.rope_scale.to_bits());
    let mut hyperparameters: Vec<_> =
        of.metadata.iter().filter(|(key, _)| has_meaning(&of.architecture, key)).collect();
    hyperparameters.sort();
    for (key, value) in hyperparameters {
        let _ = writeln!(text, "{key} = {value:?}");
    }
    describe_cache(&mut text, "every position", &format.whole);
    if let Some(windowed) = &format.windowed {
        describe_cache(&mut text, &format!("the last {}", windowed.window), &windowed.cache);
    }
    text
}

fn has_meaning(architecture: &str, key: &str) -> bool {
    let name = key.strip_prefix(architecture).and_then(|rest| rest.strip_prefix('.'));
    name.is_some_and(|name| !WITHOUT_MEANING.contains(&name))
}

fn describe_cache(text: &mut String, sees: &str, cache: &Cache) {
    let _ = writeln!(text, "layers that see {sees}: {}, rotations {:?}", cache.keys.len(), cache.rotations);
    for (keys, values) in cache.keys.iter().zip(&cache.values) {
        let _ = writeln!(text, "K {:?} {} V {:?} {}", keys.kind, keys.bytes, values.kind, values.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::kv::{Kind, Rows, Windowed};

    fn format() -> Format {
        let rows = Rows { kind: Kind::F16, bytes: 384 };
        let cache = Cache { keys: vec![rows; 2], values: vec![rows; 2], rotations: [0, 0] };
        Format { whole: cache.clone(), windowed: Some(Windowed { cache, window: 512 }) }
    }

    fn hyperparameters() -> Hyperparameters {
        let pairs = [
            ("general.name", "Somebody's"),
            ("tokenizer.ggml.model", "gpt2"),
            ("gemma3.rope.freq_base", "1000000.0"),
            ("gemma3.attention.head_count_kv", "1"),
            ("gemma3.context_length", "32768"),
            ("gemma3n.block_count", "3"),
        ];
        let metadata = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        Hyperparameters { architecture: "gemma3".to_owned(), metadata, rope_type: 2, rope_scale: 1.0 }
    }

    #[test]
    fn the_text_says_what_matters_and_nothing_else() {
        let expected = "state format 1\nunified cache, flash attention, V not transposed\narchitecture gemma3\n\
                        rope type 2, scale 0x3f800000\ngemma3.attention.head_count_kv = \"1\"\n\
                        gemma3.rope.freq_base = \"1000000.0\"\nlayers that see every position: 2, rotations [0, 0]\n\
                        K F16 384 V F16 384\nK F16 384 V F16 384\nlayers that see the last 512: 2, rotations [0, 0]\n\
                        K F16 384 V F16 384\nK F16 384 V F16 384\n";
        assert_eq!(describe(&format(), &hyperparameters()), expected);
    }

    #[test]
    fn each_difference_that_matters_is_another_fingerprint() {
        let same = fingerprint(&format(), &hyperparameters());
        let mut reordered = hyperparameters();
        reordered.metadata.reverse();
        reordered.metadata.retain(|(key, _)| key != "general.name");
        assert_eq!(fingerprint(&format(), &reordered), same);

        let format_changes: [fn(&mut Format); 6] = [
            |format| format.whole.keys[1].bytes = 386,
            |format| format.whole.values[0].kind = Kind::F32,
            |format| format.whole.rotations[1] = 64,
            |format| format.windowed = None,
            |format| format.windowed.as_mut().unwrap().window = 1024,
            |format| format.windowed.as_mut().unwrap().cache.keys.truncate(1),
        ];
        for (n, change) in format_changes.iter().enumerate() {
            let mut format = format();
            change(&mut format);
            assert_ne!(fingerprint(&format, &hyperparameters()), same, "change {n} of the format");
        }
        let changes: [fn(&mut Hyperparameters); 4] = [
            |of| of.architecture = "llama".to_owned(),
            |of| of.metadata[2].1 = "10000.0".to_owned(),
            |of| of.rope_type = 0,
            |of| of.rope_scale = 0.5,
        ];
        for (n, change) in changes.iter().enumerate() {
            let mut of = hyperparameters();
            change(&mut of);
            assert_ne!(fingerprint(&format(), &of), same, "change {n} of the hyperparameters");
        }
    }
}
