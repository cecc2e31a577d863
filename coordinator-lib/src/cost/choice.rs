//! Which way to prepare: by phi, the link's speed in units of the destination's prefill.

use super::preparation::{Overheads, Preparation, Route, Way, hybrid, ids_only, pre_copy};

/// Below it KV hardly helps: ids only.
pub const PHI_IDS_ONLY_BELOW: f64 = 0.5;

/// Above it prefill hardly helps: KV only.
pub const PHI_PRE_COPY_ABOVE: f64 = 4.0;

/// phi = b/p_j: how many tokens of KV arrive in the time that one is prefilled.
pub fn phi(route: &Route) -> f64 {
    route.kv_tps / route.prefill_tps
}

/// The way that phi says.
pub fn way_by_phi(phi: f64) -> Way {
    if phi > PHI_PRE_COPY_ABOVE {
        Way::PreCopy
    } else if phi >= PHI_IDS_ONLY_BELOW {
        Way::Hybrid
    } else {
        Way::Ids
    }
}

/// What the way that phi says takes; where it cannot keep up with the source, what the hybrid takes. None where that
/// cannot either: there is nothing to prepare with.
pub fn preparation(route: &Route, overheads: &Overheads) -> Option<Preparation> {
    let by_phi = match way_by_phi(phi(route)) {
        Way::Ids => ids_only(route, overheads),
        Way::PreCopy => pre_copy(route, overheads),
        Way::Hybrid | Way::StoppedSplit => None,
    };
    by_phi.or_else(|| hybrid(route, overheads))
}

/// What one way takes from here on; none where it cannot keep up with the source.
pub fn preparation_by(way: Way, route: &Route, overheads: &Overheads) -> Option<Preparation> {
    match way {
        Way::Ids => ids_only(route, overheads),
        Way::PreCopy => pre_copy(route, overheads),
        Way::Hybrid => hybrid(route, overheads),
        Way::StoppedSplit => Some(super::preparation::stopped_split(route, overheads)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 tokens from a source at 10 tokens a second to a destination that prefills 100.
    fn way(kv_tps: f64, decode_tps: f64) -> Option<Way> {
        let route = Route {
            context_tokens: 1000.0,
            decode_tps,
            prefill_tps: 100.0,
            kv_tps,
            kv_bytes_per_token: 1e4,
            round_trip_s: 0.01,
        };
        preparation(&route, &Overheads::default()).map(|preparation| preparation.way)
    }

    #[test]
    fn the_faster_the_link_the_more_of_the_context_travels_as_kv() {
        for (kv_tps, expected) in
            [(0.0, Way::Ids), (49.0, Way::Ids), (50.0, Way::Hybrid), (400.0, Way::Hybrid), (401.0, Way::PreCopy)]
        {
            assert_eq!(way(kv_tps, 10.0), Some(expected), "{kv_tps}");
        }
    }

    #[test]
    fn a_source_that_outruns_the_prefill_is_followed_by_both_or_not_at_all() {
        assert_eq!(way(0.0, 120.0), None);
        assert_eq!(way(40.0, 120.0), Some(Way::Hybrid));
        assert_eq!(way(10.0, 120.0), None);
    }
}
