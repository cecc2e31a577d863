//! The numbers behind the corrected rule, each with its why.

use super::WayChoice;
use crate::cost::{Overheads, Prices};

/// What keeps requests from moving and preparing too lightly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverlapLimits {
    /// Planned moves that one request may make.
    pub max_hops: u32,
    /// h_r, the least: seconds that the risk must fall by.
    pub risk_floor_s: f64,
    /// z: standard errors of the difference of two losses that the risk must fall by.
    pub risk_errors: f64,
    /// h_t, the least: seconds below which the end may be delayed.
    pub time_floor_s: f64,
    /// The same as a part of T.
    pub time_share: f64,
    /// Seconds that a request must outlast a preparation by to be worth one.
    pub finish_margin_s: f64,
    /// u above which a peer is no destination.
    pub utilisation_max: f64,
    /// The part of its price that a preparation under way must still be worth. Below 1, so that noise around the price
    /// does not start and pause it by turns.
    pub go_on_share: f64,
    /// The part of the cost of the output to come that a standby must save: one half, since on average half of it has come
    /// when it is needed.
    pub hold_share: f64,
    /// Seconds by which a request that waits must be better off elsewhere to go there.
    pub requeue_gain_s: f64,
    /// Seconds by which another destination must be better than the standby, under a notice, to be taken in its place: what
    /// is transferred already is worth keeping.
    pub switch_gain_s: f64,
}

impl Default for OverlapLimits {
    fn default() -> Self {
        Self {
            max_hops: 3,
            risk_floor_s: 0.25,
            risk_errors: 1.0,
            time_floor_s: 0.5,
            time_share: 0.02,
            finish_margin_s: 2.0,
            utilisation_max: 0.8,
            go_on_share: 0.5,
            hold_share: 0.5,
            requeue_gain_s: 2.0,
            switch_gain_s: 0.5,
        }
    }
}

impl OverlapLimits {
    /// h_r = max(floor, z se): seconds that the risk must fall by, given the standard error of the two losses' difference.
    pub fn risk_limit_s(&self, standard_error_s: f64) -> f64 {
        self.risk_floor_s.max(self.risk_errors * standard_error_s)
    }

    /// h_t = max(floor, share T): seconds that a move may delay the end of a request that takes `time_s` more.
    pub fn time_limit_s(&self, time_s: f64) -> f64 {
        self.time_floor_s.max(self.time_share * time_s)
    }
}

/// All of them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OverlappedParameters {
    /// What a preparation takes.
    pub overheads: Overheads,
    /// What work, bytes and losses are worth.
    pub prices: Prices,
    /// What keeps requests still.
    pub limits: OverlapLimits,
    /// How the way of a new preparation is chosen.
    pub way_choice: WayChoice,
}
