//! A rogue holds the context of a request that is to go on at an honest peer: because a person moves it, or because the rogue's
//! owner is back. However it fails to give the context, the request goes on from the ids, soon and exactly.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use idlewild_protocol::ContextRefusal;
use idlewild_tests::agent::Assignment;
use idlewild_tests::{Filter, Lab, Manner, Seen, Verdict, in_lab};

use super::{QUICKER, Running, Scene, TOKENS, has_grown_little, memory, question};

/// The source goes on meanwhile.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Nobody goes on while a stopped holder is believed: a second, and the time to make the context.
const STOPPED_PAUSE_MAX: Duration = Duration::from_secs(3);

/// A rogue has this long to do what it is here to do.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

const NOTICE_MS: u32 = 5000;

/// Megabits a second: the context takes five seconds.
const SLOW_LINK: u32 = 20;

/// How its request leaves the rogue.
#[derive(Debug, Clone, Copy)]
enum Leaves {
    /// A person moves it, by this way.
    Moved(&'static str),
    /// The rogue says goodbye.
    Goodbye,
}

const ALL: [Leaves; 3] = [Leaves::Moved("whole"), Leaves::Moved("rest"), Leaves::Goodbye];

/// A request leaves the rogue in each way, and the rogue behaves in this manner.
fn leaves_a_rogue_that(manner: Manner) -> Verdict {
    in_lab(|lab| {
        let mut scene = Scene::new(lab, &["a", "b", "x"], QUICKER)?;
        for leaves in ALL {
            leave(&mut scene, leaves, manner, |_| Ok(()))
                .map_err(|error| error.context(format!("{leaves:?}, {manner:?}")))?;
        }
        Ok(())
    })
}

/// `meanwhile` is done when the first pull has reached the rogue.
fn leave(
    scene: &mut Scene,
    leaves: Leaves,
    manner: Manner,
    meanwhile: impl FnOnce(&Scene) -> Result<()>,
) -> Result<()> {
    let (prompt, expected) = question(0)?;
    let running = scene.begun_at(&scene.rogue.peer, &prompt)?;
    let honest = scene.worker(1).peer()?.to_owned();
    let before = memory(scene.worker(1))?;
    scene.rogue.behave(manner);
    scene.rogue.look();
    let asked = Instant::now();
    let pause_max = match leaves {
        Leaves::Moved(way) => {
            scene.origin().move_request(&running.request, &honest, way, &[])?;
            PAUSE_MAX
        }
        Leaves::Goodbye => {
            scene.rogue.leave(NOTICE_MS);
            STOPPED_PAUSE_MAX
        }
    };
    scene.rogue.until_seen(SEEN_WITHIN, "a pull", |seen| matches!(seen, Seen::Pulled(_)))?;
    meanwhile(scene)?;
    let story = scene.origin().until_moved(&running.request, &honest)?;
    let moved = Instant::now();
    // Long before its end: the holder was given up, and what it did not give was made.
    let is_there = |last: &Assignment| last.worker == honest && last.from_index < TOKENS * 9 / 10;
    ensure!(story.assignments.last().is_some_and(is_there), "it never moved, or late: {story:#?}");
    finish(scene, running, &expected, (asked, moved, pause_max), before)
}

fn finish(
    scene: &Scene,
    running: Running,
    expected: &str,
    (asked, moved, pause_max): (Instant, Instant, Duration),
    before: u64,
) -> Result<()> {
    let request = running.request.clone();
    let answer = running.exactly(expected)?;
    ensure!(answer.moves == 1, "{answer:?}: {:#?}", scene.origin().explain(&request)?);
    let pause = answer.longest_pause_within(asked, moved);
    ensure!(pause < pause_max, "it paused for {pause:?}: {:#?}", scene.origin().explain(&request)?);
    has_grown_little(scene.worker(1), before, 100)?;
    scene.rogue.behave(Manner::Honest);
    scene.rogue.come_back();
    scene.origin().until_serving(&scene.rogue.peer, SEEN_WITHIN)?;
    Ok(())
}

#[test]
fn an_honest_holder_of_this_kind_gives_its_context() -> Verdict {
    leaves_a_rogue_that(Manner::Honest)
}

#[test]
fn a_holder_that_never_answers_is_given_up() -> Verdict {
    leaves_a_rogue_that(Manner::NeverAnswers)
}

#[test]
fn a_holder_that_hangs_up_is_given_up() -> Verdict {
    leaves_a_rogue_that(Manner::HangsUp)
}

#[test]
fn a_holder_that_dribbles_is_given_up() -> Verdict {
    leaves_a_rogue_that(Manner::Slowly(Duration::from_millis(600)))
}

#[test]
fn a_holder_that_sends_other_positions_is_not_believed() -> Verdict {
    leaves_a_rogue_that(Manner::OtherRange)
}

#[test]
fn a_holder_that_says_it_is_gone_is_given_up() -> Verdict {
    leaves_a_rogue_that(Manner::Refuses(ContextRefusal::Gone))
}

#[test]
fn a_holder_that_never_holds_what_its_origin_says_is_given_up() -> Verdict {
    leaves_a_rogue_that(Manner::Refuses(ContextRefusal::NotHeld))
}

#[test]
fn a_holder_that_is_always_busy_is_given_up() -> Verdict {
    leaves_a_rogue_that(Manner::Refuses(ContextRefusal::Busy))
}

/// The transfer stops in the middle of a chunk: what was on its way does not arrive, and nobody is told.
fn stops_mid_chunk(lab: &Lab, leaves: Leaves) -> Verdict {
    let mut scene = Scene::new(lab, &["a", "b", "x"], QUICKER)?;
    for interface in scene.host.interfaces() {
        scene.host.shape(&interface, SLOW_LINK)?;
    }
    leave(&mut scene, leaves, Manner::Honest, |scene| scene.host.impose(Filter::NoTcp))
}

#[test]
fn a_holder_that_stops_in_the_middle_of_a_chunk_is_given_up_in_a_move() -> Verdict {
    in_lab(|lab| stops_mid_chunk(lab, Leaves::Moved("whole")))
}

#[test]
fn a_holder_that_stops_in_the_middle_of_a_chunk_is_given_up_in_a_split_move() -> Verdict {
    in_lab(|lab| stops_mid_chunk(lab, Leaves::Moved("rest")))
}

#[test]
fn a_holder_that_stops_in_the_middle_of_a_chunk_is_given_up_after_a_goodbye() -> Verdict {
    in_lab(|lab| stops_mid_chunk(lab, Leaves::Goodbye))
}
