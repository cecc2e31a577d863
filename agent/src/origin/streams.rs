//! The streams of one request: to its worker, to a destination that gets ready, to a worker that leaves.
//!
//! A stream is named by what it was opened for. That of a preparation becomes the worker's when the destination takes
//! over, and keeps its name: what it brings is then of the epoch that it was given, and of no other.

use std::collections::{BTreeMap, VecDeque};

use idlewild_coordinator::ownership::{Input, LossReason, Preparation, StandbyNews};
use idlewild_protocol::{Epoch, JobEvent, JobRequest, JobStart, MAX_FORWARD_TOKENS, PeerId, TokenId};
use tokio::sync::mpsc;

use super::pump::{NEWS, News, NewsOf, Pump, Workers};

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
const OPEN_MAX: usize = 4;

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
    news_in: mpsc::Sender<NewsOf>,
    news: mpsc::Receiver<NewsOf>,
    /// Streams that take nothing any more, to be told as lost.
    stuffed: VecDeque<StreamName>,
    /// What the latest destination has pulled.
    pulled: Pulled,
}

#[derive(Debug)]
struct Open {
    name: StreamName,
    peer: PeerId,
    pump: Pump,
    /// Who may pull the context from there, by our last word.
    offered: Option<PeerId>,
}

impl Streams {
    pub(super) fn new() -> Self {
        let (news_in, news) = mpsc::channel(NEWS);
        Self {
            open: VecDeque::new(),
            taken: BTreeMap::new(),
            news_in,
            news,
            stuffed: VecDeque::new(),
            pulled: Pulled::default(),
        }
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
        self.pulled = Pulled::default();
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
        if self.open.len() == OPEN_MAX {
            self.open.pop_front();
        }
        let pump = Pump::start(workers, peer, start, name, self.news_in.clone());
        self.open.push_back(Open { name, peer, pump, offered: None });
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

    /// What the latest destination has pulled, as it says.
    pub(super) fn pulled(&self) -> Pulled {
        self.pulled
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

    /// What the streams bring next, as the request's machine hears it. May be dropped without losing anything.
    pub(super) async fn next(&mut self) -> Input {
        loop {
            if let Some(name) = self.stuffed.pop_front() {
                return self.lost(name, LossReason::Closed);
            }
            // Never closed: a sender is ours.
            let Some((name, news)) = self.news.recv().await else { return std::future::pending().await };
            let heard = match news {
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
            };
            if let Some(input) = heard {
                return input;
            }
        }
    }

    fn heard(&mut self, name: StreamName, event: JobEvent) -> Option<Input> {
        if let JobEvent::Held { pulled_tokens: tokens, pulled_bytes: bytes, .. } = event {
            self.pulled = Pulled { tokens, bytes };
        }
        match name {
            StreamName::Assignment(epoch) => Some(Input::Event { epoch, event }),
            StreamName::Preparation(preparation) if event.epoch() == Epoch(0) => {
                standby_news(event).map(|news| Input::Standby { preparation, news })
            }
            StreamName::Preparation(preparation) => {
                let epoch = *self.taken.get(&preparation)?;
                (event.epoch() == epoch).then_some(Input::Event { epoch, event })
            }
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
        JobEvent::Accepted { .. } | JobEvent::Prefilled { .. } | JobEvent::Token { .. } | JobEvent::Finished { .. } => {
            None
        }
    }
}
