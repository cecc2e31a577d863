//! Lengths of answers by client, model and prompt length, within bounded memory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::buckets::{BUCKETS, log_middle, prompt_bucket};
use super::estimate::LengthEstimate;
use super::group::{Group, Moments, whole};
use super::spread::Spread;

/// Groups of a level that are kept; where there are more, those that were used longest ago go.
pub const MOST_GROUPS: usize = 2048;

/// How many go at once, so that looking for them costs little each time.
const FORGOTTEN_AT_ONCE: usize = MOST_GROUPS / 8;

/// Before anything was seen: answers of some 200 tokens, most between 50 and 800, as a lognormal.
const PRIOR_LOG_MEDIAN: f64 = 5.3;
const PRIOR_LOG_DEVIATION: f64 = 1.4;

/// How many answers that prior counts as.
const PRIOR_STRENGTH: f64 = 5.0;

/// An answer that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens that were produced.
    pub output_tokens: u32,
    /// Whether the model ended it. False where it was cut off, by `max_tokens` or by its client: it would have been
    /// longer.
    pub ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Entry {
    group: Group,
    /// The number of the last answer that fell in it.
    used: u64,
}

/// Groups of one level of the hierarchy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(serialize = "K: Serialize", deserialize = "K: Deserialize<'de> + Ord"))]
struct Level<K: Ord> {
    #[serde(with = "crate::pairs")]
    groups: BTreeMap<K, Entry>,
    spread: Spread,
}

impl<K: Ord + Clone> Level<K> {
    fn new() -> Self {
        Self { groups: BTreeMap::new(), spread: Spread::default() }
    }

    fn add(&mut self, key: K, parts: &[f64; BUCKETS], number: u64) {
        let entry = self.groups.entry(key).or_default();
        let before = entry.group.moments;
        entry.group.add(parts);
        entry.used = number;
        self.spread.replace(before, entry.group.moments);
        if self.groups.len() > MOST_GROUPS {
            self.forget_unused();
        }
    }

    fn forget_unused(&mut self) {
        let mut used: Vec<u64> = self.groups.values().map(|entry| entry.used).collect();
        let (_, &mut last_to_go, _) = used.select_nth_unstable(FORGOTTEN_AT_ONCE.min(self.groups.len() - 1));
        let spread = &mut self.spread;
        self.groups.retain(|_, entry| {
            let stays = entry.used > last_to_go;
            if !stays {
                spread.replace(entry.group.moments, Moments::default());
            }
            stays
        });
    }

    /// The shares of a group, drawn towards those of the level above it; these where the group is unknown.
    fn shares(&self, key: &K, above: &[f64; BUCKETS]) -> [f64; BUCKETS] {
        self.groups.get(key).map_or(*above, |entry| entry.group.shares(above, self.spread.strength()))
    }
}

/// Lengths of answers, older ones fading. C names a client, M a model.
///
/// All that is known of a client is drawn towards what is known of its model and prompt length, and that towards the
/// fleet: a group of n answers weighs n / (n + k), k being the variance within groups over that between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "C: Serialize, M: Serialize",
    deserialize = "C: Deserialize<'de> + Ord, M: Deserialize<'de> + Ord"
))]
pub struct LengthHistory<C: Ord, M: Ord> {
    fleet: Group,
    models: Level<(M, u8)>,
    clients: Level<(C, M, u8)>,
    /// Answers seen.
    answers: u64,
}

impl<C: Ord + Clone, M: Ord + Clone> Default for LengthHistory<C, M> {
    fn default() -> Self {
        Self { fleet: Group::default(), models: Level::new(), clients: Level::new(), answers: 0 }
    }
}

impl<C: Ord + Clone, M: Ord + Clone> LengthHistory<C, M> {
    /// Learns from an answer. One that was cut off counts as what is believed of answers at least as long.
    pub fn observe(&mut self, client: &C, model: &M, answer: Answer) {
        let tokens = f64::from(answer.output_tokens);
        let parts = if answer.ended {
            whole(tokens)
        } else {
            self.estimate(client, model, answer.prompt_tokens).shares_beyond(tokens)
        };
        let prompt = prompt_bucket(answer.prompt_tokens);
        self.answers += 1;
        self.fleet.add(&parts);
        self.models.add((model.clone(), prompt), &parts, self.answers);
        self.clients.add((client.clone(), model.clone(), prompt), &parts, self.answers);
    }

    /// What is believed of the length of an answer to a prompt of this length, before any of it is there.
    pub fn estimate(&self, client: &C, model: &M, prompt_tokens: u32) -> LengthEstimate {
        let prompt = prompt_bucket(prompt_tokens);
        let fleet = self.fleet.shares(&prior(), PRIOR_STRENGTH);
        let of_model = self.models.shares(&(model.clone(), prompt), &fleet);
        LengthEstimate::new(self.clients.shares(&(client.clone(), model.clone(), prompt), &of_model))
    }

    /// Groups that are remembered.
    pub fn groups(&self) -> usize {
        self.models.groups.len() + self.clients.groups.len()
    }
}

fn prior() -> [f64; BUCKETS] {
    let mut shares = [0.0; BUCKETS];
    for (bucket, share) in shares.iter_mut().enumerate() {
        let off = (log_middle(bucket) - PRIOR_LOG_MEDIAN) / PRIOR_LOG_DEVIATION;
        *share = (-off * off / 2.0).exp();
    }
    let total: f64 = shares.iter().sum();
    shares.map(|share| share / total)
}
