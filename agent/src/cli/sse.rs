//! Server-sent events, as far as the agent's own API uses them: the `data` of each event, and the comment that says how far
//! the prompt is read.

use crate::api::wire::READING;

/// A longer event is not one of ours.
const MAX_EVENT_BYTES: usize = 4 * 1024 * 1024;

/// What a stream says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// The data of an event.
    Data(String),
    /// The worker has read so many tokens of the prompt, of so many.
    Reading(u32, u32),
}

/// Puts events together from the pieces in which they arrive.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: Vec<u8>,
    data: String,
}

/// An event is too long, or not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the agent's stream of events is not understood")]
pub(super) struct BadEvent;

impl Events {
    /// Takes in bytes; gives every event that they complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Event>, BadEvent> {
        let mut complete = Vec::new();
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                if self.line.len() > MAX_EVENT_BYTES {
                    return Err(BadEvent);
                }
                continue;
            }
            let line = String::from_utf8(std::mem::take(&mut self.line)).map_err(|_| BadEvent)?;
            let line = line.trim_end_matches('\r');
            if let Some(data) = line.strip_prefix("data:") {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
            } else if line.is_empty() && !self.data.is_empty() {
                complete.push(Event::Data(std::mem::take(&mut self.data)));
            }
            complete.extend(reading(line));
            if self.data.len() > MAX_EVENT_BYTES {
                return Err(BadEvent);
            }
        }
        Ok(complete)
    }
}

fn reading(line: &str) -> Option<Event> {
    let mut words = line.strip_prefix(':')?.split_whitespace();
    let is_reading = words.next() == Some(READING);
    let (done, total) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    is_reading.then_some(Event::Reading(done, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_however_the_bytes_are_cut() {
        let stream = ": keep-alive\n\n: reading 5 12\n\n: reading on\n\ndata: {\"a\":1}\n\ndata: ä\r\n\r\nevent: x\ndata: one\ndata:two\n\ndata: [DONE]\n\n";
        let data = |text: &str| Event::Data(text.to_owned());
        let expected = [Event::Reading(5, 12), data("{\"a\":1}"), data("ä"), data("one\ntwo"), data("[DONE]")];
        for size in [1, 2, 3, 7, stream.len()] {
            let mut events = Events::default();
            let got: Vec<Event> =
                stream.as_bytes().chunks(size).flat_map(|piece| events.take(piece).unwrap()).collect();
            assert_eq!(got, expected, "pieces of {size}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_an_error() {
        assert_eq!(Events::default().take(b"data: \xff\n"), Err(BadEvent));
    }
}
