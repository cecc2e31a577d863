//! What a GGUF file says about itself, read without trusting it.
//!
//! Only the header is read: counts and lengths are bounded before anything is allocated, and the tensors' places are
//! compared with the file's length, so that a download that broke off is found before it is copied. The weights
//! themselves are llama.cpp's business, in the engine's process.

use std::io::{self, Read};

/// Key-value pairs; real files have about forty.
const MAX_PAIRS: u64 = 65_536;

/// Tensors; the largest models have some thousands.
const MAX_TENSORS: u64 = 1_000_000;

/// Bytes of one string; the longest in use are chat templates of some tens of kilobytes.
const MAX_STRING_BYTES: u64 = 4 * 1024 * 1024;

/// Elements of one array; the longest in use are vocabularies of 260,000.
const MAX_ARRAY: u64 = 16 * 1024 * 1024;

/// Dimensions of a tensor (llama.cpp's own limit).
const MAX_DIMENSIONS: u32 = 4;

/// Where tensors begin, unless the file says otherwise.
const DEFAULT_ALIGNMENT: u64 = 32;

/// A file is not a GGUF that can be used.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// It begins with something else.
    #[error("it is not a GGUF file (it does not begin with GGUF)")]
    NotGguf,
    /// It was written for machines of the other byte order, or with a layout that nobody reads any more.
    #[error("it is GGUF version {0}, and versions 2 and 3 can be read")]
    Version(u32),
    /// It ends too early.
    #[error("it is truncated: its header ends at byte {0} of the file; download it again")]
    HeaderTruncated(u64),
    /// Its weights end too early.
    #[error("it is truncated: {need} bytes are needed and {have} are there; download it again")]
    Truncated {
        /// Bytes that its tensors reach to.
        need: u64,
        /// Bytes of the file.
        have: u64,
    },
    /// A length or a type makes no sense.
    #[error("it is damaged: {0}; download it again")]
    Damaged(&'static str),
    /// One part of a model in several files.
    #[error("it is one of {0} parts of a model; merge them first (llama-gguf-split --merge)")]
    Split(u64),
    /// It cannot be read.
    #[error("it could not be read")]
    Io(#[source] io::Error),
}

/// What the header says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GgufHeader {
    /// The model's name as its maker wrote it.
    pub name: Option<String>,
    /// Such as `llama`, `gemma3`.
    pub architecture: String,
    /// Tokens of context that it was made for; 0 where it does not say.
    pub context_tokens: u32,
    /// Whether it has a chat template.
    pub has_chat_template: bool,
    /// Tensors.
    pub tensors: u64,
}

/// Reads the header of a file that is `file_bytes` long.
pub fn read_gguf_header(from: impl Read, file_bytes: u64) -> Result<GgufHeader, GgufError> {
    let mut source = Source { from: io::BufReader::with_capacity(256 * 1024, from), at: 0 };
    if source.bytes::<4>().map_err(|_| GgufError::NotGguf)? != *b"GGUF" {
        return Err(GgufError::NotGguf);
    }
    let version = source.u32()?;
    if !(2..=3).contains(&version) {
        return Err(GgufError::Version(version));
    }
    let tensors = bounded(source.u64()?, MAX_TENSORS, "too many tensors")?;
    let pairs = bounded(source.u64()?, MAX_PAIRS, "too many keys")?;
    let mut found = Found::default();
    for _ in 0..pairs {
        let key = source.string()?;
        let kind = source.u32()?;
        found.take(key, source.value(kind)?);
    }
    if found.parts > 1 {
        return Err(GgufError::Split(found.parts));
    }
    let reach = source.tensors(tensors)?;
    let start = source.at.next_multiple_of(found.alignment()?);
    let need = start.checked_add(reach).ok_or(GgufError::Damaged("a tensor lies beyond any file"))?;
    if need > file_bytes {
        return Err(GgufError::Truncated { need, have: file_bytes });
    }
    found.into_header(tensors)
}

fn bounded(count: u64, limit: u64, what: &'static str) -> Result<u64, GgufError> {
    if count <= limit { Ok(count) } else { Err(GgufError::Damaged(what)) }
}

/// The values of interest, as they come.
#[derive(Default)]
struct Found {
    name: Option<String>,
    architecture: String,
    context_lengths: Vec<(String, u64)>,
    has_chat_template: bool,
    alignment: Option<u64>,
    parts: u64,
}

impl Found {
    fn take(&mut self, key: String, value: Value) {
        match (key.as_str(), value) {
            ("general.name", Value::Text(text)) => self.name = Some(text),
            ("general.architecture", Value::Text(text)) => self.architecture = text,
            ("tokenizer.chat_template", Value::Text(_)) => self.has_chat_template = true,
            ("general.alignment", Value::Number(n)) => self.alignment = Some(n),
            ("split.count", Value::Number(n)) => self.parts = n,
            (_, Value::Number(n)) if key.ends_with(".context_length") => self.context_lengths.push((key, n)),
            (_, Value::Text(_) | Value::Number(_) | Value::Other) => {}
        }
    }

    fn alignment(&self) -> Result<u64, GgufError> {
        let alignment = self.alignment.unwrap_or(DEFAULT_ALIGNMENT);
        if alignment.is_power_of_two() && alignment <= 65_536 {
            Ok(alignment)
        } else {
            Err(GgufError::Damaged("its alignment is not a power of two"))
        }
    }

    fn into_header(self, tensors: u64) -> Result<GgufHeader, GgufError> {
        if self.architecture.is_empty() {
            return Err(GgufError::Damaged("it does not say which architecture it has"));
        }
        let key = format!("{}.context_length", self.architecture);
        let context = self.context_lengths.iter().find(|(name, _)| *name == key).map_or(0, |(_, n)| *n);
        Ok(GgufHeader {
            name: self.name,
            context_tokens: u32::try_from(context).unwrap_or(u32::MAX),
            has_chat_template: self.has_chat_template,
            architecture: self.architecture,
            tensors,
        })
    }
}

enum Value {
    Text(String),
    Number(u64),
    Other,
}

/// The file from its beginning, with the place that was reached.
struct Source<R> {
    from: R,
    at: u64,
}

impl<R: Read> Source<R> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), GgufError> {
        let at = self.at;
        self.from.read_exact(bytes).map_err(|e| {
            if e.kind() == io::ErrorKind::UnexpectedEof { GgufError::HeaderTruncated(at) } else { GgufError::Io(e) }
        })?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn skip(&mut self, count: u64) -> Result<(), GgufError> {
        let skipped = io::copy(&mut self.from.by_ref().take(count), &mut io::sink()).map_err(GgufError::Io)?;
        self.at += skipped;
        if skipped == count { Ok(()) } else { Err(GgufError::HeaderTruncated(self.at)) }
    }

    fn u32(&mut self) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn u64(&mut self) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    fn string(&mut self) -> Result<String, GgufError> {
        let length = bounded(self.u64()?, MAX_STRING_BYTES, "a text is too long")?;
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn skip_string(&mut self) -> Result<(), GgufError> {
        let length = bounded(self.u64()?, MAX_STRING_BYTES, "a text is too long")?;
        self.skip(length)
    }

    fn value(&mut self, kind: u32) -> Result<Value, GgufError> {
        Ok(match kind {
            STRING => Value::Text(self.string()?),
            ARRAY => {
                self.skip_array()?;
                Value::Other
            }
            // Unsigned and signed integers: lengths and counts are written as either.
            0 => Value::Number(u64::from(self.bytes::<1>()?[0])),
            2 => Value::Number(u64::from(u16::from_le_bytes(self.bytes()?))),
            4 => Value::Number(u64::from(self.u32()?)),
            5 => u64::try_from(i32::from_le_bytes(self.bytes()?)).map_or(Value::Other, Value::Number),
            10 => Value::Number(self.u64()?),
            11 => u64::try_from(i64::from_le_bytes(self.bytes()?)).map_or(Value::Other, Value::Number),
            _ => {
                self.skip(size_of_scalar(kind).ok_or(GgufError::Damaged("a value has an unknown type"))?)?;
                Value::Other
            }
        })
    }

    fn skip_array(&mut self) -> Result<(), GgufError> {
        let kind = self.u32()?;
        let count = bounded(self.u64()?, MAX_ARRAY, "a list is too long")?;
        if kind == STRING {
            return (0..count).try_for_each(|_| self.skip_string());
        }
        // Lists of lists are allowed by the format and used by nobody.
        let size = size_of_scalar(kind).ok_or(GgufError::Damaged("a list has an unknown type"))?;
        self.skip(count * size)
    }

    /// Reads the tensors' descriptions; gives how far the last one reaches behind the start of the data.
    fn tensors(&mut self, count: u64) -> Result<u64, GgufError> {
        const BEYOND: GgufError = GgufError::Damaged("a tensor is larger than any file");
        let mut reach = 0;
        for _ in 0..count {
            self.skip_string()?;
            let dimensions = self.u32()?;
            if dimensions > MAX_DIMENSIONS {
                return Err(GgufError::Damaged("a tensor has too many dimensions"));
            }
            let mut elements: u64 = 1;
            for _ in 0..dimensions {
                elements = elements.checked_mul(self.u64()?).ok_or(BEYOND)?;
            }
            let (per_block, block_bytes) = block_of(self.u32()?);
            let size = elements.div_ceil(per_block).checked_mul(block_bytes).ok_or(BEYOND)?;
            reach = self.u64()?.checked_add(size).ok_or(BEYOND)?.max(reach);
        }
        Ok(reach)
    }
}

const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// Bytes of a value that is neither text nor list.
fn size_of_scalar(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// Elements and bytes of a block of a tensor type (ggml's numbering). Of types that are not listed only the place
/// counts, so that a later type does not keep a good file out.
fn block_of(kind: u32) -> (u64, u64) {
    match kind {
        0 | 26 => (1, 4),      // F32, I32
        1 | 25 | 30 => (1, 2), // F16, I16, BF16
        24 => (1, 1),          // I8
        27 | 28 => (1, 8),     // I64, F64
        2 | 20 => (32, 18),    // Q4_0, IQ4_NL
        3 => (32, 20),         // Q4_1
        6 => (32, 22),         // Q5_0
        7 => (32, 24),         // Q5_1
        8 => (32, 34),         // Q8_0
        9 => (32, 36),         // Q8_1
        10 => (256, 84),       // Q2_K
        11 | 21 => (256, 110), // Q3_K, IQ3_S
        12 => (256, 144),      // Q4_K
        13 => (256, 176),      // Q5_K
        14 => (256, 210),      // Q6_K
        23 => (256, 136),      // IQ4_XS
        _ => (u64::MAX, 0),
    }
}

#[cfg(test)]
#[path = "gguf_tests.rs"]
pub(super) mod tests;
