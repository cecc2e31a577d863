//! How many bytes of chunks may wait in all sequences together, and what becomes of more.

use super::standbys::{exported, import, story};
use super::*;

fn positions(count: usize) -> usize {
    count * KV_BYTES_PER_TOKEN
}

fn waiting(batcher: &Batcher) -> usize {
    batcher.placed.iter().map(|sequence| sequence.chunks.bytes()).sum()
}

#[test]
fn chunks_that_wait_behind_gaps_share_one_room_and_what_finds_none_is_made_from_the_ids() {
    let (job, story) = story();
    let mut batcher = batcher(4, 1000);
    batcher.waiting_bytes_max = positions(30);
    let all = 0..4;
    for id in all.clone() {
        batcher.get_ready(id, &resumed(&job, &story, 30));
    }
    batcher.copy();
    for id in all.clone() {
        // As a pull of the rest does: from the back, and the sequence expects what is still to come.
        for (from, to, expected) in [(28, 36, Some(20)), (20, 28, None)] {
            batcher.say(id, SequenceCommand::Expect { from: Some(from) });
            batcher.say(id, import(exported(&job, &story, from, to), from, to));
            batcher.say(id, SequenceCommand::Expect { from: expected });
            assert!(waiting(&batcher) <= positions(30), "{id} {from}");
        }
    }
    let stories = finish(&mut batcher);
    let held: Vec<_> = stories.values().map(|story| story.held.last().copied()).collect();
    assert_eq!(held, [16, 8, 0, 0].map(|pulled| Some((37, pulled))));
    assert!(stories.values().all(|story| story.refused.is_empty() && story.end.is_none()), "{stories:?}");
    for id in all.clone() {
        batcher.say(id, SequenceCommand::TakeOver { from_index: 30 });
    }
    let stories = finish(&mut batcher);
    for id in all {
        assert_eq!(stories[&id].tokens[..], story.tokens[30..], "{id}");
    }
    assert!(is_clean(&batcher));
}

#[test]
fn chunks_whose_turn_it_is_make_room_by_being_imported_and_none_is_lost() {
    let (job, story) = story();
    let mut batcher = batcher(3, 1000);
    batcher.waiting_bytes_max = positions(10);
    for id in 0..2 {
        batcher.stand_by(id, &resumed(&job, &story, 30));
    }
    batcher.copy();
    batcher.say(0, SequenceCommand::Expect { from: Some(0) });
    // Another's fills the room.
    batcher.say(1, import(exported(&job, &story, 28, 36), 28, 36));
    for (from, to) in [(0, 8), (8, 16), (16, 24), (24, 36)] {
        batcher.say(0, import(exported(&job, &story, from, to), from, to));
        assert_eq!((waiting(&batcher), batcher.placed[0].held()), (positions(8), to), "{from}");
    }
    let stories = finish(&mut batcher);
    assert_eq!([&stories[&0], &stories[&1]].map(|story| story.held.last()), [Some(&(37, 36)), Some(&(37, 8))]);
}
