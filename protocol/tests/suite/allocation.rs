//! Memory: a decoder allocates in proportion to the body at hand, not to what a length inside it claims.

#![expect(unsafe_code, reason = "an allocator that counts can only be written so")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use idlewild_protocol::{Epoch, FRAME_HEADER_BYTES, JobEvent, JobInput, JobRequest, Message, TokenId, frame};

use crate::erased::KINDS;
use crate::samples::{samples, start};

/// Bytes beside four times the body that decoding may allocate: twice the smallest step of the codec's limit (a list
/// claims room before its elements, and its elements' own bytes are claimed again).
const BESIDE_BYTES: usize = 16 * 1024;

struct Counting;

thread_local! {
    /// Bytes that this thread has asked for, ever.
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting touches a plain cell that needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|sum| sum.set(sum.get() + layout.size()));
        // SAFETY: the caller's own promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` came from `alloc` above, hence from the system's allocator, with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

fn allocated_by<T>(act: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATED.get();
    let result = act();
    (ALLOCATED.get() - before, result)
}

/// The length 2^62 - 1 and lengths that fit the largest of the codec's limits, as bincode writes them.
fn hostile_lengths() -> Vec<Vec<u8>> {
    let long = |n: u64| [vec![0xfd], n.to_le_bytes().to_vec()].concat();
    let middle = |n: u32| [vec![0xfc], n.to_le_bytes().to_vec()].concat();
    vec![
        long(u64::MAX),
        long((1 << 62) - 1),
        middle(u32::MAX),
        middle(8 << 20),
        middle(1 << 20),
        vec![0xfb, 0xff, 0xff],
    ]
}

#[test]
fn a_hostile_length_anywhere_allocates_next_to_nothing() {
    let mut worst = 0;
    for sample in samples() {
        for at in 0..sample.body().len() {
            for length in hostile_lengths() {
                let bytes = [&sample.body()[..at], &length, &sample.body()[at + 1..]].concat();
                let decode = || (sample.kind.decode)(&bytes);
                let (allocated, _) = allocated_by(decode);
                worst = worst.max(allocated);
                assert!(allocated <= 4 * bytes.len() + BESIDE_BYTES, "{} at {at}: {allocated} bytes", sample.name);
            }
        }
    }
    println!("worst allocation for a hostile length: {worst} bytes");
}

#[test]
fn a_body_as_long_as_its_kind_allows_allocates_in_proportion() {
    for kind in KINDS {
        for filler in [0_u8, 1, 5, 0x41, 0xfa, 0xff] {
            let bytes = vec![filler; kind.max_bytes];
            let (allocated, ()) = allocated_by(|| {
                let _ = (kind.decode)(&bytes);
            });
            let limit = 8 * bytes.len() + 2 * BESIDE_BYTES;
            assert!(allocated <= limit, "{} of {filler:#x}: {allocated} bytes", kind.name);
        }
    }
}

#[test]
fn a_frame_is_written_without_a_second_copy() {
    let input = JobInput::Text { prompt: "word ".repeat(20_000) };
    let message = JobRequest::Start(Box::new(start(input)));
    let (allocated, bytes) = allocated_by(|| frame(&message).unwrap());
    // A growing vector doubles: all its sizes together are less than twice the last, which is less than twice the frame.
    assert!(allocated < 4 * bytes.len(), "{allocated} for {}", bytes.len());
}

#[test]
fn a_prompt_of_any_length_is_read_in_memory_in_proportion() {
    // One byte a token on the wire, four in memory: the dearest there is. Lengths on both sides of the codec's steps.
    let steps = [1000, 2000, 4000, 12_000, 16_000, 60_000, 64_000, 250_000, 262_000, JobEvent::MAX_BYTES - 8];
    for tokens in steps {
        let message = JobEvent::Accepted { epoch: Epoch(1), prompt: vec![TokenId(7); tokens] };
        let bytes = frame(&message).unwrap();
        let (allocated, read) = allocated_by(|| JobEvent::from_bytes(&bytes[FRAME_HEADER_BYTES..]));
        assert_eq!(read, Ok(message), "{tokens} tokens");
        assert!(allocated <= 4 * bytes.len() + BESIDE_BYTES);
    }
}
