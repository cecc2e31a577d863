//! Whether a peer is alive: when to ping it, how long its silence may last, how long its round trip is.
//!
//! Pure: time is an argument. Any frame from the peer is a sign of life; pongs give the round trip as well. A gap in
//! our own clock (we were stopped, or had no processor) is not held against the peer.
//!
//! A peer that has just said something need not be asked: where both ends ask, one of them soon leaves it to the other, and
//! an idle link carries half the packets. It still asks now and then, to know the round trip.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

/// Between two pings.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);

/// A ping that is due so soon after the peer was heard is left out. The next one is due half of this later than the peer's
/// own next ping, which then comes in time to make it needless, too.
const JUST_HEARD: Duration = Duration::from_millis(250);

/// Pings left out in a row: a round trip is measured every few seconds.
const LEFT_OUT_MAX: u32 = 7;

/// The shortest silence that counts as a departure: two lost pings and some.
pub(crate) const MIN_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The longest, however slow the link was.
const MAX_TIMEOUT: Duration = Duration::from_secs(10);

/// Silence that is allowed to a peer under suspicion (one of its connections closed), at least.
const MIN_PROOF: Duration = Duration::from_millis(500);

/// Round trips that are remembered: about a minute of them.
const REMEMBERED: usize = 128;

/// Round trips of which the slowest counts.
const FEW: usize = 4;

/// Pings that may be without an answer and still give a round trip.
const MAX_OUTSTANDING: usize = 16;

/// A poll that comes this much later than it was due means that we did not run.
const STALL: Duration = Duration::from_millis(400);

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beat {
    /// Send a ping.
    Ping(u64),
    /// The peer is gone; nothing was heard from it for this long.
    Silent(Duration),
    /// Nothing until [`Heartbeat::due`].
    Wait,
}

/// One peer's heartbeat.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    heard: Instant,
    next_ping: Instant,
    /// Under suspicion: it must be heard from after the first, and before the second.
    proof: Option<(Instant, Instant)>,
    /// Pings left out since the last one.
    left_out: u32,
    next_nonce: u64,
    outstanding: VecDeque<(u64, Instant)>,
    round_trips: VecDeque<Duration>,
}

impl Heartbeat {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            heard: now,
            next_ping: now,
            proof: None,
            left_out: 0,
            next_nonce: 0,
            outstanding: VecDeque::new(),
            round_trips: VecDeque::new(),
        }
    }

    /// When to poll next.
    pub(crate) fn due(&self) -> Instant {
        let proof = self.proof.map_or(self.next_ping, |(_, until)| until);
        self.next_ping.min(self.heard + self.timeout()).min(proof)
    }

    /// What is to be done at `now`. To be called until it says wait.
    pub(crate) fn poll(&mut self, now: Instant) -> Beat {
        let late = now.saturating_duration_since(self.due());
        if late > STALL {
            self.forgive(now, late);
        }
        let silence = now.saturating_duration_since(self.heard);
        if silence >= self.timeout() || self.proof.is_some_and(|(_, until)| now >= until) {
            return Beat::Silent(silence);
        }
        if now < self.next_ping {
            return Beat::Wait;
        }
        if self.may_leave_out(silence) {
            self.left_out += 1;
            self.next_ping = self.heard + INTERVAL + JUST_HEARD / 2;
            return Beat::Wait;
        }
        Beat::Ping(self.ping(now))
    }

    /// Whether nothing is gained by a ping now.
    fn may_leave_out(&self, silence: Duration) -> bool {
        let is_measured = !self.round_trips.is_empty();
        is_measured && self.proof.is_none() && silence < JUST_HEARD && self.left_out < LEFT_OUT_MAX
    }

    /// Something came from the peer.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// A pong came. Only one that answers a ping sent under suspicion clears it: older bytes may have been on their way
    /// when the peer died.
    pub(crate) fn pong(&mut self, nonce: u64, now: Instant) -> bool {
        let Some(at) = self.outstanding.iter().position(|(sent, _)| *sent == nonce) else { return false };
        let Some((_, sent_at)) = self.outstanding.drain(..=at).next_back() else { return false };
        self.round_trips.push_back(now.saturating_duration_since(sent_at));
        if self.round_trips.len() > REMEMBERED {
            self.round_trips.pop_front();
        }
        let proven = self.proof.is_some_and(|(since, _)| sent_at >= since);
        if proven {
            self.proof = None;
        }
        proven
    }

    /// Demands a sign of life, soon: at the next poll a ping goes out, and its answer must come within `limit` (or the
    /// time that four of the slowest round trips take).
    pub(crate) fn suspect(&mut self, now: Instant, limit: Option<Duration>) {
        let limit = limit.unwrap_or_else(|| MIN_PROOF.max(4 * self.slowest()));
        let until = now + limit;
        self.next_ping = now;
        self.proof = Some(match self.proof {
            Some((since, earlier)) if earlier < until => (since, earlier),
            Some(_) | None => (now, until),
        });
    }

    /// How long silence may last: max(1.5 s, 4 x the 99th percentile of round trips, or of the second slowest of few).
    pub(crate) fn timeout(&self) -> Duration {
        (4 * self.slowest()).clamp(MIN_TIMEOUT, MAX_TIMEOUT)
    }

    /// The median round trip.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        let mut sorted: Vec<_> = self.round_trips.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }

    /// The slowest round trip but one: the 99th percentile of 128 samples. A machine that starts an agent answers late now and
    /// then: of fewer samples, too, one that is late is an accident, and two are what the link is like.
    fn slowest(&self) -> Duration {
        let mut two = [Duration::ZERO; 2];
        for &round_trip in &self.round_trips {
            if round_trip > two[0] {
                two = [round_trip, two[0]];
            } else if round_trip > two[1] {
                two[1] = round_trip;
            }
        }
        if self.round_trips.len() > FEW { two[1] } else { two[0] }
    }

    fn ping(&mut self, now: Instant) -> u64 {
        let nonce = self.next_nonce;
        self.next_nonce += 1;
        self.left_out = 0;
        self.next_ping = now + INTERVAL;
        self.outstanding.push_back((nonce, now));
        if self.outstanding.len() > MAX_OUTSTANDING {
            self.outstanding.pop_front();
        }
        nonce
    }

    /// We did not run for `late`: the peer gets that time back, and a ping before it is judged.
    fn forgive(&mut self, now: Instant, late: Duration) {
        self.heard = (self.heard + late).min(now);
        self.proof = self.proof.map(|(since, until)| (since, until + late));
        self.next_ping = self.next_ping.min(now);
        self.heard = self.heard.max(now.checked_sub(self.timeout().saturating_sub(INTERVAL)).unwrap_or(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Polls every 50 ms and answers pings after `round_trip` until `dies`; gives when it is declared silent.
    fn run(round_trip: Duration, dies: Duration, ends: Duration) -> Option<Duration> {
        let start = Instant::now();
        let mut heartbeat = Heartbeat::new(start);
        let mut pongs: VecDeque<(Instant, u64)> = VecDeque::new();
        let mut now = start;
        while now < start + ends {
            while let Some((_, nonce)) = pongs.pop_front_if(|(at, _)| *at <= now) {
                heartbeat.heard(now);
                heartbeat.pong(nonce, now);
            }
            match heartbeat.poll(now) {
                Beat::Ping(nonce) if now + round_trip < start + dies => pongs.push_back((now + round_trip, nonce)),
                Beat::Ping(_) | Beat::Wait => {}
                Beat::Silent(_) => return Some(now - start),
            }
            now += 50 * MS;
        }
        None
    }

    #[test]
    fn a_dead_peer_is_noticed_within_two_seconds_and_a_live_one_never() {
        for (round_trip_ms, dies_s, latest_s) in [(1, 5, 7), (20, 5, 7), (200, 20, 22)] {
            let dies = Duration::from_secs(dies_s);
            let noticed = run(round_trip_ms * MS, dies, dies + 20 * Duration::from_secs(1)).unwrap();
            assert!(noticed > dies && noticed <= Duration::from_secs(latest_s), "{round_trip_ms} ms: {noticed:?}");
        }
        assert_eq!(run(200 * MS, Duration::from_secs(100), Duration::from_secs(90)), None);
    }

    #[test]
    fn of_two_ends_one_asks_and_the_other_listens_and_both_know_the_round_trip() {
        let start = Instant::now();
        let mut ends = [Heartbeat::new(start), Heartbeat::new(start + 130 * MS)];
        let (mut pings, mut longest) = ([0, 0], Duration::ZERO);
        for at in 0..60_000 {
            let now = start + at * MS;
            for (asks, hears) in [(0, 1), (1, 0)] {
                let [one, other] = ends.get_disjoint_mut([asks, hears]).unwrap();
                match one.poll(now) {
                    Beat::Ping(nonce) => {
                        pings[asks] += 1;
                        longest = longest.max(now.saturating_duration_since(other.heard));
                        other.heard(now);
                        one.heard(now);
                        one.pong(nonce, now);
                    }
                    Beat::Wait => {}
                    Beat::Silent(silence) => panic!("silent for {silence:?} at {at}"),
                }
            }
        }
        assert!(pings.iter().sum::<u32>() < 150, "{pings:?} of 240");
        assert!(pings.iter().all(|&pings| pings > 10), "{pings:?}");
        assert!(longest <= INTERVAL + JUST_HEARD / 2, "{longest:?}");
    }

    #[test]
    fn a_slow_link_gets_four_of_its_round_trips() {
        let now = Instant::now();
        let mut heartbeat = Heartbeat::new(now);
        assert_eq!(heartbeat.timeout(), MIN_TIMEOUT);
        let Beat::Ping(nonce) = heartbeat.poll(now) else { panic!("the first poll pings") };
        heartbeat.pong(nonce, now + 900 * MS);
        assert_eq!(heartbeat.timeout(), 3_600 * MS);
        assert_eq!(heartbeat.round_trip(), Some(900 * MS));
    }

    #[test]
    fn one_outlier_in_a_minute_does_not_slow_detection() {
        let mut now = Instant::now();
        let mut heartbeat = Heartbeat::new(now);
        for n in 0..REMEMBERED {
            let Beat::Ping(nonce) = heartbeat.poll(now) else { panic!("a ping is due") };
            let round_trip = if n == 100 { 2_000 } else { 5 };
            heartbeat.heard(now);
            heartbeat.pong(nonce, now + round_trip * MS);
            now += INTERVAL;
        }
        assert_eq!(heartbeat.timeout(), MIN_TIMEOUT);
    }

    #[test]
    fn one_late_answer_at_the_start_does_not_slow_detection_and_two_do() {
        let mut now = Instant::now();
        let mut heartbeat = Heartbeat::new(now);
        for n in 0..=FEW {
            let Beat::Ping(nonce) = heartbeat.poll(now) else { panic!("a ping is due") };
            heartbeat.heard(now);
            heartbeat.pong(nonce, now + if n == 1 { 900 } else { 5 } * MS);
            now += INTERVAL;
            let few = if n == 0 { MIN_TIMEOUT } else { 3_600 * MS };
            assert_eq!(heartbeat.timeout(), if n < FEW { few } else { MIN_TIMEOUT }, "after {n}");
        }
        let Beat::Ping(nonce) = heartbeat.poll(now) else { panic!("a ping is due") };
        heartbeat.pong(nonce, now + 800 * MS);
        assert_eq!(heartbeat.timeout(), 3_200 * MS);
    }

    #[test]
    fn our_own_sleep_is_not_the_peers_silence() {
        let now = Instant::now();
        let mut heartbeat = Heartbeat::new(now);
        assert!(matches!(heartbeat.poll(now), Beat::Ping(_)));
        let woken = now + Duration::from_mins(1);
        assert!(matches!(heartbeat.poll(woken), Beat::Ping(_)), "it is asked first");
        assert_eq!(heartbeat.poll(woken), Beat::Wait);
        assert!(matches!(heartbeat.poll(woken + INTERVAL), Beat::Ping(_)));
        assert!(matches!(heartbeat.poll(woken + 2 * INTERVAL), Beat::Silent(_)), "but it must answer");
    }

    #[test]
    fn a_suspect_must_answer_a_ping_sent_after_the_suspicion() {
        let now = Instant::now();
        let mut heartbeat = Heartbeat::new(now);
        let Beat::Ping(before) = heartbeat.poll(now) else { panic!("the first poll pings") };
        heartbeat.suspect(now + 10 * MS, None);
        let Beat::Ping(after) = heartbeat.poll(now + 10 * MS) else { panic!("a suspect is pinged at once") };
        assert!(!heartbeat.pong(before, now + 20 * MS));
        assert!(heartbeat.pong(after, now + 30 * MS));
        assert_eq!(heartbeat.poll(now + 600 * MS), Beat::Ping(2));

        heartbeat.suspect(now + 700 * MS, None);
        heartbeat.poll(now + 700 * MS);
        assert!(matches!(heartbeat.poll(now + 1_200 * MS), Beat::Silent(_)));
    }
}
