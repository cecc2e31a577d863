//! The conversation with one connected member: heartbeats, and messages in both directions, on one long-lived stream.
//!
//! The peer with the smaller id opens the stream. Pings are answered here, on the swarm's own threads, whatever the
//! agent is doing; messages for an agent that does not take them are dropped and counted (all of them are repeated or
//! have deadlines of their own), while arrivals, departures and jobs keep room of their own in the queue.
//!
//! A conversation that began through a relay moves to a direct connection when there is one. Both sides write on the new
//! stream and close their half of the old one; what the old one still brings is read first. Its end may overtake the new
//! stream, which comes another way: it is waited for.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use idlewild_protocol::{ControlMessage, DepartureCause, frame};
use libp2p::Stream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::event::{Departure, SwarmEvent};
use crate::event_loop::Report;
use crate::frames::{ReadError, StreamReader, StreamWriter, framed};
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

/// How long a stream that a conversation has left may bring what is still on its way, and how long the next one may take to
/// come after the end of the last: less than a silence may last.
const DRAIN_LIMIT: Duration = Duration::from_millis(700);

/// Streams that may wait for the writer.
const MOVES_QUEUE: usize = 2;

/// What the event loop tells a conversation.
#[derive(Debug)]
pub(crate) enum Order {
    /// One of the peer's connections closed: is it still there?
    Suspect,
    /// Another process says that it is this peer. Answered if the peer proves to be alive, dropped if not.
    Prove(oneshot::Sender<()>),
    /// A better connection is there: the conversation goes on on this stream of it.
    MoveTo(Box<Stream>),
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
    pub(crate) reporter: mpsc::Sender<Report>,
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
        let (reader, writer) = framed(stream);
        let (urgent, urgent_queue) = mpsc::channel(URGENT_QUEUE);
        let (writers, next_writers) = mpsc::channel(MOVES_QUEUE);
        let frames = Frames { urgent: urgent_queue, queue, writers: next_writers };
        let writing = tokio::spawn(write(writer, frames, Arc::clone(&self.shared)));
        let mut talk = Talk {
            conversation: self,
            heartbeat: Heartbeat::new(Instant::now()),
            reader,
            counted: 0,
            on_circuit: self.state.is_relayed(),
            next: None,
            urgent,
            writers,
            goodbye: None,
            provers: Vec::new(),
            leaving: false,
        };
        let why = talk.run(orders).await;
        let Talk { mut reader, leaving, urgent, .. } = talk;
        drop(urgent);
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

/// The stream to read when the present one ends, or at this moment.
struct Next {
    reader: StreamReader,
    until: Instant,
}

/// A conversation while it lasts.
struct Talk<'a> {
    conversation: &'a Conversation,
    heartbeat: Heartbeat,
    reader: StreamReader,
    /// Bytes of this reader that the counters know.
    counted: u64,
    /// Whether it may be moved.
    on_circuit: bool,
    next: Option<Next>,
    urgent: mpsc::Sender<Vec<u8>>,
    /// What the writer is to go on with.
    writers: mpsc::Sender<StreamWriter>,
    /// The peer's, and until when a closing connection is its end.
    goodbye: Option<(DepartureCause, Instant)>,
    provers: Vec<oneshot::Sender<()>>,
    /// We said goodbye.
    leaving: bool,
}

impl Talk<'_> {
    async fn run(&mut self, mut orders: mpsc::Receiver<Order>) -> Departure {
        loop {
            if let Some(why) = self.beat() {
                return why;
            }
            let mut due = self.heartbeat.due();
            if let Some(Next { until, .. }) = self.next {
                due = due.min(until);
                if Instant::now() >= until {
                    self.turn_to_next();
                }
            }
            tokio::select! {
                message = self.reader.next::<ControlMessage>() => {
                    let new = self.reader.total() - self.counted;
                    self.conversation.shared.counters.received.fetch_add(new, Ordering::Relaxed);
                    self.counted = self.reader.total();
                    match message {
                        Ok(message) => self.handle_message(message),
                        Err(ReadError::End | ReadError::Broken) if self.next.is_some() => self.turn_to_next(),
                        Err(ReadError::End | ReadError::Broken) if self.on_circuit && self.goodbye.is_none() => {
                            if let Some(why) = self.await_move(&mut orders).await {
                                return why;
                            }
                        }
                        Err(error) => return self.ended(&error),
                    }
                }
                order = orders.recv() => match order {
                    Some(Order::MoveTo(stream)) => self.move_to(*stream),
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

    /// Writes on another stream from now on, and reads it when the present one ends.
    fn move_to(&mut self, stream: Stream) {
        let (reader, writer) = framed(stream);
        if self.writers.try_send(writer).is_ok() {
            self.turn_to_next();
            self.on_circuit = false;
            self.next = Some(Next { reader, until: Instant::now() + DRAIN_LIMIT });
        }
    }

    /// The stream through the relay has ended: the other side has moved, and this side's new stream is on its way; or the relay
    /// is gone, or the peer. Why the peer is gone, if it is.
    async fn await_move(&mut self, orders: &mut mpsc::Receiver<Order>) -> Option<Departure> {
        let until = Instant::now() + DRAIN_LIMIT;
        loop {
            match timeout_at(until.into(), orders.recv()).await {
                Ok(Some(Order::MoveTo(stream))) => {
                    self.move_to(*stream);
                    if self.next.is_some() {
                        self.turn_to_next();
                        return None;
                    }
                }
                Ok(Some(Order::Suspect)) => {}
                Ok(Some(Order::Prove(prover))) => self.provers.push(prover),
                Ok(Some(Order::Leave { .. }) | None) | Err(_) => return Some(self.departure(Departure::Closed)),
            }
        }
    }

    fn turn_to_next(&mut self) {
        if let Some(Next { reader, .. }) = self.next.take() {
            self.reader = reader;
            self.counted = 0;
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
        } else if let ControlMessage::Neighbours(neighbours) = message {
            let report = Report::Neighbours { from: self.conversation.state.peer, neighbours };
            // An event loop that is this busy hears the next one.
            drop(self.conversation.reporter.try_send(report));
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
async fn wait_for_end(reader: &mut StreamReader) {
    let end = async { while reader.next::<ControlMessage>().await.is_ok() {} };
    // A peer that does not answer in time will learn of our departure without the goodbye.
    drop(timeout(CLOSE_LIMIT, end).await);
}

/// What a conversation's writer is given.
struct Frames {
    /// To be written first; its end is the writer's.
    urgent: mpsc::Receiver<Vec<u8>>,
    queue: mpsc::Receiver<Vec<u8>>,
    /// Streams to go on with.
    writers: mpsc::Receiver<StreamWriter>,
}

/// Writes to the stream, urgent frames first, until the urgent queue ends or the stream breaks.
async fn write(mut writer: StreamWriter, mut frames: Frames, shared: Arc<Shared>) {
    let Frames { urgent, queue, writers } = &mut frames;
    let mut counted = 0;
    loop {
        tokio::select! {
            biased;
            Some(next) = writers.recv() => {
                // All was flushed. The other side reads the end of the old stream, at last when it is dropped.
                let mut old = core::mem::replace(&mut writer, next);
                tokio::spawn(async move { drop(timeout(CLOSE_LIMIT, old.close()).await) });
                counted = 0;
                continue;
            }
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
