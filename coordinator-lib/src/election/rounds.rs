//! Terms that belong to their candidates, and how fast rounds may rise.

use core::time::Duration;

use idlewild_protocol::{PeerId, Term};

use crate::Now;

/// How far on a round may be to be believed, counted from the highest that was known when the present beat's time began.
/// Honest rounds rise by one an election. A member that lies just within this needs 24 days without a pause to spend all
/// rounds.
pub const ROUNDS_AHEAD_MAX: u32 = 1024;

/// How far the highest round rises, once a beat, for a word of one that is too far on: its own is not believed. So a newcomer
/// catches up with a swarm that is 10,000 rounds on within 70 s (and decides alone meanwhile); and honest peers that are
/// lied to, some more often than others, stay within reach of each other.
const ROUNDS_CLIMBED: u32 = 64;

/// Low bits of a term that come from its candidate's id. Two candidates of one round share them once in 2^32 pairs;
/// then the round may have two leaders of one term, and the smaller id steps down (see `Seat` in `role.rs`).
const OWNER_BITS: u32 = 32;

/// The term in which `candidate` stands in this round.
pub fn term_of(round: u32, candidate: PeerId) -> Term {
    Term(u64::from(round) << OWNER_BITS | owner_bits(candidate))
}

/// The round of a term: what a person may be told as the number of the election.
pub fn round(term: Term) -> u32 {
    (term.0 >> OWNER_BITS) as u32
}

/// Whether the term can be `candidate`'s.
pub fn owns(candidate: PeerId, term: Term) -> bool {
    term == term_of(round(term), candidate)
}

/// The key's last bytes: any four do for real keys, and the last are those that small test ids differ in.
fn owner_bits(candidate: PeerId) -> u64 {
    let [.., a, b, c, d] = candidate.0;
    u64::from(u32::from_be_bytes([a, b, c, d]))
}

/// The highest round that was heard of, and how far it may still rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Heard {
    pub(super) highest: u32,
    /// Rounds beyond are not believed before a beat's time has passed.
    ceiling: u32,
    /// When that time began; none before the first word.
    since: Option<Now>,
    /// It has risen for a word that was not believed.
    has_climbed: bool,
}

impl Heard {
    /// Of a peer that has voted up to this round.
    pub(super) fn from_disk(round: u32) -> Self {
        Self { highest: round, ceiling: round, since: None, has_climbed: false }
    }

    /// Takes in a round; whether it is to be believed.
    pub(super) fn hear(&mut self, now: Now, beat: Duration, round: u32) -> bool {
        if self.since.is_none_or(|since| now >= since + beat) {
            let ceiling = self.highest.saturating_add(ROUNDS_AHEAD_MAX);
            *self = Self { highest: self.highest, ceiling, since: Some(now), has_climbed: false };
        }
        let is_believed = round <= self.ceiling;
        if is_believed {
            self.highest = self.highest.max(round);
        } else if !core::mem::replace(&mut self.has_climbed, true) {
            self.highest = self.highest.saturating_add(ROUNDS_CLIMBED).min(self.ceiling);
        }
        is_believed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_round_wins_whoever_stands() {
        let (small, great) = (PeerId([0; 32]), PeerId([255; 32]));
        assert!(term_of(2, small) > term_of(1, great));
        assert!(term_of(1, great) > term_of(1, small));
    }

    #[test]
    fn a_term_tells_its_round_and_its_owner() {
        let (one, two) = (PeerId([1; 32]), PeerId([2; 32]));
        let term = term_of(7, one);
        assert_eq!(round(term), 7);
        assert!(owns(one, term));
        assert!(!owns(two, term));
    }

    const BEAT: Duration = Duration::from_millis(500);

    #[test]
    fn a_round_within_reach_is_believed_at_once_and_others_within_the_beat_are_not() {
        let mut heard = Heard::from_disk(3);
        assert!(heard.hear(Now::ZERO, BEAT, 1027));
        assert_eq!(heard.highest, 1027);
        assert!(!heard.hear(Now::ZERO, BEAT, 1028), "the beat's share is spent");
        assert_eq!(heard.highest, 1027);
        assert!(heard.hear(BEAT, BEAT, 1028));
        assert!(heard.hear(BEAT, BEAT, 1), "an old round is no news");
        assert_eq!(heard.highest, 1028);
    }

    #[test]
    fn a_flood_of_lies_raises_the_round_no_faster_than_one() {
        let mut heard = Heard::from_disk(0);
        for ms in 0..10_000 {
            assert!(!heard.hear(Duration::from_millis(ms), BEAT, u32::MAX));
        }
        assert_eq!(heard.highest, 20 * ROUNDS_CLIMBED);
    }

    #[test]
    fn a_newcomer_catches_up_with_a_swarm_that_is_far_on() {
        let mut heard = Heard::from_disk(0);
        let beats = (0..1000).take_while(|beat| !heard.hear(BEAT * *beat, BEAT, 10_000)).count();
        assert_eq!(beats, 141);
    }
}
