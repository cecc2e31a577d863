//! The address book: where members were, kept on disk so that a restarted peer finds them without discovery.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use idlewild_protocol::PeerId;
use serde::{Deserialize, Serialize};

use crate::address::Place;

/// Peers that are remembered.
const MAX_PEERS: usize = 256;

/// Places that are remembered of each.
pub(crate) const MAX_PLACES: usize = 8;

/// The most that a file may take: far above what this build writes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Where one peer was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    /// The last one first.
    places: Vec<Place>,
    /// Seconds since 1970 by our clock when it was last let in.
    seen_s: u64,
}

/// Where members were.
#[derive(Debug, Default)]
pub(crate) struct Book {
    path: Option<PathBuf>,
    peers: BTreeMap<PeerId, Entry>,
    changed: bool,
}

impl Book {
    /// Reads the book; one that is missing or damaged is an empty one, since it holds hints only.
    pub(crate) fn open(path: Option<PathBuf>) -> Self {
        let peers = path.as_deref().map_or_else(BTreeMap::new, |path| match read(path) {
            Ok(peers) => peers,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "address book is not readable; starting an empty one");
                BTreeMap::new()
            }
        });
        Self { path, peers, changed: false }
    }

    /// All that is known.
    pub(crate) fn places(&self) -> impl Iterator<Item = (PeerId, &[Place])> {
        self.peers.iter().map(|(peer, entry)| (*peer, entry.places.as_slice()))
    }

    /// A member was let in; `place` is where it can be dialled, if that is known.
    pub(crate) fn seen(&mut self, peer: PeerId, place: Option<Place>, now_s: u64) {
        let entry = self.peers.entry(peer).or_insert_with(|| Entry { places: Vec::new(), seen_s: 0 });
        entry.seen_s = now_s;
        if let Some(place) = place
            && entry.places.first() != Some(&place)
        {
            entry.places.retain(|known| *known != place);
            entry.places.insert(0, place);
            entry.places.truncate(MAX_PLACES);
            self.changed = true;
        }
        if self.peers.len() > MAX_PEERS
            && let Some(oldest) = self.peers.iter().min_by_key(|(_, entry)| entry.seen_s).map(|(peer, _)| *peer)
        {
            self.peers.remove(&oldest);
            self.changed = true;
        }
    }

    /// What is to be written, once for each change.
    pub(crate) fn take_changes(&mut self) -> Option<Changes> {
        let path = self.path.clone()?;
        core::mem::take(&mut self.changed).then_some(())?;
        let json = serde_json::to_vec_pretty(&self.peers).ok()?;
        Some(Changes { path, json })
    }
}

/// A book to be written. Blocks: not for the event loop.
#[derive(Debug)]
pub(crate) struct Changes {
    path: PathBuf,
    json: Vec<u8>,
}

impl Changes {
    /// Writes it beside the old one and puts it in its place, so that no crash leaves half a book.
    pub(crate) fn write(&self) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let beside = self.path.with_extension("new");
        std::fs::write(&beside, &self.json)?;
        std::fs::rename(&beside, &self.path)
    }
}

fn read(path: &Path) -> io::Result<BTreeMap<PeerId, Entry>> {
    let about = std::fs::metadata(path)?;
    // A FIFO would keep the reader waiting.
    if !about.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    if about.len() > MAX_FILE_BYTES {
        return Err(io::Error::other("file is too large"));
    }
    let mut peers: BTreeMap<PeerId, Entry> = serde_json::from_slice(&std::fs::read(path)?).map_err(io::Error::other)?;
    for entry in peers.values_mut() {
        entry.places.truncate(MAX_PLACES);
    }
    Ok(peers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(n: u16) -> Place {
        Place(std::net::SocketAddr::from(([10, 0, 0, 2], n)))
    }

    #[test]
    fn a_book_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state").join("peers.json");
        let peer = crate::Identity::from_seed([1; 32]).peer_id();
        let mut book = Book::open(Some(path.clone()));
        book.seen(peer, Some(place(1)), 10);
        book.seen(peer, Some(place(2)), 11);
        book.take_changes().unwrap().write().unwrap();
        assert!(book.take_changes().is_none(), "written once");

        let again = Book::open(Some(path));
        let known: Vec<_> = again.places().map(|(peer, places)| (peer, places.to_vec())).collect();
        assert_eq!(known, [(peer, vec![place(2), place(1)])]);
    }

    #[test]
    fn a_damaged_book_is_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers.json");
        for content in ["", "{", "[1]", r#"{"12D3KooW": {}}"#] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(Book::open(Some(path.clone())).places().count(), 0, "{content}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_fifo_in_place_of_the_book_is_an_empty_one_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(Book::open(Some(path)).places().count(), 0);
    }

    #[test]
    fn a_book_is_bounded_and_forgets_who_was_away_longest() {
        let mut book = Book::default();
        for n in 0..1_000_u32 {
            let mut id = [0; 32];
            id[..4].copy_from_slice(&n.to_le_bytes());
            for port in 0..20 {
                book.seen(PeerId(id), Some(place(port)), n.into());
            }
        }
        assert_eq!(book.peers.len(), MAX_PEERS);
        assert!(book.peers.values().all(|entry| entry.places.len() == MAX_PLACES && entry.seen_s >= 744));
    }
}
