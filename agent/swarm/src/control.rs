//! The conversation with one connected member: heartbeats, and messages in both directions, on one long-lived stream.
//!
//! The peer with the smaller id opens the stream. Pings are answered here, on the swarm's own threads, whatever the
//! agent is doing; messages for an agent that does not take them are dropped and counted (all of them are repeated or
//! have deadlines of their own), while arrivals, departures and jobs keep room of their own in the queue.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use futures::io::{ReadHalf, WriteHalf};
use idlewild_protocol::{ControlMessage, DepartureCause, frame};
use libp2p::Stream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::event::{Departure, SwarmEvent};
use crate::frames::{FrameReader, FrameWriter, ReadError, framed};
use crate::handle::Shared;
use crate::heartbeat::{Beat, Heartbeat};
use crate::peer::PeerState;

/// Events that may wait for the agent.
pub(crate) const EVENT_QUEUE: usize = 1024;

/// Of those, what control messages leave free for arrivals, departures and jobs.
const EVENT_RESERVE: usize = 256;

/// Pings, pongs and a goodbye that may wait for the stream. More than these mean that nothing gets through anyway.
const URGENT_QUEUE: usize = 16;

/// Frames that are written together.
const MAX_BATCH: usize = 32;

/// How long a closing connection may follow a goodbye's notice to count as its end.
const GOODBYE_LIMIT: Duration = Duration::from_secs(5);

/// How long the last frames may take.
const CLOSE_LIMIT: Duration = Duration::from_millis(300);

/// What the event loop tells a conversation.
#[derive(Debug)]
pub(crate) enum Order {
    /// One of the peer's connections closed: is it still there?
    Suspect,
    /// Another process says that it is this peer. Answered if the peer proves to be alive, dropped if not.
    Prove(oneshot::Sender<()>),
    /// This peer leaves.
    Leave { cause: DepartureCause, notice_ms: u32 },
}

/// What a conversation shares with the peer's jobs, so that events of one peer keep their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Presence {
    /// `Connected` was told.
    pub(crate) told: CancellationToken,
    /// The peer departed; nothing more of it is to be told.
    pub(crate) over: CancellationToken,
    /// Tasks that may still tell something.
    pub(crate) tellers: TaskTracker,
}

/// The conversation with one member.
pub(crate) struct Conversation {
    pub(crate) state: Arc<PeerState>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) events: mpsc::Sender<SwarmEvent>,
    pub(crate) presence: Presence,
}

impl Conversation {
    /// Talks until the peer departs. `tell_departed` does the rest, after the connections were given up.
    pub(crate) async fn run(
        &self,
        stream: Stream,
        queue: mpsc::Receiver<Vec<u8>>,
        orders: mpsc::Receiver<Order>,
    ) -> Departure {
        let PeerState { peer, role, boot, .. } = *self.state;
        // An agent that is gone takes no events; the event loop ends soon, too.
        drop(self.events.send(SwarmEvent::Connected { peer, role, boot }).await);
        self.presence.told.cancel();
        tracing::info!(%peer, boot = boot.0, ?role, "peer connected");
        let (mut reader, writer) = framed(stream);
        let (urgent, urgent_queue) = mpsc::channel(URGENT_QUEUE);
        let writing = tokio::spawn(write(writer, urgent_queue, queue, Arc::clone(&self.shared)));
        let mut talk = Talk {
            conversation: self,
            heartbeat: Heartbeat::new(Instant::now()),
            urgent,
            goodbye: None,
            provers: Vec::new(),
            leaving: false,
        };
        let why = talk.run(&mut reader, orders).await;
        let leaving = talk.leaving;
        drop(talk);
        // The writer ends with its urgent queue; what it cannot write in time is lost with the stream.
        let stop = writing.abort_handle();
        if timeout(CLOSE_LIMIT, writing).await.is_err() {
            stop.abort();
        }
        if leaving {
            wait_for_end(&mut reader).await;
        }
        why
    }

    /// Tells the agent, after everything else that was to be told of this peer.
    pub(crate) async fn tell_departed(&self, why: Departure) {
        let PeerState { peer, boot, .. } = *self.state;
        self.shared.peers.write().unwrap_or_else(PoisonError::into_inner).remove(&peer);
        self.presence.over.cancel();
        self.presence.tellers.close();
        self.presence.tellers.wait().await;
        tracing::info!(%peer, boot = boot.0, ?why, "peer departed");
        drop(self.events.send(SwarmEvent::Departed { peer, boot, why }).await);
    }
}

/// A conversation while it lasts.
struct Talk<'a> {
    conversation: &'a Conversation,
    heartbeat: Heartbeat,
    urgent: mpsc::Sender<Vec<u8>>,
    /// The peer's, and until when a closing connection is its end.
    goodbye: Option<(DepartureCause, Instant)>,
    provers: Vec<oneshot::Sender<()>>,
    /// We said goodbye.
    leaving: bool,
}

impl Talk<'_> {
    async fn run(
        &mut self,
        reader: &mut FrameReader<ReadHalf<Stream>>,
        mut orders: mpsc::Receiver<Order>,
    ) -> Departure {
        let mut counted = 0;
        loop {
            if let Some(why) = self.beat() {
                return why;
            }
            let due = self.heartbeat.due();
            tokio::select! {
                message = reader.next::<ControlMessage>() => {
                    self.conversation.shared.counters.received.fetch_add(reader.total() - counted, Ordering::Relaxed);
                    counted = reader.total();
                    match message {
                        Ok(message) => self.handle_message(message),
                        Err(error) => return self.ended(&error),
                    }
                }
                order = orders.recv() => match order {
                    Some(Order::Leave { cause, notice_ms }) => {
                        self.say(&ControlMessage::Goodbye { cause, notice_ms });
                        self.leaving = true;
                        return Departure::Closed;
                    }
                    Some(Order::Suspect) => self.heartbeat.suspect(Instant::now(), None),
                    Some(Order::Prove(prover)) => {
                        let limit = self.heartbeat.timeout();
                        self.heartbeat.suspect(Instant::now(), Some(limit));
                        self.provers.push(prover);
                    }
                    // The event loop has given the peer up.
                    None => return self.departure(Departure::Closed),
                },
                () = sleep_until(due.into()) => {}
            }
        }
    }

    /// Does what the heartbeat asks for; gives why the peer is gone, if it is.
    fn beat(&mut self) -> Option<Departure> {
        loop {
            match self.heartbeat.poll(Instant::now()) {
                Beat::Wait => return None,
                Beat::Ping(nonce) => self.say(&ControlMessage::Ping { nonce }),
                // Silence that was cut short began with a connection that closed.
                Beat::Silent(silence) if silence < self.heartbeat.timeout() => {
                    return Some(self.departure(Departure::Closed));
                }
                Beat::Silent(silence) => return Some(self.departure(Departure::Silent(silence))),
            }
        }
    }

    fn handle_message(&mut self, message: ControlMessage) {
        let now = Instant::now();
        self.heartbeat.heard(now);
        if let ControlMessage::Ping { nonce } = message {
            self.say(&ControlMessage::Pong { nonce });
        } else if let ControlMessage::Pong { nonce } = message {
            self.handle_pong(nonce, now);
        } else {
            if let ControlMessage::Goodbye { cause, notice_ms } = message {
                let limit = Duration::from_millis(notice_ms.into()) + GOODBYE_LIMIT;
                self.goodbye = Some((cause, now + limit));
            }
            self.tell(message);
        }
    }

    fn handle_pong(&mut self, nonce: u64, now: Instant) {
        if self.heartbeat.pong(nonce, now) {
            for prover in self.provers.drain(..) {
                // Whoever asked may have given up.
                let _ = prover.send(());
            }
        }
        if let Some(round_trip) = self.heartbeat.round_trip() {
            self.conversation.state.set_rtt(round_trip);
        }
    }

    fn tell(&self, message: ControlMessage) {
        let Conversation { events, shared, state, .. } = self.conversation;
        let told = events.capacity() > EVENT_RESERVE
            && events.try_send(SwarmEvent::Control { peer: state.peer, message }).is_ok();
        if !told && shared.counters.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(peer = %state.peer, "the agent does not take control messages; dropping them");
        }
    }

    fn say(&self, message: &ControlMessage) {
        // These messages are a few bytes long; a full queue means a stream that does not move, which the heartbeat
        // sees.
        if let Ok(frame) = frame(message) {
            drop(self.urgent.try_send(frame));
        }
    }

    fn ended(&self, error: &ReadError) -> Departure {
        match error {
            ReadError::End | ReadError::Broken => self.departure(Departure::Closed),
            ReadError::Malformed(what) => {
                tracing::warn!(peer = %self.conversation.state.peer, %what, "peer sent a malformed control message");
                Departure::Faulty
            }
        }
    }

    fn departure(&self, otherwise: Departure) -> Departure {
        match self.goodbye {
            Some((cause, until)) if Instant::now() <= until => Departure::Goodbye(cause),
            Some(_) | None => otherwise,
        }
    }
}

/// The peer ends its stream when it has read ours to the end, goodbye included. Closing the connection before that
/// would overtake what is still on its way.
async fn wait_for_end(reader: &mut FrameReader<ReadHalf<Stream>>) {
    let end = async { while reader.next::<ControlMessage>().await.is_ok() {} };
    // A peer that does not answer in time will learn of our departure without the goodbye.
    drop(timeout(CLOSE_LIMIT, end).await);
}

/// Writes to the stream, urgent frames first, until the urgent queue ends or the stream breaks.
async fn write(
    mut writer: FrameWriter<WriteHalf<Stream>>,
    mut urgent: mpsc::Receiver<Vec<u8>>,
    mut queue: mpsc::Receiver<Vec<u8>>,
    shared: Arc<Shared>,
) {
    let mut counted = 0;
    loop {
        tokio::select! {
            biased;
            frame = urgent.recv() => match frame {
                Some(frame) => writer.push(&frame),
                None => break,
            },
            Some(frame) = queue.recv() => writer.push(&frame),
        }
        for _ in 1..MAX_BATCH {
            match urgent.try_recv().or_else(|_| queue.try_recv()) {
                Ok(frame) => writer.push(&frame),
                Err(_empty) => break,
            }
        }
        if writer.flush().await.is_err() {
            return;
        }
        shared.counters.sent.fetch_add(writer.total() - counted, Ordering::Relaxed);
        counted = writer.total();
    }
    // The other side sees the end of the stream; an error means that it does so anyway.
    drop(writer.close().await);
}
