//! Every order of events around one request, by stateright: the origin's machine, its workers, a destination that
//! prepares, coordinators, and a network.
//!
//! Elections are in it as what they can do to a request: any question may be answered by several coordinators, late,
//! twice, and with any worker; and they may propose any step of a planned move at any time, for any assignment, late and
//! twice. Timers carry no time ([`Limits::untimed`](crate::ownership::Limits)): the checker decides when one is due.
//!
//! Two networks: `Streams` keeps the order of each job stream, and cuts it at any place; `Chaos` delivers every event
//! late, twice, in any order or never, which no transport of ours does.
//!
//! What is proved, for all states of a bounded world (or the nearest so many of one that is too large): one accepted token
//! for each index, by the worker of the live epoch; every worker begins with the log as it is; one worker at work; sound
//! workers are never found at fault; stale proposals change nothing. And, as a bounded check of liveness: from every such
//! state the request is finished in whole, within [`calm::STEPS_MAX`] steps, once one worker lives and nothing else fails.

mod calm;
mod job;
mod steps;
mod world;

use stateright::{Checker, CheckerBuilder, HasDiscoveries, Model};

/// Beyond the number of assignments more workers change nothing.
const WORKERS: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Streams,
    Chaos,
}

/// A bug that is put in, to see that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// Events are taken for the live epoch's, whatever theirs is.
    TrustsAnyEpoch,
    /// The source is not told to stop, and the destination begins where it would have.
    CommitsWithoutStop,
    /// The destination says its tokens at once, as if it were of the source's assignment.
    SpeaksUnderOldEpoch,
    /// The destination is let go of when the source dies, and nobody is asked.
    ForgetsToGoOn,
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    network: Network,
    /// Tokens of the whole answer.
    answer: u32,
    assignments: u32,
    questions: u32,
    /// Proposals that are not stale.
    proposals: u64,
    /// Whether the machine gives up at the bound on assignments, or the checker looks no further.
    gives_up: bool,
    bug: Option<Bug>,
}

const STREAMS: Bounds = Bounds {
    network: Network::Streams,
    answer: 2,
    assignments: 2,
    questions: 2,
    proposals: 0,
    gives_up: true,
    bug: None,
};

/// With planned moves.
const PLANNED: Bounds = Bounds { answer: 3, proposals: 3, ..STREAMS };

/// What a test may take: some five seconds of one core. Counted with those that are met again.
const MANY_STATES: usize = 900_000;

fn builder(bounds: Bounds) -> CheckerBuilder<Bounds> {
    bounds.checker().threads(2)
}

fn check(bounds: Bounds, states_max: usize) {
    let checker = builder(bounds).target_state_count(states_max).spawn_bfs().join();
    let extent = if checker.state_count() < states_max { "all" } else { "the nearest" };
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{extent} {states} states of {bounds:?}, depth {depth}");
    assert!(checker.is_done());
    checker.assert_properties();
}

#[test]
fn no_order_of_events_on_streams_breaks_the_log() {
    check(STREAMS, MANY_STATES);
    check(Bounds { assignments: 3, questions: 5, ..STREAMS }, MANY_STATES / 2);
}

#[test]
fn no_chaos_breaks_the_log() {
    check(Bounds { network: Network::Chaos, assignments: 3, questions: 5, ..STREAMS }, MANY_STATES);
}

#[test]
fn no_order_of_planned_moves_breaks_the_log() {
    check(PLANNED, 3 * MANY_STATES);
    check(Bounds { assignments: 3, questions: 3, proposals: 4, ..PLANNED }, MANY_STATES / 2);
}

#[test]
fn no_chaos_around_planned_moves_breaks_the_log() {
    check(Bounds { network: Network::Chaos, ..PLANNED }, MANY_STATES);
}

#[test]
fn a_request_with_one_live_worker_is_finished_from_every_state() {
    check(Bounds { gives_up: false, answer: 2, proposals: 2, ..PLANNED }, MANY_STATES);
    check(Bounds { gives_up: false, questions: 3, ..PLANNED }, MANY_STATES / 4);
}

/// The checker would miss a real bug too, if it missed this.
fn assert_found(bounds: Bounds, property: &'static str) {
    let checker = builder(bounds).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = checker.discovery(property);
    println!("{:?}: {} states", bounds.bug, checker.unique_state_count());
    assert!(found.is_some(), "{:?} was not found", bounds.bug);
}

#[test]
fn the_checker_finds_an_origin_that_trusts_any_epoch() {
    assert_found(Bounds { bug: Some(Bug::TrustsAnyEpoch), ..STREAMS }, steps::ONE_WRITER);
}

#[test]
fn the_checker_finds_a_commit_without_the_sources_stop() {
    assert_found(Bounds { bug: Some(Bug::CommitsWithoutStop), ..PLANNED }, steps::NO_FAULT);
}

#[test]
fn the_checker_finds_a_destination_that_speaks_under_the_old_epoch() {
    assert_found(Bounds { bug: Some(Bug::SpeaksUnderOldEpoch), ..PLANNED }, steps::ONE_WRITER);
}

#[test]
fn the_checker_finds_a_request_that_nobody_goes_on_with() {
    assert_found(Bounds { bug: Some(Bug::ForgetsToGoOn), gives_up: false, ..PLANNED }, steps::FINISHED);
}
