//! Terms that belong to their candidates.

use idlewild_protocol::{PeerId, Term};

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
}
