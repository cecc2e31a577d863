//! How long a peer is expected to stay.
//!
//! The random variable is the length of an idle session: from when a peer begins to offer compute to its departure. A
//! session that has not ended, or that we ended ourselves, is right-censored: it says "at least this long".
//!
//! ```text
//! sessions, as they happen --> Estimator --predict--> Prediction --hazard--> costs
//!                              (Frailty, KaplanMeiers, Weibulls)  \--quantise--> QuantisedSurvival (in a digest)
//!                                                                                    \--> DigestCurve --> costs
//! HazardLog, KaplanMeier: the reference's, of which KaplanMeiers is made          record, scores: how good were they?
//! ```
//!
//! Everything that weighs a departure does so through [`Survival`], and cannot tell an estimate made here from one that
//! came in a digest. [`Frailty`] is the default; the others are what it is compared with (`docs/hazards.md`).
//! Deliberately absent: the history itself, which the baselines keep and the default forgets as it learns.

mod digest_curve;
mod estimator;
mod frailty;
mod kaplan_meier;
mod kaplan_meiers;
mod log;
mod pieces;
pub mod record;
pub mod scores;
mod segment;
mod session;
mod survival;
mod weibull;
mod weibulls;

pub use digest_curve::{DigestCurve, quantise, quantise_sessions};
pub use estimator::{Ending, Estimator, Prediction, Sign, Signs, Surroundings};
pub use frailty::{CAUSES, CauseShares, FleetHazard, Frailty, FrailtyParameters};
pub use kaplan_meier::KaplanMeier;
pub use kaplan_meiers::KaplanMeiers;
pub use log::{CurveSource, HazardLog, NodeHazard};
pub use pieces::PieceCurve;
pub use segment::Segment;
pub use session::Session;
pub use survival::{Hazard, Survival};
pub use weibull::{Weibull, WeibullPrior};
pub use weibulls::Weibulls;
