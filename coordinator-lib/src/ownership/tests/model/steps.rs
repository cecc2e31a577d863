//! What may happen next, and what must hold.

use idlewild_protocol::{Epoch, PlanStep, Way};
use stateright::{Model, Property};

use super::super::bench::peer;
use super::world::World;
use super::{Bounds, Bug, Network, WORKERS, calm};
use crate::ownership::{Ending, Input, LossReason, Preparation};

pub(super) const ONE_WRITER: &str = "one writer an index, and the live one";
pub(super) const NO_FAULT: &str = "a sound worker is never at fault";
pub(super) const FINISHED: &str = "with one live worker it is finished";

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Answer { attempt: u32, worker: Option<u8> },
    Refuse(Epoch),
    Leave(Epoch),
    Stop(Epoch),
    Hear(Epoch, usize),
    Cut(Epoch),
    Propose { number: u64, epoch: Epoch, step: PlanStep },
    CatchUp,
    LoseStandby(Preparation),
    SpeakTooEarly,
    Tick,
    ClientGone,
}

impl Bounds {
    /// What the world is large enough for: else its safety would mean little.
    fn reached(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::sometimes("a request fails", |_, w: &World| w.ghost.failed),
            Property::sometimes("an answer is written by two workers", |_, w: &World| {
                w.ghost.done && w.ghost.writers.first() != w.ghost.writers.last()
            }),
        ];
        if self.proposals > 0 {
            properties.push(Property::sometimes("a planned move is finished", |_, w: &World| {
                w.ghost.done && w.origin.story().iter().any(|a| matches!(a.ended, Some((_, Ending::HandedOver))))
            }));
            properties.push(Property::sometimes("a head start is used", |_, w: &World| {
                w.ghost.handed_over && w.origin.story().iter().any(|a| matches!(a.ended, Some((_, Ending::Lost(_)))))
            }));
        }
        properties
    }

    fn job_steps(&self, world: &World, steps: &mut Vec<Step>) {
        for (epoch, job) in &world.jobs {
            let heard = if self.network == Network::Streams { job.wire.len().min(1) } else { job.wire.len() };
            steps.extend((0..heard).map(|at| Step::Hear(*epoch, at)));
            if job.is_cut {
                continue;
            }
            steps.push(Step::Cut(*epoch));
            if self.network == Network::Streams && !job.has_refused {
                steps.extend([Step::Refuse(*epoch), Step::Leave(*epoch)]);
                steps.extend(job.told_to_stop.filter(|_| job.stopped.is_none()).map(|_| Step::Stop(*epoch)));
            }
        }
    }

    /// Fresh proposals while there are to be more, and the latest once more; for this assignment, and for the one before.
    fn proposals(&self, world: &World, steps: &mut Vec<Step>) {
        let Some((live, _)) = world.origin.live().filter(|_| self.proposals > 0) else { return };
        let made = world.proposals;
        let numbers = [made, made + 1].into_iter().filter(|number| (1..=self.proposals).contains(number));
        for number in numbers {
            for epoch in [live, Epoch(live.0 - 1)] {
                for destination in (1..=WORKERS).map(peer) {
                    let planned = [
                        PlanStep::Prepare { destination, way: Way::Ids },
                        PlanStep::Pause { destination },
                        PlanStep::Hold { destination },
                        PlanStep::Commit { destination, way: Way::Ids },
                        PlanStep::Commit { destination, way: Way::StoppedSplit },
                        PlanStep::Abort { destination },
                        PlanStep::Release { destination },
                        PlanStep::Replace { worker: destination, fallback: None },
                    ];
                    steps.extend(planned.map(|step| Step::Propose { number, epoch, step }));
                }
            }
        }
    }

    fn standby_steps(&self, world: &World, steps: &mut Vec<Step>) {
        if world.prepared.is_some() {
            steps.push(Step::CatchUp);
            if self.bug == Some(Bug::SpeaksUnderOldEpoch) {
                steps.push(Step::SpeakTooEarly);
            }
        }
        // Losses of earlier preparations too: late, or of what has become the assignment.
        steps.extend((1..=world.origin.preparations).map(|n| Step::LoseStandby(Preparation(n))));
    }
}

impl Model for Bounds {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.origin.is_over() {
            return;
        }
        for attempt in world.asked.iter().copied() {
            // Workers are alike until one of them has a part: the first is called 1.
            let known = if world.jobs.is_empty() { 1 } else { WORKERS };
            let workers = (1..=known).map(Some).chain([None]);
            steps.extend(workers.map(|worker| Step::Answer { attempt, worker }));
        }
        self.job_steps(world, steps);
        self.proposals(world, steps);
        self.standby_steps(world, steps);
        steps.extend([Step::Tick, Step::ClientGone]);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        match step {
            Step::Answer { attempt, worker } => next.answer(attempt, worker, self),
            Step::Refuse(epoch) => next.job(epoch).refuse(),
            Step::Leave(epoch) => next.job(epoch).leave(),
            Step::Stop(epoch) => {
                let job = next.job(epoch);
                job.stop(job.told_to_stop?);
            }
            Step::Hear(epoch, at) => next.hear_said(epoch, at, self),
            Step::Cut(epoch) => next.cut(epoch, self),
            Step::Propose { number, epoch, step } => {
                next.propose(number, epoch, step, self);
                // That a refused one is remembered only makes more of the same states.
                let is_refused = next.origin.standby() == world.origin.standby() && next.prepared == world.prepared;
                if is_refused && !next.ghost.followed_stale {
                    return None;
                }
            }
            Step::CatchUp => next.catch_up(self),
            Step::LoseStandby(preparation) => next.lose_standby(preparation, self),
            Step::SpeakTooEarly => next.speak_too_early(self),
            Step::Tick => next.hear(Input::Tick, None, self),
            Step::ClientGone => {
                next.hear(Input::ClientGone, None, self);
                next.ghost.client_gone = true;
            }
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("no gap and no double", |_, w: &World| !w.ghost.gap_or_double),
            Property::always(ONE_WRITER, |_, w: &World| !w.ghost.wrong_writer),
            Property::always("every worker begins with the log, in a higher epoch", |_, w: &World| {
                !w.ghost.wrong_start
            }),
            Property::always("one worker is at work", |_, w: &World| !w.ghost.two_at_work),
            Property::always("a stale proposal changes nothing", |_, w: &World| !w.ghost.followed_stale),
            Property::always("nothing is said after the end", |bounds: &Self, w: &World| is_mute(w, bounds)),
        ];
        if self.network == Network::Streams {
            properties.push(Property::always("a finished answer is whole", |_, w: &World| !w.ghost.truncated));
            properties.push(Property::always(NO_FAULT, |_, w: &World| !has_fault(w)));
        }
        if self.gives_up {
            properties.extend(self.reached());
        } else {
            properties.push(Property::always(FINISHED, |bounds: &Self, w: &World| calm::finishes(w, bounds)));
        }
        properties
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.asked.last().is_none_or(|attempt| *attempt <= self.questions)
            && world.origin.story().len() <= self.assignments as usize
    }
}

fn has_fault(world: &World) -> bool {
    world.origin.story().iter().any(|assignment| matches!(assignment.ended, Some((_, Ending::Faulty(_)))))
}

/// Whether a request that is over says nothing more, whatever comes.
fn is_mute(world: &World, bounds: &Bounds) -> bool {
    if !world.origin.is_over() {
        return true;
    }
    let mut later = world.clone();
    for attempt in world.asked.iter().copied() {
        later.answer(attempt, Some(1), bounds);
    }
    for (epoch, job) in &world.jobs {
        (0..job.wire.len()).for_each(|_| later.hear_said(*epoch, 0, bounds));
        later.hear(Input::Lost { epoch: *epoch, why: LossReason::Closed }, None, bounds);
    }
    for input in [Input::Tick, Input::ClientGone] {
        later.hear(input, None, bounds);
    }
    !later.ghost.spoke_after_the_end
}
