//! Which tokens the next step evaluates: one of each decoding sequence, and a piece of one prompt or more.
//!
//! A step with a prompt's piece takes as long as the piece needs, and everyone who decodes waits for it. Measured on a
//! CPU: 8 tokens lengthen a lone decoder's step five times, 16 seven times, 64 thirty-six times, while on short contexts the
//! rate at which prompts are read is nearly flat from 16 tokens up. So pieces are small beside decoders; alone they are as
//! large as keeps a step (hence a cancellation, and the proof of life) within a quarter of a second, but not so small that
//! attention over a long context takes three times as long.

use super::model::{BATCH_TOKENS, Entry};
use super::rates::{Pieces, Together};
use super::sequence::Sequence;

/// The most prompt tokens in a step beside decoding sequences.
const PIECE_BESIDE_MAX: usize = 16;

/// The least, so that a prompt is read at all on a slow machine.
const PIECE_BESIDE_MIN: usize = 4;

/// Seconds that a piece may add to the decoders' step.
const PIECE_BESIDE_S: f32 = 0.1;

/// The least prompt tokens in a step alone, as long as that keeps within [`PIECE_WHOLE_S`]: from so many on, llama.cpp takes
/// attention by blocks. Measured after 4,000 tokens: 12 ms a token in pieces of 64, 31 to 34 ms in pieces of 32 and 16.
const PIECE_WHOLE: usize = 64;

/// Seconds that such a step may take by what is known, which may be the time of smaller ones.
const PIECE_WHOLE_S: f32 = 2.0;

/// The least on a slower machine: fewer waste a pass over the weights.
const PIECE_ALONE_MIN: usize = 16;

/// Seconds that a step alone may take.
const PIECE_ALONE_S: f32 = 0.25;

/// Most prompt tokens in the next step.
pub(crate) fn piece_tokens(has_decoders: bool, prefill_tps: f32, batch_tokens: usize) -> usize {
    let (seconds, least, most) = if has_decoders {
        (PIECE_BESIDE_S, PIECE_BESIDE_MIN, PIECE_BESIDE_MAX)
    } else if prefill_tps * PIECE_WHOLE_S >= PIECE_WHOLE as f32 {
        (PIECE_ALONE_S, PIECE_WHOLE.min(batch_tokens), batch_tokens)
    } else {
        (PIECE_ALONE_S, PIECE_ALONE_MIN, batch_tokens)
    };
    ((prefill_tps * seconds) as usize).clamp(least, most)
}

/// Seconds that a piece of a prompt takes in a step, at so many tokens a second, alone or beside sequences that decode.
pub fn piece_s(has_decoders: bool, prefill_tps: f32) -> f32 {
    piece_tokens(has_decoders, prefill_tps, BATCH_TOKENS) as f32 / prefill_tps
}

/// What a sequence would evaluate next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// Nothing: it waits for something.
    Nothing,
    /// The one id that the next token depends on.
    Decode,
    /// Ids of a context that a worker or a successor must have read before its next token.
    Read(usize),
    /// Ids that a standby would like to hold.
    Keep(usize),
}

/// How many tokens of each sequence the next step evaluates, given what each wants (oldest first) and the prompt tokens
/// allowed. Prompts are read oldest first: the first answer begins the sooner. Standbys come last: they get the piece that
/// no worker's prompt needs, since somebody waits for that one.
pub(crate) fn takes(wants: &[Want], piece: usize, batch_tokens: usize) -> Vec<usize> {
    let decoders = wants.iter().filter(|want| **want == Want::Decode).count();
    let is_reading = wants.iter().any(|want| matches!(want, Want::Read(_)));
    let mut piece = piece.min(batch_tokens.saturating_sub(decoders));
    wants
        .iter()
        .map(|&want| {
            let left = match want {
                Want::Decode => return 1,
                Want::Read(left) => left,
                Want::Keep(left) if !is_reading => left,
                Want::Keep(_) | Want::Nothing => 0,
            };
            let take = left.min(piece);
            piece -= take;
            take
        })
        .collect()
}

/// The longest context that more is read of, in tokens.
pub(crate) fn longest_read(placed: &[Sequence], wants: &[Want]) -> usize {
    let reads = |want: &Want| matches!(want, Want::Read(_) | Want::Keep(_));
    let read = placed.iter().zip(wants).filter(|(_, want)| reads(want));
    read.map(|(sequence, _)| sequence.held() as usize).max().unwrap_or_default()
}

/// What a batch is made of, before it is evaluated.
pub(crate) fn batch_load(placed: &[Sequence], batch: &[Entry]) -> (Pieces, Together) {
    let mut together = Together::default();
    for sequence in placed.iter().filter(|sequence| sequence.is_decoding()) {
        together.sequences += 1;
        together.context_tokens += sequence.held() as usize;
    }
    let attended_tokens: u64 = batch.iter().map(|entry| u64::from(entry.position)).sum();
    let pieces = Pieces {
        tokens: batch.len() - usize::from(together.sequences),
        attended_tokens: attended_tokens - together.context_tokens as u64,
    };
    (pieces, together)
}

#[cfg(test)]
mod tests {
    use super::Want::{Decode, Keep, Nothing, Read};
    use super::*;

    #[test]
    fn pieces_are_small_beside_decoders_and_large_alone() {
        let cases = [
            (true, 260.0, 16),
            (true, 60.0, 6),
            (true, 1.0, 4),
            (false, 260.0, 65),
            (false, 33.0, 64),
            (false, 10.0, 16),
            (false, 1e6, 256),
            (true, f32::MAX, 16),
        ];
        for (has_decoders, tps, expected) in cases {
            assert_eq!(piece_tokens(has_decoders, tps, 256), expected, "{has_decoders} {tps}");
        }
    }

    #[test]
    fn every_decoder_gets_its_token_and_the_oldest_prompt_the_piece() {
        let cases: [(&[Want], usize, &[usize]); 9] = [
            (&[Decode, Read(100), Decode, Read(50)], 16, &[1, 16, 1, 0]),
            (&[Read(10), Read(100)], 64, &[10, 54]),
            (&[Decode, Decode], 16, &[1, 1]),
            (&[Read(2), Read(3)], 256, &[2, 3]),
            (&[Read(300), Decode], 256, &[255, 1]),
            (&[Keep(9), Read(2), Decode], 16, &[0, 2, 1]),
            (&[Keep(9), Decode, Keep(100)], 16, &[9, 1, 7]),
            (&[Nothing, Keep(1), Decode], 16, &[0, 1, 1]),
            (&[Keep(300), Nothing], 256, &[256, 0]),
        ];
        for (wants, piece, expected) in cases {
            assert_eq!(takes(wants, piece, 256), expected, "{wants:?}");
        }
    }
}
