//! What became of one request.

use crate::sim::scenario::Arrival;

/// Counted while it lives. Seconds of work are a peer's, realised; seconds of stall are its user's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) arrived_s: f64,
    pub(crate) output_tokens: u32,
    /// When its first token began to come.
    pub(crate) first_token_s: Option<f64>,
    pub(crate) finished_s: Option<f64>,
    /// Departures that found it on the peer that left, waiting in a queue not counted.
    pub(crate) losses: u32,
    /// Those of them with no standby that kept up.
    pub(crate) uncovered: u32,
    /// Those of them after which a context in memory was used.
    pub(crate) rescued: u32,
    /// Moves before a departure.
    pub(crate) planned: u32,
    /// Moves from one queue to another.
    pub(crate) requeues: u32,
    /// Preparations that were begun.
    pub(crate) preparations: u32,
    /// Seconds in which no token came for a loss,
    pub(crate) stall_s: f64,
    /// and for a planned move.
    pub(crate) planned_stall_s: f64,
    /// Seconds of work on what had been made before, or was not finished.
    pub(crate) recompute_s: f64,
    /// Seconds of work of destinations that prepare.
    pub(crate) preparation_s: f64,
    /// Bytes of KV that travelled.
    pub(crate) moved_bytes: f64,
}

impl Outcome {
    pub(crate) fn new(arrival: Arrival) -> Self {
        Self {
            arrived_s: arrival.at_s,
            output_tokens: arrival.output_tokens,
            first_token_s: None,
            finished_s: None,
            losses: 0,
            uncovered: 0,
            rescued: 0,
            planned: 0,
            requeues: 0,
            preparations: 0,
            stall_s: 0.0,
            planned_stall_s: 0.0,
            recompute_s: 0.0,
            preparation_s: 0.0,
            moved_bytes: 0.0,
        }
    }

    /// Seconds from its arrival to its last token; none of one that is not finished.
    pub(crate) fn latency_s(&self) -> Option<f64> {
        self.finished_s.map(|finished_s| finished_s - self.arrived_s)
    }
}
