//! Contexts between engines that keep their KV cache in other forms: refused before a byte travels, then made from the ids.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::MeasuredMove;
use idlewild_tests::lab::real_model;
use idlewild_tests::{Agent, Cluster, REAL_MODEL, Stream, Verdict, completion, in_lab, within};

/// The form of each host's KV cache; the first one has no model and asks.
const FORMS: [&str; 4] = ["f16", "f16", "q8_0", "q8_0"];

/// More than a move and a preparation take.
const TOKENS: u32 = 1500;

const FOUND_WITHIN: Duration = Duration::from_secs(20);

const MOVED_WITHIN: Duration = Duration::from_mins(1);

#[test]
fn contexts_travel_between_caches_of_one_form_and_to_others_as_ids() -> Verdict {
    let Some(model) = real_model()? else { return Ok(()) };
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b", "c", "d"])?;
        let cluster = Cluster::new(lab, &hosts, |number, launch| {
            let launch = launch.set("engine.kv_type", FORMS[number]);
            if number == 0 {
                return Ok(launch.busy());
            }
            launch.import(&model, REAL_MODEL)?;
            Ok(launch.scripted())
        })?;
        let [origin, f16, first, like] = &cluster.0[..] else { anyhow::bail!("four agents") };
        let serve = |worker: &Agent| {
            worker.owner("away")?;
            origin.until_serving(worker.peer()?, FOUND_WITHIN).map(drop)
        };
        serve(first)?;
        let mut stream = origin.ask(&completion(REAL_MODEL, &"one two three four five ".repeat(60), TOKENS))?;
        stream.read_pieces(3)?;
        let request = stream.request()?.to_owned();
        let reader = thread::spawn(move || Stream::finish(stream)?.whole());
        serve(like)?;
        serve(f16)?;
        let took = moved(origin, &request, like.peer()?)?;
        ensure!(took.pulled_tokens.unwrap_or(0) > 250, "q8_0 to q8_0: {took:?}");
        // A standby of another form reads the prompt itself.
        origin.move_request(&request, f16.peer()?, "whole", &["--prepare-only"])?;
        origin.until_standby(&request, 250, MOVED_WITHIN)?;
        let to = &f16.peer()?[f16.peer()?.len() - 8..];
        let pulls = format!("context is being pulled request={request} to={to}");
        ensure!(!like.log()?.contains(&pulls), "a context of eight bits was given to an engine of sixteen");
        let answer = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?.context("the stream")?;
        ensure!(answer.moves >= 1 && answer.error.is_none(), "{answer:?}");
        Ok(())
    })
}

/// Moves the request whole, as far as it travels; gives what that took.
fn moved(origin: &Agent, request: &str, to: &str) -> Result<MeasuredMove> {
    origin.move_request(request, to, "whole", &[])?;
    let (measured, _) = within(MOVED_WITHIN, "the preparation and the hand-over", || {
        let story = origin.explain(request)?;
        ensure!(story.error.is_none() && story.finish.is_none(), "it ended before its move: {story:#?}");
        let is_there = story.assignments.last().is_some_and(|last| last.worker == to);
        let prepared = story.moves.iter().rev().find(|step| step.step["prepare"]["destination"] == to);
        Ok(prepared.and_then(|step| step.measured).filter(|_| is_there))
    })?;
    Ok(measured)
}
