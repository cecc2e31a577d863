//! A program of the owner's: input at its screen wakes it, and it computes for a moment.

use std::hint::black_box;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_tests::desktop::Screen;
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{ChangeWindowAttributesAux, ConnectionExt, EventMask};
use x11rb::rust_connection::RustConnection;

/// What it computes at each input.
const WORK: Duration = Duration::from_millis(10);

/// Words that it goes over: 256 kB, more than the nearest cache holds. A power of two.
const WORDS: usize = 32 * 1024;

/// A task that does not come to its end by then is not slow, but stuck.
const DONE_WITHIN: Duration = Duration::from_secs(20);

/// How often [`WORK`] is measured before it is believed; the fastest counts.
const CALIBRATIONS: u32 = 20;

/// So much work: steps, not time, so that whoever is disturbed takes longer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work(u64);

impl Work {
    /// [`WORK`] on this machine, which has nothing else to do now.
    pub(crate) fn calibrated() -> Self {
        let mut memory = vec![0; WORDS];
        let steps = 1_000_000;
        let fastest = (0..CALIBRATIONS).map(|_| {
            let began = Instant::now();
            compute(steps, &mut memory);
            began.elapsed()
        });
        let fastest = fastest.min().unwrap_or(WORK).as_secs_f64();
        Self((steps as f64 * WORK.as_secs_f64() / fastest) as u64)
    }
}

fn compute(steps: u64, memory: &mut [u64]) {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = state as usize % WORDS;
        memory[at] = memory[at].wrapping_add(state);
    }
    black_box(memory);
}

/// Programs that all see the input of one screen.
pub(crate) struct Foreground {
    screen: Screen,
    done: Receiver<Instant>,
    programs: usize,
}

impl Foreground {
    /// So many of them. They end with the screen.
    pub(crate) fn start(programs: usize, work: Work) -> Result<Self> {
        let screen = Screen::start()?;
        let (finished, done) = sync_channel(programs);
        for _ in 0..programs {
            let connection = connect(screen.display())?;
            let finished = finished.clone();
            // Its error is that the screen is gone.
            thread::spawn(move || serve(&connection, work, &finished).ok());
        }
        Ok(Self { screen, done, programs })
    }

    /// How long each took from input on.
    pub(crate) fn respond(&mut self) -> Result<Vec<Duration>> {
        let began = self.screen.input()?;
        let mut took = Vec::with_capacity(self.programs);
        for _ in 0..self.programs {
            let done = self.done.recv_timeout(DONE_WITHIN).context("a program does not answer to input")?;
            took.push(done - began);
        }
        ensure!(self.done.try_recv().is_err(), "one input woke a program twice");
        Ok(took)
    }
}

/// Listens to the pointer, wherever on the screen it moves.
fn connect(display: &str) -> Result<RustConnection> {
    let (connection, number) = RustConnection::connect(Some(display)).context("connect to the X server")?;
    let root = connection.setup().roots.get(number).context("a screen")?.root;
    let motion = ChangeWindowAttributesAux::new().event_mask(EventMask::POINTER_MOTION);
    connection.change_window_attributes(root, &motion)?.check().context("listen to the pointer")?;
    Ok(connection)
}

/// Until the screen is gone.
fn serve(connection: &RustConnection, work: Work, finished: &SyncSender<Instant>) -> Result<()> {
    let mut memory = vec![0; WORDS];
    loop {
        connection.wait_for_event()?;
        compute(work.0, &mut memory);
        // What came of the same movement meanwhile is no other input.
        while connection.poll_for_event()?.is_some() {}
        finished.send(Instant::now())?;
    }
}
