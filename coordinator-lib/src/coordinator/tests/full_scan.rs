//! The search that looks at few peers answers as one that looks at all of them.

use core::time::Duration;

use idlewild_protocol::{
    BootId, Digest, MAX_TERMS_PER_PLAN, ModelLoad, PeerId, PeerState, PeerTerms, PlaceOutcome, PlaceReply,
    PlaceRequest, QuantisedSurvival, RequestId, Term, Unfit,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::fleet::{digest, model, request};
use crate::Now;
use crate::coordinator::candidate::Candidate;
use crate::coordinator::fitness::{Question, Room};
use crate::coordinator::place::{fit_terms, unfit_terms};
use crate::coordinator::{Coordinator, CoordinatorConfig};
use crate::policy::overlapped::{self, Placing};
use crate::policy::{Fleet, HazardAwarePolicy, MigrationModel, Placement, Policy};
use crate::view::View;

/// What [`Coordinator::place`] must answer: every peer is sorted out, and the policy weighs all that are fit.
fn scan(
    coordinator: &Coordinator,
    now: Now,
    view: &View,
    origin: PeerId,
    request: &PlaceRequest,
) -> (PlaceOutcome, Vec<PeerTerms>) {
    let mut before = coordinator.clone();
    before.reservations.prune(now);
    before.reservations.forget(request.request);
    let question = Question::of(now, view, origin, request);
    let in_room = |room: Room| -> Vec<Result<Candidate<'_>, (PeerId, Unfit)>> {
        let one =
            |(peer, known)| Candidate::new(&question, &before.reservations, room, peer, known).map_err(|e| (peer, e));
        view.peers().map(one).collect()
    };
    let mut tiers = Room::IN_ORDER.into_iter().map(in_room);
    let sorted_out = tiers.find(|all| all.iter().any(Result::is_ok)).unwrap_or_else(|| in_room(Room::Free));
    let mut fit: Vec<Candidate<'_>> = sorted_out.iter().filter_map(|one| one.as_ref().ok().copied()).collect();
    fit.sort_by_key(|fit| (fit.peer != origin, fit.peer));
    let policy = &before.config.policy;
    let placement = match policy.migration {
        MigrationModel::Blocking => {
            policy.place(&Fleet::new(fit.iter().map(Candidate::in_fleet).collect()), &question.work)
        }
        MigrationModel::Overlapped => {
            let hosts: Vec<_> = fit.iter().map(Candidate::host).collect();
            overlapped::place(&Placing::new(question.work), &hosts, &policy.overlapped)
        }
    };
    let unfit = sorted_out.iter().filter_map(|one| one.as_ref().err().copied());
    (outcome(&placement), all_terms(&placement, unfit))
}

fn outcome(placement: &Placement<PeerId>) -> PlaceOutcome {
    match placement.chosen_assessment() {
        Some(chosen) => PlaceOutcome::Run { worker: chosen.peer, fallback: chosen.fallback },
        None => PlaceOutcome::Nowhere,
    }
}

fn all_terms(placement: &Placement<PeerId>, unfit: impl Iterator<Item = (PeerId, Unfit)>) -> Vec<PeerTerms> {
    let fit = placement.ranked().into_iter().filter_map(|a| Some(fit_terms(a.peer, a.terms()?)));
    let mut all: Vec<PeerTerms> = fit.chain(unfit.map(|(peer, why)| unfit_terms(peer, why))).collect();
    let fallback = placement.chosen_assessment().and_then(|chosen| chosen.fallback);
    if let Some(at) = all.iter().position(|t| Some(t.peer) == fallback)
        && at >= MAX_TERMS_PER_PLAN
    {
        all.swap(at, MAX_TERMS_PER_PLAN - 1);
    }
    all.truncate(MAX_TERMS_PER_PLAN);
    all
}

/// Few different figures, so that peers are often equal.
fn any_model() -> impl Strategy<Value = ModelLoad> {
    let tps = prop_oneof![4 => (0_u8..8).prop_map(|k| f32::from(k) * 7.5), 1 => 0.0_f32..200.0, 1 => any::<f32>()];
    let prefill = prop_oneof![4 => (0_u8..4).prop_map(|k| f32::from(k) * 150.0), 1 => any::<f32>()];
    let room = (prop_oneof![3 => Just(4096_u32), 1 => 0_u32..4096], prop_oneof![3 => Just(8192_u32), 1 => 0_u32..1000]);
    let load = (prop_oneof![3 => Just(0_u32), 1 => 0_u32..50_000, 1 => any::<u32>()], 0_u16..5, 0_u16..5);
    (tps, prefill, any::<bool>(), room, load).prop_map(|(decode_tps, prefill_tps, loaded, room, load)| ModelLoad {
        decode_tps,
        prefill_tps,
        decode_doubles_at: room.0 as u16,
        prefill_doubles_at: room.1 as u16,
        loaded,
        context_tokens: room.0,
        kv_free_tokens: room.1,
        queue_wait_ms: load.0,
        running: load.1,
        slots: load.2,
        ..model()
    })
}

/// A step of a swarm's life.
#[derive(Debug, Clone)]
enum Step {
    Tell {
        n: u8,
        model: ModelLoad,
        serves: bool,
        mean_s: f64,
        is_direct: bool,
    },
    /// Many peers say the same at once.
    TellTwins {
        from: u8,
        model: ModelLoad,
        mean_s: f64,
    },
    Depart {
        n: u8,
    },
    Pass {
        ms: u64,
    },
    Place {
        n: u8,
        origin: u8,
        prompt: u32,
        output: u32,
        excluded: u8,
    },
}

fn any_step() -> impl Strategy<Value = Step> {
    let mean_s = prop_oneof![Just(60.0), Just(600.0), 1.0..1e5_f64];
    prop_oneof![
        8 => (1_u8..60, any_model(), proptest::bool::weighted(0.9), mean_s, any::<bool>())
            .prop_map(|(n, model, serves, mean_s, is_direct)| Step::Tell { n, model, serves, mean_s, is_direct }),
        1 => (1_u8..60, any_model(), prop_oneof![Just(60.0), Just(600.0)])
            .prop_map(|(from, model, mean_s)| Step::TellTwins { from, model, mean_s }),
        1 => (1_u8..60).prop_map(|n| Step::Depart { n }),
        1 => (0_u64..9000).prop_map(|ms| Step::Pass { ms }),
        4 => (0_u8..9, 1_u8..60, 0_u32..5000, 0_u32..3000, 1_u8..60)
            .prop_map(|(n, origin, prompt, output, excluded)| Step::Place { n, origin, prompt, output, excluded }),
    ]
}

/// Peers that say the same at once: more than a reply names.
const TWINS: u8 = 40;

fn staying(n: u8, model: ModelLoad, mean_s: f64) -> Digest {
    Digest { survival: QuantisedSurvival::of(|t_s| (-t_s / mean_s).exp()), ..digest(n, model) }
}

fn tell(view: &mut View, now: Now, digest: Digest, is_direct: bool) {
    if digest.peer == view.me() {
        view.state_own(now, digest, None);
        return;
    }
    if is_direct {
        view.connected(now, digest.peer, BootId(1));
    }
    view.apply(now, digest);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn looking_at_few_peers_gives_the_answer_of_looking_at_all(
        steps in vec(any_step(), 1..250), is_corrected in any::<bool>(),
    ) {
        let migration = if is_corrected { MigrationModel::Overlapped } else { MigrationModel::Blocking };
        let policy = HazardAwarePolicy { migration, ..HazardAwarePolicy::default() };
        let mut coordinator = Coordinator::new(CoordinatorConfig { policy, ..CoordinatorConfig::default() });
        let (mut view, mut now) = (View::new(super::fleet::peer(1)), Now::ZERO);
        for (step, sequence) in steps.into_iter().zip(1_u64..) {
            match step {
                Step::Tell { n, model, serves, mean_s, is_direct } => {
                    let state = if serves { PeerState::Serving } else { PeerState::Busy };
                    tell(&mut view, now, Digest { sequence, state, ..staying(n, model, mean_s) }, is_direct);
                }
                Step::TellTwins { from, model, mean_s } => {
                    for n in from..from + TWINS {
                        tell(&mut view, now, Digest { sequence, ..staying(n, model, mean_s) }, true);
                    }
                }
                Step::Depart { n } => {
                    view.departed(now, super::fleet::peer(n), idlewild_protocol::DepartureCause::Crash);
                }
                Step::Pass { ms } => now += Duration::from_millis(ms),
                Step::Place { n, origin, prompt, output, excluded } => {
                    let asked = PlaceRequest {
                        request: RequestId([n; 16]),
                        prompt_tokens: prompt,
                        expected_output_tokens: output,
                        excluded: vec![super::fleet::peer(excluded)],
                        ..request(n)
                    };
                    let origin = super::fleet::peer(origin);
                    let expected = scan(&coordinator, now, &view, origin, &asked);
                    let reply: PlaceReply = coordinator.place(now, &view, Term(1), origin, &asked);
                    prop_assert_eq!((reply.outcome, reply.terms), expected);
                }
            }
        }
    }
}
