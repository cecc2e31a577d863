//! Streams by name on a named connection: libp2p gives streams to a peer, and we have two connections to each.
//!
//! ```text
//! event loop --open(connection, kind)--> Streams --> Handler of that connection --> the stream, or why not
//! event loop <--------Inbound-----------  Streams <-- Handler (hello only, until the connection is admitted)
//! ```
//!
//! Nothing is dropped between the handler and the event loop: both directions go through libp2p's own bounded channels,
//! and the number of streams is bounded by the multiplexers. What does not fit waits in the other side's opener.

mod behaviour;
mod handler;
mod upgrade;

pub(crate) use behaviour::{Inbound, Streams};

/// What a stream is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The exchange that gates all others.
    Hello,
    /// Heartbeats, gossip, election, placement.
    Control,
    /// One request on one worker.
    Job,
    /// Bytes by the megabyte.
    Bulk,
}

impl Kind {
    /// All kinds, hello first.
    pub(crate) const ALL: [Self; 4] = [Self::Hello, Self::Control, Self::Job, Self::Bulk];

    /// Its name when a stream is opened. Versions are agreed on in the hello; this build knows one of each.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hello => "/idlewild/hello/1",
            Self::Control => "/idlewild/control/1",
            Self::Job => "/idlewild/job/1",
            Self::Bulk => "/idlewild/bulk/1",
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use idlewild_protocol::{Protocol, Version};

    use super::*;

    #[test]
    fn stream_names_are_those_of_the_protocol() {
        let pairs = [(Kind::Control, Protocol::Control), (Kind::Job, Protocol::Job), (Kind::Bulk, Protocol::Bulk)];
        for (kind, protocol) in pairs {
            assert_eq!(kind.name(), protocol.stream_name(Version(1)));
            assert_eq!(protocol.supported().max, Version(1), "a new version needs a name here");
        }
        for kind in Kind::ALL {
            assert_eq!(Kind::of_name(kind.name()), Some(kind));
        }
    }
}
