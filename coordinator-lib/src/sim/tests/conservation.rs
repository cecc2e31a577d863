//! What no event may ever bring about.

use std::collections::BTreeMap;

use super::determinism::eventful;
use crate::sim::world::Phase;
use crate::sim::{PolicyKind, RunOptions, Simulation};

#[test]
fn nobody_works_while_away_and_every_request_ends_once_with_all_its_tokens() {
    for policy in PolicyKind::ALL {
        let scenario = eventful(4);
        let options = RunOptions { keeps_log: true, ..RunOptions::default() };
        let mut simulation = Simulation::new(&scenario, policy, &options).unwrap();
        let mut done: BTreeMap<usize, u32> = BTreeMap::new();
        while simulation.step() {
            let swarm = simulation.swarm();
            if let Some(fault) = swarm.fault() {
                panic!("{policy:?} at {} s: {fault}", swarm.now_s);
            }
            let unfinished = swarm.requests.iter().enumerate().filter(|(_, live)| live.phase != Phase::Finished);
            for (at, live) in unfinished {
                let before = done.insert(at, live.done_tokens()).unwrap_or(0);
                assert!(live.done_tokens() >= before, "{policy:?}: request {at} lost tokens that had come");
            }
        }
        let requests = &simulation.swarm().requests;
        assert!(requests.len() > 1000, "{policy:?}");
        for (at, live) in requests.iter().enumerate() {
            assert_eq!(live.phase, Phase::Finished, "{policy:?}: request {at}");
            assert_eq!(live.done_tokens(), live.arrival.output_tokens, "{policy:?}: request {at}");
        }
        let count = requests.len();
        let run = simulation.finish();
        let mut ends: Vec<&str> = run
            .log
            .lines()
            .filter(|line| line.contains("is finished"))
            .filter_map(|line| line.split(' ').nth(2))
            .collect();
        assert_eq!(ends.len(), count, "{policy:?}");
        ends.sort_unstable();
        ends.dedup();
        assert_eq!(ends.len(), count, "{policy:?}: one ended twice");
        let figures = run.report.figures;
        assert!((0.0..=1.0).contains(&figures.utilisation) && figures.unfinished == 0.0, "{policy:?}: {figures:?}");
        assert!(figures.losses >= figures.uncovered_losses && figures.uncovered_losses >= figures.requests_hit);
    }
}

/// The checker is worth something: a peer that works while it is away is found.
#[test]
fn a_peer_that_works_while_away_is_noticed() {
    let scenario = eventful(5);
    let mut simulation = Simulation::new(&scenario, PolicyKind::ReactiveFastest, &RunOptions::default()).unwrap();
    while simulation.step() && simulation.swarm().peers.iter().all(|peer| peer.busy_share < 0.5) {}
    let busy = simulation.swarm().peers.iter().position(|peer| peer.busy_share >= 0.5).unwrap();
    assert_eq!(simulation.swarm().fault(), None);
    simulation.swarm_mut().peers[busy].presence = crate::sim::world::Presence::Away;
    assert!(simulation.swarm().fault().is_some());
}
