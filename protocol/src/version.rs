//! Which protocols there are, and which version of each two peers speak.
//!
//! Versions stand side by side: a peer offers a range for each protocol in its hello, and both sides use the highest
//! that both know. A message type belongs to one version; a new version is a new type beside the old one, never a
//! changed one.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// A version of one protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct Version(pub u16);

/// The versions of one protocol that a peer speaks, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct VersionRange {
    /// The oldest.
    pub min: Version,
    /// The newest.
    pub max: Version,
}

/// A conversation between two peers, each on streams of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Protocol {
    /// Heartbeats, digests, election, placement.
    Control,
    /// One request on one worker.
    Job,
    /// Bytes by the megabyte: KV chunks, models, bandwidth probes.
    Bulk,
}

impl Protocol {
    /// Every protocol that a hello names, in this order: each at the number that stands for it on the wire.
    pub const ALL: [Self; 3] = [Self::Control, Self::Job, Self::Bulk];

    /// The protocol that a hello's number names; none where only later builds know it.
    pub(crate) fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }

    /// The versions that this build speaks.
    pub const fn supported(self) -> VersionRange {
        match self {
            Self::Control | Self::Job | Self::Bulk => VersionRange { min: Version(1), max: Version(1) },
        }
    }

    /// The protocol's name on a stream, for the given version.
    pub fn stream_name(self, version: Version) -> String {
        let name = match self {
            Self::Control => "control",
            Self::Job => "job",
            Self::Bulk => "bulk",
        };
        format!("/idlewild/{name}/{}", version.0)
    }
}

/// The highest version that both ranges hold; none where they do not meet.
pub fn negotiate(ours: VersionRange, theirs: VersionRange) -> Option<Version> {
    let version = ours.max.min(theirs.max);
    (version >= ours.min && version >= theirs.min).then_some(version)
}
