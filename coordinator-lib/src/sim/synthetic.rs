//! The two fleets of the published reference, drawn anew for each seed.

use core::str::FromStr;

use super::fleet::{Archetype, BatchSpec, UnknownName};
use super::input::{ArrivalSpec, LeavingSpec, stays_of};
use super::scenario::{Scenario, Span, World};

/// A synthetic fleet and its load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyntheticFleet {
    /// 45 laptops of volunteers, 0.15 requests a second.
    Volunteer,
    /// 30 laptops, 10 spot machines and 3 servers, 0.6 requests a second.
    Mixed,
}

/// What may differ from the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SyntheticSpec {
    /// Which fleet.
    pub fleet: SyntheticFleet,
    /// How machines batch.
    pub batch: BatchSpec,
    /// How they leave.
    pub leaving: LeavingSpec,
    /// Times as many machines, and requests.
    pub scale: u32,
    /// Times as many requests a machine.
    pub load: f64,
    /// Seconds before the run of which the machines know their sessions.
    pub history_s: f64,
    /// How long it lasts; none for the reference's two hours.
    pub span: Option<Span>,
}

impl SyntheticFleet {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Volunteer, Self::Mixed];

    /// What results call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Volunteer => "volunteer",
            Self::Mixed => "mixed",
        }
    }

    fn kinds(self) -> &'static [(Archetype, u32)] {
        match self {
            Self::Volunteer => &[(Archetype::LAPTOP, 45)],
            Self::Mixed => &[(Archetype::LAPTOP, 30), (Archetype::SPOT, 10), (Archetype::SERVER, 3)],
        }
    }

    fn rate_per_s(self) -> f64 {
        match self {
            Self::Volunteer => 0.15,
            Self::Mixed => 0.6,
        }
    }

    /// The reference's two hours, and its warm-up. Requests that came in time may be finished in another hour.
    pub fn span(self) -> Span {
        let warmup_s = match self {
            Self::Volunteer => 2400.0,
            Self::Mixed => 3600.0,
        };
        Span { duration_s: 7200.0, warmup_s, drain_s: 3600.0 }
    }
}

impl FromStr for SyntheticFleet {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|fleet| fleet.name() == name)
            .ok_or_else(|| UnknownName(name.to_owned(), "fleet", known()))
    }
}

impl SyntheticSpec {
    /// As the reference has it.
    pub fn reference(fleet: SyntheticFleet) -> Self {
        Self {
            fleet,
            batch: BatchSpec::ONE_AT_A_TIME,
            leaving: LeavingSpec::SILENT,
            scale: 1,
            load: 1.0,
            history_s: 0.0,
            span: None,
        }
    }

    /// The fleet and the requests of `seed`.
    pub fn draw(&self, seed: u64) -> Scenario {
        let span = self.span.unwrap_or(self.fleet.span());
        let kinds = self.fleet.kinds().iter();
        let each = kinds.flat_map(|(kind, count)| core::iter::repeat_n(kind, (count * self.scale) as usize));
        let (mut peers, mut stays) = (Vec::new(), Vec::new());
        for (of, kind) in (0..).zip(each) {
            let (spec, habit) = kind.draw(seed, of, self.batch);
            let mut of_peer = stays_of(&habit, seed, of, -self.history_s, span.end_s());
            self.leaving.settle(seed, of, &mut of_peer);
            peers.push(spec);
            stays.push(of_peer);
        }
        let rate_per_s = self.fleet.rate_per_s() * f64::from(self.scale) * self.load;
        let scenario = Scenario {
            name: self.fleet.name().to_owned(),
            peers,
            stays,
            arrivals: ArrivalSpec::reference(rate_per_s).draw(seed, span.duration_s),
            span,
            world: World::default(),
        };
        scenario.within_memory()
    }
}
