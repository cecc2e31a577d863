//! Chunks of a KV cache come in and go out, between steps.

use std::sync::atomic::Ordering;

use super::meddler::meddled;
use super::standbys::{LENGTH, exported, extend, import, story};
use super::*;
use crate::child::exports;

#[test]
fn chunks_are_imported_in_whatever_order_they_come() {
    let (job, story) = story();
    let ranges = [(0, 10), (10, 25), (25, 30), (30, 36)];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let mut batcher = roomy();
        batcher.stand_by(0, &resumed(&job, &story, 30));
        batcher.say(0, SequenceCommand::Expect { from: Some(0) });
        let mut stories = finish(&mut batcher);
        assert_eq!((batcher.cells_held(), stories[&0].held.len()), (0, 0), "nothing is evaluated");
        for at in order {
            let (from, to) = ranges[at];
            batcher.say(0, import(exported(&job, &story, from, to), from, to));
            // Once more: overlaps.
            batcher.say(0, import(vec![1], from, to));
            batcher.step();
        }
        while batcher.has_work() {
            batcher.step();
        }
        collect(&mut batcher, &mut stories);
        assert_eq!(stories[&0].held.last(), Some(&(37, 36)), "{order:?} {:?}", stories[&0]);
        batcher.say(0, SequenceCommand::TakeOver { from_index: 30 });
        assert_eq!(finish(&mut batcher)[&0].tokens[..], story.tokens[30..]);
    }
}

#[test]
fn what_is_neither_held_nor_buffered_is_evaluated() {
    let (job, story) = story();
    let mut batcher = roomy();
    batcher.stand_by(0, &resumed(&job, &story, 30));
    batcher.step();
    let mut stories = BTreeMap::new();
    batcher.stand_by(1, &resumed(&job, &story, 30));
    batcher.copy();
    batcher.say(1, import(exported(&job, &story, 20, 36), 20, 36));
    for _ in 0..100 {
        batcher.step();
    }
    collect(&mut batcher, &mut stories);
    assert_eq!(stories[&0].held.last(), Some(&(37, 0)));
    assert_eq!(stories[&1].held.last(), Some(&(37, 16)), "the first 20 are its own");
}

#[test]
fn a_chunk_of_ids_that_are_not_known_yet_waits_for_them() {
    let (job, story) = story();
    let mut batcher = roomy();
    batcher.stand_by(0, &resumed(&job, &story, 3));
    batcher.copy();
    batcher.say(0, import(exported(&job, &story, 0, 20), 0, 20));
    assert!(!batcher.has_work(), "ids up to 10 are known");
    batcher.say(0, extend(&story, 3..14));
    assert_eq!(finish(&mut batcher)[&0].held.last(), Some(&(21, 20)));
}

#[test]
fn a_chunk_that_the_model_refuses_takes_the_others_with_it_and_the_ids_serve() {
    let (job, story) = story();
    let good = exported(&job, &story, 0, 8);
    let mut damaged = good.clone();
    damaged[KV_BYTES_PER_TOKEN + 100] ^= 1;
    for (bytes, lies) in [(damaged, false), (good, true)] {
        let (mut batcher, _, orders) = meddled(SLOTS, 1000);
        orders.lies.store(lies, Ordering::SeqCst);
        batcher.stand_by(0, &resumed(&job, &story, 30));
        batcher.copy();
        batcher.say(0, SequenceCommand::Expect { from: Some(0) });
        batcher.say(0, import(exported(&job, &story, 8, 16), 8, 16));
        batcher.say(0, import(bytes, 0, 8));
        let stories = finish(&mut batcher);
        let [SequenceEvent::ImportRefused { from: 0, to: 8, why }] = &stories[&0].refused[..] else {
            panic!("{:?}", stories[&0])
        };
        assert_eq!(why.contains("7 positions"), lies, "{why}");
        assert_eq!(stories[&0].held.last(), Some(&(37, 0)));
        batcher.say(0, SequenceCommand::TakeOver { from_index: 30 });
        assert_eq!(finish(&mut batcher)[&0].tokens[..], story.tokens[30..]);
    }
}

#[test]
fn positions_that_cannot_be_gone_on_from_are_read_again_and_not_told_as_held() {
    let (job, story) = story();
    for (window_from, pulled) in [(30, 36), (40, 0)] {
        let (mut batcher, _, orders) = meddled(SLOTS, 1000);
        orders.window_from.store(window_from, Ordering::SeqCst);
        batcher.stand_by(0, &resumed(&job, &story, 30));
        batcher.copy();
        batcher.say(0, SequenceCommand::Expect { from: Some(0) });
        for (from, to) in [(0, 20), (20, 36)] {
            batcher.say(0, import(exported(&job, &story, from, to), from, to));
            batcher.copy();
        }
        let stories = finish(&mut batcher);
        let told = if pulled > 0 { (37, 36) } else { (1, 1) };
        assert_eq!(stories[&0].held.last(), Some(&told), "{:?}", stories[&0]);
        batcher.say(0, SequenceCommand::TakeOver { from_index: 30 });
        batcher.copy();
        assert_eq!(batcher.placed[0].held(), 36);
        batcher.compute();
        assert_eq!(batcher.placed[0].held(), 37, "with or without the window all are read");
        assert_eq!(finish(&mut batcher)[&0].tokens[..], story.tokens[30..]);
    }
}

#[test]
fn chunks_wait_within_bounds_and_only_where_there_is_room() {
    let (job, story) = story();
    let mut batcher = batcher(1, 1000);
    batcher.stand_by(0, &resumed(&job, &story, 3));
    batcher.copy();
    batcher.stand_by(1, &resumed(&job, &story, 3));
    // Its cells take less than a megabyte: the second of these is beyond what may wait.
    let megabytes = vec![0; 8 * 1024 * 1024];
    batcher.say(0, import(megabytes.clone(), 40, 41));
    batcher.say(0, import(megabytes, 41, 42));
    batcher.say(0, import(vec![0], 40, 47));
    batcher.say(0, import(vec![0], 7 + LENGTH, 8 + LENGTH));
    batcher.say(1, import(vec![0], 0, 1));
    let mut stories = BTreeMap::new();
    collect(&mut batcher, &mut stories);
    let words = |id| -> Vec<String> { stories[&id].refused.iter().map(|event| format!("{event:?}")).collect() };
    assert_eq!(words(0).len(), 2, "{:?}", words(0));
    assert!(words(0)[0].contains("as many chunks") && words(0)[1].contains("no room"), "{:?}", words(0));
    assert!(words(1)[0].contains("no place"), "{:?}", words(1));
}

#[test]
fn a_decoding_sequence_is_exported_and_never_notices() {
    let (job, story) = story();
    let mut batcher = roomy();
    batcher.run(0, &job);
    batcher.step();
    let (mut stories, mut exported_to) = (BTreeMap::new(), 0);
    while batcher.has_work() {
        let held = batcher.placed[0].held();
        assert_eq!(batcher.export(0, held, held + 1), Err(ExportError::NotHeld));
        let bytes = batcher.export(0, exported_to, held).unwrap();
        assert_eq!(bytes, exported(&job, &story, exported_to, held), "{exported_to}..{held}");
        exported_to = held;
        batcher.step();
    }
    collect(&mut batcher, &mut stories);
    assert_eq!(stories[&0], story);
    assert_eq!(batcher.export(0, 0, 1), Err(ExportError::Gone));
    assert!(exported_to > 40);
}

#[test]
fn more_exports_than_may_wait_are_refused_and_one_is_answered_a_step() {
    let (job, _) = story();
    let mut batcher = roomy();
    batcher.run(0, &job);
    batcher.step();
    let _ = batcher.events();
    let asked = exports::WAITING_MAX as u64 + 1;
    for ticket in 0..asked {
        batcher.say(0, SequenceCommand::Export { ticket, from: 0, to: 2 });
    }
    let busy = EngineEvent::Exported { ticket: asked - 1, outcome: Err(ExportError::Busy) };
    assert_eq!(batcher.events().collect::<Vec<_>>(), [busy]);
    for ticket in 0..asked - 1 {
        batcher.step();
        let answered: Vec<u64> = batcher
            .events()
            .filter_map(|event| if let EngineEvent::Exported { ticket, .. } = event { Some(ticket) } else { None })
            .collect();
        assert_eq!(answered, [ticket]);
    }
}

#[test]
fn chunks_go_in_and_out_by_turns_one_a_step() {
    let (job, story) = story();
    let mut batcher = roomy();
    batcher.run(0, &job);
    batcher.step();
    batcher.stand_by(1, &resumed(&job, &story, 30));
    batcher.copy();
    batcher.say(1, SequenceCommand::Expect { from: Some(0) });
    for from in [0, 5, 10] {
        batcher.say(1, import(exported(&job, &story, from, from + 5), from, from + 5));
    }
    for ticket in 0..3 {
        batcher.say(0, SequenceCommand::Export { ticket, from: 0, to: 2 });
    }
    let _ = batcher.events();
    let mut counts = Vec::new();
    for _ in 0..6 {
        batcher.step();
        let exported = batcher.events().filter(|event| matches!(event, EngineEvent::Exported { .. })).count();
        counts.push((batcher.placed[1].held() / 5, exported));
    }
    assert_eq!(counts, [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]);
}

#[test]
fn a_take_over_waits_for_no_chunk_but_those_that_follow_at_once() {
    let (job, story) = story();
    for (at_hand, pulled) in [(&[(0, 10), (10, 14), (20, 30), (30, 45)][..], 14), (&[(20, 30), (30, 45)], 0)] {
        let mut batcher = roomy();
        batcher.stand_by(0, &resumed(&job, &story, 30));
        batcher.copy();
        batcher.say(0, SequenceCommand::Expect { from: Some(0) });
        for (from, to) in at_hand {
            batcher.say(0, import(exported(&job, &story, *from, *to), *from, *to));
        }
        batcher.say(0, SequenceCommand::TakeOver { from_index: 30 });
        batcher.copy();
        batcher.copy();
        assert_eq!(batcher.placed[0].held(), pulled);
        batcher.step();
        assert_eq!(batcher.placed[0].held(), 37, "nothing holds the evaluation up");
        // Pulls that were under way arrive after all.
        batcher.say(0, import(exported(&job, &story, 36, 46), 36, 46));
        batcher.say(0, import(exported(&job, &story, 40, 44), 40, 44));
        let stories = finish(&mut batcher);
        assert_eq!((&stories[&0].tokens[..], stories[&0].refused.len()), (&story.tokens[30..], 0));
    }
}
