//! An owner who touches a machine that works: when its engine has computed for the last time, and when others know; for each
//! way in which input is seen, and for an engine that computes on all cores.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use idlewild_engine::Backend;
use idlewild_tests::desktop::{Engine, Reaction, Sight, World};
use idlewild_tests::in_lab;
use idlewild_tests::lab::{can_have_desktop, real_model};

use crate::alone::{Alone, threads};
use crate::line;
use crate::moves::prompt;
use crate::sample::Sample;

/// Trials of each way, each of which takes the delay of a second and a little more.
const TRIALS: usize = 200;

/// Trials of a halt in the middle of a prompt of so many tokens, which fills most of a context.
const HALTS: usize = 200;
const PROMPT_TOKENS: u32 = 900;

/// A slow machine makes fewer of them.
const TIME_MAX: Duration = Duration::from_mins(8);

pub(crate) fn run() -> Result<()> {
    let Some(model) = real_model()? else { return Ok(()) };
    if !can_have_desktop()? {
        return Ok(());
    }
    let cores = u16::try_from(std::thread::available_parallelism()?.get()).unwrap_or(u16::MAX);
    let mut ways: Vec<(Sight, u16)> = Sight::ALL.map(|sight| (sight, threads())).to_vec();
    if cores != threads() {
        ways.push((Sight::X11, cores));
    }
    for (sight, threads) in ways {
        in_lab(|lab| {
            let mut world = World::new(lab, sight, &Engine::Real(model.clone(), threads))?;
            let (mut reactions, began) = (Vec::with_capacity(TRIALS), Instant::now());
            while reactions.len() < TRIALS && began.elapsed() < TIME_MAX {
                reactions.push(world.trial()?);
            }
            report(&format!("input at {}, {threads} threads, {} trials", sight.name(), reactions.len()), &reactions)
        })?;
    }
    halts(&model)
}

/// The longest steps are those in which a prompt is read: when an engine has computed for the last time that is halted in one.
fn halts(model: &Path) -> Result<()> {
    let engine = Alone::start(Backend::Llama, model)?;
    let mut stopped = Sample::default();
    for trial in 0..HALTS {
        let prompt = format!("Trial {trial}. {}", prompt(PROMPT_TOKENS));
        stopped.push(engine.halt_in_a_prompt(prompt)?.as_secs_f64() * 1000.0);
    }
    let what = format!("halt in a prompt, {} threads, {HALTS} trials", threads());
    line(&what, "ms: p50 p95 p99 most", "")?;
    line("  engine computed for the last time", &quantiles(&stopped), "p99 at most 100")
}

fn quantiles(sample: &Sample) -> String {
    [0.5, 0.95, 0.99, 1.0].map(|share| format!("{:.1}", sample.quantile(share))).join(" ")
}

fn report(what: &str, reactions: &[Reaction]) -> Result<()> {
    let figures = |of: fn(&Reaction) -> Option<Duration>| {
        let mut sample = Sample::default();
        for took in reactions.iter().filter_map(of) {
            sample.push(1000.0 * took.as_secs_f64());
        }
        quantiles(&sample)
    };
    line(what, "ms: p50 p95 p99 most", "")?;
    line("  engine told to stop", &figures(|reaction| Some(reaction.told)), "")?;
    line("  engine computed for the last time", &figures(|reaction| reaction.stopped), "p99 at most 100")?;
    line("  another peer knows", &figures(|reaction| Some(reaction.known)), "p99 at most 1000")
}
