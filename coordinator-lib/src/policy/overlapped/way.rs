//! In which way a destination gets the context from where it stands.

use super::notice::decoding_stall_s;
use super::weigh::Weighing;
use super::{Host, Leaving};
use crate::cost::{Overheads, Preparation, Route, Stakes, preparation, preparation_by, preparation_worth_most};

/// How the way of a new preparation is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WayChoice {
    /// By phi: by rates alone, the simplest way that is nearly as soon ready as the soonest.
    #[default]
    ByPhi,
    /// By worth: the way that saves the most expected stall after its work and bytes; under a notice, the one with the
    /// least stall.
    ByWorth,
}

/// What a preparation takes from where it stands. One that runs goes on in its way and has begun already.
pub(super) fn from_here<K: Copy + PartialEq>(
    weighing: &Weighing<'_, K>,
    host: &Host<'_, K>,
    route: &Route,
) -> Option<Preparation> {
    let begun = weighing.standby_at(host.id).filter(|standby| !standby.is_paused);
    let goes_on = begun.and_then(|standby| {
        let begun = Overheads { recompute_s: 0.0, transfer_s: 0.0, ..weighing.parameters.overheads };
        preparation_by(standby.way, route, &begun)
    });
    goes_on.or_else(|| anew(weighing, host, route))
}

/// What begins later is ready later: a model has to be loaded first. What waits behind others is no destination (VETO).
fn begun_later(overheads: &Overheads, load_s: f64) -> Overheads {
    let Overheads { recompute_s, transfer_s, .. } = *overheads;
    Overheads { recompute_s: recompute_s + load_s, transfer_s: transfer_s + load_s, ..*overheads }
}

fn anew<K: Copy + PartialEq>(weighing: &Weighing<'_, K>, host: &Host<'_, K>, route: &Route) -> Option<Preparation> {
    let load_s = if host.queued == 0 { host.known_wait_s() } else { 0.0 };
    let overheads = &begun_later(&weighing.parameters.overheads, load_s);
    match (weighing.parameters.way_choice, weighing.request.leaving) {
        (WayChoice::ByPhi, _) => preparation(route, overheads),
        (WayChoice::ByWorth, Leaving::Unannounced) => {
            let stakes = Stakes {
                remainder: &weighing.remainder,
                departures: &weighing.departures,
                cold: weighing.cold(),
                fixed: weighing.fixed(),
                outlasts: weighing.outlasts(host),
                utilisation: host.utilisation,
                prices: &weighing.parameters.prices,
            };
            preparation_worth_most(route, overheads, |preparation| stakes.worth_s(route, preparation))
        }
        (WayChoice::ByWorth, Leaving::Announced { notice_ms, .. }) => {
            let notice_s = f64::from(notice_ms) / 1000.0;
            preparation_worth_most(route, overheads, |preparation| {
                -decoding_stall_s(route, preparation, notice_s, overheads)
            })
        }
    }
}
