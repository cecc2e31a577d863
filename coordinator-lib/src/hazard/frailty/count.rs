//! Counting a session: what it says of its peer, and of the fleet.

use super::FrailtyParameters;
use super::bins::Stretch;
use super::fleet::{FleetHazard, Seen};
use super::peer::{Live, Peer};
use super::site::Burst;

/// Counts the live session of `peer`, which must be `live`, until `now_s`, and its departure then if it `departed`.
pub(super) fn count(
    peer: &mut Peer,
    live: &Live,
    until: Until,
    fleet: &mut FleetHazard,
    burst: Burst,
    parameters: &FrailtyParameters,
) {
    let factors = peer.factors(live.at_s, fleet.scale(), parameters);
    let signs = fleet.of_signs(live.surroundings.signs);
    let uncounted_s = live.uncounted_s(until.now_s);
    let mut last = None;
    live.start().walk(uncounted_s, |stretch| {
        let rate = fleet.unscaled_rate(&stretch, signs);
        // As it was expected then: the longer a peer stays, the less is expected of it.
        let theta = peer.theta(fleet.scale(), parameters);
        peer.expect(live.at_s + stretch.from_s, &stretch, rate, parameters);
        let all = rate * fleet.scale() * theta * factors.beside(&stretch) * burst.factor(stretch.from_s, parameters);
        if let Some((before, expected)) = last.replace((stretch, all * stretch.length_s)) {
            fleet.learn(&seen(live, before, expected, false), parameters);
        }
    });
    // A session that ends as it begins is a departure in no time.
    let (stretch, expected) = last.unwrap_or_else(|| (live.start().moment(), 0.0));
    fleet.learn(&seen(live, stretch, expected, until.departed), parameters);
    let until_s = live.at_s + uncounted_s;
    if until.departed {
        peer.depart(until_s, &stretch, parameters);
    }
    peer.live = Some(Live { at_s: until_s, age_s: live.age_s + uncounted_s, ..*live });
}

/// Up to when a session is counted, and whether the peer left then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Until {
    pub(super) now_s: f64,
    pub(super) departed: bool,
}

fn seen(live: &Live, stretch: Stretch, expected: f64, departed: bool) -> Seen {
    Seen {
        stretch,
        until_s: live.at_s + stretch.from_s + stretch.length_s,
        expected,
        departed,
        is_age_known: live.is_age_known,
        signs: live.surroundings.signs,
    }
}
