//! Prompts that wait behind older ones: they show that they are alive.

use super::standbys::story;
use super::*;

/// At this rate a step reads sixteen tokens.
const SLOW_TPS: f32 = 20.0;

/// Steps once, a second after the last look at those that wait; gives what came of each.
fn slow_step(batcher: &mut Batcher) -> Vec<(u64, SequenceEvent)> {
    batcher.rates = Rates::constant(SLOW_TPS, SLOW_TPS);
    batcher.proof_due = None;
    batcher.step();
    let of_sequences = |event| if let EngineEvent::Sequence { id, event } = event { Some((id.0, event)) } else { None };
    batcher.events().filter_map(of_sequences).collect()
}

fn long() -> EngineJob {
    job(&["w"; 48].join(" "), 1)
}

fn read(done: u32) -> SequenceEvent {
    SequenceEvent::Prefilled { done, total: 48 }
}

#[test]
fn prompts_that_wait_behind_an_older_one_show_that_they_are_alive() {
    let (written, story) = story();
    let mut batcher = batcher(4, 1000);
    batcher.run(0, &long());
    batcher.run(1, &long());
    batcher.get_ready(2, &resumed(&written, &story, 30));
    batcher.stand_by(3, &resumed(&written, &story, 30));
    let held = |tokens| SequenceEvent::Held { tokens, pulled_tokens: 0 };
    let first = slow_step(&mut batcher);
    assert!(first.contains(&(0, read(16))) && !first.contains(&(1, read(0))), "all have just come: {first:?}");
    for done in [32, 48] {
        let told = slow_step(&mut batcher);
        assert_eq!(told[..4], [(1, read(0)), (2, held(0)), (3, held(0)), (0, read(done))], "{done}");
    }
    let told = slow_step(&mut batcher);
    assert_eq!(told, [(1, read(0)), (2, held(0)), (3, held(0)), (1, read(16))], "the first has ended, this one reads");
    let told = slow_step(&mut batcher);
    assert_eq!(told, [(2, held(0)), (3, held(0)), (1, read(32))], "one that reads needs no other sign");
}

#[test]
fn one_that_lost_its_turn_says_what_it_holds() {
    let (written, story) = story();
    let mut batcher = batcher(3, 1000);
    batcher.stand_by(0, &resumed(&written, &story, 30));
    for _ in 0..2 {
        slow_step(&mut batcher);
    }
    batcher.run(1, &long());
    slow_step(&mut batcher);
    let told = slow_step(&mut batcher);
    assert_eq!(told[0], (0, SequenceEvent::Held { tokens: 32, pulled_tokens: 0 }), "{told:?}");
}

#[test]
fn who_waits_for_chunks_for_its_origin_or_for_the_owner_to_go_says_nothing() {
    let (written, story) = story();
    let mut batcher = batcher(4, 1000);
    batcher.run(0, &long());
    for (id, word) in [(1, SequenceCommand::Expect { from: Some(0) }), (2, SequenceCommand::Pause(true))] {
        batcher.stand_by(id, &resumed(&written, &story, 30));
        batcher.say(id, word);
    }
    slow_step(&mut batcher);
    assert_eq!(slow_step(&mut batcher), [(0, read(32))]);
    batcher.halt.set(true);
    slow_step(&mut batcher);
    assert_eq!(slow_step(&mut batcher), []);
}
