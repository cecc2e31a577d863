//! What the swarm tells its agent, and how a peer's presence ends.

use core::time::Duration;

use idlewild_protocol::{BootId, ContextOpen, ControlMessage, DepartureCause, JobStart, PeerId, Refusal, Role};

use crate::{ContextServer, JobServer};

/// Something happened.
///
/// Of one peer: `Connected`, then any number of `Control`, `Job`, `Prepare` and `Context`, then `Departed`; never out of that order.
#[derive(Debug)]
pub enum SwarmEvent {
    /// A member is here: messages and jobs can be sent to it.
    Connected {
        /// Who.
        peer: PeerId,
        /// What it may do.
        role: Role,
        /// Which life of its process.
        boot: BootId,
    },
    /// It is gone.
    Departed {
        /// Who.
        peer: PeerId,
        /// Which life of its process.
        boot: BootId,
        /// How this was noticed.
        why: Departure,
    },
    /// It said something. Never a ping or a pong; a goodbye is passed on, too.
    Control {
        /// Who.
        peer: PeerId,
        /// What.
        message: ControlMessage,
    },
    /// It asks this peer to work.
    Job {
        /// The stream; dropping it tells the origin that the job is lost.
        job: JobServer,
        /// What to do.
        start: Box<JobStart>,
    },
    /// It asks this peer to get ready for a request that runs elsewhere.
    Prepare {
        /// The stream; dropping it tells the origin that nothing is prepared here.
        job: JobServer,
        /// For what. Of epoch 0.
        start: Box<JobStart>,
    },
    /// It wants to pull a context from this peer. Whether it may is the agent's to say.
    Context {
        /// The stream; dropping it ends it.
        context: ContextServer,
        /// Which context.
        open: ContextOpen,
    },
    /// Somebody was not let in, or did not let us in.
    Refused {
        /// The other side.
        peer: PeerId,
        /// Why.
        refusal: Refusal,
        /// Which side refused.
        by: RefusedBy,
    },
    /// An address at which others can reach this peer, fit for a ticket.
    Listening(String),
    /// The network lacks something; the swarm goes on without it.
    Hint(Hint),
}

/// How a departure was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// Its connections closed: the process ended, or its machine said so.
    Closed,
    /// Nothing was heard from it for this long: frozen, unplugged or asleep.
    Silent(Duration),
    /// It had said goodbye.
    Goodbye(DepartureCause),
    /// It sent bytes that are no message.
    Faulty,
}

/// Who refused whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedBy {
    /// This peer refused the other.
    Us,
    /// The other refused this peer.
    Them,
}

/// What the network lacks, in words for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Hint {
    /// Multicast cannot be sent, so that peers are not found by themselves.
    #[error(
        "multicast does not work on {interface} ({reason}); \
         peers there are found by static addresses only (setting static_peers)"
    )]
    NoMulticast {
        /// The interface's name.
        interface: String,
        /// What the system said.
        reason: String,
    },
    /// mDNS could not be started at all.
    #[error("peers cannot be looked for on this network ({reason}); set static_peers")]
    NoDiscovery {
        /// What the system said.
        reason: String,
    },
    /// Another process, perhaps on another machine, runs with this peer's identity.
    #[error("another agent with this peer's identity answers at {address}; was the data directory copied?")]
    Clone {
        /// Where.
        address: String,
    },
    /// A static peer's text is no address.
    #[error("static peer {text:?} is no address (expected host:port or a multiaddress) and is left out")]
    BadStaticPeer {
        /// As configured.
        text: String,
    },
}
