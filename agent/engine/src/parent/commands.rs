//! Commands to sequences between the handles and the child: where they wait, and which are under way.
//!
//! ```text
//! SequenceHandle -> Desk (each sequence has its share; a chunk needs one of four places first) -> Supervisor -> child
//!                                   Ledger: a place for each that the child has not answered  <- Obeyed, Exported
//! ```
//!
//! The child answers each, so that what waits in it is bounded as well: its reader is never held up by a full queue and
//! sees a halt in time, however many commands come while a step runs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::streams::SEQUENCES_MAX;
use crate::blob::Blob;
use crate::handle::{Asked, Expectation, SHARE_MAX, SequenceCommand, Told};
use crate::job::SequenceId;
use crate::{ExportError, SequenceHandle};

/// Commands of all handles that may wait for the supervisor: every sequence's share, its expectation, and the chunks with
/// what was to be expected before each. They take memory only when they are there.
const TOLD_MAX: usize = SEQUENCES_MAX * (SHARE_MAX as usize + 1) + 2 * CHUNKS_MAX;

/// Commands to sequences that the child may have and not have answered.
pub(crate) const IN_FLIGHT_MAX: usize = 32;

/// Chunks between the handles and the sequences, of at most 8 MiB each.
const CHUNKS_MAX: usize = 4;

/// Exports that may be under way.
pub(crate) const EXPORTS_MAX: usize = 16;

/// Where handles leave their commands.
pub(super) struct Desk {
    told: mpsc::Sender<Told>,
    incoming: mpsc::Receiver<Told>,
    chunks: Arc<Semaphore>,
}

impl Default for Desk {
    fn default() -> Self {
        let (told, incoming) = mpsc::channel(TOLD_MAX);
        Self { told, incoming, chunks: Arc::new(Semaphore::new(CHUNKS_MAX)) }
    }
}

impl Desk {
    pub(super) fn handle(&self, id: SequenceId) -> SequenceHandle {
        SequenceHandle {
            id,
            told: self.told.clone(),
            chunks: Arc::clone(&self.chunks),
            share: Arc::new(Semaphore::new(SHARE_MAX as usize)),
            expectation: Arc::new(Expectation::default()),
        }
    }

    pub(super) async fn next(&mut self) -> Told {
        match self.incoming.recv().await {
            Some(told) => told,
            // Cannot be: we hold a sender ourselves.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Desk {
    /// Whoever waits for a place hears that the engine is gone.
    fn drop(&mut self) {
        self.chunks.close();
    }
}

type ExportReply = oneshot::Sender<Result<Vec<u8>, ExportError>>;

/// What one child has been told and has not answered. Dropped with the child: its exports fail then.
#[derive(Default)]
pub(super) struct Ledger {
    /// Oldest first; a chunk's place is free again when the sequence has it.
    in_flight: VecDeque<Option<OwnedSemaphorePermit>>,
    exports: BTreeMap<u64, ExportReply>,
    next_ticket: u64,
}

impl Ledger {
    pub(super) fn has_room(&self) -> bool {
        self.in_flight.len() < IN_FLIGHT_MAX
    }

    /// The command to send, if it is one to send.
    pub(super) fn enter(&mut self, asked: Asked) -> Option<SequenceCommand> {
        let (command, permit) = match asked {
            Asked::Command(command) => (command, None),
            Asked::Expect(expected) => (SequenceCommand::Expect { from: expected.take() }, None),
            Asked::Import(chunk, permit) => {
                let bytes = Blob::new(chunk.bytes)?;
                (SequenceCommand::Import { from: chunk.from, to: chunk.to, bytes }, Some(permit))
            }
            Asked::Export { from, to, reply } => {
                self.exports.retain(|_, waiting| !waiting.is_closed());
                if self.exports.len() >= EXPORTS_MAX {
                    let _ = reply.send(Err(ExportError::Busy));
                    return None;
                }
                let ticket = self.next_ticket;
                self.next_ticket += 1;
                self.exports.insert(ticket, reply);
                (SequenceCommand::Export { ticket, from, to }, None)
            }
        };
        self.in_flight.push_back(permit);
        Some(command)
    }

    pub(super) fn obeyed(&mut self) {
        self.in_flight.pop_front();
    }

    pub(super) fn exported(&mut self, ticket: u64, outcome: Result<Blob, ExportError>) {
        if let Some(reply) = self.exports.remove(&ticket) {
            let _ = reply.send(outcome.map(Blob::into_bytes));
        }
    }

    /// The model is gone: nothing will come of them.
    pub(super) fn end_exports(&mut self) {
        self.exports.clear();
    }
}

#[cfg(test)]
mod tests {
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};

    use super::*;
    use crate::{KvChunk, SequenceError};

    fn chunk() -> KvChunk {
        KvChunk { from: 0, to: 1, bytes: vec![1] }
    }

    fn poll<T>(future: core::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn a_chunk_waits_until_the_child_has_one_of_those_before_it() {
        let (mut desk, mut ledger) = (Desk::default(), Ledger::default());
        let handle = desk.handle(SequenceId(1));
        for _ in 0..CHUNKS_MAX {
            handle.import(chunk()).await.unwrap();
        }
        let mut next = pin!(handle.import(chunk()));
        assert_eq!(poll(next.as_mut()), Poll::Pending);
        handle.go_on().unwrap();
        for _ in 0..CHUNKS_MAX {
            let command = ledger.enter(desk.next().await.what).unwrap();
            assert!(matches!(command, SequenceCommand::Import { from: 0, to: 1, .. }));
        }
        assert!(ledger.enter(desk.next().await.what).is_some(), "small commands pass");
        assert_eq!(poll(next.as_mut()), Poll::Pending, "they are with the child, unanswered");
        ledger.obeyed();
        assert_eq!(poll(next.as_mut()), Poll::Ready(Ok(())));
        let mut last = pin!(handle.import(chunk()));
        assert_eq!(poll(last.as_mut()), Poll::Pending);
        drop(ledger);
        assert_eq!(poll(last.as_mut()), Poll::Ready(Ok(())), "a dead child holds none");
    }

    #[tokio::test]
    async fn who_waits_hears_that_the_engine_is_gone() {
        let desk = Desk::default();
        let handle = desk.handle(SequenceId(1));
        for _ in 0..CHUNKS_MAX {
            handle.import(chunk()).await.unwrap();
        }
        let mut import = pin!(handle.import(chunk()));
        let mut export = pin!(handle.export(0, 1));
        assert_eq!(poll(import.as_mut()), Poll::Pending);
        assert_eq!(poll(export.as_mut()), Poll::Pending);
        drop(desk);
        assert_eq!(poll(import), Poll::Ready(Err(SequenceError::Gone)));
        assert_eq!(poll(export), Poll::Ready(Err(ExportError::Gone)));
        assert_eq!(handle.go_on(), Err(SequenceError::Gone));
    }

    #[tokio::test]
    async fn a_handle_never_waits_for_the_engine_and_is_bounded() {
        let desk = Desk::default();
        let handle = desk.handle(SequenceId(1));
        let taken = (0..2 * TOLD_MAX).take_while(|_| handle.go_on().is_ok()).count();
        assert_eq!(taken, SHARE_MAX as usize);
        assert_eq!(handle.go_on(), Err(SequenceError::Busy));
        assert_eq!(handle.export(0, 1).await, Err(ExportError::Busy));
        let long = desk.handle(SequenceId(2));
        let ids = || vec![idlewild_protocol::TokenId(1); 65_536];
        assert_eq!((long.extend(0, ids()), long.extend(0, ids())), (Ok(()), Err(SequenceError::Busy)), "in bytes, too");
        let bad = [(1, 1, 1), (2, 1, 1), (0, 2000, 1), (0, 1, 0), (0, 1, 8 * 1024 * 1024 + 1)];
        for (from, to, bytes) in bad {
            let refusal = handle.import(KvChunk { from, to, bytes: vec![0; bytes] }).await;
            assert_eq!(refusal, Err(SequenceError::BadChunk), "{from} {to} {bytes}");
        }
    }

    #[tokio::test]
    async fn one_that_says_too_much_takes_no_place_of_anothers_and_has_its_own_again_once_heard() {
        let (mut desk, mut ledger) = (Desk::default(), Ledger::default());
        let (flooded, other) = (desk.handle(SequenceId(1)), desk.handle(SequenceId(2)));
        while flooded.go_on().is_ok() {}
        assert_eq!(other.go_on(), Ok(()));
        assert_eq!(flooded.clone().go_on(), Err(SequenceError::Busy), "a clone has no share of its own");
        assert!(ledger.enter(desk.next().await.what).is_some());
        assert_eq!((flooded.go_on(), flooded.go_on()), (Ok(()), Err(SequenceError::Busy)));
    }

    #[tokio::test]
    async fn what_is_to_be_expected_is_never_too_much_and_the_last_word_counts() {
        let (mut desk, mut ledger) = (Desk::default(), Ledger::default());
        let handle = desk.handle(SequenceId(1));
        assert_eq!(handle.expect(Some(0)), Ok(()));
        while handle.go_on().is_ok() {}
        for from in 0..10_000 {
            assert_eq!(handle.expect(Some(from)), Ok(()));
        }
        assert_eq!(handle.expect(None), Ok(()));
        assert_eq!(ledger.enter(desk.next().await.what), Some(SequenceCommand::Expect { from: None }));
        assert_eq!(ledger.enter(desk.next().await.what), Some(SequenceCommand::GoOn));
        assert_eq!(handle.expect(Some(7)), Ok(()), "what is said later is sent anew");
        while !matches!(desk.next().await.what, Asked::Expect(expected) if expected.take() == Some(7)) {}
    }

    #[tokio::test]
    async fn what_is_to_be_expected_after_a_chunk_is_not_expected_before_it() {
        let (mut desk, mut ledger) = (Desk::default(), Ledger::default());
        let handle = desk.handle(SequenceId(1));
        handle.expect(Some(0)).unwrap();
        handle.import(KvChunk { from: 0, to: 256, bytes: vec![0] }).await.unwrap();
        handle.expect(Some(128)).unwrap();
        handle.expect(Some(256)).unwrap();
        assert_eq!(ledger.enter(desk.next().await.what), Some(SequenceCommand::Expect { from: Some(0) }));
        assert!(matches!(ledger.enter(desk.next().await.what), Some(SequenceCommand::Import { .. })));
        assert_eq!(ledger.enter(desk.next().await.what), Some(SequenceCommand::Expect { from: Some(256) }));
    }

    #[tokio::test]
    async fn more_exports_than_may_be_under_way_are_refused_unless_nobody_waits_for_them() {
        let (mut desk, mut ledger) = (Desk::default(), Ledger::default());
        let handle = desk.handle(SequenceId(1));
        let mut waiting: Vec<_> = (0..EXPORTS_MAX).map(|_| Box::pin(handle.export(0, 1))).collect();
        for export in &mut waiting {
            assert_eq!(poll(export.as_mut()), Poll::Pending);
            assert!(ledger.enter(desk.next().await.what).is_some());
        }
        let mut more = pin!(handle.export(0, 1));
        assert_eq!(poll(more.as_mut()), Poll::Pending);
        assert!(ledger.enter(desk.next().await.what).is_none());
        assert_eq!(poll(more), Poll::Ready(Err(ExportError::Busy)));
        ledger.exported(3, Ok(Blob::new(vec![7]).unwrap()));
        assert_eq!(poll(waiting[3].as_mut()), Poll::Ready(Ok(vec![7])));
        waiting.truncate(3);
        let mut again = pin!(handle.export(0, 1));
        assert_eq!(poll(again.as_mut()), Poll::Pending);
        assert!(ledger.enter(desk.next().await.what).is_some());
        ledger.end_exports();
        assert_eq!(poll(again), Poll::Ready(Err(ExportError::Gone)));
    }

    #[test]
    fn only_so_many_commands_are_in_flight() {
        let mut ledger = Ledger::default();
        let mut sent = 0;
        while ledger.has_room() {
            assert!(ledger.enter(Asked::Command(SequenceCommand::GoOn)).is_some());
            sent += 1;
        }
        assert_eq!(sent, IN_FLIGHT_MAX);
        ledger.obeyed();
        assert!(ledger.has_room());
    }
}
