//! The product-limit estimate of Kaplan and Meier (1958), with an exponential tail.
//!
//! A step curve: what was never seen to happen between two departures has probability 0 there. On thin history it
//! therefore answers 0 or 1 to most short questions; it is kept as the baseline that `policy.md` section 3 names.

use serde::{Deserialize, Serialize};

use super::{Session, Survival};

/// What is left of survival once an event has been seen: nothing is ever quite impossible.
const SURVIVAL_FLOOR: f64 = 1e-9;

/// Departures a second where none has ever been seen: one an hour.
const TAIL_RATE_WITHOUT_EVENTS: f64 = 1.0 / 3600.0;

/// A fitted curve: right-continuous steps at the lengths at which sessions ended, exponential beyond the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KaplanMeier {
    /// Distinct lengths of observed sessions in seconds, ascending.
    times_s: Vec<f64>,
    /// Survival just after each.
    survivals: Vec<f64>,
    /// Departures a second beyond the last: one over the mean observed length.
    tail_rate: f64,
}

impl KaplanMeier {
    /// Fits to `sessions` in any order. A session censored at the length of an event was at risk of it.
    pub fn fit(sessions: &[Session]) -> Self {
        let mut sorted: Vec<Session> = sessions.iter().copied().filter(Session::is_usable).collect();
        sorted.sort_by(|a, b| a.length_s.total_cmp(&b.length_s));
        let (times_s, survivals) = steps(&sorted);
        Self { times_s, survivals, tail_rate: tail_rate(&sorted) }
    }

    /// The distinct lengths at which a session was seen to end, in seconds, ascending.
    pub fn times_s(&self) -> &[f64] {
        &self.times_s
    }

    /// Survival just after each of [`Self::times_s`], before the floor.
    pub fn survivals(&self) -> &[f64] {
        &self.survivals
    }

    /// Departures a second beyond the last observed length.
    pub fn tail_rate(&self) -> f64 {
        self.tail_rate
    }

    /// The probability that a session that has lasted `age_s` seconds lasts `t_s` more, whatever the age.
    ///
    /// As [`Survival::conditional`], but for its two floors, which are the published policy's: beyond them a session of
    /// some days reads as ended by now (no departure was ever seen) or as endless (some were). A session older than a
    /// curve that ends at 0 is on its tail.
    pub fn remaining(&self, age_s: f64, t_s: f64) -> f64 {
        let (step, later_step) = (self.step(age_s), self.step(age_s + t_s));
        let stays_on_steps = if step > 0.0 { later_step / step } else { 1.0 };
        let on_tail_s = self.beyond_last_s(age_s + t_s) - self.beyond_last_s(age_s);
        stays_on_steps * (-self.tail_rate * on_tail_s).exp()
    }

    /// Survival just after the last event that is not later than `t_s`.
    fn step(&self, t_s: f64) -> f64 {
        let passed = self.times_s.partition_point(|&time_s| time_s <= t_s);
        if passed == 0 { 1.0 } else { self.survivals[passed - 1] }
    }

    /// Seconds between the last event and `t_s`; all of `t_s` where there is no event.
    fn beyond_last_s(&self, t_s: f64) -> f64 {
        (t_s - self.times_s.last().copied().unwrap_or(0.0)).max(0.0)
    }
}

impl Survival for KaplanMeier {
    fn survival(&self, t_s: f64) -> f64 {
        let survival = self.step(t_s) * (-self.tail_rate * self.beyond_last_s(t_s)).exp();
        if self.times_s.is_empty() { survival } else { survival.max(SURVIVAL_FLOOR) }
    }
}

/// The distinct event times of sessions in order of length, and survival after each.
fn steps(sorted: &[Session]) -> (Vec<f64>, Vec<f64>) {
    let (mut times_s, mut survivals) = (Vec::new(), Vec::new());
    let mut survival = 1.0;
    let mut at_risk = sorted.len();
    for same_length in sorted.chunk_by(|a, b| a.length_s == b.length_s) {
        let events = same_length.iter().filter(|session| session.observed).count();
        if let (Some(first), true) = (same_length.first(), events > 0) {
            survival *= 1.0 - events as f64 / at_risk as f64;
            times_s.push(first.length_s);
            survivals.push(survival);
        }
        at_risk -= same_length.len();
    }
    (times_s, survivals)
}

fn tail_rate(sessions: &[Session]) -> f64 {
    let events = sessions.iter().filter(|session| session.observed);
    let (count, total_s) = events.fold((0_u32, 0.0), |(n, sum_s), session| (n + 1, sum_s + session.length_s));
    // Sessions of no length alone would give an infinite rate, and 0 * infinity on the tail.
    if total_s > 0.0 { f64::from(count) / total_s } else { TAIL_RATE_WITHOUT_EVENTS }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sessions: &[Session], expected: &[(f64, f64)]) {
        let curve = KaplanMeier::fit(sessions);
        for &(t_s, survival) in expected {
            let got = curve.survival(t_s);
            assert!((got - survival).abs() < 1e-12, "S({t_s}) = {got}, expected {survival}");
        }
    }

    #[test]
    fn a_step_falls_at_the_moment_of_the_event_and_not_before() {
        let sessions = [Session::ended(10.0), Session::ended(20.0)];
        check(&sessions, &[(0.0, 1.0), (9.999, 1.0), (10.0, 0.5), (19.999, 0.5), (20.0, 1e-9)]);
    }

    #[test]
    fn a_session_censored_at_an_event_was_at_risk_of_it() {
        let sessions = [Session::censored(10.0), Session::ended(10.0), Session::ended(20.0)];
        check(&sessions, &[(10.0, 2.0 / 3.0)]);
        let sessions = [Session::censored(9.0), Session::ended(10.0), Session::ended(20.0)];
        check(&sessions, &[(10.0, 0.5)]);
    }

    #[test]
    fn beyond_the_last_event_survival_decays_at_one_over_the_mean_observed_length() {
        let sessions = [Session::ended(10.0), Session::ended(30.0), Session::censored(100.0)];
        check(&sessions, &[(30.0, 1.0 / 3.0), (50.0, (-20.0_f64 / 20.0).exp() / 3.0)]);
    }

    #[test]
    fn without_events_an_hour_is_the_mean_and_there_is_no_floor() {
        check(&[], &[(0.0, 1.0), (3600.0, (-1.0_f64).exp())]);
        check(&[Session::censored(50.0)], &[(360_000.0, (-100.0_f64).exp())]);
        assert!(KaplanMeier::fit(&[]).survival(3600.0 * 100.0) < 1e-9);
    }

    #[test]
    fn an_old_session_has_the_rest_of_life_that_its_curve_says() {
        let week_s = 7.0 * 86_400.0;
        let never_left = KaplanMeier::fit(&[Session::censored(week_s)]);
        assert!((never_left.remaining(week_s, 3600.0) - (-1.0_f64).exp()).abs() < 1e-9);
        let left_early = KaplanMeier::fit(&[Session::ended(60.0), Session::ended(120.0), Session::censored(week_s)]);
        assert!((left_early.remaining(week_s, 90.0) - (-1.0_f64).exp()).abs() < 1e-9);
        let outlived = KaplanMeier::fit(&[Session::ended(60.0), Session::ended(120.0)]);
        assert!((outlived.remaining(130.0, 90.0) - (-1.0_f64).exp()).abs() < 1e-9);
        assert_eq!(outlived.remaining(70.0, 49.0), 1.0);
        assert_eq!(outlived.remaining(70.0, 50.0), 0.0);
    }

    #[test]
    fn lengths_that_are_no_lengths_are_ignored() {
        let odd = [Session::ended(f64::NAN), Session::ended(f64::INFINITY), Session::ended(-1.0), Session::ended(10.0)];
        assert_eq!(KaplanMeier::fit(&odd), KaplanMeier::fit(&[Session::ended(10.0)]));
    }

    #[test]
    fn sessions_of_no_length_alone_leave_every_answer_finite() {
        let curve = KaplanMeier::fit(&[Session::ended(0.0)]);
        assert!([0.0, 1.0, 1e6].iter().all(|&t_s| curve.survival(t_s).is_finite()));
    }
}
