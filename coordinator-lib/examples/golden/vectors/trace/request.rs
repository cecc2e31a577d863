//! One request of a trace: tokens done, work left, and what is counted about it.

use idlewild_coordinator::cost::Work;

use super::Arrival;

#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) arrived_s: f64,
    prompt_tokens: u32,
    output_tokens: u32,
    estimate_tokens: u32,
    done_tokens: u32,
    /// Work before decoding; what is left of a second that it did not fill stays, below 0.
    prefill_left_s: f64,
    pub(super) is_prefilled: bool,
    pub(super) was_placed: bool,
    /// When it was last asked whether it should move.
    pub(super) checked_s: Option<f64>,
    pub(super) unplanned_moves: u32,
    pub(super) planned_moves: u32,
    pub(super) wasted_s: f64,
    pub(super) latency_s: Option<f64>,
    /// It waits for a node that can take it when the trace ends.
    pub(super) is_pending: bool,
}

impl Request {
    pub(super) fn new(Arrival(arrived_s, prompt_tokens, output_tokens, estimate_tokens): Arrival) -> Self {
        Self {
            arrived_s,
            prompt_tokens,
            output_tokens,
            estimate_tokens,
            done_tokens: 0,
            prefill_left_s: 0.0,
            is_prefilled: false,
            was_placed: false,
            checked_s: None,
            unplanned_moves: 0,
            planned_moves: 0,
            wasted_s: 0.0,
            latency_s: None,
            is_pending: false,
        }
    }

    /// As placement sees it, however far it has got.
    pub(super) fn as_new(&self) -> Work {
        Work::fresh(self.prompt_tokens, self.estimate_tokens)
    }

    /// As it is.
    pub(super) fn as_running(&self) -> Work {
        Work::running(self.prompt_tokens, self.estimate_tokens, self.done_tokens)
    }

    pub(super) fn prompt_tokens(&self) -> u32 {
        self.prompt_tokens
    }

    pub(super) fn context_tokens(&self) -> u32 {
        self.prompt_tokens.saturating_add(self.done_tokens)
    }

    /// Decoding that is expected still; negative past the estimate.
    pub(super) fn decoding_s(&self, decode_tps: f64) -> f64 {
        (f64::from(self.estimate_tokens) - f64::from(self.done_tokens)) / decode_tps
    }

    pub(super) fn load_s(&self, decode_tps: f64) -> f64 {
        self.decoding_s(decode_tps) + self.prefill_left_s
    }

    /// It must spend this time before it decodes (on).
    pub(super) fn prefill_for(&mut self, time_s: f64) {
        self.prefill_left_s = time_s;
        self.is_prefilled = false;
    }

    /// One second on a node that decodes so fast; whether the request is complete.
    pub(super) fn serve_second(&mut self, decode_tps: f64) -> bool {
        if !self.is_prefilled {
            self.prefill_left_s -= 1.0;
            self.is_prefilled = self.prefill_left_s <= 0.0;
            return false;
        }
        self.done_tokens = self.done_tokens.saturating_add((decode_tps.floor() as u32).max(1));
        self.done_tokens >= self.output_tokens
    }
}
