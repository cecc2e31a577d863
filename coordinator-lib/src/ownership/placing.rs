//! Finding a worker: questions, answers, and what to do when there is none.

use std::collections::BTreeMap;

use idlewild_protocol::{PeerId, PeerTerms, PlaceOutcome, PlaceReply, PlaceRequest, Unfit};

use crate::Now;
use crate::ownership::{Output, PeerReason, RequestError, RequestErrorKind, RequestMachine, Why};

/// Output that a request which passed its estimate is expected to bring still: a quarter of what it has, at least this.
const RESIDUAL_TOKENS_MIN: u32 = 16;

/// What a guessed length is divided by where no peer has room for all of it: no tokenizer needs fewer tokens than that,
/// but for blanks.
const GUESS_OVER_LEAST: u32 = 4;

/// The search for a worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Placing {
    /// Questions asked so far; the number of the latest.
    attempt: u32,
    /// The latest question, if it waits for its answer.
    question: Option<Question>,
    /// None while a worker runs that is not leaving.
    search: Option<Search>,
    /// The guess at the prompt's length stood in the way: peers that it fits by guess / [`GUESS_OVER_LEAST`] may count it.
    doubtful: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Question {
    /// To ourselves.
    alone: bool,
    due: Now,
}

/// One search, from the loss of a worker (or the request's beginning) to the next start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Search {
    /// Since when nobody runs it.
    since: Now,
    /// Nobody was found at first: those whose failure may have passed are asked for again.
    forgiving: bool,
    /// When to ask again; none while a question waits for its answer.
    retry_at: Option<Now>,
}

impl Placing {
    pub(super) fn timeout(&self) -> Option<Now> {
        [self.question.map(|q| q.due), self.search.and_then(|s| s.retry_at)].into_iter().flatten().min()
    }

    /// A worker was found. Since when it had been looked for.
    pub(super) fn end_search(&mut self) -> Option<Now> {
        self.search.take().map(|search| search.since)
    }
}

impl RequestMachine {
    /// Begins a search: asks the coordinator, unless a question waits for its answer already.
    pub(super) fn search(&mut self, now: Now) {
        self.search_on(now, now);
    }

    /// The same for a search that began earlier.
    fn search_on(&mut self, now: Now, since: Now) {
        self.placing.search = Some(Search { since, forgiving: false, retry_at: None });
        if self.placing.question.is_none() {
            self.ask(now);
        }
    }

    fn ask(&mut self, now: Now) {
        let request = self.question(now, false);
        self.say(Output::AskPlacement(request));
    }

    fn question(&mut self, now: Now, alone: bool) -> PlaceRequest {
        let placing = &mut self.placing;
        placing.attempt = placing.attempt.saturating_add(1);
        placing.question = Some(Question { alone, due: now + self.limits.coordinator_answer });
        let mut forgiving = false;
        if let Some(search) = &mut placing.search {
            search.retry_at = None;
            forgiving = search.forgiving;
        }
        PlaceRequest {
            request: self.spec.request,
            attempt: self.placing.attempt,
            model: self.spec.model,
            prompt_tokens: self.asked_prompt_tokens(),
            expected_output_tokens: self.expected_output_tokens(),
            done_tokens: self.log.next_index(),
            excluded: self.excluded(now, forgiving),
        }
    }

    /// Counted by a worker, or estimated.
    pub(super) fn counted_prompt_tokens(&self) -> u32 {
        match (self.log.prompt(), self.failures.too_long) {
            (Some(_), _) => self.log.prompt_tokens(),
            (None, Some(counted)) => counted.prompt_tokens,
            (None, None) => self.spec.prompt_tokens_estimate,
        }
    }

    /// What peers must have room for.
    fn asked_prompt_tokens(&self) -> u32 {
        let divisor = if self.is_guessed() && self.placing.doubtful { GUESS_OVER_LEAST } else { 1 };
        self.counted_prompt_tokens() / divisor
    }

    /// Whether no worker has counted the prompt.
    fn is_guessed(&self) -> bool {
        self.log.prompt().is_none() && self.failures.too_long.is_none()
    }

    /// The estimate, or a little more than there is already.
    fn expected_output_tokens(&self) -> u32 {
        let done = self.log.next_index();
        let at_least = done.saturating_add((done / 4).max(RESIDUAL_TOKENS_MIN));
        let expected =
            if done == 0 { self.spec.expected_output_tokens } else { self.spec.expected_output_tokens.max(at_least) };
        expected.min(self.spec.max_tokens)
    }

    /// Those that failed it, and a worker that is leaving.
    fn excluded(&self, now: Now, forgiving: bool) -> Vec<PeerId> {
        let leaving = self.running.as_ref().map(|r| r.worker);
        let failed = self.failures.excluded(now, &self.limits, forgiving);
        let others = failed.into_iter().filter(|peer| Some(*peer) != leaving);
        leaving.into_iter().chain(others).take(idlewild_protocol::MAX_EXCLUDED_PEERS).collect()
    }

    pub(super) fn handle_placed(&mut self, now: Now, reply: PlaceReply) {
        let is_answer = reply.request == self.spec.request && reply.attempt == self.placing.attempt;
        if !is_answer || self.placing.question.take().is_none() {
            return;
        }
        match reply.outcome {
            PlaceOutcome::Run { worker, .. } if !self.is_ruled_out(worker) => self.start(now, worker, reply),
            PlaceOutcome::Run { .. } | PlaceOutcome::Nowhere => self.nowhere(now, &reply.terms),
        }
    }

    /// A coordinator that names such a worker has not read the question.
    fn is_ruled_out(&self, worker: PeerId) -> bool {
        self.failures.is_lasting(worker) || self.running.as_ref().is_some_and(|r| r.worker == worker)
    }

    pub(super) fn check_placing(&mut self, now: Now) {
        if let Some(question) = self.placing.question.filter(|q| q.due <= now) {
            if question.alone {
                self.placing.question = None;
                self.nowhere(now, &[]);
            } else {
                let request = self.question(now, true);
                self.say(Output::PlaceAlone(request));
            }
        } else if self.placing.search.and_then(|s| s.retry_at).is_some_and(|at| at <= now) {
            self.ask(now);
        }
    }

    /// Nobody can take it now: ask again soon, or tell the client.
    fn nowhere(&mut self, now: Now, terms: &[PeerTerms]) {
        if self.running.is_none() && self.may_fit(terms) {
            self.placing.doubtful = true;
            self.ask(now);
            return;
        }
        let retry_at = now + self.limits.nowhere_retry;
        // While a worker that is leaving goes on, so does the search; a new one begins when it is gone.
        if self.running.is_none() && (self.is_beyond_patience(retry_at) || self.is_hopeless(terms)) {
            let error = self.nobody(terms);
            self.conclude(Some(Output::Failed(error)));
        } else if let Some(search) = &mut self.placing.search {
            search.forgiving = true;
            search.retry_at = Some(retry_at);
        }
    }

    /// Whether a peer refused for a length that was only guessed: one of them shall count.
    fn may_fit(&self, terms: &[PeerTerms]) -> bool {
        let is_too_long = |t: &PeerTerms| matches!(t.unfit, Some(Unfit::ContextTooLong { .. }));
        self.is_guessed() && !self.placing.doubtful && terms.iter().any(is_too_long)
    }

    /// Whether a question at `retry_at` might be answered too late, by the coordinator and then by ourselves.
    fn is_beyond_patience(&self, retry_at: Now) -> bool {
        let answered_by = retry_at + 2 * self.limits.coordinator_answer;
        let has_begun = self.log.next_index() > 0;
        let patience = if has_begun { self.limits.orphan_patience } else { self.limits.nowhere_patience };
        self.placing.search.is_some_and(|search| answered_by > search.since + patience)
    }

    /// Whether a second or two will change nothing: somebody said that it cannot be done, and nobody else may do it.
    ///
    /// That all whom we see lack the model or have their owners there is not enough: a machine that has just woken up
    /// sees itself alone for a moment.
    fn is_hopeless(&self, terms: &[PeerTerms]) -> bool {
        let is_final = |t: &PeerTerms| match t.unfit {
            Some(Unfit::ContextTooLong { .. }) => true,
            Some(Unfit::JustFailed) => self.failures.is_lasting(t.peer),
            Some(Unfit::NoModel | Unfit::OwnerPresent | Unfit::Leaving | Unfit::Unreachable) | None => false,
        };
        let is_no_help = |t: &PeerTerms| matches!(t.unfit, Some(Unfit::NoModel | Unfit::OwnerPresent));
        terms.iter().any(is_final) && terms.iter().all(|t| is_final(t) || is_no_help(t))
    }

    /// The error for a request that nobody can take.
    fn nobody(&self, terms: &[PeerTerms]) -> RequestError {
        let kind = self.kind_of_nobody(terms);
        let retry_after = match kind {
            RequestErrorKind::NoPeer => Some(self.limits.retry_after),
            RequestErrorKind::NoModel
            | RequestErrorKind::PromptTooLong { .. }
            | RequestErrorKind::BadInput(_)
            | RequestErrorKind::TriedTooOften { .. } => None,
        };
        RequestError { kind, peers: self.reasons(terms), retry_after }
    }

    fn kind_of_nobody(&self, terms: &[PeerTerms]) -> RequestErrorKind {
        let every = |holds: fn(Unfit) -> bool| !terms.is_empty() && terms.iter().all(|t| t.unfit.is_some_and(holds));
        let is_without = |why: Unfit| matches!(why, Unfit::NoModel);
        let is_short = |why: Unfit| matches!(why, Unfit::NoModel | Unfit::ContextTooLong { .. });
        let is_short_or_tried =
            |why: Unfit| matches!(why, Unfit::NoModel | Unfit::ContextTooLong { .. } | Unfit::JustFailed);
        let counted = self.failures.too_long;
        // Whoever was tried had the model, and may be back.
        let was_tried = self.failures.iter().next().is_some();
        if every(is_without) {
            if was_tried { RequestErrorKind::NoPeer } else { RequestErrorKind::NoModel }
        } else if every(is_short) || (counted.is_some() && every(is_short_or_tried)) {
            let named =
                terms.iter().filter_map(|t| context_of(t.unfit?)).chain(counted.map(|seen| seen.context_tokens));
            let context_tokens = named.max().unwrap_or(0);
            RequestErrorKind::PromptTooLong { prompt_tokens: self.counted_prompt_tokens(), context_tokens }
        } else {
            RequestErrorKind::NoPeer
        }
    }

    /// Why each peer did not serve it: what was tried says more than what was found unfit.
    pub(super) fn reasons(&self, terms: &[PeerTerms]) -> Vec<PeerReason> {
        let unfit = terms.iter().filter_map(|t| Some((t.peer, Why::Unfit(t.unfit?))));
        let tried = self.failures.iter().map(|(peer, how)| (peer, Why::Tried(how.clone())));
        let by_peer: BTreeMap<PeerId, Why> = unfit.chain(tried).collect();
        by_peer.into_iter().map(|(peer, why)| PeerReason { peer, why }).collect()
    }

    /// Places the request again after an assignment ended, unless that is of no use any more.
    pub(super) fn place_again(&mut self, now: Now, since: Now) {
        if self.may_begin_again() {
            self.search_on(now, since);
            return;
        }
        let kind = RequestErrorKind::TriedTooOften { tried: self.failures.fruitless().max(1) };
        let retry_after = Some(self.limits.retry_after);
        let error = RequestError { kind, peers: self.reasons(&[]), retry_after };
        self.conclude(Some(Output::Failed(error)));
    }

    /// Whether the request may be tried once more.
    pub(super) fn may_begin_again(&self) -> bool {
        !self.failures.are_enough(&self.limits) && self.assignments() < self.limits.assignments_max
    }
}

#[cfg(test)]
impl RequestMachine {
    /// Whether an answer to this question would be heard.
    pub(super) fn awaits(&self, attempt: u32) -> bool {
        self.placing.question.is_some() && self.placing.attempt == attempt
    }
}

/// The context that a peer said is too short.
fn context_of(why: Unfit) -> Option<u32> {
    match why {
        Unfit::ContextTooLong { context_tokens } => Some(context_tokens),
        Unfit::NoModel | Unfit::OwnerPresent | Unfit::Leaving | Unfit::JustFailed | Unfit::Unreachable => None,
    }
}
