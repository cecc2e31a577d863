//! Contexts between engines that keep their KV cache in other forms: refused before a byte travels, then made from the ids.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::MeasuredMove;
use idlewild_tests::lab::real_model;
use idlewild_tests::{Agent, Cluster, REAL_MODEL, Stream, Verdict, completion, in_lab, within};

/// The form of each host's KV cache; the first one has no model and asks.
const FORMS: [&str; 4] = ["f16", "f16", "q8_0", "q8_0"];

/// More than three moves last: the last of them end the test's interest.
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
        let origin = &cluster.0[0];
        for worker in &cluster.0[1..] {
            worker.owner("away")?;
            origin.until_serving(worker.peer()?, FOUND_WITHIN)?;
        }
        let mut stream = origin.ask(&completion(REAL_MODEL, &"one two three four five ".repeat(60), TOKENS))?;
        stream.read_pieces(3)?;
        let request = stream.request()?.to_owned();
        let first = origin.explain(&request)?.assignments.last().context("a worker")?.worker.clone();
        let reader = thread::spawn(move || Stream::finish(stream)?.whole());
        // Round the three workers: once between two of one form, twice between two forms.
        let mut at = cluster.position(&first)?;
        for _ in 0..3 {
            let to = at % 3 + 1;
            let took = moved(origin, &request, cluster.0[to].peer()?)?;
            let (pulled, bytes) = (took.pulled_tokens.unwrap_or(0), took.bytes.unwrap_or(0));
            let way = format!("{} to {}: {took:?}", FORMS[at], FORMS[to]);
            if FORMS[at] == FORMS[to] {
                ensure!(pulled > 250, "{way}");
            } else {
                ensure!(pulled == 0 && bytes == 0, "{way}");
                let refusals = refused(&cluster.0[to], &request)?;
                // None where the digests told the origin before.
                ensure!(refusals <= 1, "{way}: asked {refusals} times");
            }
            at = to;
        }
        let answer = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?.context("the stream")?;
        ensure!(answer.moves >= 3 && answer.error.is_none(), "{answer:?}");
        Ok(())
    })
}

/// How often an agent's log says that a KV cache was refused to it for its form, for this request.
fn refused(agent: &Agent, request: &str) -> Result<usize> {
    let log = agent.log()?;
    let from = log.rfind(&format!("job began request={request}")).context("the job is in the log")?;
    Ok(log[from..].matches("the KV cache is not given").count())
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
