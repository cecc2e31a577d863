//! The chunks of one sequence that wait until all before them is held.

use std::collections::BTreeMap;

/// Positions [`from`, `to`) of a context, as another engine exported them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) bytes: Vec<u8>,
}

/// How much may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) positions: u32,
    pub(crate) bytes: usize,
}

/// What became of a chunk that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    Waits,
    /// A part of it waits already.
    Overlaps,
    /// With it, more would wait than may.
    Full,
}

/// Invariant: no two overlap, and together they are within the room that was given with each.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    by_first: BTreeMap<u32, Chunk>,
}

impl Chunks {
    pub(crate) fn add(&mut self, chunk: Chunk, room: Room) -> Added {
        let (from, to) = (chunk.from, chunk.to);
        let before = self.by_first.range(..to).next_back();
        if before.is_some_and(|(_, other)| other.to > from) {
            return Added::Overlaps;
        }
        let positions: u32 = self.by_first.values().map(|waiting| waiting.to - waiting.from).sum();
        if positions + (to - from) > room.positions || self.bytes() + chunk.bytes.len() > room.bytes {
            return Added::Full;
        }
        self.by_first.insert(from, chunk);
        Added::Waits
    }

    /// What they take.
    pub(crate) fn bytes(&self) -> usize {
        self.by_first.values().map(|waiting| waiting.bytes.len()).sum()
    }

    /// Where the first one begins: what is before it has to come from elsewhere.
    pub(crate) fn first(&self) -> Option<u32> {
        self.by_first.keys().next().copied()
    }

    /// Whether the one that begins at `held` is there and ends at `end` or before.
    pub(crate) fn is_next(&self, held: u32, end: u32) -> bool {
        self.by_first.get(&held).is_some_and(|chunk| chunk.to <= end)
    }

    /// The one that begins there.
    pub(crate) fn take(&mut self, held: u32) -> Option<Chunk> {
        self.by_first.remove(&held)
    }

    /// Drops all but those that follow each other from `held` on and end at `end` or before.
    pub(crate) fn keep_next(&mut self, held: u32, end: u32) {
        let mut reached = held;
        self.by_first.retain(|from, chunk| {
            let follows = *from == reached && chunk.to <= end;
            if follows {
                reached = chunk.to;
            }
            follows
        });
    }

    pub(crate) fn clear(&mut self) {
        self.by_first.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { positions: 30, bytes: 100 };

    fn chunk(from: u32, to: u32) -> Chunk {
        Chunk { from, to, bytes: vec![0; 10] }
    }

    #[test]
    fn chunks_that_overlap_or_are_too_many_do_not_wait() {
        let mut chunks = Chunks::default();
        let cases = [
            (chunk(10, 20), Added::Waits),
            (chunk(10, 20), Added::Overlaps),
            (chunk(19, 25), Added::Overlaps),
            (chunk(5, 11), Added::Overlaps),
            (chunk(0, 40), Added::Overlaps),
            (chunk(12, 13), Added::Overlaps),
            (chunk(20, 30), Added::Waits),
            (chunk(0, 10), Added::Waits),
            (chunk(30, 31), Added::Full),
        ];
        for (chunk, expected) in cases {
            assert_eq!(chunks.add(chunk.clone(), ROOM), expected, "{chunk:?}");
        }
        let fat = Chunk { bytes: vec![0; 101], ..chunk(50, 51) };
        assert_eq!(Chunks::default().add(fat, ROOM), Added::Full);
        assert_eq!(chunks.first(), Some(0));
    }

    #[test]
    fn only_what_follows_at_once_is_kept() {
        let mut chunks = Chunks::default();
        for (from, to) in [(4, 6), (6, 9), (10, 12), (9, 10)] {
            chunks.add(chunk(from, to), ROOM);
        }
        assert!(chunks.is_next(4, 6) && !chunks.is_next(4, 5) && !chunks.is_next(5, 9));
        chunks.keep_next(4, 9);
        assert_eq!(chunks.take(4), Some(chunk(4, 6)));
        assert_eq!(chunks.take(6), Some(chunk(6, 9)));
        assert_eq!(chunks.first(), None);
        chunks.add(chunk(20, 21), ROOM);
        chunks.keep_next(4, 100);
        assert_eq!(chunks.first(), None);
    }
}
