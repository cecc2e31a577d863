//! T: how long a request takes if nobody leaves.

use super::{PeerRates, Work};

/// w: seconds before a request starts on a peer with `load_s` seconds of work, `own_load_s` of which are its own. Infinite
/// where that is no number: a peer of unknown load must not pass for an idle one.
pub fn wait_s(load_s: f64, own_load_s: f64) -> f64 {
    let wait_s = load_s - own_load_s;
    if wait_s.is_nan() { f64::INFINITY } else { wait_s.max(0.0) }
}

/// Seconds of prefill and decoding. Infinite where a rate that is needed was never measured.
pub fn service_s(rates: &PeerRates, work: &Work) -> f64 {
    seconds(work.prefill_tokens, rates.prefill_tps) + seconds(work.remaining_tokens(), rates.decode_tps)
}

/// Seconds for `tokens` at a rate; none take none, at whatever rate.
pub(super) fn seconds(tokens: u32, tokens_per_s: f64) -> f64 {
    at_rate(f64::from(tokens), tokens_per_s)
}

/// Seconds for `amount` at `per_s`; nothing takes no time, at whatever rate. For ever where either is no measure: a broken
/// one must not pass for a fast one.
pub(super) fn at_rate(amount: f64, per_s: f64) -> f64 {
    let seconds = amount / per_s;
    if amount == 0.0 {
        0.0
    } else if amount > 0.0 && per_s > 0.0 && !seconds.is_nan() {
        seconds
    } else {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: PeerRates = PeerRates {
        decode_tps: 10.0,
        prefill_tps: 100.0,
        bandwidth_bps: 1e6,
        kv_bytes_per_token: 1e4,
        room_tokens: 4096,
    };

    #[test]
    fn service_is_prefill_and_what_is_left_to_decode() {
        let cases = [
            ("fresh", Work::fresh(200, 50), 2.0 + 5.0),
            ("decoding", Work::running(200, 50, 20), 3.0),
            ("before its first token", Work::running(200, 50, 0), 2.0 + 5.0),
            ("orphaned", Work::orphaned(200, 50, 20), 2.2 + 3.0),
            ("overrun", Work::running(200, 50, 60), 0.0),
        ];
        for (name, work, expected_s) in cases {
            assert!((service_s(&RATES, &work) - expected_s).abs() < 1e-12, "{name}");
        }
    }

    #[test]
    fn a_rate_that_was_never_measured_takes_for_ever_and_only_where_it_is_needed() {
        let unmeasured = PeerRates { prefill_tps: 0.0, ..RATES };
        assert_eq!(service_s(&unmeasured, &Work::fresh(1, 0)), f64::INFINITY);
        assert_eq!(service_s(&unmeasured, &Work::running(1, 20, 10)), 1.0);
    }

    #[test]
    fn a_rate_that_is_no_rate_takes_for_ever() {
        for rate in [-1.0, f64::NAN, 0.0] {
            assert_eq!(at_rate(1.0, rate), f64::INFINITY, "{rate}");
            assert_eq!(at_rate(0.0, rate), 0.0, "{rate}");
        }
        for amount in [-1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(at_rate(amount, f64::INFINITY), f64::INFINITY, "{amount}");
        }
    }

    #[test]
    fn a_request_does_not_wait_for_itself_and_no_wait_is_negative() {
        assert_eq!(wait_s(30.0, 10.0), 20.0);
        assert_eq!(wait_s(10.0, 30.0), 0.0);
        assert_eq!(wait_s(-5.0, 0.0), 0.0);
    }

    #[test]
    fn a_load_that_is_no_number_is_no_idleness() {
        assert_eq!(wait_s(f64::NAN, 0.0), f64::INFINITY);
        assert_eq!(wait_s(10.0, f64::NAN), f64::INFINITY);
    }
}
