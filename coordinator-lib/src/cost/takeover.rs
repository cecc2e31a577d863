//! U: what a departure costs the user, by what it finds elsewhere.
//!
//! ```text
//! cold   nothing is prepared   D + O_r + (c + d t)/p + sigma
//! part   it is being prepared  D + O_h + max(0, c + d t - (p + b) (t - begins)+)/p + sigma
//! warm   it keeps up           D + O_h + lag/p + sigma
//! notice it is announced N seconds ahead: no detection, no surprise
//! ```

use super::Overheads;
use super::departures::DepartureCurve;
use super::preparation::{Preparation, Route};
use super::residual::Residual;

/// The peer that takes over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rebuild {
    /// p: tokens a second that it prefills.
    pub prefill_tps: f64,
    /// d: tokens a second that it decodes.
    pub decode_tps: f64,
    /// Seconds that the request waits there first.
    pub wait_s: f64,
}

/// A departure's cost as a function of its time: a fixed part, and what must be prefilled then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Takeover {
    /// Seconds, whenever it comes.
    pub fixed_s: f64,
    /// Tokens that the peer which takes over lacks now.
    pub missing_tokens: f64,
    /// Tokens a second that decoding adds to them.
    pub growth_tps: f64,
    /// Seconds until decoding begins; 0 for a request that decodes.
    pub growth_from_s: f64,
    /// Tokens a second that a preparation takes away from them.
    pub gain_tps: f64,
    /// Seconds until it begins to; 0 for one that is under way.
    pub gain_from_s: f64,
    /// Tokens a second that the peer which takes over prefills.
    pub rebuild_tps: f64,
}

impl Takeover {
    /// U_cold: `rebuild` begins with nothing. `sigma_s` is the price of the visible stall.
    pub fn cold(context_tokens: f64, decode_tps: f64, rebuild: &Rebuild, sigma_s: f64, overheads: &Overheads) -> Self {
        Self {
            fixed_s: overheads.detection_s + overheads.recompute_s + rebuild.wait_s + sigma_s,
            missing_tokens: context_tokens,
            growth_tps: decode_tps,
            growth_from_s: 0.0,
            gain_tps: 0.0,
            gain_from_s: 0.0,
            rebuild_tps: rebuild.prefill_tps,
        }
    }

    /// There is nobody else: all of the request's `time_s` is lost, whenever the departure comes.
    pub fn restart(time_s: f64, sigma_s: f64, overheads: &Overheads) -> Self {
        Self {
            fixed_s: overheads.detection_s + time_s + sigma_s,
            missing_tokens: 0.0,
            growth_tps: 0.0,
            growth_from_s: 0.0,
            gain_tps: 0.0,
            gain_from_s: 0.0,
            rebuild_tps: 1.0,
        }
    }

    /// U_part: a destination lacks `lag_tokens` and gains on the source by `gain_tps` less what that adds.
    pub fn part(lag_tokens: f64, decode_tps: f64, gain_tps: f64, rebuild_tps: f64, fixed: Fixed<'_>) -> Self {
        Self {
            fixed_s: fixed.seconds(),
            missing_tokens: lag_tokens,
            growth_tps: decode_tps,
            growth_from_s: 0.0,
            gain_tps,
            gain_from_s: 0.0,
            rebuild_tps,
        }
    }

    /// The same of a destination that gets `route` by `preparation`: until that begins, it gains nothing.
    pub fn preparing(route: &Route, preparation: &Preparation, fixed: Fixed<'_>) -> Self {
        let (lag_tokens, gain_tps) = (route.context_tokens, preparation.gain_tps);
        let part = Self::part(lag_tokens, route.decode_tps, gain_tps, route.prefill_tps, fixed);
        Self { gain_from_s: preparation.begins_s, ..part }
    }

    /// U_warm: a destination stays `lag_tokens` behind.
    pub fn warm(lag_tokens: f64, rebuild_tps: f64, fixed: Fixed<'_>) -> Self {
        Self::part(lag_tokens, 0.0, 0.0, rebuild_tps, fixed)
    }

    /// U at `t_s` seconds from now.
    pub fn cost_s(&self, t_s: f64) -> f64 {
        let grown_tokens = self.growth_tps * (t_s - self.growth_from_s).max(0.0);
        let gained_tokens = self.gain_tps * (t_s - self.gain_from_s).max(0.0);
        let missing_tokens = (self.missing_tokens + grown_tokens - gained_tokens).max(0.0);
        self.fixed_s + missing_tokens / self.rebuild_tps
    }

    /// Where U bends: when decoding begins, when the preparation does, and when nothing is missing any more, before
    /// decoding begins or after. Those that never come are negative or no numbers.
    fn kinks_s(&self) -> [f64; 4] {
        let at_once_s = self.gain_from_s + self.missing_tokens / self.gain_tps;
        let grown_tokens = self.missing_tokens - self.growth_tps * self.growth_from_s;
        let later_s = (grown_tokens + self.gain_tps * self.gain_from_s) / (self.gain_tps - self.growth_tps);
        [self.growth_from_s, self.gain_from_s, at_once_s, later_s]
    }

    /// The expectation of U over departures before `end_s`.
    pub fn expected_s(&self, departures: &DepartureCurve, end_s: f64) -> f64 {
        departures.expected_s(end_s, self.kinks_s(), |t_s| self.cost_s(t_s))
    }
}

/// The fixed part of a takeover by a peer that has prepared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fixed<'a> {
    /// Whether the departure is announced: then nobody waits to notice it, and no stall comes as a surprise.
    pub is_announced: bool,
    /// sigma: the price of the visible stall, in seconds.
    pub sigma_s: f64,
    /// The rest.
    pub overheads: &'a Overheads,
}

impl Fixed<'_> {
    fn seconds(&self) -> f64 {
        let silence_s = if self.is_announced { 0.0 } else { self.overheads.detection_s + self.sigma_s };
        self.overheads.hand_off_s + silence_s
    }
}

/// No request is expected to take longer, in seconds: thirty years.
const FOREVER_S: f64 = 1e9;

/// The rest of a request on a peer, as a departure finds it: what the correction of the loss needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Remainder {
    /// R: tokens still to come.
    pub residual: Residual,
    /// d_i: tokens a second here.
    pub decode_tps: f64,
    /// Seconds of wait and prefill before decoding begins.
    pub begins_s: f64,
}

impl Remainder {
    /// T for `tokens` still to come: seconds until the request is done.
    pub fn time_s(&self, tokens: f64) -> f64 {
        (self.begins_s + tokens / self.decode_tps).min(FOREVER_S)
    }

    /// T for the greatest quantile: how far ahead the departures matter.
    pub fn horizon_s(&self) -> f64 {
        self.time_s(self.residual.most_tokens())
    }

    /// The mean of T.
    pub fn mean_time_s(&self) -> f64 {
        self.time_s(self.residual.mean_tokens())
    }

    /// The probability of a departure before the end.
    pub fn leave_probability(&self, departures: &DepartureCurve) -> f64 {
        self.residual.mean_of(|tokens| departures.until(self.time_s(tokens)).probability)
    }

    /// The expectation of `takeover` alone over departures before the end: seconds of stall.
    pub fn stall_s(&self, departures: &DepartureCurve, takeover: &Takeover) -> f64 {
        self.residual.mean_of(|tokens| takeover.expected_s(departures, self.time_s(tokens)))
    }

    /// L: the expectation of `takeover` and of the correction, over departures before the end.
    ///
    /// The correction is (R - d_i t)(1/d_fb - 1/d_i): what is still to come is decoded at another rate. Never negative: a
    /// departure is no gain to count on, since whoever does better elsewhere is placed there at once. So L >= 0, E >= T,
    /// and what moves because of L moves because of the hazard.
    pub fn loss_s(&self, departures: &DepartureCurve, takeover: &Takeover, rebuild_decode_tps: f64) -> f64 {
        let slower_s_per_token = (1.0 / rebuild_decode_tps - 1.0 / self.decode_tps).max(0.0);
        let [growth_s, gain_s, at_once_s, later_s] = takeover.kinks_s();
        let kinks_s = [self.begins_s, growth_s, gain_s, at_once_s, later_s];
        self.residual.mean_of(|tokens| {
            departures.expected_s(self.time_s(tokens), kinks_s, |t_s| {
                let decoded_tokens = self.decode_tps * (t_s - self.begins_s).max(0.0);
                takeover.cost_s(t_s) + (tokens - decoded_tokens) * slower_s_per_token
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazard::{Hazard, Survival};

    const OVERHEADS: Overheads = Overheads::ASSUMED;

    const REBUILD: Rebuild = Rebuild { prefill_tps: 100.0, decode_tps: 10.0, wait_s: 3.0 };

    const SILENT: Fixed<'_> = Fixed { is_announced: false, sigma_s: 2.0, overheads: &OVERHEADS };

    fn check(name: &str, takeover: &Takeover, expected: &[(f64, f64)]) {
        for &(t_s, cost_s) in expected {
            let got_s = takeover.cost_s(t_s);
            assert!((got_s - cost_s).abs() < 1e-12, "{name} at {t_s}: {got_s}, expected {cost_s}");
        }
    }

    #[test]
    fn what_a_departure_costs_depends_on_what_it_finds() {
        // 1,000 tokens from a source at 10 tokens a second.
        let cold = Takeover::cold(1000.0, 10.0, &REBUILD, 2.0, &OVERHEADS);
        check("cold", &cold, &[(0.0, 16.2), (50.0, 21.2)]);
        check("cold, after a wait", &Takeover { growth_from_s: 20.0, ..cold }, &[(20.0, 16.2), (50.0, 19.2)]);
        let part = Takeover::part(1000.0, 10.0, 110.0, 100.0, SILENT);
        check("part", &part, &[(0.0, 13.1), (5.0, 8.1), (50.0, 3.1)]);
        let late = Takeover { gain_from_s: 2.0, ..part };
        check("part, later", &late, &[(0.0, 13.1), (2.0, 13.3), (5.0, 10.3), (12.2, 3.1), (50.0, 3.1)]);
        check("warm", &Takeover::warm(20.0, 100.0, SILENT), &[(0.0, 3.3), (50.0, 3.3)]);
        check("nobody", &Takeover::restart(60.0, 2.0, &OVERHEADS), &[(0.0, 63.0), (50.0, 63.0)]);
        let noticed = Takeover::part(1000.0, 10.0, 110.0, 100.0, Fixed { is_announced: true, ..SILENT });
        check("noticed", &noticed, &[(5.0, 5.1), (30.0, 0.1)]);
    }

    /// Leaves after exactly five seconds, as far as a constant hazard can say so.
    #[derive(Debug)]
    struct LeavesAtFive;

    impl Survival for LeavesAtFive {
        fn survival(&self, t_s: f64) -> f64 {
            if t_s < 5.0 { 1.0 } else { 0.0 }
        }

        fn for_each_segment(&self, _: f64, _: f64, visit: &mut dyn FnMut(crate::hazard::Segment)) {
            visit(crate::hazard::Segment { length_s: 5.0, rate_per_s: 0.0 });
            visit(crate::hazard::Segment { length_s: 1.0, rate_per_s: 1e7 });
        }
    }

    #[test]
    fn the_rest_is_decoded_at_the_rate_of_the_peer_that_takes_over_and_that_is_never_a_gain() {
        let remainder = Remainder { residual: Residual::exactly(100), decode_tps: 10.0, begins_s: 2.0 };
        let departures = DepartureCurve::new(&Hazard { curve: &LeavesAtFive, age_s: 0.0 }, 100.0);
        let warm = Takeover::warm(0.0, 100.0, SILENT);
        // It has decoded for three seconds: 70 tokens are left.
        for (rebuild_tps, loss_s) in [(10.0, 3.1), (5.0, 3.1 + 7.0), (1000.0, 3.1)] {
            let got_s = remainder.loss_s(&departures, &warm, rebuild_tps);
            assert!((got_s - loss_s).abs() < 1e-4, "{rebuild_tps}: {got_s}");
        }
        assert!((remainder.leave_probability(&departures) - 1.0).abs() < 1e-9);
        assert_eq!((remainder.mean_time_s(), remainder.horizon_s()), (12.0, 12.0));
    }
}
