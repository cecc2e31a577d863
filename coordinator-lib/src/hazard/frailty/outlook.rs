//! From the model's state to the curve of one live session.

use super::super::{PieceCurve, Segment, Surroundings};
use super::FrailtyParameters;
use super::bins::{Start, Stretch};
use super::fleet::FleetHazard;
use super::peer::{PeerFactors, SCHEDULED_S};
use super::site::Burst;

/// The cumulative hazard of a scheduled departure: nine of ten happen.
const SCHEDULED_HAZARD: f64 = core::f64::consts::LN_10;

/// Half lives of a site's burst at which a curve is cut, so that the burst is near constant between.
const BURST_CUTS: [f64; 5] = [0.125, 0.5, 1.0, 2.0, 4.0];

/// Pieces of a curve that are usual: the hours of a day, and the age bins that it crosses.
const USUAL_PIECES: usize = 48;

/// All that the hazard of one live session depends on, besides the fleet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outlook {
    pub(super) now_s: f64,
    pub(super) age_s: f64,
    pub(super) surroundings: Surroundings,
    pub(super) peer: PeerFactors,
    pub(super) burst: Burst,
}

impl Outlook {
    /// The survival from now on, cut where age bin or slot changes, up to the parameters' horizon.
    ///
    /// The peer's overall factor is not known but gamma distributed, and staying is news about it. So with x departures
    /// expected until then of a peer like the fleet, survival is (1 + x / expected)^-departures, not e^(-theta x); each
    /// piece loses exactly what this loses over it.
    pub(super) fn curve(&self, fleet: &FleetHazard, parameters: &FrailtyParameters) -> PieceCurve {
        let mut curve = PieceCurve::with_capacity(USUAL_PIECES);
        let signs = fleet.of_signs(self.surroundings.signs);
        let start = Start::new(self.age_s, self.now_s, self.surroundings.week_offset_s);
        let (edges_s, used) = self.edges_s(parameters);
        let mut expected = self.peer.expected;
        start.walk_with_edges(parameters.horizon_s, &edges_s[..used], |stretch| {
            let middle_s = stretch.from_s + stretch.length_s / 2.0;
            let rate =
                fleet.rate(&stretch, signs) * self.peer.beside(&stretch) * self.burst.factor(middle_s, parameters);
            let more = rate * stretch.length_s;
            let lost = self.peer.departures * (more / expected).ln_1p();
            expected += more;
            let rate_per_s = lost / stretch.length_s + self.scheduled_rate(&stretch);
            curve.push(Segment { length_s: stretch.length_s, rate_per_s });
        });
        curve
    }

    /// Seconds from now at which the curve is cut beside ages and hours, ascending, and how many they are.
    fn edges_s(&self, parameters: &FrailtyParameters) -> ([f64; BURST_CUTS.len() + 2], usize) {
        let mut edges_s = [0.0; BURST_CUTS.len() + 2];
        let mut used = 0;
        if (self.burst.factor(0.0, parameters) - 1.0).abs() > 1e-3 {
            for cut in BURST_CUTS {
                edges_s[used] = cut * parameters.site_half_life_s;
                used += 1;
            }
        }
        if let Some(from_s) = self.scheduled_in_s() {
            edges_s[used] = from_s;
            edges_s[used + 1] = from_s + SCHEDULED_S;
            used += 2;
        }
        edges_s[..used].sort_by(f64::total_cmp);
        (edges_s, used)
    }

    /// Seconds from now until the scheduled end; none once that has passed.
    fn scheduled_in_s(&self) -> Option<f64> {
        let from_s = self.surroundings.scheduled_end_s? - self.now_s;
        (from_s + SCHEDULED_S > 0.0).then_some(from_s)
    }

    /// What the schedule adds to the hazard.
    fn scheduled_rate(&self, stretch: &Stretch) -> f64 {
        let Some(from_s) = self.scheduled_in_s() else { return 0.0 };
        let middle_s = stretch.from_s + stretch.length_s / 2.0;
        let is_due = (from_s..from_s + SCHEDULED_S).contains(&middle_s);
        if is_due { SCHEDULED_HAZARD / SCHEDULED_S } else { 0.0 }
    }
}
