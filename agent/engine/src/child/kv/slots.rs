//! What each slot holds, and whether it suffices to go on from.
//!
//! A layer with a window of w positions drops older ones. So a chunk of old positions brings nothing for such layers, and a
//! slot may hold positions up to n and still not know what position n is to see: n - w + 1 and the ones after it. llama.cpp
//! would compute all the same, and wrongly. So this is counted here, and evaluation refused until it is complete.

/// All slots of a model.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<Held>,
    /// Positions that a layer with a window sees, its own included; none where every layer sees everything.
    window: Option<u32>,
}

/// One slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Held {
    /// Positions from 0 in the layers that see everything.
    to: u32,
    /// From here up to `to` the layers with a window had all, too; llama.cpp may since have dropped what no longer counts.
    window_from: u32,
    /// The last `to` with which the slot could be gone on from.
    complete_to: u32,
}

impl Slots {
    pub(crate) fn new(slots: u16, window: Option<u32>) -> Self {
        Self { slots: vec![Held::default(); usize::from(slots)], window }
    }

    fn slot(&self, slot: u16) -> Held {
        self.slots.get(usize::from(slot)).copied().unwrap_or_default()
    }

    fn set(&mut self, slot: u16, held: Held) {
        if let Some(slot) = self.slots.get_mut(usize::from(slot)) {
            *slot = held;
        }
    }

    pub(crate) fn has(&self, slot: u16) -> bool {
        usize::from(slot) < self.slots.len()
    }

    /// Positions that a slot holds, from 0.
    pub(crate) fn held(&self, slot: u16) -> u32 {
        self.slot(slot).to
    }

    /// Whether the next position can be evaluated.
    pub(crate) fn is_complete(&self, slot: u16) -> bool {
        let held = self.slot(slot);
        held.window_from <= self.needed_from(held.to)
    }

    /// The most positions from 0 that can be gone on from; `first` is the first that the layers with a window hold.
    pub(crate) fn resumable(&self, slot: u16, first: Option<u32>) -> u32 {
        let held = self.slot(slot);
        if self.is_complete(slot) {
            return held.to;
        }
        let is_there = first.is_some_and(|first| first <= self.needed_from(held.complete_to));
        if is_there { held.complete_to } else { 0 }
    }

    /// Positions up to `to` were evaluated in a complete slot.
    pub(crate) fn evaluated(&mut self, slot: u16, to: u32) {
        let held = self.slot(slot);
        self.set(slot, Held { to, complete_to: to, ..held });
    }

    /// Positions [`held`, to) were imported; those from `window_from` on also for the layers with a window.
    ///
    /// [`held`]: Self::held
    pub(crate) fn imported(&mut self, slot: u16, to: u32, window_from: u32) {
        let mut held = self.slot(slot);
        if window_from > held.to {
            held.window_from = window_from;
        }
        held.to = to;
        if held.window_from <= self.needed_from(to) {
            held.complete_to = to;
        }
        self.set(slot, held);
    }

    /// Positions from `from` on were removed; `first` is the first that the layers with a window held before that.
    pub(crate) fn truncated(&mut self, slot: u16, from: u32, first: Option<u32>) {
        let held = self.slot(slot);
        if from >= held.to {
            return;
        }
        let first = if self.window.is_some() { first.unwrap_or(from) } else { 0 };
        // Up to where it was complete there is no gap after the first; after that there is none from `window_from` on.
        let gapless_from = if from <= held.complete_to { first } else { first.max(held.window_from) };
        let window_from = gapless_from.min(from);
        let is_complete = window_from <= self.needed_from(from);
        let complete_to = if is_complete { from } else { held.complete_to.min(from) };
        self.set(slot, Held { to: from, window_from, complete_to });
    }

    /// The first position that the one at `next` sees in a layer with a window.
    fn needed_from(&self, next: u32) -> u32 {
        self.window.map_or(next, |window| (next + 1).saturating_sub(window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots() -> Slots {
        Slots::new(2, Some(4))
    }

    #[test]
    fn without_a_window_whatever_is_held_is_complete() {
        let mut slots = Slots::new(1, None);
        slots.imported(0, 10, 0);
        slots.imported(0, 25, 10);
        assert_eq!((slots.held(0), slots.is_complete(0), slots.resumable(0, None)), (25, true, 25));
        slots.truncated(0, 7, Some(0));
        assert_eq!((slots.held(0), slots.is_complete(0)), (7, true));
    }

    #[test]
    fn old_positions_without_their_window_cannot_be_gone_on_from() {
        let mut slots = slots();
        slots.imported(0, 10, 10);
        assert_eq!((slots.held(0), slots.is_complete(0), slots.resumable(0, None)), (10, false, 0));
        // Position 12 sees 9 to 12; two of three are there.
        slots.imported(0, 12, 10);
        assert!(!slots.is_complete(0));
        slots.imported(0, 13, 12);
        assert!(slots.is_complete(0), "position 13 sees 10 to 13");
        slots.evaluated(0, 14);
        assert_eq!((slots.held(0), slots.resumable(0, Some(10))), (14, 14));
        assert_eq!(slots.held(1), 0);
    }

    #[test]
    fn a_gap_after_an_own_prefill_leads_back_to_it_while_it_is_there() {
        let mut slots = slots();
        slots.evaluated(0, 6);
        slots.imported(0, 20, 20);
        assert_eq!(slots.resumable(0, Some(2)), 6);
        assert_eq!(slots.resumable(0, Some(3)), 6, "position 6 sees 3 to 6");
        assert_eq!(slots.resumable(0, Some(4)), 0, "some of them were dropped");
        slots.truncated(0, 6, Some(3));
        assert_eq!((slots.held(0), slots.is_complete(0)), (6, true));
    }

    #[test]
    fn a_truncation_farther_back_than_the_window_is_not_complete() {
        let mut slots = slots();
        slots.evaluated(0, 30);
        // The cache holds 20 to 29.
        slots.truncated(0, 23, Some(20));
        assert!(slots.is_complete(0));
        slots.truncated(0, 22, Some(20));
        assert_eq!((slots.is_complete(0), slots.resumable(0, Some(20))), (false, 0));
        slots.truncated(0, 10, Some(20));
        assert_eq!((slots.held(0), slots.is_complete(0), slots.resumable(0, None)), (10, false, 0));
        slots.truncated(0, 0, None);
        assert_eq!((slots.held(0), slots.is_complete(0)), (0, true));
    }

    #[test]
    fn a_truncation_into_imported_positions_keeps_their_gap_in_mind() {
        let mut slots = slots();
        slots.evaluated(0, 6);
        slots.imported(0, 20, 14);
        assert!(slots.is_complete(0));
        slots.truncated(0, 17, Some(2));
        assert!(slots.is_complete(0), "position 17 sees 14 to 17");
        let mut slots = slots_with_gap();
        slots.truncated(0, 16, Some(2));
        assert!(!slots.is_complete(0), "position 16 sees 13");
    }

    fn slots_with_gap() -> Slots {
        let mut slots = slots();
        slots.evaluated(0, 6);
        slots.imported(0, 16, 15);
        slots.imported(0, 17, 16);
        slots
    }
}
