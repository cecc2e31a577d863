//! How soon a machine is its owner's again: from input at its screen to the engine that stops, and to what others know.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use super::{Seat, Sight};
use crate::agent::{Exertion, FOUND_WITHIN, run_time};
use crate::{Cluster, FAKE_MODEL, Fake, Lab, REAL_MODEL, Stream, completion, within};

/// Seconds without input after which the owner is away.
const IDLE_DELAY_S: u32 = 1;

/// What the agent logs right before it halts its engine.
const TOLD: &str = "engine stops computing";

/// One that goes on for long.
const PROMPT: &str =
    "one two three four five six seven eight nine ten one two three four five six seven eight nine ten one";

/// Pieces that are read before the owner returns: the engine computes then.
const PIECES: usize = 5;

/// How long an engine is watched after the input: five times what it may take.
const WATCHED: Duration = Duration::from_millis(500);

/// What it has computed before it, so that it is known to; and how long that may take.
const BUSY: Duration = Duration::from_millis(5);
const BUSY_WITHIN: Duration = Duration::from_secs(20);

/// Longer than what is promised (1 s), so that a late word is measured and not missed.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// It keeps its model in memory from one trial to the next: longer than the delay, in milliseconds.
const GRACE_MS: u32 = 30_000;

const DAY: Duration = Duration::from_hours(24);

/// What computes on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// It makes up text, and uses no processor time.
    Fake,
    /// It runs the real model of this file, on so many threads.
    Real(PathBuf, u16),
}

/// What one return of the owner took.
#[derive(Debug, Clone, Copy)]
pub struct Reaction {
    /// From the input until the engine was told to stop.
    pub told: Duration,
    /// From the input until a real engine had computed for the last time.
    pub stopped: Option<Duration>,
    /// From the input until another peer knew, which looks every 20 ms.
    pub known: Duration,
}

/// An origin, and a worker with a seat.
pub struct World {
    cluster: Cluster,
    seat: Seat,
    model: &'static str,
    /// The answer of the last trial: as long as somebody waits for it, the engine's memory is kept.
    unfinished: Option<Stream>,
}

impl World {
    /// Puts it up.
    pub fn new(lab: &Lab, sight: Sight, engine: &Engine) -> Result<Self> {
        let (_, hosts) = lab.home(&["a", "b"])?;
        let seat = Seat::start(lab, sight)?;
        let cluster = Cluster::new(lab, &hosts, |number, launch| {
            let launch = launch.set("log.level", "info").set("owner.grace_ms", GRACE_MS);
            let launch = match engine {
                Engine::Fake => launch.fake(Fake::decoding(100.0)),
                Engine::Real(..) => launch,
            };
            if number == 0 {
                return Ok(launch.busy());
            }
            let launch = match engine {
                Engine::Fake => launch,
                Engine::Real(model, threads) => {
                    launch.import(model, REAL_MODEL)?;
                    launch.set("engine.threads", *threads).set("engine.yield_to_all", true)
                }
            };
            Ok(seat.dress(launch.detecting(IDLE_DELAY_S)))
        })?;
        let model = if matches!(engine, Engine::Fake) { FAKE_MODEL } else { REAL_MODEL };
        Ok(Self { cluster, seat, model, unfinished: None })
    }

    /// Waits until the owner is away and the worker works, then has the owner come back.
    pub fn trial(&mut self) -> Result<Reaction> {
        let Self { cluster, seat, model, unfinished } = self;
        let (origin, worker) = (&cluster.0[0], &cluster.0[1]);
        let peer = worker.peer()?;
        seat.rest()?;
        origin.until_serving(peer, FOUND_WITHIN)?;
        unfinished.take();
        let mut stream = origin.ask(&completion(model, PROMPT, 2000))?;
        stream.read_pieces(PIECES)?;
        let mut log = File::open(worker.launch().log_path()).context("open the worker's log")?;
        log.seek(SeekFrom::End(0))?;
        let engine = if *model == REAL_MODEL { Some(worker.engine_pid().context("an engine")?) } else { None };
        let (wall, clock) = (SystemTime::now(), Instant::now());
        let (input, known, exertion) = watched(engine, || {
            let input = seat.input()?;
            let (known, _) = within(KNOWN_WITHIN, "the other peer to know", || {
                let status = origin.status()?;
                Ok(status.of(peer).is_some_and(|peer| !peer.is_serving()).then(|| input.elapsed()))
            })?;
            Ok((input, known))
        })?;
        let stopped = exertion.map(|exertion| {
            ensure!(exertion.was_busy_before(input), "the engine did not compute before the input");
            exertion.ended_after(input).context("nobody looked")
        });
        *unfinished = Some(stream);
        let told = told_after(&mut log, wall + (input - clock))?;
        Ok(Reaction { told, stopped: stopped.transpose()?, known })
    }

    /// Runs so many trials.
    pub fn trials(&mut self, count: usize) -> Result<Vec<Reaction>> {
        (0..count).map(|_| self.trial()).collect()
    }
}

/// Has the owner return while the engine is watched, if there is one to watch, for as long as it may take to stop.
fn watched(
    engine: Option<u32>,
    returns: impl FnOnce() -> Result<(Instant, Duration)>,
) -> Result<(Instant, Duration, Option<Exertion>)> {
    let Some(engine) = engine else {
        let (input, known) = returns()?;
        return Ok((input, known, None));
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| Exertion::watch(engine, &is_over));
        let returned = until_busy(engine).and_then(|()| returns());
        if let Ok((input, _)) = &returned {
            thread::sleep(WATCHED.saturating_sub(input.elapsed()));
        }
        is_over.store(true, Ordering::Relaxed);
        let exertion = watch.join().map_err(|_| anyhow::anyhow!("a watcher panicked"))?;
        let (input, known) = returned?;
        Ok((input, known, Some(exertion)))
    })
}

/// Waits until the engine computes, since it is watched: on a busy machine it waits for its turn.
fn until_busy(engine: u32) -> Result<()> {
    let before = run_time(engine)?;
    within(BUSY_WITHIN, "an engine that computes", || Ok((run_time(engine)? > before + BUSY).then_some(()))).map(drop)
}

/// How long after `since` the log says, from where it is read, that the engine was told to stop.
fn told_after(log: &mut File, since: SystemTime) -> Result<Duration> {
    let mut text = String::new();
    let (line, _) = within(TOLD_WITHIN, "the engine's halt", || {
        log.read_to_string(&mut text).context("read the worker's log")?;
        Ok(text.lines().find(|line| line.contains(TOLD)).map(str::to_owned))
    })?;
    let began = since.duration_since(UNIX_EPOCH)?.as_micros() % DAY.as_micros();
    // Midnight may lie between the two.
    let told = (time_of_day(&line)? + DAY).saturating_sub(Duration::from_micros(u64::try_from(began)?));
    let told = told.checked_sub(DAY).unwrap_or(told);
    ensure!(told < Duration::from_mins(1), "the halt was logged before the input: {line}");
    Ok(told)
}

/// The time of day with which a line of a log begins: `2026-11-30T13:54:13.123456Z`.
fn time_of_day(line: &str) -> Result<Duration> {
    let parse = || -> Option<Duration> {
        let time = line.split_once('T')?.1.split_once('Z')?.0;
        let mut parts = time.split(':');
        let (hours, minutes) = (parts.next()?.parse::<u64>().ok()?, parts.next()?.parse::<u64>().ok()?);
        let seconds: f64 = parts.next()?.parse().ok()?;
        Some(Duration::from_secs(hours * 3600 + minutes * 60) + Duration::from_secs_f64(seconds))
    };
    parse().with_context(|| format!("no time in {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lines_time_is_read_to_the_microsecond() -> Result<()> {
        let read = time_of_day("2026-11-30T01:02:03.000004Z  INFO idlewild: x")?;
        assert_eq!(read, Duration::from_micros(3_723_000_004));
        assert!(time_of_day("no time").is_err());
        Ok(())
    }
}
