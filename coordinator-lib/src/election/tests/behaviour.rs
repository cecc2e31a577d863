//! What an election promises, one promise a test.

use core::time::Duration;

use idlewild_protocol::{Ballot, ElectionMessage};

use super::net::{FINE, Net, Weather, ms, peer};
use crate::election::{Input, term_of};

/// What the product promises after a kill -9 of the coordinator.
const NEW_LEADER_WITHIN: Duration = Duration::from_secs(3);

/// A swarm that has a leader, quiet for a while.
fn settled(n: usize, seed: u64, weather: Weather) -> Net {
    let mut net = Net::new(n, seed, weather);
    let all = net.up();
    net.run_until_agreed(&all, ms(3000));
    net.run(ms(3000));
    net
}

#[test]
fn a_swarm_of_one_has_its_leader_at_once() {
    let net = Net::new(1, 1, FINE);
    assert_eq!(net.leader_at(peer(1)), Some(peer(1)));
}

#[test]
fn strangers_that_meet_elect_the_one_expected_to_stay_longest() {
    for n in 2..=12 {
        let mut net = Net::new(n, 7, FINE);
        let all = net.up();
        let took = net.run_until_agreed(&all, ms(2000));
        assert_eq!(net.leader_of(&all), Some(peer(1)), "of {n} after {took:?}");
        assert_eq!(net.elected.len(), 1, "of {n}");
    }
}

#[test]
fn a_killed_leader_is_replaced_within_three_seconds_and_one_after_its_departure_is_known() {
    let mut worst = Duration::ZERO;
    for notice_s in [0, 1, 2] {
        let notice_departure_max = Duration::from_secs(notice_s);
        for (n, seed) in (2..=9).zip(0..) {
            for seed in (seed * 100)..(seed * 100 + 25) {
                let mut net = settled(n, seed, Weather { notice_departure_max, ..FINE });
                net.kill(peer(1));
                let rest = net.up();
                let took = net.run_until_agreed(&rest, NEW_LEADER_WITHIN);
                let since_known = took.saturating_sub(notice_departure_max.max(ms(1500)));
                assert!(since_known < ms(1000), "{took:?} of {n} with seed {seed}");
                worst = worst.max(took);
            }
        }
    }
    println!("slowest new leader after a kill: {worst:?}");
    assert!(worst > ms(1500), "the world notices departures too early to prove anything");
}

/// All who are left notice a departure in the same moment.
const AT_ONCE: Weather = Weather { notice_departure_max: Duration::ZERO, ..FINE };

#[test]
fn the_successor_is_the_best_of_those_who_notice_at_once() {
    for seed in 0..50 {
        let mut net = settled(5, seed, AT_ONCE);
        net.kill(peer(1));
        net.run(ms(4000));
        assert_eq!(net.leader_of(&net.up()), Some(peer(2)), "seed {seed}");
    }
}

#[test]
fn a_better_ranked_newcomer_does_not_depose_the_leader() {
    let mut net = settled(4, 3, FINE);
    net.add(9, 1e6);
    net.run(ms(10_000));
    assert_eq!(net.leader_of(&net.up()), Some(peer(1)));
    assert_eq!(net.elected.len(), 1);
}

#[test]
fn a_peer_that_restarts_deposes_nobody() {
    for seed in 0..20 {
        let mut net = settled(4, seed, FINE);
        net.kill(peer(3));
        net.run(ms(5000));
        net.start(peer(3));
        net.run(ms(5000));
        assert_eq!(net.leader_of(&net.up()), Some(peer(1)), "seed {seed}");
        assert_eq!(net.elected.len(), 1, "seed {seed}");
    }
}

#[test]
fn a_peer_that_was_cut_off_alone_leads_itself_and_deposes_nobody() {
    let mut net = settled(4, 5, FINE);
    net.split(|p| usize::from(p == peer(3)));
    net.run(ms(5000));
    assert_eq!(net.leader_at(peer(3)), Some(peer(3)));
    net.split(|_| 0);
    net.run(ms(3000));
    assert_eq!(net.leader_of(&net.up()), Some(peer(1)));
    assert_eq!(net.elected.len(), 1);
}

#[test]
fn both_sides_of_a_partition_have_a_leader_and_the_higher_term_stays() {
    for seed in 0..20 {
        let mut net = settled(7, seed, AT_ONCE);
        let far = |p| p > peer(4);
        net.split(|p| usize::from(far(p)));
        net.run(ms(5000));
        let (far_side, near_side): (Vec<_>, Vec<_>) = net.up().into_iter().partition(|p| far(*p));
        assert_eq!(net.leader_of(&near_side), Some(peer(1)), "it goes on");
        assert_eq!(net.leader_of(&far_side), Some(peer(5)), "elected there, in a higher term");
        net.split(|_| 0);
        let all = net.up();
        net.run_until_agreed(&all, ms(1500));
        assert_eq!(net.leader_of(&all), Some(peer(5)));
        net.run(ms(5000));
        assert_eq!(net.elected.len(), 2, "nobody is elected anew");
    }
}

#[test]
fn a_leader_that_leaves_hands_over_to_the_best_successor() {
    for seed in 0..50 {
        let mut net = settled(5, seed, FINE);
        net.say(peer(1), Input::Leaving);
        assert_eq!(net.leader_at(peer(1)), None);
        let all = net.up();
        let took = net.run_until_agreed(&all, ms(1000));
        assert_eq!(net.leader_of(&all), Some(peer(2)), "seed {seed}");
        assert!(took < ms(250), "{took:?}");
    }
}

#[test]
fn a_leader_and_its_successor_that_leave_at_once_cost_one_head_start() {
    for seed in 0..50 {
        let mut net = settled(5, seed, FINE);
        net.say(peer(2), Input::Leaving);
        net.say(peer(1), Input::Leaving);
        let rest = [peer(3), peer(4), peer(5)];
        let took = net.run_until_agreed(&rest, ms(1500));
        assert_eq!(net.leader_of(&rest), Some(peer(3)), "seed {seed} after {took:?}");
    }
}

#[test]
fn a_peer_that_is_leaving_does_not_stand() {
    let mut net = settled(3, 2, FINE);
    net.say(peer(2), Input::Leaving);
    net.kill(peer(1));
    net.run(ms(5000));
    assert_eq!(net.leader_of(&net.up()), Some(peer(3)));
    net.kill(peer(3));
    net.run(ms(5000));
    assert_eq!(net.leader_at(peer(2)), None);
    net.say(peer(2), Input::Staying);
    assert_eq!(net.leader_at(peer(2)), Some(peer(2)), "here to stay, and alone");
}

#[test]
fn a_frozen_leader_is_replaced_and_follows_when_it_thaws() {
    for seed in 0..20 {
        let mut net = settled(4, seed, FINE);
        net.freeze(peer(1), true);
        let rest: Vec<_> = net.up().into_iter().filter(|p| *p != peer(1)).collect();
        net.run_until_agreed(&rest, NEW_LEADER_WITHIN);
        let successor = net.leader_of(&rest);
        net.run(ms(5000));
        net.freeze(peer(1), false);
        net.run(ms(3000));
        assert_eq!(net.leader_of(&net.up()), successor, "seed {seed}");
    }
}

#[test]
fn a_peer_that_alone_cannot_hear_the_leader_does_not_depose_it() {
    let mut net = settled(5, 4, FINE);
    net.cut_link(peer(1), peer(3));
    net.run(ms(60_000));
    let rest: Vec<_> = net.up().into_iter().filter(|p| *p != peer(3)).collect();
    assert_eq!(net.leader_of(&rest), Some(peer(1)));
    assert_eq!(net.elected.len(), 1);
    assert_eq!(net.leader_at(peer(3)), None, "it decides alone");
}

/// Peer 5 tells everybody a term of the highest round there is.
fn lie(net: &mut Net) {
    let from = peer(5);
    let term = term_of(u32::MAX, from);
    let lies = [
        ElectionMessage::RequestVote(Ballot { term, candidate: from }),
        ElectionMessage::Vote { term, granted: false },
        ElectionMessage::Beat { term },
    ];
    for who in net.up().into_iter().filter(|who| *who != from) {
        for message in lies {
            net.say(who, Input::Peer { from, message });
        }
    }
}

/// What a liar may cost on top: a few candidacies that reach peers which were lied to less.
const LIAR_DELAY_MAX: Duration = Duration::from_secs(3);

#[test]
fn a_member_that_lies_about_the_round_costs_a_bounded_delay() {
    let mut worst = Duration::ZERO;
    for seed in 0..40 {
        let mut net = settled(5, seed, FINE);
        lie(&mut net);
        assert_eq!(net.leader_at(peer(2)), Some(peer(1)), "nobody follows such a beat");
        net.kill(peer(1));
        let honest = [peer(2), peer(3), peer(4)];
        let from = net.now;
        while net.leader_of(&honest).is_none_or(|leader| !honest.contains(&leader)) {
            lie(&mut net);
            net.run(ms(100));
            assert!(net.now < from + NEW_LEADER_WITHIN + LIAR_DELAY_MAX, "seed {seed}: no leader");
        }
        worst = worst.max(net.now.saturating_sub(from));
        lie(&mut net);
        net.run(ms(5000));
        assert!(net.leader_of(&honest).is_some_and(|leader| honest.contains(&leader)), "seed {seed}: it stays");
    }
    println!("slowest new leader beside a liar: {worst:?}");
}

#[test]
fn a_leader_stays_through_a_storm_of_lost_beats_that_is_shorter_than_patience() {
    let mut net = settled(4, 6, FINE);
    for _ in 0..20 {
        net.weather.loss_percent = 100;
        net.run(ms(900));
        net.weather.loss_percent = 0;
        net.run(ms(1500));
    }
    assert_eq!(net.leader_of(&net.up()), Some(peer(1)));
    assert_eq!(net.elected.len(), 1);
}
