//! Reports and plans: samples for the document, any valid one for the properties, and the longest.

use idlewild_protocol::{
    ControlMessage, DecodeError, EncodeError, Epoch, Generation, MAX_EXCLUDED_PEERS, MAX_WEIGHED_PER_PLAN, Message,
    ModelId, MoveTerms, PeerTerms, Plan, PlanReason, PlanRefusal, PlanRefused, PlanStep, PlanTerms, PreparationTerms,
    RequestId, RequestReport, RequestStage, Standby, StandbyState, Term, Unfit, Veto, Way,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::erased::Sample;
use crate::samples::peer;

const REQUEST: RequestId = RequestId([5; 16]);

/// One that runs, and whose standby keeps up.
fn report() -> RequestReport {
    RequestReport {
        request: REQUEST,
        epoch: Epoch(1),
        sequence: 7,
        model: ModelId([0xab; 32]),
        stage: RequestStage::Running { worker: peer(2) },
        prompt_tokens: 300,
        done_tokens: 120,
        residual_tokens: [10, 40, 90, 180, 400],
        hops: 0,
        standby: None,
        excluded: Vec::new(),
    }
}

fn weighed(seed: u8, loss_s: f64) -> MoveTerms {
    let terms =
        PeerTerms { peer: peer(seed), unfit: None, wait_s: 0.0, service_s: 2.5, loss_s, leave_probability: 0.125 };
    let preparation = PreparationTerms { way: Way::Hybrid, ready_s: 3.5, stall_s: 0.25, work_s: 1.5, bytes: 9_000_000 };
    MoveTerms { terms, veto: None, preparation: Some(preparation), test: Some((1.5, 0.25)) }
}

fn plan(weighed: Vec<MoveTerms>) -> Plan {
    let stay =
        PeerTerms { peer: peer(2), unfit: None, wait_s: 0.0, service_s: 2.0, loss_s: 4.0, leave_probability: 0.5 };
    Plan {
        generation: Generation { term: Term(3), number: 12 },
        request: REQUEST,
        epoch: Epoch(1),
        step: PlanStep::Prepare { destination: peer(3), way: Way::Hybrid },
        terms: PlanTerms { reason: PlanReason::PreparationPays, stay: Some(stay), weighed },
    }
}

/// Those of `docs/wire.md`.
pub(crate) fn samples() -> Vec<Sample> {
    let standby = Standby { peer: peer(3), way: Way::Ids, state: StandbyState::Holding, lag_tokens: 4 };
    let watched = RequestReport { standby: Some(standby), excluded: vec![peer(4)], ..report() };
    let vetoed = MoveTerms { veto: Some(Veto::Queued), preparation: None, test: None, ..weighed(4, 0.5) };
    let refused = PlanRefused {
        request: REQUEST,
        generation: Generation { term: Term(3), number: 12 },
        why: PlanRefusal::SourceLeaving,
        heard: Some(Generation { term: Term(3), number: 12 }),
    };
    vec![
        Sample::of("Report", &ControlMessage::Report(Box::new(report()))),
        Sample::of("ReportStandby", &ControlMessage::Report(Box::new(watched))),
        Sample::of("Ended", &ControlMessage::Ended { request: REQUEST }),
        Sample::of("Plan", &ControlMessage::Plan(Box::new(plan(vec![weighed(3, 0.5), vetoed])))),
        Sample::of("PlanRefused", &ControlMessage::PlanRefused(refused)),
    ]
}

fn any_peer() -> impl Strategy<Value = idlewild_protocol::PeerId> {
    any::<[u8; 32]>().prop_map(idlewild_protocol::PeerId)
}

fn any_request() -> impl Strategy<Value = RequestId> {
    any::<[u8; 16]>().prop_map(RequestId)
}

fn any_way() -> impl Strategy<Value = Way> {
    select(vec![Way::Ids, Way::PreCopy, Way::Hybrid, Way::StoppedSplit])
}

fn any_generation() -> impl Strategy<Value = Generation> {
    any::<(u64, u64)>().prop_map(|(term, number)| Generation { term: Term(term), number })
}

fn any_report() -> impl Strategy<Value = ControlMessage> {
    let stage = prop_oneof![
        (any_peer(), any::<u32>()).prop_map(|(worker, wait_ms)| RequestStage::Queued { worker, wait_ms }),
        any_peer().prop_map(|worker| RequestStage::Running { worker }),
        Just(RequestStage::Orphaned),
    ];
    let state =
        select(vec![StandbyState::Preparing, StandbyState::Holding, StandbyState::Paused, StandbyState::Committing]);
    let standby = (any_peer(), any_way(), state, any::<u32>()).prop_map(|(peer, way, state, lag_tokens)| Standby {
        peer,
        way,
        state,
        lag_tokens,
    });
    let counts = any::<(u32, u32, [u32; 5], u32)>();
    let which = (any_request(), any::<u32>(), any::<u64>(), any::<[u8; 32]>());
    (which, stage, counts, option::of(standby), vec(any_peer(), 0..=MAX_EXCLUDED_PEERS)).prop_map(
        |((request, epoch, sequence, model), stage, counts, standby, excluded)| {
            ControlMessage::Report(Box::new(RequestReport {
                request,
                epoch: Epoch(epoch),
                sequence,
                model: ModelId(model),
                stage,
                prompt_tokens: counts.0,
                done_tokens: counts.1,
                residual_tokens: counts.2,
                hops: counts.3,
                standby,
                excluded,
            }))
        },
    )
}

fn any_terms() -> impl Strategy<Value = PeerTerms> {
    let unfit = option::of(select(vec![Unfit::NoModel, Unfit::ContextTooLong { context_tokens: 4096 }]));
    (any_peer(), unfit, [-1e9..1e9, -1e9..1e9, -1e9..1e9, 0.0..1.0]).prop_map(|(peer, unfit, x)| PeerTerms {
        peer,
        unfit,
        wait_s: x[0],
        service_s: x[1],
        loss_s: x[2],
        leave_probability: x[3],
    })
}

fn any_weighed() -> impl Strategy<Value = MoveTerms> {
    let preparation = (any_way(), [0.0..1e9, 0.0..1e9, 0.0..1e9], any::<u64>())
        .prop_map(|(way, x, bytes)| PreparationTerms { way, ready_s: x[0], stall_s: x[1], work_s: x[2], bytes });
    let veto = option::of(select(vec![Veto::NoPath, Veto::CannotKeepUp, Veto::Queued, Veto::FinishesFirst]));
    (any_terms(), veto, option::of(preparation), option::of((-1e9..1e9, -1e9..1e9)))
        .prop_map(|(terms, veto, preparation, test)| MoveTerms { terms, veto, preparation, test })
}

fn any_step() -> impl Strategy<Value = PlanStep> {
    (0_u8..7, any_peer(), any_way(), option::of(any_peer())).prop_map(|(n, destination, way, fallback)| match n {
        0 => PlanStep::Prepare { destination, way },
        1 => PlanStep::Hold { destination },
        2 => PlanStep::Pause { destination },
        3 => PlanStep::Commit { destination, way },
        4 => PlanStep::Abort { destination },
        5 => PlanStep::Release { destination },
        _ => PlanStep::Replace { worker: destination, fallback },
    })
}

fn any_plan() -> impl Strategy<Value = ControlMessage> {
    use PlanReason::{Asked, MovePays, Notice, Orphaned, PreparationPays, Queued, RiskFalls, StandbyUseless};
    let reason = select(vec![PreparationPays, MovePays, StandbyUseless, Notice, Orphaned, Queued, RiskFalls, Asked]);
    let terms = (reason, option::of(any_terms()), vec(any_weighed(), 0..=MAX_WEIGHED_PER_PLAN))
        .prop_map(|(reason, stay, weighed)| PlanTerms { reason, stay, weighed });
    (any_generation(), any_request(), any::<u32>(), any_step(), terms).prop_map(
        |(generation, request, epoch, step, terms)| {
            ControlMessage::Plan(Box::new(Plan { generation, request, epoch: Epoch(epoch), step, terms }))
        },
    )
}

fn any_refused() -> impl Strategy<Value = ControlMessage> {
    use PlanRefusal::{Begun, NotAccepted, OtherEpoch, Overridden, Overtaken, TooOften};
    let why = select(vec![OtherEpoch, Overtaken, NotAccepted, TooOften, Begun, Overridden]);
    (any_request(), any_generation(), why, option::of(any_generation())).prop_map(
        |(request, generation, why, heard)| {
            ControlMessage::PlanRefused(PlanRefused { request, generation, why, heard })
        },
    )
}

/// Any message of this file's.
pub(crate) fn any_control() -> impl Strategy<Value = ControlMessage> {
    prop_oneof![
        any_report(),
        any_request().prop_map(|request| ControlMessage::Ended { request }),
        any_plan(),
        any_refused(),
    ]
}

/// As long as a plan can be.
fn longest(weighed: usize, loss_s: f64) -> ControlMessage {
    let mut each = self::weighed(3, loss_s);
    each.terms.unfit = Some(Unfit::ContextTooLong { context_tokens: u32::MAX });
    (each.veto, each.preparation.as_mut().unwrap().bytes) = (Some(Veto::FinishesFirst), u64::MAX);
    let stay = Some(each.terms);
    let most = Generation { term: Term(u64::MAX), number: u64::MAX };
    let plan = Plan { generation: most, epoch: Epoch(u32::MAX), ..plan(vec![each; weighed]) };
    ControlMessage::Plan(Box::new(Plan { terms: PlanTerms { stay, ..plan.terms.clone() }, ..plan }))
}

#[test]
fn a_plan_takes_two_kilobytes_at_most_and_a_report_a_hundred_bytes() {
    assert!(longest(MAX_WEIGHED_PER_PLAN, f64::MIN).to_bytes().unwrap().len() <= 2048);
    let bytes = ControlMessage::Report(Box::new(report())).to_bytes().unwrap().len();
    assert!(bytes <= 110, "{bytes}");
}

#[test]
fn a_plan_or_a_report_out_of_range_is_neither_written_nor_read() {
    let excluding = |n| ControlMessage::Report(Box::new(RequestReport { excluded: vec![peer(4); n], ..report() }));
    let cases = [
        (excluding(MAX_EXCLUDED_PEERS), excluding(MAX_EXCLUDED_PEERS + 1)),
        (longest(MAX_WEIGHED_PER_PLAN, 1.0), longest(MAX_WEIGHED_PER_PLAN + 1, 1.0)),
        (longest(1, f64::MAX), longest(1, f64::INFINITY)),
        (longest(1, 0.0), longest(1, f64::NAN)),
    ];
    for (fits, does_not) in cases {
        assert!(fits.to_bytes().is_ok());
        assert_eq!(does_not.to_bytes(), Err(EncodeError::OutOfRange));
    }
    // As a peer that does not look would write it: 8 bytes of a sound plan's float become those of a NaN.
    let sound = longest(1, 0.3125).to_bytes().unwrap();
    let float = 0.3125_f64.to_le_bytes();
    let at = sound.windows(8).position(|bytes| bytes == float).unwrap();
    let mut unsound = sound.clone();
    unsound[at..at + 8].copy_from_slice(&f64::NAN.to_le_bytes());
    assert_eq!(ControlMessage::from_bytes(&unsound), Err(DecodeError::OutOfRange));
}

#[test]
fn a_way_names_what_is_pulled_and_a_step_whom_it_is_about() {
    use idlewild_protocol::PullPart;
    let ways = [Way::Ids, Way::PreCopy, Way::Hybrid, Way::StoppedSplit];
    let parts = [None, Some(PullPart::Whole), Some(PullPart::Rest), Some(PullPart::Rest)];
    assert_eq!(ways.map(Way::part), parts);
    let destination = peer(3);
    assert_eq!(PlanStep::Release { destination }.peer(), destination);
    assert_eq!(PlanStep::Release { destination }.taker(), None);
    assert_eq!(PlanStep::Commit { destination, way: Way::Ids }.taker(), Some(destination));
}
