//! Recorded availability crossed with a recorded workload: a stretch of the one and a part of the other for each seed.

use super::fleet::{Archetype, BatchSpec, Link, PeerSpec};
use super::input::{Availability, LeavingSpec};
use super::random::{Draws, Purpose};
use super::scenario::{Arrival, Scenario, ScenarioError, Span, World};

/// What is made of a record. Records say when hosts were there, and when how much was asked; not what they could do.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedSpec {
    /// What results call it.
    pub name: String,
    /// How many hosts take part: drawn among those that are there at all in the stretch.
    pub peers: usize,
    /// The kind of machine that each is taken for.
    pub kind: Archetype,
    /// Its network.
    pub link: Link,
    /// How it batches.
    pub batch: BatchSpec,
    /// How hosts leave: the record does not say.
    pub leaving: LeavingSpec,
    /// The part of the requests that are asked, drawn one by one: what is recorded was asked of a cloud.
    pub share: f64,
    /// How many times slower they come than they were recorded: bursts stay bursts.
    pub stretch: f64,
    /// How long a run lasts.
    pub span: Span,
}

impl RecordedSpec {
    /// The stretch, the hosts and the requests of `seed`. Hosts know their sessions of before the stretch.
    ///
    /// # Errors
    /// A record that is shorter than the run, and numbers that make no sense.
    pub fn draw(
        &self,
        availability: &Availability,
        workload: &[Arrival],
        seed: u64,
    ) -> Result<Scenario, ScenarioError> {
        self.check()?;
        let needed_s = self.span.end_s();
        let (first_s, last_s) = bounds_s(availability).ok_or(ScenarioError::NoPeers)?;
        if last_s - first_s < needed_s {
            return Err(ScenarioError::BeyondData { wanted_s: needed_s, known_s: last_s - first_s });
        }
        let mut draws = Draws::new(seed, Purpose::Arrivals, 1);
        let from_s = draws.between(first_s, last_s - needed_s);
        let Availability { hosts, mut stays } = availability.cut(from_s, needed_s, self.peers, seed);
        let mut peers = Vec::with_capacity(hosts.len());
        for (of, (host, of_host)) in (0..).zip(hosts.into_iter().zip(&mut stays)) {
            let (spec, _) = self.kind.draw(seed, of, self.batch);
            self.leaving.settle(seed, of, of_host);
            peers.push(PeerSpec { name: host, link: self.link, ..spec });
        }
        let arrivals = self.requests(workload, &mut draws)?;
        let (name, span) = (self.name.clone(), self.span);
        Ok(Scenario { name, peers, stays, arrivals, span, world: World::default() }.within_memory())
    }

    fn check(&self) -> Result<(), ScenarioError> {
        if self.peers == 0 {
            return Err(ScenarioError::NoPeers);
        }
        for (what, value, is_good, wanted) in [
            ("the share of requests", self.share, self.share > 0.0 && self.share <= 1.0, "more than 0, at most 1"),
            ("the stretch", self.stretch, self.stretch > 0.0 && self.stretch.is_finite(), "a finite number above 0"),
        ] {
            if !is_good {
                return Err(ScenarioError::Number { what, value, wanted });
            }
        }
        Ok(())
    }

    /// From a moment that is drawn, for as long as the run takes requests.
    fn requests(&self, workload: &[Arrival], draws: &mut Draws) -> Result<Vec<Arrival>, ScenarioError> {
        let wanted_s = self.span.duration_s;
        let known_s = workload.last().map_or(0.0, |last| last.at_s * self.stretch);
        if known_s < wanted_s {
            return Err(ScenarioError::BeyondData { wanted_s, known_s });
        }
        let from_s = draws.between(0.0, known_s - wanted_s);
        let moved = workload.iter().map(|one| Arrival { at_s: one.at_s * self.stretch - from_s, ..*one });
        let within = moved.filter(|one| (0.0..wanted_s).contains(&one.at_s));
        Ok(within.filter(|_| draws.happens(self.share)).collect())
    }
}

/// When the record begins and ends.
fn bounds_s(availability: &Availability) -> Option<(f64, f64)> {
    let first_s = availability.stays.iter().flatten().map(|stay| stay.start_s).min_by(f64::total_cmp)?;
    Some((first_s, availability.end_s()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::fleet::LinkClass;
    use crate::sim::input::{parse_availability, parse_workload};

    fn spec() -> RecordedSpec {
        RecordedSpec {
            name: "recorded".to_owned(),
            peers: 2,
            kind: Archetype::LAPTOP,
            link: LinkClass::Wifi.link(),
            batch: BatchSpec::ONE_AT_A_TIME,
            leaving: LeavingSpec::SILENT,
            share: 0.5,
            stretch: 2.0,
            span: Span { duration_s: 100.0, warmup_s: 10.0, drain_s: 50.0 },
        }
    }

    fn tables() -> (Availability, Vec<Arrival>) {
        let sessions = "host,start_s,end_s,censored\na,0,400,2\nb,0,90,0\nb,120,400,1\nc,390,400,0\n";
        let requests: Vec<String> = (0..100).map(|n| format!("{n},100,50")).collect();
        let table = format!("arrival_s,prompt_tokens,output_tokens\n{}\n", requests.join("\n"));
        let workload = parse_workload("w", &table).unwrap();
        (parse_availability("a", sessions).unwrap(), workload)
    }

    #[test]
    fn each_seed_draws_its_own_stretch_hosts_and_requests() {
        let (availability, workload) = tables();
        let draw = |seed| spec().draw(&availability, &workload, seed).unwrap();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        for seed in 0..20 {
            let scenario = draw(seed);
            scenario.check().unwrap();
            assert_eq!(scenario.peers.len(), 2);
            // 50 of the requests fall into the run, and every second is asked.
            assert!((10..45).contains(&scenario.arrivals.len()), "{}", scenario.arrivals.len());
        }
    }

    #[test]
    fn a_run_beyond_the_data_is_refused() {
        let (availability, workload) = tables();
        let long = RecordedSpec { span: Span { duration_s: 380.0, warmup_s: 0.0, drain_s: 50.0 }, ..spec() };
        let error = long.draw(&availability, &workload, 1).unwrap_err().to_string();
        assert_eq!(error, "the run lasts until 430 s, but the data end at 400 s: shorten the run");
        let quick = RecordedSpec { stretch: 0.5, ..spec() };
        let error = quick.draw(&availability, &workload, 1).unwrap_err().to_string();
        assert_eq!(error, "the run lasts until 100 s, but the data end at 49.5 s: shorten the run");
        let none = RecordedSpec { peers: 0, ..spec() };
        assert_eq!(none.draw(&availability, &workload, 1), Err(ScenarioError::NoPeers));
        let nothing = RecordedSpec { share: 0.0, ..spec() };
        assert!(matches!(nothing.draw(&availability, &workload, 1), Err(ScenarioError::Number { .. })));
    }
}
