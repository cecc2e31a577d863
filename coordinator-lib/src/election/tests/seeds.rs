//! Many seeds: a phase of faults in which nothing wrong may happen, then calm in which the right thing must.

use core::time::Duration;

use super::net::{FINE, Net, Weather, ms};
use crate::election::Input;

const STORM: Weather = Weather {
    loss_percent: 20,
    twice_percent: 20,
    delay_max: Duration::from_millis(900),
    notice_arrival: Duration::from_millis(100),
    notice_departure_max: Duration::from_secs(2),
};

/// One fault of the world.
fn disturb(net: &mut Net) {
    let up = net.up();
    let down = net.down();
    let any = up[net.draw(up.len() as u64) as usize];
    match net.draw(9) {
        0 | 1 if up.len() > 1 => net.kill(any),
        2..=4 if !down.is_empty() => net.start(down[0]),
        5 => {
            let cut = net.draw(256) as u8;
            net.split(|p| usize::from(p.0[0].wrapping_mul(37) > cut));
        }
        6 => net.split(|_| 0),
        7 => net.say(any, Input::Leaving),
        8 => net.say(any, Input::Staying),
        _ => net.freeze(any, net.now.as_millis().is_multiple_of(2)),
    }
}

/// The world's own ghost asserts, all the while, one leader a term and one vote a round.
fn check(n: usize, seed: u64) {
    let mut net = Net::new(n, seed, STORM);
    for _ in 0..40 {
        let pause = net.draw(3000);
        net.run(ms(pause));
        disturb(&mut net);
    }
    net.weather = FINE;
    net.split(|_| 0);
    for who in net.down() {
        net.start(who);
    }
    for who in net.up() {
        net.freeze(who, false);
        net.say(who, Input::Staying);
    }
    // The pause after many failed candidacies may be 10 s.
    net.run(ms(12_000));
    let all = net.up();
    let leader = net.leader_of(&all);
    assert!(leader.is_some(), "{n} peers, seed {seed}: {net:#?}");
    let elections = net.elected.len();
    net.run(ms(20_000));
    assert_eq!(net.leader_of(&all), leader, "{n} peers, seed {seed}");
    assert_eq!(net.elected.len(), elections, "{n} peers, seed {seed}: elected anew in calm weather");
}

#[test]
fn after_any_storm_there_is_one_leader_and_it_stays() {
    for seed in 0..600 {
        check(1 + seed as usize % 7, seed);
    }
}

#[test]
fn a_swarm_of_twenty_survives_storms_too() {
    for seed in 0..20 {
        check(20, 10_000 + seed);
    }
}
