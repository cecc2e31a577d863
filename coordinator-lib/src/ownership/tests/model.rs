//! Every order of events around one request, by stateright: the origin's machine, its workers, and a network.
//!
//! Elections are in it as what they can do to a request: any question may be answered by several coordinators, late,
//! twice, and with any worker. Timers carry no time ([`Limits::untimed`]): the checker decides when one is due.
//!
//! Two networks: `Streams` keeps the order of each job stream, and cuts it at any place; `Chaos` delivers every event
//! late, twice, in any order or never, which no transport of ours does.

use core::hash::{Hash, Hasher};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use idlewild_protocol::{
    DepartureCause, Epoch, FinishReason, JobEvent, JobFailure, JobInput, JobStart, PlaceOutcome, PlaceReply, RequestId,
    Term, TokenId,
};
use stateright::{Checker, HasDiscoveries, Model, Property};

use super::bench::{PROMPT, peer, spec};
use crate::Now;
use crate::ownership::{Input, Limits, LossReason, Output, RequestMachine, RequestSpec};

/// Tokens of the whole answer.
const ANSWER: u32 = 2;

/// Beyond the number of assignments more workers change nothing.
const WORKERS: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Streams,
    Chaos,
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    network: Network,
    assignments: u32,
    questions: u32,
    /// The bug that is put in: events are taken for the live epoch's, whatever theirs is.
    trusts_any_epoch: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct World {
    origin: RequestMachine,
    network: Network,
    jobs: BTreeMap<Epoch, Job>,
    /// Attempts that were asked about.
    asked: BTreeSet<u32>,
    ghost: Ghost,
}

/// One assignment at its worker, which says at once all that it would ever say: what is cut off later was never said.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Job {
    /// Said, and not heard; in a chaos heard words stay.
    wire: VecDeque<Said>,
    has_refused: bool,
    is_leaving: bool,
    /// The stream is closed.
    is_cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Said {
    Accepted,
    Token(u32),
    Finished,
    Busy,
    Leaving,
}

/// What the client was sent, and what was wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one property that was broken")]
struct Ghost {
    /// Epoch that wrote each index.
    writers: Vec<u32>,
    gap_or_double: bool,
    wrong_writer: bool,
    wrong_start: bool,
    truncated: bool,
    done: bool,
    failed: bool,
    spoke_after_the_end: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Answer { attempt: u32, worker: Option<u8> },
    Refuse(Epoch),
    Leave(Epoch),
    Hear(Epoch, usize),
    Cut(Epoch),
    Tick,
    ClientGone,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let origin = &self.origin;
        (&origin.log, &origin.placing, &origin.running, &origin.failures, origin.is_over()).hash(state);
        for assignment in &origin.story {
            (assignment.epoch, assignment.worker, assignment.from_index, assignment.ended.is_some()).hash(state);
        }
        (&self.jobs, &self.asked, &self.ghost).hash(state);
    }
}

/// A token that says who wrote it.
fn token_of(epoch: Epoch, index: u32) -> TokenId {
    TokenId(epoch.0 * 100 + index)
}

fn writer_of(token: TokenId) -> u32 {
    token.0 / 100
}

impl World {
    fn new(bounds: &Bounds) -> Self {
        let spec = RequestSpec { max_tokens: ANSWER, ..spec() };
        let origin = RequestMachine::new(Now::ZERO, spec, Limits::untimed(bounds.assignments));
        let mut world = Self {
            origin,
            network: bounds.network,
            jobs: BTreeMap::new(),
            asked: BTreeSet::new(),
            ghost: Ghost::default(),
        };
        world.carry_out(None);
        world
    }

    fn hear(&mut self, input: Input, by: Option<Epoch>) {
        self.origin.handle(Now::ZERO, input);
        self.carry_out(by);
    }

    /// `by`: the epoch whose worker was heard.
    fn carry_out(&mut self, by: Option<Epoch>) {
        while let Some(output) = self.origin.poll_output() {
            self.ghost.spoke_after_the_end |= self.ghost.done || self.ghost.failed;
            match output {
                Output::AskPlacement(question) | Output::PlaceAlone(question) => {
                    self.asked.insert(question.attempt);
                }
                Output::Start { start, .. } => self.start(&start),
                Output::Text { index, text } if text.is_empty() => self.write(index, by),
                Output::Text { .. } => self.ghost.gap_or_double = true,
                Output::Done { output_tokens, .. } => {
                    self.ghost.done = true;
                    self.ghost.truncated = output_tokens != ANSWER || self.ghost.writers.len() != ANSWER as usize;
                }
                Output::Failed(_) => self.ghost.failed = true,
                Output::Cancel { .. } | Output::Prompt { .. } | Output::Moved { .. } => {}
            }
        }
    }

    fn start(&mut self, start: &JobStart) {
        let is_higher = self.jobs.last_key_value().is_none_or(|(epoch, _)| *epoch < start.epoch);
        let written: Vec<u32> = match &start.input {
            JobInput::Tokens { generated, .. } => generated.iter().copied().map(writer_of).collect(),
            JobInput::Chat { .. } | JobInput::Text { .. } => Vec::new(),
        };
        self.ghost.wrong_start |= !is_higher || written != self.ghost.writers;
        self.jobs.insert(start.epoch, Job::new(written.len() as u32, self.network));
    }

    fn write(&mut self, index: u32, by: Option<Epoch>) {
        let token = self.origin.log().generated().get(index as usize).copied();
        self.ghost.gap_or_double |= index as usize != self.ghost.writers.len() || token.is_none();
        let writer = token.map_or(0, writer_of);
        let live = self.jobs.last_key_value().map_or(0, |(epoch, _)| epoch.0);
        self.ghost.wrong_writer |= Some(Epoch(writer)) != by || writer != live;
        self.ghost.writers.push(writer);
    }

    fn job(&mut self, epoch: Epoch) -> &mut Job {
        self.jobs.get_mut(&epoch).unwrap()
    }

    fn answer(&mut self, attempt: u32, worker: Option<u8>) {
        let outcome = match worker {
            Some(n) => PlaceOutcome::Run { worker: peer(n), fallback: None },
            None => PlaceOutcome::Nowhere,
        };
        let request = RequestId([7; 16]);
        self.hear(Input::Placed(PlaceReply { request, attempt, term: Term(1), outcome, terms: Vec::new() }), None);
    }

    fn hear_said(&mut self, epoch: Epoch, at: usize, bounds: &Bounds) {
        let said = match bounds.network {
            Network::Streams => self.job(epoch).wire.pop_front().unwrap(),
            Network::Chaos => self.job(epoch).wire[at],
        };
        let live = self.origin.live().map(|(live, _)| live);
        let claimed = if bounds.trusts_any_epoch { live.unwrap_or(epoch) } else { epoch };
        let event = event_of(said, epoch, claimed);
        self.hear(Input::Event { epoch: claimed, event }, Some(epoch));
    }
}

impl Job {
    fn new(from: u32, network: Network) -> Self {
        let answer = [Said::Accepted].into_iter().chain((from..ANSWER).map(Said::Token)).chain([Said::Finished]);
        let wire = match network {
            Network::Streams => answer.collect(),
            Network::Chaos => answer.chain([Said::Busy, Said::Leaving]).collect(),
        };
        Self { wire, has_refused: false, is_leaving: false, is_cut: false }
    }
}

/// What the worker of `epoch` said, as if it were of the epoch that is `claimed`.
fn event_of(said: Said, epoch: Epoch, claimed: Epoch) -> JobEvent {
    match said {
        Said::Accepted => JobEvent::Accepted { epoch: claimed, prompt: PROMPT.to_vec() },
        Said::Token(index) => {
            JobEvent::Token { epoch: claimed, index, id: token_of(epoch, index), text: String::new() }
        }
        Said::Finished => JobEvent::Finished { epoch: claimed, reason: FinishReason::Stop, text: String::new() },
        Said::Busy => JobEvent::Failed { epoch: claimed, failure: JobFailure::Busy },
        Said::Leaving => JobEvent::Leaving { epoch: claimed, cause: DepartureCause::Sleep, notice_ms: 1000 },
    }
}

impl Model for Bounds {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        for attempt in world.asked.iter().copied() {
            let workers = (1..=WORKERS).map(Some).chain([None]);
            steps.extend(workers.map(|worker| Step::Answer { attempt, worker }));
        }
        for (epoch, job) in &world.jobs {
            let heard = if self.network == Network::Streams { job.wire.len().min(1) } else { job.wire.len() };
            steps.extend((0..heard).map(|at| Step::Hear(*epoch, at)));
            if !job.is_cut {
                steps.push(Step::Cut(*epoch));
                if self.network == Network::Streams && !job.has_refused {
                    steps.extend([Step::Refuse(*epoch), Step::Leave(*epoch)]);
                }
            }
        }
        steps.extend([Step::Tick, Step::ClientGone]);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        match step {
            Step::Answer { attempt, worker } => next.answer(attempt, worker),
            Step::Refuse(epoch) => {
                let job = next.job(epoch);
                job.has_refused = true;
                job.wire = VecDeque::from([Said::Busy]);
            }
            Step::Leave(epoch) => {
                let job = next.job(epoch);
                if !core::mem::replace(&mut job.is_leaving, true) {
                    job.wire.push_front(Said::Leaving);
                }
            }
            Step::Hear(epoch, at) => next.hear_said(epoch, at, self),
            Step::Cut(epoch) => {
                let job = next.job(epoch);
                job.is_cut = true;
                job.wire.clear();
                next.hear(Input::Lost { epoch, why: LossReason::Closed }, None);
            }
            Step::Tick => next.hear(Input::Tick, None),
            Step::ClientGone => next.hear(Input::ClientGone, None),
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("no gap and no double", |_, w: &World| !w.ghost.gap_or_double),
            Property::always("one writer an index, and the live one", |_, w: &World| !w.ghost.wrong_writer),
            Property::always("every start carries the log, in a higher epoch", |_, w: &World| !w.ghost.wrong_start),
            Property::always("nothing is said after the end", |_, w: &World| !w.ghost.spoke_after_the_end),
            Property::sometimes("an answer is written by two workers", |_, w: &World| {
                w.ghost.done && w.ghost.writers.first() != w.ghost.writers.last()
            }),
            Property::sometimes("a request fails", |_, w: &World| w.ghost.failed),
        ];
        if self.network == Network::Streams {
            properties.push(Property::always("a finished answer is whole", |_, w: &World| !w.ghost.truncated));
        }
        properties
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.asked.last().is_none_or(|attempt| *attempt <= self.questions)
    }
}

fn check(bounds: Bounds, states_max: usize) {
    let checker = bounds.checker().threads(2).target_state_count(states_max).spawn_bfs().join();
    println!("{} states of {bounds:?}, depth {}", checker.unique_state_count(), checker.max_depth());
    assert!(checker.is_done());
    checker.assert_properties();
}

const STREAMS: Bounds = Bounds { network: Network::Streams, assignments: 2, questions: 2, trusts_any_epoch: false };

/// What a test may take on two slow cores: some ten seconds.
const MANY_STATES: usize = 800_000;

#[test]
fn no_order_of_events_on_streams_breaks_the_log() {
    check(STREAMS, MANY_STATES);
    check(Bounds { assignments: 3, questions: 5, ..STREAMS }, MANY_STATES);
}

#[test]
fn no_chaos_breaks_the_log() {
    check(Bounds { network: Network::Chaos, assignments: 3, questions: 5, ..STREAMS }, MANY_STATES);
}

#[test]
fn the_checker_finds_an_origin_that_trusts_any_epoch() {
    let bug = Bounds { trusts_any_epoch: true, ..STREAMS };
    let checker = bug.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = checker.discovery("one writer an index, and the live one").is_some();
    assert!(found, "the checker would miss a real bug too");
}
