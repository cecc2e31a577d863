//! What the default model costs.
#![expect(clippy::disallowed_types, reason = "what is measured here is time")]

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use idlewild_coordinator::hazard::{Ending, Estimator, Frailty, Surroundings};
use idlewild_protocol::DepartureCause;

/// Peers of a swarm that is larger than most.
const PEERS: u32 = 10_000;

/// Sessions of each, of an hour each, one a day.
const SESSIONS: u32 = 10;

const HOUR_S: f64 = 3600.0;

/// Prints microseconds for a session (beginning and end), and for the expected rest of a live one.
pub(crate) fn print(out: &mut impl Write) -> io::Result<()> {
    let mut model = Frailty::default();
    let began = Instant::now();
    for (day, peer) in (0..SESSIONS).flat_map(|day| (0..PEERS).map(move |peer| (day, peer))) {
        let at_s = f64::from(day) * 24.0 * HOUR_S + f64::from(peer);
        model.begin(at_s, &peer, Some(0.0), at_home());
        model.end(at_s + HOUR_S, &peer, Ending::Departed(DepartureCause::OwnerReturned));
    }
    let session_us = micros(began) / f64::from(SESSIONS * PEERS);
    let now_s = f64::from(SESSIONS) * 24.0 * HOUR_S;
    (0..PEERS).for_each(|peer| model.begin(now_s, &peer, Some(0.0), at_home()));
    let began = Instant::now();
    let mut pieces = 0;
    for peer in 0..PEERS {
        let curve = model.curve(now_s + HOUR_S, &peer, HOUR_S);
        pieces += curve.len();
        black_box(curve.expected_remaining_s(0.0, 24.0 * HOUR_S));
    }
    let prediction_us = micros(began) / f64::from(PEERS);
    writeln!(
        out,
        "\nfrailty, {PEERS} peers: {session_us:.2} us a session, {prediction_us:.2} us a curve with its mean"
    )?;
    writeln!(out, "pieces of a curve of 24 h: {}", pieces / PEERS as usize)
}

fn at_home() -> Surroundings {
    Surroundings { week_offset_s: Some(0.0), ..Surroundings::default() }
}

fn micros(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e6
}
