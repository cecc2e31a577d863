//! How much of a context may be on its way: as much as the link takes, and a little more, but not what only makes others wait.
//!
//! Pure: time is an argument. The destination says now and then how much has come. From when a byte was written to when it
//! was known to have come is the delay; what it is above the least one seen is a queue, somewhere on the way. The window of
//! bytes on their way grows while that queue is shorter than [`TARGET`] and shrinks while it is longer (the idea of LEDBAT,
//! RFC 6817). TCP beneath does the rest: loss, and fairness where it loses.
//!
//! A queue that is never empty means that the link is never idle: this costs no share of the link, and works without knowing
//! how fast it is. It yields to whatever else fills the queue.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use crate::ContextFault;

/// The queue that is aimed at. Above what timers and busy processors add by chance, well below what a person notices in a
/// stream of tokens.
const TARGET: Duration = Duration::from_millis(25);

/// The first window: 13 ms of a link of 20 Mbit/s.
const FIRST_WINDOW: u64 = 32 * 1024;

/// Never less: a link of 5 Mbit/s is still filled.
const MIN_WINDOW: u64 = 16 * 1024;

/// Never more: 1 Gbit/s over a quarter of the earth (100 ms).
const MAX_WINDOW: u64 = 16 * 1024 * 1024;

/// Writes that are remembered. Beyond it, two count as one.
const MAX_MARKS: usize = 1024;

/// Bytes written at once, at least if there is room and at most: a quarter of the window, since a piece is as long under way
/// as it takes to send all of it.
const MIN_PIECE: u64 = 4 * 1024;
const MAX_PIECE: u64 = 256 * 1024;

/// How much of the way to the target is gone in one round trip.
const GAIN: f64 = 0.5;

/// A link whose rate grows so much from one round to the next is not filled yet.
const GROWTH: f64 = 1.25;

/// How much of a context may be on its way.
#[derive(Debug)]
pub(super) struct Pacer {
    window: u64,
    sent: u64,
    received: u64,
    /// How much had been sent when, for what has not come yet.
    marks: VecDeque<(u64, Instant)>,
    /// The least delay seen.
    base: Option<Duration>,
    round: Round,
    /// Until the first queue, the window doubles.
    is_starting: bool,
    /// Bytes a second that came in the round before, as long as that lasts.
    last_rate: Option<f64>,
}

/// From one change of the window to the next: about a round trip.
#[derive(Debug, Default)]
struct Round {
    /// It ends when this much has come.
    ends: u64,
    /// When it began, and how much had come by then.
    begun: Option<(Instant, u64)>,
    /// The least delay in it: single late answers are chance.
    delay: Option<Duration>,
    /// The window was all used.
    was_full: bool,
}

impl Round {
    /// Bytes a second that came in it; none of the first.
    fn rate(&self, received: u64, now: Instant) -> Option<f64> {
        let (begun, before) = self.begun?;
        let elapsed = now.saturating_duration_since(begun).max(Duration::from_micros(1));
        Some((received - before) as f64 / elapsed.as_secs_f64())
    }
}

impl Pacer {
    /// With the least round trip of heartbeats to this peer, if known: a queue that is there already is none of the link.
    pub(super) fn new(round_trip: Option<Duration>) -> Self {
        Self {
            window: FIRST_WINDOW,
            sent: 0,
            received: 0,
            marks: VecDeque::new(),
            base: round_trip,
            round: Round::default(),
            is_starting: true,
            last_rate: None,
        }
    }

    /// How many bytes may be written now; 0 is to wait for the destination.
    pub(super) fn room(&mut self) -> usize {
        let room = self.window.saturating_sub(self.in_flight());
        self.round.was_full |= room == 0;
        let piece = (self.window / 4).clamp(MIN_PIECE, MAX_PIECE);
        usize::try_from(room.min(piece)).unwrap_or(usize::MAX)
    }

    /// Bytes that are on their way.
    pub(super) fn in_flight(&self) -> u64 {
        self.sent - self.received
    }

    /// Bytes were written.
    pub(super) fn sent(&mut self, bytes: usize, now: Instant) {
        self.sent += bytes as u64;
        let is_full = self.marks.len() >= MAX_MARKS;
        match self.marks.back_mut() {
            Some((sent, _)) if is_full => *sent = self.sent,
            Some(_) | None => self.marks.push_back((self.sent, now)),
        }
    }

    /// The destination has `total` bytes.
    pub(super) fn received(&mut self, total: u64, now: Instant) -> Result<(), ContextFault> {
        if total < self.received || total > self.sent {
            return Err(ContextFault::WrongCount);
        }
        self.received = total;
        let mut written_at = None;
        while let Some((_, at)) = self.marks.pop_front_if(|(sent, _)| *sent <= total) {
            written_at = Some(at);
        }
        if let Some(at) = written_at {
            let delay = now.saturating_duration_since(at);
            self.base = Some(self.base.map_or(delay, |base| base.min(delay)));
            self.round.delay = Some(self.round.delay.map_or(delay, |least| least.min(delay)));
        }
        if total >= self.round.ends {
            self.end_round(now);
        }
        Ok(())
    }

    fn end_round(&mut self, now: Instant) {
        let next = Round { ends: self.sent + 1, begun: Some((now, self.received)), ..Round::default() };
        let round = core::mem::replace(&mut self.round, next);
        let (Some(base), Some(delay)) = (self.base, round.delay) else { return };
        let queue = delay.saturating_sub(base);
        if self.is_starting && queue < self.start_queue(&round, base, now) {
            self.window = if round.was_full { (2 * self.window).min(MAX_WINDOW) } else { self.window };
            return;
        }
        let off = (1.0 - queue.as_secs_f64() / TARGET.as_secs_f64()).max(-1.0);
        if core::mem::take(&mut self.is_starting) || queue > 2 * TARGET {
            self.fit(&round, base, now);
            return;
        }
        if off > 0.0 && !round.was_full {
            return;
        }
        // The window's share that is in the queue and not on the wire: only that changes the queue.
        let share = TARGET.as_secs_f64() / (TARGET + base).as_secs_f64();
        let window = self.window as f64 * (1.0 + GAIN * off * share);
        self.window = (window as u64).clamp(MIN_WINDOW, MAX_WINDOW);
    }

    /// The queue that ends the start. On a long way TCP's own start holds back what is written, by a round trip or so: that is no
    /// queue of the link's as long as more and more comes.
    fn start_queue(&mut self, round: &Round, base: Duration, now: Instant) -> Duration {
        let rate = round.rate(self.received, now);
        let grows = rate.zip(self.last_rate).is_none_or(|(rate, before)| rate > GROWTH * before);
        self.last_rate = rate.or(self.last_rate);
        if grows { (TARGET / 2).max(base + base / 4) } else { TARGET / 2 }
    }

    /// The window was far too large (it doubled too often, or others came): what comes in a round says what would do.
    fn fit(&mut self, round: &Round, base: Duration, now: Instant) {
        let Some(rate) = round.rate(self.received, now) else { return };
        let window = rate * (base + TARGET / 2).as_secs_f64();
        self.window = (window as u64).min(self.window).clamp(MIN_WINDOW, MAX_WINDOW);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_micros(250);

    /// Steps of a second.
    const A_SECOND: usize = 4_000;

    /// A link with a queue that loses nothing, and a destination that reports every 4 ms.
    struct Link {
        bytes_per_step: f64,
        /// What waits at the link's beginning.
        queue: f64,
        /// Of that, what is of others and stays.
        others: f64,
        came: f64,
        /// What had come by each of the last steps, as far back as a round trip.
        history: VecDeque<f64>,
    }

    impl Link {
        fn new(bytes_per_s: f64, round_trip: Duration) -> Self {
            let steps = (round_trip.as_micros() / STEP.as_micros()) as usize;
            let history = VecDeque::from(vec![0.0; steps.max(1)]);
            Self { bytes_per_step: bytes_per_s / A_SECOND as f64, queue: 0.0, others: 0.0, came: 0.0, history }
        }

        /// One step; gives what the holder hears of.
        fn step(&mut self) -> f64 {
            let served = self.queue.min(self.bytes_per_step * self.queue / (self.queue + self.others).max(1.0));
            self.queue -= served;
            self.came += served;
            self.history.push_back(self.came);
            self.history.pop_front().unwrap_or_default()
        }

        fn queue_ms(&self) -> f64 {
            (self.queue + self.others) / self.bytes_per_step / 4.0
        }
    }

    /// What became of a transfer: the share of the link that was used, and the longest queue.
    #[derive(Debug)]
    struct Outcome {
        share: f64,
        queue_ms: f64,
    }

    /// Sends what the pacer lets it, in pieces as a multiplexer makes them.
    fn send(pacer: &mut Pacer, link: &mut Link, now: Instant) {
        loop {
            let piece = pacer.room().min(16 * 1024);
            if piece == 0 {
                return;
            }
            pacer.sent(piece, now);
            link.queue += piece as f64;
        }
    }

    /// Lets a pacer send for `seconds`, and judges what came after the first.
    fn run(pacer: &mut Pacer, link: &mut Link, seconds: usize) -> Outcome {
        let start = Instant::now();
        let (mut came_before, mut queue_ms) = (0.0, 0.0_f64);
        for step in 0..seconds * A_SECOND {
            let now = start + STEP * step as u32;
            send(pacer, link, now);
            let heard = link.step();
            if step % 16 == 0 {
                pacer.received(heard as u64, now).unwrap();
            }
            if step == A_SECOND {
                came_before = link.came;
            }
            if step > A_SECOND {
                queue_ms = queue_ms.max(link.queue_ms());
            }
        }
        let could = link.bytes_per_step * ((seconds - 1) * A_SECOND) as f64;
        Outcome { share: (link.came - came_before) / could, queue_ms }
    }

    #[test]
    fn any_link_is_used_and_its_queue_stays_short() {
        for mbit_per_s in [5.0, 20.0, 100.0, 1_000.0] {
            for round_trip_ms in [0, 1, 5, 30] {
                let mut link = Link::new(mbit_per_s * 125_000.0, Duration::from_millis(round_trip_ms));
                let outcome = run(&mut Pacer::new(None), &mut link, 8);
                let what = format!("{mbit_per_s} Mbit/s, {round_trip_ms} ms: {outcome:?}");
                assert!(outcome.share > 0.95, "{what}");
                assert!(outcome.queue_ms < 50.0, "{what}");
            }
        }
    }

    #[test]
    fn a_gigabit_is_reached_within_a_tenth_of_a_second() {
        let mut link = Link::new(125e6, Duration::from_millis(1));
        let (mut pacer, start) = (Pacer::new(None), Instant::now());
        for step in 0..A_SECOND / 10 {
            let now = start + STEP * step as u32;
            send(&mut pacer, &mut link, now);
            let heard = link.step();
            if step % 16 == 0 {
                pacer.received(heard as u64, now).unwrap();
            }
        }
        assert!(link.came > 0.8 * 12.5e6, "{}", link.came);
    }

    #[test]
    fn a_long_way_is_filled_soon_though_its_first_answers_are_late() {
        let base = Duration::from_millis(80);
        let (mut pacer, mut now) = (Pacer::new(Some(base)), Instant::now());
        // What TCP's own start adds, and then a link that is filled.
        for late_ms in [12, 60, 60, 40, 5, 2] {
            while let room @ 1.. = pacer.room() {
                pacer.sent(room, now);
            }
            now += base + Duration::from_millis(late_ms);
            pacer.received(pacer.sent, now).unwrap();
        }
        assert_eq!(pacer.window, 64 * FIRST_WINDOW);
        while let room @ 1.. = pacer.room() {
            pacer.sent(room, now);
        }
        now += 2 * base;
        pacer.received(pacer.sent, now).unwrap();
        assert!(pacer.window < 64 * FIRST_WINDOW, "twice as much at the same rate: {}", pacer.window);
    }

    #[test]
    fn it_yields_to_others_who_fill_the_queue() {
        let mut link = Link::new(2.5e6, Duration::from_millis(1));
        let mut pacer = Pacer::new(None);
        run(&mut pacer, &mut link, 3);
        let alone = pacer.window;
        link.others = 2.5e6 * 0.08;
        run(&mut pacer, &mut link, 3);
        assert!(pacer.window < alone / 2, "{} of {alone}", pacer.window);
    }

    #[test]
    fn a_queue_that_is_there_before_is_none_of_the_link() {
        let mut link = Link::new(2.5e6, Duration::from_millis(1));
        link.others = 2.5e6 * 0.08;
        let mut pacer = Pacer::new(Some(Duration::from_millis(2)));
        run(&mut pacer, &mut link, 3);
        assert_eq!(pacer.window, MIN_WINDOW);
    }

    #[test]
    fn a_slow_agent_does_not_open_the_window() {
        let (mut pacer, start) = (Pacer::new(None), Instant::now());
        for n in 0..1_000 {
            pacer.sent(1_000, start + STEP * n);
            pacer.received(pacer.sent, start + STEP * n).unwrap();
        }
        assert_eq!(pacer.window, FIRST_WINDOW);
    }

    #[test]
    fn a_destination_that_miscounts_is_found_out() {
        let (mut pacer, now) = (Pacer::new(None), Instant::now());
        pacer.sent(1_000, now);
        assert_eq!(pacer.received(1_001, now), Err(ContextFault::WrongCount));
        assert_eq!(pacer.received(600, now), Ok(()));
        assert_eq!(pacer.received(599, now), Err(ContextFault::WrongCount));
        assert_eq!(pacer.in_flight(), 400);
    }

    #[test]
    fn a_destination_that_reports_nothing_costs_little() {
        let (mut pacer, now) = (Pacer::new(None), Instant::now());
        for _ in 0..100_000 {
            pacer.sent(1, now);
        }
        assert!(pacer.marks.len() <= MAX_MARKS);
        assert_eq!(pacer.room(), 0);
    }
}
