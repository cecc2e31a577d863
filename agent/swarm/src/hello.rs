//! The exchange that opens every connection: both sides prove that they are members, or the connection ends.
//!
//! ```text
//! dialer                          listener
//!   Hello  ---------------------->          nonce, tag of the swarm, boot, versions
//!          <----------------------  Hello
//!   Credential ------------------>          checked, then the listener takes the dialer's streams
//!          <----------------------  Welcome (or Refused)
//!   checked, then the dialer takes the listener's streams
//!   Done   ---------------------->          now the listener may open streams, too
//! ```
//!
//! Runs on any stream, so that tests need no network. Who is at the other end was proved by TLS or Noise; whether that
//! peer may come in *now* (clones, limits) is asked of `admit`, which is the event loop's.

use core::time::Duration;
use std::sync::Arc;

use futures::{AsyncRead, AsyncWrite};
use idlewild_protocol::{
    BootId, CertificateChain, Credential, FRAME_HEADER_BYTES, Hello, HelloReply, MemberError, PeerId, Protocol,
    Refusal, Role, SwarmId, TicketId, TicketSecret, negotiate,
};
use rand::Rng;

use crate::config::TicketDesk;
use crate::event::RefusedBy;
use crate::frames::{FrameReader, FrameWriter, ReadError, framed};
use crate::membership::wall_clock_s;

/// The whole exchange, from the connection's first moment.
pub(crate) const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// How long a refused peer may take to read why.
const REFUSAL_LIMIT: Duration = Duration::from_millis(500);

/// The dialer's last word: an empty frame.
const DONE: [u8; FRAME_HEADER_BYTES] = [0; FRAME_HEADER_BYTES];

/// What this peer shows.
#[derive(Clone)]
pub(crate) struct Papers {
    pub(crate) me: PeerId,
    pub(crate) boot: BootId,
    pub(crate) swarm: SwarmId,
    pub(crate) chain: CertificateChain,
    pub(crate) desk: Option<Arc<dyn TicketDesk>>,
}

/// What a dialer shows.
pub(crate) enum Showing {
    /// Its certificate.
    Membership(CertificateChain),
    /// That it holds a ticket.
    Ticket(TicketId, TicketSecret),
}

/// Who was found at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) boot: BootId,
    pub(crate) role: Role,
}

/// How a hello went well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Both are members.
    Members(Member),
    /// A newcomer traded its ticket for a certificate. As listener: nothing else is served to it now.
    Newcomer(CertificateChain),
}

/// How it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// One side did not want the other.
    Refused(Refusal, RefusedBy),
    /// The stream broke, or what came was no hello.
    Broken,
}

impl From<ReadError> for Failure {
    fn from(_: ReadError) -> Self {
        Self::Broken
    }
}

fn by_us(refusal: Refusal) -> Failure {
    Failure::Refused(refusal, RefusedBy::Us)
}

/// The dialer's side.
pub(crate) async fn dial<S, F>(
    stream: S,
    (me, boot, swarm): (PeerId, BootId, SwarmId),
    other: PeerId,
    showing: Showing,
    admit: impl FnOnce(Member) -> F,
) -> Result<Outcome, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Result<(), Refusal>>,
{
    let (mut reader, mut writer) = framed(stream);
    let ours = own_hello(boot, swarm);
    send(&mut writer, &ours).await?;
    let theirs: Hello = reader.next().await?;
    check_hello(&theirs, swarm).map_err(by_us)?;
    let credential = match showing {
        Showing::Membership(chain) => Credential::Member(chain),
        Showing::Ticket(ticket, secret) => {
            let context = Hello::ticket_context(me, other, &ours.nonce, &theirs.nonce);
            Credential::Newcomer { ticket, proof: secret.proof(&context) }
        }
    };
    send(&mut writer, &credential).await?;
    match reader.next().await? {
        HelloReply::Refused(refusal) => Err(Failure::Refused(refusal, RefusedBy::Them)),
        HelloReply::Welcome { listener, newcomer } => {
            let role = check_chain(&listener, swarm, other).map_err(by_us)?;
            let member = Member { boot: theirs.boot, role };
            admit(member).await.map_err(by_us)?;
            writer.push(&DONE);
            writer.close().await.map_err(|_broken| Failure::Broken)?;
            Ok(newcomer.map_or(Outcome::Members(member), Outcome::Newcomer))
        }
    }
}

/// The listener's side.
pub(crate) async fn listen<S, F>(
    stream: S,
    papers: &Papers,
    other: PeerId,
    admit: impl FnOnce(Member) -> F,
) -> Result<Outcome, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Result<(), Refusal>>,
{
    let (mut reader, mut writer) = framed(stream);
    let theirs: Hello = reader.next().await?;
    let ours = own_hello(papers.boot, papers.swarm);
    send(&mut writer, &ours).await?;
    if let Err(refusal) = check_hello(&theirs, papers.swarm) {
        // The dialer finds out by the same rule from our hello, if the connection lasts until it has read it.
        drop(tokio::time::timeout(REFUSAL_LIMIT, wait_for_done(&mut reader)).await);
        return Err(by_us(refusal));
    }
    let outcome = match reader.next().await? {
        Credential::Member(chain) => receive_member(papers, other, &chain, theirs.boot, admit).await,
        Credential::Newcomer { ticket, proof } => {
            let context = Hello::ticket_context(other, papers.me, &theirs.nonce, &ours.nonce);
            redeem(papers, other, ticket, context, proof).await
        }
    };
    match outcome {
        Ok(outcome) => {
            let newcomer = match &outcome {
                Outcome::Newcomer(chain) => Some(chain.clone()),
                Outcome::Members(_) => None,
            };
            send(&mut writer, &HelloReply::Welcome { listener: papers.chain.clone(), newcomer }).await?;
            wait_for_done(&mut reader).await?;
            Ok(outcome)
        }
        Err(refusal) => {
            send(&mut writer, &HelloReply::Refused(refusal)).await?;
            // Closing the connection at once could overtake the reply.
            drop(tokio::time::timeout(REFUSAL_LIMIT, wait_for_done(&mut reader)).await);
            Err(by_us(refusal))
        }
    }
}

async fn receive_member<F: Future<Output = Result<(), Refusal>>>(
    papers: &Papers,
    other: PeerId,
    chain: &CertificateChain,
    boot: BootId,
    admit: impl FnOnce(Member) -> F,
) -> Result<Outcome, Refusal> {
    let role = check_chain(chain, papers.swarm, other)?;
    let member = Member { boot, role };
    admit(member).await?;
    Ok(Outcome::Members(member))
}

async fn redeem(
    papers: &Papers,
    other: PeerId,
    ticket: TicketId,
    context: Vec<u8>,
    proof: [u8; 32],
) -> Result<Outcome, Refusal> {
    let desk = papers.desk.clone().ok_or(Refusal::TicketUnknown)?;
    let proves = move |secret: &TicketSecret| secret.proves(&context, &proof);
    // A desk reads and writes a database.
    let redeemed = tokio::task::spawn_blocking(move || desk.redeem(ticket, other, &proves)).await;
    redeemed.unwrap_or(Err(Refusal::Busy)).map(Outcome::Newcomer)
}

fn own_hello(boot: BootId, swarm: SwarmId) -> Hello {
    let nonce: [u8; 32] = rand::rng().random();
    let versions = Protocol::ALL.map(|protocol| (protocol, protocol.supported())).to_vec();
    Hello { nonce, swarm_tag: Hello::tag_of(swarm, &nonce), boot, versions }
}

fn check_hello(theirs: &Hello, swarm: SwarmId) -> Result<(), Refusal> {
    if !theirs.knows(swarm) {
        return Err(Refusal::OtherSwarm);
    }
    let spoken = |protocol: Protocol| {
        let offered = theirs.versions.iter().find(|(offered, _)| *offered == protocol);
        offered.is_some_and(|(_, range)| negotiate(protocol.supported(), *range).is_some())
    };
    if Protocol::ALL.into_iter().all(spoken) { Ok(()) } else { Err(Refusal::NoCommonVersion) }
}

fn check_chain(chain: &CertificateChain, swarm: SwarmId, peer: PeerId) -> Result<Role, Refusal> {
    chain.verify(swarm, peer, wall_clock_s()).map_err(|error| match error {
        MemberError::Expired => Refusal::CertificateExpired,
        MemberError::OtherSwarm
        | MemberError::OtherPeer
        | MemberError::BadSignature
        | MemberError::IssuerMayNotInvite
        | MemberError::NotATicket => Refusal::BadCertificate,
    })
}

async fn send<W: AsyncWrite + Unpin, M: idlewild_protocol::Message>(
    writer: &mut FrameWriter<W>,
    message: &M,
) -> Result<(), Failure> {
    writer.send(message).await.map_err(|_broken| Failure::Broken)
}

async fn wait_for_done<R: AsyncRead + Unpin>(reader: &mut FrameReader<R>) -> Result<(), Failure> {
    reader.read_empty().await.map_err(Failure::from)
}
