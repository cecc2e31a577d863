//! A streamed answer as a client reads it.

use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::Response;
use serde_json::Value;
use tokio::time::timeout;

use crate::cluster::PATIENCE;

/// Reads events one by one.
pub(crate) struct Answer {
    pub(crate) request: String,
    pub(crate) worker: String,
    bytes: BoxStream<'static, Vec<u8>>,
    unread: String,
    /// The answer so far.
    pub(crate) text: String,
    /// Chunks with text so far.
    pub(crate) pieces: u32,
}

/// How a stream ended.
#[derive(Debug, PartialEq)]
pub(crate) enum End {
    /// With this finish reason, then `[DONE]`.
    Finished(String),
    /// With this error, then `[DONE]`.
    Failed(String),
}

impl Answer {
    pub(crate) fn of(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        let (request, worker) = (header("x-idlewild-request"), header("x-idlewild-worker"));
        let bytes = response.bytes_stream().map(|piece| piece.unwrap().to_vec()).boxed();
        Self { request, worker, bytes, unread: String::new(), text: String::new(), pieces: 0 }
    }

    /// The data of the next event; comments are skipped.
    async fn event(&mut self) -> String {
        loop {
            while let Some(end) = self.unread.find("\n\n") {
                let event: String = self.unread.drain(..end + 2).collect();
                if let Some(data) = event.trim_end().strip_prefix("data: ") {
                    return data.to_owned();
                }
            }
            let piece = timeout(PATIENCE, self.bytes.next()).await.unwrap().expect("a stream ends with [DONE]");
            self.unread.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    /// Reads one chunk; its finish reason or error, if it has one.
    async fn chunk(&mut self) -> Option<End> {
        let chunk: Value = serde_json::from_str(&self.event().await).unwrap();
        if let Some(error) = chunk.get("error") {
            return Some(End::Failed(error["message"].as_str().unwrap().to_owned()));
        }
        let choice = &chunk["choices"][0];
        if let Some(text) = choice["delta"]["content"].as_str().filter(|text| !text.is_empty()) {
            self.text.push_str(text);
            self.pieces += 1;
        }
        choice["finish_reason"].as_str().map(|reason| End::Finished(reason.to_owned()))
    }

    /// Reads until this many chunks have come.
    pub(crate) async fn read(&mut self, pieces: u32) {
        while self.pieces < pieces {
            assert_eq!(self.chunk().await, None, "ended after {} chunks", self.pieces);
        }
    }

    /// Reads to the end.
    pub(crate) async fn finish(&mut self) -> End {
        loop {
            if let Some(end) = self.chunk().await {
                assert_eq!(self.event().await, "[DONE]");
                return end;
            }
        }
    }
}
