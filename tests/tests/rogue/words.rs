//! A rogue is the origin of a job at an honest worker, and talks to it without pause: what that worker does for others goes on.

use anyhow::ensure;
use idlewild_tests::{Verdict, in_lab};

use super::{Running, SLOWER, Scene, has_grown_little, memory, question};

/// Words of the flood.
const WORDS: u32 = 100_000;

const GROWTH_MAX_MB: u64 = 100;

/// A worker's number, and the other's.
fn where_it_runs(scene: &Scene, running: &Running) -> anyhow::Result<(usize, usize)> {
    let at = scene.cluster.position(&scene.worker_of(&running.request)?)?;
    Ok((at, 3 - at))
}

#[test]
fn a_worker_that_is_told_something_without_pause_still_gets_ready_for_another_request() -> Verdict {
    in_lab(|lab| {
        let scene = Scene::new(lab, &["a", "b", "c", "x"], SLOWER)?;
        let (prompt, expected) = question(0)?;
        let running = scene.begun_anywhere(&prompt)?;
        let (_, other) = where_it_runs(&scene, &running)?;
        let destination = scene.worker(other);
        let before = memory(destination)?;
        let job = scene.rogue.job_of_its_own("a job of the rogue's own", 1000)?;
        let flood = scene.rogue.flood_words(destination, job, WORDS)?;
        idlewild_tests::eventually(std::time::Duration::from_secs(5), "the flood", || Ok(flood.sent() > 100))?;
        scene.origin().move_request(&running.request, destination.peer()?, "whole", &[])?;
        let story = scene.origin().until_moved(&running.request, destination.peer()?)?;
        ensure!(story.assignments.len() == 2, "{} words were taken: {story:#?}", flood.sent());
        let answer = running.exactly(&expected)?;
        ensure!(answer.moves == 1 && answer.worker.as_deref() == Some(destination.peer()?), "{answer:?}");
        has_grown_little(destination, before, GROWTH_MAX_MB)
    })
}
