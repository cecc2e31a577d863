//! Commands from the handles on their way to the child.

use super::super::link::Link;
use super::Supervisor;
use crate::handle::{SequenceCommand, Told};
use crate::messages::EngineCommand;

impl Supervisor {
    /// Not while jobs wait for the model to be loaded: their commands would come before them.
    pub(super) fn takes_commands(&self) -> bool {
        let has_room = self.ledger.has_room() && self.link.as_ref().is_none_or(Link::has_room);
        has_room && self.queued.is_empty()
    }

    /// Passes a command on. To a sequence that is no more it means nothing; an export's reply is dropped with it.
    pub(super) fn tell(&mut self, Told { id, what, places }: Told) {
        // Others of the same sequence may wait in them now.
        drop(places);
        if self.loaded.is_none() || !self.streams.is_open(id) {
            return;
        }
        if let Some(command) = self.ledger.enter(what) {
            if matches!(command, SequenceCommand::GetReady | SequenceCommand::TakeOver { .. }) {
                self.streams.promote(id);
            }
            self.send(EngineCommand::Sequence { id, command });
        }
    }
}
