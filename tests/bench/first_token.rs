//! What the agent adds to the time until the first token, on the same machine and over one hop.
//!
//! With the fake engine, which reads a prompt in no time: what is left is the way there and back, to a tenth of a
//! millisecond. With a real model the way is the same, and its own prefill would hide it.

use std::path::Path;

use anyhow::{Context, Result};
use idlewild_engine::{Backend, FakeRates};
use idlewild_tests::agent::FOUND_WITHIN;
use idlewild_tests::{Agent, Cluster, FAKE_MODEL, Fake, completion, in_lab};

use crate::alone::Alone;
use crate::line;
use crate::sample::Sample;

/// Reads at once, steps a thousand times a second.
const RATES: Fake = Fake { prefill_tps: 1e9, decode_tps: 1000.0, load_ms: 0 };

/// Rounds, each one question to the engine alone, one to the worker's own API, one to an API a hop away.
const ROUNDS: usize = 60;

/// Before anything counts.
const WARM_UP: usize = 5;

pub(crate) fn run() -> Result<()> {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b"])?;
        let cluster = Cluster::new(lab, &hosts, |number, launch| {
            let launch = launch.fake(RATES).set("log.level", "info").set("engine.yield_to_all", true);
            Ok(if number == 0 { launch.busy() } else { launch })
        })?;
        let (near, far) = (&cluster.0[1], &cluster.0[0]);
        far.until_serving(near.peer()?, FOUND_WITHIN)?;
        let rates = FakeRates { prefill_tps: RATES.prefill_tps, decode_tps: RATES.decode_tps, load_ms: RATES.load_ms };
        let alone = Alone::start(Backend::Fake(rates), Path::new("none"))?;
        let (mut bare, mut local, mut hop) = (Sample::default(), Sample::default(), Sample::default());
        for round in 0..WARM_UP + ROUNDS {
            let prompt = format!("question number {round}");
            let times = alone.answer(std::slice::from_ref(&prompt), 3)?;
            let of_bare = millis(times[0].first - times[0].asked);
            let (of_near, of_far) = (ask(near, &prompt)?, ask(far, &prompt)?);
            if round >= WARM_UP {
                bare.push(of_bare);
                local.push(of_near - of_bare);
                hop.push(of_far - of_bare);
            }
        }
        let rtt_us = far.status()?.of(near.peer()?).and_then(|peer| peer.rtt_us).context("no round trip measured")?;
        line("first token, the bare engine, ms", &format!("{bare:.2}"), "")?;
        line("first token, added by the agent, ms", &format!("{local:.2}"), "under 5")?;
        let goal = format!("under 10 + round trip of {:.1}", f64::from(rtt_us) / 1000.0);
        line("first token, added by agent and one hop, ms", &format!("{hop:.2}"), &goal)
    })
}

fn ask(agent: &Agent, prompt: &str) -> Result<f64> {
    Ok(millis(agent.answer(&completion(FAKE_MODEL, prompt, 3))?.first_after()?))
}

fn millis(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
