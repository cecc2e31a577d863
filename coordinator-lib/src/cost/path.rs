//! What a context travels over.

use super::is_rate;

/// The way from the peer that runs a request to one that prepares for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    /// B_ij: bytes a second of goodput, measured; 0 where it was not.
    pub goodput_bps: f64,
    /// Seconds there and back.
    pub round_trip_s: f64,
    /// Bytes that it may carry still, where it goes over a relay; none where it goes direct.
    pub budget_bytes: Option<f64>,
    /// Whether both ends lay their KV cache out alike: their fingerprints are equal.
    pub has_same_layout: bool,
}

impl Path {
    /// b: tokens of KV a second, of which each takes `kv_bytes_per_token`. 0 where KV may not or cannot travel here: the
    /// layouts differ, nothing was measured, or `tokens` of it would exceed a relay's budget.
    pub fn kv_tps(&self, kv_bytes_per_token: f64, tokens: f64) -> f64 {
        let is_affordable = self.budget_bytes.is_none_or(|budget| tokens * kv_bytes_per_token <= budget);
        let kv_tps = self.goodput_bps / kv_bytes_per_token;
        if self.has_same_layout && is_affordable && is_rate(kv_tps) { kv_tps } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kv_travels_only_between_equal_layouts_at_a_measured_rate_within_a_relays_budget() {
        let direct = Path { goodput_bps: 1e6, round_trip_s: 0.01, budget_bytes: None, has_same_layout: true };
        let cases = [
            ("direct", direct, 100.0),
            ("of another layout", Path { has_same_layout: false, ..direct }, 0.0),
            ("not measured", Path { goodput_bps: 0.0, ..direct }, 0.0),
            ("no number", Path { goodput_bps: f64::NAN, ..direct }, 0.0),
            ("a relay with budget", Path { budget_bytes: Some(1e7), ..direct }, 100.0),
            ("a relay without", Path { budget_bytes: Some(0.99e7), ..direct }, 0.0),
            ("a budget that is no number", Path { budget_bytes: Some(f64::NAN), ..direct }, 0.0),
        ];
        for (name, path, kv_tps) in cases {
            assert_eq!(path.kv_tps(1e4, 1000.0), kv_tps, "{name}");
        }
        assert_eq!(direct.kv_tps(0.0, 1000.0), 0.0, "a layout of no size");
    }
}
