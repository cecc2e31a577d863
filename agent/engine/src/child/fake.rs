//! A model of no weights: pseudo-text at set rates, for tests of everything around the engine.
//!
//! The next token depends on the ids before it and on nothing else, so a sequence that goes on elsewhere goes on exactly.
//! Words are tokens; now and then comes a character whose two bytes are two tokens. It never ends by itself, except where
//! the prompt holds the word `!end=N` (N up to 63): the answer ends N tokens after the end of a prompt in which that word
//! is the last, sooner by what follows it there.
//!
//! Its KV cache is what it depends on, the ids themselves, in as many bytes as a small model's: so it is exported, checked
//! and imported as a real one is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use idlewild_protocol::{LayoutFingerprint, TokenId};

use super::model::{Entry, Facts, KvError, Model};
use super::template::ChatTemplate;
use crate::FakeRates;
use crate::config::Limits;

const VOCABULARY: u32 = 1024;
/// Says that the answer is complete.
const END: u32 = 0;
/// Ids of the 256 bytes.
const BYTES: u32 = 1;
/// Ids of `!end=0` to `!end=63`.
const ENDS: u32 = 257;
/// Ids of words, up to the vocabulary's end.
const WORDS: u32 = 321;

/// The two bytes of U+00E9.
const LEAD: u32 = BYTES + 0xc3;
const TRAIL: u32 = BYTES + 0xa9;

/// What a context of the fake would take on the wire: that of a small model.
pub(crate) const KV_BYTES_PER_TOKEN: usize = 20_480;

/// Bytes of a position before the padding: its place, its id, and a check of both.
const KV_HEADER_BYTES: usize = 16;

/// How soon a step that only passes the time sees that it is interrupted.
const GLANCE: Duration = Duration::from_millis(5);

/// Longer words count as several where a prompt's length is judged by its bytes.
const LONGEST_WORD_BYTES: usize = 1024;

/// How logits of words spread: enough that greedy choices are clear and sampled ones vary.
const SPREAD: f32 = 8.0;

const SYLLABLES: [&str; 16] =
    ["ka", "lo", "mi", "ne", "ru", "sa", "to", "vi", "be", "du", "fa", "go", "he", "ju", "pi", "wo"];

const TEMPLATE: &str = "{% for m in messages %}<|{{ m.role }}|> {{ m.content }} {% endfor %}<|assistant|>";

/// What one slot holds: the ids, and what the next token depends on of them.
#[derive(Debug, Clone, Default)]
struct Held {
    ids: Vec<u32>,
    hash: u64,
    last: u32,
    ends_at: Option<u32>,
}

/// See the module.
pub(crate) struct Fake {
    rates: FakeRates,
    facts: Facts,
    template: Result<ChatTemplate, String>,
    held: Vec<Held>,
    interrupted: Arc<AtomicBool>,
    /// The logits of the last batch, by the entry's index.
    rows: Vec<(usize, Vec<f32>)>,
}

impl Fake {
    pub(crate) fn load(rates: FakeRates, limits: Limits) -> Self {
        sleep(Duration::from_millis(u64::from(rates.load_ms)));
        Self {
            rates,
            facts: Facts {
                vocabulary: VOCABULARY,
                context_tokens: limits.context_tokens,
                trained_context_tokens: limits.context_tokens,
                kv_tokens: limits.kv_tokens,
                layers: 1,
                size_bytes: 0,
                longest_token_bytes: LONGEST_WORD_BYTES,
            },
            template: ChatTemplate::new(TEMPLATE, "", ""),
            held: vec![Held::default(); usize::from(limits.slots)],
            interrupted: Arc::default(),
            rows: Vec::new(),
        }
    }

    /// A step reads its prompt pieces one after the other, and decodes all its decoding sequences at once.
    fn pause(&self, batch: &[Entry]) {
        let end = Instant::now() + self.duration(batch);
        while !self.is_interrupted() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            sleep(left.min(GLANCE));
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    fn duration(&self, batch: &[Entry]) -> Duration {
        let prompt = batch.iter().filter(|entry| !entry.wants_logits).count();
        let mut seconds = per_second(prompt as f32, self.rates.prefill_tps);
        if prompt < batch.len() {
            seconds += per_second(1.0, self.rates.decode_tps);
        }
        Duration::from_secs_f32(seconds)
    }
}

/// Seconds for `count` at a rate; none at 0 or infinity.
fn per_second(count: f32, rate: f32) -> f32 {
    if rate > 0.0 && rate.is_finite() { count / rate } else { 0.0 }
}

impl Held {
    fn take(&mut self, id: u32) {
        if (ENDS..WORDS).contains(&id) {
            self.ends_at = Some(self.count() + 1 + (id - ENDS));
        }
        self.hash = scramble(self.hash ^ u64::from(id));
        self.last = id;
        self.ids.push(id);
    }

    fn count(&self) -> u32 {
        self.ids.len() as u32
    }

    fn truncate(&mut self, from: u32) {
        let ids = core::mem::take(&mut self.ids);
        *self = Self::default();
        for id in ids.into_iter().take(from as usize) {
            self.take(id);
        }
    }

    fn logits(&self) -> Vec<f32> {
        let mut row = vec![f32::NEG_INFINITY; VOCABULARY as usize];
        if self.last == LEAD {
            row[TRAIL as usize] = 0.0;
            return row;
        }
        if self.ends_at.is_some_and(|at| self.count() >= at) {
            row[END as usize] = 0.0;
            return row;
        }
        for id in (WORDS..VOCABULARY).chain([LEAD]) {
            let share = (scramble(self.hash.wrapping_add(u64::from(id))) >> 40) as f32 / (1_u32 << 24) as f32;
            row[id as usize] = share * SPREAD;
        }
        row
    }
}

/// splitmix64's finaliser.
fn scramble(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn word_id(word: &str) -> u32 {
    if let Some(n) = word.strip_prefix("!end=").and_then(|n| n.parse::<u32>().ok()) {
        return ENDS + n.min(WORDS - ENDS - 1);
    }
    let hash = word.bytes().fold(0, |hash, byte| scramble(hash ^ u64::from(byte)));
    WORDS + (hash % u64::from(VOCABULARY - WORDS)) as u32
}

/// The KV cache of one position.
fn kv_of(position: u32, id: u32) -> Vec<u8> {
    let check = scramble(u64::from(position) << 32 | u64::from(id));
    let mut bytes = vec![check as u8; KV_BYTES_PER_TOKEN];
    bytes[..4].copy_from_slice(&position.to_le_bytes());
    bytes[4..8].copy_from_slice(&id.to_le_bytes());
    bytes[8..KV_HEADER_BYTES].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// The ids of [`from`, `to`), if the bytes are exactly what is exported for them.
fn ids_of(from: u32, to: u32, bytes: &[u8]) -> Result<Vec<u32>, KvError> {
    let (positions, rest) = bytes.as_chunks::<KV_BYTES_PER_TOKEN>();
    if positions.len() != (to - from) as usize || !rest.is_empty() {
        return Err(KvError::Malformed("another length"));
    }
    let id_of = |(position, bytes): (u32, &[u8; KV_BYTES_PER_TOKEN])| {
        let id = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let is_whole = id < VOCABULARY && kv_of(position, id) == bytes;
        is_whole.then_some(id).ok_or(KvError::Malformed("another position, or damaged"))
    };
    (from..).zip(positions).map(id_of).collect()
}

impl Model for Fake {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn tokenize(&self, text: &str) -> Vec<TokenId> {
        text.split_whitespace().map(|word| TokenId(word_id(word))).collect()
    }

    fn begin(&self) -> Option<TokenId> {
        None
    }

    fn piece(&self, id: TokenId, into: &mut Vec<u8>) {
        if (BYTES..ENDS).contains(&id.0) {
            into.push((id.0 - BYTES) as u8);
        } else if id.0 >= WORDS {
            let n = (id.0 - WORDS) as usize;
            into.push(b' ');
            into.extend_from_slice(SYLLABLES[n % 16].as_bytes());
            into.extend_from_slice(SYLLABLES[n / 16 % 16].as_bytes());
            into.extend_from_slice(SYLLABLES[n / 256].as_bytes());
        }
    }

    fn is_end(&self, id: TokenId) -> bool {
        id.0 == END
    }

    fn template(&self) -> Result<&ChatTemplate, &str> {
        self.template.as_ref().map_err(String::as_str)
    }

    fn evaluate(&mut self, batch: &[Entry]) -> Result<(), String> {
        self.pause(batch);
        self.rows.clear();
        // Interrupted, it has done a part, as a real model has.
        let is_interrupted = self.is_interrupted();
        let batch = if is_interrupted { &batch[..batch.len().div_ceil(2)] } else { batch };
        for (index, entry) in batch.iter().enumerate() {
            let held = &mut self.held[usize::from(entry.slot)];
            if held.count() != entry.position {
                return Err(format!("slot {} holds {}, not {}", entry.slot, held.count(), entry.position));
            }
            held.take(entry.id.0);
            if entry.wants_logits {
                self.rows.push((index, held.logits()));
            }
        }
        if is_interrupted {
            return Err("interrupted".to_owned());
        }
        let cells: u32 = self.held.iter().map(Held::count).sum();
        if cells > self.facts.kv_tokens { Err("no cells".to_owned()) } else { Ok(()) }
    }

    fn logits(&self, index: usize) -> &[f32] {
        self.rows.iter().find(|(at, _)| *at == index).map_or(&[], |(_, row)| row)
    }

    fn forget(&mut self, slot: u16) {
        self.held[usize::from(slot)] = Held::default();
    }

    fn held(&self, slot: u16) -> u32 {
        self.held[usize::from(slot)].count()
    }

    fn state_bytes(&self, slot: u16) -> usize {
        self.held(slot) as usize * KV_BYTES_PER_TOKEN
    }

    fn layout(&self) -> Option<LayoutFingerprint> {
        Some(LayoutFingerprint(*blake3::hash(b"idlewild fake 1").as_bytes()))
    }

    fn export(&mut self, slot: u16, from: u32, to: u32) -> Result<Vec<u8>, KvError> {
        let ids = &self.held[usize::from(slot)].ids;
        let part = ids.get(from as usize..to as usize).ok_or(KvError::OtherPositions)?;
        let mut bytes = Vec::with_capacity(part.len() * KV_BYTES_PER_TOKEN);
        for (position, id) in (from..).zip(part) {
            bytes.extend_from_slice(&kv_of(position, *id));
        }
        Ok(bytes)
    }

    fn import(&mut self, slot: u16, from: u32, to: u32, bytes: &[u8]) -> Result<(), KvError> {
        if self.held(slot) != from || to < from {
            return Err(KvError::OtherPositions);
        }
        let ids = ids_of(from, to, bytes)?;
        let held = &mut self.held[usize::from(slot)];
        for id in ids {
            held.take(id);
        }
        Ok(())
    }

    fn truncate(&mut self, slot: u16, from: u32) {
        self.held[usize::from(slot)].truncate(from);
    }

    fn interrupter(&self) -> Option<Arc<AtomicBool>> {
        Some(Arc::clone(&self.interrupted))
    }

    fn known(&self) -> Option<(f32, f32, u32)> {
        let known = |rate: f32| if rate > 0.0 { rate } else { f32::INFINITY };
        Some((known(self.rates.prefill_tps), known(self.rates.decode_tps), KV_BYTES_PER_TOKEN as u32))
    }
}
