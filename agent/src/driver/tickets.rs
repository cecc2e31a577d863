//! Trades tickets for certificates: single use, kept in the database.

use idlewild_protocol::{CertificateChain, PeerId, Refusal, TicketId, TicketSecret};
use idlewild_swarm::TicketDesk;
use tracing::{error, info};

use crate::store::{IdentitySeed, Store, StoredMembership, unix_s};

/// The desk at which newcomers knock. The swarm calls it on a thread that may block.
pub(super) struct Tickets {
    pub(super) store: Store,
    pub(super) membership: StoredMembership,
    pub(super) seed: IdentitySeed,
}

impl TicketDesk for Tickets {
    fn redeem(
        &self,
        ticket: TicketId,
        newcomer: PeerId,
        proves: &dyn Fn(&TicketSecret) -> bool,
    ) -> Result<CertificateChain, Refusal> {
        let now_s = unix_s();
        self.store.redeem_ticket(ticket, newcomer, now_s, proves)?;
        match self.membership.issue(&self.seed, newcomer, now_s) {
            Ok(chain) => {
                info!(peer = %newcomer.short(), "joined with a ticket");
                Ok(chain)
            }
            Err(error) => {
                error!(%error, "a ticket was taken and no certificate could be issued for it");
                Err(Refusal::Busy)
            }
        }
    }
}
