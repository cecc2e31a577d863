//! What becomes of a request once one worker lives, coordinators answer, and nothing else fails.

use super::super::bench::peer;
use super::Bounds;
use super::WORKERS;
use super::world::World;
use crate::ownership::{Input, LossReason, StandbyNews};
use idlewild_protocol::Epoch;

/// Steps that must be enough: the rest of an assignment that is given up, a question, and a whole answer.
pub(super) const STEPS_MAX: u32 = 40;

/// Whether the request comes to its proper end whichever worker is the one that lives; or nobody wants it any more.
pub(super) fn finishes(world: &World, bounds: &Bounds) -> bool {
    world.ghost.client_gone || (1..=WORKERS).all(|worker| finishes_on(worker, world.clone(), bounds))
}

fn finishes_on(worker: u8, mut world: World, bounds: &Bounds) -> bool {
    let dead: Vec<Epoch> =
        world.jobs.iter().filter(|(_, job)| job.worker != worker && !job.is_cut).map(|(epoch, _)| *epoch).collect();
    if let Some(lost) = world.prepared.as_ref().filter(|prepared| prepared.worker != worker) {
        let preparation = lost.preparation;
        world.standby(preparation, StandbyNews::Lost(LossReason::Closed), bounds);
    }
    for epoch in dead {
        world.cut(epoch, bounds);
    }
    for _ in 0..STEPS_MAX {
        if world.origin.is_over() {
            return world.ghost.done && !world.ghost.truncated;
        }
        go_on(worker, &mut world, bounds);
    }
    false
}

/// The next thing that happens by itself: the live worker's word, an answer, and a timer only where there is neither.
fn go_on(worker: u8, world: &mut World, bounds: &Bounds) {
    let question = world.asked.last().copied();
    match world.origin.live() {
        Some((epoch, at)) if at == peer(worker) && !world.job(epoch).wire.is_empty() => {
            world.hear_said(epoch, 0, bounds);
        }
        None if question.is_some_and(|attempt| world.origin.awaits(attempt)) => {
            world.answer(question.unwrap(), Some(worker), bounds);
        }
        Some(_) | None => world.hear(Input::Tick, None, bounds),
    }
}
