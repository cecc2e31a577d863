//! From token bytes to the answer's text: whole characters only, and nothing that a stop text may still swallow.
//!
//! A pure function of the bytes so far and the stop texts: what is emitted after n tokens does not depend on how they
//! arrived, so a sequence that goes on elsewhere emits exactly the rest. Works character by character, so that the cut
//! does not depend on where tokens begin and end either: the answer ends at the stop text that is complete first; of two
//! complete at the same character, at the one that begins first.

/// The text of one answer as it grows.
#[derive(Debug, Clone)]
pub(crate) struct TextStream {
    stops: Vec<String>,
    /// Bytes of a character that is not whole yet (at most three).
    partial: Vec<u8>,
    /// Characters that may be the beginning of a stop text: always a proper beginning of one.
    held: String,
    stopped: bool,
}

impl TextStream {
    pub(crate) fn new(stops: &[String]) -> Self {
        let stops = stops.iter().filter(|stop| !stop.is_empty()).cloned().collect();
        Self { stops, partial: Vec::new(), held: String::new(), stopped: false }
    }

    /// Goes back to the beginning of the answer.
    pub(crate) fn restart(&mut self) {
        self.partial.clear();
        self.held.clear();
        self.stopped = false;
    }

    /// Takes a token's bytes; gives the text that is certain now. Nothing after a stop text.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        let mut out = String::new();
        self.partial.extend_from_slice(bytes);
        let pending = core::mem::take(&mut self.partial);
        let mut rest = &pending[..];
        while !rest.is_empty() && !self.stopped {
            match core::str::from_utf8(rest) {
                Ok(text) => {
                    self.push_text(text, &mut out);
                    rest = &[];
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    self.push_text(&String::from_utf8_lossy(valid), &mut out);
                    let Some(bad) = error.error_len() else {
                        self.partial = after.to_vec();
                        break;
                    };
                    self.push_char(char::REPLACEMENT_CHARACTER, &mut out);
                    rest = &after[bad..];
                }
            }
        }
        out
    }

    /// Whether a stop text was reached.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// What was held back, when no more will come. A character that never became whole reads as U+FFFD.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = core::mem::take(&mut self.held);
        if !core::mem::take(&mut self.partial).is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
        if self.stopped { String::new() } else { out }
    }

    fn push_text(&mut self, text: &str, out: &mut String) {
        for c in text.chars() {
            self.push_char(c, out);
        }
    }

    fn push_char(&mut self, c: char, out: &mut String) {
        if self.stopped {
            return;
        }
        self.held.push(c);
        let complete = self.stops.iter().filter(|stop| self.held.ends_with(stop.as_str()));
        if let Some(longest) = complete.map(String::len).max() {
            out.push_str(&self.held[..self.held.len() - longest]);
            self.held.clear();
            self.stopped = true;
            return;
        }
        let keep = self.held.char_indices().map(|(at, _)| at).find(|at| self.may_stop(&self.held[*at..]));
        let certain = keep.unwrap_or(self.held.len());
        out.extend(self.held.drain(..certain));
    }

    fn may_stop(&self, tail: &str) -> bool {
        self.stops.iter().any(|stop| stop.starts_with(tail))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owned(stops: &[&str]) -> Vec<String> {
        stops.iter().map(|&s| s.to_owned()).collect()
    }

    /// The emissions of each piece, then of the end.
    fn emissions(stops: &[String], pieces: &[Vec<u8>]) -> (Vec<String>, bool) {
        let mut stream = TextStream::new(stops);
        let mut out: Vec<String> = pieces.iter().map(|piece| stream.push(piece)).collect();
        out.push(stream.finish());
        (out, stream.is_stopped())
    }

    /// What the answer should be, computed on the whole text at once.
    fn cut(stops: &[String], bytes: &[u8]) -> (String, bool) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
            let complete = stops.iter().filter(|s| !s.is_empty() && text[..end].ends_with(s.as_str()));
            if let Some(longest) = complete.map(String::len).max() {
                return (text[..end - longest].to_owned(), true);
            }
        }
        (text, false)
    }

    #[test]
    fn characters_split_over_tokens_come_whole() {
        let pieces = ["a\u{e9}".as_bytes()[..2].to_vec(), "\u{e9}".as_bytes()[1..].to_vec(), b"b".to_vec()];
        assert_eq!(emissions(&[], &pieces).0, ["a", "\u{e9}", "b", ""]);
    }

    #[test]
    fn possible_beginnings_of_a_stop_text_are_held_back() {
        type Case<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], bool);
        let cases: [Case<'_>; 6] = [
            (&["END"], &["aE", "N", "x"], &["a", "", "ENx", ""], false),
            (&["END"], &["aE", "N", "D b", "c"], &["a", "", "", "", ""], true),
            (&["END"], &["aEN"], &["a", "EN"], false),
            (&["aab"], &["aa", "a", "b"], &["", "a", "", ""], true),
            (&["abcd", "bc"], &["xab", "cd"], &["x", "a", ""], true),
            (&[""], &["a", "b"], &["a", "b", ""], false),
        ];
        for (stops, pieces, expected, stopped) in cases {
            let pieces: Vec<Vec<u8>> = pieces.iter().map(|p| p.as_bytes().to_vec()).collect();
            let (out, did_stop) = emissions(&owned(stops), &pieces);
            assert_eq!((out, did_stop), (owned(expected), stopped), "{stops:?} {pieces:?}");
        }
    }

    #[test]
    fn an_unfinished_character_at_the_end_reads_as_a_replacement() {
        assert_eq!(emissions(&[], &[vec![b'a', 0xe2, 0x82]]).0, ["a", "\u{fffd}"]);
        assert_eq!(emissions(&[], &[vec![b'a', 0xff, b'b']]).0, ["a\u{fffd}b", ""]);
    }

    /// Bytes of few letters, so that stop texts do occur, with characters of two and three bytes and broken ones.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let unit = prop_oneof![
            8 => prop::sample::select(vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]),
            3 => prop::sample::select(vec!["\u{e9}".as_bytes().to_vec(), "\u{20ac}".as_bytes().to_vec()]),
            1 => prop::sample::select(vec![vec![0xff], vec![0xe2], vec![0x82]]),
        ];
        prop::collection::vec(unit, 0..40).prop_map(|units| units.concat())
    }

    fn stops() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec("[abc\u{e9}\u{20ac}]{1,4}", 0..4)
    }

    fn split(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        at.windows(2).map(|w| bytes[w[0]..w[1]].to_vec()).collect()
    }

    proptest! {
        #[test]
        fn the_whole_is_the_text_cut_at_the_stop_text(
            bytes in bytes(), stops in stops(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30)
        ) {
            let (out, stopped) = emissions(&stops, &split(&bytes, &cuts));
            let expected = cut(&stops, &bytes);
            // A truncated character at the very end is one replacement for us, as for the whole.
            prop_assert_eq!((out.concat(), stopped), expected);
        }

        #[test]
        fn resuming_at_any_token_emits_the_same(
            bytes in bytes(), stops in stops(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
            at in any::<prop::sample::Index>()
        ) {
            let pieces = split(&bytes, &cuts);
            let (whole, _) = emissions(&stops, &pieces);
            let at = at.index(pieces.len() + 1);
            let mut resumed = TextStream::new(&stops);
            for piece in &pieces[..at] {
                resumed.push(piece);
            }
            let mut rest: Vec<String> = pieces[at..].iter().map(|piece| resumed.push(piece)).collect();
            rest.push(resumed.finish());
            prop_assert_eq!(&rest[..], &whole[at..]);
        }
    }
}
