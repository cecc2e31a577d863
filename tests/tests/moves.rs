//! Requests that move while they run, with the fake engine: whatever the way, whatever happens meanwhile, not one letter of
//! the answer changes. `real_moves.rs` does it with a real model.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::{Explanation, FOUND_WITHIN};
use idlewild_tests::{Answer, Cluster, FAKE_MODEL, Fake, Filter, Lab, Stream, Verdict, completion, in_lab, within};

/// Slow enough to be moved at leisure, quick enough for a test.
const FAKE: Fake = Fake { prefill_tps: 2000.0, decode_tps: 50.0, load_ms: 20 };

const TOKENS: u32 = 200;

/// A context that is worth a transfer.
const WORDS: usize = 600;

/// How long a destination may take to keep up.
const STANDBY_WITHIN: Duration = Duration::from_secs(20);

/// An origin that takes no work, and workers that do.
fn cluster(lab: &Lab, workers: usize) -> Result<Cluster> {
    cluster_of(lab, workers, FAKE)
}

fn cluster_of(lab: &Lab, workers: usize, fake: Fake) -> Result<Cluster> {
    let names = ["a", "b", "c", "d"];
    let (_, hosts) = lab.home(&names[..=workers])?;
    let cluster = Cluster::new(lab, &hosts, |number, launch| {
        let launch = launch.fake(fake);
        Ok(if number == 0 { launch.busy() } else { launch.scripted() })
    })?;
    for worker in &cluster.0[1..] {
        worker.owner("away")?;
        cluster.0[0].until_serving(worker.peer()?, FOUND_WITHIN)?;
    }
    Ok(cluster)
}

fn question(number: usize) -> serde_json::Value {
    question_of(number, TOKENS)
}

fn question_of(number: usize, tokens: u32) -> serde_json::Value {
    let words: Vec<String> = (0..WORDS).map(|word| format!("w{number}x{word}")).collect();
    completion(FAKE_MODEL, &words.join(" "), tokens)
}

/// A stream that has begun: its request, and the places of its worker and of another one.
fn begun(cluster: &Cluster, number: usize, pieces: usize) -> Result<(Stream, String, usize, usize)> {
    begun_with(cluster, &question(number), pieces)
}

fn begun_with(
    cluster: &Cluster,
    question: &serde_json::Value,
    pieces: usize,
) -> Result<(Stream, String, usize, usize)> {
    let mut stream = cluster.0[0].ask(question)?;
    stream.read_pieces(pieces)?;
    let request = stream.request()?.to_owned();
    let worker = cluster.0[0].explain(&request)?.assignments.last().context("an assignment")?.worker.clone();
    let worker = cluster.position(&worker)?;
    let other = (1..cluster.0.len()).find(|other| *other != worker).context("another worker")?;
    Ok((stream, request, worker, other))
}

fn reading(stream: Stream) -> thread::JoinHandle<Result<Answer>> {
    thread::spawn(move || stream.finish()?.whole())
}

fn finish(reader: thread::JoinHandle<Result<Answer>>) -> Result<Answer> {
    reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?.context("a stream")
}

fn is_exact(answer: &Answer, expected: &Answer) -> Result<()> {
    ensure!(answer.text() == expected.text(), "{:?} is not {:?}", answer.text(), expected.text());
    ensure!(answer.finish == expected.finish && answer.usage == expected.usage, "{answer:?} is not {expected:?}");
    Ok(())
}

#[test]
fn a_request_moves_by_ids_or_with_a_part_of_its_context_and_not_one_letter_changes() -> Verdict {
    moves_by(&["ids", "rest"], FAKE)
}

/// Whole, as long as it comes sooner than it is made: at this rate that leaves room for a busy machine.
#[test]
fn a_request_moves_with_the_whole_of_its_context_and_not_one_letter_changes() -> Verdict {
    moves_by(&["whole"], Fake { prefill_tps: 200.0, ..FAKE })
}

fn moves_by(ways: &[&str], fake: Fake) -> Verdict {
    in_lab(|lab| {
        let cluster = cluster_of(lab, 2, fake)?;
        for (number, way) in ways.iter().copied().enumerate() {
            let expected = cluster.0[0].answer(&question(number))?;
            let (stream, request, worker, other) = begun(&cluster, number, 30)?;
            let reader = reading(stream);
            let asked = Instant::now();
            cluster.0[0].move_request("last", cluster.0[other].peer()?, way, &[])?;
            let story = cluster.0[0].until_moved(&request, cluster.0[other].peer()?)?;
            let answer = finish(reader)?;
            is_exact(&answer, &expected).with_context(|| way.to_owned())?;
            let [first, second] = &story.assignments[..] else { anyhow::bail!("{way}: {story:#?}") };
            let ended = first.ended.as_deref().unwrap_or_default();
            ensure!(ended.contains("handed over"), "{way}: {story:#?}");
            ensure!(second.from_index > 30 && second.from_index < TOKENS, "{way}: {story:#?}");
            ensure!(worker != other && answer.moves == 1, "{way}: {answer:?}");
            // Far less than detection and prefill would take, however busy the machine is.
            ensure!(answer.longest_pause_since(asked) < Duration::from_secs(2), "{way}: {answer:?}");
            pulled_as_asked(way, &story)?;
        }
        Ok(())
    })
}

/// What a worker took that went on is on record, planned or not. What a standby pulled stands with its plan.
fn went_on_as_told(story: &Explanation, has_standby: bool) -> Result<()> {
    let measured = story.assignments.last().and_then(|last| last.measured).context("what it took")?;
    let has_pulled = measured.pulled_tokens.unwrap_or(0) > 0 && measured.bytes.unwrap_or(0) > 0;
    ensure!(measured.stall_ms.is_some() && (has_pulled || has_standby), "{story:#?}");
    Ok(())
}

/// What was moved is what was reused: a success without its tokens would be none.
fn pulled_as_asked(way: &str, story: &Explanation) -> Result<()> {
    let pulled = story.moves.iter().filter_map(|step| step.measured.as_ref()?.pulled_tokens).max().unwrap_or(0);
    let context = WORDS as u32 + 30;
    match way {
        "ids" => ensure!(pulled == 0, "{pulled} tokens pulled: {story:#?}"),
        "whole" => ensure!(pulled >= context * 9 / 10, "{pulled} tokens pulled: {story:#?}"),
        _ => ensure!(pulled > 0, "{pulled} tokens pulled: {story:#?}"),
    }
    Ok(())
}

#[test]
fn an_owner_who_returns_leaves_the_request_to_the_standby_or_to_whoever_pulls_it() -> Verdict {
    in_lab(|lab| {
        // Read slowly, so that what is pulled is what was not made, however late the pull begins.
        let cluster = cluster_of(lab, 2, Fake { prefill_tps: 200.0, ..FAKE })?;
        for (number, has_standby) in [true, false].into_iter().enumerate() {
            let expected = cluster.0[0].answer(&question(number))?;
            let (stream, request, worker, other) = begun(&cluster, number, 30)?;
            let reader = reading(stream);
            if has_standby {
                cluster.0[0].move_request(&request, cluster.0[other].peer()?, "whole", &["--prepare-only"])?;
                cluster.0[0].until_standby(&request, 32, STANDBY_WITHIN)?;
            }
            let returned = Instant::now();
            cluster.0[worker].owner("present")?;
            let story = cluster.0[0].until_moved(&request, cluster.0[other].peer()?)?;
            let answer = finish(reader)?;
            is_exact(&answer, &expected).with_context(|| format!("standby: {has_standby}"))?;
            ensure!(answer.moves == 1, "{answer:?}");
            let pause = answer.longest_pause_since(returned);
            ensure!(pause < Duration::from_secs(2), "standby: {has_standby}, paused for {pause:?}: {story:#?}");
            let had_standby =
                was_not_made_again(&cluster.0[other].log()?, &request).with_context(|| format!("{story:#?}"))?;
            ensure!(had_standby || !has_standby, "its standby was passed over: {story:#?}");
            went_on_as_told(&cluster.0[0].explain(&request)?, had_standby)?;
            // The memory is the owner's again once nobody wants the context.
            within(Duration::from_secs(4), "an engine that is gone", || {
                Ok(cluster.0[worker].engine_pid().is_none().then_some(()))
            })?;
            cluster.0[worker].owner("away")?;
            cluster.0[0].until_serving(cluster.0[worker].peer()?, FOUND_WITHIN)?;
        }
        Ok(())
    })
}

#[test]
fn an_agent_that_stops_gives_its_context_to_whoever_pulls_it() -> Verdict {
    in_lab(|lab| {
        let mut cluster = cluster_of(lab, 2, Fake { prefill_tps: 200.0, ..FAKE })?;
        let expected = cluster.0[0].answer(&question(0))?;
        let (stream, request, worker, other) = begun(&cluster, 0, 30)?;
        let reader = reading(stream);
        let ended = cluster.0[worker].stop()?;
        ensure!(ended.success(), "{ended}");
        is_exact(&finish(reader)?, &expected)?;
        let had_standby = was_not_made_again(&cluster.0[other].log()?, &request)?;
        went_on_as_told(&cluster.0[0].explain(&request)?, had_standby)
    })
}

/// It was pulled; or a standby went on with what it had: a coordinator that heard of the departure first may have had one
/// prepare. Whether it was a standby.
fn was_not_made_again(log: &str, request: &str) -> Result<bool> {
    let drew = logged(log, "begins to draw", request)?;
    let took_over = logged(log, "takes over", request).ok();
    let had_some = took_over.as_ref().is_some_and(|took_over| took_over.lag < WORDS as u32);
    ensure!(drew.pulled > 0 || had_some, "all of it was made again: {drew:?}, {took_over:?}");
    Ok(took_over.is_some())
}

/// What a worker's log says of a take-over: the tokens that it lacked, and those that it had pulled.
#[derive(Debug)]
struct Logged {
    lag: u32,
    pulled: u32,
}

fn logged(log: &str, what: &str, request: &str) -> Result<Logged> {
    let line = log.lines().rfind(|line| line.contains(what) && line.contains(request));
    let line = line.with_context(|| format!("no word of {what:?} in the log"))?;
    let field = |name: &str| {
        let value = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.with_context(|| format!("no {name} in {line:?}"))?.parse::<u32>().context("a number")
    };
    Ok(Logged { lag: field("lag")?, pulled: field("pulled")? })
}

#[test]
fn a_destination_that_dies_while_it_prepares_has_changed_nothing() -> Verdict {
    in_lab(|lab| {
        let mut cluster = cluster(lab, 2)?;
        let expected = cluster.0[0].answer(&question(0))?;
        let (stream, request, worker, other) = begun(&cluster, 0, 20)?;
        let reader = reading(stream);
        cluster.0[0].move_request(&request, cluster.0[other].peer()?, "whole", &["--prepare-only"])?;
        cluster.0[other].kill()?;
        let answer = finish(reader)?;
        is_exact(&answer, &expected)?;
        ensure!(answer.moves == 0 && answer.worker.as_deref() == Some(cluster.0[worker].peer()?), "{answer:?}");
        Ok(())
    })
}

#[test]
fn a_source_that_dies_leaves_the_standby_what_it_holds() -> Verdict {
    in_lab(|lab| {
        let mut cluster = cluster(lab, 2)?;
        let expected = cluster.0[0].answer(&question(0))?;
        let (stream, request, worker, other) = begun(&cluster, 0, 20)?;
        let reader = reading(stream);
        cluster.0[0].move_request(&request, cluster.0[other].peer()?, "whole", &["--prepare-only"])?;
        cluster.0[0].until_standby(&request, 32, STANDBY_WITHIN)?;
        cluster.0[worker].kill()?;
        let answer = finish(reader)?;
        is_exact(&answer, &expected)?;
        ensure!(answer.moves == 1 && answer.worker.as_deref() == Some(cluster.0[other].peer()?), "{answer:?}");
        Ok(())
    })
}

/// Scenario 10: a third of all packets is lost for five seconds in the middle of a stream, while the request moves.
#[test]
fn a_lossy_network_delays_a_move_and_loses_nothing() -> Verdict {
    in_lab(|lab| {
        let cluster = cluster(lab, 2)?;
        // Long enough to move after the loss, if not during it.
        let question = question_of(0, 2 * TOKENS);
        let expected = cluster.0[0].answer(&question)?;
        let (stream, request, worker, other) = begun_with(&cluster, &question, 20)?;
        let reader = reading(stream);
        let lossy = Filter::Loss { percent: 30 };
        cluster.0[worker].host().impose(lossy)?;
        cluster.0[0].move_request(&request, cluster.0[other].peer()?, "whole", &[])?;
        thread::sleep(Duration::from_secs(5));
        cluster.0[worker].host().lift(lossy)?;
        let story = cluster.0[0].until_moved(&request, cluster.0[other].peer()?)?;
        let answer = finish(reader)?;
        is_exact(&answer, &expected)?;
        ensure!(
            answer.moves == 1 && answer.worker.as_deref() == Some(cluster.0[other].peer()?),
            "{answer:?}: {story:#?}"
        );
        Ok(())
    })
}
