//! Successors: they get ready as standbys do, and somebody waits for them as for workers.

use super::standbys::{LENGTH, exported, import, story};
use super::*;

/// The end of one that made room.
const BUSY: Option<SequenceEvent> = Some(SequenceEvent::Failed(JobFailure::Busy));

#[test]
fn a_successor_goes_on_as_the_undisturbed_one_would() {
    let (job, story) = story();
    for at in [0, 1, 17, 39] {
        let mut batcher = roomy();
        batcher.get_ready(0, &resumed(&job, &story, at));
        let stories = finish(&mut batcher);
        assert_eq!((stories[&0].tokens.len(), stories[&0].held.last()), (0, Some(&(7 + at as u32, 0))), "{at}");
        batcher.say(0, SequenceCommand::TakeOver { from_index: at as u32 });
        let rest = finish(&mut batcher).remove(&0).unwrap();
        assert_eq!((&rest.tokens[..], &rest.end), (&story.tokens[at..], &story.end), "{at}");
        assert!(is_clean(&batcher));
    }
}

#[test]
fn a_successor_makes_room_for_nobody_and_a_standby_for_it() {
    let (job, story) = story();
    let mut batcher = batcher(2, 1000);
    let mut stories = BTreeMap::new();
    batcher.stand_by(0, &resumed(&job, &story, 3));
    batcher.stand_by(1, &resumed(&job, &story, 3));
    batcher.step();
    batcher.get_ready(2, &resumed(&job, &story, 3));
    batcher.step();
    batcher.run(3, &job);
    batcher.step();
    collect(&mut batcher, &mut stories);
    assert_eq!([&stories[&0].end, &stories[&1].end], [&BUSY, &BUSY]);
    let stats = batcher.stats();
    assert_eq!((stats.running, stats.standbys, stats.standby_tokens, stats.waiting), (2, 0, 0, 0));
    batcher.run(4, &job);
    let rest = finish(&mut batcher);
    assert_eq!((&rest[&3].end, &rest[&4].end), (&story.end, &story.end));
    assert_eq!((batcher.placed.len(), batcher.placed[0].id), (1, SequenceId(2)), "it has its slot still");
}

#[test]
fn successors_wait_in_line_with_workers_and_show_that_they_are_alive() {
    let (job, story) = story();
    let mut batcher = batcher(1, 1000);
    batcher.run(0, &job);
    batcher.step();
    batcher.stand_by(1, &resumed(&job, &story, 3));
    batcher.get_ready(2, &resumed(&job, &story, 3));
    batcher.run(3, &job);
    batcher.proof_due = None;
    batcher.step();
    let mut stories = BTreeMap::new();
    collect(&mut batcher, &mut stories);
    assert_eq!((stories[&2].prompt.len(), &stories[&2].held[..]), (0, &[(0, 0)][..]), "accepted when it has a slot");
    assert_eq!(batcher.stats().waiting, 2);
    batcher.cancel(SequenceId(0));
    batcher.step();
    collect(&mut batcher, &mut stories);
    assert_eq!((&stories[&2].prompt, batcher.placed[0].id), (&story.prompt, SequenceId(2)));
    batcher.cancel(SequenceId(2));
    batcher.step();
    assert_eq!(batcher.placed[0].id, SequenceId(3), "the standby comes last");
}

#[test]
fn a_successor_reads_as_workers_do_and_a_standby_waits_for_it() {
    let (job, story) = story();
    let mut batcher = roomy();
    batcher.stand_by(0, &resumed(&job, &story, 39));
    batcher.copy();
    batcher.run(1, &job);
    batcher.get_ready(2, &resumed(&job, &story, 30));
    batcher.step();
    let held: Vec<u32> = batcher.placed.iter().map(Sequence::held).collect();
    assert_eq!(held, [0, 7, 36]);
}

#[test]
fn chunks_of_a_successor_come_before_those_of_a_standby() {
    let (job, story) = story();
    let mut batcher = roomy();
    batcher.stand_by(0, &resumed(&job, &story, 30));
    batcher.copy();
    batcher.get_ready(1, &resumed(&job, &story, 30));
    batcher.copy();
    for id in [0, 1] {
        batcher.say(id, SequenceCommand::Expect { from: Some(0) });
        batcher.say(id, import(exported(&job, &story, 0, 10), 0, 10));
    }
    let mut held = Vec::new();
    for _ in 0..2 {
        batcher.copy();
        held.push([batcher.placed[0].held(), batcher.placed[1].held()]);
    }
    assert_eq!(held, [[0, 10], [10, 10]]);
}

#[test]
fn a_standby_that_becomes_a_successor_is_pushed_out_no_more_and_goes_on() {
    let (job, story) = story();
    let mut batcher = batcher(1, 1000);
    batcher.stand_by(0, &resumed(&job, &story, 20));
    batcher.say(0, SequenceCommand::Expect { from: Some(10) });
    finish(&mut batcher);
    batcher.say(0, SequenceCommand::StopAfter { index: 3 });
    batcher.say(0, SequenceCommand::Pause(true));
    batcher.say(0, SequenceCommand::GetReady);
    batcher.run(1, &job);
    let stories = finish(&mut batcher);
    assert!(!stories.contains_key(&0) || stories[&0].end.is_none(), "{stories:?}");
    assert_eq!((batcher.placed[0].held(), batcher.stats().running), (10, 1), "what it expects still comes");
    batcher.say(0, import(exported(&job, &story, 10, 26), 10, 26));
    assert_eq!(finish(&mut batcher)[&0].held.last(), Some(&(27, 16)));
    batcher.say(0, SequenceCommand::TakeOver { from_index: 20 });
    let stories = finish(&mut batcher);
    assert_eq!(stories[&0].tokens[..], story.tokens[20..], "what the standby was told does not stop the worker");
    assert_eq!(stories[&1].end, story.end);
    assert!(is_clean(&batcher));
}

#[test]
fn a_standby_without_a_slot_gets_one_as_a_successor() {
    let (job, story) = story();
    let mut batcher = batcher(1, 1000);
    batcher.run(0, &EngineJob { max_tokens: 5, ..job.clone() });
    batcher.step();
    batcher.stand_by(1, &resumed(&job, &story, 20));
    batcher.run(2, &job);
    batcher.say(1, SequenceCommand::GetReady);
    let stories = finish(&mut batcher);
    assert_eq!((&stories[&1].prompt, stories[&1].held.last()), (&story.prompt, Some(&(27, 0))), "it came before 2");
    assert_eq!(stories[&2].tokens, []);
    batcher.cancel(SequenceId(1));
    assert_eq!(finish(&mut batcher)[&2].end, story.end);
}

#[test]
fn a_successor_that_is_told_where_to_stop_draws_no_further() {
    let (job, story) = story();
    let mut batcher = roomy();
    batcher.get_ready(0, &resumed(&job, &story, 10));
    batcher.say(0, SequenceCommand::StopAfter { index: 14 });
    finish(&mut batcher);
    batcher.say(0, SequenceCommand::TakeOver { from_index: 10 });
    let mut stories = finish(&mut batcher);
    assert_eq!(stories[&0].tokens[..], story.tokens[10..15]);
    batcher.say(0, SequenceCommand::GoOn);
    while batcher.has_work() {
        batcher.step();
    }
    collect(&mut batcher, &mut stories);
    assert_eq!(stories[&0].tokens[..], story.tokens[10..LENGTH as usize]);
}

#[test]
fn workers_and_successors_share_the_room_to_wait() {
    let (job, story) = story();
    let mut batcher = batcher(1, 1000);
    batcher.run(0, &job);
    batcher.step();
    for id in 1..=WAITING_MAX as u64 {
        if id % 2 == 0 { batcher.run(id, &job) } else { batcher.get_ready(id, &resumed(&job, &story, 3)) }
    }
    batcher.run(100, &job);
    batcher.get_ready(101, &resumed(&job, &story, 3));
    batcher.stand_by(102, &resumed(&job, &story, 3));
    let mut stories = BTreeMap::new();
    collect(&mut batcher, &mut stories);
    let ended: Vec<u64> = stories.iter().filter(|(_, story)| story.end == BUSY).map(|(id, _)| *id).collect();
    assert_eq!(ended, [100, 101]);
}

#[test]
fn a_successor_is_made_from_ids_only() {
    let (job, _) = story();
    let mut batcher = roomy();
    batcher.get_ready(0, &job);
    assert!(matches!(finish(&mut batcher)[&0].end, Some(SequenceEvent::Failed(JobFailure::BadInput(_)))));
}
