//! VETO: peers that are no destination, whatever they would save.

pub use idlewild_protocol::Veto;

use super::OverlapLimits;

/// Whether it makes what was prepared useless, and not only not worth a move just now.
pub(super) fn is_final(veto: Veto) -> bool {
    match veto {
        Veto::NoPath | Veto::NotMeasured | Veto::NoRoom | Veto::CannotKeepUp => true,
        Veto::Queued | Veto::TooBusy | Veto::HopsSpent | Veto::FinishesFirst => false,
    }
}

/// What the vetoes look at beside the peer's ability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scruples {
    /// Requests that wait at the destination.
    pub(super) queued: u32,
    /// u of the destination.
    pub(super) utilisation: f64,
    /// Planned moves so far.
    pub(super) hops: u32,
    /// Seconds until the request is done if it is a short one: its 0.3 quantile.
    pub(super) soon_done_s: f64,
    /// W.
    pub(super) ready_s: f64,
}

impl Scruples {
    /// The first veto that applies.
    pub(super) fn veto(&self, limits: &OverlapLimits) -> Option<Veto> {
        let is_free = self.utilisation <= limits.utilisation_max;
        if self.hops >= limits.max_hops {
            Some(Veto::HopsSpent)
        } else if self.soon_done_s < self.ready_s + limits.finish_margin_s {
            Some(Veto::FinishesFirst)
        } else if self.queued > 0 {
            Some(Veto::Queued)
        } else {
            // What is not known to be free is busy.
            (!is_free).then_some(Veto::TooBusy)
        }
    }
}
