//! How many bytes probes may take: a probe competes with people's calls and downloads.

use core::time::Duration;
use std::collections::BTreeMap;
use std::time::Instant;

use idlewild_protocol::PeerId;

/// Bytes a day that this peer spends on probing one other, both directions together: a few dozen full probes.
const ASKED_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes a day that another may make this peer spend.
const SERVED_BYTES: u64 = 2 * ASKED_BYTES;

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

/// What was spent, by peer and by who asked. Pure: time is an argument.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    accounts: BTreeMap<(PeerId, Asker), Account>,
}

impl Budget {
    /// Takes `bytes` from the day's budget; no, and nothing is taken, if that much is not left.
    pub(crate) fn spend(&mut self, peer: PeerId, asker: Asker, bytes: u64, now: Instant) -> bool {
        let limit = match asker {
            Asker::Us => ASKED_BYTES,
            Asker::Them => SERVED_BYTES,
        };
        let account = self.accounts.entry((peer, asker)).or_insert(Account { since: now, spent: 0 });
        if now >= account.since + DAY {
            *account = Account { since: now, spent: 0 };
        }
        let fits = account.spent + bytes <= limit;
        if fits {
            account.spent += bytes;
        }
        if self.accounts.len() > MAX_ACCOUNTS
            && let Some(oldest) = self.accounts.iter().min_by_key(|(_, account)| account.since).map(|(key, _)| *key)
        {
            self.accounts.remove(&oldest);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_so_many_bytes_for_each_pair_and_direction() {
        let (mut budget, now) = (Budget::default(), Instant::now());
        let (one, other) = (PeerId([1; 32]), PeerId([2; 32]));
        assert!(budget.spend(one, Asker::Us, ASKED_BYTES, now));
        assert!(!budget.spend(one, Asker::Us, 1, now + DAY / 2));
        assert!(budget.spend(other, Asker::Us, 1, now));
        assert!(budget.spend(one, Asker::Them, 1, now));
        assert!(budget.spend(one, Asker::Us, 1, now + DAY));
    }
}
