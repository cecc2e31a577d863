//! Which positions of a context to pull next. Pure.
//!
//! ```text
//! whole:  |=== held ===|-- asked --> end                     | known      chunk after chunk, and on as the source decodes
//! rest:   |=== held ==> prefilled here     low <-- asked --| end | known  the two meet, then again for what came since
//! ```

use std::collections::VecDeque;

use idlewild_protocol::{FEED_TOKENS, PullPart};

/// Pulls under way: while one chunk is copied at either end, the next is on the link.
const UNDER_WAY_MAX: usize = 3;

/// What a destination may be evaluating when a chunk is asked for: chunks keep so far away from what it holds, since it would
/// have to drop one that it has run into.
const PIECE_TOKENS: u32 = 64;

/// The shortest chunk between the two ends: prefilling less takes no longer than asking.
const LEAST_TOKENS: u32 = 8;

/// A context whose rest is shorter is not pulled.
const SHORT: u32 = PIECE_TOKENS + LEAST_TOKENS;

/// Positions [from, to).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from: u32,
    pub(super) to: u32,
}

/// What is asked for, what has come, and what is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PullPlan {
    part: PullPart,
    chunk_tokens: u32,
    /// Whole: new positions that are worth a chunk of their own.
    feed_tokens: u32,
    under_way: VecDeque<Range>,
    /// What the holder did not hold yet, to be asked for again.
    put_off: VecDeque<Range>,
    /// The end of what was asked for. Rest: of this round.
    end: u32,
    /// Rest: the beginning of what was asked for in this round.
    low: u32,
    /// Something has come.
    has_any: bool,
    /// The holder has read the front only: there is nothing at the other end to begin from.
    is_front_only: bool,
    /// Rest: positions that may wait for the front. What is before them is left to it.
    waiting_max: u32,
}

impl PullPlan {
    /// For a destination that holds nothing yet. `known`: positions that the holder has.
    pub(super) fn new(part: PullPart, chunk_tokens: u32, known: u32) -> Self {
        let end = if part == PullPart::Rest { known } else { 0 };
        Self {
            part,
            chunk_tokens: chunk_tokens.max(1),
            feed_tokens: FEED_TOKENS,
            under_way: VecDeque::new(),
            put_off: VecDeque::new(),
            end,
            low: end,
            has_any: false,
            is_front_only: false,
            waiting_max: u32::MAX,
        }
    }

    /// The same, where so many positions may wait for those before them.
    pub(super) fn within(self, waiting_max: u32) -> Self {
        Self { waiting_max, ..self }
    }

    /// Rest: the holder does not hold the end of the context and never will, since it computes no more. What it has is the
    /// front: that is asked for, from where the destination is by now. False where that is no way out.
    pub(super) fn turn_to_the_front(&mut self, held: u32) -> bool {
        let can_turn = self.part == PullPart::Rest && !self.has_any;
        if can_turn {
            let begins = held.saturating_add(PIECE_TOKENS);
            *self = Self {
                end: begins,
                is_front_only: true,
                feed_tokens: self.feed_tokens,
                ..Self::new(PullPart::Whole, self.chunk_tokens, 0).within(self.waiting_max)
            };
        }
        can_turn
    }

    /// Rest: the hand-over is near, and nothing is on its way. What the holder has by now is sooner made than asked for at the
    /// other end; what it makes from here on is pulled as it comes, so that it is there when the last token is.
    pub(super) fn follow(&mut self, known: u32) {
        if self.part == PullPart::Rest && !self.is_waiting() && self.put_off.is_empty() {
            let end = known.max(self.end);
            *self = Self { end, ..Self::new(PullPart::Whole, self.chunk_tokens, 0).within(self.waiting_max) };
        }
    }

    /// Chunks have so many positions from here on.
    pub(super) fn resize(&mut self, chunk_tokens: u32) {
        self.chunk_tokens = chunk_tokens.max(1);
    }

    /// Which part is pulled.
    pub(super) fn part(&self) -> PullPart {
        self.part
    }

    /// The next range to ask for, if any: the holder has `known` positions and the destination `held`.
    pub(super) fn next(&mut self, known: u32, held: u32) -> Option<Range> {
        if self.under_way.len() >= UNDER_WAY_MAX {
            return None;
        }
        let again = self.put_off.pop_front();
        let range = again.or_else(|| match self.part {
            PullPart::Whole => self.next_of_whole(known),
            PullPart::Rest => self.next_of_rest(held),
        })?;
        self.under_way.push_back(range);
        Some(range)
    }

    /// Whether there is one.
    pub(super) fn has_next(&self, known: u32, held: u32) -> bool {
        self.clone().next(known, held).is_some()
    }

    fn next_of_whole(&mut self, known: u32) -> Option<Range> {
        let left = known.checked_sub(self.end).filter(|left| *left >= self.feed_tokens)?;
        let from = self.end;
        self.end += left.min(self.chunk_tokens);
        Some(Range { from, to: self.end })
    }

    /// What lies between the two is asked for until nothing but a piece is left: that is being prefilled. Or until as much
    /// waits as may.
    fn next_of_rest(&mut self, held: u32) -> Option<Range> {
        let gap = self.low.saturating_sub(held);
        let room = self.waiting_max.saturating_sub(self.end - self.low);
        if gap < SHORT || room < LEAST_TOKENS {
            return None;
        }
        let to = self.low;
        self.low -= self.chunk_tokens.min(gap - PIECE_TOKENS).min(room);
        Some(Range { from: self.low, to })
    }

    /// Whether an answer is due.
    pub(super) fn is_waiting(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// That range has come.
    pub(super) fn came(&mut self, range: Range) {
        self.has_any = true;
        self.forget(range);
    }

    fn forget(&mut self, range: Range) {
        self.under_way.retain(|asked| *asked != range);
    }

    /// The holder does not hold that range yet.
    pub(super) fn put_off(&mut self, range: Range) {
        if self.under_way.contains(&range) {
            self.forget(range);
            self.put_off.push_back(range);
        }
    }

    /// What is under way will not come on its stream: it is asked for again.
    pub(super) fn ask_again(&mut self) {
        self.put_off.extend(self.under_way.drain(..));
    }

    /// The first position that the destination must not evaluate itself; none where it is to evaluate all. What was handed
    /// in and was of no use (it overlaps what the destination had begun to evaluate) it thus makes itself.
    pub(super) fn expect(&self) -> Option<u32> {
        let on_its_way = self.under_way.iter().chain(&self.put_off).map(|range| range.from).min();
        match self.part {
            PullPart::Whole => Some(self.missing()),
            PullPart::Rest => on_its_way,
        }
    }

    /// Whole: the hand-over is near, and to pull a token is sooner done than to make it: each is worth a chunk.
    pub(super) fn hurry(&mut self, is_urgent: bool) {
        self.feed_tokens = if is_urgent { 1 } else { FEED_TOKENS };
    }

    /// The link is slower than was thought: let the destination prefill from the other end. What comes still is used.
    pub(super) fn split(&mut self, known: u32) {
        if self.part == PullPart::Whole && !self.is_front_only {
            *self = Self::new(PullPart::Rest, self.chunk_tokens, known).within(self.waiting_max);
        }
    }

    /// Whole: positions of the holder's that have not come, if they are worth a chunk.
    pub(super) fn lacks(&self, known: u32) -> u32 {
        let lack = known.saturating_sub(self.missing());
        if lack >= self.feed_tokens { lack } else { 0 }
    }

    /// Whole: the first position that has not come.
    fn missing(&self) -> u32 {
        self.under_way.iter().chain(&self.put_off).map(|range| range.from).min().unwrap_or(self.end)
    }

    /// Rest: whether the destination holds what this round was for.
    pub(super) fn is_round_over(&self, held: u32) -> bool {
        let is_nothing_pulled = self.low == self.end && self.low.saturating_sub(held) < SHORT;
        !self.is_waiting() && self.put_off.is_empty() && (held >= self.end || is_nothing_pulled)
    }

    /// Rest: begins another round, for what came since; false where that is not worth it.
    pub(super) fn next_round(&mut self, known: u32, held: u32) -> bool {
        let is_worth_it = known.saturating_sub(held) >= SHORT;
        if is_worth_it {
            *self = Self::new(PullPart::Rest, self.chunk_tokens, known).within(self.waiting_max);
        }
        is_worth_it
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(from: u32, to: u32) -> Range {
        Range { from, to }
    }

    #[test]
    fn whole_contexts_come_from_the_front_and_then_in_feeds() {
        let mut plan = PullPlan::new(PullPart::Whole, 64, 150);
        assert_eq!(plan.next(150, 0), Some(range(0, 64)));
        assert_eq!(plan.next(150, 0), Some(range(64, 128)));
        assert_eq!(plan.next(150, 0), Some(range(128, 150)));
        assert_eq!((plan.next(500, 0), plan.expect()), (None, Some(0)), "three are under way");
        plan.came(range(0, 64));
        assert_eq!(plan.expect(), Some(64));
        assert_eq!(plan.next(165, 64), None, "15 more are not worth a chunk");
        assert_eq!(plan.next(166, 64), Some(range(150, 166)));
        assert_eq!(plan.lacks(170), 106);
        plan.hurry(true);
        plan.came(range(64, 128));
        assert_eq!(plan.next(167, 64), Some(range(166, 167)));
    }

    #[test]
    fn the_rest_comes_from_the_back_until_the_two_meet() {
        let mut plan = PullPlan::new(PullPart::Rest, 64, 400);
        assert_eq!(plan.next(400, 0), Some(range(336, 400)));
        assert_eq!(plan.next(400, 100), Some(range(272, 336)));
        assert_eq!(plan.expect(), Some(272));
        plan.came(range(336, 400));
        assert_eq!(plan.next(400, 208), None, "64 are left between the two");
        plan.came(range(272, 336));
        assert!(!plan.is_round_over(271), "it prefills up to where the chunks begin");
        assert!(plan.is_round_over(400));
        assert!(!plan.next_round(430, 400));
        assert!(plan.next_round(500, 400));
        assert_eq!(plan.next(500, 400), Some(range(464, 500)));
        let mut plan = PullPlan::new(PullPart::Rest, 256, 400);
        let asked: Vec<_> = std::iter::from_fn(|| plan.next(400, 0)).collect();
        assert_eq!(
            asked,
            [range(144, 400), range(64, 144)],
            "a large chunk leaves no more to prefill than a small one"
        );
    }

    #[test]
    fn no_more_of_the_rest_is_asked_for_than_may_wait() {
        let mut plan = PullPlan::new(PullPart::Rest, 64, 1000).within(100);
        let asked: Vec<_> = std::iter::from_fn(|| plan.next(1000, 0)).collect();
        assert_eq!(asked, [range(936, 1000), range(900, 936)]);
        for range in asked {
            plan.came(range);
        }
        assert_eq!((plan.next(1000, 800), plan.expect()), (None, None), "the ids make what is before them");
        assert!(!plan.is_round_over(899) && plan.is_round_over(1000));
        assert!(plan.next_round(2000, 1000));
        assert_eq!(plan.next(2000, 1000), Some(range(1936, 2000)));
        assert_eq!(plan.next(2000, 1000), Some(range(1900, 1936)), "of each round");
        assert_eq!(PullPlan::new(PullPart::Rest, 64, 1000).within(LEAST_TOKENS - 1).next(1000, 0), None);
        let mut whole = PullPlan::new(PullPart::Whole, 64, 1000).within(10);
        assert_eq!(whole.next(1000, 0), Some(range(0, 64)), "it waits for nothing before it");
    }

    #[test]
    fn what_did_not_come_is_asked_for_again_first() {
        let mut plan = PullPlan::new(PullPart::Whole, 64, 1000);
        let asked: Vec<_> = std::iter::from_fn(|| plan.next(1000, 0)).collect();
        plan.put_off(asked[0]);
        plan.came(asked[1]);
        assert_eq!(plan.next(1000, 0), Some(asked[0]));
        plan.ask_again();
        assert_eq!(std::iter::from_fn(|| plan.next(1000, 0)).collect::<Vec<_>>()[..2], [asked[2], asked[0]]);
    }

    #[test]
    fn what_a_holder_has_read_of_a_prompt_is_asked_for_from_the_front() {
        let mut plan = PullPlan::new(PullPart::Rest, 64, 1000);
        plan.put_off(plan.clone().next(1000, 0).unwrap());
        assert_eq!(plan.next(1000, 32), Some(range(936, 1000)));
        assert!(plan.turn_to_the_front(32));
        assert_eq!((plan.next(1000, 32), plan.expect()), (Some(range(96, 160)), Some(96)), "a piece may be under way");
        plan.split(1000);
        assert_eq!(plan.part(), PullPart::Whole, "not to the end that is not there");
        assert!(!plan.turn_to_the_front(40));
        let mut plan = PullPlan::new(PullPart::Rest, 64, 1000);
        let first = plan.next(1000, 0).unwrap();
        plan.came(first);
        assert!(!plan.turn_to_the_front(0), "the end is there");
    }

    #[test]
    fn near_the_hand_over_what_is_new_comes_and_what_is_old_is_made() {
        let mut plan = PullPlan::new(PullPart::Rest, 64, 400);
        let first = plan.next(400, 0).unwrap();
        plan.follow(400);
        assert_eq!(plan.part(), PullPart::Rest, "something is on its way");
        plan.came(first);
        plan.follow(410);
        plan.hurry(true);
        assert_eq!((plan.next(410, 390), plan.expect()), (None, Some(410)));
        assert_eq!(plan.next(411, 395), Some(range(410, 411)));
        plan.came(range(410, 411));
        assert_eq!(plan.expect(), Some(411));
    }

    proptest! {
        /// Whatever comes, is put off or breaks: what is pulled and what is prefilled leave no gap, and all ends.
        #[test]
        fn no_position_is_left_out(
            whole: bool, chunk in 1_u32..300, known in 0_u32..5000, waiting_max in 0_u32..5000,
            steps in prop::collection::vec(0_u8..5, 0..200),
        ) {
            let part = if whole { PullPart::Whole } else { PullPart::Rest };
            let mut plan = PullPlan::new(part, chunk, known).within(waiting_max);
            let mut has = vec![false; known as usize];
            let mut held = 0;
            let script = steps.into_iter().chain(std::iter::repeat_n(0, 20_000));
            for step in script {
                while plan.next(known, held).is_some() {}
                let asked = plan.under_way.clone();
                match (step, asked.front().copied()) {
                    (0 | 1, Some(first)) => {
                        plan.came(first);
                        has[first.from as usize..first.to as usize].fill(true);
                    }
                    (2, Some(first)) => plan.put_off(first),
                    (3, _) => plan.ask_again(),
                    (4, _) => plan.split(known),
                    _ => {}
                }
                // The destination holds what is contiguous, and prefills up to where chunks wait or are expected.
                while held < known {
                    let waits = (held..known).find(|at| has[*at as usize]);
                    let bound = waits.into_iter().chain(plan.expect()).min();
                    if !has[held as usize] && bound.is_some_and(|from| held >= from) {
                        break;
                    }
                    held += 1;
                }
                let is_over = match plan.part() {
                    PullPart::Whole => !plan.is_waiting() && plan.lacks(known) == 0,
                    PullPart::Rest => plan.is_round_over(held),
                };
                if is_over {
                    break;
                }
            }
            // What the plan leaves, the ids make.
            prop_assert!(known - held < FEED_TOKENS || plan.part() == PullPart::Rest && known - held < SHORT);
        }
    }
}
