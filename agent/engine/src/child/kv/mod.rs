//! Parts of a KV cache as bytes: what llama.cpp writes, read by a parser that believes none of it.
//!
//! ```text
//! export: share [from, to) with a scratch sequence -> its state -> canonical bytes
//! import: parse (every field, finite values) -> scratch -> the slot
//! ```
//!
//! The agent's ends of a context's stream put a header with a hash around it (model, layout, range, length), and check it.
//! llama.cpp believes most of what a state says, and a value that is not finite spreads; so only bytes that `parse` has
//! passed reach it. Both sides must have the same [`layout`], which also names the format that the parser knows.
//!
//! A layer with a sliding window keeps the last positions only. A chunk carries of the window what its source still has;
//! `slots` knows whether what a slot holds suffices to go on from.

pub(crate) mod certified;
#[cfg(test)]
pub(crate) mod fields;
pub(crate) mod finite;
pub(crate) mod layout;
pub(crate) mod learn;
pub(crate) mod parse;
pub(crate) mod slots;
pub(crate) mod transfer;

/// The format that the parser knows: llama.cpp's sequence state as of [`LLAMA_CPP`]. Peers with another one exchange ids.
///
/// Raise it with every change of llama.cpp that changes the state, or what the values in it mean.
pub(crate) const STATE_FORMAT: u32 = 1;

/// The release of llama-cpp-sys-2 whose state was read and certified; a test compares it with Cargo.lock.
#[cfg(test)]
const LLAMA_CPP: &str = "0.1.160";

/// How a model's state is laid out: what every chunk of it must say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Format {
    /// The cache of layers that see everything.
    pub(crate) whole: Cache,
    /// The cache of layers with a sliding window, where there are any.
    pub(crate) windowed: Option<Windowed>,
}

/// The cache of layers with a sliding window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Windowed {
    pub(crate) cache: Cache,
    /// Positions that such a layer sees, its own included; at least 1.
    pub(crate) window: u32,
}

/// One cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cache {
    /// Of each layer, in the order of the state.
    pub(crate) keys: Vec<Rows>,
    /// As many.
    pub(crate) values: Vec<Rows>,
    /// Sizes of the rotations that llama.cpp applies to quantised keys and values; 0 is none.
    pub(crate) rotations: [u32; 2],
}

/// What one position takes in one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) kind: Kind,
    /// A multiple of the kind's unit, not 0.
    pub(crate) bytes: u32,
}

/// How values are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    F32,
    F16,
    /// Blocks of one f16 scale and 32 bytes.
    Q8,
}

impl Kind {
    pub(crate) fn from_code(code: u32) -> Option<Self> {
        [Self::F32, Self::F16, Self::Q8].into_iter().find(|kind| kind.code() == code)
    }

    /// llama.cpp's number.
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q8 => 8,
        }
    }

    /// Bytes of the smallest unit.
    pub(crate) fn unit_bytes(self) -> u32 {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
            Self::Q8 => 34,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_llama_cpp_that_is_linked_is_the_one_that_was_certified() {
        let lock = include_str!("../../../../../Cargo.lock");
        let entry = format!("name = \"llama-cpp-sys-2\"\nversion = \"{LLAMA_CPP}\"\n");
        let hint = "read its state format, run the certification, then raise STATE_FORMAT if it changed, and LLAMA_CPP";
        assert!(lock.contains(&entry), "{hint}");
    }

    #[test]
    fn kinds_have_the_numbers_of_llama_cpp() {
        let known = [
            (Kind::F32, llama_cpp_sys_2::GGML_TYPE_F32),
            (Kind::F16, llama_cpp_sys_2::GGML_TYPE_F16),
            (Kind::Q8, llama_cpp_sys_2::GGML_TYPE_Q8_0),
        ];
        for (kind, code) in known {
            assert_eq!(kind.code(), code);
            assert_eq!(Kind::from_code(code), Some(kind));
        }
        assert_eq!(Kind::from_code(2), None);
    }
}
