//! Draws the figures of `docs/policy.md`: `cargo run --release -p idlewild-coordinator --example policy_figures`.
//!
//! Every number in them comes from the library. The same library draws the same files.

use std::error::Error;
use std::path::{Path as File, PathBuf};

use idlewild_coordinator::cost::{
    DepartureCurve, Fixed, Overheads, PHI_IDS_ONLY_BELOW, PHI_PRE_COPY_ABOVE, PeerRates, Preparation, Prices, Rebuild,
    Remainder, Residual, Route, Stakes, Takeover, Terms, Way, Work, preparation_worth_most,
};
use idlewild_coordinator::hazard::{Hazard, Survival};
use idlewild_coordinator::policy::overlapped::{Host, OverlappedParameters, Placing, place};
use plotters::coord::Shift;
use plotters::prelude::*;

const SIZE: (u32, u32) = (720, 420);

/// A laptop: 10 tokens a second decoded, 150 prefilled, 20 kB of KV a token.
const RATES: PeerRates = PeerRates {
    decode_tps: 10.0,
    prefill_tps: 150.0,
    bandwidth_bps: 0.0,
    kv_bytes_per_token: 2e4,
    room_tokens: 32_768,
};

/// Sessions of half an hour in the middle; below shape 1 those that have lasted go on lasting, above they end soon.
#[derive(Debug)]
struct Weibull {
    shape: f64,
}

impl Survival for Weibull {
    fn survival(&self, t_s: f64) -> f64 {
        0.5_f64.powf((t_s / 1800.0).powf(self.shape))
    }
}

/// Leaves once in so many seconds.
#[derive(Debug)]
struct Every(f64);

impl Survival for Every {
    fn survival(&self, t_s: f64) -> f64 {
        (-t_s / self.0).exp()
    }
}

/// Never leaves.
#[derive(Debug)]
struct Stays;

impl Survival for Stays {
    fn survival(&self, _: f64) -> f64 {
        1.0
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = File::new(env!("CARGO_MANIFEST_DIR")).join("../docs/figures");
    std::fs::create_dir_all(&folder)?;
    draw_cost_over_age(&folder.join("cost-over-age.svg"))?;
    draw_preparations(&folder.join("preparations.svg"))
}

/// E of one request by the age of the session of the peer that it would run on.
fn draw_cost_over_age(file: &PathBuf) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("A request of 1,000 + 400 tokens, by the age of the session", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(55)
        .build_cartesian_2d(0.0..120.0_f64, 40.0..75.0_f64)?;
    chart.configure_mesh().x_desc("age of the session, minutes").y_desc("seconds").draw()?;
    let hazards =
        [("E, hazard falls with age (shape 0.6)", 0.6, BLUE), ("E, hazard rises with age (shape 2)", 2.0, RED)];
    for (name, shape, colour) in hazards {
        let points = (0..=240)
            .map(|k| f64::from(k) / 2.0)
            .map(|age_min| (age_min, expected_s(&Weibull { shape }, age_min * 60.0)));
        let series = LineSeries::new(points, colour.stroke_width(2));
        chart.draw_series(series)?.label(name).legend(move |at| line_of(at, colour));
    }
    let stays = expected_s(&Stays, 0.0);
    let series = LineSeries::new([(0.0, stays), (120.0, stays)], BLACK.stroke_width(1));
    chart.draw_series(series)?.label("T: nobody leaves").legend(|at| line_of(at, BLACK));
    chart
        .configure_series_labels()
        .background_style(WHITE)
        .border_style(BLACK)
        .position(SeriesLabelPosition::UpperLeft)
        .draw()?;
    root.present()?;
    Ok(())
}

fn line_of((x, y): (i32, i32), colour: RGBColor) -> PathElement<(i32, i32)> {
    PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2))
}

/// E where another, equal peer with a second of queue is the fallback.
fn expected_s(curve: &dyn Survival, age_s: f64) -> f64 {
    let on = Host::new(0, RATES, Hazard { curve, age_s });
    let other = Host { wait_s: 1.0, ..Host::new(1, RATES, Hazard { curve: &Stays, age_s: 0.0 }) };
    let placement = place(&Placing::new(Work::fresh(1000, 400)), &[on, other], &OverlappedParameters::default());
    placement.assessed[0].terms().map_or(0.0, Terms::expected_s)
}

type Panel<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Which way to prepare is worth most, by the speed of the link and the length of the context.
fn draw_preparations(file: &PathBuf) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(file, (960, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let panels = root.split_evenly((1, 2));
    let sources = [("a source that leaves once in 10 minutes", 600.0), ("one that leaves once in a minute", 60.0)];
    for (panel, (name, every_s)) in panels.iter().zip(sources) {
        draw_panel(panel, name, &Every(every_s))?;
    }
    root.present()?;
    Ok(())
}

fn draw_panel(panel: &Panel<'_>, name: &str, curve: &Every) -> Result<(), Box<dyn Error>> {
    let mut chart = ChartBuilder::on(panel)
        .caption(name, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(65)
        .build_cartesian_2d((0.05..20.0_f64).log_scale(), (100.0..30_000.0_f64).log_scale())?;
    let kinds = [
        (Some(Way::Ids), "ids only", RGBColor(120, 160, 220)),
        (Some(Way::Hybrid), "hybrid", RGBColor(150, 200, 140)),
        (Some(Way::PreCopy), "KV pre-copy", RGBColor(235, 180, 110)),
        (None, "none pays", RGBColor(235, 235, 235)),
    ];
    for (way, name, colour) in kinds {
        let cells = cells(curve).filter(|(_, _, best)| *best == way);
        let stretches = cells.map(|(x, y, _)| Rectangle::new([(x.0, y.0), (x.1, y.1)], colour.filled()));
        let legend = move |(x, y): (i32, i32)| Rectangle::new([(x, y - 5), (x + 18, y + 5)], colour.filled());
        chart.draw_series(stretches)?.label(name).legend(legend);
    }
    for phi in [PHI_IDS_ONLY_BELOW, PHI_PRE_COPY_ABOVE] {
        chart.draw_series(LineSeries::new([(phi, 100.0), (phi, 30_000.0)], BLACK.stroke_width(2)))?;
    }
    let mut mesh = chart.configure_mesh();
    mesh.disable_mesh().x_desc("phi = b / p").y_desc("tokens of context").draw()?;
    let mut labels = chart.configure_series_labels();
    labels.background_style(WHITE).border_style(BLACK).position(SeriesLabelPosition::LowerRight).draw()?;
    Ok(())
}

type Edges = (f64, f64);

/// Columns of the figure, and rows that each is looked at.
const GRID: (u32, u32) = (80, 80);

/// The stretches of each column in which the same is worth most; none where nothing is worth anything.
fn cells(curve: &Every) -> impl Iterator<Item = (Edges, Edges, Option<Way>)> + '_ {
    let edge = |k: u32, of: u32, low: f64, high: f64| low * (high / low).powf(f64::from(k) / f64::from(of));
    (0..GRID.0).flat_map(move |column| {
        let x = (edge(column, GRID.0, 0.05, 20.0), edge(column + 1, GRID.0, 0.05, 20.0));
        let y = |row| edge(row, GRID.1, 100.0, 30_000.0);
        let rows: Vec<_> =
            (0..GRID.1).map(|row| (row, best_way(curve, (x.0 * x.1).sqrt(), (y(row) * y(row + 1)).sqrt()))).collect();
        let runs = rows.chunk_by(|a, b| a.1 == b.1).map(|run| (y(run[0].0), y(run[0].0 + run.len() as u32), run[0].1));
        runs.map(|(low, high, best)| (x, (low, high), best)).collect::<Vec<_>>()
    })
}

fn best_way(curve: &Every, phi: f64, context_tokens: f64) -> Option<Way> {
    let (overheads, prices) = (Overheads::default(), Prices::default());
    let route = Route {
        context_tokens,
        decode_tps: RATES.decode_tps,
        prefill_tps: RATES.prefill_tps,
        kv_tps: phi * RATES.prefill_tps,
        kv_bytes_per_token: RATES.kv_bytes_per_token,
        round_trip_s: 0.005,
        round_s: 0.05,
    };
    let remainder = Remainder { residual: Residual::exactly(600), decode_tps: route.decode_tps, begins_s: 0.0 };
    let rebuild = Rebuild { prefill_tps: route.prefill_tps, decode_tps: route.decode_tps, wait_s: 0.0 };
    let stakes = Stakes {
        remainder: &remainder,
        departures: &DepartureCurve::new(&Hazard { curve, age_s: 0.0 }, remainder.horizon_s()),
        cold: Takeover::cold(context_tokens, route.decode_tps, &rebuild, prices.move_loss_s, &overheads),
        fixed: Fixed { is_announced: false, sigma_s: prices.move_loss_s, overheads: &overheads },
        outlasts: 1.0,
        utilisation: 0.0,
        prices: &prices,
    };
    let worth_s = |preparation: &Preparation| stakes.worth_s(&route, preparation);
    preparation_worth_most(&route, &overheads, worth_s).filter(|best| worth_s(best) > 0.0).map(|best| best.way)
}
