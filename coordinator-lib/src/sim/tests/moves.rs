//! Standbys, planned moves and notices, by hand.

use idlewild_protocol::DepartureCause;

use super::small::{assert_near, for_good, machine, request, run_of, scenario, stay};
use crate::cost::Way;
use crate::sim::PolicyKind::{HazardOverlapped, OracleFull, ReactiveFastest};
use crate::sim::fleet::PeerSpec;
use crate::sim::report::Figures;
use crate::sim::scenario::{Departure, Scenario};
use crate::sim::world::{Event, Swarm};
use crate::sim::{Part, PolicyParts, RunOptions, run};

/// One machine that leaves as `departure` says at 60 s, a slower one that stays, and a request that takes 100 s on the first.
fn leaving(departure: Departure) -> Scenario {
    let faster = PeerSpec { prefill_tps: 120.0, decode_tps: 11.0, ..machine("a") };
    // Both have come at once, so that nothing but their speed tells them apart.
    let [leaves, lasts] = [stay(-1.0, 60.0, departure), stay(-1.0, 1e6, Departure::UNKNOWN)];
    scenario(vec![(faster, vec![leaves]), (machine("b"), vec![lasts])], vec![request(0.0, 1200, 1000)])
}

/// The corrected rule without these parts.
fn figures_without(scenario: &Scenario, without: &[Part]) -> Figures {
    let parts = PolicyParts { without: without.to_vec(), ..PolicyParts::default() };
    run(scenario, HazardOverlapped, &RunOptions { parts, ..RunOptions::default() }).unwrap().report.figures
}

/// What a forecast brings about.
const FORESIGHT: [Part; 2] = [Part::Prepare, Part::Commit];

#[test]
fn a_departure_that_is_announced_becomes_a_planned_move() {
    let announced = leaving(Departure::Announced { cause: DepartureCause::Sleep, notice_s: 20.0 });
    let moved = figures_without(&announced, &FORESIGHT);
    assert_eq!((moved.losses, moved.planned_moves, moved.preparations), (0.0, 1.0, 1.0));
    assert!((0.1..0.5).contains(&moved.planned_stall_s), "{moved:?}");
    let reactive = run_of(&announced, ReactiveFastest).report.figures;
    assert_eq!((reactive.losses, reactive.uncovered_losses, reactive.planned_moves), (1.0, 1.0, 0.0));
    assert!(reactive.stall_s > 15.0, "it prefills all of its context: {reactive:?}");
    let without = figures_without(&announced, &[Part::Notice, Part::Prepare, Part::Commit]);
    assert_eq!((without.losses, without.planned_moves, without.preparations), (1.0, 0.0, 0.0));
}

#[test]
fn an_owner_who_is_back_leaves_the_context_for_a_moment() {
    let stops = leaving(Departure::Stops { grace_s: 30.0 });
    let rescued = figures_without(&stops, &FORESIGHT);
    assert_eq!((rescued.losses, rescued.rescued), (1.0, 1.0));
    // About 1850 tokens from both ends: 1000 a second of KV and 100 of prefill.
    assert!((1.5..2.2).contains(&rescued.stall_s), "{rescued:?}");
    let short = leaving(Departure::Stops { grace_s: 0.5 });
    let cut_off = figures_without(&short, &FORESIGHT);
    assert!(cut_off.stall_s > 10.0, "the rest is prefilled: {cut_off:?}");
    assert_eq!(cut_off.unfinished, 0.0);
}

#[test]
fn whoever_knows_departures_moves_ahead_of_them() {
    let silent = leaving(Departure::UNKNOWN);
    let oracle = run_of(&silent, OracleFull).report.figures;
    // It places on the slower one at once, which stays.
    assert_eq!((oracle.losses, oracle.uncovered_losses), (0.0, 0.0));
    let mut nobody_stays = silent;
    nobody_stays.stays[1] = vec![stay(-1.0, 90.0, Departure::UNKNOWN), stay(95.0, 1e6, Departure::UNKNOWN)];
    let oracle = run_of(&nobody_stays, OracleFull).report.figures;
    assert!(oracle.planned_moves >= 1.0, "{oracle:?}");
    let reactive = run_of(&nobody_stays, ReactiveFastest).report.figures;
    assert!(oracle.stall_s + oracle.planned_stall_s < reactive.stall_s, "{oracle:?} {reactive:?}");
}

/// A request that decodes on peer 0 and is prepared on peer 1 by `way`, from 0 s on.
fn prepared(way: Way) -> Swarm {
    let two = scenario(vec![(machine("a"), for_good()), (machine("b"), for_good())], vec![request(0.0, 400, 1000)]);
    let mut swarm = Swarm::new(&two, false);
    for peer in &mut swarm.peers {
        peer.presence = crate::sim::world::Presence::Here;
    }
    swarm.requests.push(crate::sim::world::Live::new(two.arrivals[0]));
    let assignment =
        crate::sim::world::Assignment { to: 0, left_tokens: 0.0, overhead_s: 0.0, source: None, may_prefill: true };
    swarm.assign(0, assignment);
    swarm.prepare(0, 1, way);
    swarm.settle();
    swarm
}

fn pass(swarm: &mut Swarm, until_s: f64) {
    while let Some((at_s, event)) = swarm.events.pop() {
        if at_s > until_s {
            break;
        }
        swarm.now_s = at_s;
        if let Event::Progress { request, .. } = event {
            swarm.requests[request].advance(at_s);
            swarm.mark(1);
            swarm.settle();
        }
    }
    swarm.now_s = until_s;
    swarm.requests[0].advance(until_s);
}

#[test]
fn each_way_of_preparing_takes_the_time_and_the_work_that_the_policy_computes() {
    for (way, begins_s, gain_tps, works) in
        [(Way::Ids, 0.2, 100.0, true), (Way::PreCopy, 0.05, 1000.0, false), (Way::Hybrid, 0.2, 1100.0, true)]
    {
        let mut swarm = prepared(way);
        let context = 400.0 + 10.0 * begins_s;
        let ready_s = begins_s + context / (gain_tps - 10.0);
        pass(&mut swarm, ready_s - 0.01);
        let lag = swarm.requests[0].standby.unwrap().lag_tokens;
        assert_near(&format!("{way:?}: just before"), lag, 0.01 * (gain_tps - 10.0));
        let before_s = swarm.requests[0].outcome.preparation_s;
        assert_near(&format!("{way:?}: work"), before_s, if works { ready_s - 0.01 - begins_s } else { 0.0 });
        let mut swarm = prepared(way);
        pass(&mut swarm, ready_s + 10.0);
        let live = &swarm.requests[0];
        assert!(live.standby.unwrap().keeps_up(), "{way:?}");
        // It follows 10 tokens a second: by a tenth of its time where only ids come.
        let follows_s = if way == Way::Ids { 1.0 } else { 0.0 };
        let worked_s = if works { ready_s - begins_s } else { 0.0 };
        assert_near(&format!("{way:?}: following"), live.outcome.preparation_s, worked_s + follows_s);
    }
}

#[test]
fn a_standby_that_keeps_up_takes_over_with_next_to_nothing_to_make() {
    // It has left after a minute forty times: whoever runs there is prepared elsewhere, even if that was not minded before.
    let mut learnt = leaving(Departure::UNKNOWN);
    learnt.stays[0] = (-40..1)
        .map(|n| {
            let start_s = 70.0 * f64::from(n);
            stay(start_s - 1.0, start_s + 60.0, Departure::UNKNOWN)
        })
        .collect();
    let covered = figures_without(&learnt, &[Part::PlacementHazard]);
    let reactive = run_of(&learnt, ReactiveFastest).report.figures;
    assert_eq!(reactive.losses, 1.0, "{reactive:?}");
    assert!(covered.uncovered_losses < reactive.uncovered_losses, "{covered:?}");
    assert!(covered.stall_s + covered.planned_stall_s < reactive.stall_s / 2.0, "{covered:?} {reactive:?}");
}
