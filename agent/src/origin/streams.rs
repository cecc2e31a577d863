//! The streams of one request: to its worker, to a destination that gets ready, to a worker that leaves.
//!
//! A stream is named by what it was opened for. That of a preparation becomes the worker's when the destination takes
//! over, and keeps its name: what it brings is then of the epoch that it was given, and of no other.
//!
//! They have their turns: one that brings something without pause holds up none of the others.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::task::{Context, Poll};

use idlewild_coordinator::ownership::{Input, LossReason, Preparation, StandbyNews};
use idlewild_protocol::{Epoch, JobEvent, JobRequest, JobStart, MAX_FORWARD_TOKENS, PeerId, TokenId};
use tokio::sync::mpsc;

use super::pump::{News, Pump, Workers};

/// What a stream was opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StreamName {
    /// An assignment.
    Assignment(Epoch),
    /// A destination's getting ready.
    Preparation(Preparation),
}

/// Streams that may be open at once: of a worker, of one that leaves, of a destination, and one more that is closing.
/// The oldest is closed for a fifth: its worker has been replaced twice since.
pub(super) const OPEN_MAX: usize = 4;

/// KV cache that has travelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pulled {
    pub(super) tokens: u32,
    pub(super) bytes: u64,
}

/// The open streams.
#[derive(Debug)]
pub(super) struct Streams {
    /// In the order in which they were opened.
    open: VecDeque<Open>,
    /// Preparations that became assignments.
    taken: BTreeMap<Preparation, Epoch>,
    /// Place of the stream whose turn is next.
    turn: usize,
    /// Streams that take nothing any more, to be told as lost.
    stuffed: VecDeque<StreamName>,
    /// The latest preparation, and what its destination has pulled until it took over.
    pulled: Option<(Preparation, Pulled)>,
}

#[derive(Debug)]
struct Open {
    name: StreamName,
    peer: PeerId,
    pump: Pump,
    news: mpsc::Receiver<News>,
    /// Who may pull the context from there, by our last word.
    offered: Option<PeerId>,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self { open: VecDeque::new(), taken: BTreeMap::new(), turn: 0, stuffed: VecDeque::new(), pulled: None }
    }

    /// Opens the stream of an assignment.
    pub(super) fn start(&mut self, workers: &Workers, worker: PeerId, start: JobStart) {
        let name = StreamName::Assignment(start.epoch);
        self.offer_to(worker, &start);
        self.begin(workers, worker, start, name);
    }

    /// Opens the stream of a preparation.
    pub(super) fn prepare(
        &mut self,
        workers: &Workers,
        destination: PeerId,
        preparation: Preparation,
        context: JobStart,
    ) {
        let name = StreamName::Preparation(preparation);
        self.pulled = Some((preparation, Pulled::default()));
        self.offer_to(destination, &context);
        self.begin(workers, destination, context, name);
    }

    /// Whoever holds the KV cache hears who may have it before that one can ask.
    fn offer_to(&mut self, puller: PeerId, start: &JobStart) {
        let Some(pull) = start.pull else { return };
        self.offer(|open| open.peer == pull.holder, Some(puller));
    }

    fn offer(&mut self, is_meant: impl Fn(&Open) -> bool, to: Option<PeerId>) {
        let mut names = Vec::new();
        for open in self.open.iter_mut().filter(|open| is_meant(open)) {
            open.offered = to;
            names.push(open.name);
        }
        for name in names {
            self.tell(name, JobRequest::Offer { to });
        }
    }

    fn begin(&mut self, workers: &Workers, peer: PeerId, start: JobStart, name: StreamName) {
        self.add(name, peer, Pump::start(workers, peer, start, name));
    }

    fn add(&mut self, name: StreamName, peer: PeerId, (pump, news): (Pump, mpsc::Receiver<News>)) {
        if self.open.len() == OPEN_MAX {
            self.open.pop_front();
        }
        self.open.push_back(Open { name, peer, pump, news, offered: None });
    }

    fn tell(&mut self, name: StreamName, word: JobRequest) {
        let Some(open) = self.open.iter().find(|open| open.name == name) else { return };
        if !open.pump.tell(word) {
            self.close(name);
            self.stuffed.push_back(name);
        }
    }

    /// Says something to the worker of `epoch`.
    pub(super) fn tell_worker(&mut self, epoch: Epoch, word: JobRequest) {
        let name = self.name_of(epoch);
        self.tell(name, word);
    }

    /// Says something to a destination.
    pub(super) fn tell_destination(&mut self, preparation: Preparation, word: JobRequest) {
        self.tell(StreamName::Preparation(preparation), word);
    }

    /// Sends a destination ids of the answer.
    pub(super) fn forward(&mut self, preparation: Preparation, from_index: u32, ids: &[TokenId]) {
        let mut from_index = from_index;
        for ids in ids.chunks(MAX_FORWARD_TOKENS) {
            self.tell_destination(preparation, JobRequest::Forward { from_index, ids: ids.to_vec() });
            from_index = from_index.saturating_add(u32::try_from(ids.len()).unwrap_or(u32::MAX));
        }
    }

    /// The destination is the worker of `epoch` now.
    pub(super) fn take_over(&mut self, preparation: Preparation, epoch: Epoch, from_index: u32) {
        self.taken.insert(preparation, epoch);
        self.tell_destination(preparation, JobRequest::TakeOver { epoch, from_index });
    }

    /// The source stops in a moment: the destination gets the rest ready.
    pub(super) fn catch_up(&mut self) {
        self.tell_waiting(JobRequest::CatchUp);
    }

    /// The source goes on after all: the destination just keeps up.
    pub(super) fn calm_down(&mut self) {
        self.tell_waiting(JobRequest::Keep { warm: true });
    }

    /// Says something to the destination that has not taken over, if there is one.
    fn tell_waiting(&mut self, word: JobRequest) {
        let is_destination = |name| match name {
            StreamName::Preparation(preparation) => !self.taken.contains_key(&preparation),
            StreamName::Assignment(_) => false,
        };
        if let Some(name) = self.open.iter().map(|open| open.name).find(|name| is_destination(*name)) {
            self.tell(name, word);
        }
    }

    /// Closes the stream of `epoch`: its worker stops.
    pub(super) fn close_worker(&mut self, epoch: Epoch) {
        let name = self.name_of(epoch);
        self.close(name);
    }

    /// Closes the stream of a preparation: its destination may forget the context, and nobody may pull it any more.
    pub(super) fn close_destination(&mut self, preparation: Preparation, destination: PeerId) {
        self.close(StreamName::Preparation(preparation));
        self.offer(|open| open.offered == Some(destination), None);
    }

    /// What the latest destination has pulled, as it says: it alone, and no worker.
    pub(super) fn pulled(&self) -> Pulled {
        self.pulled.map_or_else(Pulled::default, |(_, pulled)| pulled)
    }

    /// Closes all.
    pub(super) fn close_all(&mut self) {
        self.open.clear();
    }

    fn close(&mut self, name: StreamName) {
        self.open.retain(|open| open.name != name);
    }

    fn name_of(&self, epoch: Epoch) -> StreamName {
        let prepared = self.taken.iter().find(|(_, taken)| **taken == epoch);
        prepared.map_or(StreamName::Assignment(epoch), |(preparation, _)| StreamName::Preparation(*preparation))
    }

    /// What the streams bring next, as the request's machine hears it; none where that is nothing to it. May be dropped without
    /// losing anything.
    pub(super) async fn next(&mut self) -> Option<Input> {
        if let Some(name) = self.stuffed.pop_front() {
            return Some(self.lost(name, LossReason::Closed));
        }
        let (name, news) = poll_fn(|context| self.poll(context)).await;
        match news {
            News::Event(event) => {
                // Nothing comes after these, and nothing can be said any more.
                if matches!(event, JobEvent::Finished { .. } | JobEvent::Failed { .. }) {
                    self.close(name);
                }
                self.heard(name, event)
            }
            News::Lost(why) => {
                self.close(name);
                Some(self.lost(name, why))
            }
        }
    }

    /// One piece of news of one stream, and the next time of another one that has some.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<(StreamName, News)> {
        let count = self.open.len();
        for at in (0..count).map(|step| (self.turn + step) % count) {
            let open = &mut self.open[at];
            if let Poll::Ready(news) = open.news.poll_recv(context) {
                self.turn = at + 1;
                // A pump that went without a last word brings nothing more.
                return Poll::Ready((open.name, news.unwrap_or(News::Lost(LossReason::Closed))));
            }
        }
        Poll::Pending
    }

    fn heard(&mut self, name: StreamName, event: JobEvent) -> Option<Input> {
        match name {
            StreamName::Assignment(epoch) => Some(Input::Event { epoch, event }),
            StreamName::Preparation(preparation) if event.epoch() == Epoch(0) => {
                self.note_pulled(preparation, &event);
                standby_news(event).map(|news| Input::Standby { preparation, news })
            }
            StreamName::Preparation(preparation) => {
                let epoch = *self.taken.get(&preparation)?;
                (event.epoch() == epoch).then_some(Input::Event { epoch, event })
            }
        }
    }

    fn note_pulled(&mut self, of: Preparation, event: &JobEvent) {
        let JobEvent::Held { tokens: held, pulled_tokens, pulled_bytes: bytes, .. } = *event else { return };
        if let Some((_, pulled)) = self.pulled.as_mut().filter(|(latest, _)| *latest == of) {
            // It cannot have pulled more than it holds.
            *pulled = Pulled { tokens: pulled_tokens.min(held), bytes };
        }
    }

    fn lost(&self, name: StreamName, why: LossReason) -> Input {
        match name {
            StreamName::Assignment(epoch) => Input::Lost { epoch, why },
            StreamName::Preparation(preparation) => match self.taken.get(&preparation) {
                Some(&epoch) => Input::Lost { epoch, why },
                None => Input::Standby { preparation, news: StandbyNews::Lost(why) },
            },
        }
    }
}

/// What a destination says before it took over; it has nothing else to say.
fn standby_news(event: JobEvent) -> Option<StandbyNews> {
    match event {
        JobEvent::Held { tokens, .. } => Some(StandbyNews::Progress { held_tokens: tokens }),
        JobEvent::Failed { failure, .. } => Some(StandbyNews::Failed(failure)),
        JobEvent::Leaving { cause, .. } => Some(StandbyNews::Leaving(cause)),
        // Said while its model is being loaded.
        JobEvent::Prefilled { .. } => Some(StandbyNews::Alive),
        JobEvent::Accepted { .. } | JobEvent::Token { .. } | JobEvent::Finished { .. } => None,
    }
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
