//! One request while it lives: where it is, how far, and what it gets from whoever works for it.
//!
//! Between two events every rate is constant, so that everything is a sum of rate times time: [`Live::advance`].

use crate::cost::Way;
use crate::sim::report::Outcome;
use crate::sim::scenario::Arrival;

/// Tokens below which nothing is left to do: what rounding leaves.
pub(crate) const NOTHING_TOKENS: f64 = 1e-6;

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Phase {
    /// Nobody has it, and nobody can take it.
    Pending,
    /// Its worker is gone; its origin has not noticed yet.
    Unnoticed,
    /// In the queue of a worker.
    Queued {
        /// Whose.
        worker: usize,
    },
    /// A worker has a slot for it, and begins to work at `until_s`.
    Starting {
        /// Who.
        worker: usize,
        /// When.
        until_s: f64,
    },
    /// The context is made, or arrives.
    Filling {
        /// Where.
        worker: usize,
    },
    /// Tokens come.
    Decoding {
        /// From whom.
        worker: usize,
    },
    /// It is over.
    Finished,
}

impl Phase {
    /// The peer where it has a slot.
    pub(crate) fn active_at(self) -> Option<usize> {
        match self {
            Self::Starting { worker, .. } | Self::Filling { worker } | Self::Decoding { worker } => Some(worker),
            Self::Pending | Self::Unnoticed | Self::Queued { .. } | Self::Finished => None,
        }
    }

    /// The same, or the peer where it waits for one.
    pub(crate) fn worker(self) -> Option<usize> {
        match self {
            Self::Queued { worker } => Some(worker),
            Self::Pending
            | Self::Unnoticed
            | Self::Starting { .. }
            | Self::Filling { .. }
            | Self::Decoding { .. }
            | Self::Finished => self.active_at(),
        }
    }
}

/// What makes the missing tokens of a context, each at so many a second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Filling {
    /// By prefill.
    pub(crate) compute_tps: f64,
    /// The part of the peer's time that this takes.
    pub(crate) share: f64,
    /// By KV from another peer.
    pub(crate) link_tps: f64,
}

impl Filling {
    pub(crate) fn gain_tps(&self) -> f64 {
        self.compute_tps + self.link_tps
    }
}

/// A destination that prepares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Standby {
    pub(crate) peer: usize,
    pub(crate) way: Way,
    /// Tokens of the context that it lacks.
    pub(crate) lag_tokens: f64,
    /// It begins to work then.
    pub(crate) begins_s: f64,
    pub(crate) is_paused: bool,
    pub(crate) filling: Filling,
}

impl Standby {
    /// Whether it works for the request at `now_s`.
    pub(crate) fn works(&self, now_s: f64) -> bool {
        !self.is_paused && now_s >= self.begins_s
    }

    /// Whether it has all that there is.
    pub(crate) fn keeps_up(&self) -> bool {
        self.lag_tokens <= NOTHING_TOKENS
    }

    /// Time passes in which the source adds `decode_tps`. Answers seconds of the peer's work, and tokens that arrived.
    fn advance(&mut self, time_s: f64, decode_tps: f64) -> (f64, f64) {
        let gain_tps = self.filling.gain_tps();
        let closing_tps = gain_tps - decode_tps;
        let until_even_s = if closing_tps > 0.0 { self.lag_tokens / closing_tps } else { f64::INFINITY };
        let (catching_s, following_s) =
            if until_even_s < time_s { (until_even_s, time_s - until_even_s) } else { (time_s, 0.0) };
        self.lag_tokens = if following_s > 0.0 { 0.0 } else { (self.lag_tokens - closing_tps * time_s).max(0.0) };
        // Whoever has all that there is makes as much as comes.
        let as_much = if gain_tps > 0.0 { (decode_tps / gain_tps).min(1.0) } else { 0.0 };
        let worked_s = catching_s + following_s * as_much;
        (self.filling.share * worked_s, self.filling.link_tps * worked_s)
    }
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) arrival: Arrival,
    pub(crate) phase: Phase,
    /// Tokens of output that exist; whole wherever somebody looks from outside.
    pub(crate) done: f64,
    /// Tokens of context that its worker lacks.
    pub(crate) left_tokens: f64,
    pub(crate) filling: Filling,
    /// Tokens a second that come.
    pub(crate) decode_tps: f64,
    /// Whether its worker may prefill what is missing: not where all of it comes as KV.
    pub(crate) may_prefill: bool,
    /// The peer from which KV of what is missing comes.
    pub(crate) source: Option<usize>,
    /// Whether a peer has had all of its context before: what is made now is made again.
    pub(crate) is_again: bool,
    /// Seconds of work on a context that is made for the first time.
    pub(crate) filled_s: f64,
    /// Tokens of output that are expected in all, as of when it came.
    pub(crate) expected_tokens: u32,
    /// Bytes of KV a token where it runs.
    pub(crate) kv_bytes_per_token: f64,
    pub(crate) standby: Option<Standby>,
    /// Raised by each assignment.
    pub(crate) epoch: u32,
    /// Of the events that say how far it gets: those of an earlier number mean nothing.
    pub(crate) generation: u32,
    /// Up to when it has been counted.
    pub(crate) at_s: f64,
    /// Since when no token comes that could, after the first; and whether that was planned.
    pub(crate) stalled: Option<(f64, bool)>,
    pub(crate) outcome: Outcome,
}

impl Live {
    pub(crate) fn new(arrival: Arrival) -> Self {
        Self {
            arrival,
            phase: Phase::Pending,
            done: 0.0,
            left_tokens: f64::from(arrival.prompt_tokens),
            filling: Filling::default(),
            decode_tps: 0.0,
            may_prefill: true,
            source: None,
            is_again: false,
            filled_s: 0.0,
            expected_tokens: 0,
            kv_bytes_per_token: 0.0,
            standby: None,
            epoch: 0,
            generation: 0,
            at_s: arrival.at_s,
            stalled: None,
            outcome: Outcome::new(arrival),
        }
    }

    /// Whole tokens of output.
    pub(crate) fn done_tokens(&self) -> u32 {
        // What rounding leaves must not cost a token.
        (self.done + NOTHING_TOKENS).floor() as u32
    }

    /// Tokens of KV that it may take: its prompt, and what is expected of it or has come.
    pub(crate) fn reserved_tokens(&self) -> u64 {
        u64::from(self.arrival.prompt_tokens) + u64::from(self.expected_tokens.max(self.done_tokens()))
    }

    /// Tokens a second that come now.
    pub(crate) fn coming_tps(&self) -> f64 {
        if matches!(self.phase, Phase::Decoding { .. }) { self.decode_tps } else { 0.0 }
    }

    /// Its context is there: tokens come, or come again.
    pub(crate) fn begin_decoding(&mut self, worker: usize, now_s: f64) {
        self.phase = Phase::Decoding { worker };
        (self.left_tokens, self.filling, self.source) = (0.0, Filling::default(), None);
        (self.is_again, self.filled_s, self.may_prefill) = (true, 0.0, true);
        self.outcome.first_token_s.get_or_insert(now_s);
        if let Some((since_s, was_planned)) = self.stalled.take() {
            let stall_s = if was_planned { &mut self.outcome.planned_stall_s } else { &mut self.outcome.stall_s };
            *stall_s += now_s - since_s;
        }
    }

    /// Nobody works for it any more, whoever did: what was begun and not finished is lost.
    pub(crate) fn stop(&mut self, phase: Phase) {
        self.phase = phase;
        self.done = f64::from(self.done_tokens());
        self.outcome.recompute_s += core::mem::take(&mut self.filled_s);
        (self.decode_tps, self.filling, self.source) = (0.0, Filling::default(), None);
        self.left_tokens = f64::from(self.context_tokens());
        self.epoch += 1;
    }

    /// The user waits from now on, if tokens came before.
    pub(crate) fn stall(&mut self, now_s: f64, is_planned: bool) {
        if self.outcome.first_token_s.is_some() {
            let since_s = self.stalled.map_or(now_s, |(since_s, _)| since_s);
            self.stalled = Some((since_s, is_planned));
        }
    }

    /// Whole tokens of output at `now_s`, whenever it was last counted: what its origin knows, whoever looked at it.
    pub(crate) fn done_tokens_at(&self, now_s: f64) -> u32 {
        let since = self.coming_tps() * (now_s - self.at_s).max(0.0);
        (self.done + since + NOTHING_TOKENS).min(f64::from(self.arrival.output_tokens)).floor() as u32
    }

    /// c.
    pub(crate) fn context_tokens(&self) -> u32 {
        self.arrival.prompt_tokens.saturating_add(self.done_tokens())
    }

    /// Counts the time since it was last counted.
    pub(crate) fn advance(&mut self, now_s: f64) {
        let kv_bytes_per_token = self.kv_bytes_per_token;
        let time_s = now_s - self.at_s;
        if time_s <= 0.0 {
            return;
        }
        self.at_s = now_s;
        let decode_tps = self.coming_tps();
        if let Some(standby) = self.standby.as_mut().filter(|standby| standby.filling.gain_tps() > 0.0) {
            let (worked_s, arrived_tokens) = standby.advance(time_s, decode_tps);
            self.outcome.preparation_s += worked_s;
            self.outcome.moved_bytes += arrived_tokens * kv_bytes_per_token;
        } else if let Some(standby) = &mut self.standby {
            standby.lag_tokens += decode_tps * time_s;
        }
        match self.phase {
            Phase::Filling { .. } => {
                self.left_tokens = (self.left_tokens - self.filling.gain_tps() * time_s).max(0.0);
                let counter = if self.is_again { &mut self.outcome.recompute_s } else { &mut self.filled_s };
                *counter += self.filling.share * time_s;
                self.outcome.moved_bytes += self.filling.link_tps * time_s * kv_bytes_per_token;
            }
            Phase::Decoding { .. } => {
                self.done = (self.done + decode_tps * time_s).min(f64::from(self.arrival.output_tokens));
            }
            Phase::Pending | Phase::Unnoticed | Phase::Queued { .. } | Phase::Starting { .. } | Phase::Finished => {}
        }
    }

    /// When something happens to it by itself, if no rate changes before.
    pub(crate) fn next_s(&self, now_s: f64) -> f64 {
        let own_s = match self.phase {
            Phase::Starting { until_s, .. } => until_s,
            Phase::Filling { .. } => now_s + ratio(self.left_tokens, self.filling.gain_tps()),
            Phase::Decoding { .. } => now_s + ratio(f64::from(self.arrival.output_tokens) - self.done, self.decode_tps),
            Phase::Pending | Phase::Unnoticed | Phase::Queued { .. } | Phase::Finished => f64::INFINITY,
        };
        let decode_tps = self.coming_tps();
        let standby_s = self.standby.filter(|standby| !standby.is_paused).map_or(f64::INFINITY, |standby| {
            if standby.begins_s > now_s {
                return standby.begins_s;
            }
            let closing_tps = standby.filling.gain_tps() - decode_tps;
            if standby.keeps_up() { f64::INFINITY } else { now_s + ratio(standby.lag_tokens, closing_tps) }
        });
        own_s.min(standby_s)
    }
}

/// Seconds for `amount` at `per_s`; for ever where nothing happens.
fn ratio(amount: f64, per_s: f64) -> f64 {
    if amount <= NOTHING_TOKENS {
        0.0
    } else if per_s > 0.0 {
        amount / per_s
    } else {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoding() -> Live {
        let arrival = Arrival { at_s: 0.0, prompt_tokens: 100, output_tokens: 50, estimate_tokens: None };
        let kv_bytes_per_token = 1000.0;
        Live {
            kv_bytes_per_token,
            phase: Phase::Decoding { worker: 0 },
            decode_tps: 10.0,
            left_tokens: 0.0,
            ..Live::new(arrival)
        }
    }

    #[test]
    fn a_standby_catches_up_and_then_works_as_much_as_comes() {
        let filling = Filling { compute_tps: 50.0, share: 0.5, link_tps: 0.0 };
        let standby = Standby { peer: 1, way: Way::Ids, lag_tokens: 40.0, begins_s: 0.0, is_paused: false, filling };
        let mut live = Live { standby: Some(standby), ..decoding() };
        // It gains 40 a second on the source: even after 1 s, and then at a fifth of its pace for 2 s.
        assert_eq!(live.next_s(0.0), 1.0);
        live.advance(3.0);
        assert_eq!(live.standby.unwrap().lag_tokens, 0.0);
        assert!((live.outcome.preparation_s - 0.5 * (1.0 + 2.0 / 5.0)).abs() < 1e-12);
        assert_eq!((live.done_tokens(), live.context_tokens()), (30, 130));
        assert_eq!(live.next_s(3.0), 5.0, "the answer is complete");
    }

    #[test]
    fn what_is_done_does_not_hang_on_who_looked_last() {
        let mut looked_at = decoding();
        looked_at.advance(2.0);
        for (live, name) in [(decoding(), "nobody looked"), (looked_at, "somebody did")] {
            assert_eq!(live.done_tokens_at(3.0), 30, "{name}");
            assert_eq!(live.done_tokens_at(99.0), 50, "{name}: no more than there are");
        }
    }

    #[test]
    fn a_standby_that_is_paused_falls_behind() {
        let standby = Standby {
            peer: 1,
            way: Way::PreCopy,
            lag_tokens: 5.0,
            begins_s: 0.0,
            is_paused: true,
            filling: Filling::default(),
        };
        let mut live = Live { standby: Some(standby), ..decoding() };
        live.advance(2.0);
        assert_eq!(live.standby.unwrap().lag_tokens, 25.0);
    }

    #[test]
    fn what_is_made_again_and_what_travels_is_counted() {
        let filling = Filling { compute_tps: 50.0, share: 1.0, link_tps: 30.0 };
        let mut live =
            Live { phase: Phase::Filling { worker: 0 }, left_tokens: 160.0, filling, is_again: true, ..decoding() };
        assert_eq!(live.next_s(0.0), 2.0);
        live.advance(2.0);
        assert_eq!((live.left_tokens, live.outcome.recompute_s, live.outcome.moved_bytes), (0.0, 2.0, 60_000.0));
    }
}
