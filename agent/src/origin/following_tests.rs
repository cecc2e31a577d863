//! A request that coordinators and a person plan for, with nobody behind the machine's outputs.

use std::time::Duration;

use idlewild_coordinator::length::LengthHistory;
use idlewild_coordinator::ownership::{Limits, LossReason, Output, RequestSpec, StandbyNews};
use idlewild_protocol::{
    Epoch, JobEvent, JobInput, ModelId, PlaceOutcome, PlaceReply, PlanStep, PlanTerms, RequestReport, RequestStage,
    Sampling, StandbyState, Term, TokenId, Way,
};

use super::*;
use crate::origin::reporting::OriginNews;

const ME: PeerId = PeerId([1; 32]);
const COORDINATOR: PeerId = PeerId([2; 32]);
const SOURCE: PeerId = PeerId([3; 32]);
const DESTINATION: PeerId = PeerId([4; 32]);
const REQUEST: RequestId = RequestId([7; 16]);

fn ms(ms: u64) -> Now {
    Duration::from_millis(ms)
}

/// The request with all that is said by it.
struct Bench {
    now: Now,
    machine: RequestMachine,
    following: Following,
    requests: OpenRequests,
    news: mpsc::Receiver<OriginNews>,
    said: Vec<Output>,
    plans: u64,
}

impl Bench {
    /// Placed on the source, which has said nothing.
    fn queued() -> Self {
        let spec = RequestSpec {
            request: REQUEST,
            model: ModelId([9; 32]),
            input: JobInput::Text { prompt: "Once".to_owned() },
            sampling: Sampling::default(),
            max_tokens: 1000,
            stop: Vec::new(),
            prompt_tokens_estimate: 4,
            expected_output_tokens: 300,
        };
        let estimate = LengthHistory::<(), ModelId>::default().estimate(&(), &spec.model, 4);
        let (requests, (reports, news)) = (OpenRequests::default(), Reports::channel());
        let following =
            Following::new((ME, ms(0)), &requests, (reports, MeasuredOverheads::default()), REQUEST, estimate);
        let machine = RequestMachine::new(ms(0), spec, Limits::default());
        let mut bench = Self { now: ms(0), machine, following, requests, news, said: Vec::new(), plans: 0 };
        bench.carry_out();
        let outcome = PlaceOutcome::Run { worker: SOURCE, fallback: None };
        let reply = PlaceReply { request: REQUEST, attempt: 1, term: Term(1), outcome, terms: Vec::new() };
        bench.hear(Input::Placed(reply));
        bench
    }

    /// Two tokens are written.
    fn running() -> Self {
        let mut bench = Self::queued();
        let epoch = Epoch(1);
        bench.hear(Input::Event { epoch, event: JobEvent::Accepted { epoch, prompt: vec![TokenId(5); 30] } });
        bench.token(1, 0);
        bench.token(1, 1);
        bench
    }

    fn hear(&mut self, input: Input) {
        self.machine.handle(self.now, input);
        self.carry_out();
    }

    fn token(&mut self, epoch: u32, index: u32) {
        let epoch = Epoch(epoch);
        self.hear(Input::Event {
            epoch,
            event: JobEvent::Token { epoch, index, id: TokenId(6), text: "a".to_owned() },
        });
    }

    fn carry_out(&mut self) {
        loop {
            while let Some(output) = self.machine.poll_output() {
                if let Output::Refused { generation, why } = &output {
                    self.following.refused(&self.machine, *generation, *why);
                } else if let Output::Release { destination, why, .. } = &output {
                    self.following.dropped(*destination, why);
                }
                self.said.push(output);
            }
            if !self.following.follow_up(self.now, &mut self.machine) {
                return;
            }
        }
    }

    fn tell(&mut self, told: Told) {
        self.following.take(self.now, &mut self.machine, told);
        self.carry_out();
    }

    fn plan(&mut self, step: PlanStep) -> Generation {
        self.plans += 1;
        let generation = Generation { term: Term(1), number: self.plans };
        let terms = PlanTerms::unweighed(PlanReason::PreparationPays);
        let plan = Box::new(Plan { generation, request: REQUEST, epoch: Epoch(1), step, terms });
        self.tell(Told::Plan { by: COORDINATOR, plan });
        generation
    }

    /// A person's wish, and the answer to it.
    fn wish(&mut self, prepare_only: bool) -> Result<(), MoveRefused> {
        let (reply, mut answer) = oneshot::channel();
        self.tell(Told::Move { wish: Wish { to: DESTINATION, way: Way::Hybrid, prepare_only }, reply });
        answer.try_recv().unwrap()
    }

    /// The destination has all that the log has.
    fn catch_up(&mut self) {
        self.lags(0);
    }

    /// The destination lacks the last tokens that it was sent.
    fn lags(&mut self, lag_tokens: u32) {
        let prepared = self.said.iter().rev().find_map(|output| {
            if let Output::Prepare { preparation, .. } = output { Some(*preparation) } else { None }
        });
        let held_tokens = self.machine.log().context_tokens() - lag_tokens;
        let news = StandbyNews::Progress { held_tokens };
        self.hear(Input::Standby { preparation: prepared.unwrap(), news });
    }

    fn news(&mut self) -> Vec<OriginNews> {
        std::iter::from_fn(|| self.news.try_recv().ok()).collect()
    }

    fn reports(&mut self) -> Vec<RequestReport> {
        let report = |news| if let OriginNews::Report(report) = news { Some(*report) } else { None };
        self.news().into_iter().filter_map(report).collect()
    }

    fn has_said(&self, wanted: impl Fn(&Output) -> bool) -> bool {
        self.said.iter().any(wanted)
    }
}

const PREPARE: PlanStep = PlanStep::Prepare { destination: DESTINATION, way: Way::Ids };

#[test]
fn a_report_says_where_a_request_is_and_how_much_may_be_to_come() {
    let mut bench = Bench::queued();
    let report = bench.reports().pop().unwrap();
    assert_eq!(report.stage, RequestStage::Queued { worker: SOURCE, wait_ms: 0 });
    let mut bench = Bench::running();
    bench.reports();
    bench.now = ms(300);
    bench.plan(PREPARE);
    let report = bench.reports().pop().unwrap();
    assert_eq!((report.epoch, report.stage), (Epoch(1), RequestStage::Running { worker: SOURCE }));
    assert_eq!((report.prompt_tokens, report.done_tokens), (30, 2));
    assert!(report.residual_tokens.is_sorted() && report.residual_tokens[2] > 50, "{report:?}");
    let standby = report.standby.unwrap();
    assert_eq!((standby.peer, standby.state, standby.lag_tokens), (DESTINATION, StandbyState::Preparing, 32));
}

#[test]
fn tokens_alone_are_reported_once_a_second_and_what_else_changes_soon() {
    let mut bench = Bench::running();
    bench.now = ms(250);
    bench.carry_out();
    assert_eq!(bench.reports().len(), 2, "queued at 0, running at 250 ms");
    for (index, at) in (2..12).zip((300..).step_by(50)) {
        bench.now = ms(at);
        bench.token(1, index);
    }
    assert_eq!(bench.reports(), [], "nothing but tokens");
    assert_eq!(bench.following.reporter.due(), Some(ms(1250)));
    bench.plan(PREPARE);
    assert_eq!(bench.reports().len(), 1, "at once");
    bench.now = ms(1000 + 750);
    bench.carry_out();
    assert_eq!(bench.reports().len(), 1, "a second later");
}

#[test]
fn however_much_changes_it_reports_four_times_a_second_at_most() {
    let mut bench = Bench::running();
    bench.news();
    for step in 0..200 {
        bench.now += ms(10);
        let destination = DESTINATION;
        bench.plan(if step % 2 == 0 { PREPARE } else { PlanStep::Release { destination } });
    }
    let reports = bench.reports().len();
    assert!((6..=8).contains(&reports), "{reports} in 2 s");
}

#[test]
fn a_refusal_goes_to_whoever_made_the_plan_with_what_was_heard_last() {
    let mut bench = Bench::running();
    bench.news();
    let generation = bench.plan(PlanStep::Commit { destination: DESTINATION, way: Way::Ids });
    let why = PlanRefusal::PreparesNothing;
    let refused = PlanRefused { request: REQUEST, generation, why, heard: Some(generation) };
    assert!(bench.news().contains(&OriginNews::Refused { to: COORDINATOR, refused }));
    let record = bench.following.records().plans.pop().unwrap();
    assert_eq!((record.decided_by, record.from, record.refused), (COORDINATOR, Some(SOURCE), Some(why)));
}

#[test]
fn a_person_s_move_is_prepared_and_handed_over_as_soon_as_the_destination_keeps_up() {
    let mut bench = Bench::running();
    assert_eq!(bench.wish(false), Ok(()));
    assert!(bench.has_said(|o| matches!(o, Output::Prepare { destination: DESTINATION, .. })));
    assert!(!bench.has_said(|o| matches!(o, Output::StopAfter { .. })), "it has nothing yet");
    bench.now = ms(700);
    bench.catch_up();
    assert!(bench.has_said(|o| matches!(o, Output::StopAfter { worker: SOURCE, .. })));
    for index in 2..6 {
        bench.token(1, index);
    }
    assert_eq!(bench.machine.live(), Some((Epoch(2), DESTINATION)));
    bench.now = ms(880);
    bench.token(2, 6);
    let [prepare, commit] = &bench.following.records().plans[..] else { panic!("{:?}", bench.following.records()) };
    assert_eq!((prepare.terms.reason, prepare.decided_by), (PlanReason::Asked, ME));
    assert_eq!(prepare.measured.unwrap().ready_ms, Some(700));
    assert_eq!(commit.measured.unwrap().stall_ms, Some(180));
    assert!(bench.following.manual.is_none(), "it is done");
}

#[test]
fn what_a_person_has_prepared_only_stays_until_it_is_needed_and_no_coordinator_undoes_it() {
    let mut bench = Bench::running();
    assert_eq!(bench.wish(true), Ok(()));
    bench.catch_up();
    bench.token(1, 2);
    bench.plan(PlanStep::Release { destination: DESTINATION });
    assert_eq!(bench.following.records().plans.pop().unwrap().refused, Some(PlanRefusal::Overridden));
    assert!(bench.machine.standby().is_some() && !bench.has_said(|o| matches!(o, Output::StopAfter { .. })));
    bench.hear(Input::Lost { epoch: Epoch(1), why: LossReason::Closed });
    assert_eq!(bench.machine.live(), Some((Epoch(2), DESTINATION)));
    assert!(bench.following.manual.is_none());
}

#[test]
fn a_person_is_told_why_a_request_cannot_be_moved() {
    let mut bench = Bench::queued();
    assert_eq!(bench.wish(false), Err(MoveRefused::Refused(PlanRefusal::NotAccepted)));
    bench.hear(Input::Lost { epoch: Epoch(1), why: LossReason::Closed });
    assert_eq!(bench.wish(false), Err(MoveRefused::BeingPlaced));
    let (reply, mut answer) = oneshot::channel();
    let mut bench = Bench::running();
    bench.tell(Told::Move { wish: Wish { to: SOURCE, way: Way::Ids, prepare_only: false }, reply });
    assert_eq!(answer.try_recv(), Ok(Err(MoveRefused::AlreadyThere)));
}

#[test]
fn a_person_s_move_whose_destination_dies_is_over_and_plans_count_again() {
    let mut bench = Bench::running();
    assert_eq!(bench.wish(false), Ok(()));
    let preparation = idlewild_coordinator::ownership::Preparation(1);
    bench.hear(Input::Standby { preparation, news: StandbyNews::Lost(LossReason::Closed) });
    assert!(bench.following.manual.is_none());
    assert_eq!(bench.following.records().plans[0].outcome.as_deref(), Some("closed the connection"));
    bench.plans += 1;
    bench.plan(PREPARE);
    assert!(bench.machine.standby().is_some());
}

/// A request of which forty tokens are written, fifty a second, and which a person wants elsewhere.
fn wanted_elsewhere() -> Bench {
    let mut bench = Bench::running();
    for index in 2..40 {
        bench.now += ms(20);
        bench.token(1, index);
    }
    assert_eq!(bench.wish(false), Ok(()));
    bench
}

/// The source says a token each 20 ms, and the destination lacks so many, for so long.
fn goes_on(bench: &mut Bench, lag_tokens: u32, first: u32, tokens: u32) {
    for index in first..first + tokens {
        bench.now += ms(20);
        bench.token(1, index);
        if bench.machine.standby().is_some() {
            bench.lags(lag_tokens);
        }
    }
}

fn is_stopped(bench: &Bench) -> bool {
    bench.has_said(|output| matches!(output, Output::StopAfter { .. }))
}

#[test]
fn a_person_s_move_over_a_link_with_delay_is_handed_over_with_the_lag_that_a_coordinator_takes() {
    let mut bench = wanted_elsewhere();
    goes_on(&mut bench, 24, 40, 10);
    assert!(!is_stopped(&bench), "a closer one is waited for");
    goes_on(&mut bench, 24, 50, 20);
    assert!(is_stopped(&bench));
    let record = bench.following.records().plans.pop().unwrap();
    assert_eq!((record.step.way(), record.refused), (Some(Way::Hybrid), None));

    let mut bench = wanted_elsewhere();
    for (first, lag) in (40..).step_by(2).zip((10..25).rev()) {
        goes_on(&mut bench, lag, first, 2);
    }
    assert!(!is_stopped(&bench), "it comes closer all the time");
    goes_on(&mut bench, 10, 70, 16);
    assert!(is_stopped(&bench));
}

#[test]
fn a_person_s_move_whose_destination_comes_no_closer_commits_in_the_end_or_is_given_up_and_plans_count_again() {
    let mut bench = wanted_elsewhere();
    goes_on(&mut bench, 60, 40, 900);
    assert!(!is_stopped(&bench));
    bench.now += ms(3_000);
    goes_on(&mut bench, 60, 940, 1);
    assert!(is_stopped(&bench), "what can be handed over is");

    let mut bench = wanted_elsewhere();
    goes_on(&mut bench, 70, 40, 10);
    bench.now += ms(19_000);
    goes_on(&mut bench, 65, 50, 1);
    bench.now += ms(19_000);
    goes_on(&mut bench, 66, 51, 1);
    assert!(bench.machine.standby().is_some(), "it has come closer meanwhile");
    bench.now += ms(2_000);
    goes_on(&mut bench, 66, 52, 1);
    assert!(bench.machine.standby().is_none() && !is_stopped(&bench));
    let record = bench.following.records().plans.pop().unwrap();
    assert!(record.outcome.unwrap().contains("came no closer to the worker for 20 s"));
    bench.plans += 100;
    bench.plan(PREPARE);
    assert!(bench.machine.standby().is_some(), "plans are followed again");
}

#[test]
fn a_request_that_ends_says_so_and_is_off_the_list() {
    let mut bench = Bench::running();
    bench.hear(Input::ClientGone);
    let Bench { following, requests, mut news, .. } = bench;
    drop(following);
    let all: Vec<OriginNews> = std::iter::from_fn(|| news.try_recv().ok()).collect();
    assert_eq!(all.last(), Some(&OriginNews::Ended(REQUEST)));
    let (reply, _) = oneshot::channel();
    let wish = Wish { to: DESTINATION, way: Way::Ids, prepare_only: false };
    assert!(requests.tell(REQUEST, Told::Move { wish, reply }).is_err());
}

#[test]
fn no_number_of_plans_fills_the_memory_and_what_is_repeated_is_told_once() {
    let mut bench = Bench::running();
    for _ in 0..100 {
        bench.plan(PlanStep::Hold { destination: DESTINATION });
    }
    assert_eq!(bench.following.records().plans.len(), 1);
    for n in 0..100 {
        bench.plan(PlanStep::Hold { destination: PeerId([n; 32]) });
    }
    assert_eq!(bench.following.records().plans.len(), 64);
}
