//! Standbys: ids and chunks come in, they hold, make room, take over.

use std::sync::atomic::Ordering;

use super::meddler::meddled;
use super::*;
use crate::blob::Blob;
use crate::child::exports;

pub(super) const LENGTH: u32 = 40;

pub(super) fn story() -> (EngineJob, Story) {
    let job = EngineJob {
        sampling: Sampling { seed: 7, temperature: 0.8, repeat_penalty: 1.1, ..Sampling::default() },
        stop: vec!["zzz".to_owned()],
        ..job("tell me a story of six words", LENGTH)
    };
    let story = alone(&job);
    assert_eq!(story.tokens.len(), LENGTH as usize);
    (job, story)
}

pub(super) fn extend(story: &Story, ids: core::ops::Range<usize>) -> SequenceCommand {
    SequenceCommand::Extend { from_index: ids.start as u32, ids: story.ids()[ids].to_vec() }
}

/// The KV cache of those positions of the whole story, as another engine exports it.
pub(super) fn exported(job: &EngineJob, story: &Story, from: u32, to: u32) -> Vec<u8> {
    let mut source = roomy();
    source.stand_by(0, &resumed(job, story, LENGTH as usize));
    finish(&mut source);
    source.export(0, from, to).unwrap()
}

pub(super) fn import(bytes: Vec<u8>, from: u32, to: u32) -> SequenceCommand {
    SequenceCommand::Import { from, to, bytes: Blob::new(bytes).unwrap() }
}

impl Batcher {
    /// Asks for a chunk and copies until it is answered. Other events stay.
    pub(super) fn export(&mut self, id: u64, from: u32, to: u32) -> Result<Vec<u8>, ExportError> {
        self.say(id, SequenceCommand::Export { ticket: 77, from, to });
        for _ in 0..=2 * exports::WAITING_MAX {
            self.copy();
            let is_it = |event: &EngineEvent| matches!(event, EngineEvent::Exported { ticket: 77, .. });
            if let Some(at) = self.events.iter().position(is_it)
                && let EngineEvent::Exported { outcome, .. } = self.events.remove(at)
            {
                return outcome.map(Blob::into_bytes);
            }
        }
        panic!("the export was not answered");
    }
}

#[test]
fn a_standby_goes_on_as_the_undisturbed_one_would() {
    let (job, story) = story();
    for at in [1, 17, 39] {
        let mut batcher = roomy();
        batcher.stand_by(0, &resumed(&job, &story, 0));
        batcher.say(0, extend(&story, 0..at / 2));
        batcher.step();
        batcher.say(0, extend(&story, at / 3..at));
        let mut stories = finish(&mut batcher);
        assert_eq!((stories[&0].end.as_ref(), stories[&0].tokens.len()), (None, 0), "it draws nothing");
        assert_eq!(stories[&0].held.last(), Some(&(7 + at as u32, 0)), "it has caught up");
        assert_eq!(batcher.cells_held(), 7 + at as u32 - 1);
        batcher.say(0, SequenceCommand::TakeOver { from_index: at as u32 });
        let rest = finish(&mut batcher).remove(&0).unwrap();
        assert_eq!((&rest.tokens[..], &rest.end), (&story.tokens[at..], &story.end), "{at}");
        assert_eq!(rest.first_index, Some(at as u32));
        assert!(is_clean(&batcher) && stories.remove(&0).unwrap().refused.is_empty());
    }
}

#[test]
fn a_standby_of_a_complete_answer_finishes_when_it_takes_over() {
    let (job, story) = story();
    let mut batcher = roomy();
    batcher.stand_by(0, &resumed(&job, &story, 30));
    batcher.say(0, extend(&story, 30..LENGTH as usize));
    assert_eq!(finish(&mut batcher)[&0].end, None);
    batcher.say(0, SequenceCommand::TakeOver { from_index: LENGTH });
    let rest = finish(&mut batcher).remove(&0).unwrap();
    assert_eq!((rest.tokens.len(), rest.end), (0, story.end));
    assert!(is_clean(&batcher));
}

#[test]
fn ids_that_cannot_follow_are_refused_and_nothing_of_them_is_taken() {
    let (job, story) = story();
    let mut batcher = roomy();
    batcher.stand_by(0, &resumed(&job, &story, 5));
    let of = |from_index, ids: &[u32]| SequenceCommand::Extend {
        from_index,
        ids: ids.iter().map(|id| TokenId(*id)).collect(),
    };
    let refused = [
        of(6, &[400]),
        of(4, &[story.ids()[4].0 ^ 1, 400]),
        of(5, &[400, 1024]),
        of(5, &[400; LENGTH as usize]),
        SequenceCommand::TakeOver { from_index: 6 },
    ];
    for command in refused.clone() {
        batcher.say(0, command);
    }
    batcher.say(0, of(5, &[]));
    batcher.say(0, extend(&story, 2..5));
    let stories = finish(&mut batcher);
    assert_eq!(stories[&0].refused.len(), refused.len(), "{:?}", stories[&0].refused);
    assert_eq!(
        stories[&0].refused.last(),
        Some(&SequenceEvent::TakeOverRefused { from_index: 6, known: 5 }),
        "the rest is silence"
    );
    batcher.say(0, SequenceCommand::TakeOver { from_index: 5 });
    batcher.say(0, SequenceCommand::TakeOver { from_index: 5 });
    assert_eq!(finish(&mut batcher)[&0].tokens[..], story.tokens[5..]);
}

#[test]
fn a_take_over_before_ids_that_are_known_forgets_them() {
    let (job, story) = story();
    let mut batcher = roomy();
    batcher.stand_by(0, &resumed(&job, &story, 30));
    finish(&mut batcher);
    batcher.say(0, SequenceCommand::TakeOver { from_index: 12 });
    assert_eq!(finish(&mut batcher)[&0].tokens[..], story.tokens[12..]);
    assert!(is_clean(&batcher));
}

#[test]
fn standbys_wait_behind_workers_and_make_room_for_them() {
    let (job, story) = story();
    let mut batcher = batcher(2, 1000);
    let mut stories = BTreeMap::new();
    for id in 0..3 {
        batcher.stand_by(id, &resumed(&job, &story, 3));
    }
    batcher.step();
    let stats = batcher.stats();
    assert_eq!((stats.running, stats.standbys, stats.waiting, stats.standby_tokens), (0, 2, 0, 2 * (7 + LENGTH)));
    batcher.run(3, &job);
    batcher.step();
    collect(&mut batcher, &mut stories);
    assert_eq!(stories[&1].end, Some(SequenceEvent::Failed(JobFailure::Busy)), "the youngest that has a slot");
    assert_eq!((&stories[&0].end, stories[&2].prompt.len()), (&None, 0), "no slot for the third");
    assert_eq!(stories[&2].held.first(), Some(&(0, 0)), "a proof of life");
    batcher.run(4, &job);
    batcher.run(5, &job);
    let rest = finish(&mut batcher);
    assert_eq!(rest[&0].end, Some(SequenceEvent::Failed(JobFailure::Busy)));
    assert!((4..6).all(|id| rest[&id] == story), "{rest:?}");
    assert_eq!(rest[&2].held.last(), Some(&(10, 0)), "at last");
    batcher.cancel(SequenceId(2));
    assert!(is_clean(&batcher));
}

#[test]
fn a_parked_worker_is_not_pushed_out_and_holds_its_cells() {
    let (job, story) = story();
    let mut batcher = batcher(1, 1000);
    batcher.run(0, &job);
    batcher.say(0, SequenceCommand::StopAfter { index: 9 });
    let mut stories = finish(&mut batcher);
    assert_eq!((stories[&0].tokens.len(), batcher.cells_held()), (10, 7 + 9));
    batcher.run(1, &job);
    assert!(!batcher.has_work(), "it sleeps");
    assert!(batcher.proof_due().is_some(), "but not for ever: one waits");
    assert_eq!(batcher.export(0, 3, 16), Ok(exported(&job, &story, 3, 16)));
    batcher.say(0, SequenceCommand::GoOn);
    while batcher.has_work() {
        batcher.step();
    }
    collect(&mut batcher, &mut stories);
    assert_eq!(stories[&0].tokens, story.tokens);
    assert_eq!(stories[&1], story);
    assert!(is_clean(&batcher));
}

#[test]
fn a_standby_takes_a_small_piece_beside_decoders_and_none_beside_readers() {
    let (job, story) = story();
    let (mut batcher, _, orders) = meddled(SLOTS, 1000);
    batcher.run(0, &job);
    batcher.step();
    batcher.stand_by(1, &resumed(&job, &story, 39));
    orders.largest.store(0, Ordering::SeqCst);
    batcher.step();
    assert_eq!(orders.largest.load(Ordering::SeqCst), 1 + 16);
    batcher.run(2, &EngineJob { max_tokens: 45, ..resumed(&job, &story, 30) });
    batcher.step();
    assert_eq!(batcher.placed[1].held(), 16, "the worker's prompt comes first");
    batcher.say(1, SequenceCommand::Pause(true));
    let stories = finish(&mut batcher);
    assert_eq!((batcher.cells_held(), stories[&1].held.last()), (16, Some(&(16, 0))));
    batcher.say(1, SequenceCommand::Pause(false));
    assert_eq!(finish(&mut batcher)[&1].held.last(), Some(&(46, 0)));
}

#[test]
fn standbys_are_made_from_ids_only_and_only_so_many_wait() {
    let (job, story) = story();
    let mut batcher = batcher(1, 1000);
    batcher.stand_by(0, &job);
    for id in 1..=WAITING_MAX as u64 + 1 {
        batcher.stand_by(id, &resumed(&job, &story, 3));
    }
    let mut stories = BTreeMap::new();
    collect(&mut batcher, &mut stories);
    assert!(matches!(stories[&0].end, Some(SequenceEvent::Failed(JobFailure::BadInput(_)))));
    assert_eq!(stories[&(WAITING_MAX as u64 + 1)].end, Some(SequenceEvent::Failed(JobFailure::Busy)));
    assert_eq!(stories.len(), 2);
}

#[test]
fn a_standby_that_waits_may_be_told_everything_but_chunks() {
    let (job, story) = story();
    let mut batcher = batcher(1, 1000);
    batcher.run(0, &job);
    batcher.step();
    batcher.stand_by(1, &resumed(&job, &story, 3));
    batcher.say(1, extend(&story, 3..20));
    batcher.say(1, SequenceCommand::TakeOver { from_index: 20 });
    let stories = finish(&mut batcher);
    assert_eq!(stories[&1].tokens[..], story.tokens[20..]);
    assert_eq!(stories[&1].prompt, story.prompt, "it was accepted when it took over");
    assert!(is_clean(&batcher));
}
