//! Which peers could take a request, and why the others cannot.

use core::time::Duration;

use idlewild_protocol::{Digest, ModelId, ModelLoad, PeerId, PeerState, PlaceRequest, Unfit};

use crate::Now;
use crate::cost::{Residual, Work};
use crate::view::{PeerView, View};

/// A peer that we know by gossip only counts as reachable for other origins while its digest is no older: anti-entropy
/// brings one every few seconds.
const GOSSIP_FRESH: Duration = Duration::from_secs(15);

/// One question, and who answers it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) now: Now,
    pub(super) view: &'a View,
    pub(super) origin: PeerId,
    pub(super) model: ModelId,
    /// The request as it would begin where it is placed.
    pub(super) work: Work,
    /// R: tokens still to come.
    pub(super) residual: Residual,
    /// Who holds how many tokens of its context.
    pub(super) held: Option<(PeerId, u32)>,
    /// Peers that it may not run on.
    pub(super) excluded: &'a [PeerId],
}

/// How much room a peer must have. Tried in this order until somebody has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// Free now, for the prompt and all the output that is expected.
    Free,
    /// For the same, once what runs there has ended.
    InTime,
    /// For what there is and one token: the answer may end with the context, which beats no answer.
    Scant,
}

impl Room {
    pub(super) const IN_ORDER: [Self; 3] = [Self::Free, Self::InTime, Self::Scant];

    /// Whether a peer with this `model`, `reserved_tokens` of whose room are spoken for, has it.
    pub(super) fn is_in(self, model: &ModelLoad, reserved_tokens: u32, work: &Work) -> bool {
        let needed = work.needed_tokens();
        let context = i64::from(model.context_tokens);
        match self {
            Self::Free if model.loaded => {
                let free = model.kv_free_tokens.saturating_sub(reserved_tokens);
                needed <= context && needed <= i64::from(free)
            }
            Self::Free | Self::InTime => needed <= context,
            Self::Scant => i64::from(work.context_tokens) < context,
        }
    }
}

impl<'a> Question<'a> {
    /// What `origin` asks: the request as it would begin anywhere, with all of its context to prefill.
    pub(super) fn of(now: Now, view: &'a View, origin: PeerId, request: &'a PlaceRequest) -> Self {
        let work = Work::orphaned(request.prompt_tokens, request.expected_output_tokens, request.done_tokens);
        let residual = Residual::exactly(work.remaining_tokens());
        Self { now, view, origin, model: request.model, work, residual, held: None, excluded: &request.excluded }
    }

    /// The peer's digest and what it says of the model, or why the peer cannot take the request whatever room it has. What
    /// will not change is said before what may.
    pub(super) fn model_on(&self, peer: PeerId, view: &'a PeerView) -> Result<(&'a Digest, &'a ModelLoad), Unfit> {
        let Some(digest) = &view.digest else { return Err(Unfit::Unreachable) };
        let Some(model) = digest.models.iter().find(|m| m.model == self.model) else {
            return Err(Unfit::NoModel);
        };
        self.check(peer, view, digest, model)?;
        Ok((digest, model))
    }

    /// The same where it is known what its `digest` says of the model.
    pub(super) fn check(&self, peer: PeerId, view: &PeerView, digest: &Digest, model: &ModelLoad) -> Result<(), Unfit> {
        if !Room::Scant.is_in(model, 0, &self.work) {
            return Err(Unfit::ContextTooLong { context_tokens: model.context_tokens });
        }
        if self.excluded.contains(&peer) {
            return Err(Unfit::JustFailed);
        }
        match digest.state {
            PeerState::Busy => Err(Unfit::OwnerPresent),
            PeerState::Leaving { .. } => Err(Unfit::Leaving),
            PeerState::Serving if !self.is_reachable(peer, view) => Err(Unfit::Unreachable),
            PeerState::Serving => Ok(()),
        }
    }

    /// As far as we can tell: an origin reaches itself, and what we reach; of others it knows better itself.
    fn is_reachable(&self, peer: PeerId, view: &PeerView) -> bool {
        let is_fresh = self.now.saturating_sub(view.heard_at) <= GOSSIP_FRESH;
        peer == self.origin || view.is_connected() || (self.origin != self.view.me() && is_fresh)
    }
}
