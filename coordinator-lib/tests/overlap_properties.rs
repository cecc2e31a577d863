//! What must hold of the corrected rule, whatever it is told.

use idlewild_coordinator::cost::{Batch, Batching, Path, PeerRates, Residual, Terms, Way, Work};
use idlewild_coordinator::hazard::{Hazard, Segment, Survival};
use idlewild_coordinator::policy::Assessment;
use idlewild_coordinator::policy::overlapped::{
    Action, Candidate, Decision, Host, Leaving, OverlapLimits, OverlappedParameters, Placing, RunningRequest, Site,
    Standby, WayChoice, decide, place,
};
use idlewild_protocol::DepartureCause;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A hazard of six stretches of ten seconds, and the last one for ever.
#[derive(Debug, Clone, Copy)]
struct Stretches([f64; 6]);

impl Survival for Stretches {
    fn survival(&self, t_s: f64) -> f64 {
        let mut hazard = 0.0;
        self.for_each_segment(0.0, t_s, &mut |segment| hazard += segment.length_s * segment.rate_per_s);
        (-hazard).exp()
    }

    fn for_each_segment(&self, _: f64, horizon_s: f64, visit: &mut dyn FnMut(Segment)) {
        let mut left_s = if horizon_s > 0.0 { horizon_s.min(1e9) } else { 0.0 };
        for (at, rate_per_s) in self.0.into_iter().enumerate() {
            let length_s = if at == 5 { left_s } else { left_s.min(10.0) };
            if length_s > 0.0 {
                visit(Segment { length_s, rate_per_s });
            }
            left_s -= length_s;
        }
    }
}

/// Answers nothing that is a probability.
#[derive(Debug)]
struct Broken;

impl Survival for Broken {
    fn survival(&self, _: f64) -> f64 {
        f64::NAN
    }
}

/// Numbers of any kind, and ordinary ones.
fn odd() -> impl Strategy<Value = f64> {
    let edges = vec![0.0, -1.0, 1e-300, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE];
    prop_oneof![2 => select(edges), 3 => 1e-3..1e4_f64]
}

/// A candidate's numbers, before it has a curve.
type Numbers = (PeerRates, f64, f64, u32, Option<Site>, Option<Path>, f64);

fn odd_numbers() -> impl Strategy<Value = Numbers> {
    let n = odd;
    let rates = (n(), n(), n(), any::<u32>()).prop_map(|(decode_tps, prefill_tps, kv_bytes_per_token, room_tokens)| {
        PeerRates { decode_tps, prefill_tps, bandwidth_bps: 0.0, kv_bytes_per_token, room_tokens }
    });
    let site = proptest::option::of(n().prop_map(|leaves_together| Site { id: 1, leaves_together }));
    let path = (n(), n(), proptest::option::of(n()), any::<bool>()).prop_map(
        |(goodput_bps, round_trip_s, budget_bytes, has_same_layout)| Path {
            goodput_bps,
            round_trip_s,
            budget_bytes,
            has_same_layout,
        },
    );
    (rates, n(), n(), 0..2_u32, site, proptest::option::weighted(0.9, path), n())
}

fn host<'a>(id: usize, numbers: &Numbers, curve: &'a dyn Survival) -> Host<'a, usize> {
    let (rates, wait_s, utilisation, queued, site, _, loss_error) = *numbers;
    let batching = Some(Batching { step_s: wait_s, sequence_s: utilisation });
    let batch = Batch { batching, running: 2, remaining_tokens: loss_error };
    let hazard = Hazard { curve, age_s: wait_s };
    Host { wait_s, utilisation, queued, site, loss_error, batch, ..Host::new(id, rates, hazard) }
}

fn leaving() -> impl Strategy<Value = Leaving> {
    prop_oneof![
        2 => Just(Leaving::Unannounced),
        1 => (any::<u32>(), any::<bool>()).prop_map(|(notice_ms, decodes)| {
            Leaving::Announced { cause: DepartureCause::Battery, notice_ms: notice_ms % 100_000, decodes }
        }),
    ]
}

fn standby(below: usize) -> impl Strategy<Value = Option<Standby<usize>>> {
    let ways = vec![Way::Ids, Way::PreCopy, Way::Hybrid, Way::StoppedSplit];
    let some = (0..below, select(ways), 0..5000_u32, any::<bool>());
    proptest::option::of(some.prop_map(|(at, way, lag_tokens, is_paused)| Standby { at, way, lag_tokens, is_paused }))
}

/// Every figure of a decision.
fn figures(decision: &Decision<usize>) -> Vec<f64> {
    let mut all = Vec::new();
    if let Some(stay) = decision.stay {
        all.extend([stay.time_s, stay.leave_probability, stay.cold_loss_s, stay.loss_s]);
    }
    for terms in &decision.candidates {
        all.extend(terms.loss_s);
        all.extend(terms.preparation.iter().flat_map(|p| [p.ready_s, p.stall_s, p.destination_work_s, p.bytes]));
        all.extend(terms.prepare.iter().flat_map(|test| [test.saved_s, test.destination_s, test.price_s]));
        all.extend(terms.commit.iter().flat_map(|test| [test.risk_gain_s(), test.risk_limit_s, test.delay_s]));
        all.extend(terms.hold.iter().flat_map(|test| [test.context_at_failure_tokens, test.following_tokens]));
        all.extend(terms.notice.iter().flat_map(|test| [test.stall_s, test.loss_s, test.gain_s]));
    }
    all
}

/// An ordinary peer.
fn sound() -> impl Strategy<Value = Numbers> {
    let rates = (2.0..60.0_f64, 50.0..3000.0_f64, 1e4..1e5_f64);
    let path = (1e5..1e8_f64, 1e-3..0.1_f64, any::<bool>());
    (rates, path, 0.0..2.0_f64, 0.0..0.9_f64).prop_map(
        |((decode_tps, prefill_tps, kv), (goodput_bps, rtt_s, same), wait_s, u)| {
            let rates =
                PeerRates { decode_tps, prefill_tps, bandwidth_bps: 0.0, kv_bytes_per_token: kv, room_tokens: 100_000 };
            let path = Path { goodput_bps, round_trip_s: rtt_s, budget_bytes: None, has_same_layout: same };
            (rates, wait_s, u, 0, None, Some(path), 0.3)
        },
    )
}

fn hazards() -> impl Strategy<Value = Stretches> {
    proptest::array::uniform6((-5.0..-0.5_f64).prop_map(|exponent| 10.0_f64.powf(exponent))).prop_map(Stretches)
}

fn residual() -> impl Strategy<Value = Residual> {
    proptest::array::uniform5(0.0..3000.0_f64).prop_map(Residual::of)
}

fn candidates<'a>(numbers: &[Numbers], curves: &'a [Stretches]) -> Vec<Candidate<'a, usize>> {
    let each = numbers.iter().zip(curves).enumerate();
    each.map(|(id, (numbers, curve))| Candidate { host: host(id, numbers, curve), path: numbers.5 }).collect()
}

/// The source is nobody's number among the candidates.
const SOURCE: usize = 99;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bad_numbers_never_make_a_decision_that_rests_on_them(
        source in odd_numbers(), others in vec(odd_numbers(), 0..4), curves in vec(hazards(), 4), residual in vec(odd(), 5),
        leaving in leaving(), standby in standby(5), context_tokens in any::<u32>(), source_is_broken in any::<bool>(),
        way_choice in select(vec![WayChoice::ByPhi, WayChoice::ByWorth]),
    ) {
        let parameters = OverlappedParameters { way_choice, ..OverlappedParameters::default() };
        let candidates = candidates(&others, &curves);
        let curve: &dyn Survival = if source_is_broken { &Broken } else { &curves[0] };
        let residual = Residual::of([residual[0], residual[1], residual[2], residual[3], residual[4]]);
        let source = host(SOURCE, &source, curve);
        let request =
            RunningRequest { source, context_tokens, residual, hops: 0, leaving, standby, candidates: &candidates };
        let decision = decide(&request, &parameters);
        prop_assert!(figures(&decision).iter().all(|x| !x.is_nan()), "{decision:#?}");
        let names = decision.action.destination();
        let known = names.is_none_or(|id| id < others.len() || standby.is_some_and(|standby| standby.at == id));
        prop_assert!(known, "{decision:#?}");
        let hosts: Vec<_> = candidates.iter().map(|candidate| candidate.host).collect();
        let work = Work::orphaned(context_tokens, 300, 20);
        let placing = Placing { residual, held: Some((0, 100)), queued_at: names, ..Placing::new(work) };
        let placement = place(&placing, &hosts, &parameters);
        let mut expected_s = placement.assessed.iter().filter_map(|a| Some(a.terms()?.expected_s()));
        prop_assert!(expected_s.all(|x| !x.is_nan()), "{placement:#?}");
    }

    /// The source is in danger and the standby near, so that about every twelfth case moves.
    #[test]
    fn no_move_has_a_negative_gain_and_no_preparation_costs_more_than_it_saves(
        source in sound(), others in vec(sound(), 1..4), curves in vec(hazards(), 4), residual in residual(),
        standby in standby(3), context_tokens in 0..20_000_u32, hops in 0..4_u32, danger in 1.0..50.0_f64,
        faster in 0.9..2.0_f64, is_near in any::<bool>(),
    ) {
        let mut curves = curves;
        for (at, curve) in curves.iter_mut().enumerate() {
            let times = if at == 3 { danger } else { 1.0 / danger };
            *curve = Stretches(curve.0.map(|rate| rate * times));
        }
        let mut others = others;
        for other in &mut others {
            other.0.decode_tps = source.0.decode_tps * faster;
            other.1 *= faster - 0.9;
        }
        let near = |standby: Standby<usize>| Standby { lag_tokens: standby.lag_tokens / 250, ..standby };
        let standby = if is_near { standby.map(near) } else { standby };
        let candidates = candidates(&others, &curves);
        let source = host(SOURCE, &source, &curves[3]);
        let leaving = Leaving::Unannounced;
        let request =
            RunningRequest { source, context_tokens, residual, hops, leaving, standby, candidates: &candidates };
        let decision = decide(&request, &OverlappedParameters::default());
        let stay = decision.stay.unwrap();
        prop_assert!(stay.loss_s >= 0.0 && stay.loss_s <= stay.cold_loss_s + 1e-9, "{stay:?}");
        match decision.action {
            Action::Commit { .. } => {
                let commit = decision.chosen().unwrap().commit.unwrap();
                prop_assert!(commit.stay_loss_s > commit.move_loss_s + commit.stall_s, "{commit:?}");
                prop_assert!(commit.delay_s < commit.time_limit_s && stay.leave_probability > 0.0, "{commit:?}");
            }
            Action::Prepare { .. } if standby.is_none() => {
                let chosen = decision.chosen().unwrap();
                prop_assert!(chosen.prepare.unwrap().net_s() > 0.0 && chosen.veto.is_none(), "{chosen:?}");
            }
            Action::Prepare { .. } | Action::Stay | Action::Hold { .. } | Action::Pause { .. } | Action::Release { .. } => {}
        }
    }

    #[test]
    fn the_chosen_host_is_the_one_with_the_least_expected_cost(
        others in vec(sound(), 1..6), curves in vec(hazards(), 6), residual in residual(), prompt in 0..8000_u32,
    ) {
        let hosts: Vec<_> = candidates(&others, &curves).iter().map(|candidate| candidate.host).collect();
        let placing = Placing { residual, ..Placing::new(Work::fresh(prompt, 500)) };
        let placement = place(&placing, &hosts, &OverlappedParameters::default());
        let expected_s = |a: &Assessment<usize>| a.terms().map(Terms::expected_s);
        let least = placement.assessed.iter().filter_map(expected_s).reduce(f64::min);
        prop_assert_eq!(placement.chosen_assessment().and_then(expected_s), least);
        prop_assert!(placement.assessed.iter().filter_map(|a| a.terms()).all(|t| t.loss_s >= 0.0));
    }

    /// A departure now must cost at least as much as waiting for one later is expected to: V(s) >= E[V(t); t > s | there
    /// at s]. Raising the hazard at s changes E by S(s) times the difference. Where no departure costs more than an
    /// earlier one, that is always so.
    #[test]
    fn cost_rises_with_any_hazard_where_no_departure_costs_more_than_an_earlier_one(
        peer in sound(), prefill_tps in 50.0..3000.0_f64, slower in 1.0..5.0_f64, curve in hazards(),
        more in proptest::array::uniform6(0.0..0.2_f64), residual in residual(), prompt in 0..8000_u32,
    ) {
        // What decoding adds to the prefill there is taken off what is still to be decoded there.
        let decode_tps = 1.0 / ((1.0 / peer.0.decode_tps + 1.0 / prefill_tps) * slower);
        let fallback = PeerRates { decode_tps, prefill_tps, ..peer.0 };
        let (low_s, high_s) = expected_under(&peer, fallback, curve, more, residual, prompt);
        prop_assert!(high_s >= low_s * (1.0 - 1e-12), "{low_s} and {high_s}");
    }

    /// The same where departures get dearer, by less than the chance that there is one.
    #[test]
    fn cost_rises_with_any_hazard_that_leaves_a_good_chance_to_finish(
        peer in sound(), curve in hazards(), more in proptest::array::uniform6(0.0..0.2_f64), residual in residual(),
        prompt in 0..8000_u32,
    ) {
        let rebuild = PeerRates { prefill_tps: 200.0, ..peer.0 };
        let longest_s = peer.1 + f64::from(prompt) / peer.0.prefill_tps + residual.most_tokens() / peer.0.decode_tps;
        let least_s = 121.2 + peer.1 + f64::from(prompt) / 200.0;
        let most_s = least_s + residual.most_tokens() / 200.0;
        // As many departures as leave (1 - S(T)) max V <= min V.
        let departures = -(1.0 - least_s / most_s).max(1e-3).ln();
        let worse = Stretches(core::array::from_fn(|at| curve.0[at] + more[at]));
        let scale = departures / -worse.survival(longest_s).max(1e-300).ln();
        let (curve, more) = (Stretches(curve.0.map(|rate| rate * scale)), more.map(|rate| rate * scale));
        let (low_s, high_s) = expected_under(&peer, rebuild, curve, more, residual, prompt);
        prop_assert!(high_s >= low_s * (1.0 - 1e-12), "{low_s} and {high_s}");
    }
}

/// E on a peer with a hazard, and with more of it.
fn expected_under(
    peer: &Numbers,
    fallback: PeerRates,
    curve: Stretches,
    more: [f64; 6],
    residual: Residual,
    prompt_tokens: u32,
) -> (f64, f64) {
    let worse = Stretches(core::array::from_fn(|at| curve.0[at] + more[at]));
    let placing = Placing { residual, ..Placing::new(Work::fresh(prompt_tokens, 1000)) };
    let expected_s = |curve: &Stretches| {
        let other =
            Host { wait_s: peer.1, ..Host::new(1, fallback, Hazard { curve: &Stretches([0.0; 6]), age_s: 0.0 }) };
        let on = Host { wait_s: peer.1, ..Host::new(0, peer.0, Hazard { curve, age_s: 0.0 }) };
        let placement = place(&placing, &[on, other], &OverlappedParameters::default());
        placement.assessed[0].terms().map_or(f64::NAN, Terms::expected_s)
    };
    (expected_s(&curve), expected_s(&worse))
}

/// A request between two peers that are watched through noise: 10 % in hazards, prefill and link, a new draw each second.
struct Noisy {
    state: u64,
    hazards_per_s: [f64; 2],
}

/// What has happened to it.
#[derive(Debug, Default, PartialEq)]
struct Count {
    moves: u32,
    begun: u32,
}

impl Noisy {
    /// Between 1 - `by` and 1 + `by`.
    fn noise(&mut self, by: f64) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1.0 + by * ((self.state >> 33) as f64 / f64::from(u32::MAX >> 1) * 2.0 - 1.0)
    }

    /// A thousand seconds of a request that never ends.
    fn run(mut self, limits: OverlapLimits) -> Count {
        let parameters = OverlappedParameters { limits, ..OverlappedParameters::default() };
        let (mut at, mut standby, mut count): (usize, Option<Standby<usize>>, Count) = (0, None, Count::default());
        for _ in 0..1000 {
            let hazards = self.hazards_per_s.map(|per_s| Stretches([per_s * self.noise(0.1); 6]));
            let hosts = [0, 1].map(|id| {
                let rates = PeerRates {
                    decode_tps: 20.0 * self.noise(0.005),
                    prefill_tps: 400.0 * self.noise(0.1),
                    bandwidth_bps: 0.0,
                    kv_bytes_per_token: 2e4,
                    room_tokens: 100_000,
                };
                Host::new(id, rates, Hazard { curve: &hazards[id], age_s: 0.0 })
            });
            let path = Path {
                goodput_bps: 2e7 * self.noise(0.1),
                round_trip_s: 0.01,
                budget_bytes: None,
                has_same_layout: true,
            };
            let candidates = [Candidate { host: hosts[1 - at], path: Some(path) }];
            let request = RunningRequest {
                source: hosts[at],
                context_tokens: 4000,
                residual: Residual::of([200.0, 500.0, 900.0, 1500.0, 3000.0]),
                hops: 0,
                leaving: Leaving::Unannounced,
                standby,
                candidates: &candidates,
            };
            let decision = decide(&request, &parameters);
            standby = match decision.action {
                Action::Prepare { destination, way } => {
                    count.begun += u32::from(standby.is_none_or(|standby| standby.is_paused));
                    let lag_tokens = standby.map_or(4000, |standby| standby.lag_tokens).saturating_sub(900);
                    Some(Standby { at: destination, way, lag_tokens, is_paused: false })
                }
                Action::Commit { destination, .. } => {
                    count.moves += 1;
                    at = destination;
                    None
                }
                Action::Pause { .. } => standby.map(|standby| Standby { is_paused: true, ..standby }),
                Action::Release { .. } => None,
                Action::Stay | Action::Hold { .. } => standby,
            };
        }
        count
    }
}

#[test]
fn noise_below_the_hysteresis_moves_nothing() {
    for (hazards_per_s, what) in [
        ([0.002, 0.002], "equals"),
        ([0.02, 0.02], "equals in danger"),
        (A_LITTLE_SAFER, "a little safer"),
        ([1e-5, 1e-6], "hardly any danger"),
    ] {
        for state in 1..=4 {
            let count = Noisy { state, hazards_per_s }.run(OverlapLimits::default());
            assert_eq!(count.moves, 0, "{what}: {count:?}");
            assert!(count.begun <= 1, "{what}: {count:?}");
        }
    }
}

/// A move there gains a tenth of a second, and noise of the same size.
const A_LITTLE_SAFER: [f64; 2] = [0.004, 0.0006];

#[test]
fn without_the_hysteresis_the_same_noise_does_move_it() {
    let none = OverlapLimits { risk_floor_s: 0.0, risk_errors: 0.0, ..OverlapLimits::default() };
    for state in 1..=4 {
        assert!(Noisy { state, hazards_per_s: A_LITTLE_SAFER }.run(none).moves > 0);
    }
}

#[test]
fn a_difference_above_the_hysteresis_moves_once_and_never_back() {
    for state in 1..=4 {
        let count = Noisy { state, hazards_per_s: [0.02, 1e-5] }.run(OverlapLimits::default());
        assert_eq!(count, Count { moves: 1, begun: 1 });
    }
}
