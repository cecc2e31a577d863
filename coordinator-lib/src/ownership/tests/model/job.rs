//! One assignment at its worker, and one preparation at its destination.

use std::collections::VecDeque;

use idlewild_protocol::{DepartureCause, Epoch, FinishReason, JobEvent, JobFailure, TokenId};

use super::super::bench::PROMPT;
use super::Network;
use crate::ownership::Preparation;

/// One assignment at its worker, which says at once all that it would ever say: what is cut off later was never said.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each may have happened without the others")]
pub(super) struct Job {
    pub(super) worker: u8,
    /// It was a destination before.
    pub(super) preparation: Option<Preparation>,
    /// Said, and not heard; in a chaos heard words stay.
    pub(super) wire: VecDeque<Said>,
    pub(super) has_refused: bool,
    pub(super) is_leaving: bool,
    /// The stream is closed.
    pub(super) is_cut: bool,
    /// It has been told to stop after this index.
    pub(super) told_to_stop: Option<u32>,
    /// It has stopped after this index.
    pub(super) stopped: Option<u32>,
    /// It was told to end, or has ended.
    pub(super) is_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Said {
    Accepted,
    Token(u32),
    Finished,
    Busy,
    Leaving,
}

/// What a destination holds: who wrote each token that it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Prepared {
    pub(super) preparation: Preparation,
    pub(super) worker: u8,
    pub(super) writers: Vec<u32>,
}

/// A token that says who wrote it.
pub(super) fn token_of(epoch: Epoch, index: u32) -> TokenId {
    TokenId(epoch.0 * 100 + index)
}

pub(super) fn writer_of(token: TokenId) -> u32 {
    token.0 / 100
}

pub(super) fn writers_of(tokens: &[TokenId]) -> Vec<u32> {
    tokens.iter().copied().map(writer_of).collect()
}

/// Tokens from here to the answer's end, and the end.
fn rest(from: u32, answer: u32) -> impl Iterator<Item = Said> {
    (from..answer).map(Said::Token).chain([Said::Finished])
}

impl Job {
    pub(super) fn new(worker: u8, from: u32, answer: u32, network: Network) -> Self {
        let said = [Said::Accepted].into_iter().chain(rest(from, answer));
        let wire = match network {
            Network::Streams => said.collect(),
            Network::Chaos => said.chain([Said::Busy, Said::Leaving]).collect(),
        };
        let (has_refused, is_leaving, is_cut, is_over) = (false, false, false, false);
        let (preparation, told_to_stop, stopped) = (None, None, None);
        Self { worker, preparation, wire, has_refused, is_leaving, is_cut, told_to_stop, stopped, is_over }
    }

    pub(super) fn refuse(&mut self) {
        self.has_refused = true;
        self.wire = VecDeque::from([Said::Busy]);
    }

    pub(super) fn leave(&mut self) {
        if !core::mem::replace(&mut self.is_leaving, true) {
            self.wire.push_front(Said::Leaving);
        }
    }

    /// Does as it was told: says nothing beyond.
    pub(super) fn stop(&mut self, after: u32) {
        self.stopped = Some(after);
        self.wire.retain(|said| match said {
            Said::Token(index) => *index <= after,
            Said::Finished => false,
            Said::Accepted | Said::Busy | Said::Leaving => true,
        });
    }

    pub(super) fn go_on(&mut self, answer: u32) {
        self.told_to_stop = None;
        if let Some(after) = self.stopped.take() {
            self.wire.extend(rest(after + 1, answer));
        }
    }

    pub(super) fn cut(&mut self) {
        self.is_cut = true;
        self.is_over = true;
        self.wire.clear();
    }
}

/// What the worker of `epoch` said, as if it were of the epoch that is `claimed`.
pub(super) fn event_of(said: Said, epoch: Epoch, claimed: Epoch) -> JobEvent {
    match said {
        Said::Accepted => JobEvent::Accepted { epoch: claimed, prompt: PROMPT.to_vec() },
        Said::Token(index) => {
            JobEvent::Token { epoch: claimed, index, id: token_of(epoch, index), text: String::new() }
        }
        Said::Finished => JobEvent::Finished { epoch: claimed, reason: FinishReason::Stop, text: String::new() },
        Said::Busy => JobEvent::Failed { epoch: claimed, failure: JobFailure::Busy },
        Said::Leaving => JobEvent::Leaving { epoch: claimed, cause: DepartureCause::Sleep, notice_ms: 1000 },
    }
}
