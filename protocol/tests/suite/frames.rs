//! Headers: a frame says its length, and a length over the kind's limit is refused before a byte of body is read.

use idlewild_protocol::{ControlMessage, DecodeError, FRAME_HEADER_BYTES, Hello, frame, frame_len};

use crate::erased::KINDS;
use crate::samples::samples;

#[test]
fn a_frame_is_its_length_and_its_body() {
    for sample in samples() {
        let header: [u8; FRAME_HEADER_BYTES] = sample.frame[..FRAME_HEADER_BYTES].try_into().unwrap();
        assert_eq!((sample.kind.frame_len)(header), Ok(sample.body().len()), "{}", sample.name);
    }
}

#[test]
fn a_header_over_the_kinds_limit_is_refused() {
    for kind in KINDS {
        let header = |size: usize| u32::try_from(size).unwrap().to_le_bytes();
        assert_eq!((kind.frame_len)(header(kind.max_bytes)), Ok(kind.max_bytes), "{}", kind.name);
        for size in [kind.max_bytes + 1, u32::MAX as usize] {
            let refused = Err(DecodeError::TooLong { size, limit: kind.max_bytes });
            assert_eq!((kind.frame_len)(header(size)), refused, "{}", kind.name);
        }
    }
}

#[test]
fn a_kinds_limit_does_not_depend_on_what_another_kind_may_take() {
    let header = frame(&ControlMessage::Ping { nonce: 1 }).unwrap()[..FRAME_HEADER_BYTES].try_into().unwrap();
    assert_eq!(frame_len::<Hello>(header), Ok(2));
    assert!(frame_len::<Hello>(300_u32.to_le_bytes()).is_err());
    assert!(frame_len::<ControlMessage>(300_u32.to_le_bytes()).is_ok());
}
