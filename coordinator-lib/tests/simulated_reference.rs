//! The simulator against the published step simulator: on its own churn and arrivals, machine for machine and request for
//! request, with its loads, the event world must come to the figures of its volunteer fleet.
//!
//! The traces are read from the folder that `IDLEWILD_GOLDEN_DIR` names. What agrees to the digit is the replay of the golden
//! example, which takes the reference's steps; here time is continuous and the accounting ours. Losses are printed and not held:
//! the reference counts those that only waited, too.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use idlewild_coordinator::sim::fleet::{Link, PeerSpec};
use idlewild_coordinator::sim::report::Figures;
use idlewild_coordinator::sim::scenario::{Arrival, Departure, Scenario, Span, Stay, World};
use idlewild_coordinator::sim::{Decider, PolicyKind, RunOptions, run};
use serde::Deserialize;

const WHOLE_SET: &str = "IDLEWILD_GOLDEN_DIR";

#[derive(Deserialize)]
struct Trace {
    duration_s: f64,
    warmup_s: f64,
    nodes: Vec<Node>,
    churn: Vec<(f64, usize, u8, Option<f64>)>,
    arrivals: Vec<(f64, u32, u32, u32)>,
    expect: Expectations,
}

#[derive(Deserialize)]
struct Node {
    name: String,
    decode_tps: f64,
    prefill_tps: f64,
    bandwidth_bps: f64,
    kv_bytes_per_token: f64,
    mem_tokens: u32,
}

#[derive(Deserialize)]
struct Expectations {
    reactive_fastest: Expect,
}

#[derive(Deserialize)]
struct Expect {
    completed: u32,
    mean_latency_s: f64,
    p50_latency_s: f64,
    unplanned_migrations: f64,
    wasted_seconds: f64,
}

impl Trace {
    /// The reference's world: whole tokens a second, one request at a time, losses noticed at once, no time to drain.
    fn scenario(&self, name: &str) -> Scenario {
        let peer = |node: &Node| PeerSpec {
            name: node.name.clone(),
            decode_tps: node.decode_tps.floor().max(1.0),
            shared_step: 0.5,
            prefill_tps: node.prefill_tps,
            kv_bytes_per_token: node.kv_bytes_per_token,
            kv_tokens: node.mem_tokens,
            slots: 1,
            link: Link { up_bps: node.bandwidth_bps, down_bps: node.bandwidth_bps, round_trip_s: 0.0 },
        };
        let mut stays: Vec<Vec<Stay>> = vec![Vec::new(); self.nodes.len()];
        for &(at_s, node, is_up, until_s) in &self.churn {
            if is_up == 1 {
                let end_s = until_s.unwrap_or(self.duration_s).max(at_s);
                stays[node].push(Stay { start_s: at_s, end_s, is_end_seen: true, departure: Departure::UNKNOWN });
            } else if let Some(stay) = stays[node].last_mut() {
                stay.end_s = at_s;
            }
        }
        let arrival = |&(at_s, prompt_tokens, output_tokens, estimate)| Arrival {
            at_s,
            prompt_tokens,
            output_tokens,
            estimate_tokens: Some(estimate),
        };
        Scenario {
            name: name.to_owned(),
            peers: self.nodes.iter().map(peer).collect(),
            stays,
            arrivals: self.arrivals.iter().map(arrival).collect(),
            span: Span { duration_s: self.duration_s, warmup_s: self.warmup_s, drain_s: 0.0 },
            world: World { detection_s: 0.0, ..World::default() },
        }
    }
}

/// Means over traces of what a run came to, and of what the reference published.
#[derive(Default)]
struct Means {
    ours: [f64; 5],
    published: [f64; 5],
    traces: f64,
}

const NAMES: [&str; 5] = ["completed", "mean latency", "median latency", "unplanned", "wasted seconds"];

impl Means {
    fn add(&mut self, figures: &Figures, expect: &Expect) {
        let ours = [
            figures.requests - figures.unfinished,
            figures.latency_mean_s,
            figures.latency_p50_s,
            figures.losses,
            figures.wasted_s,
        ];
        let published = [
            f64::from(expect.completed),
            expect.mean_latency_s,
            expect.p50_latency_s,
            expect.unplanned_migrations,
            expect.wasted_seconds,
        ];
        for (sum, value) in self.ours.iter_mut().zip(ours).chain(self.published.iter_mut().zip(published)) {
            *sum += value;
        }
        self.traces += 1.0;
    }
}

fn means(folder: &Path, fleet: &str) -> Means {
    let mut means = Means::default();
    for seed in 0..3 {
        let name = format!("sim_trace_{fleet}_s{seed}");
        let path = folder.join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let trace: Trace = serde_json::from_str(&text).unwrap();
        let options = RunOptions { decider: Decider::Published, ..RunOptions::default() };
        let run = run(&trace.scenario(&name), PolicyKind::ReactiveFastest, &options).unwrap();
        means.add(&run.report.figures, &trace.expect.reactive_fastest);
    }
    means
}

#[test]
fn the_reactive_policy_comes_to_the_published_figures() {
    let Some(folder) = std::env::var_os(WHOLE_SET) else {
        eprintln!("SKIPPED: {WHOLE_SET} names no folder with the traces of the published simulator");
        return;
    };
    for fleet in ["vol", "mix"] {
        let Means { ours, published, traces } = means(Path::new(&folder), fleet);
        for ((name, ours), published) in NAMES.iter().zip(ours).zip(published) {
            eprintln!("{fleet}: {name}: {:.1}, published {:.1}", ours / traces, published / traces);
        }
        // Held for the volunteer fleet alone. The mixed fleet does not agree yet: 9 % below the published mean and 13 % below
        // the median when this was written. One known difference is not modelled: the reference serves whole tokens a second
        // and places by the rates before rounding, here both are rounded. Whether that is all of it has not been tried.
        if fleet != "vol" {
            continue;
        }
        for (at, tolerance) in [(0, 0.01), (1, 0.1), (2, 0.06)] {
            let ratio = ours[at] / published[at];
            assert!((ratio - 1.0).abs() < tolerance, "{fleet}: {}: {ratio} of what was published", NAMES[at]);
        }
    }
}
