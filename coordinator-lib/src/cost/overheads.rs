//! What moves and losses take beside their tokens: as assumed, and as the peers of a swarm have measured it.
//!
//! Each peer measures its own requests' and says so in its digest. A figure of the swarm is the median over those who say
//! one, a vote each however much they have measured, and never far from what is assumed: a peer that lies moves it no
//! further than honest ones do, and one that lies alone to the limit at most.

use idlewild_protocol::{FEED_TOKENS, MoveTimes, QuantisedTime};

/// How many times longer, or shorter, than assumed a figure may be whatever is said.
const PLAUSIBLE: f64 = 20.0;

/// What a preparation costs beside its tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overheads {
    /// O_h: seconds of a hand-off: stop, last ids, first step.
    pub hand_off_s: f64,
    /// O_r: seconds before the first prefill begins.
    pub recompute_s: f64,
    /// O_t: seconds before the first KV arrives.
    pub transfer_s: f64,
    /// D: seconds until a silent departure is noticed.
    pub detection_s: f64,
    /// n_blk: tokens of KV that travel together: what is not there yet when the source stops.
    pub block_tokens: f64,
    /// Seconds between two looks at a preparation.
    pub tick_s: f64,
    /// Tokens of lag below which a destination keeps up, however slow the source.
    pub lag_tokens: f64,
}

impl Default for Overheads {
    fn default() -> Self {
        Self::ASSUMED
    }
}

impl Overheads {
    /// What a home network and a small model are assumed to take; a live swarm measures its own. n_blk is the protocol's.
    pub const ASSUMED: Self = Self {
        hand_off_s: 0.1,
        recompute_s: 0.2,
        transfer_s: 0.05,
        detection_s: 1.0,
        block_tokens: FEED_TOKENS as f64,
        tick_s: 1.0,
        lag_tokens: 20.0,
    };

    /// Tokens of lag behind a source at `decode_tps` up to which a destination keeps up: max(20, d_i tick).
    pub fn lag_limit_tokens(&self, decode_tps: f64) -> f64 {
        self.lag_tokens.max(decode_tps * self.tick_s)
    }

    /// These, with what peers agree on in their place.
    #[must_use]
    pub fn as_agreed(&self, agreed: &AgreedTimes) -> Self {
        Self {
            hand_off_s: agreed.hand_off_s.unwrap_or(self.hand_off_s),
            recompute_s: agreed.recompute_s.unwrap_or(self.recompute_s),
            transfer_s: agreed.transfer_s.unwrap_or(self.transfer_s),
            detection_s: agreed.detection_s.unwrap_or(self.detection_s),
            ..*self
        }
    }
}

/// Seconds that peers agree on; none of a figure that none of them has measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AgreedTimes {
    /// O_h.
    pub hand_off_s: Option<f64>,
    /// O_r.
    pub recompute_s: Option<f64>,
    /// O_t.
    pub transfer_s: Option<f64>,
    /// D.
    pub detection_s: Option<f64>,
}

impl AgreedTimes {
    /// Of what each of some peers says, as long as it is not far from what is assumed.
    pub fn of(said: impl Iterator<Item = MoveTimes>, assumed: &Overheads) -> Self {
        let said: Vec<MoveTimes> = said.filter(|times| *times != MoveTimes::default()).collect();
        let agreed = |figure: fn(&MoveTimes) -> QuantisedTime, assumed_s| median_s(said.iter().map(figure), assumed_s);
        Self {
            hand_off_s: agreed(|times| times.hand_off, assumed.hand_off_s),
            recompute_s: agreed(|times| times.prefill_start, assumed.recompute_s),
            transfer_s: agreed(|times| times.transfer_start, assumed.transfer_s),
            detection_s: agreed(|times| times.detection, assumed.detection_s),
        }
    }
}

/// The median within what is plausible; of the two in the middle the one that is nearer to what is assumed.
fn median_s(said: impl Iterator<Item = QuantisedTime>, assumed_s: f64) -> Option<f64> {
    let mut measured: Vec<QuantisedTime> = said.filter(|time| time.seconds().is_some()).collect();
    measured.sort_unstable();
    let low = *measured.get(measured.len().checked_sub(1)? / 2)?;
    let high = *measured.get(measured.len() / 2)?;
    let assumed = QuantisedTime::of(assumed_s);
    let nearer = if high.0.abs_diff(assumed.0) < low.0.abs_diff(assumed.0) { high } else { low };
    Some(nearer.seconds()?.clamp(assumed_s / PLAUSIBLE, assumed_s * PLAUSIBLE))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn saying(hand_off_s: f64) -> MoveTimes {
        MoveTimes { hand_off: QuantisedTime::of(hand_off_s), ..MoveTimes::default() }
    }

    /// O_h as these peers have it.
    fn agreed_s(said: &[MoveTimes]) -> f64 {
        let assumed = Overheads::ASSUMED;
        assumed.as_agreed(&AgreedTimes::of(said.iter().copied(), &assumed)).hand_off_s
    }

    fn is_near(seconds: f64, expected_s: f64) -> bool {
        (seconds / expected_s - 1.0).abs() < 0.03
    }

    #[test]
    fn what_peers_have_measured_replaces_what_is_assumed_and_silence_does_not() {
        let (silent, assumed) = (MoveTimes::default(), Overheads::ASSUMED);
        assert_eq!(agreed_s(&[]), assumed.hand_off_s);
        assert_eq!(agreed_s(&[silent, silent]), assumed.hand_off_s);
        assert!(is_near(agreed_s(&[silent, saying(0.03), silent]), 0.03));
        assert!(is_near(agreed_s(&[saying(0.03), saying(0.3), saying(0.04)]), 0.04));
        let all = MoveTimes {
            hand_off: QuantisedTime::of(0.2),
            transfer_start: QuantisedTime::of(0.3),
            prefill_start: QuantisedTime::of(0.4),
            detection: QuantisedTime::of(1.5),
        };
        let measured = assumed.as_agreed(&AgreedTimes::of([all].into_iter(), &assumed));
        let figures = [measured.hand_off_s, measured.transfer_s, measured.recompute_s, measured.detection_s];
        assert!(figures.iter().zip([0.2, 0.3, 0.4, 1.5]).all(|(is, must)| is_near(*is, must)), "{measured:?}");
        assert_eq!(measured.block_tokens, assumed.block_tokens);
    }

    #[test]
    fn a_liar_is_outvoted_and_one_that_is_alone_is_not_believed_everything() {
        assert!(is_near(agreed_s(&[saying(60.0), saying(0.05)]), 0.05), "of two the likelier one");
        assert!(is_near(agreed_s(&[saying(0.05), saying(0.001), saying(0.06), saying(60.0)]), 0.06));
        assert_eq!(agreed_s(&[saying(60.0)]), 0.1 * PLAUSIBLE);
        assert_eq!(agreed_s(&[saying(0.001)]), 0.1 / PLAUSIBLE);
    }

    proptest! {
        #[test]
        fn while_most_are_honest_it_is_within_what_they_say(
            honest in prop::collection::vec(0.01..1.0_f64, 1..8), lies in prop::collection::vec(any::<u8>(), 0..8),
        ) {
            let lies = lies.into_iter().take(honest.len() - 1);
            let said = honest.iter().copied().map(saying);
            let lying = lies.map(|code| MoveTimes { hand_off: QuantisedTime(code), ..MoveTimes::default() });
            let seconds = agreed_s(&said.chain(lying).collect::<Vec<_>>());
            let least = honest.iter().copied().fold(f64::INFINITY, f64::min);
            let most = honest.iter().copied().fold(0.0, f64::max);
            prop_assert!(seconds > least * 0.97 && seconds < most * 1.03, "{seconds} of {honest:?}");
        }
    }
}
