//! What `idlewild hazard` shows.

use serde::{Deserialize, Serialize};

/// How long this machine's session is expected to last, and how good such forecasts have been.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HazardReply {
    /// Whether a running agent answered; otherwise it is what is on record.
    pub is_running: bool,
    /// Sessions whose end was seen: what the estimate is made of.
    pub sessions: u64,
    /// Seconds since the live session began; none outside a session. The curve is then that of one that begins.
    pub age_s: Option<f64>,
    /// How much sooner (above 1) or later than machines in general this one is taken back.
    pub factor: f64,
    /// Whether the owner says that nobody uses this machine, which counts until sessions say otherwise.
    pub is_unused: bool,
    /// Probabilities that the owner is back soon.
    pub leaves: Vec<LeavesReply>,
    /// Probabilities of staying, at the horizons that a digest has.
    pub curve: Vec<CurvePoint>,
    /// How good the forecasts were that this machine made at fixed ages of its sessions.
    pub calibration: Vec<CalibrationReply>,
}

/// The probability of the session's end within some time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LeavesReply {
    /// Within so many seconds.
    pub within_s: f64,
    /// So likely.
    pub probability: f64,
}

/// A point of a survival curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Seconds from now.
    pub t_s: f64,
    /// Probability that the session still lasts then.
    pub stays: f64,
}

/// How good forecasts of one horizon were.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibrationReply {
    /// They were of the session's end within so many seconds.
    pub within_s: f64,
    /// How many had an outcome.
    pub forecasts: usize,
    /// Which part of them happened.
    pub happened: f64,
    /// The mean distance of probability and frequency over ten groups of equal size; 0 without forecasts.
    pub calibration_error: f64,
    /// The mean squared error; 0 without forecasts.
    pub brier: f64,
    /// By probability; groups without forecasts are left out.
    pub groups: Vec<ReliabilityReply>,
}

/// Forecasts of about the same probability.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityReply {
    /// From this probability,
    pub from: f64,
    /// to this one.
    pub to: f64,
    /// How many.
    pub forecasts: usize,
    /// Their mean probability.
    pub predicted: f64,
    /// Which part of them happened.
    pub observed: f64,
}
