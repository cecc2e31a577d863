//! The requests of this peer that run, by name: where plans, and a person's wishes, find them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idlewild_protocol::{PeerId, Plan, PlanRefusal, RequestId, Way};
use tokio::sync::{mpsc, oneshot};

/// Messages that may wait for one request. A plan that finds no room is lost, and made anew while it is still wanted.
const TOLD: usize = 8;

/// What a running request is told.
#[derive(Debug)]
pub enum Told {
    /// A coordinator's plan.
    Plan {
        /// Who made it.
        by: PeerId,
        /// What.
        plan: Box<Plan>,
    },
    /// What a person at this machine wants of it.
    Move {
        /// What.
        wish: Wish,
        /// Takes the answer, once its first step is followed or refused.
        reply: oneshot::Sender<Result<(), MoveRefused>>,
    },
}

/// A person's wish to have a request elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// Where.
    pub to: PeerId,
    /// How its context gets there.
    pub way: Way,
    /// Only to have the context there, for when it is needed.
    pub prepare_only: bool,
}

/// Why a person's wish is not followed. The request goes on as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MoveRefused {
    /// This peer does not run such a request.
    #[error(
        "no such request is running that was asked at this peer; `idlewild explain` shows the latest, and a request is moved \
         where it was asked"
    )]
    UnknownRequest,
    /// It has ended.
    #[error("the request has ended; there is nothing to move")]
    Ended,
    /// Nobody knows such a peer.
    #[error("no such peer is known here; `idlewild status` shows the peers")]
    UnknownPeer,
    /// The peer does not have the model.
    #[error("that peer does not have the request's model; add it there with `idlewild models import FILE.gguf`")]
    LacksModel,
    /// The peer takes no work.
    #[error("that peer takes no work now; `idlewild status` shows what each is doing")]
    TakesNoWork,
    /// It runs there.
    #[error("the request runs there already")]
    AlreadyThere,
    /// It has no worker at the moment.
    #[error("the request is being placed; try again in a moment")]
    BeingPlaced,
    /// Its first step is refused.
    #[error("the request cannot be moved now: {0}")]
    Refused(PlanRefusal),
}

type ByName = BTreeMap<RequestId, mpsc::Sender<Told>>;

/// All of them. Cheap to clone; all clones are one. Bounded by the requests that may be open.
#[derive(Debug, Clone, Default)]
pub struct OpenRequests {
    by_name: Arc<Mutex<ByName>>,
}

/// A request's entry. Dropping it takes the request off the list.
#[derive(Debug)]
pub(crate) struct Registration {
    requests: OpenRequests,
    request: RequestId,
}

impl OpenRequests {
    /// Whatever a panic left is still a list.
    fn by_name(&self) -> MutexGuard<'_, ByName> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a request on the list; what it is told comes out of the channel.
    pub(crate) fn register(&self, request: RequestId) -> (Registration, mpsc::Receiver<Told>) {
        let (told, receiver) = mpsc::channel(TOLD);
        self.by_name().insert(request, told);
        (Registration { requests: self.clone(), request }, receiver)
    }

    /// Whether it is on the list.
    pub fn has(&self, request: RequestId) -> bool {
        self.by_name().contains_key(&request)
    }

    /// Tells a request. Gives back what cannot be said: it has ended, never was, or has not listened for long.
    pub fn tell(&self, request: RequestId, told: Told) -> Result<(), Told> {
        let listener = self.by_name().get(&request).cloned();
        match listener {
            Some(listener) => listener.try_send(told).map_err(|error| match error {
                mpsc::error::TrySendError::Full(told) | mpsc::error::TrySendError::Closed(told) => told,
            }),
            None => Err(told),
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.requests.by_name().remove(&self.request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> Told {
        let (reply, _) = oneshot::channel();
        Told::Move { wish: Wish { to: PeerId([2; 32]), way: Way::Ids, prepare_only: true }, reply }
    }

    #[test]
    fn a_request_hears_what_is_said_to_it_until_it_is_gone() {
        let requests = OpenRequests::default();
        let (here, other) = (RequestId([1; 16]), RequestId([2; 16]));
        let (registration, mut heard) = requests.register(here);
        assert!(requests.tell(here, told()).is_ok());
        assert!(requests.tell(other, told()).is_err());
        assert!(matches!(heard.try_recv(), Ok(Told::Move { .. })));
        assert!(requests.has(here) && !requests.has(other));
        drop(registration);
        assert!(requests.tell(here, told()).is_err());
    }

    #[test]
    fn a_request_that_does_not_listen_fills_no_memory() {
        let requests = OpenRequests::default();
        let (_registration, _heard) = requests.register(RequestId([1; 16]));
        let taken = (0..100).filter(|_| requests.tell(RequestId([1; 16]), told()).is_ok()).count();
        assert_eq!(taken, TOLD);
    }
}
