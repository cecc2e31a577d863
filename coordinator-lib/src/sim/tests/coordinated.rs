//! The product's coordinator, in the same world: it decides what the rules decide when they are asked directly.

use super::small::{for_good, machine, request, scenario, stay};
use crate::sim::fleet::{Link, PeerSpec};
use crate::sim::scenario::{Departure, Scenario, ScenarioError, Stay, World};
use crate::sim::{Decider, Part, PolicyKind, PolicyParts, RunOptions, run};

/// A machine that comes for a minute every 75 s, has done so for an hour, and is the fastest.
fn restless(seed: u32) -> Vec<Stay> {
    (-48..13)
        .map(|n| {
            let start_s = 75.0 * f64::from(n) + f64::from(seed);
            stay(start_s, start_s + 60.0, Departure::UNKNOWN)
        })
        .collect()
}

/// Five machines, two of them restless, and a request now and then.
fn household() -> Scenario {
    let link = Link { up_bps: 1e6, down_bps: 1e6, round_trip_s: 0.0 };
    let of = |name: &str, decode_tps| PeerSpec { decode_tps, link, ..machine(name) };
    let machines = vec![
        (of("a", 16.0), restless(0)),
        (of("b", 15.0), restless(31)),
        (of("c", 12.0), for_good()),
        (of("d", 11.0), for_good()),
        (
            of("e", 10.0),
            vec![stay(
                -5.0,
                300.0,
                Departure::Announced { cause: idlewild_protocol::DepartureCause::Sleep, notice_s: 20.0 },
            )],
        ),
    ];
    let requests = (0..12).map(|n| request(f64::from(n) * 61.0, 300 + 150 * (n % 5), 200 + 130 * (n % 4))).collect();
    let world = World { digest_interval_s: 0.0, ..World::default() };
    Scenario { world, ..scenario(machines, requests) }
}

/// Without what the coordinator is not told of (lengths as distributions in a placement, what runs beside a newcomer).
fn options(decider: Decider) -> RunOptions {
    let without = vec![Part::Residual, Part::Slowdown];
    let parts = PolicyParts { without, ..PolicyParts::default() };
    RunOptions { parts, decider, keeps_log: true, ..RunOptions::default() }
}

#[test]
fn the_coordinator_decides_what_its_rules_decide() {
    let household = household();
    let log = |decider| run(&household, PolicyKind::HazardOverlapped, &options(decider)).unwrap().log;
    let (rules, machine) = (log(Decider::Rules), log(Decider::Coordinator));
    let decisions = |what: &str| rules.lines().filter(|line| line.contains(what)).count();
    assert!(decisions("to peer") >= 12 && decisions("is prepared") > 0, "nothing was decided:\n{rules}");
    for (line, (ours, theirs)) in rules.lines().zip(machine.lines()).enumerate() {
        assert_eq!(ours, theirs, "line {line}");
    }
    assert_eq!(rules.lines().count(), machine.lines().count());
}

#[test]
fn only_its_own_rule_is_asked_of_the_coordinator() {
    let error = run(&household(), PolicyKind::LoadAware, &options(Decider::Coordinator)).unwrap_err();
    assert_eq!(error, ScenarioError::NotCoordinated { policy: "load_aware" });
}
