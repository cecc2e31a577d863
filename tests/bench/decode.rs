//! Decoded tokens a second through the API, over those of the bare engine.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, bail};
use idlewild_engine::Backend;
use idlewild_tests::lab::real_model;
use idlewild_tests::{Agent, Answer, Launch, REAL_MODEL, completion, in_lab};

use crate::alone::{Alone, CONTEXT_TOKENS, KV_TOKENS, SLOTS, Times, threads};
use crate::line;
use crate::sample::Sample;

/// Tokens of each answer: some seconds for four at once on a small machine.
const TOKENS: u32 = 128;

/// Pairs of runs, after one that warms both up.
const ROUNDS: usize = 7;

pub(crate) fn run() -> Result<()> {
    let Some(model) = real_model()? else { return Ok(()) };
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a"])?;
        let launch = Launch::new(lab, &hosts[0])?
            .set("engine.yield_to_all", true)
            .set("engine.threads", threads())
            .set("engine.slots", SLOTS)
            .set("engine.context_tokens", CONTEXT_TOKENS)
            .set("engine.kv_tokens", KV_TOKENS)
            .set("log.level", "info");
        launch.import(&model, REAL_MODEL)?;
        let agent = launch.up()?;
        let alone = Alone::start(Backend::Llama, &kept_model(agent.launch().home_path())?)?;
        for together in [1, 4] {
            let prompts: Vec<String> = (0..together).map(|n| format!("Story number {n}. Once upon a time")).collect();
            let (mut ratio, mut bare, mut api) = (Sample::default(), Sample::default(), Sample::default());
            for round in 0..=ROUNDS {
                // The order changes, so that neither always runs on the warmer machine.
                let (of_bare, of_api) = if round % 2 == 0 {
                    let of_bare = rate(&alone.answer(&prompts, TOKENS)?)?;
                    (of_bare, rate(&through_api(&agent, &prompts)?)?)
                } else {
                    let of_api = rate(&through_api(&agent, &prompts)?)?;
                    (rate(&alone.answer(&prompts, TOKENS)?)?, of_api)
                };
                if round > 0 {
                    ratio.push(of_api / of_bare);
                    bare.push(of_bare);
                    api.push(of_api);
                }
            }
            let what = format!("decode, {together} at once: API over bare engine");
            line(&what, &format!("{ratio:.3}"), "at least 0.97")?;
            line("  tokens/s bare, through the API", &format!("{bare:.1}, {api:.1}"), "")?;
        }
        Ok(())
    })
}

/// The agent's own copy of the model: another copy may lie in memory in other pieces, and be slower or faster by a tenth.
fn kept_model(home: &Path) -> Result<PathBuf> {
    let mut pending = vec![home.join("data/models")];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).context("read the model store")?.flatten() {
            let about = entry.metadata()?;
            if about.is_dir() {
                pending.push(entry.path());
            } else if about.len() > 1_000_000 {
                return Ok(entry.path());
            }
        }
    }
    bail!("no model in {}", home.display())
}

/// Tokens a second of all together, from the first token of any to the last of all.
fn rate(answers: &[Times]) -> Result<f64> {
    let first = answers.iter().map(|times| times.first).min().context("no answers")?;
    let last = answers.iter().map(|times| times.last).max().context("no answers")?;
    let tokens: u32 = answers.iter().map(|times| times.tokens - 1).sum();
    Ok(f64::from(tokens) / (last - first).as_secs_f64())
}

fn through_api(agent: &Agent, prompts: &[String]) -> Result<Vec<Times>> {
    // Each asks on a thread of its own: headers come with the first word, and the others must not wait for it.
    thread::scope(|scope| {
        let ask = |prompt: &String| {
            let body = completion(REAL_MODEL, prompt, TOKENS);
            scope.spawn(move || times(&agent.answer(&body)?))
        };
        let readers: Vec<_> = prompts.iter().map(ask).collect();
        let join = |reader: thread::ScopedJoinHandle<'_, Result<Times>>| {
            reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?
        };
        readers.into_iter().map(join).collect()
    })
}

fn times(answer: &Answer) -> Result<Times> {
    let counted = answer.usage.as_ref().and_then(|usage| usage["completion_tokens"].as_u64());
    let tokens = counted.context("the answer counts no tokens")? as u32;
    let (first, last) = answer.pieces.first().zip(answer.pieces.last()).context("an answer without text")?;
    Ok(Times { asked: answer.sent, first: first.at, last: last.at, tokens })
}
