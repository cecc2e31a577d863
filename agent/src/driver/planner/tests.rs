//! A leader, an origin and their views, with the mail between them carried by hand.

use idlewild_coordinator::ownership::{self, Limits, RequestMachine, RequestSpec};
use idlewild_protocol::{
    BootId, Digest, Epoch, JobEvent, JobInput, ModelId, ModelLoad, MoveTimes, PeerState, PlaceOutcome, PlanRefusal,
    PlanStep, QuantisedSurvival, RequestStage, Sampling, TokenId,
};
use tokio::sync::mpsc;

use super::*;

const ORIGIN: PeerId = PeerId([1; 32]);
const LEADER: PeerId = PeerId([2; 32]);
const STAYER: PeerId = PeerId([3; 32]);
/// Likely to leave within 10 s.
const LEAVER: PeerId = PeerId([4; 32]);
const MODEL: ModelId = ModelId([9; 32]);
const REQUEST: RequestId = RequestId([7; 16]);

fn at(s: u64) -> Now {
    Duration::from_secs(s)
}

fn digest(peer: PeerId, mean_s: f64) -> Digest {
    let model = ModelLoad {
        model: MODEL,
        loaded: true,
        decode_tps: 10.0,
        prefill_tps: 100.0,
        decode_doubles_at: 0,
        prefill_doubles_at: 0,
        kv_bytes_per_token: 1000,
        context_tokens: 4096,
        kv_free_tokens: 8192,
        queue_wait_ms: 0,
        running: 0,
        slots: 4,
    };
    Digest {
        peer,
        boot: BootId(1),
        sequence: 1,
        state: PeerState::Serving,
        age_s: 0,
        survival: QuantisedSurvival::of(|t_s| (-t_s / mean_s).exp()),
        models: vec![model],
        up_bytes_per_s: 100_000_000,
        down_bytes_per_s: 100_000_000,
        move_times: MoveTimes::default(),
        pairs: Vec::new(),
        coordinator: None,
    }
}

fn view(me: PeerId) -> View {
    let mut view = View::new(me);
    for digest in [digest(STAYER, 1e6), digest(LEAVER, 10.0)] {
        view.connected(at(0), digest.peer, digest.boot);
        view.apply(at(0), digest);
    }
    view
}

/// 2000 tokens of context, and 300 to come.
fn report() -> RequestReport {
    RequestReport {
        request: REQUEST,
        epoch: Epoch(1),
        sequence: 1,
        model: MODEL,
        stage: RequestStage::Running { worker: LEAVER },
        prompt_tokens: 1500,
        done_tokens: 500,
        residual_tokens: [300; 5],
        hops: 0,
        standby: None,
        excluded: Vec::new(),
    }
}

/// One peer's planner, with its view and its open request.
struct Side {
    planner: Planner,
    view: View,
    told: mpsc::Receiver<Told>,
    _registration: crate::origin::Registration,
}

impl Side {
    fn new(me: PeerId, leader: Option<PeerId>) -> Self {
        let open = OpenRequests::default();
        let (registration, told) = open.register(REQUEST);
        let planner = Planner::new(me, open, MeasuredOverheads::default());
        let mut side = Self { planner, view: view(me), told, _registration: registration };
        assert_eq!(side.follow(1, leader), []);
        side
    }

    fn follow(&mut self, term: u64, leader: Option<PeerId>) -> Mail {
        self.planner.follow(at(0), &self.view, Standing { term: Term(term), leader })
    }

    fn say(&mut self, news: OriginNews) -> Mail {
        self.planner.hear_own(at(0), &self.view, news)
    }

    fn own_report(&mut self) -> Mail {
        self.say(OriginNews::Report(Box::new(report())))
    }

    /// The plan that its request has heard, and of whom.
    fn heard(&mut self) -> Option<(PeerId, Plan)> {
        match self.told.try_recv() {
            Ok(Told::Plan { by, plan }) => Some((by, *plan)),
            Ok(told @ Told::Move { .. }) => panic!("{told:?}"),
            Err(_) => None,
        }
    }
}

/// The leader, once the origin has reported and the first round is over, and the plan that it made.
fn planned() -> (Side, Plan) {
    let mut leader = Side::new(LEADER, Some(LEADER));
    let mail = leader.planner.reported(at(0), &leader.view, ORIGIN, report());
    assert_eq!(mail, []);
    let mut mail = leader.planner.tick(at(5), &leader.view);
    let Some((ORIGIN, ControlMessage::Plan(plan))) = mail.pop() else { panic!("{mail:?}") };
    (leader, *plan)
}

/// A machine whose request runs on the peer that is likely to leave, in epoch 1.
fn machine() -> RequestMachine {
    let spec = RequestSpec {
        request: REQUEST,
        model: MODEL,
        input: JobInput::Text { prompt: "Once".to_owned() },
        sampling: Sampling::default(),
        max_tokens: 1000,
        stop: Vec::new(),
        prompt_tokens_estimate: 4,
        expected_output_tokens: 300,
    };
    let mut machine = RequestMachine::new(at(0), spec, Limits::default());
    let Some(ownership::Output::AskPlacement(question)) = machine.poll_output() else { panic!("it asks first") };
    let outcome = PlaceOutcome::Run { worker: LEAVER, fallback: None };
    let (attempt, terms) = (question.attempt, Vec::new());
    let reply = PlaceReply { request: REQUEST, attempt, term: Term(1), outcome, terms };
    machine.handle(at(0), ownership::Input::Placed(reply));
    let (epoch, prompt) = (Epoch(1), vec![TokenId(5)]);
    machine.handle(at(0), ownership::Input::Event { epoch, event: JobEvent::Accepted { epoch, prompt } });
    machine
}

fn outputs(machine: &mut RequestMachine) -> Vec<ownership::Output> {
    std::iter::from_fn(|| machine.poll_output()).collect()
}

#[test]
fn a_plan_of_the_leader_reaches_the_task_of_the_request_and_is_carried_out() {
    let mut origin = Side::new(ORIGIN, Some(LEADER));
    let expected = ControlMessage::Report(Box::new(report()));
    assert_eq!(origin.own_report(), [(LEADER, expected)]);
    let (_, plan) = planned();
    origin.planner.planned(LEADER, plan.clone());
    let (by, heard) = origin.heard().unwrap();
    assert_eq!((by, &heard), (LEADER, &plan));
    let mut machine = machine();
    outputs(&mut machine);
    machine.handle(at(5), ownership::Input::Proposed(heard));
    let said = outputs(&mut machine);
    let prepares = |output: &ownership::Output| {
        matches!(output, ownership::Output::Prepare { destination, context, .. }
            if *destination == STAYER && context.pull.is_some_and(|pull| pull.holder == LEAVER))
    };
    assert!(said.iter().any(prepares), "{said:?}");
}

#[test]
fn a_plan_that_is_stale_or_of_a_peer_that_does_not_coordinate_changes_nothing() {
    let mut origin = Side::new(ORIGIN, Some(LEADER));
    let (_, plan) = planned();
    origin.planner.planned(STAYER, plan.clone());
    origin.planner.planned(LEADER, Plan { request: RequestId([8; 16]), ..plan.clone() });
    assert_eq!(origin.heard(), None);
    let mut machine = machine();
    let before = machine.clone();
    machine.handle(at(5), ownership::Input::Proposed(Plan { epoch: Epoch(2), ..plan.clone() }));
    let generation = plan.generation;
    let refused = ownership::Output::Refused { generation, why: PlanRefusal::OtherEpoch };
    assert_eq!(outputs(&mut machine).last(), Some(&refused));
    assert_eq!((machine.live(), machine.standby()), (before.live(), before.standby()));
}

#[test]
fn a_new_coordinator_is_told_at_once_of_all_that_runs() {
    let mut origin = Side::new(ORIGIN, Some(LEADER));
    origin.own_report();
    let expected = ControlMessage::Report(Box::new(report()));
    assert_eq!(origin.follow(1, Some(LEADER)), [], "nothing has changed");
    assert_eq!(origin.follow(2, Some(STAYER)), [(STAYER, expected)]);
    let ended = ControlMessage::Ended { request: REQUEST };
    assert_eq!(origin.say(OriginNews::Ended(REQUEST)), [(STAYER, ended)]);
    assert_eq!(origin.follow(3, Some(LEADER)), [], "it has ended");
}

#[test]
fn while_nobody_coordinates_a_peer_plans_for_its_own_requests_alone() {
    let mut origin = Side::new(ORIGIN, Some(LEADER));
    origin.own_report();
    assert_eq!(origin.follow(1, None), []);
    let other = RequestReport { request: RequestId([8; 16]), ..report() };
    assert_eq!(origin.planner.reported(at(0), &origin.view, STAYER, other), []);
    assert_eq!(origin.planner.coordinator.followed(), 1, "its own");
    assert_eq!(origin.planner.poll_timeout(), Some(at(5)));
    assert_eq!(origin.planner.tick(at(5), &origin.view), [], "nobody else is concerned");
    let (by, plan) = origin.heard().unwrap();
    assert_eq!(by, ORIGIN);
    assert!(matches!(plan.step, PlanStep::Prepare { destination: STAYER, .. }), "{plan:?}");
    assert!(matches!(origin.follow(2, Some(LEADER))[..], [(LEADER, ControlMessage::Report(_))]));
    assert_eq!(origin.planner.coordinator.followed(), 0, "it is the leader's again");
}

#[test]
fn a_refusal_reaches_whoever_made_the_plan_and_it_is_not_made_again_at_once() {
    let mut origin = Side::new(ORIGIN, Some(LEADER));
    let (mut leader, plan) = planned();
    let (request, generation) = (plan.request, plan.generation);
    let refused = PlanRefused { request, generation, why: PlanRefusal::TooOften, heard: Some(generation) };
    let mail = origin.say(OriginNews::Refused { to: LEADER, refused });
    assert_eq!(mail, [(LEADER, ControlMessage::PlanRefused(refused))]);
    leader.planner.refused(at(5), &leader.view, ORIGIN, refused);
    leader.planner.reported(at(6), &leader.view, ORIGIN, RequestReport { sequence: 2, ..report() });
    assert_eq!(leader.planner.tick(at(10), &leader.view), []);
    assert!(matches!(leader.planner.tick(at(15), &leader.view)[..], [(ORIGIN, ControlMessage::Plan(_))]));
}

#[test]
fn a_notice_and_a_departure_are_answered_without_waiting_for_the_round() {
    let mut leader = Side::new(LEADER, Some(LEADER));
    leader.planner.reported(at(0), &leader.view, ORIGIN, report());
    let cause = DepartureCause::Sleep;
    leader.planner.noticed((at(1), &leader.view), LEAVER, cause, Duration::from_secs(10));
    let mail = leader.planner.tick(at(1), &leader.view);
    assert!(matches!(mail[..], [(ORIGIN, ControlMessage::Plan(_))]), "{mail:?}");
}
