//! What a move takes, by way, link and context: until the destination keeps up (W), the pause that is seen (S), what the
//! destination computes, bytes; and what the cost model says beforehand from the rates that the agents have measured.
//!
//! One answer is moved to and fro, once by each way, so that its context is read only once; it grows meanwhile, and the
//! prediction is for what it is then.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_coordinator::cost::{Overheads, Preparation, Route, hybrid, ids_only, pre_copy, round_s};
use idlewild_coordinator::view::Offer;
use idlewild_protocol::ModelLoad;
use idlewild_tests::agent::{FOUND_WITHIN, History, MeasuredMove, MoveOverheads, Status};
use idlewild_tests::lab::real_model;
use idlewild_tests::{Agent, Cluster, Lab, REAL_MODEL, Stream, completion, in_lab, within};

use crate::line;
use crate::sample::Sample;

/// Megabits a second.
const LINKS: [u32; 3] = [1000, 100, 20];

/// Tokens of context at the first move.
const CONTEXTS: [u32; 2] = [1000, 4000];

/// Ways that pull, as `idlewild move` calls them.
const PULLED: [&str; 2] = ["whole", "rest"];

/// Ten digits and ten blanks, a token each: the small model goes on with it for as long as it may.
const VERSE: &str = "1 2 3 4 5 6 7 8 9 0 ";
pub(crate) const VERSE_TOKENS: u32 = 20;

/// A prompt of so many tokens.
pub(crate) fn prompt(tokens: u32) -> String {
    VERSE.repeat((tokens / VERSE_TOKENS) as usize)
}

/// Moves by each way over the fastest link: whether the pause depends on the context is not seen from one.
const ROUNDS: usize = 4;

/// The ways of one answer's moves. Ids are a few bytes each: a slower link changes nothing about them, and they take a minute.
fn ways(link: u32) -> Vec<&'static str> {
    if link == LINKS[0] { [PULLED.repeat(ROUNDS), vec!["ids"]].concat() } else { PULLED.to_vec() }
}

const ANSWER_TOKENS: u32 = 3500;

/// The slowest preparation: ids at thirty tokens a second, twice.
const READY_WITHIN: Duration = Duration::from_mins(6);

/// Pieces before the first move and between two: a median of gaps needs some.
const PIECES: usize = 40;

pub(crate) fn run() -> Result<()> {
    let Some(model) = real_model()? else { return Ok(()) };
    let mut errors = Sample::default();
    let mut extra_ms = [Sample::default(), Sample::default()];
    for link in LINKS {
        for (at, context) in CONTEXTS.into_iter().enumerate() {
            in_lab(|lab| {
                let cluster = workers(lab, link, &model)?;
                let pauses_ms = one_answer(&cluster, link, context, &mut errors)?;
                if link == LINKS[0] {
                    extra_ms[at] = pauses_ms;
                }
                Ok(())
            })?;
        }
    }
    let [short, long] = extra_ms.map(|sample| sample.median());
    let ratio = format!("{short:.0}, {long:.0}; {:.2}", long / short);
    line("longest gap over the median gap, medians (ms); ratio", &ratio, "ratio at most 1.5")?;
    line("cost model: error of W, median", &format!("{:.0} %", 100.0 * errors.median()), "under 25 %")
}

/// An origin and two workers, each behind a link of so many megabits a second.
pub(crate) fn workers(lab: &Lab, link: u32, model: &std::path::Path) -> Result<Cluster> {
    let (_, hosts) = lab.home(&["a", "b", "c"])?;
    for host in &hosts[1..] {
        host.shape(&host.interfaces()[0], link)?;
    }
    let mut cluster = Cluster::new(lab, &hosts, |number, launch| {
        let launch =
            launch.set("engine.context_tokens", 8192_u32).set("engine.kv_tokens", 8192_u32).set("log.level", "info");
        if number == 0 {
            return Ok(launch.busy());
        }
        launch.import(model, REAL_MODEL)?;
        Ok(launch.scripted())
    })?;
    for at in [1, 2] {
        // Nobody leaves: what is prepared was asked for.
        cluster.remember(at, History::NIGHTS)?;
        let worker = &cluster.0[at];
        worker.owner("away")?;
        cluster.0[0].until_serving(worker.peer()?, FOUND_WITHIN)?;
        // The model is in memory before anything is measured.
        worker.load_model(&completion(REAL_MODEL, "one two", 100), FOUND_WITHIN)?;
    }
    Ok(cluster)
}

/// Gives by how much the longest gap of each move that pulled was above the median gap, in milliseconds.
fn one_answer(cluster: &Cluster, link: u32, context: u32, errors: &mut Sample) -> Result<Sample> {
    let mut pauses_ms = Sample::default();
    // One figure for each way, however often it was gone.
    let mut errors_of: BTreeMap<&str, Sample> = BTreeMap::new();
    let origin = &cluster.0[0];
    let mut stream = origin.ask(&completion(REAL_MODEL, &prompt(context), ANSWER_TOKENS))?;
    for way in ways(link) {
        let so_far = stream.so_far().pieces.len();
        stream.read_pieces(so_far + PIECES)?;
        let request = stream.request()?.to_owned();
        let story = origin.explain(&request)?;
        let source = cluster.position(&story.assignments.last().context("a worker")?.worker)?;
        let destination = 3 - source;
        let tokens = f64::from(context + story.output_tokens);
        let predicted = predict(origin, &cluster.0[source], &cluster.0[destination], (way, tokens))?;
        let from = stream.so_far().pieces.len();
        let what = format!("{link} Mbit/s, {tokens:.0} tokens, {way}");
        let (back, measured) = move_it(origin, stream, &request, cluster.0[destination].peer()?, way)?;
        stream = back;
        let (extra_ms, gap_ms) = pauses(&stream, from);
        if PULLED.contains(&way) {
            pauses_ms.push(extra_ms);
        }
        report(&what, (&measured, predicted), (extra_ms, gap_ms), tokens)?;
        if let (Some(ready_ms), Some(predicted)) = (measured.ready_ms, predicted) {
            let ready_s = ready_ms as f64 / 1000.0;
            errors_of.entry(way).or_default().push((predicted.ready_s - ready_s).abs() / ready_s);
        }
    }
    for of_way in errors_of.values() {
        errors.push(of_way.median());
    }
    Ok(pauses_ms)
}

/// Moves the request while a thread reads its answer; gives the stream back some pieces later.
fn move_it(origin: &Agent, stream: Stream, request: &str, to: &str, way: &str) -> Result<(Stream, MeasuredMove)> {
    thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::sync_channel::<()>(1);
        let reader = scope.spawn(move || {
            let mut stream = stream;
            while matches!(stopped.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)) {
                ensure!(stream.next_piece()?.is_some(), "the answer ended before its move");
            }
            Ok(stream)
        });
        origin.move_request(request, to, way, &[])?;
        let moved = within(READY_WITHIN, "a move", || {
            let story = origin.explain(request)?;
            let is_there = story.assignments.last().is_some_and(|last| last.worker == to);
            // The preparation and the hand-over are steps of their own.
            let of = |name: &str| {
                let mut steps = story.moves.iter().rev().filter(|step| step.step.get(name).is_some());
                steps.find_map(|step| step.measured)
            };
            let whole = of("prepare").zip(of("commit")).map(|(prepared, handed_over)| MeasuredMove {
                stall_ms: handed_over.stall_ms,
                pulled_tokens: handed_over.pulled_tokens.or(prepared.pulled_tokens),
                ..prepared
            });
            Ok(whole.filter(|whole| is_there && whole.stall_ms.is_some()))
        });
        drop(stop);
        let stream = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??;
        Ok((stream, moved?.0))
    })
}

/// The longest gap between two pieces since `from`, less the median gap; and that, in milliseconds.
fn pauses(stream: &Stream, from: usize) -> (f64, f64) {
    let times: Vec<Instant> = stream.so_far().pieces[from.saturating_sub(1)..].iter().map(|piece| piece.at).collect();
    let (mut gaps, mut longest) = (Sample::default(), 0.0_f64);
    for two in times.windows(2) {
        let gap = (two[1] - two[0]).as_secs_f64() * 1000.0;
        gaps.push(gap);
        longest = longest.max(gap);
    }
    (longest - gaps.median(), gaps.median())
}

/// What the cost model says, from the rates that source and destination have measured.
fn predict(
    origin: &Agent,
    source: &Agent,
    destination: &Agent,
    (way, context_tokens): (&str, f64),
) -> Result<Option<Preparation>> {
    let seen_there = destination.status()?;
    let link = seen_there.of(source.peer()?).context("the source is known")?;
    let seen = origin.status()?;
    let model_on = |agent: &Agent| -> Result<ModelLoad> {
        let model = seen.of(agent.peer()?).and_then(|peer| peer.models.first()).context("a model there")?;
        serde_json::from_value(model.clone()).context("a line of a digest")
    };
    let (there, here) = (model_on(destination)?, model_on(source)?);
    let kv_bytes_per_token = f64::from(there.kv_bytes_per_token);
    let offer = Offer::at_context(&there, context_tokens, 0.0);
    let route = Route {
        context_tokens,
        decode_tps: Offer::at_context(&here, context_tokens, 0.0).decode_tps,
        prefill_tps: offer.prefill_tps,
        kv_tps: link.down_bytes_per_s.unwrap_or(0) as f64 / kv_bytes_per_token,
        kv_bytes_per_token,
        round_trip_s: f64::from(link.rtt_us.unwrap_or(0)) / 1e6,
        round_s: round_s(offer.decode_tps, offer.prefill_tps),
    };
    let overheads = overheads(&seen);
    Ok(match way {
        "whole" => pre_copy(&route, &overheads),
        "rest" => hybrid(&route, &overheads),
        _ => ids_only(&route, &overheads),
    })
}

/// What the coordinator goes by: as the origin has measured it, once it has.
fn overheads(seen: &Status) -> Overheads {
    let MoveOverheads { hand_off, transfer, recompute, detection } = seen.overheads;
    Overheads {
        hand_off_s: hand_off.used_s,
        transfer_s: transfer.used_s,
        recompute_s: recompute.used_s,
        detection_s: detection.used_s,
        ..Overheads::ASSUMED
    }
}

fn report(
    what: &str,
    (measured, predicted): (&MeasuredMove, Option<Preparation>),
    (extra_ms, gap_ms): (f64, f64),
    tokens: f64,
) -> Result<()> {
    let ready_s = measured.ready_ms.unwrap_or(0) as f64 / 1000.0;
    // What came while it was pulled is pulled, too.
    let computed = (tokens - f64::from(measured.pulled_tokens.unwrap_or(0))).max(0.0);
    let megabytes = measured.bytes.unwrap_or(0) as f64 / 1e6;
    let said = predicted.map_or("never".to_owned(), |p| format!("{:.1}", p.ready_s));
    line(&format!("{what}: W, predicted (s)"), &format!("{ready_s:.1}, {said}"), "")?;
    line("  longest gap over the median gap (ms)", &format!("{extra_ms:.0} over {gap_ms:.0}"), "at most 150")?;
    let stall = measured.stall_ms.unwrap_or(0);
    line("  hand-off (ms); prefilled there; MB", &format!("{stall}; {computed:.0}; {megabytes:.1}"), "")
}
