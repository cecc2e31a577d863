//! The main promise, with real weights: a worker that is killed or frozen at any token changes not one letter.
//!
//! Greedy text is equal across a recompute only where the two likeliest tokens are further apart than the noise of
//! batching, so the prompt is one with wide margins at all 200 tokens.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::{FOUND_WITHIN, Status};
use idlewild_tests::lab::real_model;
use idlewild_tests::{Agent, Answer, Cluster, REAL_MODEL, Signal, Verdict, completion, in_lab};

/// What is asked: counting goes on with wide margins.
const PROMPT: &str = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30";

const TOKENS: u32 = 200;

/// Answers that are begun to have both workers loaded.
const MOST_BEGUN: usize = 8;

/// Tokens after which the worker is lost.
const AT_TOKENS: [usize; 4] = [0, 1, 40, 199];

/// How the worker is lost, and how long noticing may take.
#[derive(Debug, Clone, Copy)]
struct Loss {
    signal: Signal,
    pause_max: Duration,
}

const LOSSES: [Loss; 2] = [
    Loss { signal: Signal::KILL, pause_max: Duration::from_millis(1500) },
    Loss { signal: Signal::STOP, pause_max: Duration::from_secs(4) },
];

#[test]
fn a_worker_lost_at_any_token_changes_not_one_letter_of_the_answer() -> Verdict {
    let Some(model) = real_model()? else { return Ok(()) };
    in_lab(|lab| {
        let mut cluster = Cluster::of_real_workers(lab, &["a", "b", "c"], &model)?;
        warm(&cluster)?;
        let expected = cluster.0[0].answer(&completion(REAL_MODEL, PROMPT, TOKENS))?;
        let count = expected.pieces.len();
        ensure!(expected.finish.as_deref() == Some("length") && count > 150, "{expected:?}");
        for loss in LOSSES {
            for at in AT_TOKENS {
                let at = at.min(count - 1);
                let context = format!("{:?} at piece {at} of {count}", loss.signal);
                let answer = lose(&mut cluster, loss, at).with_context(|| context.clone())?;
                ensure!(
                    answer.text() == expected.text(),
                    "{context}: {:?} is not {:?}",
                    answer.text(),
                    expected.text()
                );
                ensure!(answer.finish.as_deref() == Some("length"), "{context}: {answer:?}");
                let counted = answer.usage.as_ref().and_then(|usage| usage["completion_tokens"].as_u64());
                ensure!(counted == Some(u64::from(TOKENS)), "{context}: {counted:?} tokens");
                warm(&cluster).with_context(|| context)?;
            }
        }
        Ok(())
    })
}

/// Runs the question, loses its worker after `at` pieces, and has the worker back afterwards.
fn lose(cluster: &mut Cluster, loss: Loss, at: usize) -> Result<Answer> {
    let mut stream = cluster.0[0].ask(&completion(REAL_MODEL, PROMPT, TOKENS))?;
    stream.read_pieces(at)?;
    let request = stream.request()?.to_owned();
    let worker = stream.so_far().worker.clone().context("the answer names its worker")?;
    let worker = cluster.position(&worker)?;
    let reader = thread::spawn(move || stream.finish()?.whole());
    let lost = Instant::now();
    if loss.signal == Signal::KILL {
        cluster.0[worker].kill()?;
    } else {
        cluster.0[worker].signal(loss.signal)?;
    }
    let answer = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??;

    let other = cluster.0[3 - worker].status()?.engine;
    let story = cluster.0[0].explain(&request)?;
    let moved_at = story.assignments.last().map_or(0, |last| last.from_index);
    // The context that had to be read again, at the rate that was measured; a step and a handshake besides.
    let prefill = Duration::from_secs_f32((100 + moved_at) as f32 / other.prefill_tps.max(50.0));
    let pause = answer.longest_pause_since(lost);
    let may = loss.pause_max + prefill + Duration::from_millis(250);
    ensure!(pause <= may, "paused for {pause:?} (at most {may:?}): {story:?}");

    if loss.signal == Signal::KILL {
        cluster.again(worker)?;
    } else {
        cluster.0[worker].signal(Signal::CONT)?;
    }
    Ok(answer)
}

/// Has the model loaded on both workers: a pause must not hide the time that loading takes. Long answers are begun until
/// the second worker is worth its loading, and then dropped.
fn warm(cluster: &Cluster) -> Result<()> {
    let is_ready = |agent: &Agent| Ok::<_, anyhow::Error>(agent.status()?.engine.model.is_some());
    let mut begun = Vec::new();
    for worker in &cluster.0[1..] {
        cluster.0[0].until_serving(worker.peer()?, Duration::from_secs(30))?;
    }
    for number in 0..MOST_BEGUN {
        if is_ready(&cluster.0[1])? && is_ready(&cluster.0[2])? {
            break;
        }
        let mut stream = cluster.0[0].ask(&completion(REAL_MODEL, &format!("Story {number}."), 1000))?;
        stream.read_pieces(1)?;
        begun.push(stream);
    }
    drop(begun);
    for worker in &cluster.0[1..] {
        ensure!(is_ready(worker)?, "not loaded: {:?}", worker.status()?.engine);
        worker.until(Duration::from_secs(5), "an idle engine", |status| (status.engine.running == 0).then_some(()))?;
        let loaded = |status: &Status| {
            let models = &status.of(worker.peer().ok()?)?.models;
            models.iter().any(|model| model["loaded"] == true && model["running"] == 0).then_some(())
        };
        cluster.0[0].until(FOUND_WITHIN, "a digest that says loaded and idle", loaded)?;
    }
    Ok(())
}
