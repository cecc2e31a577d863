//! The parser of llama.cpp's state, with what no sound peer sends.

use proptest::prelude::*;

use super::*;
use crate::child::kv::fields::fields;
use crate::child::kv::learn::learn;
use crate::child::kv::{Kind, Windowed};

/// Positions that the windowed layers of [`format`] see.
const WINDOW: u32 = 8;

fn format() -> Format {
    let rows = |kind, bytes| Rows { kind, bytes };
    let whole = Cache {
        keys: vec![rows(Kind::F16, 6), rows(Kind::F32, 8)],
        values: vec![rows(Kind::F16, 4), rows(Kind::Q8, 34)],
        rotations: [0, 64],
    };
    let cache = Cache { keys: vec![rows(Kind::F16, 2)], values: vec![rows(Kind::F16, 4)], rotations: [0, 0] };
    Format { whole, windowed: Some(Windowed { cache, window: WINDOW }) }
}

fn put(bytes: &mut Vec<u8>, figures: &[u32]) {
    bytes.extend(figures.iter().flat_map(|figure| figure.to_le_bytes()));
}

fn put_cache(bytes: &mut Vec<u8>, cache: &Cache, cells: &[u32]) {
    put(bytes, &[1, cells.len() as u32]);
    if cells.is_empty() {
        return;
    }
    for position in cells {
        put(bytes, &[*position, 1, 0]);
    }
    put(bytes, &[0, cache.keys.len() as u32, cache.rotations[0], cache.rotations[1]]);
    for rows in cache.layers() {
        put(bytes, &[rows.kind.code(), rows.bytes, 0]);
        bytes.extend(vec![0x11; rows.bytes as usize * cells.len()]);
    }
}

/// A state with these positions in its two caches.
fn state(whole: &[u32], windowed: &[u32]) -> Vec<u8> {
    let format = format();
    let mut bytes = Vec::new();
    put(&mut bytes, &[MAGIC, 0]);
    put_cache(&mut bytes, &format.whole, whole);
    put_cache(&mut bytes, &format.windowed.unwrap().cache, windowed);
    bytes
}

fn read(from: u32, to: u32, bytes: &[u8]) -> Result<u32, KvError> {
    parse(&format(), Positions::new(from, to).unwrap(), bytes, Values::MustBeFinite)
}

fn positions(from: u32, to: u32) -> Vec<u32> {
    (from..to).collect()
}

#[test]
fn a_state_tells_how_much_of_the_window_it_brings() {
    let cases: [(&[u32], u32); 5] =
        [(&[20, 21, 22, 23], 20), (&[22, 23], 22), (&[], 24), (&[20, 21, 23], 23), (&[20, 21], 24)];
    for (windowed, from) in cases {
        assert_eq!(read(20, 24, &state(&positions(20, 24), windowed)), Ok(from), "{windowed:?}");
    }
}

#[test]
fn cells_may_come_in_any_order() {
    assert_eq!(read(20, 24, &state(&[23, 20, 22, 21], &[21, 23, 22])), Ok(21));
}

#[test]
fn positions_of_another_range_are_refused() {
    let cases: [(&[u32], &[u32]); 8] = [
        (&[20, 21, 22], &[]),
        (&[20, 21, 22, 23, 24], &[]),
        (&[20, 21, 22, 24], &[]),
        (&[19, 20, 21, 22], &[]),
        (&[20, 21, 22, 22], &[]),
        (&[20, 21, 22, u32::MAX - 1], &[]),
        (&[20, 21, 22, 23], &[19]),
        (&[20, 21, 22, 23], &[23, 23]),
    ];
    for (whole, windowed) in cases {
        assert!(read(20, 24, &state(whole, windowed)).is_err(), "{whole:?} {windowed:?}");
    }
    assert!(read(20, 24, &state(&[], &[])).is_err());
    let most = positions(20, 20 + WINDOW);
    assert_eq!(read(20, 30, &state(&positions(20, 30), &most)), Ok(30), "as many as a window has");
    assert!(read(20, 30, &state(&positions(20, 30), &positions(20, 21 + WINDOW))).is_err(), "one more");
}

#[test]
fn ranges_that_no_chunk_has_are_refused() {
    for (from, to) in [(0, 0), (5, 4), (0, MAX_CHUNK_TOKENS + 1), (u32::MAX - 1, u32::MAX), (0, u32::MAX)] {
        assert_eq!(Positions::new(from, to), Err(KvError::OtherPositions), "{from} to {to}");
    }
    assert!(Positions::new(7, 7 + MAX_CHUNK_TOKENS).is_ok());
}

#[test]
fn each_bit_of_each_field_counts() {
    let good = state(&positions(20, 24), &positions(21, 24));
    assert_eq!(read(20, 24, &good), Ok(21));
    for (at, length) in fields(&format(), [4, 3]) {
        for bit in 0..length * 8 {
            let mut bytes = good.clone();
            bytes[at + bit / 8] ^= 1 << (bit % 8);
            // One of three positions of the window may become the one that was not there.
            let is_other_position = matches!(read(20, 24, &bytes), Ok(from) if from > 21);
            assert!(read(20, 24, &bytes).is_err() || is_other_position, "bit {bit} of the field at {at}");
        }
    }
}

#[test]
fn every_length_but_the_right_one_is_refused() {
    let good = state(&positions(0, 5), &positions(2, 5));
    for length in 0..good.len() {
        assert!(read(0, 5, &good[..length]).is_err(), "{length} of {}", good.len());
    }
    assert!(read(0, 5, &[&good[..], &[0]].concat()).is_err());
}

#[test]
fn values_that_are_no_numbers_are_refused_in_every_layer() {
    let good = state(&positions(0, 3), &positions(0, 3));
    let ends: Vec<usize> = (0..good.len()).filter(|at| good[*at] == 0x11 && good.get(at + 1) != Some(&0x11)).collect();
    assert_eq!(ends.len(), 6, "six layers' values");
    for (end, kind) in ends.iter().zip([Kind::F16, Kind::F32, Kind::F16, Kind::Q8, Kind::F16, Kind::F16]) {
        let mut bytes = good.clone();
        match kind {
            Kind::F16 => bytes[end - 1..=*end].copy_from_slice(&[0, 0x7c]),
            Kind::F32 => bytes[end - 3..=*end].copy_from_slice(&f32::NAN.to_le_bytes()),
            Kind::Q8 => bytes[end - 33..end - 31].copy_from_slice(&[1, 0xfe]),
        }
        assert_eq!(read(0, 3, &bytes), Err(KvError::Malformed("a value is infinite or no number")), "at {end}");
        let positions = Positions::new(0, 3).unwrap();
        assert_eq!(parse(&format(), positions, &bytes, Values::Unread), Ok(0));
    }
}

#[test]
fn numbers_of_sequences_are_made_the_same() {
    let good = state(&positions(3, 6), &positions(4, 6));
    let mut bytes = good.clone();
    bytes[4] = 7;
    let first_line = 8 + COUNTS_BYTES;
    for line in 0..3 {
        bytes[first_line + line * CELL_BYTES + 8] = 7;
    }
    assert!(read(3, 6, &bytes).is_err());
    canonicalise(&format(), &mut bytes).unwrap();
    assert_eq!(bytes, good);
    assert!(canonicalise(&format(), &mut bytes[..40]).is_err());
}

#[test]
fn a_format_is_learnt_from_the_state_of_one_position() {
    let one = state(&[0], &[0]);
    assert_eq!(learn(&one, Some(WINDOW)), Ok(format()));
    assert!(learn(&one, None).is_err(), "there is a second cache");
    assert!(learn(&one, Some(0)).is_err());
    assert!(learn(&state(&[1], &[1]), Some(WINDOW)).is_err());
    for length in 0..one.len() {
        assert!(learn(&one[..length], Some(WINDOW)).is_err(), "{length}");
    }
}

#[test]
fn sizes_tell_how_many_positions_a_state_has() {
    let format = format();
    for (whole, windowed) in [(1, 1), (7, 0), (30, 8), (30, 7)] {
        let bytes = state(&positions(0, whole), &positions(0, windowed)).len();
        assert!(format.can_hold(whole, bytes));
        assert!(!format.can_hold(whole, bytes + 1));
        assert!(!format.can_hold(whole, bytes - 1));
        assert!(!format.can_hold(whole + 1, bytes));
    }
    assert!(!format.can_hold(30, state(&positions(0, 30), &positions(0, 9)).len()), "more than the window");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000), from in 0_u32..5, count in 1_u32..9) {
        let _ = read(from, from + count, &bytes);
        let _ = learn(&bytes, Some(WINDOW));
        let mut bytes = bytes;
        let _ = canonicalise(&format(), &mut bytes);
    }

    #[test]
    fn no_damage_to_a_state_makes_it_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..9),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = state(&positions(4, 10), &positions(6, 10));
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = read(4, 10, &bytes);
        let _ = learn(&bytes, Some(WINDOW));
        bytes.truncate(cut.index(bytes.len()));
        prop_assert!(read(4, 10, &bytes).is_err());
        let _ = canonicalise(&format(), &mut bytes);
    }
}
