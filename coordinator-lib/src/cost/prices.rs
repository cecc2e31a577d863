//! What is paid in something else than the user's time: idle seconds, bytes, surprises.

/// What a destination's second, a byte and a lost worker are worth, in seconds of a user's wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Lambda 0: a second of an idle destination.
    pub idle_second: f64,
    /// Mu: a byte over the link. The default takes a gigabyte for a second.
    pub byte_s: f64,
    /// Sigma in placement: a lost worker. High, because where a request begins is chosen once and costs nothing to choose
    /// well; 60 to 240 s took a fifth of the losses away, with a smooth hazard (a step curve says 0 or 1, and then it does
    /// not help).
    pub placement_loss_s: f64,
    /// Sigma for what runs: the same stall, now that preventing it costs work.
    pub move_loss_s: f64,
}

impl Default for Prices {
    fn default() -> Self {
        Self { idle_second: 0.05, byte_s: 1e-9, placement_loss_s: 120.0, move_loss_s: 2.0 }
    }
}

/// The utilisation that a price is capped at: a full peer is dear, not infinitely so.
const UTILISATION_MAX: f64 = 0.99;

impl Prices {
    /// Lambda = lambda0 / (1 - u): a second of a destination of this utilisation. One that is not known reads as busy.
    pub fn second(&self, utilisation: f64) -> f64 {
        let utilisation = if utilisation.is_nan() { UTILISATION_MAX } else { utilisation.clamp(0.0, UTILISATION_MAX) };
        self.idle_second / (1.0 - utilisation)
    }
}

/// c-bar: the context that a departure is expected to find, half of the rest of the output later.
pub fn context_at_failure_tokens(context_tokens: f64, decode_tps: f64, time_s: f64) -> f64 {
    context_tokens + decode_tps * time_s / 2.0
}

/// K_j = (c + d_i T_i)/(p_j + b): destination seconds to prepare a context that lacks `lag_tokens` and to keep up with it
/// to the end.
pub fn keep_up_s(lag_tokens: f64, decode_tps: f64, time_s: f64, gain_tps: f64) -> f64 {
    (lag_tokens + decode_tps * time_s) / gain_tps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_destination_is_dearer_than_an_idle_one_and_none_is_beyond_price() {
        let prices = Prices::default();
        for (utilisation, times) in [(0.0, 1.0), (0.5, 2.0), (-1.0, 1.0), (1.0, 100.0), (f64::NAN, 100.0)] {
            assert!((prices.second(utilisation) / prices.idle_second / times - 1.0).abs() < 1e-9, "{utilisation}");
        }
    }

    #[test]
    fn terms_of_one_example_by_hand() {
        assert_eq!(context_at_failure_tokens(1000.0, 10.0, 40.0), 1200.0);
        assert_eq!(keep_up_s(1000.0, 10.0, 40.0, 200.0), 7.0);
    }
}
