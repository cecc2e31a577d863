//! One connection's streams.

use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::VecDeque;

use libp2p::Stream;
use libp2p::swarm::handler::{ConnectionEvent, DialUpgradeError, FullyNegotiatedInbound, FullyNegotiatedOutbound};
use libp2p::swarm::{ConnectionHandler, ConnectionHandlerEvent, StreamUpgradeError, SubstreamProtocol};
use tokio::sync::oneshot;

use super::Kind;
use super::upgrade::Named;
use crate::OpenError;

/// How long agreeing on a stream's kind may take.
const OPEN_LIMIT: Duration = Duration::from_secs(3);

/// Streams of one connection that may be in the making at once. A burst beyond it is told so.
const MAX_OPENING: usize = 128;

const BEFORE_HELLO: &[Kind] = &[Kind::Hello];
const AFTER_HELLO: &[Kind] = &Kind::ALL;

/// Who waits for a stream.
pub(crate) type Opener = oneshot::Sender<Result<Stream, OpenError>>;

/// What the behaviour tells a connection.
#[derive(Debug)]
pub(crate) enum Instruction {
    /// Open a stream.
    Open(Kind, Opener),
    /// The other side is a member: take its streams from now on, then say so.
    Admit(oneshot::Sender<()>),
}

/// One connection's streams.
#[derive(Debug, Default)]
pub(crate) struct Handler {
    admitted: bool,
    to_open: VecDeque<(Kind, Opener)>,
    opening: usize,
    /// Bounded by the multiplexer's limit of streams.
    inbound: VecDeque<(Kind, Stream)>,
    waker: Option<Waker>,
}

impl Handler {
    fn open(&mut self, kind: Kind, opener: Opener) {
        if self.opening >= MAX_OPENING {
            // Nobody may be waiting any more.
            drop(opener.send(Err(OpenError::Busy)));
            return;
        }
        self.opening += 1;
        self.to_open.push_back((kind, opener));
    }

    fn opened(&mut self, opener: Opener, stream: Result<Stream, OpenError>) {
        self.opening = self.opening.saturating_sub(1);
        drop(opener.send(stream));
    }
}

const fn only(kind: Kind) -> Named {
    Named(match kind {
        Kind::Hello => &[Kind::Hello],
        Kind::Control => &[Kind::Control],
        Kind::Job => &[Kind::Job],
        Kind::Bulk => &[Kind::Bulk],
    })
}

impl ConnectionHandler for Handler {
    type FromBehaviour = Instruction;
    type ToBehaviour = (Kind, Stream);
    type InboundProtocol = Named;
    type OutboundProtocol = Named;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = Opener;

    fn listen_protocol(&self) -> SubstreamProtocol<Named> {
        let offered = if self.admitted { AFTER_HELLO } else { BEFORE_HELLO };
        SubstreamProtocol::new(Named(offered), ()).with_timeout(OPEN_LIMIT)
    }

    fn connection_keep_alive(&self) -> bool {
        // The event loop closes connections: strangers by a deadline, spare ones, those of departed peers.
        true
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionHandlerEvent<Named, Opener, (Kind, Stream)>> {
        if let Some(inbound) = self.inbound.pop_front() {
            return Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(inbound));
        }
        if let Some((kind, opener)) = self.to_open.pop_front() {
            let protocol = SubstreamProtocol::new(only(kind), opener).with_timeout(OPEN_LIMIT);
            return Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest { protocol });
        }
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn on_behaviour_event(&mut self, instruction: Instruction) {
        match instruction {
            Instruction::Open(kind, opener) => self.open(kind, opener),
            Instruction::Admit(done) => {
                self.admitted = true;
                // A hello that was given up does not wait any more.
                let _ = done.send(());
            }
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "libp2p may add events")]
    fn on_connection_event(&mut self, event: ConnectionEvent<'_, Named, Named, (), Opener>) {
        match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound { protocol, .. }) => {
                self.inbound.push_back(protocol);
            }
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound { protocol, info }) => {
                self.opened(info, Ok(protocol));
            }
            ConnectionEvent::DialUpgradeError(DialUpgradeError { info, error }) => {
                let why = match error {
                    StreamUpgradeError::Timeout => OpenError::TimedOut,
                    StreamUpgradeError::Apply(never) => match never {},
                    StreamUpgradeError::NegotiationFailed | StreamUpgradeError::Io(_) => OpenError::Refused,
                };
                self.opened(info, Err(why));
            }
            // Changes of names and addresses, and inbound streams that came to nothing.
            _ => {}
        }
    }
}
