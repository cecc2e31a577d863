//! The owner is back: computing stops at once, in the middle of a step, and nothing is lost by it.

use std::sync::atomic::Ordering;

use super::meddler::meddled;
use super::*;

#[test]
fn an_interrupted_step_is_made_again_when_the_halt_is_over() {
    let jobs = [job("a b c d e f g", 12), job("h", 20), EngineJob { max_tokens: 6, ..job("i j k", 6) }];
    for halt_in in 1..12 {
        let (mut batcher, halt, orders) = meddled(SLOTS, 1000);
        for (id, job) in (0..).zip(&jobs) {
            batcher.run(id, job);
        }
        orders.halt_in.store(halt_in, Ordering::SeqCst);
        let mut stories = finish(&mut batcher);
        assert!(halt.is_on() && !batcher.has_work(), "{halt_in}");
        let held: Vec<u32> = batcher.placed.iter().map(Sequence::held).collect();
        let really: Vec<u32> = batcher.placed.iter().map(|s| batcher.model.held(s.slot.unwrap())).collect();
        assert_eq!(held, really, "{halt_in}: as before the step");
        batcher.step();
        assert_eq!(batcher.events().count(), 0, "a halted engine says nothing");
        halt.set(false);
        for _ in 0..100 {
            batcher.step();
        }
        collect(&mut batcher, &mut stories);
        for (id, job) in (0..).zip(&jobs) {
            assert_eq!(stories[&id], alone(job), "{halt_in} {id}");
        }
        assert!(is_clean(&batcher));
    }
}

#[test]
fn a_halt_that_is_lifted_before_the_step_has_ended_is_still_the_reason() {
    let (mut batcher, halt, orders) = meddled(SLOTS, 1000);
    batcher.run(0, &job("a b c", 9));
    orders.halt_in.store(2, Ordering::SeqCst);
    orders.lifts.store(true, Ordering::SeqCst);
    let stories = finish(&mut batcher);
    assert_eq!((halt.times(), halt.is_on()), (1, false));
    assert_eq!(stories[&0], alone(&job("a b c", 9)));
}

#[test]
fn a_halted_engine_exports_and_answers_but_does_not_compute() {
    let (mut batcher, halt, _) = meddled(SLOTS, 1000);
    batcher.run(0, &job("a b c", 30));
    for _ in 0..5 {
        batcher.step();
    }
    let mut stories = BTreeMap::new();
    collect(&mut batcher, &mut stories);
    let tokens = stories[&0].tokens.len();
    halt.set(true);
    let held = batcher.placed[0].held();
    assert_eq!(batcher.export(0, 0, held).unwrap().len(), held as usize * KV_BYTES_PER_TOKEN);
    batcher.run(1, &job("d", 3));
    batcher.say(0, SequenceCommand::StopAfter { index: 7 });
    while batcher.has_work() {
        batcher.step();
    }
    collect(&mut batcher, &mut stories);
    assert_eq!((stories[&0].tokens.len(), stories[&1].tokens.len()), (tokens, 0));
    halt.set(false);
    while batcher.has_work() {
        batcher.step();
    }
    collect(&mut batcher, &mut stories);
    assert_eq!((stories[&0].tokens.len(), &stories[&1]), (8, &alone(&job("d", 3))));
}

#[test]
fn a_step_that_fails_by_itself_is_no_halt() {
    let (mut batcher, halt, _) = meddled(SLOTS, 1000);
    halt.set(true);
    halt.set(false);
    batcher.run(0, &job("a b", 5));
    batcher.step();
    batcher.model.forget(0);
    let stories = finish(&mut batcher);
    assert!(matches!(stories[&0].end, Some(SequenceEvent::Failed(JobFailure::Engine(_)))), "{stories:?}");
}
