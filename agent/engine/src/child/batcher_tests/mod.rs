//! The batcher over the fake, step by step: what comes out is compared exactly.

use std::collections::BTreeMap;

use idlewild_protocol::{FinishReason, JobInput, ModelId, Sampling, TokenId};
use proptest::prelude::*;

use super::*;
use crate::child::fake::{Fake, KV_BYTES_PER_TOKEN};
use crate::config::{KvType, Limits};
use crate::{FakeRates, LoadedModel};

mod chunks;
mod halts;
mod hand_over;
mod meddler;
mod room;
mod standbys;
mod successors;
mod turns;

use meddler::Orders;

const SLOTS: u16 = 3;
const CONTEXT: u32 = 64;

fn limits(slots: u16, kv_tokens: u32) -> Limits {
    Limits { threads: 1, slots, context_tokens: CONTEXT, kv_tokens, kv_type: KvType::F16 }
}

fn batcher(slots: u16, kv_tokens: u32) -> Batcher {
    over(Box::new(Fake::load(FakeRates::INSTANT, limits(slots, kv_tokens))), slots, Arc::default())
}

fn over(model: Box<dyn Model>, slots: u16, halt: Arc<Halt>) -> Batcher {
    let report = LoadedModel {
        id: ModelId([0; 32]),
        name: String::new(),
        context_tokens: CONTEXT,
        trained_context_tokens: CONTEXT,
        kv_bytes_per_token: KV_BYTES_PER_TOKEN as u32,
        size_bytes: 0,
        load_ms: 0,
        vocabulary: 1024,
        layers: 1,
        layout: model.layout(),
    };
    Batcher::over(Loaded { model, rates: Rates::constant(1e6, 1e6), report }, slots, halt)
}

/// What llama's tests use as well.
impl Batcher {
    pub(crate) fn new(model: Box<dyn Model>, slots: u16, rates: Rates) -> Self {
        let mut batcher = over(model, slots, Arc::default());
        batcher.rates = rates;
        batcher
    }

    pub(crate) fn submit(&mut self, id: SequenceId, job: &EngineJob) {
        self.begin(id, job, Role::Worker);
    }

    pub(crate) fn step(&mut self) {
        self.copy();
        self.compute();
    }

    /// Tokens that the KV cache holds in all slots.
    pub(crate) fn cells_held(&self) -> u32 {
        (0..self.slots).map(|slot| self.model.held(slot)).sum()
    }

    fn run(&mut self, id: u64, job: &EngineJob) {
        self.begin(SequenceId(id), job, Role::Worker);
    }

    fn stand_by(&mut self, id: u64, job: &EngineJob) {
        self.begin(SequenceId(id), job, Role::Standby);
    }

    fn get_ready(&mut self, id: u64, job: &EngineJob) {
        self.begin(SequenceId(id), job, Role::Successor);
    }

    fn say(&mut self, id: u64, command: SequenceCommand) {
        self.tell(SequenceId(id), command);
    }
}

fn roomy() -> Batcher {
    batcher(SLOTS, 1000)
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

/// A job that goes on where `story` is after `at` tokens.
fn resumed(job: &EngineJob, story: &Story, at: usize) -> EngineJob {
    let generated = story.tokens[..at].iter().map(|(id, _)| *id).collect();
    EngineJob { input: JobInput::Tokens { prompt: story.prompt.clone(), generated }, ..job.clone() }
}

/// What came of one sequence.
#[derive(Debug, Default, Clone, PartialEq)]
struct Story {
    prompt: Vec<TokenId>,
    first_index: Option<u32>,
    tokens: Vec<(TokenId, String)>,
    /// What each `Held` said.
    held: Vec<(u32, u32)>,
    refused: Vec<SequenceEvent>,
    end: Option<SequenceEvent>,
}

impl Story {
    fn text(&self) -> String {
        let mut text: String = self.tokens.iter().map(|(_, text)| text.as_str()).collect();
        if let Some(SequenceEvent::Finished { text: held, .. }) = &self.end {
            text.push_str(held);
        }
        text
    }

    fn ids(&self) -> Vec<TokenId> {
        self.tokens.iter().map(|(id, _)| *id).collect()
    }

    fn reason(&self) -> Option<FinishReason> {
        match self.end {
            Some(SequenceEvent::Finished { reason, .. }) => Some(reason),
            _ => None,
        }
    }

    fn take(&mut self, event: SequenceEvent) {
        assert_eq!(self.end, None, "nothing follows the last event");
        match event {
            SequenceEvent::Accepted { prompt } => self.prompt = prompt,
            SequenceEvent::Prefilled { done, total } => assert!(done <= total),
            SequenceEvent::Token { index, id, text } => {
                let first = *self.first_index.get_or_insert(index);
                assert_eq!(index as usize, first as usize + self.tokens.len());
                self.tokens.push((id, text));
            }
            SequenceEvent::Held { tokens, pulled_tokens } => {
                assert!(pulled_tokens <= tokens && self.first_index.is_none());
                self.held.push((tokens, pulled_tokens));
            }
            SequenceEvent::ImportRefused { .. }
            | SequenceEvent::ExtendRefused { .. }
            | SequenceEvent::TakeOverRefused { .. } => self.refused.push(event),
            SequenceEvent::Finished { .. } | SequenceEvent::Failed(_) => self.end = Some(event),
        }
    }
}

fn collect(batcher: &mut Batcher, stories: &mut BTreeMap<u64, Story>) {
    for event in batcher.events() {
        if let EngineEvent::Sequence { id, event } = event {
            stories.entry(id.0).or_default().take(event);
        }
    }
}

fn finish(batcher: &mut Batcher) -> BTreeMap<u64, Story> {
    let mut stories = BTreeMap::new();
    for _ in 0..10_000 {
        collect(batcher, &mut stories);
        if !batcher.has_work() {
            return stories;
        }
        batcher.step();
    }
    panic!("it never ends: {stories:?}");
}

fn alone(job: &EngineJob) -> Story {
    let mut batcher = roomy();
    batcher.run(0, job);
    finish(&mut batcher).remove(&0).unwrap()
}

fn is_clean(batcher: &Batcher) -> bool {
    let facts = batcher.model.facts();
    batcher.stats().kv_free_tokens == facts.kv_tokens && batcher.cells_held() == 0
}

#[test]
fn an_answer_has_as_many_tokens_as_asked_for() {
    let story = alone(&job("one two three", 7));
    assert_eq!((story.prompt.len(), story.tokens.len(), story.reason()), (3, 7, Some(FinishReason::Length)));
    assert_eq!(story.first_index, Some(0));
}

#[test]
fn an_answer_ends_where_the_model_ends_it() {
    let story = alone(&job("one !end=5", 50));
    assert_eq!((story.tokens.len(), story.reason()), (5, Some(FinishReason::Stop)));
}

#[test]
fn an_answer_ends_with_the_context() {
    let story = alone(&job("one two", 1000));
    assert_eq!((story.tokens.len(), story.reason()), (CONTEXT as usize - 2, Some(FinishReason::Length)));
}

#[test]
fn an_answer_is_cut_at_a_stop_text() {
    let whole = alone(&job("one two three", 40));
    let (_, word) = &whole.tokens[9];
    let stop = vec![word[2..].to_owned()];
    let cut = alone(&EngineJob { stop: stop.clone(), ..job("one two three", 40) });
    let text = whole.text();
    let at = text.find(&stop[0]).unwrap();
    assert_eq!((cut.text().as_str(), cut.reason()), (&text[..at], Some(FinishReason::Stop)));
}

#[test]
fn companions_do_not_change_an_answer() {
    let jobs = [job("a b c", 30), job("d e", 20), job("f", 25), job("g h i j", 30), job("k", 9)];
    let mut together = roomy();
    for (id, job) in (0..).zip(&jobs) {
        together.run(id, job);
    }
    let stories = finish(&mut together);
    for (id, job) in (0..).zip(&jobs) {
        assert_eq!(stories[&id], alone(job), "{id}");
    }
    assert!(is_clean(&together));
}

#[test]
fn a_finished_answer_that_is_resumed_only_finishes() {
    let job = EngineJob { stop: vec!["zzz".to_owned(), " k".to_owned()], ..job("one two", 12) };
    let story = alone(&job);
    let again = alone(&resumed(&job, &story, story.tokens.len()));
    assert_eq!((again.tokens.len(), again.end), (0, story.end));
}

#[test]
fn what_does_not_fit_is_refused_with_the_figures() {
    let long = vec!["w"; CONTEXT as usize].join(" ");
    let too_long = JobFailure::PromptTooLong { prompt_tokens: CONTEXT, context_tokens: CONTEXT };
    let endless = "x".repeat(2_000_000);
    let far_too_long = JobFailure::PromptTooLong { prompt_tokens: 2_000_000 / 1024, context_tokens: CONTEXT };
    let foreign = JobInput::Tokens { prompt: vec![TokenId(1024)], generated: vec![] };
    let cases = [
        (job(&long, 5), too_long),
        (job(&endless, 5), far_too_long),
        (job("", 5), JobFailure::BadInput("the prompt is empty".to_owned())),
        (
            EngineJob { input: foreign, ..job("", 5) },
            JobFailure::BadInput("token 1024 is not in its vocabulary of 1024".to_owned()),
        ),
    ];
    for (job, failure) in cases {
        assert_eq!(alone(&job).end, Some(SequenceEvent::Failed(failure)));
    }
}

#[test]
fn a_cancelled_sequence_frees_its_slot_before_the_next_step() {
    let mut batcher = batcher(1, 1000);
    batcher.run(0, &job("a b", 50));
    batcher.run(1, &job("c d", 3));
    batcher.step();
    batcher.step();
    batcher.cancel(SequenceId(0));
    assert!(is_clean(&batcher));
    batcher.step();
    let stats = batcher.stats();
    assert_eq!((stats.running, stats.waiting), (1, 0));
    let mut stories = BTreeMap::new();
    collect(&mut batcher, &mut stories);
    assert_eq!(stories[&1].tokens.len(), 1);
}

#[test]
fn sequences_wait_for_cells_and_nobody_overtakes() {
    // Each needs 20 cells, so three of them fit into 64 though there are four slots; the small one waits its turn.
    let mut batcher = batcher(4, 64);
    for id in 0..6 {
        batcher.run(id, &job("a b", 18));
    }
    batcher.run(6, &job("a", 1));
    batcher.step();
    let stats = batcher.stats();
    assert_eq!((stats.running, stats.waiting, stats.kv_free_tokens), (3, 4, 4));
    let stories = finish(&mut batcher);
    assert!(stories.values().all(|story| story.reason() == Some(FinishReason::Length)));
    assert!(is_clean(&batcher));
}

#[test]
fn a_full_queue_says_busy() {
    let mut batcher = batcher(1, 1000);
    for id in 0..=WAITING_MAX as u64 {
        batcher.run(id, &job("a", 2));
    }
    let stories = finish(&mut batcher);
    let busy = stories.values().filter(|story| story.end == Some(SequenceEvent::Failed(JobFailure::Busy))).count();
    assert_eq!(busy, 1);
}

#[test]
fn a_failed_step_ends_its_sequences_only() {
    let mut batcher = roomy();
    batcher.run(0, &job("a b", 5));
    batcher.step();
    // The slot no longer holds what the sequence believes.
    batcher.model.forget(0);
    batcher.run(1, &job("a b", 5));
    let stories = finish(&mut batcher);
    assert!(matches!(stories[&0].end, Some(SequenceEvent::Failed(JobFailure::Engine(_)))));
    batcher.run(2, &job("a b", 5));
    assert_eq!(finish(&mut batcher)[&2], alone(&job("a b", 5)));
    assert!(is_clean(&batcher));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn resuming_at_any_index_gives_the_same_tokens_and_text(
        seed: u64, temperature in prop::sample::select(vec![0.0_f32, 0.7, 1.5]), at in 0_usize..40,
        stop in prop::sample::select(vec![vec![], vec![" ka"], vec!["lo", "\u{e9} s"]])
    ) {
        let sampling = Sampling { seed, temperature, top_k: 40, repeat_penalty: 1.1, frequency_penalty: 0.2, ..Sampling::default() };
        let stop = stop.iter().map(|&s| s.to_owned()).collect();
        let job = EngineJob { sampling, stop, ..job("tell me a story", 40) };
        let story = alone(&job);
        let at = at.min(story.tokens.len());
        let rest = alone(&resumed(&job, &story, at));
        prop_assert_eq!(&rest.tokens[..], &story.tokens[at..]);
        prop_assert_eq!(rest.end, story.end);
    }

    #[test]
    fn random_work_leaves_nothing_behind(
        jobs in prop::collection::vec((1_usize..30, 1_u32..40, prop::option::of(0_usize..60)), 1..14), slots in 1_u16..5
    ) {
        let mut batcher = batcher(slots, 100);
        let mut stories = BTreeMap::new();
        for (id, (words, max_tokens, _)) in (0_u64..).zip(&jobs) {
            batcher.run(id, &job(&vec!["w"; *words].join(" "), *max_tokens));
        }
        for step in 0..10_000 {
            for (id, (.., cancel)) in (0_u64..).zip(&jobs) {
                if *cancel == Some(step) {
                    batcher.cancel(SequenceId(id));
                }
            }
            prop_assert!(batcher.placed.len() <= usize::from(slots));
            if !batcher.has_work() {
                break;
            }
            batcher.step();
            collect(&mut batcher, &mut stories);
        }
        prop_assert!(!batcher.has_work());
        prop_assert_eq!(batcher.stats().kv_free_tokens, 100);
        prop_assert_eq!(batcher.cells_held(), 0);
        for (id, (.., cancel)) in (0_u64..).zip(&jobs) {
            prop_assert!(cancel.is_some() || stories[&id].reason() == Some(FinishReason::Length));
        }
    }
}
