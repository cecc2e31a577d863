//! What became of requests: those that run, and the last ones that ended. For `idlewild explain`.
//!
//! No word of a prompt or an answer is in here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idlewild_protocol::RequestId;
use tracing::warn;

use crate::api::wire::ExplainReply;
use crate::store::Store;

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
    /// Where ended requests are kept; none keeps them in memory only.
    store: Option<Store>,
}

impl Records {
    /// Records that are also kept in `store`.
    pub fn new(store: Option<Store>) -> Self {
        Self { books: Arc::default(), store }
    }

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

    /// Keeps a closed record beyond this life of the process.
    pub(super) async fn keep(&self, record: &ExplainReply) {
        if let Some(store) = &self.store
            && let Err(error) = store.record_request(record).await
        {
            warn!(%error, "a request's record is kept in memory only");
        }
    }

    /// The record of one request.
    pub async fn explain(&self, request: RequestId) -> Option<ExplainReply> {
        let in_memory = {
            let books = self.books();
            let ended = books.ended.iter().rev().find(|record| record.request == request);
            books.open.get(&request).or(ended).cloned()
        };
        match (in_memory, &self.store) {
            (Some(record), _) => Some(record),
            (None, Some(store)) => store.request(request).await.unwrap_or_else(|error| {
                warn!(%error, "records cannot be read");
                None
            }),
            (None, None) => None,
        }
    }

    /// The last requests, newest first: those that run, then those that ended.
    pub async fn latest(&self) -> Vec<ExplainReply> {
        let (mut latest, ended) = {
            let books = self.books();
            let ended: Vec<ExplainReply> = books.ended.iter().rev().take(LATEST_SHOWN).cloned().collect();
            (books.open.values().cloned().collect::<Vec<_>>(), ended)
        };
        latest.sort_by_key(|record| std::cmp::Reverse(record.accepted_s));
        let older = match &self.store {
            Some(store) if ended.len() < LATEST_SHOWN => store.requests(LATEST_SHOWN as u32).await.unwrap_or_default(),
            Some(_) | None => Vec::new(),
        };
        for record in ended.into_iter().chain(older) {
            if !latest.iter().any(|known| known.request == record.request) {
                latest.push(record);
            }
        }
        latest.truncate(LATEST_SHOWN);
        latest
    }

    /// Requests that run now.
    pub fn open(&self) -> Vec<ExplainReply> {
        self.books().open.values().cloned().collect()
    }
}
