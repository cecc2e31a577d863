//! How many connections the API holds, and which of them go first.
//!
//! Who has not shown the key yet is a stranger, whatever else it sent. Where all places are taken, the stranger that came
//! first makes room: so no number of silent connections keeps anybody out who has something to say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The places.
#[derive(Debug)]
pub(super) struct Room {
    places: usize,
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    count: usize,
    next: u64,
    /// By the order in which they came.
    strangers: BTreeMap<u64, CancellationToken>,
}

impl Room {
    pub(super) fn new(places: usize) -> Arc<Self> {
        Arc::new(Self { places, taken: Mutex::default(), freed: Notify::new() })
    }

    /// Waits for a place: where none is free a stranger loses its own, and where there are no strangers somebody must leave.
    pub(super) async fn enter(self: &Arc<Self>) -> Arc<Place> {
        loop {
            let freed = self.freed.notified();
            if let Some(place) = self.try_enter() {
                return place;
            }
            freed.await;
        }
    }

    fn try_enter(self: &Arc<Self>) -> Option<Arc<Place>> {
        let mut taken = self.taken();
        if taken.count >= self.places {
            let (_, first) = taken.strangers.pop_first()?;
            first.cancel();
        }
        let (number, lost) = (taken.next, CancellationToken::new());
        taken.next += 1;
        taken.count += 1;
        taken.strangers.insert(number, lost.clone());
        Some(Arc::new(Place { room: Arc::clone(self), number, lost }))
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's place; free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    room: Arc<Room>,
    number: u64,
    lost: CancellationToken,
}

impl Place {
    /// It has shown the key: it keeps its place.
    pub(super) fn is_known(&self) {
        self.room.taken().strangers.remove(&self.number);
    }

    /// Resolves when the place is wanted for another.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.room.taken();
        taken.count -= 1;
        taken.strangers.remove(&self.number);
        drop(taken);
        self.room.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_stranger_that_came_first_makes_room_and_who_is_known_stays() {
        let room = Room::new(3);
        let (known, first, second) = (room.enter().await, room.enter().await, room.enter().await);
        known.is_known();
        let third = room.enter().await;
        assert!(first.lost().now_or_never().is_some());
        assert!(known.lost().now_or_never().is_none() && second.lost().now_or_never().is_none());
        second.is_known();
        third.is_known();
        drop(first);
        assert!(room.enter().now_or_never().is_none(), "all who are here are known");
        drop(known);
        assert!(room.enter().now_or_never().is_some());
    }
}
