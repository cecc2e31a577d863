//! How much of a KV cache must come, and by when: a holder that brings less than the ids would make is given up. Pure: time
//! is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// Over how long it is looked at what comes, where somebody waits for the first token; and from the start to the first bytes,
/// opening a stream included. A holder that stands still is given up well before an origin gives us up.
const WANTED: Duration = Duration::from_secs(1);

/// The same for a standby, whose origin is in no hurry.
const OPTION: Duration = Duration::from_secs(2);

/// A holder gives a chunk between two of its steps. One whose steps are slow gets the time of so many of them,
const STEPS: u32 = 2;

/// but no more than this: whoever waits could have made some of the context meanwhile.
const WANTED_MAX: Duration = Duration::from_secs(4);

/// The same for a standby.
const OPTION_MAX: Duration = Duration::from_secs(12);

/// What a link may bring of what prefilling would make, before it is of no use.
const LEAST_SHARE: f64 = 0.25;

/// A deadline, and how many bytes had come when it was set.
#[derive(Debug, Clone, Copy)]
struct Window {
    until: Instant,
    mark: u64,
}

/// The holder's time. It runs while something is owed, and begins anew with an answer or when it is over and enough has come:
/// never because of what else happens.
#[derive(Debug)]
pub(super) struct Pace {
    length: Duration,
    step: Duration,
    /// For opening a stream: its agent does that, whatever its engine does.
    opening: Duration,
    least_bytes: f64,
    window: Option<Window>,
}

impl Pace {
    /// Of a pull that begins `now`, into a peer that would make `made_bytes_per_s` of KV cache from the ids, out of one whose
    /// steps take as long as `step`.
    pub(super) fn new(now: Instant, is_waited_for: bool, made_bytes_per_s: f64, step: Duration) -> Self {
        let (length, opening) = times(step, is_waited_for);
        let least_bytes = made_bytes_per_s * WANTED.as_secs_f64() * LEAST_SHARE;
        Self { length, step, opening, least_bytes, window: Some(Window { until: now + length, mark: 0 }) }
    }

    /// Somebody waits for the first token from here on.
    pub(super) fn hasten(&mut self, now: Instant) {
        (self.length, self.opening) = times(self.step, true);
        if let Some(window) = &mut self.window {
            window.until = window.until.min(now + self.length);
        }
    }

    /// How long a stream that is opened now may take.
    pub(super) fn opens_until(&self, now: Instant) -> Instant {
        let opening = now + self.opening;
        self.until().map_or(opening, |until| until.min(opening))
    }

    /// Something is owed, and `received` bytes have come in all.
    pub(super) fn owe(&mut self, now: Instant, received: u64) {
        self.window.get_or_insert(Window { until: now + self.length, mark: received });
    }

    /// Nothing is owed.
    pub(super) fn rest(&mut self) {
        self.window = None;
    }

    /// A pull was answered, or a stream that had brought something is opened again.
    pub(super) fn begin_anew(&mut self, now: Instant, received: u64) {
        self.window = Some(Window { until: now + self.length, mark: received });
    }

    /// When to look whether enough has come; none while nothing is owed.
    pub(super) fn until(&self) -> Option<Instant> {
        self.window.map(|window| window.until)
    }

    /// Looks, at the deadline: false where too little has come. Else the next window begins.
    pub(super) fn is_kept(&mut self, now: Instant, received: u64) -> bool {
        let came = self.window.map_or(0, |window| received.saturating_sub(window.mark));
        let is_enough = came > 0 && came as f64 >= self.least_bytes;
        if is_enough {
            self.begin_anew(now, received);
        }
        is_enough
    }
}

/// For what is owed by a holder of such steps, and for opening a stream.
fn times(step: Duration, is_waited_for: bool) -> (Duration, Duration) {
    let (least, most) = if is_waited_for { (WANTED, WANTED_MAX) } else { (OPTION, OPTION_MAX) };
    (step.saturating_mul(STEPS).clamp(least, most), least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A step of a small model.
    const QUICK: Duration = Duration::from_millis(20);

    #[test]
    fn a_holder_of_slow_steps_gets_the_time_of_two_within_bounds() {
        let now = Instant::now();
        let length_ms = |is_waited_for, step_ms| {
            let pace = Pace::new(now, is_waited_for, 100.0, MS * step_ms);
            (pace.until().unwrap() - now).as_millis()
        };
        let lengths =
            [0, 400, 1500, 3000, 600_000].map(|step_ms| (length_ms(true, step_ms), length_ms(false, step_ms)));
        assert_eq!(lengths, [(1000, 2000), (1000, 2000), (3000, 3000), (4000, 6000), (4000, 12_000)]);
        let slow = Pace::new(now, false, 100.0, MS * 3000);
        assert_eq!(slow.opens_until(now), now + OPTION, "its agent is as quick as any");
        assert_eq!(slow.opens_until(now + 5000 * MS), now + 6000 * MS);
    }

    #[test]
    fn a_holder_has_less_time_once_somebody_waits() {
        let now = Instant::now();
        let mut pace = Pace::new(now, false, 100.0, MS * 3000);
        assert_eq!(pace.until(), Some(now + 6000 * MS));
        pace.hasten(now + 500 * MS);
        assert_eq!((pace.until(), pace.opens_until(now)), (Some(now + 4500 * MS), now + WANTED));
        pace.hasten(now + 900 * MS);
        assert_eq!(pace.until(), Some(now + 4500 * MS), "to be asked again wins no time");
    }

    #[test]
    fn the_first_bytes_have_a_deadline_from_the_start_on() {
        let now = Instant::now();
        assert_eq!(Pace::new(now, true, 100.0, QUICK).until(), Some(now + WANTED));
        let mut pace = Pace::new(now, false, 100.0, QUICK);
        pace.owe(now + 1900 * MS, 0);
        assert_eq!(pace.until(), Some(now + OPTION), "to ask wins no time");
        assert!(!pace.is_kept(now + OPTION, 24));
        assert!(pace.is_kept(now + OPTION, 25));
    }

    #[test]
    fn whoever_dribbles_is_given_up_and_whoever_keeps_up_goes_on() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now, true, 4000.0, QUICK);
        for second in 1..10 {
            now = pace.until().unwrap();
            pace.owe(now, second * 1000);
            assert!(pace.is_kept(now, second * 1000));
        }
        now = pace.until().unwrap();
        assert!(!pace.is_kept(now, 9_999));
        assert!(!Pace::new(now, true, 0.0, QUICK).is_kept(now, 0), "nothing is too little, whatever the rate");
    }

    #[test]
    fn an_answer_and_a_pause_without_debts_begin_it_anew() {
        let now = Instant::now();
        let mut pace = Pace::new(now, true, 4000.0, QUICK);
        pace.begin_anew(now + 400 * MS, 500);
        assert_eq!(pace.until(), Some(now + 400 * MS + WANTED));
        assert!(!pace.is_kept(now + 1400 * MS, 1000), "what came before does not count");
        pace.rest();
        assert_eq!(pace.until(), None);
        pace.owe(now + 5000 * MS, 1000);
        assert_eq!(pace.until(), Some(now + 6000 * MS));
    }
}
