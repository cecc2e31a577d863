//! Where the corrected rule lets requests begin, and begin again.

use super::tests::{Every, RATES, host};
use super::*;
use crate::cost::{Batch, Batching, PeerRates, Prices, Terms, Work};
use crate::policy::Placement;

const WORK: Work = Work { context_tokens: 1000, prefill_tokens: 1000, expected_output_tokens: 500, done_tokens: 0 };

const STAYS: Every = Every(1e12);

fn faster<'a>(host: Host<'a, &'static str>, by: f64) -> Host<'a, &'static str> {
    let rates = PeerRates { decode_tps: RATES.decode_tps * by, prefill_tps: RATES.prefill_tps * by, ..host.rates };
    Host { rates, ..host }
}

fn place_of(placing: &Placing<&'static str>, hosts: &[Host<'_, &'static str>]) -> Placement<&'static str> {
    place(placing, hosts, &OverlappedParameters::default())
}

fn chosen(hosts: &[Host<'_, &'static str>]) -> Option<&'static str> {
    place_of(&Placing::new(WORK), hosts).chosen
}

fn terms_of<'p>(placement: &'p Placement<&'static str>, id: &str) -> &'p Terms {
    placement.assessed.iter().find(|assessment| assessment.peer == id).unwrap().terms().unwrap()
}

#[test]
fn the_terms_of_a_host_are_those_of_the_document() {
    let placement =
        place_of(&Placing::new(WORK), &[Host { wait_s: 4.0, ..host("i", &Every(100.0)) }, host("f", &STAYS)]);
    let terms = terms_of(&placement, "i");
    assert_eq!((terms.wait_s, terms.service_s), (4.0, 10.0 + 50.0));
    assert!((terms.leave_probability - (1.0 - (-0.64_f64).exp())).abs() < 1e-9, "{terms:?}");
    // D + O_r + sigma, 10 s of prefill, and what decoding has added since 14 s: the same by 100,000 cells.
    let cost_s = |t_s: f64| 1.2 + 120.0 + 10.0 + 10.0 * (t_s - 14.0).max(0.0) / 100.0;
    let edge = |k: i32| f64::from(k) * 64.0 / 100_000.0;
    let left = |t_s: f64| (-t_s / 100.0).exp();
    let loss_s: f64 =
        (0..100_000).map(|k| (left(edge(k)) - left(edge(k + 1))) * cost_s(edge(k).midpoint(edge(k + 1)))).sum();
    assert!((terms.loss_s / loss_s - 1.0).abs() < 1e-6, "{terms:?}, expected {loss_s}");
}

#[test]
fn a_lost_worker_weighs_more_where_a_request_begins_than_where_it_moves() {
    let hosts = [faster(host("leaves", &Every(500.0)), 1.2), host("stays", &STAYS)];
    assert_eq!(chosen(&hosts), Some("stays"));
    let light = Prices { placement_loss_s: 2.0, ..Prices::default() };
    let parameters = OverlappedParameters { prices: light, ..OverlappedParameters::default() };
    assert_eq!(place(&Placing::new(WORK), &hosts, &parameters).chosen, Some("leaves"));
}

#[test]
fn the_slowdown_of_those_that_run_is_part_of_the_price() {
    let batching = Batching::measured(12.0, 8.0, 4);
    let busy = Batch { batching, running: 3, remaining_tokens: 3000.0 };
    let hosts = [Host { batch: busy, ..faster(host("batches", &STAYS), 1.1) }, host("idle", &STAYS)];
    assert_eq!(chosen(&hosts), Some("idle"));
    assert_eq!(chosen(&[Host { batch: Batch::EMPTY, ..hosts[0] }, hosts[1]]), Some("batches"));
    let placement = place_of(&Placing::new(WORK), &hosts);
    let slowdown_s = 1500.0 * (1.0 / 8.0 - 1.0 / 12.0) / 3.0;
    assert!((terms_of(&placement, "batches").slowdown_s - slowdown_s).abs() < 1e-9);
}

#[test]
fn an_orphan_goes_on_where_its_context_is() {
    let work = Work::orphaned(1000, 500, 200);
    let hosts = [faster(host("fast", &STAYS), 1.2), host("standby", &STAYS)];
    let orphan = Placing::new(work);
    assert_eq!(place_of(&orphan, &hosts).chosen, Some("fast"));
    let kept = place_of(&Placing { held: Some(("standby", 1190)), ..orphan }, &hosts);
    assert_eq!(kept.chosen, Some("standby"));
    assert!((terms_of(&kept, "standby").service_s - (10.0 / 100.0 + 300.0 / 10.0)).abs() < 1e-9);
}

#[test]
fn a_request_that_waits_leaves_its_queue_only_for_something_clearly_better() {
    for (wait_s, chosen) in [(1.9, "here"), (2.1, "there")] {
        let hosts = [Host { wait_s, ..host("here", &STAYS) }, host("there", &STAYS)];
        let waiting = Placing { queued_at: Some("here"), ..Placing::new(WORK) };
        assert_eq!(place_of(&waiting, &hosts).chosen, Some(chosen), "{wait_s}");
    }
    let gone = Placing { queued_at: Some("gone"), ..Placing::new(WORK) };
    assert_eq!(place_of(&gone, &[host("there", &STAYS)]).chosen, Some("there"));
}

#[test]
fn the_fallback_is_at_another_site_where_there_is_one() {
    let site = |id| Some(Site { id, leaves_together: 0.6 });
    let at = |id, site| Host { site, ..host(id, &STAYS) };
    let ranked = |hosts: &[Host<'_, &'static str>]| Fallbacks::rank(hosts.iter(), 1000.0, &Prices::default());
    let home =
        [at("a", site(1)), faster(at("b", site(1)), 3.0), at("c", site(2)), Host { wait_s: 1.0, ..at("d", None) }];
    let fallbacks = ranked(&home);
    let of = |id: &'static str, site| fallbacks.of(id, site).map(|fallback| (fallback.peer, fallback.leaves_together));
    assert_eq!(of("a", site(1)), Some(("c", 0.0)));
    assert_eq!(of("b", site(1)), Some(("c", 0.0)));
    assert_eq!(of("c", site(2)), Some(("b", 0.0)));
    assert_eq!(of("d", None), Some(("b", 0.0)));
    assert_eq!(ranked(&home[..2]).of("b", site(1)).map(|f| (f.peer, f.leaves_together)), Some(("a", 0.6)));
    assert_eq!(ranked(&home[..1]).of("a", site(1)), None);
}

#[test]
fn a_fallback_that_prefills_fast_is_worth_a_little_wait() {
    let hosts = [host("slow", &STAYS), Host { wait_s: 1.0, ..faster(host("fast", &STAYS), 5.0) }];
    let fallbacks = Fallbacks::rank(hosts.iter(), 2000.0, &Prices::default());
    let fallback = fallbacks.of("another", None).unwrap();
    assert_eq!(fallback.peer, "fast");
    assert!((fallback.cost_s - (1.05 * 4.0 + 1.0)).abs() < 1e-9);
}
