//! What a preparation is worth by the prices of its work and bytes: `choice` looks at rates alone.

use super::departures::DepartureCurve;
use super::preparation::{Preparation, Route};
use super::prices::Prices;
use super::takeover::{Fixed, Remainder, Takeover};

/// A request whose source may leave, and a destination that could prepare for it.
#[derive(Debug, Clone, Copy)]
pub struct Stakes<'a> {
    /// The rest of the request on its source.
    pub remainder: &'a Remainder,
    /// Departures of the source.
    pub departures: &'a DepartureCurve,
    /// U if nothing is prepared.
    pub cold: Takeover,
    /// The fixed part of U where something is.
    pub fixed: Fixed<'a>,
    /// The probability that the destination outlasts the request, and does not leave with the source.
    pub outlasts: f64,
    /// u of the destination.
    pub utilisation: f64,
    /// What work and bytes are worth.
    pub prices: &'a Prices,
}

impl Stakes<'_> {
    /// Seconds of expected stall that the preparation saves, less what its work and its bytes are worth:
    /// the integral of f (U_cold - U_part) times the chance that the destination outlasts the request, less
    /// lambda (1 - P) work + mu bytes.
    pub fn worth_s(&self, route: &Route, preparation: &Preparation) -> f64 {
        let stall_s = |takeover: &Takeover| self.remainder.stall_s(self.departures, takeover);
        let part = Takeover::preparing(route, preparation, self.fixed);
        let saved_s = (stall_s(&self.cold) - stall_s(&part)) * self.outlasts;
        let stays = 1.0 - self.remainder.leave_probability(self.departures);
        let work_s = self.prices.second(self.utilisation) * stays * preparation.destination_work_s;
        saved_s - work_s - self.prices.byte_s * preparation.bytes
    }
}
