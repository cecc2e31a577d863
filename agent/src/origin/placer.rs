//! Where origins ask for a worker. The driver answers: it knows the coordinator and the view.

use idlewild_protocol::{PeerId, PlaceReply, PlaceRequest};
use tokio::sync::mpsc;

/// Questions that may wait for the driver, which answers in microseconds.
const QUESTIONS: usize = 64;

/// A question about one request.
#[derive(Debug)]
pub struct PlacementAsk {
    /// The question.
    pub request: PlaceRequest,
    /// To our own coordinator with our own view, whoever leads.
    pub alone: bool,
    /// Takes the answer; it may never come.
    pub reply: mpsc::Sender<Answer>,
}

/// An answer, and who gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The coordinator, or this peer.
    pub by: PeerId,
    /// What it says.
    pub reply: PlaceReply,
}

/// Asks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Placer {
    asks: mpsc::Sender<PlacementAsk>,
}

impl Placer {
    /// A handle, and what it asks.
    pub fn channel() -> (Self, mpsc::Receiver<PlacementAsk>) {
        let (asks, receiver) = mpsc::channel(QUESTIONS);
        (Self { asks }, receiver)
    }

    /// Asks; the answer comes to `reply`. A question that finds the queue full is lost, and asked again by the
    /// request's own deadline.
    pub(super) fn ask(&self, request: PlaceRequest, alone: bool, reply: mpsc::Sender<Answer>) {
        self.asks.try_send(PlacementAsk { request, alone, reply }).ok();
    }
}
