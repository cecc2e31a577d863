//! Machines: what one can do, and the kinds that synthetic fleets are made of.

use core::str::FromStr;

use super::random::{Draws, Purpose};
use super::scenario::ScenarioError;
use crate::cost::Batching;

/// The network of one machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Bytes a second that it can send.
    pub up_bps: f64,
    /// Bytes a second that it can receive.
    pub down_bps: f64,
    /// Seconds from it to the middle of the network and back: a round trip between two is the mean of theirs.
    pub round_trip_s: f64,
}

/// Kinds of networks that people have. Round figures of what such links are sold and seen as; none was measured for this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkClass {
    /// A cable at home or in a lab.
    Ethernet,
    /// Wi-Fi at home.
    Wifi,
    /// Over the internet, by fibre.
    Fibre,
    /// Over the internet, by copper.
    Dsl,
}

/// A name that is none of a class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no kind of {1}: use one of {2}")]
pub struct UnknownName(pub String, pub &'static str, pub String);

impl LinkClass {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ethernet, Self::Wifi, Self::Fibre, Self::Dsl];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "ethernet",
            Self::Wifi => "wifi",
            Self::Fibre => "fibre",
            Self::Dsl => "dsl",
        }
    }

    /// What it can carry.
    pub fn link(self) -> Link {
        let (up_bps, down_bps, round_trip_s) = match self {
            Self::Ethernet => (1.1e8, 1.1e8, 0.0005),
            Self::Wifi => (2e7, 2e7, 0.005),
            Self::Fibre => (1.2e7, 6e7, 0.02),
            Self::Dsl => (1.2e6, 6e6, 0.04),
        };
        Link { up_bps, down_bps, round_trip_s }
    }
}

impl FromStr for LinkClass {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|class| class.name() == name)
            .ok_or_else(|| UnknownName(name.to_owned(), "link", known()))
    }
}

/// What one machine can do.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerSpec {
    /// What it is called.
    pub name: String,
    /// Tokens a second that it decodes for one request alone.
    pub decode_tps: f64,
    /// The part of a lone decoding step that is spent for all that decode together: 1 where a batch costs no more than one
    /// request, 0 where it gains nothing.
    pub shared_step: f64,
    /// Tokens a second that it prefills.
    pub prefill_tps: f64,
    /// Bytes of KV cache a token.
    pub kv_bytes_per_token: f64,
    /// Tokens of KV cache that it can hold, of all requests together.
    pub kv_tokens: u32,
    /// Requests that may run at once.
    pub slots: u16,
    /// Its network.
    pub link: Link,
}

impl PeerSpec {
    /// How its steps grow with their batch.
    pub fn batching(&self) -> Batching {
        let lone_s = 1.0 / self.decode_tps;
        Batching { step_s: self.shared_step * lone_s, sequence_s: (1.0 - self.shared_step) * lone_s }
    }

    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        for (what, value, is_good) in [
            ("a peer's decode rate", self.decode_tps, positive(self.decode_tps)),
            ("a peer's prefill rate", self.prefill_tps, positive(self.prefill_tps)),
            ("a peer's bytes of KV a token", self.kv_bytes_per_token, positive(self.kv_bytes_per_token)),
            ("a peer's rate of sending", self.link.up_bps, positive(self.link.up_bps)),
            ("a peer's rate of receiving", self.link.down_bps, positive(self.link.down_bps)),
            ("a peer's count of slots", f64::from(self.slots), self.slots > 0),
        ] {
            if !is_good {
                return Err(ScenarioError::Number { what, value, wanted: "a finite number above 0" });
            }
        }
        let is_part = (0.0..=1.0).contains(&self.shared_step);
        let wrong = || ScenarioError::Number { what: "a shared step", value: self.shared_step, wanted: "from 0 to 1" };
        if is_part { Ok(()) } else { Err(wrong()) }
    }
}

/// How long machines of a kind stay and are away: sessions are Weibull, gaps exponential, as in the published reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Habit {
    /// Below 1: whoever has stayed long stays longer. Above 1: whoever has stayed long leaves soon.
    pub shape: f64,
    /// The scale of a session of a middling machine, in seconds.
    pub scale_s: f64,
    /// Mean seconds between two sessions.
    pub gap_s: f64,
}

/// A kind of machine in the published reference: middling values; each machine's rates are drawn up to 30 % from them, and
/// its sessions' scale up to 40 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Archetype {
    /// What its machines are called, with a number.
    pub name: &'static str,
    /// Tokens a second that it decodes.
    pub decode_tps: f64,
    /// Tokens a second that it prefills.
    pub prefill_tps: f64,
    /// Bytes a second, both ways.
    pub bandwidth_bps: f64,
    /// Tokens of KV cache.
    pub kv_tokens: u32,
    /// How long it stays.
    pub habit: Habit,
}

/// Bytes of KV a token in the reference.
const KV_BYTES_PER_TOKEN: f64 = 131_072.0;

/// How far rates and scales are drawn from the middle, as parts of it.
const RATE_SPREAD: f64 = 0.3;
const SCALE_SPREAD: f64 = 0.4;

impl Archetype {
    /// A volunteer's laptop: there for minutes, or for long.
    pub const LAPTOP: Self = Self {
        name: "laptop",
        decode_tps: 12.0,
        prefill_tps: 150.0,
        bandwidth_bps: 4e6,
        kv_tokens: 16_000,
        habit: Habit { shape: 0.6, scale_s: 600.0, gap_s: 600.0 },
    };

    /// A cloud machine at a discount: taken away after most of an hour.
    pub const SPOT: Self = Self {
        name: "spot",
        decode_tps: 40.0,
        prefill_tps: 900.0,
        bandwidth_bps: 4e7,
        kv_tokens: 64_000,
        habit: Habit { shape: 3.0, scale_s: 2400.0, gap_s: 300.0 },
    };

    /// A machine that is meant to run.
    pub const SERVER: Self = Self {
        name: "server",
        decode_tps: 60.0,
        prefill_tps: 1400.0,
        bandwidth_bps: 1e8,
        kv_tokens: 128_000,
        habit: Habit { shape: 1.5, scale_s: 28_800.0, gap_s: 120.0 },
    };

    /// The machine of number `of` in the fleet of `seed`, and its own habit.
    pub fn draw(&self, seed: u64, of: u32, batch: BatchSpec) -> (PeerSpec, Habit) {
        // Each number is drawn whether it is used or not, so that machines of one number are alike in all fleets.
        let mut draws = Draws::new(seed, Purpose::Peers, of);
        let mut about = |middle: f64, spread: f64| middle * draws.between(1.0 - spread, 1.0 + spread);
        let (decode_tps, prefill_tps) = (about(self.decode_tps, RATE_SPREAD), about(self.prefill_tps, RATE_SPREAD));
        let habit = Habit { scale_s: about(self.habit.scale_s, SCALE_SPREAD), ..self.habit };
        let link = Link { up_bps: self.bandwidth_bps, down_bps: self.bandwidth_bps, round_trip_s: 0.005 };
        let spec = PeerSpec {
            name: format!("{}-{of}", self.name),
            decode_tps,
            shared_step: batch.shared_step,
            prefill_tps,
            kv_bytes_per_token: KV_BYTES_PER_TOKEN,
            kv_tokens: self.kv_tokens,
            slots: batch.slots,
            link,
        };
        (spec, habit)
    }
}

/// How machines batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchSpec {
    /// Requests that may run at once.
    pub slots: u16,
    /// As [`PeerSpec::shared_step`].
    pub shared_step: f64,
}

impl BatchSpec {
    /// One request after the other, as in the published reference.
    pub const ONE_AT_A_TIME: Self = Self { slots: 1, shared_step: 0.5 };
}
