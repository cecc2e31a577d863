//! The switch's decisions: which ports a frame goes to, whether it is lost, and when it arrives.
//!
//! Sans-I/O: frames and times come in by [`Switch::handle_frame`], and go out by [`Switch::poll_frame`];
//! [`Switch::poll_timeout`] says when to ask again. Chance comes from a seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::Path;

/// The longest that a frame waits for a wire of limited rate: a queue of 200 ms, then frames are dropped at its tail.
pub const MAX_BACKLOG: Duration = Duration::from_millis(200);

/// Most bytes under way on all ports; a second of 1 Gbit/s. More are dropped.
const MAX_BYTES: usize = 128 * 1024 * 1024;

/// An Ethernet address.
type Mac = [u8; 6];

/// A learning Ethernet switch whose ports have paths.
pub struct Switch {
    ports: Vec<Port>,
    /// Where an address was last seen.
    learnt: BTreeMap<Mac, usize>,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    under_way_bytes: usize,
    sequence: u64,
    random: StdRng,
    dropped: u64,
}

struct Port {
    path: Path,
    /// When the wire from the host is free again.
    up_free: Instant,
    /// When the wire to the host is free again.
    down_free: Instant,
    /// The last arrival at the host: no later frame arrives before it.
    last_arrival: Instant,
}

/// A frame that is still on its way. Ordered by arrival, then by when it was sent.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    arrives: Instant,
    sequence: u64,
    to: usize,
    frame: Vec<u8>,
}

impl Switch {
    /// A switch without ports.
    pub fn new(seed: u64) -> Self {
        Self {
            ports: Vec::new(),
            learnt: BTreeMap::new(),
            under_way: BinaryHeap::new(),
            under_way_bytes: 0,
            sequence: 0,
            random: StdRng::seed_from_u64(seed),
            dropped: 0,
        }
    }

    /// Adds a port; ports are numbered from 0.
    pub fn add_port(&mut self, now: Instant, path: Path) {
        self.ports.push(Port { path, up_free: now, down_free: now, last_arrival: now });
    }

    /// Changes a port's path for frames that come from now on.
    pub fn set_path(&mut self, port: usize, path: Path) {
        if let Some(port) = self.ports.get_mut(port) {
            port.path = path;
        }
    }

    /// Frames lost so far.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// A host sent a frame on `from`. Runts and frames of unknown ports are ignored.
    pub fn handle_frame(&mut self, now: Instant, from: usize, frame: &[u8]) {
        let (Some(to), Some(source)) = (mac(frame, 0), mac(frame, 6)) else { return };
        if from >= self.ports.len() {
            return;
        }
        self.learnt.insert(source, from);
        let Some(left) = self.cross_up(now, from, frame.len()) else {
            self.dropped += 1;
            return;
        };
        match self.learnt.get(&to).copied().filter(|_| !is_group(to)) {
            Some(port) if port == from => {}
            Some(port) => self.cross_down(left, port, frame),
            None => {
                (0..self.ports.len()).filter(|port| *port != from).for_each(|port| self.cross_down(left, port, frame));
            }
        }
    }

    /// The next frame that has arrived by `now`, and its port.
    pub fn poll_frame(&mut self, now: Instant) -> Option<(usize, Vec<u8>)> {
        self.under_way.peek().filter(|Reverse(next)| next.arrives <= now)?;
        let Reverse(arrived) = self.under_way.pop()?;
        self.under_way_bytes -= arrived.frame.len();
        Some((arrived.to, arrived.frame))
    }

    /// When the next frame arrives.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.under_way.peek().map(|Reverse(next)| next.arrives)
    }

    /// Takes a frame from a host to the switch: when it gets there, or none where it is lost.
    fn cross_up(&mut self, now: Instant, from: usize, bytes: usize) -> Option<Instant> {
        let delay = self.draw(from)?;
        let port = &mut self.ports[from];
        let sent = transmit(&mut port.up_free, now, port.path, bytes)?;
        Some(sent + delay)
    }

    /// Takes a frame from the switch to a host.
    fn cross_down(&mut self, at: Instant, to: usize, frame: &[u8]) {
        let bytes = frame.len();
        let room = self.under_way_bytes + bytes <= MAX_BYTES;
        let Some(delay) = self.draw(to).filter(|_| room) else {
            self.dropped += 1;
            return;
        };
        let port = &mut self.ports[to];
        let Some(sent) = transmit(&mut port.down_free, at, port.path, bytes) else {
            self.dropped += 1;
            return;
        };
        port.last_arrival = port.last_arrival.max(sent + delay);
        let arrives = port.last_arrival;
        self.sequence += 1;
        self.under_way_bytes += bytes;
        self.under_way.push(Reverse(UnderWay { arrives, sequence: self.sequence, to, frame: frame.to_vec() }));
    }

    /// The delay of one frame on a port's path; none where chance loses it.
    fn draw(&mut self, port: usize) -> Option<Duration> {
        let path = self.ports[port].path;
        if path.loss_ppm > 0 && self.random.random_range(0..1_000_000) < path.loss_ppm {
            return None;
        }
        let jitter = if path.jitter.is_zero() { 0.0 } else { self.random.random_range(0.0..1.0) };
        Some(path.delay + path.jitter.mul_f64(jitter))
    }
}

/// Puts a frame on a wire of limited rate: when its last byte has left, or none where the queue is full.
fn transmit(free: &mut Instant, now: Instant, path: Path, bytes: usize) -> Option<Instant> {
    let start = (*free).max(now);
    if start - now > MAX_BACKLOG {
        return None;
    }
    *free = start + path.occupies(bytes);
    Some(*free)
}

fn mac(frame: &[u8], at: usize) -> Option<Mac> {
    frame.get(at..at + 6)?.try_into().ok()
}

/// Broadcast or multicast.
fn is_group(address: Mac) -> bool {
    address[0] & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Mac = [2, 0, 0, 0, 0, 1];
    const B: Mac = [2, 0, 0, 0, 0, 2];
    const ALL: Mac = [0xff; 6];

    fn frame(to: Mac, from: Mac, bytes: usize) -> Vec<u8> {
        let mut frame = [to, from].concat();
        frame.resize(bytes, 0);
        frame
    }

    fn switch(ports: usize, path: Path) -> (Switch, Instant) {
        let (mut switch, now) = (Switch::new(7), Instant::now());
        (0..ports).for_each(|_| switch.add_port(now, path));
        (switch, now)
    }

    /// Every arrival until `until`, as (milliseconds since `start`, port).
    fn arrivals(switch: &mut Switch, start: Instant, until: Duration) -> Vec<(u128, usize)> {
        let mut seen = Vec::new();
        while let Some(at) = switch.poll_timeout().filter(|at| *at <= start + until) {
            let (port, _) = switch.poll_frame(at).unwrap();
            seen.push(((at - start).as_millis(), port));
        }
        seen
    }

    #[test]
    fn an_unknown_or_group_address_goes_to_all_others_and_a_learnt_one_to_its_port() {
        let (mut switch, now) = switch(3, Path::default());
        switch.handle_frame(now, 0, &frame(ALL, A, 60));
        assert_eq!(arrivals(&mut switch, now, Duration::ZERO), [(0, 1), (0, 2)]);
        switch.handle_frame(now, 1, &frame(A, B, 60));
        assert_eq!(arrivals(&mut switch, now, Duration::ZERO), [(0, 0)]);
        switch.handle_frame(now, 0, &frame(B, A, 60));
        assert_eq!(arrivals(&mut switch, now, Duration::ZERO), [(0, 1)]);
    }

    #[test]
    fn a_frame_takes_the_delays_of_both_paths() {
        let (mut switch, now) = switch(2, Path::delayed(Duration::from_millis(20)));
        switch.handle_frame(now, 0, &frame(ALL, A, 60));
        assert_eq!(switch.poll_frame(now + Duration::from_millis(39)), None);
        assert_eq!(arrivals(&mut switch, now, Duration::from_secs(1)), [(40, 1)]);
    }

    #[test]
    fn jitter_spreads_frames_and_keeps_their_order() {
        let path = Path { jitter: Duration::from_millis(30), ..Path::default() };
        let (mut switch, now) = switch(2, path);
        for number in 0..100_u8 {
            let mut sent = frame(ALL, A, 60);
            sent[20] = number;
            switch.handle_frame(now + Duration::from_millis(u64::from(number)), 0, &sent);
        }
        let (mut order, mut times) = (Vec::new(), Vec::new());
        while let Some(at) = switch.poll_timeout() {
            order.push(switch.poll_frame(at).unwrap().1[20]);
            times.push((at - now).as_millis());
        }
        assert!(order.is_sorted(), "{order:?}");
        assert!(times[0] < 60 && times.windows(2).any(|pair| pair[1] - pair[0] > 5), "{times:?}");
    }

    #[test]
    fn a_limited_wire_spaces_frames_and_drops_what_its_queue_cannot_hold() {
        // 100 frames of 1,000 bytes at 100 kB/s: 10 ms each on the way up, the same again on the way down.
        let (mut switch, now) = switch(2, Path { bytes_per_s: 100_000, ..Path::default() });
        (0..100).for_each(|_| switch.handle_frame(now, 0, &frame(ALL, A, 1000)));
        let seen = arrivals(&mut switch, now, Duration::from_secs(5));
        assert_eq!(seen[..3], [(20, 1), (30, 1), (40, 1)]);
        // 21 fit: the one that is being sent, and a queue of 200 ms.
        assert_eq!((seen.len(), switch.dropped()), (21, 79));
    }

    #[test]
    fn chance_loses_the_given_share() {
        let (mut switch, now) = switch(2, Path { loss_ppm: 100_000, ..Path::default() });
        (0..10_000).for_each(|_| switch.handle_frame(now, 0, &frame(ALL, A, 60)));
        let delivered = arrivals(&mut switch, now, Duration::ZERO).len();
        // Twice 10 % lost: 81 % arrive; 4 standard deviations are 1.6 %.
        assert!((7940..=8260).contains(&delivered), "{delivered}");
        assert_eq!(delivered as u64 + switch.dropped(), 10_000);
    }

    #[test]
    fn runts_and_unknown_ports_are_ignored() {
        let (mut switch, now) = switch(2, Path::default());
        switch.handle_frame(now, 0, &[0; 11]);
        switch.handle_frame(now, 9, &frame(ALL, A, 60));
        assert_eq!((switch.poll_timeout(), switch.dropped()), (None, 0));
    }
}
