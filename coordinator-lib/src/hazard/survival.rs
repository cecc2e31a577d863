//! What every estimate of a session's length can answer.

use core::fmt::Debug;

use super::Segment;
use super::segment::visit_cells;

/// The least S(age) that a conditional survival is divided by: keeps 0/0 from spreading as a NaN.
const MIN_SURVIVAL_AT_AGE: f64 = 1e-12;

/// The probability that a session lasts.
///
/// Invariant: `survival` lies in [0, 1], is 1 at 0 unless sessions of no length were seen, and never rises.
pub trait Survival: Debug {
    /// The probability that a session is longer than `t_s` seconds.
    fn survival(&self, t_s: f64) -> f64;

    /// The probability that a session that has lasted `age_s` seconds lasts `t_s` more.
    fn conditional(&self, age_s: f64, t_s: f64) -> f64 {
        self.survival(age_s + t_s) / self.survival(age_s).max(MIN_SURVIVAL_AT_AGE)
    }

    /// The probability that a session that has lasted `age_s` seconds ends within `t_s` more.
    fn leave_probability(&self, age_s: f64, t_s: f64) -> f64 {
        1.0 - self.conditional(age_s, t_s)
    }

    /// Visits, in order, the stretches of constant hazard of a session that has lasted `age_s` seconds, which together
    /// cover the `horizon_s` seconds from now. A curve that is not made of such is cut into 16 equal cells, exact at
    /// their edges.
    ///
    /// None for a horizon that is not positive or not a number; what is beyond 1e9 s, infinite or not, is left out. An
    /// age that is no age reads as 0.
    fn for_each_segment(&self, age_s: f64, horizon_s: f64, visit: &mut dyn FnMut(Segment)) {
        visit_cells(self, age_s, horizon_s, visit);
    }
}

/// A peer's chance to stay from now on: a curve, and how far along it the present session is.
#[derive(Debug, Clone, Copy)]
pub struct Hazard<'a> {
    /// The curve.
    pub curve: &'a dyn Survival,
    /// Seconds that the present session has lasted; for a [`super::DigestCurve`], seconds since its digest was made.
    pub age_s: f64,
}

impl Hazard<'_> {
    /// The probability that the peer is still there in `t_s` seconds.
    pub fn survival(&self, t_s: f64) -> f64 {
        self.curve.conditional(self.age_s, t_s)
    }

    /// The probability that the peer leaves within `t_s` seconds.
    pub fn leave_probability(&self, t_s: f64) -> f64 {
        self.curve.leave_probability(self.age_s, t_s)
    }

    /// Visits the stretches of constant hazard of the `horizon_s` seconds from now: [`Survival::for_each_segment`].
    pub fn for_each_segment(&self, horizon_s: f64, visit: &mut dyn FnMut(Segment)) {
        self.curve.for_each_segment(self.age_s, horizon_s, visit);
    }
}
