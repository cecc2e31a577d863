//! HOLD: is a standby that keeps up worth the seconds that it takes to keep it so?

/// HOLD iff odds c-bar > 1/2 lambda d_i T_i.
///
/// Compared after multiplication by 1 - P, so that a certain departure needs no infinite odds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HoldTest {
    /// P_i.
    pub leave_probability: f64,
    /// c-bar: tokens of context that a departure is expected to find.
    pub context_at_failure_tokens: f64,
    /// Tokens that following to the end takes, weighted: 1/2 lambda d_i T_i.
    pub following_tokens: f64,
}

impl HoldTest {
    /// Whether to keep it warm.
    pub fn passes(&self) -> bool {
        let stays = 1.0 - self.leave_probability;
        self.leave_probability * self.context_at_failure_tokens > stays * self.following_tokens
    }
}
