//! Events on their way to a client that may be slow.
//!
//! The request never waits for its client: what the client has not taken is kept here, neighbouring texts joined. It is
//! bounded by the answer's own length.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use super::GenerationEvent;

/// What waits for one client.
#[derive(Debug)]
pub(super) struct Outbox {
    waiting: VecDeque<GenerationEvent>,
    client: mpsc::Sender<GenerationEvent>,
}

impl Outbox {
    pub(super) fn new(client: mpsc::Sender<GenerationEvent>) -> Self {
        Self { waiting: VecDeque::new(), client }
    }

    /// Adds an event, behind all that wait.
    pub(super) fn push(&mut self, event: GenerationEvent) {
        match (self.waiting.back_mut(), event) {
            (Some(GenerationEvent::Text(text)), GenerationEvent::Text(more)) => text.push_str(&more),
            // Only the latest is news.
            (Some(last @ GenerationEvent::Reading { .. }), event @ GenerationEvent::Reading { .. }) => *last = event,
            (_, event) => self.waiting.push_back(event),
        }
        self.flush();
    }

    /// Hands over what the client takes without waiting.
    fn flush(&mut self) {
        while !self.waiting.is_empty() {
            let Ok(permit) = self.client.try_reserve() else { return };
            if let Some(event) = self.waiting.pop_front() {
                permit.send(event);
            }
        }
    }

    /// Waits until the client takes one of the waiting events; for ever where none waits. False where the client is gone.
    pub(super) async fn deliver(&mut self) -> bool {
        if self.waiting.is_empty() {
            self.client.closed().await;
            return false;
        }
        let Ok(permit) = self.client.reserve().await else { return false };
        if let Some(event) = self.waiting.pop_front() {
            permit.send(event);
        }
        true
    }

    /// Whether all was handed over.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> GenerationEvent {
        GenerationEvent::Text(text.to_owned())
    }

    #[tokio::test]
    async fn texts_that_a_slow_client_has_not_taken_are_joined_in_order() {
        let (client, mut taken) = mpsc::channel(1);
        let mut outbox = Outbox::new(client);
        for piece in ["a", "b", "c"] {
            outbox.push(text(piece));
        }
        outbox.push(GenerationEvent::Prompt { tokens: 1 });
        assert_eq!(taken.recv().await, Some(text("a")));
        assert!(outbox.deliver().await);
        assert_eq!(taken.recv().await, Some(text("bc")));
        assert!(outbox.deliver().await);
        assert_eq!(taken.recv().await, Some(GenerationEvent::Prompt { tokens: 1 }));
        assert!(outbox.is_empty());
        drop(taken);
        assert!(!outbox.deliver().await);
    }
}
