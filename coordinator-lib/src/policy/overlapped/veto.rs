//! VETO: peers that are no destination, whatever they would save.

use super::OverlapLimits;

/// Why a peer is no destination for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Veto {
    /// There is no way to it.
    NoPath,
    /// Its rates were never measured.
    NotMeasured,
    /// Its KV memory is too short for what the request may come to.
    NoRoom,
    /// Neither prefill nor link keeps up with the source.
    CannotKeepUp,
    /// Others wait there.
    Queued,
    /// It has too little time left over.
    TooBusy,
    /// The request has made as many planned moves as it may.
    HopsSpent,
    /// The request will probably be done before it could be ready.
    FinishesFirst,
}

impl Veto {
    /// Whether it makes what was prepared useless, and not only not worth a move just now.
    pub fn is_final(self) -> bool {
        match self {
            Self::NoPath | Self::NotMeasured | Self::NoRoom | Self::CannotKeepUp => true,
            Self::Queued | Self::TooBusy | Self::HopsSpent | Self::FinishesFirst => false,
        }
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
