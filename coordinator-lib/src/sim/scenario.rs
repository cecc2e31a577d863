//! What a run is about: machines, when they are there, what is asked of them, and how the world behaves. All of it is
//! settled before a run begins, so that every policy meets the same.

use idlewild_protocol::DepartureCause;
use serde::Serialize;

use super::fleet::PeerSpec;
use crate::cost::Overheads;

/// A stretch of time in which a peer offers its machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stay {
    /// When it begins, in seconds of the run. Negative for one that had begun before.
    pub start_s: f64,
    /// When it ends.
    pub end_s: f64,
    /// Whether the end is a departure. False where the record ends first: nobody learns from it.
    pub is_end_seen: bool,
    /// How it ends.
    pub departure: Departure,
}

/// How a peer leaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Departure {
    /// Without a word: others notice after [`World::detection_s`].
    Silent {
        /// Why.
        cause: DepartureCause,
    },
    /// It says so `notice_s` seconds ahead, and goes on until then.
    Announced {
        /// Why.
        cause: DepartureCause,
        /// How long ahead.
        notice_s: f64,
    },
    /// Its owner is back: it computes no more from that moment, says so, and keeps its contexts for `grace_s` seconds.
    Stops {
        /// How long its contexts stay.
        grace_s: f64,
    },
}

impl Departure {
    /// A crash, a lid, a cable: what most records of availability are of.
    pub const UNKNOWN: Self = Self::Silent { cause: DepartureCause::Unknown };

    /// Why.
    pub fn cause(&self) -> DepartureCause {
        match *self {
            Self::Silent { cause } | Self::Announced { cause, .. } => cause,
            Self::Stops { .. } => DepartureCause::OwnerReturned,
        }
    }
}

/// A request that comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrival {
    /// When, in seconds of the run.
    pub at_s: f64,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens of its answer, which nobody knows but the oracles.
    pub output_tokens: u32,
    /// What its client says of the length of the answer; none where it says nothing.
    pub estimate_tokens: Option<u32>,
}

/// How the world behaves, beside its machines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct World {
    /// Seconds until a silent departure is noticed.
    pub detection_s: f64,
    /// What moves take.
    pub overheads: Overheads,
    /// The part of a peer's time that the prefill of a request may take while others decode there.
    pub prefill_share: f64,
    /// The part that all preparations together may take while the peer has requests of its own.
    pub standby_share: f64,
    /// Seconds between two looks at a request.
    pub check_interval_s: f64,
    /// The same once its worker has announced its departure.
    pub leaving_interval_s: f64,
    /// Seconds between two digests of a peer: how old what is believed of its chance to stay may be.
    pub digest_interval_s: f64,
}

impl Default for World {
    fn default() -> Self {
        Self {
            detection_s: Overheads::ASSUMED.detection_s,
            overheads: Overheads::ASSUMED,
            prefill_share: 0.5,
            standby_share: 0.25,
            check_interval_s: 5.0,
            leaving_interval_s: 1.0,
            digest_interval_s: 60.0,
        }
    }
}

/// Seconds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Span {
    /// Requests come until then.
    pub duration_s: f64,
    /// Those that come before do not count.
    pub warmup_s: f64,
    /// How much longer the run may last for those that came to be finished. What is not by then is reported as such.
    pub drain_s: f64,
}

impl Span {
    /// When the run is over at the latest.
    pub fn end_s(&self) -> f64 {
        self.duration_s + self.drain_s
    }
}

/// All that a run is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// What results call it.
    pub name: String,
    /// The machines.
    pub peers: Vec<PeerSpec>,
    /// When each is there: in order, without overlap.
    pub stays: Vec<Vec<Stay>>,
    /// What is asked, in the order of time.
    pub arrivals: Vec<Arrival>,
    /// How long it lasts.
    pub span: Span,
    /// How the world behaves.
    pub world: World,
}

/// Why a scenario cannot be run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScenarioError {
    /// There is nobody.
    #[error("there are no peers: name at least one")]
    NoPeers,
    /// Nothing is asked.
    #[error("no request comes within the {duration_s} s of the run")]
    NoRequests {
        /// How long that is.
        duration_s: f64,
    },
    /// A peer has no list of stays, or there are lists of nobody.
    #[error("{peers} peers, but {stays} lists of when they are there")]
    Mismatch {
        /// How many peers.
        peers: usize,
        /// How many lists.
        stays: usize,
    },
    /// The data end before the run.
    #[error("the run lasts until {wanted_s} s, but the data end at {known_s} s: shorten the run")]
    BeyondData {
        /// Until when the run lasts.
        wanted_s: f64,
        /// Until when there are data.
        known_s: f64,
    },
    /// A number makes no sense.
    #[error("{what} is {value}: {wanted}")]
    Number {
        /// What it is.
        what: &'static str,
        /// What it is set to.
        value: f64,
        /// What it must be.
        wanted: &'static str,
    },
    /// A peer is there twice at once, or its stays are not in order.
    #[error("{peer}: its stays overlap or are not in order at {at_s} s")]
    Stays {
        /// Whose.
        peer: String,
        /// Where.
        at_s: f64,
    },
    /// Only the corrected rule is the coordinator's.
    #[error("the coordinator does not decide by {policy}: use hazard_overlapped")]
    NotCoordinated {
        /// What was asked for.
        policy: &'static str,
    },
    /// Requests are not in order.
    #[error("request {number} comes before the one ahead of it, or at no time")]
    Arrivals {
        /// Which, from 0.
        number: usize,
    },
}

impl Scenario {
    /// The same without what no machine can hold: an answer ends with the context of the largest, and a prompt that leaves no
    /// room there is refused and does not come.
    #[must_use]
    pub fn within_memory(mut self) -> Self {
        let most_tokens = self.peers.iter().map(|peer| peer.kv_tokens).max().unwrap_or(0);
        self.arrivals.retain(|arrival| arrival.prompt_tokens < most_tokens);
        for arrival in &mut self.arrivals {
            arrival.output_tokens = arrival.output_tokens.min(most_tokens - arrival.prompt_tokens);
        }
        self
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check(&self) -> Result<(), ScenarioError> {
        if self.peers.is_empty() {
            return Err(ScenarioError::NoPeers);
        }
        if self.stays.len() != self.peers.len() {
            return Err(ScenarioError::Mismatch { peers: self.peers.len(), stays: self.stays.len() });
        }
        self.check_span()?;
        for (peer, stays) in self.peers.iter().zip(&self.stays) {
            peer.check()?;
            check_stays(&peer.name, stays)?;
        }
        self.check_arrivals()
    }

    fn check_span(&self) -> Result<(), ScenarioError> {
        let Span { duration_s, warmup_s, drain_s } = self.span;
        for (what, value, is_good, wanted) in [
            ("the duration in seconds", duration_s, duration_s > 0.0 && duration_s.is_finite(), "more than 0"),
            ("the warm-up in seconds", warmup_s, (0.0..duration_s).contains(&warmup_s), "from 0 to the duration"),
            ("the time to drain in seconds", drain_s, drain_s >= 0.0 && drain_s.is_finite(), "0 or more"),
        ] {
            if !is_good {
                return Err(ScenarioError::Number { what, value, wanted });
            }
        }
        Ok(())
    }

    fn check_arrivals(&self) -> Result<(), ScenarioError> {
        let mut before_s = 0.0;
        for (number, arrival) in self.arrivals.iter().enumerate() {
            let in_order = arrival.at_s.is_finite() && arrival.at_s >= before_s;
            if !in_order {
                return Err(ScenarioError::Arrivals { number });
            }
            before_s = arrival.at_s;
        }
        let Span { duration_s, .. } = self.span;
        if self.arrivals.first().is_none_or(|first| first.at_s >= duration_s) {
            return Err(ScenarioError::NoRequests { duration_s });
        }
        Ok(())
    }
}

fn check_stays(peer: &str, stays: &[Stay]) -> Result<(), ScenarioError> {
    let mut before_s = f64::NEG_INFINITY;
    for stay in stays {
        let in_order = stay.start_s >= before_s && stay.end_s >= stay.start_s && stay.end_s.is_finite();
        if !in_order {
            return Err(ScenarioError::Stays { peer: peer.to_owned(), at_s: stay.start_s });
        }
        before_s = stay.end_s;
    }
    Ok(())
}
