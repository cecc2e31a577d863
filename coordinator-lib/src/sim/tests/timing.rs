//! How long things take, by hand.

use super::small::{assert_near, for_good, machine, request, run_of, scenario, stay};
use crate::sim::PolicyKind::ReactiveFastest;
use crate::sim::fleet::PeerSpec;
use crate::sim::scenario::{Departure, ScenarioError, Span};
use crate::sim::{RunOptions, run};

#[test]
fn a_request_takes_its_prefill_and_its_tokens() {
    let one = scenario(vec![(machine("a"), for_good())], vec![request(3.0, 200, 50)]);
    let figures = run_of(&one, ReactiveFastest).report.figures;
    assert_near("latency", figures.latency_mean_s, 2.0 + 5.0);
    assert_near("first token", figures.first_token_mean_s, 2.0);
    assert_near("waste", figures.wasted_s, 0.0);
    // From the first arrival on, and the machine was idle for the 3 s before.
    assert_near("utilisation", figures.utilisation, 0.7);
}

#[test]
fn requests_wait_for_a_slot_in_their_order() {
    let two = scenario(vec![(machine("a"), for_good())], vec![request(0.0, 100, 40), request(1.0, 100, 20)]);
    let figures = run_of(&two, ReactiveFastest).report.figures;
    // The first from 0 to 5, the second from 5 to 8.
    assert_near("latency", figures.latency_mean_s, f64::midpoint(5.0, 7.0));
}

#[test]
fn a_batch_decodes_slower_each_and_faster_together_and_takes_turns_with_prefill() {
    let both = PeerSpec { slots: 2, ..machine("a") };
    let batch = scenario(vec![(both, for_good())], vec![request(0.0, 100, 100), request(3.0, 100, 100)]);
    let figures = run_of(&batch, ReactiveFastest).report.figures;
    // The first decodes alone from 1 to 3 (20 tokens), beside the second's prefill at half the pace and so from 3 to 5
    // (10 tokens), then both at 6 2/3 a second: the first has 70 to go, 10.5 s, and the second 30 then, 3 s.
    assert_near("mean latency", figures.latency_mean_s, f64::midpoint(15.5, 15.5));
    assert_near("first token", figures.first_token_mean_s, f64::midpoint(1.0, 2.0));
}

#[test]
fn a_silent_departure_costs_its_detection_and_the_whole_context() {
    let leaves = vec![stay(-1.0, 5.0, Departure::UNKNOWN)];
    let faster = PeerSpec { prefill_tps: 101.0, ..machine("a") };
    let lost = scenario(vec![(faster, leaves), (machine("b"), for_good())], vec![request(0.0, 101, 100)]);
    let figures = run_of(&lost, ReactiveFastest).report.figures;
    // 40 tokens by 5 s; noticed at 6, begun again at 6.2, 141 tokens prefilled by 7.61, 60 more tokens by 13.61.
    assert_near("latency", figures.latency_mean_s, 13.61);
    assert_near("stall", figures.stall_s, 2.61);
    assert_near("recompute", figures.recompute_s, 1.41);
    assert_eq!((figures.losses, figures.uncovered_losses, figures.requests_hit), (1.0, 1.0, 1.0));
}

#[test]
fn what_is_lost_during_its_first_prefill_wastes_what_was_done_of_it() {
    let leaves = vec![stay(-1.0, 0.5, Departure::UNKNOWN)];
    let faster = PeerSpec { prefill_tps: 101.0, ..machine("a") };
    let lost = scenario(vec![(faster, leaves), (machine("b"), for_good())], vec![request(0.0, 100, 10)]);
    let figures = run_of(&lost, ReactiveFastest).report.figures;
    assert_near("recompute", figures.recompute_s, 0.5);
    assert_near("latency", figures.latency_mean_s, 0.5 + 1.0 + 1.0 + 1.0);
    assert_near("stall: no token had come", figures.stall_s, 0.0);
}

#[test]
fn what_waits_for_somebody_to_come_is_served_then_and_what_nobody_serves_is_reported() {
    let late = vec![stay(50.0, 1e6, Departure::UNKNOWN)];
    let waiting = scenario(vec![(machine("a"), late)], vec![request(0.0, 100, 10)]);
    assert_near("latency", run_of(&waiting, ReactiveFastest).report.figures.latency_mean_s, 52.0);
    let nobody = scenario(vec![(machine("a"), Vec::new())], vec![request(0.0, 100, 10)]);
    let figures = run_of(&nobody, ReactiveFastest).report.figures;
    assert_eq!((figures.requests, figures.unfinished), (1.0, 1.0));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_happens() {
    let good = scenario(vec![(machine("a"), for_good())], vec![request(0.0, 1, 1)]);
    let overlap = vec![stay(0.0, 5.0, Departure::UNKNOWN), stay(4.0, 9.0, Departure::UNKNOWN)];
    let span = Span { warmup_s: 2000.0, ..good.span };
    let slow = PeerSpec { decode_tps: 0.0, ..machine("a") };
    for (broken, expected) in [
        (scenario(Vec::new(), good.arrivals.clone()), "there are no peers: name at least one"),
        (
            scenario(vec![(machine("a"), overlap)], good.arrivals.clone()),
            "a: its stays overlap or are not in order at 4 s",
        ),
        (
            scenario(vec![(machine("a"), for_good())], vec![request(5.0, 1, 1), request(4.0, 1, 1)]),
            "request 1 comes before the one ahead of it, or at no time",
        ),
        (scenario(vec![(machine("a"), for_good())], Vec::new()), "no request comes within the 1000 s of the run"),
        (
            crate::sim::scenario::Scenario { span, ..good.clone() },
            "the warm-up in seconds is 2000: from 0 to the duration",
        ),
        (
            scenario(vec![(slow, for_good())], good.arrivals.clone()),
            "a peer's decode rate is 0: a finite number above 0",
        ),
    ] {
        let error: ScenarioError = run(&broken, ReactiveFastest, &RunOptions::default()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
