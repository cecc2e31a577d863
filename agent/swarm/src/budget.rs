//! How many bytes probes may take: a probe competes with people's calls and downloads.

use core::time::Duration;
use std::collections::BTreeMap;
use std::time::Instant;

use idlewild_protocol::PeerId;

/// Bytes a day that this peer spends on probing others, all of them and both directions together: a dozen full probes.
const ASKED_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes a day that one other may make this peer spend: all of its own day's, since it chooses whom it probes.
const SERVED_BYTES: u64 = ASKED_BYTES;

const DAY: Duration = Duration::from_hours(24);

/// Peers that are accounted for. Beyond it, the oldest account is closed.
const MAX_ACCOUNTS: usize = 512;

/// Who asked for a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asker {
    /// This peer.
    Us,
    /// The other.
    Them,
}

#[derive(Debug, Clone, Copy)]
struct Account {
    since: Instant,
    spent: u64,
}

/// What was spent: by us, and by each that asked us. Pure: time is an argument.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    ours: Option<Account>,
    theirs: BTreeMap<PeerId, Account>,
}

impl Account {
    /// Takes `bytes` from the day's `limit`; no, and nothing is taken, if that much is not left.
    fn spend(&mut self, bytes: u64, limit: u64, now: Instant) -> bool {
        if now >= self.since + DAY {
            *self = Self { since: now, spent: 0 };
        }
        let fits = self.spent + bytes <= limit;
        if fits {
            self.spent += bytes;
        }
        fits
    }
}

impl Budget {
    /// Whether `bytes` of a probe of or by `peer` are still to be had today; they are then spent.
    pub(crate) fn spend(&mut self, peer: PeerId, asker: Asker, bytes: u64, now: Instant) -> bool {
        let fresh = Account { since: now, spent: 0 };
        match asker {
            Asker::Us => self.ours.get_or_insert(fresh).spend(bytes, ASKED_BYTES, now),
            Asker::Them => {
                let fits = self.theirs.entry(peer).or_insert(fresh).spend(bytes, SERVED_BYTES, now);
                self.close_oldest();
                fits
            }
        }
    }

    fn close_oldest(&mut self) {
        if self.theirs.len() > MAX_ACCOUNTS
            && let Some(oldest) = self.theirs.iter().min_by_key(|(_, account)| account.since).map(|(peer, _)| *peer)
        {
            self.theirs.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_so_many_bytes_for_all_that_we_probe_and_for_each_that_probes_us() {
        let (mut budget, now) = (Budget::default(), Instant::now());
        let (one, other) = (PeerId([1; 32]), PeerId([2; 32]));
        assert!(budget.spend(one, Asker::Us, ASKED_BYTES, now));
        assert!(!budget.spend(one, Asker::Us, 1, now + DAY / 2));
        assert!(!budget.spend(other, Asker::Us, 1, now));
        assert!(budget.spend(one, Asker::Them, SERVED_BYTES, now));
        assert!(!budget.spend(one, Asker::Them, 1, now));
        assert!(budget.spend(other, Asker::Them, 1, now));
        assert!(budget.spend(one, Asker::Us, 1, now + DAY));
    }
}
