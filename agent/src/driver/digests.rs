//! What this peer says of itself, when it says it, and how gossip spreads. Pure: the driver sends.
//!
//! A digest that says nothing new is not sent again: ten bytes confirm the last one.

use std::collections::BTreeMap;
use std::time::Duration;

use idlewild_protocol::{
    BootId, CoordinatorView, Digest, DigestVersion, ModelLoad, MoveTimes, PairRate, PeerId, PeerState,
    QuantisedSurvival, QuantisedTime, SignedDigest,
};

/// Between two words of a peer about itself where the swarm is small.
const BEAT: Duration = Duration::from_secs(1);

/// Digests and confirmations that a peer receives a second at most: the beat grows with the swarm so that it holds.
const RECEIVED_PER_S: u32 = 20;

/// Least time between two digests where only the load has changed; a change of state goes out at once.
const LOAD_CHANGE_GAP: Duration = Duration::from_millis(100);

/// Between two rounds of anti-entropy, each with one random peer.
const ANTI_ENTROPY: Duration = Duration::from_secs(3);

/// Rates that differ by less say nothing new.
const RATE_TOLERANCE: f32 = 0.05;

/// Codes of the survival curve, and of times, that differ by less say nothing new: 6 % of a hazard each, 4 % of a time.
const CODE_TOLERANCE: u8 = 2;

/// Free KV cache that differs by less than this share of itself says nothing new.
const KV_TOLERANCE: f32 = 0.1;

/// Waits that differ by less say nothing new, in milliseconds.
const WAIT_TOLERANCE_MS: u32 = 250;

/// What a digest says, without its number.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Content {
    pub(super) state: PeerState,
    pub(super) age_s: u32,
    pub(super) survival: QuantisedSurvival,
    pub(super) models: Vec<ModelLoad>,
    pub(super) up_bytes_per_s: u64,
    pub(super) down_bytes_per_s: u64,
    pub(super) move_times: MoveTimes,
    pub(super) pairs: Vec<PairRate>,
    pub(super) coordinator: Option<CoordinatorView>,
}

/// How much two contents differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// Nothing worth telling.
    None,
    /// Worth telling soon.
    Load,
    /// To be told at once.
    State,
}

/// What to send to every connected peer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Word {
    /// This.
    Digest(Box<Digest>),
    /// That the last one still holds.
    Unchanged(DigestVersion),
}

/// The conversation.
#[derive(Debug)]
pub(super) struct Digests {
    me: PeerId,
    boot: BootId,
    sequence: u64,
    said: Option<Content>,
    /// The last digest as signed, for newcomers.
    pub(super) signed: Option<SignedDigest>,
    /// When the last word went out.
    spoke_at: Duration,
    /// A change of load waits for its time.
    is_waiting: bool,
    next_round_at: Duration,
    /// When versions were last sent to a peer: two peers that cannot agree must not keep asking each other.
    asked_at: BTreeMap<PeerId, Duration>,
}

impl Digests {
    pub(super) fn new(me: PeerId, boot: BootId) -> Self {
        Self {
            me,
            boot,
            sequence: 0,
            said: None,
            signed: None,
            spoke_at: Duration::ZERO,
            is_waiting: false,
            next_round_at: ANTI_ENTROPY,
            asked_at: BTreeMap::new(),
        }
    }

    /// What to say now, with `peers` connected; none where it is too early or there is nothing to say.
    pub(super) fn word(&mut self, now: Duration, peers: usize, content: Content) -> Option<Word> {
        let change = self.said.as_ref().map_or(Change::State, |said| change(said, &content));
        let since = now.saturating_sub(self.spoke_at);
        let is_due = match change {
            Change::State => true,
            Change::Load => since >= LOAD_CHANGE_GAP,
            Change::None => since >= beat(peers),
        };
        self.is_waiting = change == Change::Load && !is_due;
        if !is_due {
            return None;
        }
        self.spoke_at = now;
        if change == Change::None {
            return Some(Word::Unchanged(self.version()));
        }
        self.sequence += 1;
        self.said = Some(content.clone());
        Some(Word::Digest(Box::new(Digest {
            peer: self.me,
            boot: self.boot,
            sequence: self.sequence,
            state: content.state,
            age_s: content.age_s,
            survival: content.survival,
            models: content.models,
            up_bytes_per_s: content.up_bytes_per_s,
            down_bytes_per_s: content.down_bytes_per_s,
            move_times: content.move_times,
            pairs: content.pairs,
            coordinator: content.coordinator,
        })))
    }

    fn version(&self) -> DigestVersion {
        DigestVersion { peer: self.me, boot: self.boot, sequence: self.sequence }
    }

    /// When to think of the next word at the latest.
    pub(super) fn due(&self, peers: usize) -> Duration {
        let next = if self.is_waiting { LOAD_CHANGE_GAP } else { beat(peers) };
        (self.spoke_at + next).min(self.next_round_at)
    }

    /// With which of `peers` to compare versions now, if a round is due; `random` chooses.
    pub(super) fn round_with(&mut self, now: Duration, peers: &[PeerId], random: u64) -> Option<PeerId> {
        if now < self.next_round_at {
            return None;
        }
        // Also where there is nobody: a round that stays due would keep the driver awake.
        self.next_round_at = now + ANTI_ENTROPY;
        let at = random.checked_rem(peers.len() as u64)?;
        let chosen = peers.get(at as usize).copied()?;
        self.asked_at.retain(|peer, _| peers.contains(peer));
        self.asked_at.insert(chosen, now);
        Some(chosen)
    }

    /// Whether versions may be sent to `peer` in answer to its own.
    pub(super) fn may_ask(&mut self, now: Duration, peer: PeerId) -> bool {
        let asked = self.asked_at.get(&peer).copied();
        let may = asked.is_none_or(|at| now.saturating_sub(at) >= ANTI_ENTROPY);
        if may {
            self.asked_at.insert(peer, now);
        }
        may
    }
}

fn beat(peers: usize) -> Duration {
    let peers = u32::try_from(peers).unwrap_or(u32::MAX);
    BEAT.max(BEAT.saturating_mul(peers) / RECEIVED_PER_S)
}

fn change(said: &Content, content: &Content) -> Change {
    let state = |c: &Content| {
        let models: Vec<_> = c.models.iter().map(|m| (m.model, m.loaded)).collect();
        (c.state, c.coordinator, models)
    };
    if state(said) != state(content) {
        return Change::State;
    }
    let rate = |a: u64, b: u64| differs(a as f32, b as f32, RATE_TOLERANCE);
    let codes = said.survival.0.iter().zip(content.survival.0).any(|(a, b)| a.abs_diff(b) > CODE_TOLERANCE);
    let models = said.models.iter().zip(&content.models).any(|(a, b)| load_differs(a, b));
    let links = rate(said.up_bytes_per_s, content.up_bytes_per_s)
        || rate(said.down_bytes_per_s, content.down_bytes_per_s)
        || said.pairs.len() != content.pairs.len()
        || said.pairs.iter().zip(&content.pairs).any(|(a, b)| a.peer != b.peer || rate(a.bytes_per_s, b.bytes_per_s));
    let times = times_differ(said.move_times, content.move_times);
    if codes || models || links || times { Change::Load } else { Change::None }
}

/// The first measurement is news; later ones where they say something else.
fn times_differ(a: MoveTimes, b: MoveTimes) -> bool {
    let differ = |a: QuantisedTime, b: QuantisedTime| {
        a.0.abs_diff(b.0) > CODE_TOLERANCE || (a != b && QuantisedTime::default() == a.min(b))
    };
    differ(a.hand_off, b.hand_off)
        || differ(a.transfer_start, b.transfer_start)
        || differ(a.prefill_start, b.prefill_start)
        || differ(a.detection, b.detection)
}

fn load_differs(a: &ModelLoad, b: &ModelLoad) -> bool {
    (a.running, a.slots, a.context_tokens, a.kv_bytes_per_token)
        != (b.running, b.slots, b.context_tokens, b.kv_bytes_per_token)
        || differs(a.decode_tps, b.decode_tps, RATE_TOLERANCE)
        || differs(a.prefill_tps, b.prefill_tps, RATE_TOLERANCE)
        || differs(a.kv_free_tokens as f32, b.kv_free_tokens as f32, KV_TOLERANCE)
        || a.queue_wait_ms.abs_diff(b.queue_wait_ms) > WAIT_TOLERANCE_MS
}

fn differs(a: f32, b: f32, tolerance: f32) -> bool {
    (a - b).abs() > tolerance * a.abs().max(b.abs())
}

#[cfg(test)]
mod tests {
    use idlewild_protocol::{DepartureCause, ModelId};

    use super::*;

    const ME: PeerId = PeerId([1; 32]);

    fn content() -> Content {
        Content {
            state: PeerState::Serving,
            age_s: 1,
            survival: QuantisedSurvival([10; 16]),
            models: vec![ModelLoad {
                model: ModelId([1; 32]),
                loaded: true,
                decode_tps: 50.0,
                prefill_tps: 200.0,
                decode_doubles_at: 0,
                prefill_doubles_at: 0,
                kv_bytes_per_token: 1,
                context_tokens: 1,
                kv_free_tokens: 1000,
                queue_wait_ms: 0,
                running: 0,
                slots: 2,
            }],
            up_bytes_per_s: 0,
            down_bytes_per_s: 0,
            move_times: MoveTimes::default(),
            pairs: Vec::new(),
            coordinator: None,
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn sequence(word: Option<Word>) -> Option<(bool, u64)> {
        word.map(|word| match word {
            Word::Digest(digest) => (true, digest.sequence),
            Word::Unchanged(version) => (false, version.sequence),
        })
    }

    #[test]
    fn what_has_not_changed_is_confirmed_once_a_second_and_changes_go_out_at_once() {
        let mut digests = Digests::new(ME, BootId(1));
        let mut say = |at, content| sequence(digests.word(ms(at), 2, content));
        assert_eq!(say(0, content()), Some((true, 1)));
        let jitter = || Content { age_s: 2, survival: QuantisedSurvival([11; 16]), ..content() };
        assert_eq!(say(500, jitter()), None);
        assert_eq!(say(1000, jitter()), Some((false, 1)));
        let leaving = PeerState::Leaving { cause: DepartureCause::Sleep, notice_ms: 0 };
        assert_eq!(say(1001, Content { state: leaving, ..content() }), Some((true, 2)));
    }

    #[test]
    fn a_time_that_was_measured_is_told_and_its_noise_is_not() {
        let mut digests = Digests::new(ME, BootId(1));
        let of = |code| {
            let detection = QuantisedTime(code);
            Content { move_times: MoveTimes { detection, ..MoveTimes::default() }, ..content() }
        };
        let mut said = Vec::new();
        for (at, code) in [(0, 0), (100, 1), (200, 100), (300, 102), (400, 103), (500, 0)] {
            said.push(sequence(digests.word(ms(at), 2, of(code))).is_some());
        }
        assert_eq!(said, [true, true, true, false, true, true]);
    }

    #[test]
    fn a_load_that_flickers_costs_ten_digests_a_second_at_most() {
        let mut digests = Digests::new(ME, BootId(1));
        let mut sent = 0;
        for at in 0..1000 {
            let mut content = content();
            content.models[0].running = u16::from(at % 2 == 0);
            sent += usize::from(digests.word(ms(at), 2, content).is_some());
        }
        assert!((9..=11).contains(&sent), "{sent}");
    }

    #[test]
    fn a_change_of_load_that_came_too_early_is_told_when_it_may_be() {
        let mut digests = Digests::new(ME, BootId(1));
        digests.word(ms(0), 2, content());
        assert_eq!(digests.due(2), ms(1000));
        let mut busier = content();
        busier.models[0].running = 1;
        assert_eq!(digests.word(ms(10), 2, busier.clone()), None);
        assert_eq!(digests.due(2), ms(100));
        assert_eq!(sequence(digests.word(ms(100), 2, busier)), Some((true, 2)));
        assert_eq!(digests.due(2), ms(1100));
    }

    #[test]
    fn the_beat_grows_with_the_swarm() {
        let mut digests = Digests::new(ME, BootId(1));
        assert!(digests.word(ms(0), 100, content()).is_some());
        assert_eq!(digests.word(ms(4999), 100, content()), None);
        assert!(digests.word(ms(5000), 100, content()).is_some());
    }

    #[test]
    fn a_peer_that_is_alone_sleeps_between_its_words() {
        let mut digests = Digests::new(ME, BootId(1));
        for at in [ms(0), ms(1000), ms(2000), ms(3000), ms(4000)] {
            digests.word(at, 0, content());
            digests.round_with(at, &[], 7);
            assert!(digests.due(0) >= at + ms(1000), "due {:?} at {at:?}", digests.due(0));
        }
    }

    #[test]
    fn two_peers_that_cannot_agree_ask_each_other_once_a_round() {
        let mut digests = Digests::new(ME, BootId(1));
        let other = PeerId([2; 32]);
        assert_eq!(digests.round_with(ms(1), &[other], 7), None);
        assert_eq!(digests.round_with(ms(3000), &[other], 7), Some(other));
        assert!(!digests.may_ask(ms(3001), other));
        assert!(digests.may_ask(ms(6000), other));
        assert!(!digests.may_ask(ms(6001), other));
    }
}
