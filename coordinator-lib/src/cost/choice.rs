//! Which way to prepare: by phi, the link's speed in units of the destination's prefill; or by what each is worth.

use super::Overheads;
use super::preparation::{Preparation, Route, Way, hybrid, ids_only, pre_copy};

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

/// What the way takes that is worth most among those that keep up with the source; of equals, the first of ids, hybrid and
/// pre-copy. A worth that is no number is none.
pub fn preparation_worth_most(
    route: &Route,
    overheads: &Overheads,
    worth_s: impl Fn(&Preparation) -> f64,
) -> Option<Preparation> {
    let able = [ids_only, hybrid, pre_copy].into_iter().filter_map(|way| way(route, overheads));
    let weighed = able.map(|preparation| (worth_s(&preparation), preparation));
    let most = weighed.reduce(|most, other| if other.0 > most.0 || most.0.is_nan() { other } else { most });
    most.map(|(_, preparation)| preparation)
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
    fn route(kv_tps: f64, decode_tps: f64) -> Route {
        Route {
            context_tokens: 1000.0,
            decode_tps,
            prefill_tps: 100.0,
            kv_tps,
            kv_bytes_per_token: 1e4,
            round_trip_s: 0.01,
            round_s: 0.05,
        }
    }

    fn way(kv_tps: f64, decode_tps: f64) -> Option<Way> {
        preparation(&route(kv_tps, decode_tps), &Overheads::default()).map(|preparation| preparation.way)
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
    fn the_way_that_is_worth_most_is_taken_and_the_first_of_equals() {
        let way_by = |kv_tps, worth_s: fn(&Preparation) -> f64| {
            preparation_worth_most(&route(kv_tps, 10.0), &Overheads::default(), worth_s)
                .map(|preparation| preparation.way)
        };
        for (name, kv_tps, worth_s, expected) in [
            ("the soonest", 200.0, (|p| -p.ready_s) as fn(&Preparation) -> f64, Way::Hybrid),
            ("the fewest bytes", 200.0, |p| -p.bytes, Way::Ids),
            ("the least work", 200.0, |p| -p.destination_work_s, Way::PreCopy),
            ("equals", 200.0, |_| 1.0, Way::Ids),
            ("no numbers", 200.0, |p| if p.way == Way::Ids { f64::NAN } else { -1.0 }, Way::Hybrid),
            ("the only one", 0.0, |p| -p.destination_work_s, Way::Ids),
        ] {
            assert_eq!(way_by(kv_tps, worth_s), Some(expected), "{name}");
        }
        assert_eq!(preparation_worth_most(&route(0.0, 120.0), &Overheads::default(), |_| 1.0), None);
    }

    #[test]
    fn a_source_that_outruns_the_prefill_is_followed_by_both_or_not_at_all() {
        assert_eq!(way(0.0, 120.0), None);
        assert_eq!(way(40.0, 120.0), Some(Way::Hybrid));
        assert_eq!(way(10.0, 120.0), None);
    }
}
