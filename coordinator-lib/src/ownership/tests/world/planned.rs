//! Planned moves in the same world: a destination prepares, and takes over at a token that the coordinator chose, whatever
//! happens meanwhile.

use std::collections::BTreeMap;

use core::time::Duration;

use idlewild_protocol::{Epoch, JobInput, JobStart, PeerId, PlanStep, TokenId, Way};

use super::super::bench::{PROMPT, ms, peer, proposal};
use super::{ANSWER, Event, HOP, Mishap, PER_TOKEN, PREFILL, RESTART, World, undisturbed};
use crate::ownership::{Ending, Input, LossReason, Output, Preparation, StandbyNews};

/// Never chosen by placements, which take the first that are free.
const DESTINATION: u8 = 7;

/// What the coordinator wants, and what the source and the destination know of it.
#[derive(Debug, Default)]
pub(super) struct Moves {
    plan: Vec<(u32, Act)>,
    proposals: u64,
    pub(super) prepared: Option<Prepared>,
    stop_after: BTreeMap<Epoch, u32>,
    stopped: BTreeMap<Epoch, (PeerId, u32)>,
}

/// What happens once the client has a token.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    Propose(PlanStep),
    /// The destination dies, and that is noticed after a moment.
    Kill,
    /// The destination dies, and nobody notices.
    Freeze,
}

#[derive(Debug)]
pub(super) struct Prepared {
    destination: PeerId,
    preparation: Preparation,
    context: JobStart,
}

impl Prepared {
    fn tokens(&self) -> u32 {
        let JobInput::Tokens { prompt, generated } = &self.context.input else { panic!("no ids") };
        (prompt.len() + generated.len()) as u32
    }
}

impl World {
    /// The client has this token.
    pub(super) fn move_on(&mut self, index: u32) {
        let due: Vec<Act> = self.moves.plan.iter().filter(|(at, _)| *at == index).map(|(_, act)| *act).collect();
        for act in due {
            match act {
                Act::Propose(step) => {
                    self.moves.proposals += 1;
                    let proposal = proposal(1, self.moves.proposals, 1, step);
                    self.schedule(HOP, Event::ToOrigin(Input::Proposed(proposal)));
                }
                Act::Kill => {
                    self.gone.insert(peer(DESTINATION));
                    let (preparation, news) = (Preparation(1), StandbyNews::Lost(LossReason::Closed));
                    self.schedule(ms(20), Event::ToOrigin(Input::Standby { preparation, news }));
                }
                Act::Freeze => {
                    self.gone.insert(peer(DESTINATION));
                }
            }
        }
    }

    pub(super) fn prepare(&mut self, destination: PeerId, preparation: Preparation, context: JobStart) {
        self.moves.prepared = Some(Prepared { destination, preparation, context });
        self.schedule(2 * HOP + PREFILL, Event::CaughtUp(preparation));
    }

    pub(super) fn forward(&mut self, ids: Vec<TokenId>) {
        let prepared = self.moves.prepared.as_mut().unwrap();
        let JobInput::Tokens { generated, .. } = &mut prepared.context.input else { panic!("no ids") };
        generated.extend(ids);
        let preparation = prepared.preparation;
        self.schedule(2 * HOP + PREFILL, Event::CaughtUp(preparation));
    }

    pub(super) fn catch_up(&mut self, preparation: Preparation) {
        let is_gone = self.gone.contains(&peer(DESTINATION));
        let Some(prepared) = self.moves.prepared.as_ref().filter(|p| p.preparation == preparation && !is_gone) else {
            return;
        };
        let news = StandbyNews::Progress { held_tokens: prepared.tokens() };
        self.origin.handle(self.now, Input::Standby { preparation, news });
    }

    pub(super) fn stop_after(&mut self, epoch: Epoch, index: u32) {
        self.moves.stop_after.insert(epoch, index);
    }

    pub(super) fn go_on(&mut self, epoch: Epoch) {
        self.moves.stop_after.remove(&epoch);
        if let Some((worker, index)) = self.moves.stopped.remove(&epoch) {
            self.schedule(HOP, Event::Step { worker, epoch, at: Some(index) });
        }
    }

    /// Whether the worker was told to say no such token; it waits then.
    pub(super) fn has_stopped(&mut self, worker: PeerId, epoch: Epoch, index: u32) -> bool {
        let has_stopped = self.moves.stop_after.get(&epoch).is_some_and(|last| index > *last);
        if has_stopped {
            self.moves.stopped.insert(epoch, (worker, index));
        }
        has_stopped
    }

    pub(super) fn take_over(&mut self, epoch: Epoch, from_index: u32) {
        let Prepared { destination, context, .. } = self.moves.prepared.take().unwrap();
        self.starts.insert(epoch, JobStart { epoch, ..context });
        self.schedule(HOP + PER_TOKEN, Event::Step { worker: destination, epoch, at: Some(from_index) });
    }
}

fn prepare() -> Act {
    Act::Propose(PlanStep::Prepare { destination: peer(DESTINATION), way: Way::Ids })
}

fn commit() -> Act {
    Act::Propose(PlanStep::Commit { destination: peer(DESTINATION), way: Way::Ids })
}

/// The answer is whole and exact, and never paused for longer. Returns its endings, and the longest pause.
fn check(plan: &[(u32, Act)], mishaps: &[(u32, Mishap)], pause_max: Duration) -> (Vec<Ending>, Duration) {
    let mut world = World::new(mishaps);
    world.moves.plan = plan.to_vec();
    world.run();
    assert_eq!(world.text, undisturbed(), "{plan:?} {mishaps:?}");
    assert!(matches!(world.end, Some(Output::Done { output_tokens: ANSWER, .. })), "{plan:?} {mishaps:?}");
    assert!(world.longest_pause <= pause_max, "paused for {:?}: {plan:?} {mishaps:?}", world.longest_pause);
    let endings = world.origin.story().iter().map(|a| a.ended.clone().unwrap().1).collect();
    (endings, world.longest_pause)
}

/// A hand-over: the last id on its way, one token, and its way back.
const HAND_OVER: Duration = Duration::from_millis(5 + 50 + 5);

/// Tokens after which moves are tried: all but the last few, after which none begins.
fn tokens() -> impl Iterator<Item = u32> {
    10..ANSWER - 6
}

#[test]
fn a_planned_move_at_any_token_loses_none_and_hardly_pauses() {
    let mut worst = Duration::ZERO;
    for at in tokens() {
        let (endings, pause) = check(&[(2, prepare()), (at, commit())], &[], HAND_OVER);
        assert_eq!(endings[0], Ending::HandedOver, "after {at}");
        worst = worst.max(pause);
    }
    println!("longest time between two tokens around a planned move: {worst:?}; {PER_TOKEN:?} between any two");
}

#[test]
fn a_source_that_is_lost_at_any_token_after_prepare_is_replaced_without_a_prefill() {
    for at in tokens() {
        for mishap in [Mishap::Killed(ms(20)), Mishap::EngineDies, Mishap::Leaves] {
            check(&[(2, prepare())], &[(at, mishap)], ms(20) + PER_TOKEN + HAND_OVER);
            // The source says four more tokens after a commit: it is still the source that is lost.
            for before in 0..5 {
                check(&[(2, prepare()), (at - before, commit())], &[(at, mishap)], ms(20) + PER_TOKEN + HAND_OVER);
            }
        }
    }
}

#[test]
fn a_destination_that_dies_before_it_took_over_goes_unnoticed() {
    for at in tokens() {
        let (endings, _) = check(&[(2, prepare()), (at, Act::Kill)], &[], HAND_OVER);
        assert_eq!(endings.len(), 1, "after {at}");
    }
}

#[test]
fn a_destination_that_dies_around_its_commit_costs_no_token() {
    for at in tokens() {
        for after in 0..6 {
            check(&[(2, prepare()), (at, commit()), (at + after, Act::Kill)], &[], PER_TOKEN + ms(20) + RESTART);
            check(&[(2, prepare()), (at, commit()), (at + after, Act::Freeze)], &[], Duration::from_secs(4) + PREFILL);
        }
    }
}

#[test]
fn a_source_that_freezes_after_it_was_told_to_stop_is_waited_for_no_longer_than_promised() {
    for at in tokens() {
        check(&[(2, prepare()), (at, commit())], &[(at + 2, Mishap::Frozen)], ms(2000) + HAND_OVER);
    }
}

#[test]
fn a_move_that_is_withdrawn_at_any_moment_goes_unnoticed() {
    let destination = peer(DESTINATION);
    for at in tokens() {
        for step in [PlanStep::Abort { destination }, PlanStep::Release { destination }] {
            let plan = [(2, prepare()), (at, commit()), (at + 1, Act::Propose(step))];
            let (endings, _) = check(&plan, &[], HAND_OVER);
            assert_eq!(endings.len(), 1, "{step:?} after {at}");
        }
    }
    assert_eq!(PROMPT.len(), 3, "short enough that no lag refuses a commit");
}
