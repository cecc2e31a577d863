//! One idle session as the estimators see it.

use serde::{Deserialize, Serialize};

/// The shortest session that counts, in seconds: a length of zero would be at risk at no time.
pub(super) const MIN_SESSION_S: f64 = 1e-6;

/// How long a peer offered compute, and whether it left of itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Seconds from its beginning to its end, or until now. Lengths that are negative or not finite are ignored.
    pub length_s: f64,
    /// Whether the peer departed. False is right-censored: still there, or ended by us.
    pub observed: bool,
}

impl Session {
    /// A session that ended with the peer's departure.
    pub fn ended(length_s: f64) -> Self {
        Self { length_s, observed: true }
    }

    /// A session of which only a least length is known.
    pub fn censored(length_s: f64) -> Self {
        Self { length_s, observed: false }
    }

    pub(super) fn is_usable(&self) -> bool {
        self.length_s.is_finite() && self.length_s >= 0.0
    }
}
