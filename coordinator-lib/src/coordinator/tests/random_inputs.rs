//! A leader to which anything may happen, in any order.

use core::time::Duration;
use std::collections::BTreeMap;

use idlewild_protocol::{
    BootId, ControlMessage, DepartureCause, Digest, Epoch, Generation, Message, ModelLoad, PeerId, PeerState,
    PlaceOutcome, PlaceRequest, Plan, PlanRefusal, PlanRefused, PlanStep, QuantisedSurvival, RequestId, RequestReport,
    RequestStage, Standby, StandbyState, Term,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::fleet::{MODEL, digest, model, peer, request};
use crate::Now;
use crate::coordinator::{Coordinator, CoordinatorConfig, Input, Output};
use crate::cost::Way;
use crate::policy::{HazardAwarePolicy, MigrationModel};
use crate::view::View;

/// Peers and requests: few, so that what happens concerns the same ones.
const PEERS: u8 = 12;
const REQUESTS: u8 = 8;

/// Something that happens.
#[derive(Debug, Clone)]
enum Step {
    /// The view hears a digest, perhaps an old one, perhaps of another life.
    Hear { digest: Box<Digest>, is_direct: bool },
    /// The view loses a peer.
    Depart { n: u8 },
    /// Digests expire.
    Expire,
    /// The clock moves, or does not.
    Pass { ms: u64 },
    /// The coordinator is told.
    Tell(Box<Input>),
}

fn any_rate() -> impl Strategy<Value = f32> {
    prop_oneof![6 => 1.0_f32..300.0, 1 => any::<f32>(), 1 => Just(0.0), 1 => Just(f32::INFINITY), 1 => Just(f32::NAN)]
}

fn any_model() -> impl Strategy<Value = ModelLoad> {
    let room = prop_oneof![5 => Just((8192_u32, 16_384_u32)), 1 => (any::<u32>(), any::<u32>())];
    let load = prop_oneof![4 => Just(0_u32), 1 => 0_u32..60_000, 1 => any::<u32>()];
    let slots = prop_oneof![5 => (0_u16..4, Just(4_u16)), 1 => (any::<u16>(), any::<u16>())];
    let kv = prop_oneof![4 => Just(1000_u32), 1 => any::<u32>()];
    (any_rate(), any_rate(), room, load, slots, kv, any::<bool>()).prop_map(
        |(decode_tps, prefill_tps, room, queue_wait_ms, (running, slots), kv_bytes_per_token, loaded)| ModelLoad {
            decode_tps,
            prefill_tps,
            decode_doubles_at: room.0 as u16,
            prefill_doubles_at: room.1 as u16,
            context_tokens: room.0,
            kv_free_tokens: room.1,
            queue_wait_ms,
            running,
            slots,
            kv_bytes_per_token,
            loaded,
            ..model()
        },
    )
}

fn any_state() -> impl Strategy<Value = PeerState> {
    prop_oneof![
        8 => Just(PeerState::Serving),
        1 => Just(PeerState::Busy),
        1 => any::<u32>().prop_map(|notice_ms| PeerState::Leaving { cause: DepartureCause::Sleep, notice_ms }),
    ]
}

fn any_digest() -> impl Strategy<Value = Digest> {
    let version = (1_u64..3, prop_oneof![8 => 1_u64..200, 1 => any::<u64>()]);
    let codes = prop_oneof![4 => (1.0_f64..1e5).prop_map(|mean_s| QuantisedSurvival::of(|t_s| (-t_s / mean_s).exp())),
        1 => any::<[u8; 16]>().prop_map(QuantisedSurvival)];
    let models = vec(any_model(), 0..3);
    let rates = prop_oneof![3 => Just(50_000_000_u64), 1 => any::<u64>()];
    (1..=PEERS, version, any_state(), codes, models, rates).prop_map(
        |(n, (boot, sequence), state, survival, models, rate)| Digest {
            boot: BootId(boot),
            sequence,
            state,
            survival,
            models,
            up_bytes_per_s: rate,
            down_bytes_per_s: rate,
            ..digest(n, model())
        },
    )
}

fn any_stage() -> impl Strategy<Value = RequestStage> {
    prop_oneof![
        5 => (1..=PEERS).prop_map(|n| RequestStage::Running { worker: peer(n) }),
        1 => (1..=PEERS, any::<u32>()).prop_map(|(n, wait_ms)| RequestStage::Queued { worker: peer(n), wait_ms }),
        1 => Just(RequestStage::Orphaned),
    ]
}

fn any_standby() -> impl Strategy<Value = Option<Standby>> {
    let state = prop_oneof![
        Just(StandbyState::Preparing),
        Just(StandbyState::Holding),
        Just(StandbyState::Paused),
        Just(StandbyState::Committing)
    ];
    let way = prop_oneof![Just(Way::Ids), Just(Way::PreCopy), Just(Way::Hybrid), Just(Way::StoppedSplit)];
    let lag = prop_oneof![4 => 0_u32..20, 1 => any::<u32>()];
    proptest::option::of((1..=PEERS, way, state, lag).prop_map(|(n, way, state, lag_tokens)| Standby {
        peer: peer(n),
        way,
        state,
        lag_tokens,
    }))
}

fn any_report() -> impl Strategy<Value = RequestReport> {
    let tokens = prop_oneof![6 => (0_u32..5000, 0_u32..2000), 1 => (any::<u32>(), any::<u32>())];
    let residual = prop_oneof![6 => (0_u32..2000).prop_map(|most| [1, 3, 5, 7, 10].map(|part| part * most / 10)),
        1 => any::<[u32; 5]>()];
    let version = (0_u32..5, 0_u64..20);
    let rest = (vec((1..=PEERS).prop_map(peer), 0..4), 0_u32..5);
    (0..REQUESTS, version, any_stage(), tokens, residual, any_standby(), rest).prop_map(
        |(n, (epoch, sequence), stage, tokens, residual_tokens, standby, (excluded, hops))| RequestReport {
            request: RequestId([n; 16]),
            epoch: Epoch(epoch),
            sequence,
            model: MODEL,
            stage,
            prompt_tokens: tokens.0,
            done_tokens: tokens.1,
            residual_tokens,
            hops,
            standby,
            excluded,
        },
    )
}

/// Of a plan that was made, mostly.
fn any_refusal() -> impl Strategy<Value = PlanRefused> {
    let why = prop_oneof![Just(PlanRefusal::Overtaken), Just(PlanRefusal::OtherEpoch), Just(PlanRefusal::TooOften)];
    let heard = prop_oneof![4 => Just(None), 1 => (0_u64..4, any::<u64>()).prop_map(Some)];
    let generation = |(term, number)| Generation { term: Term(term), number };
    (0..REQUESTS, (0_u64..4, 0_u64..6), why, heard).prop_map(move |(n, plan, why, heard)| PlanRefused {
        request: RequestId([n; 16]),
        generation: generation(plan),
        why,
        heard: heard.map(generation),
    })
}

fn any_input() -> impl Strategy<Value = Input> {
    let origin = || (1_u8..3).prop_map(peer);
    let place = (0..REQUESTS, origin(), any::<u32>(), 0_u32..5000).prop_map(|(n, origin, prompt_tokens, output)| {
        let prompt_tokens = prompt_tokens >> (u32::from(n) * 4);
        let request = PlaceRequest { prompt_tokens, expected_output_tokens: output, ..request(n) };
        Input::Place { origin, request }
    });
    let notice = (1..=PEERS, any::<u64>()).prop_map(|(n, ms)| Input::Notice {
        peer: peer(n),
        cause: if ms % 2 == 0 { DepartureCause::OwnerReturned } else { DepartureCause::Sleep },
        notice: Duration::from_millis(ms >> (ms % 64)),
    });
    prop_oneof![
        20 => (origin(), any_report()).prop_map(|(origin, report)| Input::Report { origin, report }),
        10 => Just(Input::Tick),
        4 => (1..=PEERS).prop_map(|n| Input::PeerChanged { peer: peer(n) }),
        3 => place,
        2 => notice,
        2 => (origin(), any_refusal()).prop_map(|(origin, refused)| Input::Refused { origin, refused }),
        1 => (origin(), 0..REQUESTS).prop_map(|(origin, n)| Input::Ended { origin, request: RequestId([n; 16]) }),
        1 => (0_u64..4).prop_map(|term| Input::Leading { term: Term(term) }),
        1 => (0_u64..4).prop_map(|term| Input::Following { term: Term(term) }),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let pass = prop_oneof![3 => 0_u64..3000, 2 => Just(5000_u64), 1 => 0_u64..1_000_000];
    prop_oneof![
        8 => (any_digest(), any::<bool>()).prop_map(|(digest, is_direct)| Step::Hear { digest: Box::new(digest), is_direct }),
        1 => (1..=PEERS).prop_map(|n| Step::Depart { n }),
        1 => Just(Step::Expire),
        4 => pass.prop_map(|ms| Step::Pass { ms }),
        12 => any_input().prop_map(|input| Step::Tell(Box::new(input))),
    ]
}

/// What the leader was last told of each request, and what came of it.
struct World {
    view: View,
    now: Now,
    coordinator: Coordinator,
    latest: BTreeMap<RequestId, RequestReport>,
    last: Option<Generation>,
}

impl World {
    fn new(migration: MigrationModel) -> Self {
        let policy = HazardAwarePolicy { migration, ..HazardAwarePolicy::default() };
        let config = CoordinatorConfig { policy, ..CoordinatorConfig::default() };
        let mut world = Self {
            view: View::new(peer(1)),
            now: Now::ZERO,
            coordinator: Coordinator::new(config),
            latest: BTreeMap::new(),
            last: None,
        };
        for n in 1..=PEERS {
            let mean_s = 4.0_f64.powi(i32::from(n));
            let survival = QuantisedSurvival::of(|t_s| (-t_s / mean_s).exp());
            let rates = (50_000_000, 50_000_000);
            let known = Digest { survival, up_bytes_per_s: rates.0, down_bytes_per_s: rates.1, ..digest(n, model()) };
            world.step(&Step::Hear { digest: Box::new(known), is_direct: true });
        }
        world.coordinator.handle(Now::ZERO, &world.view, Input::Leading { term: Term(0) });
        world.coordinator.handle(Now::ZERO, &world.view, Input::Leading { term: Term(1) });
        world
    }

    fn step(&mut self, step: &Step) -> Vec<Output> {
        match step {
            Step::Hear { digest, .. } if digest.peer == self.view.me() => {
                self.view.state_own(self.now, (**digest).clone(), None);
            }
            Step::Hear { digest, is_direct } => {
                if *is_direct {
                    self.view.connected(self.now, digest.peer, digest.boot);
                }
                self.view.apply(self.now, (**digest).clone());
            }
            Step::Depart { n } => self.view.departed(self.now, peer(*n), DepartureCause::Crash),
            Step::Expire => self.view.expire(self.now),
            Step::Pass { ms } => self.now += Duration::from_millis(*ms),
            Step::Tell(input) => {
                self.coordinator.handle(self.now, &self.view, (**input).clone());
            }
        }
        core::iter::from_fn(|| self.coordinator.poll_output()).collect()
    }

    /// What holds of every output, whatever happened.
    fn check(&mut self, output: &Output) {
        assert!(!format!("{output:?}").contains("NaN"), "{output:?}");
        match output {
            Output::Propose { plan, .. } => self.check_plan(plan),
            Output::Answer { reply, .. } => {
                assert!(ControlMessage::Placed(reply.clone()).to_bytes().is_ok(), "{reply:?}");
                if let PlaceOutcome::Run { worker, .. } = reply.outcome {
                    self.assert_serves(worker);
                }
            }
            Output::PeerFault { .. } => {}
        }
    }

    fn check_plan(&mut self, plan: &Plan) {
        let bytes = ControlMessage::Plan(Box::new(plan.clone())).to_bytes();
        assert!(bytes.is_ok_and(|bytes| bytes.len() <= 2048), "{plan:?}");
        assert!(self.last.is_none_or(|last| plan.generation > last), "{plan:?} after {:?}", self.last);
        self.last = Some(plan.generation);
        assert_eq!(self.coordinator.leads(), Some(plan.generation.term), "only a leader plans");
        let report = &self.latest[&plan.request];
        assert_eq!(plan.epoch, report.epoch);
        if let Some(destination) = plan.step.taker() {
            self.assert_serves(destination);
            assert!(!report.excluded.contains(&destination), "{plan:?} for {report:?}");
            assert_ne!(report.worker(), Some(destination), "where it is already");
        }
        if let PlanStep::Hold { destination } | PlanStep::Pause { destination } | PlanStep::Release { destination } =
            plan.step
        {
            assert_eq!(report.standby.map(|standby| standby.peer), Some(destination));
        }
    }

    fn assert_serves(&self, peer: PeerId) {
        let digest = self.view.peer(peer).and_then(|known| known.digest.as_ref());
        let digest = digest.unwrap_or_else(|| panic!("{peer} is not known"));
        assert_eq!(digest.state, PeerState::Serving);
        assert!(digest.models.iter().any(|model| model.model == MODEL));
    }
}

/// The report that a leader should go by after `input`, if it takes it in.
fn note(world: &mut World, input: &Input) {
    if let Input::Report { report, .. } = input
        && world.coordinator.follows(report)
    {
        world.latest.insert(report.request, report.clone());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn whatever_happens_a_leader_plans_only_what_could_be_carried_out(
        steps in vec(any_step(), 1..150), is_corrected in proptest::bool::weighted(0.7),
    ) {
        let migration = if is_corrected { MigrationModel::Overlapped } else { MigrationModel::Blocking };
        let (mut world, mut twin) = (World::new(migration), World::new(migration));
        for step in &steps {
            let outputs = world.step(step);
            if let Step::Tell(input) = step {
                note(&mut world, input);
            }
            for output in &outputs {
                world.check(output);
            }
            prop_assert!(world.coordinator.followed() <= usize::from(REQUESTS));
            prop_assert_eq!(outputs, twin.step(step), "the same inputs have the same outputs");
        }
        prop_assert_eq!(format!("{:?}", world.coordinator), format!("{:?}", twin.coordinator));
    }
}

/// The kind of a plan, by name.
fn kind(action: &PlanStep) -> &'static str {
    match action {
        PlanStep::Prepare { .. } => "prepare",
        PlanStep::Hold { .. } => "hold",
        PlanStep::Pause { .. } => "pause",
        PlanStep::Release { .. } => "release",
        PlanStep::Commit { .. } => "commit",
        PlanStep::Replace { .. } => "replace",
        PlanStep::Abort { .. } => "abort",
    }
}

#[test]
fn random_inputs_bring_about_every_kind_of_plan() {
    let mut runner = TestRunner::deterministic();
    let steps = vec(any_step(), 150);
    let mut kinds = BTreeMap::new();
    for _ in 0..150 {
        let mut world = World::new(MigrationModel::Overlapped);
        for step in steps.new_tree(&mut runner).unwrap().current() {
            for output in world.step(&step) {
                if let Output::Propose { plan, .. } = output {
                    *kinds.entry(kind(&plan.step)).or_insert(0) += 1;
                }
            }
        }
    }
    assert!(kinds.len() == 6 && kinds.values().all(|count| *count > 0), "{kinds:?}");
}
