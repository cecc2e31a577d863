//! Why something asked of the swarm did not happen.

use std::io;

use idlewild_protocol::{ContextRefusal, DecodeError, MemberError, Refusal};

/// Why a swarm could not be started. Nothing runs after it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another process listens there.
    #[error(
        "{transport} port {port} of {ip} is in use; stop the other program, or set swarm.port (--port) to another, or to 0 \
         for any"
    )]
    PortInUse {
        /// The number.
        port: u16,
        /// `TCP` or `UDP`.
        transport: &'static str,
        /// The address.
        ip: std::net::IpAddr,
    },
    /// The system does not allow it.
    #[error(
        "cannot listen for peers on {transport} port {port} of {ip}; set swarm.listen (--listen) and swarm.port (--port) \
         to what this machine has"
    )]
    Listen {
        /// The number.
        port: u16,
        /// `TCP` or `UDP`.
        transport: &'static str,
        /// The address.
        ip: std::net::IpAddr,
        /// What the system said.
        source: io::Error,
    },
    /// No port number is free in TCP and UDP alike.
    #[error("no port is free for both TCP and UDP; name one with swarm.port (--port)")]
    NoFreePort,
    /// `listen` is empty.
    #[error("there is no address to listen on; name one with swarm.listen (--listen)")]
    NothingToListenOn,
    /// The certificate is another peer's: the identity and the certificate do not belong together.
    #[error("the certificate was issued to another peer than this identity; join the swarm again")]
    OtherPeersCertificate,
    /// The certificate has run out.
    #[error("this peer's certificate has expired; join the swarm again with a new ticket")]
    CertificateExpired,
    /// The certificate is not one of this swarm.
    #[error("this peer's certificate is not valid")]
    BadCertificate(#[source] MemberError),
    /// The seed is no key.
    #[error("the identity is not an Ed25519 key")]
    BadIdentity,
    /// Threads or cryptography could not be set up.
    #[error("cannot start the network runtime")]
    Runtime(#[source] io::Error),
}

/// Why a control message was not queued. It is not sent later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// No such member is connected.
    #[error("the peer is not connected")]
    NotConnected,
    /// The peer takes messages more slowly than they are made.
    #[error("too many messages wait for the peer")]
    QueueFull,
    /// The message is larger than its kind may be: a bug.
    #[error("the message is too large")]
    TooLarge,
}

/// Why a stream could not be opened. No job was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No such member is connected, or it departed meanwhile.
    #[error("the peer is not connected")]
    NotConnected,
    /// It has no connection for bulk data (yet).
    #[error("the peer has no connection for bulk data")]
    NoBulk,
    /// The other side did not take the stream.
    #[error("the peer did not take the stream")]
    Refused,
    /// It did not answer in time.
    #[error("the peer did not answer in time")]
    TimedOut,
    /// The job is larger than a job may be.
    #[error("the job is too large to send")]
    TooLarge,
    /// Too many streams to this peer wait to be opened.
    #[error("too many streams to the peer are being opened")]
    Busy,
}

/// Why a job's stream ended. Nothing more comes from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JobLost {
    /// The other side closed it, or is gone.
    #[error("the other side closed the job's stream")]
    Closed,
    /// The other side takes nothing any more.
    #[error("the other side stopped taking the job's messages")]
    Stalled,
    /// What came is no message.
    #[error("the other side sent a malformed message")]
    Malformed(#[source] DecodeError),
    /// What should be sent is too large: a bug.
    #[error("the job's message is too large to send")]
    TooLarge,
}

/// Why a context's stream ended. Nothing more comes from it; what came before is whole. Another stream may be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ContextLost {
    /// The other side closed it, or is gone.
    #[error("the other side closed the context's stream")]
    Closed,
    /// Nothing comes any more, or nothing is taken.
    #[error("the context's stream stands still")]
    Stalled,
    /// The holder serves this peer no context now.
    #[error("the holder sends no context")]
    Refused(#[source] ContextRefusal),
    /// What came is no message.
    #[error("the other side sent a malformed message")]
    Malformed(#[source] DecodeError),
    /// The other side broke the rules: nothing of it is to be believed.
    #[error("the other side of the context's stream does not keep to the rules")]
    Faulty(#[source] ContextFault),
}

/// Which rule the other side of a context's stream broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ContextFault {
    /// A chunk of other positions than were asked for.
    #[error("the chunk is not of the positions that were asked for")]
    OtherRange,
    /// A chunk of another model.
    #[error("the chunk is of another model")]
    OtherModel,
    /// A chunk that is laid out otherwise.
    #[error("the chunk is laid out otherwise")]
    OtherLayout,
    /// Bytes that are not those of the header's hash.
    #[error("the chunk's bytes are not those of its hash")]
    Hash,
    /// A chunk that was not asked for.
    #[error("the chunk was not asked for")]
    Unasked,
    /// More pulls at once than may be.
    #[error("too many chunks were asked for at once")]
    TooManyPulls,
    /// More bytes received than were sent, or fewer than before.
    #[error("the bytes received are not among those sent")]
    WrongCount,
}

/// Why a chunk was not asked for. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PullError {
    /// As many are under way as may be: take one first.
    #[error("as many chunks are under way as may be")]
    Full,
    /// No range of at least one position and at most as many as a chunk may have.
    #[error("the range of positions is none that a chunk may have")]
    BadRange,
    /// The stream has ended; `next` says why.
    #[error("the context's stream has ended")]
    Ended,
}

/// Why a pull was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// No pull waits for an answer: a bug.
    #[error("no pull waits for an answer")]
    NotPulled,
    /// The chunk is empty or larger than one may be; the pull waits still.
    #[error("the chunk is empty or too large")]
    BadSize,
    /// The stream has ended.
    #[error("the context's stream has ended")]
    Lost(#[source] ContextLost),
}

/// Why the link to a peer was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The connection for bulk is missing.
    #[error("the peer has no connection for bulk data")]
    NoBulk,
    /// The day's bytes for this pair are used up.
    #[error("the probes' bytes of this day are used up")]
    BudgetSpent,
    /// A probe of this peer runs already.
    #[error("the peer is being probed already")]
    Running,
    /// The stream could not be opened.
    #[error("the probe's stream could not be opened")]
    Open(#[source] OpenError),
    /// It broke or took too long.
    #[error("the probe did not finish")]
    Unfinished,
}

/// Why a ticket did not make this peer a member. Nothing has changed, unless the ticket was used up.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The ticket's time is over by this machine's clock.
    #[error("the ticket has expired; ask for a new one")]
    Expired,
    /// The seed is no key.
    #[error("the identity is not an Ed25519 key")]
    BadIdentity,
    /// The ticket names no address that can be dialled.
    #[error("the ticket names no usable address")]
    NoAddress,
    /// Nobody answers, or somebody else does.
    #[error(
        "the issuer cannot be reached at {addresses} ({reason}); \
         is its agent running, and is this machine on its network?"
    )]
    Unreachable {
        /// What was tried.
        addresses: String,
        /// What the last attempt said.
        reason: String,
    },
    /// The issuer says no.
    #[error("the issuer refused: {0}")]
    Refused(Refusal),
    /// The issuer's answer is not what a member would send.
    #[error("the issuer's answer is not valid")]
    BadAnswer,
    /// Threads or cryptography could not be set up.
    #[error("cannot start the network runtime")]
    Runtime(#[source] io::Error),
}
