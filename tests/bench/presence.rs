//! An owner who touches the mouse of a machine that works: when its engine stops, and when others know.

use anyhow::Result;
use idlewild_tests::desktop::{Reaction, World};
use idlewild_tests::in_lab;
use idlewild_tests::lab::can_have_desktop;

use crate::line;
use crate::sample::Sample;

const TRIALS: usize = 200;

pub(crate) fn run() -> Result<()> {
    if !can_have_desktop()? {
        return Ok(());
    }
    in_lab(|lab| {
        let reactions = World::new(lab)?.trials(TRIALS)?;
        let figure = |of: fn(&Reaction) -> f64| {
            let mut sample = Sample::default();
            for reaction in &reactions {
                sample.push(1000.0 * of(reaction));
            }
            format!("{:.1}, {:.1}, {:.1}", sample.median(), sample.quantile(0.99), sample.quantile(1.0))
        };
        let what = format!("input at an X screen, {TRIALS} trials");
        let stopped = figure(|reaction| reaction.stopped.as_secs_f64());
        line(&format!("{what}: engine stops (ms: p50, p99, most)"), &stopped, "p99 at most 100")?;
        let known = figure(|reaction| reaction.known.as_secs_f64());
        line("  another peer knows (ms: p50, p99, most)", &known, "p99 at most 1000")
    })
}
