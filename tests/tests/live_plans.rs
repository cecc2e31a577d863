//! The coordinator itself prepares, from live digests: nobody says `idlewild move`.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::{Explanation, FOUND_WITHIN, MoveStep};
use idlewild_tests::{Agent, Cluster, FAKE_MODEL, Fake, Stream, Verdict, completion, in_lab, undisturbed, within};

/// Slow, so that the rest of an answer takes long against what a preparation does.
const FAKE: Fake = Fake { prefill_tps: 2000.0, decode_tps: 15.0, load_ms: 20 };

/// 27 seconds.
const TOKENS: u32 = 400;

const WORDS: usize = 300;

/// Sessions on record: many, so that they outweigh what is believed of an unknown machine.
const SESSIONS: i64 = 100;

/// The shortest of them, and by how much each is longer than the one before, in milliseconds: a machine whose owner is back
/// within half a minute, at any time of it.
const SHORTEST_MS: i64 = 1000;
const STEP_MS: i64 = 300;

/// A plan is made within a round or two of the coordinator's.
const PLANNED_WITHIN: Duration = Duration::from_secs(15);

/// Has an agent remember sessions that were all very short. It is stopped.
fn remember_short_sessions(agent: &Agent) -> Result<()> {
    let path = agent.launch().home_path().join("data/idlewild.db");
    let mut database = rusqlite::Connection::open(path).context("open the database")?;
    let change = database.transaction()?;
    for number in 0..SESSIONS {
        let length_ms = SHORTEST_MS + number * STEP_MS;
        change.execute(
            "INSERT INTO sessions (boot, started_s, length_ms, ended_s, cause) VALUES (0, 0, ?1, ?2, 'owner_returned')",
            (length_ms, length_ms / 1000),
        )?;
    }
    change.commit().context("write the sessions")
}

fn step<'s>(story: &'s Explanation, kind: &str, to: &str) -> Option<&'s MoveStep> {
    story.moves.iter().find(|step| step.refused.is_none() && is(step, kind, to))
}

/// Whether it is a step of that kind, to that peer.
fn is(step: &MoveStep, kind: &str, to: &str) -> bool {
    let text = step.step.to_string();
    text.contains(kind) && text.contains(to)
}

/// A plan of a coordinator's carries what was weighed, and why it came out so.
fn is_explained(step: &MoveStep, reason: &str, to: &str, leader: &str) -> Result<()> {
    ensure!(step.decided_by == leader, "not the coordinator's: {step:#?}");
    ensure!(step.terms["reason"] == reason, "{step:#?}");
    let weighed = step.terms["weighed"].as_array().context("what was weighed")?;
    let chosen = weighed.iter().find(|weighed| weighed["terms"]["peer"] == to);
    let test = chosen.context("the chosen one was weighed")?["test"].as_array().context("a test")?;
    let side = |at: usize| test.get(at).and_then(serde_json::Value::as_f64).context("a side of the test");
    ensure!(side(0)? > side(1)?, "the test passes: {step:#?}");
    Ok(())
}

#[test]
fn a_worker_that_never_stays_for_long_is_given_a_standby_which_goes_on_when_it_goes() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b", "c"])?;
        let mut cluster = Cluster::new(lab, &hosts, |number, launch| {
            let launch = launch.fake(FAKE);
            Ok(match number {
                0 => launch.busy(),
                _ => launch.scripted(),
            })
        })?;
        let mut restless = cluster.0.remove(1);
        restless.stop()?;
        remember_short_sessions(&restless)?;
        cluster.0.insert(1, restless.again()?);
        let [origin, restless, steady] = &cluster.0[..] else { anyhow::bail!("three agents") };
        restless.owner("away")?;
        origin.until_serving(restless.peer()?, FOUND_WITHIN)?;

        let words: Vec<String> = (0..WORDS).map(|word| format!("w{word}")).collect();
        let prompt = words.join(" ");
        let expected = undisturbed(&prompt, TOKENS)?;
        let mut stream = origin.ask(&completion(FAKE_MODEL, &prompt, TOKENS))?;
        stream.read_pieces(10)?;
        let request = stream.request()?.to_owned();
        let reader = thread::spawn(move || Stream::finish(stream)?.whole());
        steady.owner("away")?;
        origin.until_serving(steady.peer()?, FOUND_WITHIN)?;
        // Nobody prepares where the model has to be loaded first. This is long enough for the other one to be a risk.
        let loads = steady.answer(&completion(FAKE_MODEL, "its own", 20))?;
        ensure!(loads.worker.as_deref() == Some(steady.peer()?), "{loads:?}");

        let (story, _) = within(PLANNED_WITHIN, "a standby that nobody asked for", || {
            let story = origin.explain(&request)?;
            ensure!(story.finish.is_none(), "it has ended where it was: {story:#?}");
            let keeps_up = story.standby.as_ref().is_some_and(|standby| standby.lag_tokens < 20);
            Ok(keeps_up.then_some(story))
        })
        .with_context(|| format!("story: {:#?}", origin.explain(&request)))?;
        let (leader, _) = origin.until(FOUND_WITHIN, "a coordinator", |status| status.coordinator.clone())?;
        let prepare = step(&story, "prepare", steady.peer()?).with_context(|| format!("no PREPARE: {story:#?}"))?;
        is_explained(prepare, "preparation_pays", steady.peer()?, &leader.leader)?;

        restless.owner("present")?;
        let story = origin.until_moved(&request, steady.peer()?)?;
        ensure!(story.assignments.last().is_some_and(|last| last.worker == steady.peer().unwrap_or("")), "{story:#?}");
        let answer = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?.context("a stream")?;
        ensure!(answer.text() == expected && answer.moves == 1, "{answer:?} is not {expected:?}");
        Ok(())
    })
}
