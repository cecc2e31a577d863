//! Signs of life of those whose turn has not come: for a slot, or to be read.

use std::time::{Duration, Instant};

use super::Batcher;
use crate::SequenceEvent;
use crate::child::sequence::Sequence;
use crate::job::Role;
use crate::messages::EngineEvent;

/// How often a sequence that waits shows that it is alive; its origin gives up after 3.5 s of silence. One that waits to be
/// read is noticed at the second look, so that it is silent for two of these and a step at most.
const PROOF_OF_LIFE: Duration = Duration::from_secs(1);

impl Batcher {
    /// When those that wait for a slot show that they are alive, though there is no work.
    pub(crate) fn proof_due(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then(|| self.proof_due.unwrap_or_else(Instant::now))
    }

    /// Prompts are read oldest first, which answers all of them the sooner on average. So the younger ones get nothing for as
    /// long as the older ones take, and have nothing else to tell. What waits for chunks is left out: whoever pulls them
    /// says whether they come.
    pub(super) fn prove_life(&mut self) {
        let now = Instant::now();
        if self.proof_due.is_some_and(|due| now < due) {
            return;
        }
        self.proof_due = Some(now + PROOF_OF_LIFE);
        self.events.extend(self.waiting.iter().map(sign_of));
        if self.halt.is_on() {
            // Nobody's turn comes.
            return;
        }
        for sequence in &mut self.placed {
            if sequence.stands_still() {
                self.events.push(sign_of(sequence));
            }
        }
    }
}

fn sign_of(sequence: &Sequence) -> EngineEvent {
    let event = match sequence.role {
        Role::Worker => sequence.read_so_far(),
        Role::Successor | Role::Standby => {
            // As it was told last.
            let (tokens, _) = sequence.said;
            SequenceEvent::Held { tokens: tokens as u32, pulled_tokens: sequence.pulled.min(tokens) as u32 }
        }
    };
    EngineEvent::Sequence { id: sequence.id, event }
}
