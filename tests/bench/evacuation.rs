//! An owner who returns to the worker of a long answer: how long the client waits, when the computing stops, and when the
//! memory is given back; with a standby, and without one.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::{children, cpu_time};
use idlewild_tests::lab::real_model;
use idlewild_tests::{Agent, Cluster, REAL_MODEL, Stream, completion, in_lab, within};

use crate::line;
use crate::moves::{VERSE_TOKENS, prompt, workers};

/// Megabits a second.
const LINK: u32 = 1000;

/// Tokens of context when the owner returns.
const CONTEXT: u32 = 4000;

const ANSWER_TOKENS: u32 = 2000;

/// Pieces before and after an owner's return.
const PIECES: usize = 40;

const READY_WITHIN: Duration = Duration::from_mins(2);

pub(crate) fn run() -> Result<()> {
    let Some(model) = real_model()? else { return Ok(()) };
    in_lab(|lab| {
        let cluster = workers(lab, LINK, &model)?;
        let origin = &cluster.0[0];
        ensure!(CONTEXT.is_multiple_of(VERSE_TOKENS), "whole verses");
        for has_standby in [true, false] {
            // One answer each: a model that goes on for a minute need not do so for two.
            let stream = origin.ask(&completion(REAL_MODEL, &prompt(CONTEXT), ANSWER_TOKENS))?;
            returns(&cluster, stream, has_standby)?;
        }
        Ok(())
    })
}

fn returns(cluster: &Cluster, mut stream: Stream, has_standby: bool) -> Result<()> {
    let origin = &cluster.0[0];
    stream.read_pieces(PIECES)?;
    let request = stream.request()?.to_owned();
    let worker = origin.explain(&request)?.assignments.last().context("a worker")?.worker.clone();
    let source = cluster.position(&worker)?;
    let other = &cluster.0[3 - source];
    let source = &cluster.0[source];
    let engine = *children(source.pid()).first().context("an engine")?;
    thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::sync_channel::<()>(1);
        let reader = scope.spawn(move || {
            while matches!(stopped.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)) {
                ensure!(stream.next_piece()?.is_some(), "the answer ended: {:?}", stream.so_far());
            }
            Ok(stream)
        });
        if has_standby {
            origin.move_request(&request, other.peer()?, "whole", &["--prepare-only"])?;
            origin.until_standby(&request, 24, READY_WITHIN)?;
        }
        let returned = Instant::now();
        source.owner("present")?;
        let computing = last_computing(engine, returned)?;
        let (gone, _) = within(READY_WITHIN, "memory given back", || {
            Ok(source.engine_pid().is_none().then(|| returned.elapsed()))
        })?;
        origin.until_moved(&request, other.peer()?)?;
        // The new worker has said some tokens before the pause is looked at.
        thread::sleep(Duration::from_secs(2));
        drop(stop);
        let stream: Stream = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??;
        let pause = stream.so_far().longest_pause_since(returned);
        let (what, goal) = if has_standby { ("a standby", 300) } else { ("no standby", 1000) };
        let what = format!("owner returns, {CONTEXT} tokens, {what}");
        line(&format!("{what}: pause (ms)"), &format!("{:.0}", ms(pause)), &format!("at most {goal}"))?;
        line("  computing stops, memory is back (ms)", &format!("{:.0}, {:.0}", ms(computing), ms(gone)), "100, 2000")?;
        drop(stream);
        back_at_work(origin, source)
    })
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1000.0
}

/// When a process last used more of the processor than sending a context takes (a fifth of a core), looking for 600 ms.
fn last_computing(pid: u32, since: Instant) -> Result<Duration> {
    const WINDOW: Duration = Duration::from_millis(50);
    let (mut at, mut before) = (Duration::ZERO, cpu_time(pid)?);
    while since.elapsed() < Duration::from_millis(600) {
        thread::sleep(WINDOW);
        // A process that is gone uses none.
        let Ok(now) = cpu_time(pid) else { break };
        if now.saturating_sub(before) > WINDOW / 2 {
            at = since.elapsed();
        }
        before = now;
    }
    Ok(at)
}

fn back_at_work(origin: &Agent, agent: &Agent) -> Result<()> {
    agent.owner("away")?;
    origin.until_serving(agent.peer()?, READY_WITHIN)?;
    agent.load_model(&completion(REAL_MODEL, "one two", 100), READY_WITHIN)
}
