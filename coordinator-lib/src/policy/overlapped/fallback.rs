//! FALLBACK: who begins anew if a peer leaves unannounced and nothing is prepared.
//!
//! For i: the f with the least P(f leaves with i) U_cold + (1 + lambda) c/p_f + w_f, and one of i's own household circuit or
//! Wi-Fi only if there is no other. The user waits for the prefill, hence the 1: lambda alone would take a peer that
//! prefills at a fifth of the speed over one with a second of queue.
//!
//! Ranked once for all i: the term that depends on i decides only between peers of i's site, and those come last.

use super::{Host, Site};
use crate::cost::{Prices, Rebuild};

/// A peer to fall back on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fallback<K> {
    /// The peer.
    pub peer: K,
    /// What it does then.
    pub rebuild: Rebuild,
    /// P(it leaves with the peer that it stands in for).
    pub leaves_together: f64,
    /// (1 + lambda) c/p_f + w_f, in seconds.
    pub cost_s: f64,
}

/// The three that matter for anybody: the best, the best but it, and the best that does not leave with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fallbacks<K> {
    best: Option<Ranked<K>>,
    second: Option<Ranked<K>>,
    elsewhere: Option<Ranked<K>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Ranked<K> {
    site: Option<Site>,
    fallback: Fallback<K>,
}

impl<K: Copy + PartialEq> Fallbacks<K> {
    /// Of `hosts`, for a context of `context_tokens`. Peers without measured rates are left out; of equals the first wins.
    pub fn rank<'a, 'h: 'a>(
        hosts: impl Iterator<Item = &'a Host<'h, K>> + Clone,
        context_tokens: f64,
        prices: &Prices,
    ) -> Self
    where
        K: 'h,
    {
        let ranked = hosts.filter_map(|host| Ranked::of(host, context_tokens, prices));
        let best = least(ranked.clone());
        let others = ranked.filter(|other| best.is_some_and(|best| best.fallback.peer != other.fallback.peer));
        let elsewhere =
            least(others.clone().filter(|other| best.is_some_and(|best| !Site::is_shared(best.site, other.site))));
        Self { best, second: least(others), elsewhere }
    }

    /// The fallback of the peer `id` at `site`; none where there is nobody else.
    pub fn of(&self, id: K, site: Option<Site>) -> Option<Fallback<K>> {
        let others =
            || [self.best, self.elsewhere, self.second].into_iter().flatten().filter(|r| r.fallback.peer != id);
        let apart = others().find(|ranked| !Site::is_shared(ranked.site, site));
        apart
            .or_else(|| others().next())
            .map(|ranked| Fallback { leaves_together: Site::together(site, ranked.site), ..ranked.fallback })
    }
}

impl<K: Copy> Ranked<K> {
    fn of(host: &Host<'_, K>, context_tokens: f64, prices: &Prices) -> Option<Self> {
        let wait_s = host.known_wait_s();
        if !host.rates.is_measured() {
            return None;
        }
        let rebuild = Rebuild { prefill_tps: host.rates.prefill_tps, decode_tps: host.rates.decode_tps, wait_s };
        let prefill_s = context_tokens / rebuild.prefill_tps;
        let cost_s = (1.0 + prices.second(host.utilisation)) * prefill_s + wait_s;
        Some(Self { site: host.site, fallback: Fallback { peer: host.id, rebuild, leaves_together: 0.0, cost_s } })
    }
}

fn least<K: Copy>(ranked: impl Iterator<Item = Ranked<K>>) -> Option<Ranked<K>> {
    ranked.reduce(|best, other| if other.fallback.cost_s < best.fallback.cost_s { other } else { best })
}
