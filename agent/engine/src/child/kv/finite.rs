//! Whether values are numbers. A bit test on lanes, so that it costs less than the copy that follows it.

use super::Kind;

/// Bits of an f16 without its sign; from this on it is infinite or no number.
const F16_INFINITE: u16 = 0x7c00;

/// Likewise of an f32.
const F32_INFINITE: u32 = 0x7f80_0000;

/// Whether every value of the rows is finite. A last unit that is not whole counts as not finite.
pub(crate) fn is_finite(kind: Kind, rows: &[u8]) -> bool {
    if !rows.len().is_multiple_of(kind.unit_bytes() as usize) {
        return false;
    }
    match kind {
        Kind::F16 => largest_f16(rows) < F16_INFINITE,
        Kind::F32 => largest_f32(rows) < F32_INFINITE,
        Kind::Q8 => rows.as_chunks::<34>().0.iter().all(|block| magnitude([block[0], block[1]]) < F16_INFINITE),
    }
}

fn magnitude(value: [u8; 2]) -> u16 {
    u16::from_le_bytes(value) & 0x7fff
}

/// The largest magnitude, as bits. No early end: a loop without branches becomes vector instructions.
fn largest_f16(rows: &[u8]) -> u16 {
    rows.as_chunks::<2>().0.iter().fold(0, |largest, value| largest.max(magnitude(*value)))
}

fn largest_f32(rows: &[u8]) -> u32 {
    rows.as_chunks::<4>().0.iter().fold(0, |largest, value| largest.max(u32::from_le_bytes(*value) & 0x7fff_ffff))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodings of f16: 0, -0, 1, the largest, its negative, the smallest.
    const FINITE: [u16; 6] = [0, 0x8000, 0x3c00, 0x7bff, 0xfbff, 1];

    /// Infinities and two kinds of NaN.
    const NOT: [u16; 4] = [0x7c00, 0xfc00, 0x7e00, 0xfc01];

    fn f16(values: &[u16]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn one_value_that_is_no_number_is_found_wherever_it_is() {
        let rows: Vec<u16> = FINITE.into_iter().cycle().take(100).collect();
        assert!(is_finite(Kind::F16, &f16(&rows)));
        for at in 0..rows.len() {
            for not in NOT {
                let mut rows = rows.clone();
                rows[at] = not;
                assert!(!is_finite(Kind::F16, &f16(&rows)), "{not:#x} at {at}");
            }
        }
    }

    #[test]
    fn floats_are_judged_as_the_language_judges_them() {
        let values = [0.0, -0.0, f32::MIN_POSITIVE, f32::MAX, f32::MIN, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        for value in values {
            let rows: Vec<u8> = [1.0, value, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
            assert_eq!(is_finite(Kind::F32, &rows), value.is_finite(), "{value}");
        }
    }

    #[test]
    fn of_quantised_blocks_only_the_scale_counts() {
        let block = |scale: u16| [&scale.to_le_bytes()[..], &[0xff; 32]].concat();
        assert!(is_finite(Kind::Q8, &[block(0x3c00), block(0)].concat()));
        assert!(!is_finite(Kind::Q8, &[block(0x3c00), block(0x7c00)].concat()));
    }

    #[test]
    fn a_unit_that_is_cut_is_not_finite() {
        assert!(!is_finite(Kind::F16, &[0; 3]));
        assert!(!is_finite(Kind::F32, &[0; 6]));
        assert!(!is_finite(Kind::Q8, &[0; 33]));
    }
}
