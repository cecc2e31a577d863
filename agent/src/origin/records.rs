//! What became of requests: those that run, and the last ones that ended. For `idlewild explain`.
//!
//! No word of a prompt or an answer is in here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idlewild_protocol::RequestId;

use crate::api::wire::ExplainReply;

/// Ended requests in memory. Older ones are in the store, if there is one.
const ENDED_KEPT: usize = 256;

/// Requests that a list shows.
const LATEST_SHOWN: usize = 50;

#[derive(Debug, Default)]
struct Books {
    /// Bounded by the requests that may be open.
    open: BTreeMap<RequestId, ExplainReply>,
    /// The newest last.
    ended: VecDeque<ExplainReply>,
}

/// The records. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Records {
    books: Arc<Mutex<Books>>,
}

impl Records {
    /// Whatever a panic left is still a list of records.
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what is known of an open request.
    pub(super) fn update(&self, record: ExplainReply) {
        self.books().open.insert(record.request, record);
    }

    /// Counts a token of an open request.
    pub(super) fn count_tokens(&self, request: RequestId, output_tokens: u32) {
        if let Some(record) = self.books().open.get_mut(&request) {
            record.output_tokens = output_tokens;
        }
    }

    /// Closes a request's record.
    pub(super) fn end(&self, record: ExplainReply) {
        let mut books = self.books();
        books.open.remove(&record.request);
        if books.ended.len() == ENDED_KEPT {
            books.ended.pop_front();
        }
        books.ended.push_back(record);
    }

    /// The record of one request.
    pub async fn explain(&self, request: RequestId) -> Option<ExplainReply> {
        let books = self.books();
        books.open.get(&request).or_else(|| books.ended.iter().find(|record| record.request == request)).cloned()
    }

    /// The last requests, newest first.
    pub async fn latest(&self) -> Vec<ExplainReply> {
        let books = self.books();
        let open = books.open.values();
        let mut latest: Vec<ExplainReply> = open.chain(books.ended.iter().rev().take(LATEST_SHOWN)).cloned().collect();
        latest.sort_by_key(|record| std::cmp::Reverse(record.accepted_s));
        latest.truncate(LATEST_SHOWN);
        latest
    }

    /// Requests that run now.
    pub fn open(&self) -> Vec<ExplainReply> {
        self.books().open.values().cloned().collect()
    }
}
