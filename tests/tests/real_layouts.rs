//! Contexts between engines that keep their KV cache in other forms: refused before a byte travels, then made from the ids.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::MeasuredMove;
use idlewild_tests::lab::real_model;
use idlewild_tests::{Agent, Cluster, REAL_MODEL, Stream, Verdict, completion, in_lab, within};

/// The form of each host's KV cache; the first one has no model and asks.
const FORMS: [&str; 4] = ["f16", "f16", "q8_0", "q8_0"];

const TOKENS: u32 = 400;

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
        let origin = &cluster.0[0];
        let serve = |worker: &Agent| -> Result<()> {
            worker.owner("away")?;
            origin.until_serving(worker.peer()?, FOUND_WITHIN)?;
            let own = worker.answer(&completion(REAL_MODEL, "one two", 2))?;
            ensure!(own.done, "{own:?}");
            Ok(())
        };
        serve(&cluster.0[1])?;
        let mut stream = origin.ask(&completion(REAL_MODEL, &"one two three four five ".repeat(60), TOKENS))?;
        stream.read_pieces(3)?;
        serve(&cluster.0[2])?;
        serve(&cluster.0[3])?;
        let request = stream.request()?.to_owned();
        let reader = thread::spawn(move || Stream::finish(stream)?.whole());
        let to_another = moved(origin, &request, cluster.0[2].peer()?)?;
        ensure!(to_another.bytes.unwrap_or(0) == 0, "f16 to q8_0 sent KV: {to_another:?}");
        ensure!(to_another.pulled_tokens.unwrap_or(0) == 0, "f16 to q8_0 pulled: {to_another:?}");
        let log = cluster.0[2].log()?;
        let of_pulls: Vec<&str> = log.lines().filter(|line| line.contains("KV cache")).collect();
        let is_refused_once = of_pulls.len() == 1 && of_pulls[0].contains("not given");
        ensure!(is_refused_once, "one refusal, with its reason, and no further stream: {of_pulls:#?}");
        let to_its_like = moved(origin, &request, cluster.0[3].peer()?)?;
        ensure!(to_its_like.pulled_tokens.unwrap_or(0) > 250, "q8_0 to q8_0 pulled: {to_its_like:?}");
        let back = moved(origin, &request, cluster.0[1].peer()?)?;
        ensure!(back.pulled_tokens.unwrap_or(0) == 0, "q8_0 to f16 pulled: {back:?}");
        let answer = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?.context("the stream")?;
        ensure!(answer.moves == 3 && answer.error.is_none(), "{answer:?}");
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
