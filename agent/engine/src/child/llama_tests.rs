//! The batcher over llama.cpp: set `IDLEWILD_TEST_MODEL` to the path of SmolLM2-135M-Instruct as GGUF.
//!
//! The arithmetic differs a little with the batch's composition, so equality of greedy text is demanded of a prompt whose
//! every choice leads by more than that difference; the test checks that it does.

use std::path::PathBuf;

use idlewild_protocol::{JobInput, ModelId, Sampling};

use super::super::batcher::Batcher;
use super::super::rates::Rates;
use super::*;
use crate::config::KvType;
use crate::job::SequenceId;
use crate::messages::EngineEvent;
use crate::{EngineJob, SequenceEvent};

/// What the arithmetic of another batch changes at most, as measured (findings: about 1.0).
const MARGIN_MIN: f32 = 1.0;

const SLOTS: u16 = 8;

/// Tokens of the answers that are compared.
const OUTPUT: u32 = 16;

/// Text that a small model goes on with without hesitation.
const CERTAIN: &str = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,";

fn llama() -> Option<Llama> {
    let Some(path) = std::env::var_os("IDLEWILD_TEST_MODEL").map(PathBuf::from) else {
        eprintln!("SKIPPED: IDLEWILD_TEST_MODEL is not set");
        return None;
    };
    let limits = Limits { threads: 1, slots: SLOTS, context_tokens: 512, kv_tokens: 4096, kv_type: KvType::F16 };
    Some(Llama::load(&path, limits).unwrap())
}

fn batcher(model: Llama) -> Batcher {
    Batcher::new(Box::new(model), SLOTS, Rates::constant(200.0, 50.0))
}

fn job(prompt: &str, max_tokens: u32) -> EngineJob {
    EngineJob {
        model: ModelId([0; 32]),
        input: JobInput::Text { prompt: prompt.to_owned() },
        sampling: Sampling::default(),
        max_tokens,
        stop: Vec::new(),
    }
}

/// Ids of the sequence `of`, and its prompt's.
fn run(batcher: &mut Batcher, of: u64) -> (Vec<TokenId>, Vec<TokenId>) {
    let (mut prompt, mut ids) = (Vec::new(), Vec::new());
    while batcher.has_work() {
        batcher.step();
        for event in batcher.events() {
            match event {
                EngineEvent::Sequence { id: SequenceId(id), event } if id == of => match event {
                    SequenceEvent::Accepted { prompt: p } => prompt = p,
                    SequenceEvent::Token { id, .. } => ids.push(id),
                    SequenceEvent::Failed(failure) => panic!("{failure}"),
                    SequenceEvent::Prefilled { .. }
                    | SequenceEvent::Finished { .. }
                    | SequenceEvent::Held { .. }
                    | SequenceEvent::ImportRefused { .. }
                    | SequenceEvent::ExtendRefused { .. }
                    | SequenceEvent::TakeOverRefused { .. } => {}
                },
                EngineEvent::Sequence { .. }
                | EngineEvent::Loaded(_)
                | EngineEvent::LoadFailed(_)
                | EngineEvent::Stats(_)
                | EngineEvent::Obeyed
                | EngineEvent::Exported { .. } => {}
            }
        }
    }
    (prompt, ids)
}

/// How far the greedy choice leads at each of `ids` after `prompt`: the least lead.
fn least_margin(model: &mut Llama, prompt: &[TokenId], ids: &[TokenId]) -> f32 {
    let all = [prompt, ids].concat();
    let mut least = f32::INFINITY;
    for (position, id) in (0..).zip(&all) {
        let entry = Entry { slot: 0, position, id: *id, wants_logits: true };
        model.evaluate(&[entry]).unwrap();
        if position as usize + 1 >= prompt.len() && (position as usize) < all.len() - 1 {
            let mut logits = model.logits(0).to_vec();
            logits.sort_by(|a, b| b.total_cmp(a));
            least = least.min(logits[0] - logits[1]);
        }
    }
    model.forget(0);
    least
}

#[test]
fn greedy_answers_do_not_depend_on_companions_or_on_where_they_are_resumed() {
    let Some(model) = llama() else { return };
    let mut alone = batcher(model);
    alone.submit(SequenceId(0), &job(CERTAIN, OUTPUT));
    let (prompt, ids) = run(&mut alone, 0);
    assert_eq!(ids.len(), OUTPUT as usize);
    let margin = least_margin(&mut llama().unwrap(), &prompt, &ids);
    assert!(margin > MARGIN_MIN, "the prompt is not certain enough to compare by: {margin}");

    for id in 1..5 {
        alone.submit(SequenceId(id), &job(&format!("Companion {id} talks about something else:"), OUTPUT));
    }
    alone.submit(SequenceId(0), &job(CERTAIN, OUTPUT));
    assert_eq!(run(&mut alone, 0).1, ids, "with companions");

    for at in [1, 7, 15] {
        let input = JobInput::Tokens { prompt: prompt.clone(), generated: ids[..at].to_vec() };
        alone.submit(SequenceId(0), &EngineJob { input, ..job("", OUTPUT) });
        assert_eq!(run(&mut alone, 0).1, ids[at..], "resumed at {at}");
    }
}

#[test]
fn random_cancellations_leave_no_cell_behind() {
    let Some(model) = llama() else { return };
    let mut batcher = batcher(model);
    let free = batcher.stats().kv_free_tokens;
    // A fixed walk: which of the eight goes at which step.
    let mut walk = 12_345_u32;
    for round in 0..2 {
        for id in 0..8 {
            batcher.submit(SequenceId(id), &job(&"a few words ".repeat(1 + 2 * id as usize), 40));
        }
        for _ in 0..12 {
            batcher.step();
            walk = walk.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            batcher.cancel(SequenceId(u64::from(walk >> 29)));
        }
        for id in 0..8 {
            batcher.cancel(SequenceId(id));
        }
        batcher.events().for_each(drop);
        assert!(!batcher.has_work());
        assert_eq!(batcher.stats().kv_free_tokens, free, "round {round}");
        assert_eq!(batcher.cells_held(), 0, "round {round}");
    }
    batcher.submit(SequenceId(0), &job(CERTAIN, 6));
    assert_eq!(run(&mut batcher, 0).1.len(), 6);
}

#[test]
fn a_cancelled_sequence_gives_its_cells_back_before_the_next_step() {
    let Some(model) = llama() else { return };
    let mut batcher = batcher(model);
    batcher.submit(SequenceId(0), &job("Once upon a time", 100));
    batcher.step();
    batcher.step();
    assert!(batcher.cells_held() > 4);
    batcher.cancel(SequenceId(0));
    assert_eq!(batcher.cells_held(), 0);
}

/// Not a promise, since logits differ a little: how often sampled answers agree where they are resumed is printed.
#[test]
fn sampled_answers_mostly_agree_where_they_are_resumed() {
    let Some(model) = llama() else { return };
    let mut batcher = batcher(model);
    let (mut same, mut all) = (0, 0);
    for seed in 0..3 {
        let sampling = Sampling { temperature: 0.8, top_p: 0.95, seed, ..Sampling::default() };
        batcher.submit(SequenceId(0), &EngineJob { sampling, ..job("The best thing about summer is", OUTPUT) });
        let (prompt, ids) = run(&mut batcher, 0);
        let at = ids.len() / 2;
        let input = JobInput::Tokens { prompt, generated: ids[..at].to_vec() };
        batcher.submit(SequenceId(0), &EngineJob { input, sampling, ..job("", OUTPUT) });
        let rest = run(&mut batcher, 0).1;
        same += rest.iter().zip(&ids[at..]).take_while(|(a, b)| a == b).count();
        all += ids.len() - at;
    }
    eprintln!("{same} of {all} sampled tokens agree");
    assert!(same * 2 >= all, "{same} of {all}: draws are not keyed by position");
}
