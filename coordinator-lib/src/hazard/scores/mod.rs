//! How good forecasts of departures were, once one knows what happened.
//!
//! Proper scores, whose best expected value is had by saying what one believes: the log loss of the interval in which a
//! departure fell, and the Brier score of leaving within a horizon. Beside them what they do not tell apart: whether
//! probabilities are right on average (calibration) and whether those who leave were ranked first (concordance).
//!
//! Ask at instants that are uniform in the time that peers were there: one instant a session would count the minutes
//! of short sessions for more than they are. A [`Trial`] does so on a recorded history.

mod binary;
mod forecast;
mod held_out;
mod reliability;
mod trial;

pub use binary::{Binary, brier, brier_skill, calibration_error, concordance};
pub use forecast::{EDGES_S, Forecast, Outcome, log_loss};
pub use held_out::{HeldOut, NoTrial, Part, held_out};
pub use reliability::{GROUP_ENDS, ReliabilityGroup, reliability};
pub use trial::{Question, Split, Trial};
