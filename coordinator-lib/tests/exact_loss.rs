//! The exact expectation of a loss, against fine numeric quadrature, on curves as digests carry them.

use idlewild_coordinator::cost::{DepartureCurve, Remainder, Residual, Takeover};
use idlewild_coordinator::hazard::{DigestCurve, Hazard, Survival};
use idlewild_protocol::QuantisedSurvival;
use proptest::prelude::*;

/// Cells of the quadrature.
const CELLS: u32 = 20_000;

/// The expectation of `loss_s` over departures before `end_s`, by the middle of each cell.
fn by_cells(hazard: &Hazard<'_>, end_s: f64, loss_s: impl Fn(f64) -> f64) -> f64 {
    let edge = |k: u32| f64::from(k) * end_s / f64::from(CELLS);
    let cell = |k: u32| {
        let leaves = hazard.survival(edge(k)) - hazard.survival(edge(k + 1));
        leaves * loss_s(edge(k).midpoint(edge(k + 1)))
    };
    (0..CELLS).map(cell).sum()
}

/// Sessions that are Weibull, a scale and a shape, as their digest has them.
fn curve() -> impl Strategy<Value = DigestCurve> {
    ((1.0..4.5_f64).prop_map(|exponent| 10.0_f64.powf(exponent)), 0.4..3.0_f64).prop_map(|(scale_s, shape)| {
        DigestCurve::new(&QuantisedSurvival::of(|t_s| (-(t_s / scale_s).powf(shape)).exp()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_exact_loss_agrees_with_fine_quadrature(
        curve in curve(), age_s in 0.0..200.0_f64, tokens in 1.0..5000.0_f64, decode_tps in 2.0..50.0_f64,
        begins_s in 0.0..60.0_f64, missing_tokens in 0.0..8000.0_f64, gain_tps in 0.0..500.0_f64, rebuild_tps in 50.0..2000.0_f64,
        rebuild_decode_tps in 1.0..60.0_f64, gain_from_s in 0.0..30.0_f64,
    ) {
        let hazard = Hazard { curve: &curve, age_s };
        let remainder = Remainder { residual: Residual::of([tokens; 5]), decode_tps, begins_s };
        let takeover = Takeover {
            fixed_s: 3.0,
            missing_tokens,
            growth_tps: decode_tps,
            growth_from_s: begins_s,
            gain_tps,
            gain_from_s,
            rebuild_tps,
        };
        let end_s = begins_s + tokens / decode_tps;
        let departures = DepartureCurve::new(&hazard, end_s);
        let exact_s = remainder.loss_s(&departures, &takeover, rebuild_decode_tps);
        let slower_s = (1.0 / rebuild_decode_tps - 1.0 / decode_tps).max(0.0);
        let cells_s = by_cells(&hazard, end_s, |t_s| {
            takeover.cost_s(t_s) + (tokens - decode_tps * (t_s - begins_s).max(0.0)) * slower_s
        });
        prop_assert!((exact_s - cells_s).abs() < 1e-4 * cells_s.abs().max(1e-3), "{exact_s}, by cells {cells_s}");
        let leaves = remainder.leave_probability(&departures);
        prop_assert!((leaves - curve.leave_probability(age_s, end_s)).abs() < 1e-9, "{leaves}");
    }
}
