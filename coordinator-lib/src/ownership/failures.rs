//! Who failed this request, and what that forbids.

use std::collections::BTreeMap;

use idlewild_protocol::{JobFailure, MAX_EXCLUDED_PEERS, PeerId};

use super::deadline::Silences;
use crate::Now;
use crate::ownership::{Ending, Limits, Silence};

/// The failures of one request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Failures {
    /// The latest of each peer. Bounded by [`Limits::assignments_max`].
    latest: BTreeMap<PeerId, Failure>,
    /// Assignments since the last token.
    fruitless: u32,
    /// Engine failures since the last token.
    engine: u32,
    /// Assignments of this request that ended in silence.
    pub(super) silences: Silences,
    /// The latest count of the prompt by a worker that it did not fit, and the largest context of such a worker.
    pub(super) too_long: Option<TooLong>,
    /// Its next failure is perhaps another's fault.
    pardoned: Option<PeerId>,
}

/// What workers said of a prompt that did not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TooLong {
    pub(super) prompt_tokens: u32,
    pub(super) context_tokens: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    how: Ending,
    at: Now,
    /// Asking this peer again would bring the same.
    lasting: bool,
}

impl Failures {
    /// Remembers how an assignment ended without an answer.
    pub(super) fn remember(&mut self, now: Now, peer: PeerId, how: Ending, brought_tokens: bool) {
        if brought_tokens {
            self.fruitless = 0;
            self.engine = 0;
        } else if !how.is_refusal() {
            self.fruitless += 1;
        }
        match &how {
            Ending::Silent(Silence::BeforeFirstToken) => self.silences.starts += 1,
            Ending::Silent(Silence::BetweenTokens) => self.silences.tokens += 1,
            Ending::Failed(JobFailure::Engine(_)) => self.engine += 1,
            Ending::Failed(JobFailure::PromptTooLong { prompt_tokens, context_tokens }) => {
                let largest = self.too_long.map_or(0, |seen| seen.context_tokens).max(*context_tokens);
                self.too_long = Some(TooLong { prompt_tokens: *prompt_tokens, context_tokens: largest });
            }
            Ending::Failed(
                JobFailure::Model(_)
                | JobFailure::BadInput(_)
                | JobFailure::Busy
                | JobFailure::Leaving
                | JobFailure::Restarting,
            )
            | Ending::Silent(Silence::Endless)
            | Ending::Finished(_)
            | Ending::HandedOver
            | Ending::Requeued
            | Ending::Lost(_)
            | Ending::Left(_)
            | Ending::Faulty(_)
            | Ending::ClientGone => {}
        }
        let lasting = is_lasting(&how) && self.pardoned.take() != Some(peer);
        self.latest.insert(peer, Failure { how, at: now, lasting });
    }

    /// What this peer says next is not held against it for longer than any passing failure.
    pub(super) fn pardon(&mut self, peer: PeerId) {
        self.pardoned = Some(peer);
    }

    /// Whether another try is one too many.
    pub(super) fn are_enough(&self, limits: &Limits) -> bool {
        self.fruitless >= limits.fruitless_max || self.engine >= limits.engine_failures_max
    }

    /// Assignments in a row without a token.
    pub(super) fn fruitless(&self) -> u32 {
        self.fruitless
    }

    /// Peers that the next placement must leave out, those that can never serve it first. With `forgiving` only those:
    /// nobody else is left, and a peer that was busy or lost a moment ago may be back.
    pub(super) fn excluded(&self, now: Now, limits: &Limits, forgiving: bool) -> Vec<PeerId> {
        let recent = |f: &Failure| !forgiving && now < f.at + limits.exclusion;
        let lasting = self.latest.iter().filter(|(_, f)| f.lasting);
        let passing = self.latest.iter().filter(|(_, f)| !f.lasting && recent(f));
        lasting.chain(passing).map(|(peer, _)| *peer).take(MAX_EXCLUDED_PEERS).collect()
    }

    /// Whether asking `peer` again would bring the same failure.
    pub(super) fn is_lasting(&self, peer: PeerId) -> bool {
        self.latest.get(&peer).is_some_and(|f| f.lasting)
    }

    /// Each failed peer and how.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PeerId, &Ending)> {
        self.latest.iter().map(|(peer, failure)| (*peer, &failure.how))
    }
}

fn is_lasting(how: &Ending) -> bool {
    match how {
        Ending::Failed(JobFailure::Model(_) | JobFailure::PromptTooLong { .. } | JobFailure::BadInput(_))
        | Ending::Faulty(_)
        | Ending::Silent(Silence::Endless) => true,
        Ending::Failed(JobFailure::Busy | JobFailure::Engine(_) | JobFailure::Leaving | JobFailure::Restarting)
        | Ending::Silent(Silence::BeforeFirstToken | Silence::BetweenTokens)
        | Ending::Finished(_)
        | Ending::HandedOver
        | Ending::Requeued
        | Ending::Lost(_)
        | Ending::Left(_)
        | Ending::ClientGone => false,
    }
}

/// For the model checker. How a peer failed matters for the words of an error only.
#[cfg(test)]
impl core::hash::Hash for Failures {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        for (peer, failure) in &self.latest {
            (peer, failure.at, failure.lasting).hash(state);
        }
        (self.fruitless, self.engine, self.silences, self.too_long, self.pardoned).hash(state);
    }
}
