//! From verdicts to blocks, without flapping: people leave over fans and engines that start and stop with every look.

use std::collections::BTreeMap;
use std::time::Duration;

use idlewild_protocol::DepartureCause;

use super::verdict::{Rule, Standing, Verdict};

/// A rule that has forbidden once forbids for so long, whatever it says meanwhile.
pub const HELD_AT_LEAST: Duration = Duration::from_secs(20);

/// What forbids a session, of one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// All reasons of this cause, in words.
    pub reason: String,
    /// Whether the memory is wanted at once, without the grace.
    pub is_at_once: bool,
}

/// The rules that forbid now, and those that have done so a moment ago.
#[derive(Debug, Default)]
pub struct Suspensions {
    held: BTreeMap<Rule, Held>,
}

#[derive(Debug)]
struct Held {
    since: Duration,
    reason: String,
}

impl Suspensions {
    /// Takes in what the rules say at `now` (on any clock that goes on while the machine sleeps).
    pub fn update(&mut self, now: Duration, verdict: &Verdict) {
        for finding in &verdict.findings {
            let rule = finding.rule;
            match finding.standing {
                Standing::Broken => {
                    let held = self.held.entry(rule).or_insert_with(|| Held { since: now, reason: String::new() });
                    held.reason = finding.reason();
                }
                // Too near to the limit, or too soon, to begin again.
                Standing::Near => {}
                Standing::Off => drop(self.held.remove(&rule)),
                Standing::Fine | Standing::Unknown => {
                    let is_over = |held: &Held| rule.lifts_at_once() || now.saturating_sub(held.since) >= HELD_AT_LEAST;
                    if self.held.get(&rule).is_some_and(is_over) {
                        self.held.remove(&rule);
                    }
                }
            }
        }
    }

    /// Whether a rule forbids.
    pub fn holds(&self, rule: Rule) -> bool {
        self.held.contains_key(&rule)
    }

    /// The rule that has forbidden for longest: the one that ended the session.
    pub fn first(&self) -> Option<Rule> {
        self.held.iter().min_by_key(|(rule, held)| (held.since, **rule)).map(|(rule, _)| *rule)
    }

    /// What forbids, by the cause that a session would end of.
    pub fn blocks(&self) -> BTreeMap<DepartureCause, Block> {
        let mut blocks: BTreeMap<DepartureCause, Block> = BTreeMap::new();
        for (rule, held) in &self.held {
            let block =
                blocks.entry(rule.cause()).or_insert_with(|| Block { reason: String::new(), is_at_once: false });
            if !block.reason.is_empty() {
                block.reason.push_str("; ");
            }
            block.reason.push_str(&held.reason);
            block.is_at_once |= rule.wants_memory_at_once();
        }
        blocks
    }
}
