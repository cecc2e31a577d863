//! Bytes that no honest peer sends: cut, lengthened, changed, or with a length that promises the world.

use idlewild_protocol::{DecodeError, JobEvent, Message};
use proptest::prelude::*;

use crate::erased::{KINDS, Kind, STRUCTURES};
use crate::samples::samples;

/// Decodes; whatever is accepted must be a message like any other, that can be written and read again.
fn survives(kind: Kind, bytes: &[u8]) {
    if let Ok(again) = (kind.again)(bytes) {
        assert!(again.is_same, "{}: {}", kind.name, again.debug);
    }
}

#[test]
fn no_prefix_of_a_message_is_a_message() {
    for sample in samples() {
        for end in 0..sample.body().len() {
            let read = (sample.kind.again)(&sample.body()[..end]);
            assert_eq!(read, Err(DecodeError::Malformed), "{} cut at {end}", sample.name);
        }
    }
}

#[test]
fn bytes_after_a_message_are_refused() {
    for sample in samples() {
        for extra in [1, 7] {
            let longer = [sample.body(), &vec![0; extra]].concat();
            assert_eq!((sample.kind.again)(&longer), Err(DecodeError::Trailing(extra)), "{}", sample.name);
        }
    }
}

#[test]
fn every_single_changed_byte_is_refused_or_read_as_another_message() {
    for sample in samples() {
        let mut bytes = sample.body().to_vec();
        for at in 0..bytes.len() {
            let kept = bytes[at];
            for value in [kept ^ 1, kept ^ 0x80, 0, 0x7f, 0xfb, 0xfc, 0xfd, 0xfe, 0xff] {
                bytes[at] = value;
                survives(sample.kind, &bytes);
            }
            bytes[at] = kept;
        }
    }
}

#[test]
fn a_body_over_the_kinds_limit_is_refused_whatever_it_holds() {
    for kind in KINDS {
        let refused = Err(DecodeError::TooLong { size: kind.max_bytes + 1, limit: kind.max_bytes });
        assert_eq!((kind.again)(&vec![0; kind.max_bytes + 1]), refused, "{}", kind.name);
    }
}

#[test]
fn an_unknown_variant_is_refused() {
    for kind in KINDS.iter().filter(|kind| !STRUCTURES.contains(&kind.name)) {
        for tag in [40, 250] {
            let bytes = [vec![tag], vec![0; 64.min(kind.max_bytes - 1)]].concat();
            assert_eq!((kind.again)(&bytes), Err(DecodeError::Malformed), "{}", kind.name);
        }
    }
}

#[test]
fn text_that_is_not_utf_8_is_refused() {
    let token = [2, 1, 0, 5, 2, 0xc3, 0x28];
    assert_eq!(JobEvent::from_bytes(&token), Err(DecodeError::Malformed));
}

proptest! {
    #[test]
    fn random_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0..KINDS.len()) {
        survives(KINDS[at], &bytes);
    }

    #[test]
    fn several_changed_bytes_are_survived(
        at in 0..1000_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let samples = samples();
        let sample = &samples[at % samples.len()];
        let mut bytes = sample.body().to_vec();
        for (index, value) in changes {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        survives(sample.kind, &bytes);
    }
}
