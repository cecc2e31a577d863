//! One seed is one run, byte for byte.

use crate::sim::fleet::BatchSpec;
use crate::sim::input::{Fault, LeavingSpec, apply_fault};
use crate::sim::scenario::{Scenario, Span};
use crate::sim::synthetic::{SyntheticFleet, SyntheticSpec};
use crate::sim::{PolicyKind, RunOptions, run};

/// A busy hour of the mixed fleet, with departures of every kind and a fault of everybody.
pub(super) fn eventful(seed: u64) -> Scenario {
    let spec = SyntheticSpec {
        leaving: LeavingSpec { announced_share: 0.3, notice_s: 20.0, stops_share: 0.3, grace_s: 8.0 },
        batch: BatchSpec { slots: 3, shared_step: 0.5 },
        load: 2.0,
        history_s: 1800.0,
        // Long enough for whoever places at random.
        span: Some(Span { duration_s: 1800.0, warmup_s: 300.0, drain_s: 14_400.0 }),
        ..SyntheticSpec::reference(SyntheticFleet::Mixed)
    };
    let mut scenario = spec.draw(seed);
    apply_fault(&Fault { at_s: 900.0, lasts_s: 60.0, share: 0.7 }, 0, seed, &mut scenario.stays);
    scenario
}

#[test]
fn the_same_seed_gives_the_same_log_and_another_seed_another() {
    for policy in PolicyKind::ALL {
        let log = |seed| {
            let options = RunOptions { seed, keeps_log: true, ..RunOptions::default() };
            run(&eventful(seed), policy, &options).unwrap()
        };
        let (first, again, other) = (log(1), log(1), log(2));
        assert!(first.log.lines().count() > 1000, "{policy:?}: {}", first.log.lines().count());
        assert!(first == again, "{policy:?}: the second run of the seed differs");
        assert!(first.log != other.log, "{policy:?}: seeds make no difference");
    }
}

#[test]
fn every_policy_meets_the_same_requests_and_departures() {
    let facts = |policy| {
        let run = run(&eventful(3), policy, &RunOptions { keeps_log: true, ..RunOptions::default() }).unwrap();
        let is_fact = |line: &&str| line.ends_with("arrives") || (line.contains("peer") && line.ends_with("ends"));
        let until =
            |line: &&str| line.split(' ').next().and_then(|at| at.parse().ok()).is_some_and(|at: f64| at < 1800.0);
        let lines: Vec<String> = run.log.lines().filter(is_fact).filter(until).map(str::to_owned).collect();
        lines
    };
    let first = facts(PolicyKind::ALL[0]);
    assert!(first.len() > 500);
    for policy in PolicyKind::ALL {
        assert!(facts(policy) == first, "{policy:?}");
    }
}
