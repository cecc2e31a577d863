//! What is to happen, by time: of equals, what was said first.

use core::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events in the order of their times, and of equal times in the order in which they were put in: nothing else may decide
/// what happens first, or two runs of one seed would differ.
#[derive(Debug, Clone)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    pushed: u64,
}

#[derive(Debug, Clone)]
struct Entry<E> {
    at_s: f64,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    /// The soonest is the greatest: the heap gives the greatest first.
    fn order(&self, other: &Self) -> Ordering {
        other.at_s.total_cmp(&self.at_s).then(other.number.cmp(&self.number))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order(other)
    }
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), pushed: 0 }
    }

    /// `event` happens at `at_s`. What never happens (at infinity, or at no time) is not kept.
    pub(crate) fn push(&mut self, at_s: f64, event: E) {
        if at_s.is_finite() {
            self.heap.push(Entry { at_s, number: self.pushed, event });
            self.pushed += 1;
        }
    }

    pub(crate) fn pop(&mut self) -> Option<(f64, E)> {
        self.heap.pop().map(|entry| (entry.at_s, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_in_which_they_were_said() {
        let mut queue = Queue::new();
        for (at_s, event) in [(2.0, 'd'), (1.0, 'b'), (f64::INFINITY, 'x'), (1.0, 'c'), (-1.0, 'a'), (f64::NAN, 'y')] {
            queue.push(at_s, event);
        }
        let all: String = core::iter::from_fn(|| queue.pop().map(|(_, event)| event)).collect();
        assert_eq!(all, "abcd");
    }
}
