//! The default model: piecewise-constant hazard, with a factor for each peer (`policy.md` section 3).
//!
//! ```text
//! eta(t) = eta0[age bin] * gamma[hour of week] * exp(beta x) * theta[peer] * g[site]
//!
//! sessions --walk--> stretches in which nothing changes --count--> Tally of each factor (departures, expected)
//!                                                                        |
//! now, age --walk--> stretches ahead ------------------outlook----> PieceCurve
//! ```
//!
//! `bins` cuts time, `tally` counts with forgetting, `fleet`, `peer`, `site` and `causes` hold the factors, `count`
//! learns, `outlook` predicts, `model` is the estimator. Every factor is departures over expected departures, drawn
//! towards 1. Deliberately absent: gradients, and any draw of chance.

mod bins;
mod causes;
mod count;
mod fleet;
mod model;
mod outlook;
mod parameters;
mod peer;
mod population;
mod site;
mod tally;
#[cfg(test)]
mod tests;

pub use causes::{CAUSES, CauseShares};
pub use fleet::FleetHazard;
pub use model::Frailty;
pub use parameters::FrailtyParameters;
