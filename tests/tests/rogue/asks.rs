//! A rogue asks an honest holder for contexts: those that are not its business, and more than it reads.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_protocol::PeerId;
use idlewild_tests::{Seen, Verdict, in_lab};

use super::{SLOWER, Scene, has_grown_little, memory, question};

/// An offer is waited for 2 s, in case that it was overtaken.
const TURNED_AWAY_WITHIN: Duration = Duration::from_secs(3);

/// Between two tokens of a worker that is beset: 20 ms apart when all is well. One that is held up stands until the rogue reads.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long it is watched: what it is asked for takes a quarter of that.
const BESET: Duration = Duration::from_secs(2);

/// Streams of a rogue that asks for a context again and again.
const STREAMS: usize = 50;

/// Pulls that may be under way on a stream.
const PULLS: u32 = 4;

const GROWTH_MAX_MB: u64 = 150;

#[test]
fn a_context_goes_to_nobody_to_whom_it_was_not_offered() -> Verdict {
    in_lab(|lab| {
        let scene = Scene::new(lab, &["a", "b", "x"], SLOWER)?;
        let (prompt, expected) = question(0)?;
        let holder = scene.worker(1);
        let running = scene.begun_at(holder.peer()?, &prompt)?;
        let origin: PeerId = scene.origin().peer()?.parse().context("a peer's id")?;
        for whose in [origin, scene.rogue.id()] {
            let asked = scene.rogue.ask(holder, scene.rogue.context_of(whose, &running.request)?)?;
            ensure!(asked.took < TURNED_AWAY_WITHIN && asked.bytes == 0, "{asked:?}");
            ensure!(!asked.outcome.contains("chunk"), "{asked:?}");
        }
        let answer = running.exactly(&expected)?;
        ensure!(answer.moves == 0, "{answer:?}");
        Ok(())
    })
}

#[test]
fn pulls_of_a_context_that_nobody_offered_hold_nobody_up_and_fill_no_memory() -> Verdict {
    in_lab(|lab| {
        let scene = Scene::new(lab, &["a", "b", "x"], SLOWER)?;
        let (prompt, expected) = question(0)?;
        let holder = scene.worker(1);
        let running = scene.begun_at(holder.peer()?, &prompt)?;
        let before = memory(holder)?;
        let beset = Instant::now();
        let origin: PeerId = scene.origin().peer()?.parse().context("a peer's id")?;
        let opened =
            scene.rogue.pull_unread(holder, scene.rogue.context_of(origin, &running.request)?, STREAMS, PULLS)?;
        ensure!(opened > 0, "not one stream could be opened");
        goes_on(&scene, running, &expected, (beset, before))
    })
}

#[test]
fn a_destination_that_pulls_and_does_not_read_holds_nobody_up_and_fills_no_memory() -> Verdict {
    in_lab(|lab| {
        let mut scene = Scene::new(lab, &["a", "b", "x"], SLOWER)?;
        let (prompt, expected) = question(0)?;
        let running = scene.begun_at(scene.worker(1).peer()?, &prompt)?;
        let before = memory(scene.worker(1))?;
        scene.origin().move_request(&running.request, &scene.rogue.peer, "whole", &["--prepare-only"])?;
        scene.rogue.until_seen(Duration::from_secs(5), "a preparation", |seen| matches!(seen, Seen::Prepares(_)))?;
        let beset = Instant::now();
        let origin: PeerId = scene.origin().peer()?.parse().context("a peer's id")?;
        let open = scene.rogue.context_of(origin, &running.request)?;
        let opened = scene.rogue.pull_unread(scene.worker(1), open, 4, PULLS)?;
        ensure!(opened == 4, "{opened} streams were opened");
        goes_on(&scene, running, &expected, (beset, before))
    })
}

fn goes_on(scene: &Scene, running: super::Running, expected: &str, (beset, before): (Instant, u64)) -> Result<()> {
    let beset_until = Instant::now() + BESET;
    let answer = running.exactly(expected)?;
    has_grown_little(scene.worker(1), before, GROWTH_MAX_MB)?;
    let pause = answer.longest_pause_within(beset, beset_until);
    ensure!(answer.moves == 0 && pause < PAUSE_MAX, "paused for {pause:?}: {answer:?}");
    scene.rogue.close_unread();
    Ok(())
}
