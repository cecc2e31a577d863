//! What a request would cost here, model by model: measured where something was measured, else a stated guess.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idlewild_engine::{DoublesAt, EngineStats};
use idlewild_protocol::{ModelId, ModelInfo, ModelLoad};

use super::room::{FreeRoom, need_bytes};
use crate::store::{RateRecord, unix_s};

/// Bytes of weights that a home machine's memory gives a second: what bounds decoding. Low, so that a peer that was never
/// measured does not outbid one that was.
const MEMORY_BYTES_PER_S: f32 = 8e9;

/// Prompt tokens read in the time of one decoded (measured: 3 to 7 on small CPUs).
const PREFILL_OVER_DECODE: f32 = 3.0;

/// Bytes of a model file that are loaded a second, check and warm-up included.
const LOAD_BYTES_PER_S: u64 = 200_000_000;

/// Milliseconds that any load takes.
const LOAD_LEAST_MS: u64 = 300;

/// Milliseconds after which a model might be loaded for which there is no memory now. Nobody knows; so long that whoever else
/// has it is asked first. Who is asked all the same refuses with the numbers.
const NO_MEMORY_MS: u32 = 3_600_000;

/// Seconds that a job is thought to take before one has ended.
const JOB_S: f32 = 10.0;

/// Weight of the latest job in the mean: about the last ten count.
const JOB_WEIGHT: f32 = 0.1;

/// What is assumed of models that were never loaded here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guess {
    /// The rates, where they are known from the configuration (the fake engine): decode, prefill.
    pub rates: Option<(f32, f32)>,
    /// Longest context of one request, in tokens.
    pub context_tokens: u32,
    /// Tokens of the KV cache.
    pub kv_tokens: u32,
    /// Requests that run at once.
    pub slots: u16,
}

/// What a model showed when it was last loaded.
#[derive(Debug, Clone, Copy)]
struct Shown {
    decode_tps: f32,
    prefill_tps: f32,
    /// Contexts that double the time of a token beside what ran then.
    doubles_at: DoublesAt,
    /// The same while nothing ran: what belongs to the model, and is kept.
    alone_doubles_at: DoublesAt,
    kv_bytes_per_token: u32,
    context_tokens: u32,
    load_ms: u32,
}

#[derive(Debug)]
struct Memory {
    /// Bounded by the models on disk.
    shown: BTreeMap<ModelId, Shown>,
    /// When models were last asked for, counted in jobs. Bounded as above: jobs for other models do not come this far.
    used: BTreeMap<ModelId, u64>,
    /// The last one that was loaded in this run.
    measured: Option<ModelId>,
    jobs: u64,
    job_s: f32,
    /// Bytes that an engine may take, as last looked at; none where that is not known.
    room_bytes: Option<u64>,
}

/// Remembers, and makes the digest's lines.
#[derive(Debug)]
pub(super) struct Loads {
    guess: Guess,
    memory: Mutex<Memory>,
}

impl Loads {
    /// Knows what earlier runs measured, as `records` have it.
    pub(super) fn new(guess: Guess, records: &[RateRecord]) -> Self {
        let recalled = |record: &RateRecord| Shown {
            decode_tps: record.decode_tps,
            prefill_tps: record.prefill_tps,
            doubles_at: record.doubles_at,
            alone_doubles_at: record.doubles_at,
            kv_bytes_per_token: record.kv_bytes_per_token,
            context_tokens: guess.context_tokens,
            load_ms: record.load_ms,
        };
        let shown = records.iter().map(|record| (record.model, recalled(record))).collect();
        let memory = Memory { shown, used: BTreeMap::new(), measured: None, jobs: 0, job_s: JOB_S, room_bytes: None };
        Self { guess, memory: Mutex::new(memory) }
    }

    /// The longest context of a request, whatever the model was made for.
    pub(super) fn context_tokens_max(&self) -> u32 {
        self.guess.context_tokens
    }

    /// What was measured of one model, for later runs.
    pub(super) fn record(&self, model: ModelId) -> Option<RateRecord> {
        let shown = self.memory().shown.get(&model).copied()?;
        Some(RateRecord {
            model,
            decode_tps: shown.decode_tps,
            prefill_tps: shown.prefill_tps,
            doubles_at: shown.alone_doubles_at,
            kv_bytes_per_token: shown.kv_bytes_per_token,
            load_ms: shown.load_ms,
            measured_s: unix_s(),
        })
    }

    /// The same of the last one that was loaded in this run, if any was.
    pub(super) fn last_record(&self) -> Option<RateRecord> {
        let last = self.memory().measured?;
        self.record(last)
    }

    /// What is known of a model's long contexts, by earlier runs or by this one.
    pub(super) fn doubles_at(&self, model: ModelId) -> DoublesAt {
        self.memory().shown.get(&model).map_or_else(DoublesAt::default, |shown| shown.alone_doubles_at)
    }

    /// What a model would take in memory, in bytes, as far as that was measured or can be guessed.
    pub(super) fn need_bytes(&self, model: &ModelInfo) -> u64 {
        let measured = self.memory().shown.get(&model.id).map_or(0, |shown| shown.kv_bytes_per_token);
        need_bytes(model, measured, &self.guess)
    }

    /// Whether there is no memory for a model. Without a file (the fake engine's) nothing is taken.
    fn is_too_large(&self, model: &ModelInfo, memory: &Memory) -> bool {
        let measured = memory.shown.get(&model.id).map_or(0, |shown| shown.kv_bytes_per_token);
        let fits = |room| need_bytes(model, measured, &self.guess) <= room;
        model.size_bytes > 0 && memory.room_bytes.is_some_and(|room| !fits(room))
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is so much room for an engine.
    pub(super) fn has_room(&self, room: Option<FreeRoom>) {
        self.memory().room_bytes = room.map(|room| room.bytes);
    }

    /// A job for this model begins.
    pub(super) fn job_begins(&self, model: ModelId) {
        let mut memory = self.memory();
        memory.jobs += 1;
        let at = memory.jobs;
        memory.used.insert(model, at);
    }

    /// A job has ended.
    pub(super) fn job_took(&self, took: Duration) {
        let mut memory = self.memory();
        memory.job_s += JOB_WEIGHT * (took.as_secs_f32() - memory.job_s);
    }

    /// One line a model: the loaded one, then those asked for last: a digest has room for the first few.
    pub(super) fn of(&self, engine: &EngineStats, models: &[ModelInfo]) -> Vec<ModelLoad> {
        let mut memory = self.memory();
        if let Some(loaded) = engine.model.as_ref().filter(|_| engine.decode_tps > 0.0) {
            let doubles_at = DoublesAt { decode: engine.decode_doubles_at, prefill: engine.prefill_doubles_at };
            let before = memory.shown.get(&loaded.id).map_or_else(DoublesAt::default, |shown| shown.alone_doubles_at);
            let shown = Shown {
                decode_tps: engine.decode_tps,
                prefill_tps: engine.prefill_tps,
                doubles_at,
                alone_doubles_at: if engine.running == 0 { doubles_at } else { before },
                kv_bytes_per_token: loaded.kv_bytes_per_token,
                context_tokens: loaded.context_tokens,
                load_ms: loaded.load_ms,
            };
            memory.shown.insert(loaded.id, shown);
            memory.measured = Some(loaded.id);
        }
        let mut loads: Vec<ModelLoad> = models.iter().map(|model| self.one(engine, model, &memory)).collect();
        loads.sort_by_key(|load| (!load.loaded, std::cmp::Reverse(memory.used.get(&load.model).copied())));
        loads
    }

    fn one(&self, engine: &EngineStats, model: &ModelInfo, memory: &Memory) -> ModelLoad {
        let loaded = engine.model.as_ref().is_some_and(|loaded| loaded.id == model.id);
        let shown = memory.shown.get(&model.id).copied().unwrap_or_else(|| self.guessed(model));
        let doubles_at = if loaded { shown.doubles_at } else { shown.alone_doubles_at };
        let load_ms = if loaded {
            0
        } else if self.is_too_large(model, memory) {
            NO_MEMORY_MS
        } else {
            shown.load_ms
        };
        ModelLoad {
            model: model.id,
            loaded,
            decode_tps: shown.decode_tps,
            prefill_tps: shown.prefill_tps,
            decode_doubles_at: doubles_at.decode,
            prefill_doubles_at: doubles_at.prefill,
            kv_bytes_per_token: shown.kv_bytes_per_token,
            context_tokens: shown.context_tokens.min(model.context_tokens.max(1)),
            kv_free_tokens: if loaded { engine.kv_free_tokens } else { self.guess.kv_tokens },
            queue_wait_ms: load_ms.saturating_add(self.queue_ms(engine, loaded, memory.job_s)),
            running: if loaded { engine.running } else { 0 },
            slots: self.guess.slots,
        }
    }

    /// Wait behind those that are here: for a slot, or for the other model's last job.
    fn queue_ms(&self, engine: &EngineStats, loaded: bool, job_s: f32) -> u32 {
        let slots = f32::from(self.guess.slots.max(1));
        let jobs_ahead = if !loaded {
            f32::from(engine.running + engine.waiting)
        } else if engine.running >= self.guess.slots || engine.waiting > 0 {
            f32::from(engine.waiting + 1)
        } else {
            0.0
        };
        (jobs_ahead * job_s / slots * 1000.0) as u32
    }

    fn guessed(&self, model: &ModelInfo) -> Shown {
        let by_size = MEMORY_BYTES_PER_S / (model.size_bytes.max(1_000_000) as f32);
        let (decode_tps, prefill_tps) = self.guess.rates.unwrap_or((by_size, by_size * PREFILL_OVER_DECODE));
        let load_ms = LOAD_LEAST_MS + model.size_bytes.saturating_mul(1000) / LOAD_BYTES_PER_S;
        Shown {
            decode_tps,
            prefill_tps,
            doubles_at: DoublesAt::default(),
            alone_doubles_at: DoublesAt::default(),
            kv_bytes_per_token: 0,
            context_tokens: self.guess.context_tokens.min(model.context_tokens.max(1)),
            load_ms: u32::try_from(load_ms).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use idlewild_engine::LoadedModel;

    use super::*;

    const GUESS: Guess = Guess { rates: None, context_tokens: 4096, kv_tokens: 8192, slots: 2 };

    fn model(id: u8) -> ModelInfo {
        ModelInfo { id: ModelId([id; 32]), name: format!("m{id}"), size_bytes: 100_000_000, context_tokens: 2048 }
    }

    fn loaded(id: u8) -> LoadedModel {
        LoadedModel {
            id: ModelId([id; 32]),
            name: String::new(),
            context_tokens: 2048,
            trained_context_tokens: 2048,
            kv_bytes_per_token: 23_053,
            size_bytes: 100_000_000,
            load_ms: 700,
            vocabulary: 1,
            layers: 1,
            layout: None,
        }
    }

    #[test]
    fn a_model_that_was_never_loaded_is_guessed_by_its_size() {
        let loads = Loads::new(GUESS, &[]).of(&EngineStats::default(), &[model(1)]);
        assert_eq!(loads.len(), 1);
        assert_eq!((loads[0].loaded, loads[0].decode_tps, loads[0].prefill_tps), (false, 80.0, 240.0));
        assert_eq!((loads[0].queue_wait_ms, loads[0].context_tokens, loads[0].kv_free_tokens), (800, 2048, 8192));
    }

    #[test]
    fn what_was_measured_is_remembered_after_the_model_is_gone() {
        let memory = Loads::new(GUESS, &[]);
        let ready = EngineStats {
            model: Some(loaded(2)),
            decode_tps: 50.0,
            prefill_tps: 200.0,
            kv_free_tokens: 100,
            ..EngineStats::default()
        };
        let loads = memory.of(&ready, &[model(1), model(2)]);
        assert_eq!((loads[0].model, loads[0].loaded, loads[0].kv_free_tokens), (ModelId([2; 32]), true, 100));
        assert_eq!(loads[0].queue_wait_ms, 0);
        let loads = memory.of(&EngineStats::default(), &[model(2)]);
        assert_eq!((loads[0].loaded, loads[0].decode_tps, loads[0].queue_wait_ms), (false, 50.0, 700));
    }

    #[test]
    fn what_earlier_runs_measured_comes_before_a_guess() {
        let memory = Loads::new(GUESS, &[]);
        let ready =
            EngineStats { model: Some(loaded(1)), decode_tps: 50.0, prefill_tps: 200.0, ..EngineStats::default() };
        memory.of(&ready, &[model(1)]);
        let record = memory.record(ModelId([1; 32])).unwrap();
        assert_eq!(memory.record(ModelId([2; 32])), None);
        let next = Loads::new(GUESS, &[record]).of(&EngineStats::default(), &[model(1), model(2)]);
        assert_eq!([next[0].decode_tps, next[1].decode_tps], [50.0, 80.0]);
        assert_eq!((next[0].queue_wait_ms, next[0].kv_bytes_per_token), (700, 23_053));
    }

    #[test]
    fn what_is_kept_of_long_contexts_is_what_was_seen_while_nothing_else_ran() {
        let memory = Loads::new(GUESS, &[]);
        let id = ModelId([1; 32]);
        assert_eq!((memory.doubles_at(id), memory.last_record()), (DoublesAt::default(), None));
        let idle = EngineStats {
            model: Some(loaded(1)),
            decode_tps: 50.0,
            decode_doubles_at: 1100,
            prefill_doubles_at: 2100,
            ..EngineStats::default()
        };
        memory.of(&idle, &[model(1)]);
        let busy = EngineStats { running: 2, decode_doubles_at: 3000, ..idle };
        assert_eq!(memory.of(&busy, &[model(1)])[0].decode_doubles_at, 3000, "one more is told of those that run");
        let record = memory.last_record().unwrap();
        assert_eq!(record.doubles_at, DoublesAt { decode: 1100, prefill: 2100 });
        let next = Loads::new(GUESS, &[record]);
        assert_eq!(next.doubles_at(id), record.doubles_at);
        let told = next.of(&EngineStats::default(), &[model(1)])[0];
        assert_eq!((told.decode_doubles_at, told.prefill_doubles_at), (1100, 2100));
        assert_eq!(next.last_record(), None, "nothing new was measured");
    }

    #[test]
    fn a_model_for_which_there_is_no_memory_is_offered_after_everybody_else_s_until_there_is() {
        let memory = Loads::new(GUESS, &[]);
        let need = memory.need_bytes(&model(1));
        let wait_ms = |bytes: Option<u64>, engine: &EngineStats| {
            memory.has_room(bytes.map(|bytes| FreeRoom { bytes, total_bytes: 2 * bytes, percent: 90 }));
            memory.of(engine, &[model(1)])[0].queue_wait_ms
        };
        let absent = EngineStats::default();
        assert_eq!(wait_ms(Some(need), &absent), 800);
        assert_eq!(wait_ms(Some(need - 1), &absent), NO_MEMORY_MS);
        let ready = EngineStats { model: Some(loaded(1)), decode_tps: 50.0, ..EngineStats::default() };
        assert_eq!(wait_ms(Some(need - 1), &ready), 0, "one that is loaded needs no more");
        assert_eq!(wait_ms(None, &absent), 700, "what is not known forbids nothing");
        let fake = ModelInfo { size_bytes: 0, ..model(2) };
        memory.has_room(Some(FreeRoom { bytes: 0, total_bytes: 1, percent: 90 }));
        assert!(memory.of(&absent, &[fake])[0].queue_wait_ms < NO_MEMORY_MS);
    }

    #[test]
    fn of_many_models_the_last_used_come_first() {
        let memory = Loads::new(GUESS, &[]);
        let models: Vec<ModelInfo> = (1..=6).map(model).collect();
        for used in [6, 5] {
            memory.job_begins(ModelId([used; 32]));
        }
        let ready = EngineStats { model: Some(loaded(4)), decode_tps: 50.0, ..EngineStats::default() };
        let told: Vec<u8> = memory.of(&ready, &models).iter().map(|load| load.model.0[0]).collect();
        assert_eq!(told, [4, 5, 6, 1, 2, 3]);
    }

    #[test]
    fn a_full_engine_says_how_long_the_wait_is() {
        let memory = Loads::new(GUESS, &[]);
        let full =
            EngineStats { model: Some(loaded(1)), decode_tps: 50.0, running: 2, waiting: 1, ..EngineStats::default() };
        assert_eq!(memory.of(&full, &[model(1)])[0].queue_wait_ms, 10_000);
        // Another model waits for those that run and wait, and for its own load.
        assert_eq!(memory.of(&full, &[model(3)])[0].queue_wait_ms, 15_800);
    }
}
