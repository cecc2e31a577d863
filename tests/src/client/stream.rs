//! A streamed answer, event by event, each with the time of its arrival.

use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc;

use super::{Answer, Piece};

/// Lines that may wait for the test; a test that does not read holds the connection back, as a slow program would.
const WAITING_LINES: usize = 16;

/// Longest silence of a stream before a test gives up. Keep-alive comments do not count as words.
const SILENCE_MAX: Duration = Duration::from_secs(150);

/// Longest wait for the headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);

/// An answer that is being streamed. Dropping it closes the connection.
pub struct Stream {
    runtime: Handle,
    lines: mpsc::Receiver<(Instant, Result<String, String>)>,
    status: u16,
    /// The body of an answer that is no stream.
    answer: Answer,
}

/// What the task sends first.
struct Head {
    status: u16,
    request: Option<String>,
    worker: Option<String>,
}

impl Stream {
    pub(super) fn open(runtime: &Runtime, request: reqwest::RequestBuilder) -> Result<Self> {
        let (head_to, head) = sync_channel(1);
        let (lines_to, lines) = mpsc::channel(WAITING_LINES);
        let sent = Instant::now();
        runtime.spawn(async move {
            match request.send().await {
                Ok(response) => {
                    let text = |name| response.headers().get(name)?.to_str().ok().map(str::to_owned);
                    let (request, worker) = (text("x-idlewild-request"), text("x-idlewild-worker"));
                    let _ = head_to.send(Ok(Head { status: response.status().as_u16(), request, worker }));
                    forward(response, lines_to).await;
                }
                Err(error) => {
                    let _ = head_to.send(Err(error));
                }
            }
        });
        let head = head.recv_timeout(HEADERS_WITHIN).context("no headers came")?.context("send the request")?;
        let answer = Answer { sent, request: head.request, worker: head.worker, ..Answer::empty(sent) };
        Ok(Self { runtime: runtime.handle().clone(), lines, status: head.status, answer })
    }

    /// HTTP status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The request's id, from the headers.
    pub fn request(&self) -> Result<&str> {
        self.answer.request.as_deref().context("the answer names no request")
    }

    /// What has come so far.
    pub fn so_far(&self) -> &Answer {
        &self.answer
    }

    /// The next piece of text; none at the stream's end.
    pub fn next_piece(&mut self) -> Result<Option<Piece>> {
        let mut silent_since = Instant::now();
        loop {
            let Some((at, line)) = self.receive(silent_since)? else { return Ok(None) };
            let line = line.map_err(anyhow::Error::msg).context("the stream broke off")?;
            let Some(data) = line.strip_prefix("data:").map(str::trim) else {
                continue;
            };
            silent_since = Instant::now();
            if let Some(piece) = self.answer.take(at, data)? {
                return Ok(Some(piece));
            }
        }
    }

    /// Reads until `count` pieces of text have come in all.
    pub fn read_pieces(&mut self, count: usize) -> Result<()> {
        while self.answer.pieces.len() < count {
            let came = self.answer.pieces.len();
            ensure!(
                self.next_piece()?.is_some(),
                "the stream ended after {came} pieces, not {count}: {:?}",
                self.answer
            );
        }
        Ok(())
    }

    /// Reads to the end.
    pub fn finish(mut self) -> Result<Answer> {
        if self.status != 200 {
            let body = self.body()?;
            bail!("status {}: {body}", self.status);
        }
        while self.next_piece()?.is_some() {}
        self.answer.ended = Some(Instant::now());
        Ok(self.answer)
    }

    /// The whole body of an answer that is no stream, such as a refusal.
    pub fn body(&mut self) -> Result<String> {
        let mut body = String::new();
        while let Some((_, line)) = self.receive(Instant::now())? {
            body.push_str(&line.map_err(anyhow::Error::msg)?);
            body.push('\n');
        }
        Ok(body)
    }

    /// The body as JSON.
    pub fn json(&mut self) -> Result<Value> {
        let body = self.body()?;
        serde_json::from_str(&body).with_context(|| format!("not JSON: {body}"))
    }

    /// The next line, or none at the end. The time allowed is that of the client's runtime, which this thread waits with.
    fn receive(&mut self, silent_since: Instant) -> Result<Option<(Instant, Result<String, String>)>> {
        let allowed = (silent_since + SILENCE_MAX).saturating_duration_since(Instant::now());
        let lines = &mut self.lines;
        match self.runtime.block_on(async { tokio::time::timeout(allowed, lines.recv()).await }) {
            Ok(line) => Ok(line),
            Err(_) => bail!("the stream was silent for {SILENCE_MAX:?}: {:?}", self.answer),
        }
    }
}

/// Cuts the body into lines as they come.
async fn forward(mut response: reqwest::Response, to: mpsc::Sender<(Instant, Result<String, String>)>) {
    let mut partial = Vec::new();
    loop {
        let chunk = tokio::select! {
            chunk = response.chunk() => chunk,
            () = to.closed() => return,
        };
        match chunk {
            Ok(Some(bytes)) => {
                let now = Instant::now();
                for byte in bytes {
                    if byte != b'\n' {
                        partial.push(byte);
                        continue;
                    }
                    let line = String::from_utf8_lossy(&std::mem::take(&mut partial)).into_owned();
                    if to.send((now, Ok(line))).await.is_err() {
                        return;
                    }
                }
            }
            Ok(None) => break,
            Err(error) => {
                let _ = to.send((Instant::now(), Err(format!("{error:?}")))).await;
                return;
            }
        }
    }
    if !partial.is_empty() {
        let _ = to.send((Instant::now(), Ok(String::from_utf8_lossy(&partial).into_owned()))).await;
    }
}
