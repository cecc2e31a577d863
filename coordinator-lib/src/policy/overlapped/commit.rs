//! COMMIT: should the request go over to the standby that is ready?
//!
//! Never because the standby is merely faster. The risk must fall by more than its own uncertainty, and the end must not
//! come later by as much as anybody would notice. Invariant: where it passes, the risk falls by more than the stall costs.

/// COMMIT iff lag <= max(20, d_i tick), L_i^warm - L_j - S > h_r and S + R (1/d_j - 1/d_i) + w_j < h_t.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CommitTest {
    /// Tokens that the standby lacks.
    pub lag_tokens: f64,
    /// Tokens that it may lack.
    pub lag_limit_tokens: f64,
    /// S: seconds of stall at the hand-off.
    pub stall_s: f64,
    /// L_i^warm: expected seconds of loss if it stays with the standby kept warm.
    pub stay_loss_s: f64,
    /// L_j: expected seconds of loss after the move.
    pub move_loss_s: f64,
    /// h_r.
    pub risk_limit_s: f64,
    /// Seconds that the move delays the end.
    pub delay_s: f64,
    /// h_t.
    pub time_limit_s: f64,
}

impl CommitTest {
    /// L_i^warm - L_j - S: seconds that the risk falls by, less the stall.
    pub fn risk_gain_s(&self) -> f64 {
        self.stay_loss_s - self.move_loss_s - self.stall_s
    }

    /// Whether the standby keeps up.
    pub fn is_ready(&self) -> bool {
        self.lag_tokens <= self.lag_limit_tokens
    }

    /// Whether to hand over.
    pub fn passes(&self) -> bool {
        self.is_ready() && self.risk_gain_s() > self.risk_limit_s && self.delay_s < self.time_limit_s
    }
}
