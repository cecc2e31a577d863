//! A rogue talks to an origin without pause, as the standby or as the worker of a request: deadlines, plans and moves of that
//! request come to their turn all the same.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::Explanation;
use idlewild_tests::{Agent, Manner, Seen, Signal, Verdict, in_lab, within};

use super::{QUICKER, SLOWER, Scene, has_grown_little, memory, question};

/// A person who wants a request moved is answered by then.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// A worker that says no token, or is frozen, has its request taken from it by then.
const REPLACED_WITHIN: Duration = Duration::from_secs(5);

/// Until the flood has begun.
const BEGUN_WITHIN: Duration = Duration::from_secs(5);

const GROWTH_MAX_MB: u64 = 100;

/// Has a request moved, and says how long it took to be answered.
fn ask_for_a_move(origin: &Agent, request: &str, to: &Agent) -> Result<()> {
    let asked = Instant::now();
    origin.move_request(request, to.peer()?, "ids", &[])?;
    let took = asked.elapsed();
    ensure!(took <= ANSWERED_WITHIN, "a move was answered after {took:?}");
    Ok(())
}

/// Waits until a request has had another worker than its first.
fn replaced(origin: &Agent, request: &str) -> Result<Explanation> {
    let (story, _) = within(REPLACED_WITHIN, "another worker", || {
        Ok(Some(origin.explain(request)?).filter(|story| story.assignments.len() > 1))
    })
    .with_context(|| format!("story: {:#?}", origin.explain(request)))?;
    Ok(story)
}

/// One of the honest two works, x is made the standby and floods. With the worker's number.
fn flooded_by_its_standby(scene: &mut Scene, prompt: &str) -> Result<(super::Running, usize)> {
    scene.rogue.behave(Manner::FloodsEvents);
    let running = scene.begun_anywhere(prompt)?;
    let at = scene.cluster.position(&scene.worker_of(&running.request)?)?;
    scene.origin().move_request(&running.request, &scene.rogue.peer, "ids", &["--prepare-only"])?;
    scene.rogue.until_seen(BEGUN_WITHIN, "a preparation", |seen| matches!(seen, Seen::Prepares(_)))?;
    scene.origin().until_standby(&running.request, u32::MAX, BEGUN_WITHIN)?;
    Ok((running, at))
}

#[test]
fn a_standby_that_talks_without_pause_is_replaced_by_a_person_s_move() -> Verdict {
    in_lab(|lab| {
        let mut scene = Scene::new(lab, &["a", "b", "c", "x"], SLOWER)?;
        let before = memory(scene.origin())?;
        let (prompt, expected) = question(0)?;
        let (running, at) = flooded_by_its_standby(&mut scene, &prompt)?;
        let other = scene.worker(3 - at);
        ask_for_a_move(scene.origin(), &running.request, other)?;
        scene.origin().until_moved(&running.request, other.peer()?)?;
        let answer = running.exactly(&expected)?;
        ensure!(answer.moves == 1 && answer.worker.as_deref() == Some(other.peer()?), "{answer:?}");
        has_grown_little(scene.origin(), before, GROWTH_MAX_MB)
    })
}

#[test]
fn a_frozen_worker_is_replaced_while_the_standby_talks_without_pause() -> Verdict {
    in_lab(|lab| {
        let mut scene = Scene::new(lab, &["a", "b", "c", "x"], SLOWER)?;
        let before = memory(scene.origin())?;
        let (prompt, expected) = question(0)?;
        let (running, at) = flooded_by_its_standby(&mut scene, &prompt)?;
        scene.worker(at).signal(Signal::STOP)?;
        replaced(scene.origin(), &running.request)?;
        let answer = running.exactly(&expected)?;
        ensure!(answer.worker.as_deref() == Some(scene.worker(3 - at).peer()?), "{answer:?}");
        scene.worker(at).signal(Signal::CONT)?;
        has_grown_little(scene.origin(), before, GROWTH_MAX_MB)
    })
}

#[test]
fn a_worker_that_shows_signs_of_life_without_pause_and_no_token_is_replaced() -> Verdict {
    in_lab(|lab| {
        let scene = Scene::new(lab, &["a", "b", "x"], QUICKER)?;
        let before = memory(scene.origin())?;
        let (prompt, expected) = question(0)?;
        let running = scene.begun_at(&scene.rogue.peer, &prompt)?;
        scene.rogue.behave(Manner::FloodsEvents);
        let story = replaced(scene.origin(), &running.request)?;
        ensure!(story.assignments[0].ended.as_deref().is_some_and(|why| !why.contains("handed")), "{story:#?}");
        let answer = running.exactly(&expected)?;
        ensure!(answer.moves == 1 && answer.worker.as_deref() == Some(scene.worker(1).peer()?), "{answer:?}");
        has_grown_little(scene.origin(), before, GROWTH_MAX_MB)
    })
}

#[test]
fn a_request_can_be_moved_from_a_worker_that_talks_without_pause() -> Verdict {
    in_lab(|lab| {
        let scene = Scene::new(lab, &["a", "b", "x"], QUICKER)?;
        let (prompt, expected) = question(0)?;
        let running = scene.begun_at(&scene.rogue.peer, &prompt)?;
        scene.rogue.behave(Manner::FloodsEvents);
        ask_for_a_move(scene.origin(), &running.request, scene.worker(1))?;
        replaced(scene.origin(), &running.request)?;
        let answer = running.exactly(&expected)?;
        ensure!(answer.moves == 1 && answer.worker.as_deref() == Some(scene.worker(1).peer()?), "{answer:?}");
        Ok(())
    })
}
