//! How the time of decisions grows with the swarm, as a table: nearly linear is what it must be.
//!
//! All sizes are measured in turn, over and over, so that whatever disturbs the machine disturbs all of them; medians count.
//! `x` of a size is by how much the time for each went up from the size before, as the median over the turns: 1.0 is
//! linear growth of the whole.
#![expect(clippy::disallowed_types, reason = "what is measured here is time")]

mod instructions;
mod swarm;

use std::hint::black_box;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use idlewild_coordinator::coordinator::Coordinator;
use idlewild_coordinator::view::View;
use idlewild_protocol::Term;
use instructions::Instructions;
use swarm::{Numbers, leader_of, peer, question, run_round, view_of, view_of_twins};

/// Peers, and as many running requests.
const SIZES: [u64; 7] = [10, 30, 100, 300, 1000, 3000, 10_000];

/// Turns of which the medians count.
const TURNS: usize = 11;

/// Placements that are measured together.
const PLACEMENTS: u64 = 50;

/// What one measurement took.
#[derive(Debug, Clone, Copy)]
struct Sample {
    micros: f64,
    instructions: Option<u64>,
}

/// What is done at each size: answers how often.
type Work<'a> = dyn Fn(usize) -> u64 + 'a;

fn main() -> io::Result<()> {
    let mut counter = Instructions::new();
    let mut out = io::stdout().lock();
    match counter.why_not() {
        None => writeln!(out, "instructions: in user space, this thread")?,
        Some(why) => writeln!(out, "instructions: not counted, since the counter cannot be read here ({why})")?,
    }
    let views: Vec<View> = SIZES.into_iter().map(view_of).collect();
    let twins: Vec<View> = SIZES.into_iter().map(view_of_twins).collect();
    let leaders: Vec<Coordinator> = SIZES.into_iter().zip(&views).map(|(n, view)| leader_of(view, n)).collect();
    table(&mut out, &mut counter, "a placement over n peers", &|at| place_many(&views[at]))?;
    table(&mut out, &mut counter, "a placement over n peers that are alike", &|at| place_many(&twins[at]))?;
    table(&mut out, &mut counter, "a round over n peers and n running requests, for each", &|at| {
        black_box(run_round(&mut leaders[at].clone(), &views[at]));
        SIZES[at]
    })
}

fn place_many(view: &View) -> u64 {
    let (mut coordinator, mut numbers) = (Coordinator::default(), Numbers::new(1));
    for n in 0..PLACEMENTS {
        let now = Duration::from_secs(2) + Duration::from_millis(20 * n);
        black_box(coordinator.place(now, view, Term(1), peer(1), &question(&mut numbers, n)));
    }
    PLACEMENTS
}

fn table(out: &mut impl Write, counter: &mut Instructions, name: &str, work: &Work<'_>) -> io::Result<()> {
    let turns: Vec<Vec<Sample>> =
        (0..TURNS).map(|_| (0..SIZES.len()).map(|at| sample(counter, at, work)).collect()).collect();
    writeln!(out, "\n{name}\n{:>8} {:>12} {:>12} {:>8} {:>14}", "n", "us each", "us in all", "x", "instructions")?;
    for (at, n) in SIZES.into_iter().enumerate() {
        let each = median(turns.iter().map(|turn| turn[at].micros));
        let growth = (at > 0).then(|| median(turns.iter().map(|turn| turn[at].micros / turn[at - 1].micros)));
        let growth = growth.map_or_else(String::new, |growth| format!("{growth:.2}"));
        let counts: Vec<u64> = turns.iter().filter_map(|turn| turn[at].instructions).collect();
        let count = counts.iter().min().map_or_else(|| "-".to_owned(), u64::to_string);
        writeln!(out, "{n:>8} {each:>12.3} {:>12.1} {growth:>8} {count:>14}", each * n as f64)?;
    }
    Ok(())
}

/// Microseconds and instructions of one of what `work` does.
fn sample(counter: &mut Instructions, at: usize, work: &Work<'_>) -> Sample {
    counter.begin();
    let began = Instant::now();
    let times = work(at);
    let took = began.elapsed();
    let instructions = counter.end().map(|all| all / times);
    Sample { micros: took.as_secs_f64() * 1e6 / times as f64, instructions }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
