//! Each kind of bad input, in every module that may meet it: a defined answer, never a decision that rests on it.

use core::time::Duration;

use idlewild_coordinator::coordinator::{self, Coordinator};
use idlewild_coordinator::cost::{CostParameters, Method, Path, PeerRates, Residual, Way, Work};
use idlewild_coordinator::election::{self, Candidate, Election, owns, term_of};
use idlewild_coordinator::hazard::{
    DigestCurve, Estimator, Frailty, Hazard, KaplanMeier, KaplanMeiers, Session, Survival, WeibullPrior, Weibulls,
};
use idlewild_coordinator::ownership::{self, Limits, RequestMachine, RequestSpec};
use idlewild_coordinator::policy::overlapped::{self, Because, Host, Leaving, Placing, RunningRequest};
use idlewild_coordinator::policy::{
    Fleet, FleetPeer, HazardAwarePolicy, MigrationLimits, MoveDecision, Policy, Running,
};
use idlewild_coordinator::view::{Applied, DIGEST_LIFETIME, View};
use idlewild_protocol::{
    BootId, ControlMessage, Digest, ElectionMessage, Epoch, JobInput, Message, ModelId, ModelLoad, MoveTimes, PeerId,
    PeerState, PeerTerms, PlaceOutcome, PlaceReply, PlaceRequest, Plan, PlanStep, QuantisedSurvival, RequestId,
    RequestReport, RequestStage, Sampling, Term,
};
use proptest::prelude::*;
use proptest::sample::select;

const MODEL: ModelId = ModelId([9; 32]);

const RATES: PeerRates =
    PeerRates { decode_tps: 10.0, prefill_tps: 100.0, bandwidth_bps: 0.0, kv_bytes_per_token: 1e4, room_tokens: 8192 };

fn peer(n: u8) -> PeerId {
    PeerId([n; 32])
}

fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Of a peer that is expected to stay `mean_s` seconds, over links of no bandwidth.
fn digest(n: u8, mean_s: f64, tps: f32) -> Digest {
    let model = ModelLoad {
        model: MODEL,
        loaded: true,
        decode_tps: tps,
        prefill_tps: tps * 10.0,
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
        peer: peer(n),
        boot: BootId(1),
        sequence: 1,
        state: PeerState::Serving,
        age_s: 0,
        survival: QuantisedSurvival::of(|t_s| (-t_s / mean_s).exp()),
        models: vec![model],
        up_bytes_per_s: 0,
        down_bytes_per_s: 0,
        move_times: MoveTimes::default(),
        pairs: Vec::new(),
        coordinator: None,
    }
}

/// Of peer 1, to which these are connected.
fn view_of(now: Duration, digests: Vec<Digest>) -> View {
    let mut view = View::new(peer(1));
    for digest in digests {
        view.connected(now, digest.peer, digest.boot);
        assert_eq!(view.apply(now, digest), Applied::Newer);
    }
    view
}

fn place(now: Duration, view: &View) -> PlaceReply {
    let request = PlaceRequest {
        request: RequestId([1; 16]),
        attempt: 1,
        model: MODEL,
        prompt_tokens: 100,
        expected_output_tokens: 50,
        done_tokens: 0,
        excluded: Vec::new(),
    };
    let reply = Coordinator::default().place(now, view, Term(1), peer(1), &request);
    assert!(ControlMessage::Placed(reply.clone()).to_bytes().is_ok(), "{reply:?}");
    reply
}

/// What a leader plans, by its first round, for one request that runs on peer 2.
fn plans(view: &View) -> Vec<Plan> {
    let mut leader = Coordinator::default();
    leader.handle(s(0), view, coordinator::Input::Leading { term: Term(1) });
    let report = RequestReport {
        request: RequestId([1; 16]),
        epoch: Epoch(1),
        sequence: 1,
        model: MODEL,
        stage: RequestStage::Running { worker: peer(2) },
        prompt_tokens: 1500,
        done_tokens: 500,
        residual_tokens: [300; 5],
        hops: 0,
        standby: None,
        excluded: Vec::new(),
    };
    leader.handle(s(0), view, coordinator::Input::Report { origin: peer(1), report });
    leader.handle(s(5), view, coordinator::Input::Tick);
    let outputs = core::iter::from_fn(|| leader.poll_output());
    outputs
        .filter_map(|out| if let coordinator::Output::Propose { plan, .. } = out { Some(plan) } else { None })
        .collect()
}

fn decide(
    source: PeerRates,
    to: PeerRates,
    goodput_bps: f64,
    curve: &dyn Survival,
    age_s: f64,
) -> overlapped::Decision<u8> {
    let path = Path { goodput_bps, round_trip_s: 0.01, budget_bytes: None, has_same_layout: true };
    let stays = KaplanMeier::fit(&[]);
    let host = Host::new(1, to, Hazard { curve: &stays, age_s });
    let request = RunningRequest {
        source: Host::new(0, source, Hazard { curve, age_s }),
        context_tokens: 1000,
        residual: Residual::exactly(500),
        hops: 0,
        leaving: Leaving::Unannounced,
        standby: None,
        candidates: &[overlapped::Candidate { host, path: Some(path) }],
    };
    HazardAwarePolicy::default().decide(&request)
}

fn as_given() -> HazardAwarePolicy {
    HazardAwarePolicy::blocking(CostParameters::default(), MigrationLimits::default())
}

fn fleet(rates: [PeerRates; 2], hazard: Hazard<'_>) -> Fleet<'_, usize> {
    let one = |(id, rates)| FleetPeer { id, rates, load_s: 0.0, hazard, known_remaining_s: None };
    Fleet::new(rates.into_iter().enumerate().map(one).collect())
}

/// A machine of an origin that has just been asked.
fn origin(now: Duration) -> RequestMachine {
    let spec = RequestSpec {
        request: RequestId([7; 16]),
        model: MODEL,
        input: JobInput::Text { prompt: "once upon a time".to_owned() },
        sampling: Sampling::default(),
        max_tokens: 10,
        stop: Vec::new(),
        prompt_tokens_estimate: 4,
        expected_output_tokens: 8,
    };
    RequestMachine::new(now, spec, Limits::default())
}

fn said(election: &mut Election) -> Vec<election::Output> {
    core::iter::from_fn(|| election.poll_output()).collect()
}

fn live(peers: &[(u8, f64)]) -> election::Input {
    let one = |&(n, remaining_s): &(u8, f64)| Candidate { peer: peer(n), remaining_s };
    election::Input::Live { peers: peers.iter().map(one).collect() }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Heard later than now, and of the last version and the greatest age that there are.
    #[test]
    fn digests_from_the_future_read_as_just_made(heard_s in 1..u64::from(u32::MAX), now_s in 0..1000_u64) {
        let now = s(now_s.min(heard_s));
        let last = Digest { boot: BootId(u64::MAX), sequence: u64::MAX, age_s: u32::MAX, ..digest(2, 600.0, 10.0) };
        let mut view = view_of(s(heard_s), vec![last.clone()]);
        prop_assert_eq!(view.peer(peer(2)).map(|known| known.digest_age_s(now)), Some(0.0));
        prop_assert!(view.candidates(now).iter().all(|candidate| candidate.remaining_s.is_finite()));
        prop_assert_eq!(place(now, &view), place(s(heard_s), &view), "as if it had just been heard");
        prop_assert_eq!(view.apply(now, last), Applied::Stale);
        view.expire(now);
        prop_assert!(view.peer(peer(2)).is_some());
    }

    #[test]
    fn ages_beyond_the_last_observation_have_answers(exponent in 2.5..300.0_f64, at_s in 1.0..1e5_f64) {
        let age_s = 10.0_f64.powf(exponent);
        let sessions = [60.0, 120.0, 300.0].map(Session::ended);
        let digest = DigestCurve::new(&QuantisedSurvival::of(|t_s| (-t_s / 60.0).exp()));
        let weibull = WeibullPrior::VAGUE.fit(&sessions);
        let kaplan_meier = KaplanMeier::fit(&sessions);
        for curve in [&kaplan_meier as &dyn Survival, &digest, &weibull] {
            let hazard = Hazard { curve, age_s };
            prop_assert!((0.0..=1.0).contains(&hazard.leave_probability(at_s)), "{curve:?}");
            let placement = overlapped::place(
                &Placing::new(Work::fresh(1000, 500)),
                &[Host::new(0, RATES, hazard), Host::new(1, RATES, hazard)],
                &overlapped::OverlappedParameters::default(),
            );
            let terms = placement.chosen_assessment().and_then(|chosen| chosen.terms());
            prop_assert!(terms.is_some_and(|terms| terms.loss_s >= 0.0 && terms.expected_s().is_finite()), "{terms:?}");
            let stay = decide(RATES, RATES, 1e7, curve, age_s).stay;
            prop_assert!(stay.is_some_and(|stay| (0.0..=1.0).contains(&stay.leave_probability)), "{stay:?}");
        }
    }

    #[test]
    fn nan_rates_place_and_move_nothing(
        bad in select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0]), is_decode in any::<bool>(),
    ) {
        let rates = if is_decode { PeerRates { decode_tps: bad, ..RATES } } else { PeerRates { prefill_tps: bad, ..RATES } };
        let leaves = KaplanMeier::fit(&[Session::ended(20.0), Session::ended(30.0)]);
        let hazard = Hazard { curve: &leaves, age_s: 0.0 };
        let hosts = [Host::new(0, rates, hazard), Host::new(1, RATES, hazard)];
        let parameters = overlapped::OverlappedParameters::default();
        let placement = overlapped::place(&Placing::new(Work::fresh(1000, 500)), &hosts, &parameters);
        prop_assert_eq!(placement.chosen, Some(1));
        let given = as_given().place(&fleet([rates, RATES], hazard), &Work::fresh(1000, 500));
        prop_assert_eq!(given.chosen, Some(1));
        let running = Running { current: 1, work: Work::running(1000, 500, 20), own_load_s: 0.0, hops: 0 };
        let moved = as_given().should_migrate(&fleet([rates, RATES], hazard), &running).decision;
        prop_assert!(matches!(moved, MoveDecision::Stay(_)), "{moved:?}");
        let to = decide(RATES, rates, 1e7, &leaves, 0.0);
        prop_assert_eq!((to.action, to.because), (overlapped::Action::Stay, Because::AllVetoed));
        if is_decode {
            let from = decide(rates, RATES, 1e7, &leaves, 0.0);
            prop_assert_eq!((from.action, from.because), (overlapped::Action::Stay, Because::SourceNotMeasured));
        }
    }
}

/// A digest may say anything: what is no rate is taken for a slow one, so that a measured peer comes first.
#[test]
fn nan_rates_in_digests_read_as_slow() {
    for bad in [f32::NAN, f32::INFINITY, -1.0, 0.0] {
        let view = view_of(s(0), vec![digest(2, 1e6, bad), digest(3, 1e6, 3.0)]);
        let reply = place(s(0), &view);
        assert_eq!(reply.outcome, PlaceOutcome::Run { worker: peer(3), fallback: Some(peer(2)) }, "{bad}");
        assert!(reply.terms.iter().all(|terms| terms.wait_s.is_finite() && terms.loss_s.is_finite()), "{reply:?}");
        assert_eq!(place(s(0), &view_of(s(0), vec![digest(2, 1e6, bad)])).terms.len(), 1, "rather than nowhere");
    }
}

#[test]
fn nan_figures_rank_last_in_an_election_and_excuse_no_silence_of_a_worker() {
    for bad in [f64::NAN, f64::NEG_INFINITY, -1.0] {
        let mut two = [1, 2].map(|n| Election::new(peer(n), Term(0), None, 1));
        for election in &mut two {
            election.handle(s(0), live(&[(1, bad), (2, 60.0)]));
        }
        assert!(two[1].poll_timeout() < two[0].poll_timeout(), "{bad}: the other one stands first");

        let mut request = origin(s(0));
        let terms =
            PeerTerms { peer: peer(2), unfit: None, wait_s: bad, service_s: bad, loss_s: bad, leave_probability: bad };
        let outcome = PlaceOutcome::Run { worker: peer(2), fallback: None };
        let reply = PlaceReply { request: RequestId([7; 16]), attempt: 1, term: Term(1), outcome, terms: vec![terms] };
        let asked = core::iter::from_fn(|| request.poll_output()).last();
        let Some(ownership::Output::AskPlacement(question)) = asked else { panic!("{asked:?}") };
        request.handle(s(0), ownership::Input::Placed(PlaceReply { attempt: question.attempt, ..reply }));
        assert_eq!(request.live(), Some((Epoch(1), peer(2))));
        assert_eq!(request.poll_timeout(), Some(Limits::default().first_token_silence), "{bad}");
    }
}

#[test]
fn clocks_that_do_not_move_repeat_and_expire_nothing() {
    let now = s(7);
    let mut view = view_of(now, vec![digest(2, 600.0, 10.0)]);
    (0..100).for_each(|_| view.expire(now));
    assert!(view.peer(peer(2)).is_some());

    let mut request = origin(now);
    let asked = core::iter::from_fn(|| request.poll_output()).count();
    (0..100).for_each(|_| request.handle(now, ownership::Input::Tick));
    assert_eq!((asked, request.poll_output()), (1, None));

    let mut election = Election::new(peer(1), Term(0), None, 1);
    election.handle(now, live(&[(1, 60.0), (2, 60.0)]));
    said(&mut election);
    let still = |election: &mut Election, at: Duration, what: &str| {
        (0..100).for_each(|_| election.handle(at, election::Input::Tick));
        assert_eq!(said(election), [], "{what}");
        assert!(election.poll_timeout() > Some(at), "{what}");
    };
    still(&mut election, now, "it waits for its turn");
    let due = election.poll_timeout().unwrap_or_default();
    election.handle(due, election::Input::Tick);
    assert!(!said(&mut election).is_empty(), "it stands");
    still(&mut election, due, "it has asked for votes");
    let term = term_of(1, peer(1));
    assert!(owns(peer(1), term));
    let vote = ElectionMessage::Vote { term, granted: true };
    election.handle(due, election::Input::Peer { from: peer(2), message: vote });
    assert_eq!(election.leader(), Some(peer(1)));
    said(&mut election);
    still(&mut election, due, "it has said that it leads");
}

#[test]
fn zero_bandwidth_carries_ids_and_no_context() {
    let leaves = KaplanMeier::fit(&[Session::ended(20.0), Session::ended(30.0)]);
    for (goodput_bps, way) in [(0.0, Way::Ids), (-1.0, Way::Ids), (f64::NAN, Way::Ids), (1e7, Way::PreCopy)] {
        let decision = decide(RATES, RATES, goodput_bps, &leaves, 0.0);
        assert_eq!(decision.action, overlapped::Action::Prepare { destination: 1, way }, "{goodput_bps}");
        let preparation = decision.candidates[0].preparation;
        assert!(preparation.is_some_and(|p| p.ready_s.is_finite() && (way != Way::Ids || p.bytes < 1e4)));
    }
    let view = view_of(s(0), vec![digest(2, 10.0, 10.0), digest(3, 1e6, 10.0)]);
    let [Plan { step, .. }] = &plans(&view)[..] else { panic!("one plan") };
    assert_eq!(*step, PlanStep::Prepare { destination: peer(3), way: Way::Ids });

    let running = Running { current: 0, work: Work::running(100, 500, 20), own_load_s: 0.0, hops: 0 };
    let hazard = Hazard { curve: &leaves, age_s: 0.0 };
    let migration = as_given().should_migrate(&fleet([RATES; 2], hazard), &running);
    let planned: Vec<_> = migration.candidates.iter().map(|to| (to.planned.method, to.planned.cost_s)).collect();
    assert_eq!(planned, [(Method::Recompute, 1.4)], "{migration:?}");
}

#[test]
fn empty_views_have_answers() {
    let mut view = View::new(peer(1));
    view.expire(DIGEST_LIFETIME * 2);
    assert_eq!((view.peers().count(), view.carriers(MODEL), view.versions().len()), (0, None, 0));
    let candidates = view.candidates(s(0));
    assert_eq!(candidates, [Candidate { peer: peer(1), remaining_s: 0.0 }]);

    let reply = place(s(0), &view);
    assert_eq!((reply.outcome, reply.terms), (PlaceOutcome::Nowhere, Vec::new()));
    assert_eq!(plans(&view), []);

    let parameters = overlapped::OverlappedParameters::default();
    let placement = overlapped::place::<u8>(&Placing::new(Work::fresh(100, 50)), &[], &parameters);
    assert_eq!(placement.chosen, None);
    let fleet = Fleet::<u8>::new(Vec::new());
    assert_eq!(HazardAwarePolicy::default().place(&fleet, &Work::fresh(100, 50)).chosen, None);

    let mut election = Election::new(peer(1), Term(0), None, 1);
    election.handle(s(0), live(&[]));
    assert_eq!(election.leader(), Some(peer(1)), "for itself alone");

    let estimators: [Box<dyn Estimator<u8>>; 4] = [
        Box::new(KaplanMeiers::pooled()),
        Box::new(KaplanMeiers::per_peer(2)),
        Box::new(Weibulls::default()),
        Box::new(Frailty::default()),
    ];
    for estimator in estimators {
        let leaves = estimator.predict(0.0, &1, 0.0).hazard().leave_probability(60.0);
        assert!(leaves > 0.0 && leaves < 1.0, "{leaves}: nobody is known, and nobody is certain");
    }
}
