//! What a streamed answer amounts to: its text, its end, and its pauses.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// A piece of text as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// When.
    pub at: Instant,
    /// What.
    pub text: String,
}

/// A streamed answer, whole or so far.
#[derive(Clone)]
pub struct Answer {
    /// When it was asked for.
    pub sent: Instant,
    /// When its last byte came.
    pub ended: Option<Instant>,
    /// All pieces of text, in the order of arrival.
    pub pieces: Vec<Piece>,
    /// Why it ended.
    pub finish: Option<String>,
    /// An error in the stream.
    pub error: Option<Value>,
    /// Whether the proper end of a stream came.
    pub done: bool,
    /// The count of tokens, where it was asked for.
    pub usage: Option<Value>,
    /// The request.
    pub request: Option<String>,
    /// Who works on it, by the last chunk that says so.
    pub worker: Option<String>,
    /// How often it moved, by the last chunk that says so.
    pub moves: u64,
}

impl Answer {
    pub(super) fn empty(sent: Instant) -> Self {
        Self {
            sent,
            ended: None,
            pieces: Vec::new(),
            finish: None,
            error: None,
            done: false,
            usage: None,
            request: None,
            worker: None,
            moves: 0,
        }
    }

    /// The text.
    pub fn text(&self) -> String {
        self.pieces.iter().map(|piece| piece.text.as_str()).collect()
    }

    /// From asking to the first piece.
    pub fn first_after(&self) -> Result<Duration> {
        Ok(self.pieces.first().context("no text came")?.at - self.sent)
    }

    /// The longest time between two pieces, and between asking and the first.
    pub fn longest_pause(&self) -> Duration {
        let times = std::iter::once(self.sent).chain(self.pieces.iter().map(|piece| piece.at));
        times.clone().zip(times.skip(1)).map(|(one, next)| next - one).max().unwrap_or_default()
    }

    /// The longest time without a piece after `since`, up to the first piece after it or later.
    pub fn longest_pause_since(&self, since: Instant) -> Duration {
        let later = self.pieces.iter().map(|piece| piece.at).filter(|at| *at >= since);
        let times = std::iter::once(since).chain(later);
        times.clone().zip(times.skip(1)).map(|(one, next)| next - one).max().unwrap_or_default()
    }

    /// The longest time without a piece from `since` to the first piece after `until`: what happened in between is felt by then,
    /// and what a busy machine does later is not counted.
    pub fn longest_pause_within(&self, since: Instant, until: Instant) -> Duration {
        let times: Vec<Instant> = self.pieces.iter().map(|piece| piece.at).filter(|at| *at >= since).collect();
        let counted = times.iter().take_while(|at| **at <= until).count() + 1;
        let times = std::iter::once(since).chain(times.into_iter().take(counted));
        times.clone().zip(times.skip(1)).map(|(one, next)| next - one).max().unwrap_or_default()
    }

    /// Itself, if it is whole: no error, a reason for its end, the end itself.
    pub fn whole(self) -> Result<Self> {
        ensure!(self.error.is_none() && self.done && self.finish.is_some(), "not whole: {self:?}");
        Ok(self)
    }

    /// Takes the data of one event; gives its text where it has some.
    pub(super) fn take(&mut self, at: Instant, data: &str) -> Result<Option<Piece>> {
        ensure!(!self.done, "an event after [DONE]: {data}");
        if data == "[DONE]" {
            self.done = true;
            return Ok(None);
        }
        let event: Value = serde_json::from_str(data).with_context(|| format!("an event that is not JSON: {data}"))?;
        if let Some(error) = event.get("error") {
            self.error = Some(error.clone());
            return Ok(None);
        }
        self.note(&event)?;
        let choice = &event["choices"][0];
        let text = choice["text"].as_str().or_else(|| choice["delta"]["content"].as_str()).unwrap_or_default();
        if text.is_empty() {
            return Ok(None);
        }
        let piece = Piece { at, text: text.to_owned() };
        self.pieces.push(piece.clone());
        Ok(Some(piece))
    }

    fn note(&mut self, event: &Value) -> Result<()> {
        if let Some(usage) = event.get("usage").filter(|usage| !usage.is_null()) {
            self.usage = Some(usage.clone());
        }
        if let Some(worker) = event["idlewild"]["worker"].as_str() {
            self.worker = Some(worker.to_owned());
        }
        if let Some(moves) = event["idlewild"]["moves"].as_u64() {
            self.moves = moves;
        }
        if let Some(reason) = event["choices"][0]["finish_reason"].as_str()
            && let Some(before) = self.finish.replace(reason.to_owned())
        {
            bail!("two reasons for the end: {before}, then {reason}");
        }
        Ok(())
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer")
            .field("text", &self.text())
            .field("pieces", &self.pieces.len())
            .field("finish", &self.finish)
            .field("error", &self.error)
            .field("done", &self.done)
            .field("request", &self.request)
            .field("worker", &self.worker)
            .field("moves", &self.moves)
            .field("longest_pause", &self.longest_pause())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(events: &[&str]) -> Result<Answer> {
        let now = Instant::now();
        let mut answer = Answer::empty(now);
        for (number, event) in events.iter().enumerate() {
            answer.take(now + Duration::from_millis(100 * number as u64), event)?;
        }
        Ok(answer)
    }

    #[test]
    fn an_answer_is_whole_with_a_reason_and_an_end() -> Result<()> {
        let (text, end) = (r#"{"choices":[{"text":"ab"}]}"#, r#"{"choices":[{"text":"","finish_reason":"stop"}]}"#);
        let whole = of(&[text, text, end, "[DONE]"])?.whole()?;
        assert_eq!((whole.text(), whole.longest_pause()), ("abab".to_owned(), Duration::from_millis(100)));
        let ms = |ms| whole.sent + Duration::from_millis(ms);
        assert_eq!(whole.longest_pause_within(ms(0), ms(50)), Duration::from_millis(100));
        assert_eq!(whole.longest_pause_within(ms(30), ms(60)), Duration::from_millis(70));
        assert_eq!(whole.longest_pause_within(ms(150), ms(160)), Duration::ZERO, "nothing came any more");
        for broken in [&[text, end][..], &[text, "[DONE]"], &[text, r#"{"error":{}}"#, end, "[DONE]"]] {
            assert!(of(broken)?.whole().is_err(), "{broken:?}");
        }
        for wrong in [&["[DONE]", text][..], &[end, end], &["nonsense"]] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
        Ok(())
    }
}
