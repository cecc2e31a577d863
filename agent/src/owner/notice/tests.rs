//! The conversation with logind, as scripts.

use super::Heard::{Connected, Lost, Prepare, Said, Taken, Tick};
use super::Lock::{Shutdown, Sleep};
use super::*;

const GRACE: Duration = Duration::from_millis(1800);
const DELAY: Duration = Duration::from_secs(5);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A machine whose inhibitors are held.
fn ready(grace: Duration) -> Machine {
    let mut machine = Machine::new(grace);
    let acts = machine.handle(ms(0), Connected { delay_max: DELAY });
    assert_eq!(acts, [Act::Take(Sleep), Act::Take(Shutdown)]);
    machine.handle(ms(1), Taken(Sleep));
    machine.handle(ms(1), Taken(Shutdown));
    machine
}

/// Feeds (millisecond, what was heard) and compares what is to be done at each.
fn check(machine: &mut Machine, steps: &[(u64, Heard, &[Act])]) {
    for (at, heard, expected) in steps {
        assert_eq!(machine.handle(ms(*at), *heard), *expected, "{heard:?} at {at}");
    }
}

#[test]
fn the_machine_sleeps_as_soon_as_goodbye_is_said_and_the_inhibitor_is_taken_again_after_it() {
    let mut machine = ready(GRACE);
    check(
        &mut machine,
        &[
            (100, Prepare(Sleep, true), &[Act::Leave(Sleep, ms(1400))]),
            (101, Prepare(Sleep, true), &[]),
            (230, Said(Sleep), &[Act::Release(Sleep)]),
            (231, Said(Sleep), &[]),
            (1700, Tick, &[]),
            (600_000, Prepare(Sleep, false), &[Act::Take(Sleep), Act::Back(Sleep)]),
            (600_001, Prepare(Sleep, false), &[]),
        ],
    );
    machine.handle(ms(600_010), Taken(Sleep));
    check(&mut machine, &[(700_000, Prepare(Sleep, true), &[Act::Leave(Sleep, ms(1400))])]);
}

#[test]
fn a_driver_that_says_nothing_holds_the_machine_no_longer_than_promised() {
    let mut machine = ready(GRACE);
    check(&mut machine, &[(100, Prepare(Shutdown, true), &[Act::Leave(Shutdown, ms(1400))])]);
    assert_eq!(machine.poll_timeout(), Some(ms(1600)));
    check(&mut machine, &[(1599, Tick, &[]), (1600, Tick, &[Act::Release(Shutdown)])]);
    assert_eq!(machine.poll_timeout(), None);
    // A shutdown that somebody calls off.
    check(&mut machine, &[(2000, Prepare(Shutdown, false), &[Act::Take(Shutdown), Act::Back(Shutdown)])]);
}

#[test]
fn a_machine_that_comes_back_before_goodbye_is_said_lets_go_first() {
    let mut machine = ready(ms(300));
    check(
        &mut machine,
        &[
            (100, Prepare(Sleep, true), &[Act::Leave(Sleep, ms(300))]),
            (200, Prepare(Sleep, false), &[Act::Release(Sleep), Act::Take(Sleep), Act::Back(Sleep)]),
        ],
    );
}

#[test]
fn without_an_inhibitor_there_is_no_notice() {
    let mut machine = Machine::new(GRACE);
    check(
        &mut machine,
        &[
            (0, Connected { delay_max: DELAY }, &[Act::Take(Sleep), Act::Take(Shutdown)]),
            (1, Taken(Shutdown), &[]),
            (5, Prepare(Sleep, true), &[Act::Leave(Sleep, ms(0))]),
            (6, Said(Sleep), &[]),
        ],
    );
    assert_eq!(machine.poll_timeout(), None);
}

#[test]
fn a_logind_that_vanishes_keeps_nobody_away() {
    let mut machine = ready(GRACE);
    machine.handle(ms(10), Prepare(Sleep, true));
    let acts = machine.handle(ms(20), Lost);
    assert_eq!(acts, [Act::Release(Sleep), Act::Back(Sleep), Act::Release(Shutdown)]);
    assert_eq!((machine.handle(ms(30), Lost), machine.poll_timeout()), (vec![], None));
}
