//! What the agent costs over the bare engine, while nobody asks anything, and its owner while it works. `bench.sh` builds and
//! runs this.
//!
//! Where two things are compared they run in turns and each pair gives one figure: a machine that is slower for a moment
//! slows both. Printed are medians, with the quartiles, since a median alone hides a noisy machine.

mod alone;
mod courtesy;
mod decode;
mod evacuation;
mod first_token;
mod foreground;
mod idle;
mod moves;
mod presence;
mod sample;

use std::io::Write;

use anyhow::{Result, bail};

/// A part of the bench: its name, and what it measures.
type Part = (&'static str, fn() -> Result<()>);

const PARTS: [Part; 8] = [
    ("decode", decode::run),
    ("first-token", first_token::run),
    ("idle", idle::run),
    ("gossip", idle::run_gossip),
    ("moves", moves::run),
    ("evacuation", evacuation::run),
    ("presence", presence::run),
    ("courtesy", courtesy::run),
];

fn main() -> Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|name| PARTS.iter().all(|(known, _)| known != name)) {
        let known: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        bail!("no part is called {unknown}; there are {}", known.join(", "));
    }
    for (name, run) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            run()?;
        }
    }
    Ok(())
}

/// Prints one figure, its unit, and what is wanted of it.
fn line(what: &str, figure: &str, goal: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{what:<58} {figure:<34} {goal}")?;
    Ok(())
}
