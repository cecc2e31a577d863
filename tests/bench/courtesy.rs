//! What the owner's programs feel of an engine that works: how long a program takes that input wakes and that computes for
//! 10 ms, with the engine off and with the engine decoding. Nobody stops the engine for that input: what is measured is how
//! well the kernel keeps it out of the way.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_tests::lab::{can_have_desktop, real_model};
use idlewild_tests::{Agent, Lab, Launch, REAL_MODEL, completion, in_lab};

use crate::alone::threads;
use crate::foreground::{Foreground, Work};
use crate::line;
use crate::sample::Sample;

/// Pairs of blocks, one with the engine off and one with it on; and inputs in each.
const PAIRS: usize = 6;
const INPUTS: usize = 60;

/// Between two inputs, so that they come at any point of the engine's steps.
const PAUSE_MS: std::ops::Range<u64> = 5..45;

/// Answers at once: the engine's steps are as long as they get.
const ANSWERS: usize = 2;

/// Tokens of one answer; another follows.
const TOKENS: u32 = 400;

/// For an engine to begin, or to end what it does.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);

pub(crate) fn run() -> Result<()> {
    let Some(model) = real_model()? else { return Ok(()) };
    if !can_have_desktop()? {
        return Ok(());
    }
    let cores = thread::available_parallelism()?.get();
    let all = u16::try_from(cores).unwrap_or(u16::MAX);
    let mut settings = vec![threads(), all];
    settings.dedup();
    for engine_threads in settings {
        in_lab(|lab| {
            let agent = start(lab, &model, engine_threads)?;
            // The model is in memory before anything is measured.
            ensure!(agent.answer(&completion(REAL_MODEL, "one two", 2))?.done);
            until_idle(&agent)?;
            let work = Work::calibrated();
            for programs in [1, cores] {
                let what = format!("{programs} woken for 10 ms, engine with {engine_threads} threads of {cores} cores");
                compare(&agent, &mut Foreground::start(programs, work)?, &what)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn start(lab: &Lab, model: &std::path::Path, threads: u16) -> Result<Agent> {
    let (_, hosts) = lab.home(&["a"])?;
    let launch = Launch::new(lab, &hosts[0])?
        .set("engine.yield_to_all", true)
        .set("engine.threads", threads)
        .set("log.level", "info");
    launch.import(model, REAL_MODEL)?;
    launch.up()
}

fn until_idle(agent: &Agent) -> Result<()> {
    let is_idle = |status: &idlewild_tests::agent::Status| (status.engine.running == 0).then_some(());
    agent.until(SETTLED_WITHIN, "an engine that is idle", is_idle).map(drop)
}

fn compare(agent: &Agent, foreground: &mut Foreground, what: &str) -> Result<()> {
    let (mut ratio, mut off, mut on, mut rate) =
        (Sample::default(), Sample::default(), Sample::default(), Sample::default());
    block(foreground)?;
    for pair in 0..PAIRS {
        // The order changes, so that neither always has the warmer machine.
        let (without, with) = if pair % 2 == 0 {
            let without = block(foreground)?;
            (without, beside_an_engine(agent, foreground)?)
        } else {
            let with = beside_an_engine(agent, foreground)?;
            (block(foreground)?, with)
        };
        ratio.push(with.0.quantile(0.95) / without.quantile(0.95));
        rate.push(with.1);
        off.append(&without);
        on.append(&with.0);
    }
    line(&format!("{what}: p95, on over off"), &format!("{ratio:.2}"), "at most 1.2")?;
    let figures = |sample: &Sample| format!("{:.1} {:.1}", sample.median(), sample.quantile(0.95));
    line("  p50 p95, engine off; on (ms)", &format!("{}; {}", figures(&off), figures(&on)), "")?;
    line("  tokens/s of the engine meanwhile", &format!("{rate:.0}"), "")
}

/// Input after input; how long each program took, in milliseconds.
fn block(foreground: &mut Foreground) -> Result<Sample> {
    let mut took = Sample::default();
    for _ in 0..INPUTS {
        thread::sleep(Duration::from_millis(rand::random_range(PAUSE_MS)));
        for one in foreground.respond()? {
            took.push(one.as_secs_f64() * 1000.0);
        }
    }
    Ok(took)
}

/// The same while the engine decodes, and how many tokens a second that were.
fn beside_an_engine(agent: &Agent, foreground: &mut Foreground) -> Result<(Sample, f64)> {
    let (is_over, pieces) = (AtomicBool::new(false), AtomicUsize::new(0));
    let measured = thread::scope(|scope| {
        let asking = |number: usize| {
            let (is_over, pieces) = (&is_over, &pieces);
            scope.spawn(move || keep_asking(agent, number, is_over, pieces))
        };
        let readers: Vec<_> = (0..ANSWERS).map(asking).collect();
        let measured = begun(&pieces).and_then(|()| {
            let (before, since) = (pieces.load(Ordering::Relaxed), Instant::now());
            let took = block(foreground)?;
            let more = pieces.load(Ordering::Relaxed) - before;
            ensure!(more > 0, "the engine said nothing meanwhile");
            Ok((took, more as f64 / since.elapsed().as_secs_f64()))
        });
        is_over.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??;
        }
        measured
    })?;
    until_idle(agent)?;
    Ok(measured)
}

/// Waits until the answers come.
fn begun(pieces: &AtomicUsize) -> Result<()> {
    let is_begun = || Ok(pieces.load(Ordering::Relaxed) >= 2 * ANSWERS);
    idlewild_tests::eventually(SETTLED_WITHIN, "an engine that decodes", is_begun).map(drop)
}

/// Has one answer after the other until it is over.
fn keep_asking(agent: &Agent, number: usize, is_over: &AtomicBool, pieces: &AtomicUsize) -> Result<()> {
    while !is_over.load(Ordering::Relaxed) {
        let prompt = format!("Story number {number}. Once upon a time");
        let mut stream = agent.ask(&completion(REAL_MODEL, &prompt, TOKENS)).context("ask")?;
        while !is_over.load(Ordering::Relaxed) && stream.next_piece()?.is_some() {
            pieces.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}
