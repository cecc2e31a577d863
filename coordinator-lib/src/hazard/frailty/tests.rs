//! What the model learns from made-up fleets whose truth is known, and what it says to odd questions.

use idlewild_protocol::DepartureCause;

use super::super::{Ending, Estimator, Segment, Sign, Signs, Surroundings, Survival};
use super::{CAUSES, Frailty, FrailtyParameters};

type Model = Frailty<u32>;

const DEPARTED: Ending = Ending::Departed(DepartureCause::OwnerReturned);
const HOUR_S: f64 = 3600.0;

/// The k-th of a row of numbers in (0, 1) without pattern (splitmix64).
fn part(k: u32) -> f64 {
    let mut bits = u64::from(k).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 + 1e-12
}

/// The length of the k-th session of a peer that leaves at a constant rate.
fn length_s(k: u32, rate_per_s: f64) -> f64 {
    -part(k).ln() / rate_per_s
}

/// `count` sessions of one peer, one after the other from `from_s` on, ten minutes between; the time after the last.
fn live(model: &mut Model, peer: u32, from_s: f64, rate_per_s: f64, count: u32) -> f64 {
    let mut at_s = from_s;
    for k in 0..count {
        model.begin(at_s, &peer, Some(0.0), Surroundings::default());
        at_s += length_s(peer * 7919 + k, rate_per_s);
        model.end(at_s, &peer, DEPARTED);
        at_s += 600.0;
    }
    at_s
}

/// Fifty peers that leave once an hour, twenty times each.
fn hourly_fleet() -> (Model, f64) {
    let mut model = Model::default();
    let ends = (0..50).map(|peer| live(&mut model, peer, 0.0, 1.0 / HOUR_S, 20));
    let end_s = ends.fold(0.0, f64::max);
    model.refit(end_s);
    (model, end_s)
}

fn leaves(model: &Model, now_s: f64, peer: u32, age_s: f64, within_s: f64) -> f64 {
    model.curve(now_s, &peer, age_s).leave_probability(0.0, within_s)
}

#[track_caller]
fn check_near(got: f64, expected: f64, within: f64) {
    assert!((got / expected - 1.0).abs() < within, "{got}, expected {expected}");
}

#[test]
fn a_fleets_hazard_is_learnt_at_ages_that_were_seen() {
    let (model, end_s) = hourly_fleet();
    for age_s in [400.0, 1000.0, 2000.0, 4000.0] {
        let mean = (0..50).map(|peer| leaves(&model, end_s, peer, age_s, 300.0)).sum::<f64>() / 50.0;
        // Peers who are all alike are believed to differ a little, and hours to matter.
        check_near(mean, 1.0 - (-300.0 / HOUR_S).exp(), 0.35);
    }
}

#[test]
fn a_peer_that_leaves_sooner_than_the_fleet_is_known_for_it() {
    let (mut model, end_s) = hourly_fleet();
    let later_s = live(&mut model, 100, end_s, 6.0 / HOUR_S, 30);
    assert!((3.0..7.0).contains(&model.theta(later_s, &100)), "{}", model.theta(later_s, &100));
    assert!((0.6..1.6).contains(&model.theta(later_s, &1000)), "a stranger is like the fleet");
    assert!(leaves(&model, later_s, 100, 60.0, 300.0) > 2.0 * leaves(&model, later_s, 1000, 60.0, 300.0));
}

#[test]
fn what_was_seen_of_a_peer_fades() {
    let (mut model, end_s) = hourly_fleet();
    let later_s = live(&mut model, 100, end_s, 6.0 / HOUR_S, 30);
    let year_s = 365.0 * 24.0 * HOUR_S;
    assert!((model.theta(later_s + year_s, &100) - 1.0).abs() < 0.01);
}

#[test]
fn a_live_session_that_lasts_speaks_for_its_peer_before_it_ends() {
    let (mut model, end_s) = hourly_fleet();
    model.begin(end_s, &100, Some(0.0), Surroundings::default());
    let thetas = [0.0, 1.0, 5.0, 20.0].map(|hours| model.theta(end_s + hours * HOUR_S, &100));
    assert!(thetas.windows(2).all(|pair| pair[1] < pair[0]), "{thetas:?}");
}

#[test]
fn hours_in_which_peers_leave_more_often_are_learnt_and_looked_ahead_to() {
    let mut model = Model::default();
    let at_home = Surroundings { week_offset_s: Some(0.0), ..Surroundings::default() };
    // All come at 8, half leave about 12:30, the others stay till about 20:30.
    for (day, peer) in (0..40).flat_map(|day| (0..10).map(move |peer| (day, peer))) {
        let midnight_s = f64::from(day) * 24.0 * HOUR_S;
        model.begin(midnight_s + 8.0 * HOUR_S, &peer, Some(0.0), at_home);
        let hour = if (day + peer) % 2 == 0 { 12.0 } else { 20.0 };
        model.end(midnight_s + (hour + part(day * 10 + peer)) * HOUR_S, &peer, DEPARTED);
    }
    let today_s = 41.0 * 24.0 * HOUR_S;
    model.begin(today_s + 8.0 * HOUR_S, &100, Some(0.0), at_home);
    let curve = model.curve(today_s + 11.5 * HOUR_S, &100, 3.5 * HOUR_S);
    let (before, during) = (curve.leave_probability(0.0, 1700.0), curve.leave_probability(1800.0, 1700.0));
    assert!(during > 5.0 * before, "{before} before noon, {during} after");
    model.begin(today_s + 8.0 * HOUR_S, &101, Some(0.0), Surroundings::default());
    let unknown = model.curve(today_s + 11.5 * HOUR_S, &101, 3.5 * HOUR_S);
    assert!(unknown.leave_probability(1800.0, 1700.0) < during, "without a local time no hour stands out as much");
}

#[test]
fn a_sign_that_goes_before_departures_raises_the_hazard_while_it_is_seen() {
    let mut model = Model::default();
    let battery = Surroundings { signs: Signs::NONE.with(Sign::OnBattery), ..Surroundings::default() };
    model.fit(10, |model| {
        for (k, peer) in (0..40).flat_map(|k| (0..10).map(move |peer| (k, peer))) {
            let on_battery = part(k * 17 + peer * 31) < 0.5;
            let (surroundings, rate) = if on_battery { (battery, 4.0) } else { (Surroundings::default(), 1.0) };
            let from_s = f64::from(k) * 30.0 * HOUR_S;
            model.begin(from_s, &peer, Some(0.0), surroundings);
            model.end(from_s + length_s(k * 10 + peer, rate / HOUR_S), &peer, DEPARTED);
        }
    });
    let now_s = 40.0 * 30.0 * HOUR_S;
    model.begin(now_s, &100, Some(0.0), Surroundings::default());
    let before = leaves(&model, now_s + 900.0, 100, 900.0, 60.0);
    model.go_on(now_s + 900.0, &100, battery);
    let after = leaves(&model, now_s + 900.0, 100, 900.0, 60.0);
    assert!((2.2..5.0).contains(&(after / before)), "{before} -> {after}");
    model.go_on(now_s + 901.0, &100, Surroundings::default());
    check_near(leaves(&model, now_s + 901.0, 100, 901.0, 60.0), before, 0.05);
}

#[test]
fn departures_of_a_site_raise_the_hazard_of_those_who_are_still_there_and_for_minutes() {
    let (mut model, now_s) = hourly_fleet();
    let home = Surroundings { site: Some(7), ..Surroundings::default() };
    (100..105).for_each(|peer| model.begin(now_s, &peer, Some(0.0), home));
    let at_s = now_s + HOUR_S;
    let calm = leaves(&model, at_s, 104, HOUR_S, 60.0);
    let elsewhere = leaves(&model, at_s, 20_000, HOUR_S, 60.0);
    (100..103).for_each(|peer| model.end(at_s, &peer, DEPARTED));
    let burst = leaves(&model, at_s, 104, HOUR_S, 60.0);
    assert!(burst > 1.5 * calm, "{calm} -> {burst}");
    check_near(leaves(&model, at_s, 20_000, HOUR_S, 60.0), elsewhere, 0.1);
    assert!(leaves(&model, at_s + 2.0 * HOUR_S, 104, 3.0 * HOUR_S, 60.0) < 1.3 * calm, "two hours later");
    let curve = model.curve(at_s, &104, HOUR_S);
    let mut rates = Vec::new();
    curve.for_each_segment(0.0, 1200.0, &mut |segment: Segment| rates.push(segment.rate_per_s));
    assert!(rates.windows(2).all(|pair| pair[1] < pair[0]), "it fades within a prediction: {rates:?}");
}

#[test]
fn a_scheduled_end_is_near_certain_when_it_is_due_and_teaches_nothing() {
    let (mut model, now_s) = hourly_fleet();
    let plan = Surroundings { scheduled_end_s: Some(now_s + 500.0), ..Surroundings::default() };
    model.begin(now_s, &100, Some(0.0), plan);
    let curve = model.curve(now_s, &100, 0.0);
    let (before, due) = (curve.leave_probability(490.0, 9.0), curve.leave_probability(500.0, 60.0));
    assert!(before < 0.05 && due > 0.9, "{before} {due}");
    let theta = model.theta(now_s + 520.0, &100);
    model.end(now_s + 520.0, &100, DEPARTED);
    assert_eq!(model.theta(now_s + 520.0, &100), theta);
}

#[test]
fn causes_are_the_peers_own_drawn_towards_the_fleets() {
    let mut model = Model::default();
    for cause in CAUSES {
        check_near(model.causes(&1).of(cause), 0.125, 1e-9);
    }
    for k in 0..100 {
        let (peer, cause) = if k % 4 == 0 { (1, DepartureCause::Sleep) } else { (2, DepartureCause::Network) };
        model.begin(f64::from(k), &peer, Some(0.0), Surroundings::default());
        model.end(f64::from(k) + 0.5, &peer, Ending::Departed(cause));
    }
    let shares = [1, 2, 3].map(|peer| model.causes(&peer).of(DepartureCause::Sleep));
    assert!(shares[0] > 0.8 && shares[1] < 0.05 && (0.2..0.3).contains(&shares[2]), "{shares:?}");
    let all: f64 = CAUSES.iter().map(|&cause| model.causes(&1).of(cause)).sum();
    check_near(all, 1.0, 1e-9);
}

/// A model with the fleet of [`hourly_fleet`], which it learns no more about.
fn held() -> (Model, f64) {
    let (mut model, end_s) = hourly_fleet();
    model.hold_fleet();
    (model, end_s)
}

#[test]
fn counting_a_session_in_parts_comes_to_the_same_as_at_its_end() {
    for offset_s in [None, Some(0.0), Some(5000.0)] {
        let surroundings = Surroundings { week_offset_s: offset_s, ..Surroundings::default() };
        let (mut whole, now_s) = held();
        let mut parts = whole.clone();
        for model in [&mut whole, &mut parts] {
            live(model, 100, now_s, 5.0 / HOUR_S, 10);
            model.begin(now_s + 1e6, &100, Some(0.0), surroundings);
        }
        (1..500).for_each(|k| parts.go_on(now_s + 1e6 + f64::from(k) * 97.3, &100, surroundings));
        let end_s = now_s + 1e6 + 50_000.0;
        check_near(parts.theta(end_s, &100), whole.theta(end_s, &100), 1e-9);
        whole.end(end_s, &100, DEPARTED);
        parts.end(end_s, &100, DEPARTED);
        for t_s in [1.0, 60.0, 3600.0, 1e5] {
            let [a, b] = [&parts, &whole].map(|model| leaves(model, end_s, 100, 777.0, t_s));
            check_near(a, b, 1e-9);
        }
    }
}

#[test]
fn a_prediction_is_the_mixture_over_what_the_peer_may_be_like() {
    let parameters = FrailtyParameters { horizon_s: 14.0 * 86_400.0, ..FrailtyParameters::default() };
    let model = Model::new(parameters);
    let curve = model.curve(0.0, &1, 400_000.0);
    // In the last age bin the prior's hazard is constant; alpha is 2 and nothing has been seen.
    let rate = (1800.0_f64 / 345_600.0).sqrt() / 3600.0;
    for t_s in [3600.0, 86_400.0, 604_800.0] {
        check_near(curve.survival(t_s), (1.0 + rate * t_s / 2.0).powi(-2), 0.002);
    }
}

#[test]
fn rounds_over_a_recorded_history_find_who_is_who() {
    // Two kinds of peers, of which the quick ones have most of the sessions.
    let history = |model: &mut Model| {
        for peer in 0..40 {
            let (rate, count) = if peer % 2 == 0 { (10.0, 60) } else { (1.0, 6) };
            live(model, peer, 0.0, rate / HOUR_S, count);
        }
    };
    let off = |model: &Model| {
        let hazard = |peer, age_s| -(1.0 - leaves(model, 40_000.0, peer, age_s, 5.0)).ln() / 5.0 * HOUR_S;
        let logs = [hazard(0, 100.0) / 10.0, hazard(0, 500.0) / 10.0, hazard(1, 500.0), hazard(1, 3000.0)];
        logs.map(|ratio: f64| ratio.ln().abs()).iter().sum::<f64>() / 4.0
    };
    let (mut once, mut often) = (Model::default(), Model::default());
    history(&mut once);
    often.fit(8, history);
    assert!(off(&often) < 0.6, "{}", off(&often));
    assert!(off(&often) < 0.9 * off(&once), "{} after rounds, {} after one pass", off(&often), off(&once));
}

#[test]
fn a_fleet_is_passed_on_as_counts_and_those_of_two_fleets_add_up() {
    let (model, end_s) = hourly_fleet();
    let told = Model::with_fleet(FrailtyParameters::default(), model.fleet().clone());
    assert_eq!(leaves(&told, end_s, 1000, 900.0, 60.0), leaves(&model, end_s, 1000, 900.0, 60.0));
    let mut both = model.fleet().clone();
    both.add(model.fleet(), &FrailtyParameters::default());
    let both = Model::with_fleet(FrailtyParameters::default(), both);
    check_near(leaves(&both, end_s, 1000, 900.0, 60.0), leaves(&model, end_s, 1000, 900.0, 60.0), 0.05);
}

#[test]
fn a_session_of_unknown_age_teaches_nothing_about_ages() {
    let (mut model, now_s) = hourly_fleet();
    let young = leaves(&model, now_s, 1000, 0.0, 10.0);
    for k in 0..200 {
        model.begin(now_s, &(100 + k), None, Surroundings::default());
        model.end(now_s + 1.0, &(100 + k), DEPARTED);
    }
    check_near(leaves(&model, now_s, 1000, 0.0, 10.0), young, 1e-6);
    assert!(model.theta(now_s + 1.0, &100) > 1.2, "but its peer left at once");
}

#[test]
fn a_clock_that_stands_or_goes_back_is_no_time() {
    let (model, now_s) = hourly_fleet();
    let mut odd = model.clone();
    odd.begin(now_s, &100, Some(0.0), Surroundings::default());
    odd.go_on(now_s - 1e6, &100, Surroundings::default());
    odd.go_on(f64::NAN, &100, Surroundings::default());
    odd.end(f64::INFINITY, &100, DEPARTED);
    odd.end(now_s, &100, Ending::Censored);
    for t_s in [10.0, 1000.0] {
        // The fleet's past has faded a little meanwhile.
        check_near(leaves(&odd, now_s, 100, 0.0, t_s), leaves(&model, now_s, 100, 0.0, t_s), 1e-3);
    }
}

#[test]
fn a_curve_of_a_day_has_no_more_pieces_than_hours_ages_and_events_make() {
    let (mut model, now_s) = hourly_fleet();
    let surroundings = Surroundings {
        week_offset_s: Some(1.0),
        site: Some(1),
        scheduled_end_s: Some(now_s + 7777.0),
        ..Surroundings::default()
    };
    (100..103).for_each(|peer| model.begin(now_s, &peer, Some(0.0), surroundings));
    model.end(now_s, &101, DEPARTED);
    for age_s in [0.0, 5000.0, 1e6] {
        let pieces = model.curve(now_s, &100, age_s).len();
        assert!((24..=51).contains(&pieces), "{pieces} at {age_s}");
    }
}
