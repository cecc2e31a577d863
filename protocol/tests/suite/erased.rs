//! Messages of any kind behind one type, so that a test runs over all kinds.

use std::fmt::Debug;

use data_encoding::HEXLOWER;
use idlewild_protocol::{
    BulkRequest, CertificateChain, ContextReply, ContextRequest, ControlMessage, Credential, DecodeError, Digest,
    FRAME_HEADER_BYTES, Hello, HelloReply, JobEvent, JobRequest, Measured, Message, Ticket, frame, frame_len,
};

/// A kind of message: what a test can ask of it without knowing its type.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) max_bytes: usize,
    /// Decodes a body, and nothing else.
    pub(crate) decode: fn(&[u8]) -> Result<(), DecodeError>,
    /// Decodes a body and encodes it again.
    pub(crate) again: fn(&[u8]) -> Result<Again, DecodeError>,
    /// Asks for a body's length by its header.
    pub(crate) frame_len: fn([u8; FRAME_HEADER_BYTES]) -> Result<usize, DecodeError>,
}

/// What became of a body that was decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Again {
    pub(crate) debug: String,
    pub(crate) bytes: Vec<u8>,
    /// Whether the bytes written give an equal message.
    pub(crate) is_same: bool,
}

const fn kind<M: Message + Debug + PartialEq>(name: &'static str) -> Kind {
    Kind {
        name,
        max_bytes: M::MAX_BYTES,
        decode: |body| M::from_bytes(body).map(drop),
        again: again::<M>,
        frame_len: frame_len::<M>,
    }
}

fn again<M: Message + Debug + PartialEq>(body: &[u8]) -> Result<Again, DecodeError> {
    let message = M::from_bytes(body)?;
    let bytes = message.to_bytes().unwrap();
    Ok(Again { debug: words(&message), is_same: M::from_bytes(&bytes).unwrap() == message, bytes })
}

/// Every kind that has bytes of its own.
pub(crate) const KINDS: [Kind; 13] = [
    kind::<Hello>("Hello"),
    kind::<Credential>("Credential"),
    kind::<HelloReply>("HelloReply"),
    kind::<ControlMessage>("ControlMessage"),
    kind::<Digest>("Digest"),
    kind::<JobRequest>("JobRequest"),
    kind::<JobEvent>("JobEvent"),
    kind::<BulkRequest>("BulkRequest"),
    kind::<Measured>("Measured"),
    kind::<ContextRequest>("ContextRequest"),
    kind::<ContextReply>("ContextReply"),
    kind::<CertificateChain>("CertificateChain"),
    kind::<Ticket>("Ticket"),
];

/// A message with a name, its kind and its frame.
pub(crate) struct Sample {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    pub(crate) frame: Vec<u8>,
    pub(crate) debug: String,
}

impl Sample {
    pub(crate) fn of<M: Message + Debug + PartialEq>(name: &'static str, message: &M) -> Self {
        let kind =
            *KINDS.iter().find(|kind| std::any::type_name::<M>().ends_with(&format!("::{}", kind.name))).unwrap();
        Self { kind, name, frame: frame(message).unwrap(), debug: words(message) }
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.frame[FRAME_HEADER_BYTES..]
    }
}

/// `Debug` of a message, with keys, nonces and signatures in hexadecimal.
fn words(message: &impl Debug) -> String {
    let debug = format!("{message:?}");
    let mut words = String::new();
    let mut rest = debug.as_str();
    while let Some((before, after)) = rest.split_once('[') {
        words.push_str(before);
        let bytes = after.split_once(']').and_then(|(list, after)| Some((hex(list)?, after)));
        if let Some((hex, after)) = bytes {
            words.push_str(&hex);
            rest = after;
        } else {
            words.push('[');
            rest = after;
        }
    }
    words + rest
}

/// A list of at least eight bytes as hexadecimal digits.
fn hex(list: &str) -> Option<String> {
    let bytes: Vec<u8> = list.split(", ").map(str::parse).collect::<Result<_, _>>().ok()?;
    (bytes.len() >= 8).then(|| HEXLOWER.encode(&bytes))
}

/// Kinds that are one structure: their first byte is not the number of a variant.
pub(crate) const STRUCTURES: [&str; 5] = ["Hello", "Digest", "Measured", "CertificateChain", "Ticket"];
