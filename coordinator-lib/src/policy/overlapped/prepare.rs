//! PREPARE: is a destination that prepares worth its seconds and bytes?
//!
//! Preparing delays nothing and makes no failure worse: it is an option, paid with idle seconds. If the source does leave,
//! that prefill was owed anyway, hence only the part (1 - P) of its price counts.

/// PREPARE j iff the integral of f_i (U_cold - U_part) > lambda (1 - P_i) K_j + mu bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrepareTest {
    /// The integral: seconds of expected stall that it saves.
    pub saved_s: f64,
    /// K_j: destination seconds to prepare and to keep up to the end.
    pub destination_s: f64,
    /// The right side: seconds that it costs.
    pub price_s: f64,
    /// The part of the price that it must be worth: less than 1 for a preparation under way.
    pub share: f64,
}

/// What the price is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PrepareCost {
    /// K_j.
    pub(super) destination_s: f64,
    /// lambda: the price of one of them.
    pub(super) second: f64,
    /// P_i.
    pub(super) leave_probability: f64,
    /// Seconds that the bytes are worth.
    pub(super) bytes_s: f64,
}

impl PrepareTest {
    pub(super) fn new(saved_s: f64, cost: &PrepareCost, share: f64) -> Self {
        let price_s = cost.second * (1.0 - cost.leave_probability) * cost.destination_s + cost.bytes_s;
        Self { saved_s, destination_s: cost.destination_s, price_s, share }
    }

    /// Seconds that it is worth beyond its price.
    pub fn net_s(&self) -> f64 {
        self.saved_s - self.price_s
    }

    /// Whether it pays. Never where it saves nothing.
    pub fn passes(&self) -> bool {
        self.saved_s > 0.0 && self.saved_s > self.share * self.price_s
    }
}
