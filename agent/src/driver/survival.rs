//! How long this peer's session will last: the frailty model on the sessions on record, and a population before them.
//!
//! A machine that nobody uses, as its owner says, is believed to stay:
//! S = w * S_model + (1 - w) * S_unused with w = n / (n + 5) for n sessions whose end was seen. What happened counts.

use idlewild_coordinator::hazard::{
    Ending, Estimator, FleetHazard, Frailty, FrailtyParameters, PieceCurve, Sign, Signs, Surroundings, Survival,
};
use idlewild_protocol::{DepartureCause, QuantisedSurvival};

use crate::config::OwnerChoice;
use crate::store::SessionRecord;

/// How many recorded sessions weigh as much as the owner's word that nobody uses the machine.
const UNUSED_SESSIONS: f64 = 5.0;

/// Of the Weibull curve of a machine that nobody uses, in seconds: 63 % of sessions are shorter. From one update of the
/// system to the next.
const UNUSED_SCALE_S: f64 = 30.0 * 86_400.0;

/// Of the same: below 1, so that who has stayed for long goes on staying.
const UNUSED_SHAPE: f64 = 0.7;

/// The one peer that the model knows.
const OWN: u8 = 0;

/// What is believed before anything is on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prior {
    /// Somebody uses this machine.
    Used,
    /// Nobody does, as its owner says.
    Unused,
}

impl Prior {
    /// What a source of the owner's state says about that.
    pub(super) fn of(source: OwnerChoice) -> Self {
        if source == OwnerChoice::AlwaysIdle { Self::Unused } else { Self::Used }
    }
}

/// A session that begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Beginning {
    /// Seconds since 1970 by the machine's clock, which may be wrong: lengths do not come from it.
    pub(super) wall_s: f64,
    /// Seconds since Monday, 00:00, by the local time; none if unknown.
    pub(super) week_s: Option<u32>,
    /// Whether the machine runs on mains; none if unknown.
    pub(super) on_ac: Option<bool>,
}

impl Beginning {
    fn of(record: &SessionRecord) -> Self {
        Self { wall_s: record.started_s as f64, week_s: record.week_s, on_ac: record.on_ac }
    }

    fn surroundings(self) -> Surroundings {
        let signs = if self.on_ac == Some(false) { Signs::NONE.with(Sign::OnBattery) } else { Signs::NONE };
        let week_offset_s = self.week_s.map(|week_s| f64::from(week_s) - self.wall_s);
        Surroundings { week_offset_s, signs, ..Surroundings::default() }
    }
}

/// The estimate of one peer. Cheap to clone: some kilobytes, however long the history.
#[derive(Debug, Clone)]
pub(super) struct OwnSurvival {
    prior: Prior,
    model: Frailty<u8>,
    /// Sessions whose end was seen.
    sessions: u64,
    /// When the live session began, by the clock at that time.
    began_s: Option<f64>,
    /// The end of the last session by the same clock: as of when the model is asked outside a session.
    last_s: f64,
}

impl OwnSurvival {
    /// Before any session.
    pub(super) fn new(prior: Prior) -> Self {
        let parameters = FrailtyParameters::default();
        let model = Frailty::with_fleet(parameters, FleetHazard::population(&parameters));
        Self { prior, model, sessions: 0, began_s: None, last_s: 0.0 }
    }

    /// From all sessions on record, in order; the last may be live.
    pub(super) fn fit(prior: Prior, records: &[SessionRecord]) -> Self {
        let mut survival = Self::new(prior);
        for record in records {
            survival.begin(Beginning::of(record));
            if !record.is_live() {
                survival.end(record.length_s, record.cause);
            }
        }
        survival
    }

    /// A session begins. Costs the same whatever is known.
    pub(super) fn begin(&mut self, beginning: Beginning) {
        self.model.begin(beginning.wall_s, &OWN, Some(0.0), beginning.surroundings());
        self.began_s = Some(beginning.wall_s);
    }

    /// The live session has ended, so long; without a cause where its end was not seen. Costs the stretches of constant
    /// hazard in its length: 60 days of hours at most.
    pub(super) fn end(&mut self, length_s: f64, cause: Option<DepartureCause>) {
        let Some(began_s) = self.began_s.take() else { return };
        self.last_s = began_s + length_s;
        self.model.end(self.last_s, &OWN, cause.map_or(Ending::Censored, Ending::Departed));
        self.model.refit(self.last_s);
        self.sessions += u64::from(cause.is_some());
    }

    /// Sessions whose end was seen.
    pub(super) fn sessions(&self) -> u64 {
        self.sessions
    }

    /// What is believed beside the record.
    pub(super) fn prior(&self) -> Prior {
        self.prior
    }

    /// How much sooner (above 1) or later than a machine like others this one is left again.
    pub(super) fn theta(&self) -> f64 {
        self.model.theta(self.last_s, &OWN)
    }

    /// What is to be expected of a session that has lasted `age_s`.
    pub(super) fn outlook(&self, age_s: f64) -> Outlook {
        let weight = match self.prior {
            Prior::Used => 1.0,
            Prior::Unused => self.sessions as f64 / (self.sessions as f64 + UNUSED_SESSIONS),
        };
        let now_s = self.began_s.map_or(self.last_s, |began_s| began_s + age_s);
        Outlook { curve: self.model.curve(now_s, &OWN, age_s), age_s, weight }
    }

    /// The curve from now on, for a session that has lasted `age_s`, as a digest carries it.
    pub(super) fn curve_at(&self, age_s: f64) -> QuantisedSurvival {
        let outlook = self.outlook(age_s);
        QuantisedSurvival::of(|t_s| outlook.stays(t_s))
    }
}

/// What is to be expected of a session from now on.
#[derive(Debug)]
pub(super) struct Outlook {
    curve: PieceCurve,
    age_s: f64,
    /// Of the curve; the rest is the owner's word.
    weight: f64,
}

impl Outlook {
    /// The probability that it lasts `t_s` seconds more.
    pub(super) fn stays(&self, t_s: f64) -> f64 {
        let model = self.curve.survival(t_s);
        if self.weight >= 1.0 { model } else { self.weight * model + (1.0 - self.weight) * self.unused(t_s) }
    }

    fn unused(&self, t_s: f64) -> f64 {
        let cumulative = |age_s: f64| (age_s.max(0.0) / UNUSED_SCALE_S).powf(UNUSED_SHAPE);
        (cumulative(self.age_s) - cumulative(self.age_s + t_s)).exp().min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: u64 = 86_400;

    fn ended(started_s: u64, length_s: f64) -> SessionRecord {
        let ended_s = Some(started_s + length_s as u64);
        let cause = Some(DepartureCause::OwnerReturned);
        SessionRecord { started_s, ended_s, length_s, cause, week_s: Some(week_s(started_s)), on_ac: None }
    }

    fn week_s(at_s: u64) -> u32 {
        ((at_s + 259_200) % 604_800) as u32
    }

    /// Sessions of about a minute, four an hour.
    fn short(count: u64) -> Vec<SessionRecord> {
        (0..count).map(|n| ended(n * 900, 40.0 + (n * 7 % 40) as f64)).collect()
    }

    fn stays(survival: &OwnSurvival, age_s: f64, t_s: f64) -> f64 {
        survival.outlook(age_s).stays(t_s)
    }

    #[test]
    fn a_new_peer_claims_no_certainty() {
        let survival = OwnSurvival::new(Prior::Used);
        assert!((0.85..0.99).contains(&stays(&survival, 0.0, 120.0)), "{}", stays(&survival, 0.0, 120.0));
        assert!((0.02..0.3).contains(&stays(&survival, 0.0, 4.0 * 3600.0)));
        assert!(stays(&survival, 3600.0, 600.0) > stays(&survival, 0.0, 600.0));
    }

    #[test]
    fn a_machine_that_nobody_uses_is_expected_to_stay() {
        let unused = OwnSurvival::new(Prior::Unused);
        assert!(stays(&unused, 0.0, 60.0) > 0.999);
        assert!(stays(&unused, 0.0, 3600.0) > 0.98);
        let left = OwnSurvival::fit(Prior::Unused, &short(95));
        assert!(stays(&left, 0.0, 120.0) < 0.2, "what happened counts: {}", stays(&left, 0.0, 120.0));
        assert!(stays(&left, 0.0, 600.0) < 0.08, "whatever was said: {}", stays(&left, 0.0, 600.0));
    }

    #[test]
    fn many_recorded_sessions_outweigh_the_prior() {
        let survival = OwnSurvival::fit(Prior::Used, &short(95));
        assert!(stays(&survival, 0.0, 30.0) > 0.7, "{}", stays(&survival, 0.0, 30.0));
        assert!(stays(&survival, 0.0, 300.0) < 0.05, "{}", stays(&survival, 0.0, 300.0));
        let day = (0..60).map(|n| ended(n * DAY_S, 20.0 * 3600.0)).collect::<Vec<_>>();
        let long = OwnSurvival::fit(Prior::Used, &day);
        assert!(stays(&long, 0.0, 300.0) > 0.93, "{}", stays(&long, 0.0, 300.0));
        assert!(survival.theta() > 2.0 * long.theta());
        assert_eq!((survival.sessions(), long.sessions()), (95, 60));
    }

    #[test]
    fn an_owner_s_hours_are_learnt() {
        // Away from 18 h to 9 h, and from 12 h to 13 h.
        let days = (0..40).flat_map(|day| {
            let at = |hour: u64| (day * 24 + hour) * 3600;
            [ended(at(12), 3600.0), ended(at(18), 15.0 * 3600.0)]
        });
        let mut survival = OwnSurvival::fit(Prior::Used, &days.collect::<Vec<_>>());
        let mut ask = |hour: u64| {
            let began_s = (40 * 24 + hour) * 3600;
            survival.begin(Beginning { wall_s: began_s as f64, week_s: Some(week_s(began_s)), on_ac: None });
            stays(&survival, 1800.0, 3600.0)
        };
        let (noon, night) = (ask(12), ask(22));
        assert!(night > noon + 0.3, "noon {noon}, night {night}");
    }

    #[test]
    fn staying_is_news() {
        let mut survival = OwnSurvival::fit(Prior::Used, &short(20));
        let before = stays(&survival, 3600.0, 600.0);
        survival.begin(Beginning { wall_s: 1e6, week_s: None, on_ac: None });
        assert!(stays(&survival, 3600.0, 600.0) > before);
    }

    #[test]
    fn an_update_at_each_departure_is_the_same_as_a_fit_of_the_record() {
        let records = short(30);
        let mut told = OwnSurvival::new(Prior::Used);
        for record in &records {
            told.begin(Beginning::of(record));
            told.end(record.length_s, record.cause);
        }
        let fitted = OwnSurvival::fit(Prior::Used, &records);
        assert_eq!(told.curve_at(10.0), fitted.curve_at(10.0));
        let live = SessionRecord { ended_s: None, cause: None, ..ended(40 * 900, 0.0) };
        told.begin(Beginning::of(&live));
        let with_live = OwnSurvival::fit(Prior::Used, &[records, vec![live]].concat());
        assert_eq!(told.curve_at(77.0), with_live.curve_at(77.0));
    }

    #[test]
    fn a_clock_that_jumps_changes_no_length() {
        let steady: Vec<_> = (0..20).map(|n| ended(10 * DAY_S + n * 7200, 1800.0)).collect();
        let unknown = |mut record: SessionRecord| {
            record.week_s = None;
            record
        };
        let jump = |mut record: SessionRecord| {
            record.started_s -= if record.started_s.is_multiple_of(14_400) { 9 * DAY_S } else { 0 };
            unknown(record)
        };
        let jumping: Vec<_> = steady.iter().cloned().map(jump).collect();
        let steady: Vec<_> = steady.into_iter().map(unknown).collect();
        let (one, other) = (OwnSurvival::fit(Prior::Used, &steady), OwnSurvival::fit(Prior::Used, &jumping));
        let (one, other) = (stays(&one, 600.0, 1800.0), stays(&other, 600.0, 1800.0));
        assert!((one - other).abs() < 0.1, "{one} {other}");
    }

    #[test]
    fn survival_starts_at_one_and_never_rises() {
        for prior in [Prior::Used, Prior::Unused] {
            let survival = OwnSurvival::fit(prior, &[ended(0, 10.0), ended(100, 1000.0)]);
            let outlook = survival.outlook(5.0);
            let curve: Vec<f64> = (0..2000).map(|t_s| outlook.stays(f64::from(t_s))).collect();
            assert_eq!(curve[0], 1.0);
            assert!(curve.is_sorted_by(|a, b| a >= b));
        }
    }
}
