//! Parts of a context out of a KV cache and into it, by way of one scratch sequence.
//!
//! Invariant: between calls the scratch sequence is empty, so that it holds back no cell.

use super::Format;
use super::parse::{Positions, Values, canonicalise, parse};
use super::slots::Slots;
use crate::child::llama_context::{Context, Sequence};
use crate::child::model::KvError;

/// Contexts of one model on their way.
#[derive(Debug)]
pub(crate) struct Transfer {
    format: Format,
    scratch: Sequence,
}

impl Transfer {
    /// `scratch` is a sequence that no slot uses.
    pub(crate) fn new(format: Format, scratch: Sequence) -> Self {
        Self { format, scratch }
    }

    #[cfg(test)]
    pub(crate) fn format(&self) -> &Format {
        &self.format
    }

    /// The state of positions [from, to) of a slot, which holds them. Nothing but the scratch sequence is touched.
    pub(crate) fn export(&self, context: &mut Context, slot: u16, positions: Positions) -> Result<Vec<u8>, KvError> {
        context.share(Sequence::of(slot), self.scratch, positions.from(), positions.to());
        let state = context.state(self.scratch);
        context.remove(self.scratch, 0);
        let mut bytes = state.map_err(KvError::Refused)?;
        // What does not parse here would not anywhere else: better said by the one who made it.
        canonicalise(&self.format, &mut bytes)?;
        parse(&self.format, positions, &bytes, Values::Unread)?;
        Ok(bytes)
    }

    /// Adds positions [from, to) to a slot that holds [0, from). On an error the slot and the free cells are as before.
    pub(crate) fn import(
        &self,
        context: &mut Context,
        slots: &mut Slots,
        slot: u16,
        positions: Positions,
        bytes: &[u8],
    ) -> Result<(), KvError> {
        let window_from = parse(&self.format, positions, bytes, Values::MustBeFinite)?;
        let (to, sequence) = (positions.to(), Sequence::of(slot));
        let taken = context.set_state(self.scratch, bytes);
        if taken.is_ok() {
            context.share(self.scratch, sequence, positions.from(), to);
        }
        // Also after a failure: llama.cpp may have taken one of two caches.
        context.remove(self.scratch, 0);
        taken.map_err(KvError::Refused)?;
        let has_last = window_from == to || context.last(sequence) == Some(to - 1);
        if !has_last || !self.format.can_hold(to, context.state_bytes(sequence)) {
            context.remove(sequence, positions.from());
            return Err(KvError::Refused("it holds other positions afterwards".to_owned()));
        }
        slots.imported(slot, to, window_from);
        Ok(())
    }
}
