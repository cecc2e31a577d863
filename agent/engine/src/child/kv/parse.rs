//! The parser of a sequence's state. Nothing is allocated, whatever the bytes claim.
//!
//! ```text
//! state:  magic u32, sequence i32 (0 here), cache of the layers that see everything, cache of those with a window
//! cache:  streams u32 (1), cells u32; where there are cells: a line a cell, then
//!         V transposed u32 (0), layers u32, rotation of K u32, of V u32, K of each layer, V of each layer
//! line:   position i32, sequences u32 (1), sequence i32 (0 here)
//! layer:  type i32, bytes a row u64, a row a cell
//! ```
//!
//! All little-endian. The sequence's number is the source's own affair: [`canonicalise`] makes it 0, so that equal
//! contexts are equal bytes and every field has one value that it may have.

use idlewild_protocol::MAX_CHUNK_TOKENS;

use super::finite::is_finite;
use super::{Cache, Format, Rows};
use crate::child::model::KvError;

pub(crate) const MAGIC: u32 = 0xaf14_3cd8;

/// Bytes of the magic and the sequence.
const HEADER_BYTES: usize = 8;

/// Bytes of the streams and cells that begin a cache.
const COUNTS_BYTES: usize = 8;

/// Bytes of the line of a cell.
const CELL_BYTES: usize = 12;

/// Bytes of the four figures after the lines.
const FIGURES_BYTES: usize = 16;

/// Bytes of a layer's type and row size.
const LAYER_BYTES: usize = 12;

/// Positions [from, to), at most [`MAX_CHUNK_TOKENS`] of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Positions {
    from: u32,
    to: u32,
}

impl Positions {
    pub(crate) fn new(from: u32, to: u32) -> Result<Self, KvError> {
        let is_some = to > from && to - from <= MAX_CHUNK_TOKENS && i32::try_from(to).is_ok();
        if is_some { Ok(Self { from, to }) } else { Err(KvError::OtherPositions) }
    }

    pub(crate) fn from(self) -> u32 {
        self.from
    }

    pub(crate) fn to(self) -> u32 {
        self.to
    }

    fn count(self) -> u32 {
        self.to - self.from
    }
}

/// Whether the values are looked at: not where this process has just written them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    MustBeFinite,
    Unread,
}

/// Checks that the bytes are the state of exactly these positions in this format. Gives the first position from which on
/// the layers with a window have all up to the end: the end itself where they have none, the beginning where no layer has
/// a window.
pub(crate) fn parse(format: &Format, positions: Positions, bytes: &[u8], values: Values) -> Result<u32, KvError> {
    let mut reader = Reader { rest: bytes };
    reader.expect(MAGIC, "it does not begin as a state does")?;
    reader.expect(0, "it names a sequence")?;
    let count = positions.count();
    let seen = reader.cache(&format.whole, positions, count..=count, values)?;
    let window_from = match &format.windowed {
        None => {
            debug_assert_eq!(seen.run_from(positions), positions.from);
            positions.from
        }
        Some(windowed) => {
            let most = count.min(windowed.window);
            reader.cache(&windowed.cache, positions, 0..=most, values)?.run_from(positions)
        }
    };
    if reader.rest.is_empty() { Ok(window_from) } else { Err(KvError::Malformed("it goes on after its end")) }
}

/// Makes the number of the sequence 0 wherever it stands, in a state that llama.cpp has just written.
pub(crate) fn canonicalise(format: &Format, bytes: &mut [u8]) -> Result<(), KvError> {
    const CUT: KvError = KvError::Malformed("it is cut");
    bytes.get_mut(4..8).ok_or(CUT)?.fill(0);
    let mut at = HEADER_BYTES;
    for cache in format.caches() {
        let count = bytes.get(at + 4..at + 8).and_then(|count| count.first_chunk()).ok_or(CUT)?;
        let count = u32::from_le_bytes(*count);
        let lines = at + COUNTS_BYTES;
        let lines = bytes.get_mut(lines..lines + count as usize * CELL_BYTES).ok_or(CUT)?;
        for line in lines.as_chunks_mut::<CELL_BYTES>().0 {
            line[8..].fill(0);
        }
        at += cache.state_bytes(count);
    }
    Ok(())
}

impl Format {
    fn caches(&self) -> impl Iterator<Item = &Cache> {
        core::iter::once(&self.whole).chain(self.windowed.as_ref().map(|windowed| &windowed.cache))
    }

    /// Whether a state of so many bytes can be one with `whole` cells in the cache of the layers that see everything, and
    /// no more in the other than it may have.
    pub(crate) fn can_hold(&self, whole: u32, state_bytes: usize) -> bool {
        let Some(rest) = state_bytes.checked_sub(HEADER_BYTES + self.whole.state_bytes(whole)) else { return false };
        match &self.windowed {
            None => rest == 0,
            Some(windowed) => {
                let cells = windowed.cache.cells_in(rest);
                cells <= windowed.window.min(whole) && windowed.cache.state_bytes(cells) == rest
            }
        }
    }
}

impl Cache {
    fn layers(&self) -> impl Iterator<Item = &Rows> {
        self.keys.iter().chain(&self.values)
    }

    fn bytes_per_cell(&self) -> usize {
        CELL_BYTES + self.layers().map(|rows| rows.bytes as usize).sum::<usize>()
    }

    fn frame_bytes(&self) -> usize {
        FIGURES_BYTES + self.layers().count() * LAYER_BYTES
    }

    /// Bytes of this cache in a state with so many cells.
    fn state_bytes(&self, cells: u32) -> usize {
        let content = if cells == 0 { 0 } else { self.frame_bytes() + cells as usize * self.bytes_per_cell() };
        COUNTS_BYTES + content
    }

    /// The cells in so many bytes, if they are a whole number of cells.
    fn cells_in(&self, bytes: usize) -> u32 {
        let content = bytes.saturating_sub(COUNTS_BYTES + self.frame_bytes());
        u32::try_from(content / self.bytes_per_cell()).unwrap_or(u32::MAX)
    }
}

/// What is left to read.
pub(crate) struct Reader<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], KvError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(KvError::Malformed("it is cut"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], KvError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(KvError::Malformed("it is cut"))?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, KvError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, KvError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn expect(&mut self, value: u32, otherwise: &'static str) -> Result<(), KvError> {
        if self.u32()? == value { Ok(()) } else { Err(KvError::Malformed(otherwise)) }
    }

    fn cache(
        &mut self,
        cache: &Cache,
        positions: Positions,
        counts: core::ops::RangeInclusive<u32>,
        values: Values,
    ) -> Result<Seen, KvError> {
        let mut seen = Seen::default();
        self.expect(1, "it has several streams")?;
        let count = self.u32()?;
        if !counts.contains(&count) {
            return Err(KvError::Malformed("it holds another number of positions"));
        }
        if count == 0 {
            return Ok(seen);
        }
        for _ in 0..count {
            let position = self.u32()?;
            self.expect(1, "a position belongs to several sequences")?;
            self.expect(0, "a position names a sequence")?;
            if !(positions.from..positions.to).contains(&position) || !seen.insert(position - positions.from) {
                return Err(KvError::Malformed("a position is not of the range, or there twice"));
            }
        }
        self.expect(0, "its values are transposed")?;
        self.expect(u32::try_from(cache.keys.len()).unwrap_or(u32::MAX), "it has another number of layers")?;
        for rotation in cache.rotations {
            self.expect(rotation, "its rotation is another")?;
        }
        for rows in cache.layers() {
            self.rows(*rows, count, values)?;
        }
        Ok(seen)
    }

    fn rows(&mut self, rows: Rows, count: u32, values: Values) -> Result<(), KvError> {
        self.expect(rows.kind.code(), "the values of a layer are of another type")?;
        if self.u64()? != u64::from(rows.bytes) {
            return Err(KvError::Malformed("a layer's rows are of another size"));
        }
        let content = self.take(count as usize * rows.bytes as usize)?;
        if values == Values::MustBeFinite && !is_finite(rows.kind, content) {
            return Err(KvError::Malformed("a value is infinite or no number"));
        }
        Ok(())
    }
}

/// Positions of a chunk that were seen, counted from its first.
#[derive(Default)]
struct Seen([u64; MAX_CHUNK_TOKENS as usize / 64]);

impl Seen {
    /// Whether it is new. `offset` is below [`MAX_CHUNK_TOKENS`].
    fn insert(&mut self, offset: u32) -> bool {
        let (word, bit) = (&mut self.0[offset as usize / 64], 1 << (offset % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn has(&self, offset: u32) -> bool {
        self.0[offset as usize / 64] & (1 << (offset % 64)) != 0
    }

    /// The first position of those that are there without a gap up to the end.
    fn run_from(&self, positions: Positions) -> u32 {
        let run = (0..positions.count()).rev().take_while(|offset| self.has(*offset)).count();
        positions.to - run as u32
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
