//! What agents learn of their machines and of moves: it outlives a restart, and reaches whoever decides by it.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::{FOUND_WITHIN, MoveOverhead};
use idlewild_tests::lab::real_model;
use idlewild_tests::{Agent, Cluster, FAKE_MODEL, Fake, Launch, REAL_MODEL, Verdict, completion, in_lab, within};

/// Seconds for which a short answer and a digest may take on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Fifteen seconds of an answer that is moved to and fro.
const FAKE: Fake = Fake { prefill_tps: 2000.0, decode_tps: 40.0, load_ms: 20 };
const TOKENS: u32 = 600;

/// As many as make a figure.
const MOVES: u32 = 3;

/// How many times what is assumed anybody is believed.
const PLAUSIBLE: f64 = 20.0;

/// Contexts that no warm-up assumes for the test's model.
const LEARNT: (u16, u16) = (20_000, 25_000);

/// Contexts that double the time of a decoded token and of a prompt token, once the engine has said so.
fn doubles_at(agent: &Agent) -> Result<(u16, u16)> {
    // One token, which is drawn from the prompt: a step that gives one would be learnt from, and one on a busy machine may be slow.
    let answer = agent.answer(&completion(REAL_MODEL, "one two three", 1))?;
    ensure!(answer.done, "{answer:?}");
    let seen = agent.until(SOON, "what it knows of long contexts", |status| {
        let engine = &status.engine;
        let is_idle = engine.running == 0 && engine.decode_doubles_at > 0;
        is_idle.then_some((engine.decode_doubles_at, engine.prefill_doubles_at))
    });
    seen.map(|(doubles_at, _)| doubles_at)
}

fn is_near(seen: u16, expected: u16) -> bool {
    seen.abs_diff(expected) <= expected / 5
}

fn database(agent: &Agent) -> Result<rusqlite::Connection> {
    rusqlite::Connection::open(agent.launch().home_path().join("data/idlewild.db")).context("open the database")
}

#[test]
fn what_is_known_of_long_contexts_outlives_a_restart() -> Verdict {
    in_lab(|lab| {
        let Some(model) = real_model()? else { return Ok(()) };
        let (_, hosts) = lab.home(&["a"])?;
        let launch = Launch::new(lab, &hosts[0])?;
        launch.import(&model, REAL_MODEL)?;
        let mut agent = launch.up()?;
        agent.until(FOUND_WITHIN, "a session", |status| (status.state() == "serving").then_some(()))?;
        let before = doubles_at(&agent)?;
        agent.stop()?;
        let sql = "SELECT decode_doubles_at, prefill_doubles_at FROM rates";
        let kept: (u16, u16) = database(&agent)?.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        ensure!(is_near(kept.0, before.0) && is_near(kept.1, before.1), "{kept:?} is not {before:?}");
        ensure!(!is_near(before.0, LEARNT.0), "a test of nothing: {before:?}");
        // As if it had served long contexts, and they had shown this.
        let sql = "UPDATE rates SET decode_doubles_at = ?1, prefill_doubles_at = ?2";
        database(&agent)?.execute(sql, LEARNT)?;
        let agent = agent.again()?;
        agent.until(FOUND_WITHIN, "a session", |status| (status.state() == "serving").then_some(()))?;
        let after = doubles_at(&agent)?;
        ensure!(is_near(after.0, LEARNT.0) && is_near(after.1, LEARNT.1), "{after:?} is not {LEARNT:?}");
        Ok(())
    })
}

/// Whether a peer that measured nothing goes by what another one has measured, as far as that is plausible.
fn is_heard(heard: MoveOverhead, said: MoveOverhead, assumed: MoveOverhead) -> bool {
    let said_s = said.median_s.unwrap_or_default().clamp(assumed.used_s / PLAUSIBLE, assumed.used_s * PLAUSIBLE);
    heard.measured == 0 && (heard.used_s / said_s - 1.0).abs() < 0.03
}

#[test]
fn what_an_origin_measures_of_its_moves_reaches_whoever_coordinates() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b", "c"])?;
        let cluster = Cluster::new(lab, &hosts, |number, launch| {
            let launch = launch.fake(FAKE);
            Ok(if number == 0 { launch.busy() } else { launch })
        })?;
        let [origin, one, other] = &cluster.0[..] else { anyhow::bail!("three agents") };
        for worker in [one, other] {
            origin.until_serving(worker.peer()?, FOUND_WITHIN)?;
        }
        let assumed = one.status()?.overheads;
        let mut stream = origin.ask(&completion(FAKE_MODEL, &"word ".repeat(300), TOKENS))?;
        stream.read_pieces(10)?;
        let request = stream.request()?.to_owned();
        let reader = thread::spawn(move || stream.finish()?.whole());
        for _ in 0..MOVES {
            let story = origin.explain(&request)?;
            let worker = story.assignments.last().context("a worker")?.worker.clone();
            let to = if worker == one.peer()? { other.peer()? } else { one.peer()? };
            origin.move_request(&request, to, "whole", &[])?;
            within(SOON, "a worker that says tokens", || {
                let story = origin.explain(&request)?;
                let last = story.assignments.last().filter(|last| last.worker == to);
                Ok(last.and_then(|last| last.measured?.stall_ms))
            })?;
        }
        let answer = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??;
        ensure!(answer.moves == u64::from(MOVES), "{answer:?}");
        let measured = origin.status()?.overheads;
        let figures = [(measured.hand_off, "hand-off"), (measured.transfer, "transfer")];
        for (MoveOverhead { measured, median_s, .. }, what) in figures {
            ensure!(measured == MOVES && median_s.is_some(), "{what}: {measured} times, {median_s:?}");
        }
        ensure!(measured.detection.measured == 0 && measured.detection.used_s == assumed.detection.used_s);
        // None of the others has moved anything.
        for peer in [one, other] {
            peer.until(SOON, "what the origin has measured", |status| {
                let heard = status.overheads;
                let hand_off = is_heard(heard.hand_off, measured.hand_off, assumed.hand_off);
                let transfer = is_heard(heard.transfer, measured.transfer, assumed.transfer);
                (hand_off && transfer).then_some(())
            })
            .with_context(|| format!("the origin has {measured:?}, before there was {assumed:?}"))?;
        }
        Ok(())
    })
}
