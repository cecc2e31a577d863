//! What a pull says that its sequence is to expect, as long as it is the pull's to say.
//!
//! A sequence that expects what does not come waits for ever. A pull that is dropped may be in the middle of its work on another
//! thread, and would have the last word over whoever dropped it.

use std::sync::{Arc, Mutex, PoisonError};

use idlewild_engine::SequenceHandle;

/// The pull's part.
#[derive(Debug)]
pub(super) struct Expecting {
    handle: SequenceHandle,
    is_revoked: Arc<Mutex<bool>>,
}

/// Dropping it takes the word from the pull: nothing that it says afterwards reaches the sequence, and what it said before
/// came before whatever is said next.
#[derive(Debug)]
pub(super) struct Revoker(Arc<Mutex<bool>>);

/// Both parts, for the sequence of `handle`.
pub(super) fn revocable(handle: SequenceHandle) -> (Expecting, Revoker) {
    let is_revoked = Arc::default();
    (Expecting { handle, is_revoked: Arc::clone(&is_revoked) }, Revoker(is_revoked))
}

impl Expecting {
    /// As [`SequenceHandle::expect`]; in vain where the word was taken. A sequence that is gone expects nothing.
    pub(super) fn expect(&self, from: Option<u32>) {
        // Held while it is said, so that it is not said later.
        let is_revoked = self.is_revoked.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_revoked {
            self.handle.expect(from).ok();
        }
    }
}

impl Drop for Revoker {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use idlewild_engine::{Engine, EngineJob, EngineStream, SequenceEvent};
    use idlewild_protocol::{JobInput, Sampling, TokenId};
    use tokio::time::timeout;

    use super::*;
    use crate::worker::fake::{MODEL, engine, file};

    async fn loaded() -> Engine {
        let engine = engine();
        engine.load(file()).await.unwrap();
        engine
    }

    /// One that stands by and expects all of its twenty ids to be brought.
    async fn standby(engine: &Engine) -> EngineStream {
        let prompt = (400..420).map(TokenId).collect();
        let job = EngineJob {
            model: MODEL,
            input: JobInput::Tokens { prompt, generated: Vec::new() },
            sampling: Sampling::default(),
            max_tokens: 9,
            stop: Vec::new(),
        };
        engine.prepare(job, Some(0)).await.unwrap()
    }

    async fn until_it_holds_all(stream: &mut EngineStream) {
        loop {
            let event = timeout(Duration::from_secs(30), stream.next()).await.unwrap().unwrap();
            if matches!(event, SequenceEvent::Held { tokens: 20, .. }) {
                return;
            }
        }
    }

    #[tokio::test]
    async fn what_a_pull_says_is_heard_until_it_is_dropped_and_not_after() {
        let engine = loaded().await;
        let mut stream = standby(&engine).await;
        let (expecting, revoker) = revocable(stream.handle());
        drop(revoker);
        stream.handle().expect(None).unwrap();
        // The task has not noticed yet that it was aborted.
        expecting.expect(Some(0));
        until_it_holds_all(&mut stream).await;
        drop(stream);

        let mut stream = standby(&engine).await;
        let (expecting, _revoker) = revocable(stream.handle());
        expecting.expect(None);
        until_it_holds_all(&mut stream).await;
    }
}
