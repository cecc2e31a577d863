//! Requests in a small world of unreliable workers, with time: the client's text is that of an undisturbed run, and
//! pauses are as short as promised.

mod planned;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use idlewild_protocol::{
    DepartureCause, Epoch, FinishReason, JobEvent, JobFailure, JobInput, JobStart, PeerId, PlaceOutcome, PlaceReply,
    PlaceRequest, Term, TokenId,
};

use planned::Moves;

use super::bench::{PROMPT, ms, peer, spec};
use crate::Now;
use crate::ownership::{Input, Limits, LossReason, Output, Preparation, RequestMachine, RequestSpec};

const ANSWER: u32 = 40;
const PREFILL: Duration = Duration::from_millis(200);
const PER_TOKEN: Duration = Duration::from_millis(50);
const HOP: Duration = Duration::from_millis(5);

/// What goes wrong, at the moment the worker would say this token.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mishap {
    /// Kill -9: the transport notices after this time.
    Killed(Duration),
    /// The worker says nothing more and the transport notices nothing.
    Frozen,
    /// It says goodbye and goes on for the notice.
    Leaves,
    /// Its engine dies.
    EngineDies,
}

#[derive(Debug)]
enum Event {
    ToOrigin(Input),
    /// The worker's next step in this epoch: accept, a token, the end.
    Step {
        worker: PeerId,
        epoch: Epoch,
        at: Option<u32>,
    },
    /// The destination has read what it was sent by now.
    CaughtUp(Preparation),
}

struct World {
    now: Now,
    origin: RequestMachine,
    heap: BTreeMap<(Now, u64), Event>,
    events: u64,
    mishaps: BTreeMap<u32, Mishap>,
    gone: BTreeSet<PeerId>,
    starts: BTreeMap<Epoch, JobStart>,
    cancelled: BTreeSet<Epoch>,
    text: String,
    last_text: Now,
    longest_pause: Duration,
    end: Option<Output>,
    coordinator_is_dead: bool,
    moves: Moves,
}

/// What the model would say at this place, after those before.
fn draw(log: &[TokenId]) -> TokenId {
    TokenId(log.iter().fold(17, |sum, id| (sum * 31 + id.0) % 1009))
}

/// The text that the newest token adds: as with characters of several tokens, every second one waits for the next.
fn piece(generated: &[TokenId]) -> String {
    match generated {
        [.., before, last] if generated.len().is_multiple_of(2) => format!("{}-{} ", before.0, last.0),
        _ => String::new(),
    }
}

fn undisturbed() -> String {
    let mut log = PROMPT.to_vec();
    let mut text = String::new();
    for _ in 0..ANSWER {
        log.push(draw(&log));
        text += &piece(&log[PROMPT.len()..]);
    }
    text + "."
}

impl World {
    fn new(mishaps: &[(u32, Mishap)]) -> Self {
        let spec = RequestSpec { max_tokens: ANSWER, expected_output_tokens: ANSWER, ..spec() };
        let mut world = Self {
            now: Now::ZERO,
            origin: RequestMachine::new(Now::ZERO, spec, Limits::default()),
            heap: BTreeMap::new(),
            events: 0,
            mishaps: mishaps.iter().copied().collect(),
            gone: BTreeSet::new(),
            starts: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            text: String::new(),
            last_text: Now::ZERO,
            longest_pause: Duration::ZERO,
            end: None,
            coordinator_is_dead: false,
            moves: Moves::default(),
        };
        world.carry_out();
        world
    }

    fn schedule(&mut self, after: Duration, event: Event) {
        self.events += 1;
        self.heap.insert((self.now + after, self.events), event);
    }

    fn tell_origin(&mut self, after: Duration, epoch: Epoch, event: JobEvent) {
        self.schedule(after, Event::ToOrigin(Input::Event { epoch, event }));
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.origin.poll_output() {
            match output {
                Output::AskPlacement(_) if self.coordinator_is_dead => {}
                Output::AskPlacement(question) => self.answer(2 * HOP, &question),
                Output::PlaceAlone(question) => self.answer(Duration::ZERO, &question),
                Output::Start { worker, start } => self.start(worker, *start),
                Output::Cancel { epoch, .. } => {
                    self.cancelled.insert(epoch);
                }
                Output::Text { index, text } => {
                    self.move_on(index);
                    self.longest_pause = self.longest_pause.max(self.now.saturating_sub(self.last_text));
                    self.last_text = self.now;
                    self.text += &text;
                }
                Output::Done { .. } | Output::Failed(_) => self.end = Some(output),
                // The first prefill is no pause.
                Output::Prompt { .. } => self.last_text = self.now,
                Output::StopAfter { epoch, index, .. } => self.stop_after(epoch, index),
                Output::GoOn { epoch, .. } => self.go_on(epoch),
                Output::Prepare { destination, preparation, context, .. } => {
                    self.prepare(destination, preparation, *context);
                }
                Output::Forward { ids, .. } => self.forward(ids),
                Output::TakeOver { epoch, from_index, .. } => self.take_over(epoch, from_index),
                Output::Release { .. } => self.moves.prepared = None,
                Output::Keep { .. } | Output::Refused { .. } | Output::Standby(_) | Output::Moved { .. } => {}
            }
        }
    }

    /// The first peer that is not excluded: the coordinator does not know yet who is gone.
    fn answer(&mut self, after: Duration, question: &PlaceRequest) {
        let worker = (1..=9).map(peer).find(|p| !question.excluded.contains(p)).unwrap();
        let outcome = PlaceOutcome::Run { worker, fallback: None };
        let (request, attempt) = (question.request, question.attempt);
        let reply = PlaceReply { request, attempt, term: Term(1), outcome, terms: Vec::new() };
        self.schedule(after, Event::ToOrigin(Input::Placed(reply)));
    }

    fn start(&mut self, worker: PeerId, start: JobStart) {
        let epoch = start.epoch;
        self.starts.insert(epoch, start);
        if self.gone.contains(&worker) {
            let lost = Input::Lost { epoch, why: LossReason::NotOpened };
            self.schedule(HOP, Event::ToOrigin(lost));
        } else {
            self.schedule(HOP + PREFILL, Event::Step { worker, epoch, at: None });
        }
    }

    fn step(&mut self, worker: PeerId, epoch: Epoch, at: Option<u32>) {
        if self.gone.contains(&worker) || self.cancelled.contains(&epoch) {
            return;
        }
        let log = match &self.starts[&epoch].input {
            JobInput::Tokens { prompt, generated } => [prompt.as_slice(), generated].concat(),
            JobInput::Chat { .. } | JobInput::Text { .. } => PROMPT.to_vec(),
        };
        let from = (log.len() - PROMPT.len()) as u32;
        let Some(index) = at else {
            self.tell_origin(HOP, epoch, JobEvent::Accepted { epoch, prompt: PROMPT.to_vec() });
            self.schedule(PER_TOKEN, Event::Step { worker, epoch, at: Some(from) });
            return;
        };
        if self.has_stopped(worker, epoch, index) {
            return;
        }
        match self.mishaps.remove(&index) {
            Some(mishap) => self.go_wrong(worker, epoch, index, mishap),
            None => self.say_token(worker, epoch, index, log),
        }
    }

    fn say_token(&mut self, worker: PeerId, epoch: Epoch, index: u32, mut log: Vec<TokenId>) {
        while log.len() < PROMPT.len() + index as usize {
            log.push(draw(&log));
        }
        if index == ANSWER {
            let text = ".".to_owned();
            self.tell_origin(HOP, epoch, JobEvent::Finished { epoch, reason: FinishReason::Length, text });
            return;
        }
        let id = draw(&log);
        log.push(id);
        let text = piece(&log[PROMPT.len()..]);
        self.tell_origin(HOP, epoch, JobEvent::Token { epoch, index, id, text });
        self.schedule(PER_TOKEN, Event::Step { worker, epoch, at: Some(index + 1) });
    }

    fn go_wrong(&mut self, worker: PeerId, epoch: Epoch, index: u32, mishap: Mishap) {
        match mishap {
            Mishap::Killed(noticed_after) => {
                self.gone.insert(worker);
                let lost = Input::Lost { epoch, why: LossReason::Closed };
                self.schedule(noticed_after, Event::ToOrigin(lost));
            }
            Mishap::Frozen => {
                self.gone.insert(worker);
            }
            Mishap::Leaves => {
                let cause = DepartureCause::OwnerReturned;
                self.tell_origin(HOP, epoch, JobEvent::Leaving { epoch, cause, notice_ms: 1000 });
                self.schedule(Duration::ZERO, Event::Step { worker, epoch, at: Some(index) });
            }
            Mishap::EngineDies => {
                let failure = JobFailure::Engine("signal 9".to_owned());
                self.tell_origin(HOP, epoch, JobEvent::Failed { epoch, failure });
            }
        }
    }

    fn run(&mut self) {
        while self.end.is_none() {
            let timer = self.origin.poll_timeout();
            let next = self.heap.keys().next().map(|(at, _)| *at);
            self.now = self.now.max(timer.into_iter().chain(next).min().unwrap());
            assert!(self.now < Duration::from_mins(10), "it never ends");
            if next.is_some_and(|at| at <= self.now) {
                match self.heap.pop_first() {
                    Some((_, Event::ToOrigin(input))) => self.origin.handle(self.now, input),
                    Some((_, Event::Step { worker, epoch, at })) => self.step(worker, epoch, at),
                    Some((_, Event::CaughtUp(preparation))) => self.catch_up(preparation),
                    None => {}
                }
            } else {
                self.origin.handle(self.now, Input::Tick);
            }
            self.carry_out();
        }
    }
}

/// The answer is whole and exact, and never paused for longer.
fn check(mishaps: &[(u32, Mishap)], coordinator_is_dead: bool, pause_max: Duration) {
    let mut world = World::new(mishaps);
    world.coordinator_is_dead = coordinator_is_dead;
    world.run();
    assert_eq!(world.text, undisturbed(), "{mishaps:?}");
    let done = Output::Done { reason: FinishReason::Length, prompt_tokens: 3, output_tokens: ANSWER };
    assert_eq!(world.end, Some(done), "{mishaps:?}");
    assert!(world.longest_pause <= pause_max, "paused for {:?}: {mishaps:?}", world.longest_pause);
}

/// Beside detection: a new placement, the way there, prefill, and one token.
const RESTART: Duration = Duration::from_millis(350);

#[test]
fn an_undisturbed_answer_never_pauses() {
    check(&[], false, RESTART);
}

#[test]
fn a_kill_at_any_token_loses_no_token_and_pauses_for_detection_and_prefill() {
    for index in 0..=ANSWER {
        check(&[(index, Mishap::Killed(ms(20)))], false, ms(20) + PER_TOKEN + RESTART);
        check(&[(index, Mishap::Killed(ms(2000)))], false, ms(2000) + PER_TOKEN + RESTART);
    }
}

#[test]
fn a_freeze_that_the_transport_misses_pauses_for_four_seconds_and_prefill() {
    for index in 0..=ANSWER {
        check(&[(index, Mishap::Frozen)], false, Duration::from_secs(4) + PREFILL);
        check(&[(index, Mishap::Frozen)], true, Duration::from_secs(4) + PREFILL + PER_TOKEN);
    }
}

#[test]
fn a_goodbye_at_any_token_pauses_for_prefill_alone() {
    for index in 0..=ANSWER {
        check(&[(index, Mishap::Leaves)], false, RESTART);
    }
}

#[test]
fn an_engine_that_dies_at_any_token_is_replaced_at_once() {
    for index in 0..=ANSWER {
        check(&[(index, Mishap::EngineDies)], false, PER_TOKEN + RESTART);
    }
}

#[test]
fn mishap_after_mishap_the_text_stays_exact() {
    let kinds = [Mishap::Killed(ms(500)), Mishap::Leaves, Mishap::Frozen, Mishap::EngineDies];
    for step in 1..8 {
        let each = (0..ANSWER).step_by(step * 5).zip(kinds.iter().copied().cycle());
        let mishaps: Vec<(u32, Mishap)> = each.collect();
        check(&mishaps, step % 2 == 0, Duration::from_secs(10));
    }
}

#[test]
fn without_a_coordinator_the_origin_decides_alone_after_a_third_of_a_second() {
    check(&[(5, Mishap::Killed(ms(20)))], true, ms(300) + ms(20) + PER_TOKEN + RESTART);
}
