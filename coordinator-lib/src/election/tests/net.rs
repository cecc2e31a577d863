//! A small world for elections: machines, disks, links and partitions, all on one heap of events, all from one seed.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use idlewild_protocol::{ElectionMessage, PeerId, Term};

use crate::Now;
use crate::election::{Candidate, Election, Input, Output, owns, round};

pub(super) fn peer(n: usize) -> PeerId {
    PeerId([u8::try_from(n).unwrap(); 32])
}

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// What the network does to messages, and how soon peers notice each other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weather {
    pub(super) loss_percent: u64,
    pub(super) twice_percent: u64,
    /// Upper end of a message's delay: messages overtake each other within it.
    pub(super) delay_max: Duration,
    /// Until a peer knows that another can be reached.
    pub(super) notice_arrival: Duration,
    /// Upper end of the time until a peer knows that another cannot be reached any more.
    pub(super) notice_departure_max: Duration,
}

pub(super) const FINE: Weather = Weather {
    loss_percent: 0,
    twice_percent: 0,
    delay_max: Duration::from_millis(20),
    notice_arrival: Duration::from_millis(100),
    notice_departure_max: Duration::from_secs(2),
};

#[derive(Debug)]
enum Event {
    Deliver {
        from: PeerId,
        to: PeerId,
        message: ElectionMessage,
    },
    /// The peer notices who has come, or who has gone.
    Look {
        who: PeerId,
        departures: bool,
    },
}

/// One peer: its disk always, its machine while it is up.
#[derive(Debug)]
struct Host {
    disk: (Term, Option<PeerId>),
    machine: Option<Election>,
    /// Stopped, not dead: its timers do not run.
    frozen: bool,
    remaining_s: f64,
    /// Peers in different groups do not hear each other.
    group: usize,
    sees: BTreeSet<PeerId>,
}

#[derive(Debug)]
pub(super) struct Net {
    pub(super) now: Now,
    pub(super) weather: Weather,
    hosts: BTreeMap<PeerId, Host>,
    heap: BTreeMap<(Now, u64), Event>,
    cut: BTreeSet<(PeerId, PeerId)>,
    events: u64,
    random: u64,
    /// Ghost: who led in each term.
    leaders: BTreeMap<Term, PeerId>,
    /// Ghost: when each peer began to lead by a vote, latest last.
    pub(super) elected: Vec<(Now, PeerId)>,
}

impl Net {
    /// `n` peers, all up, alone for the first moment.
    pub(super) fn new(n: usize, seed: u64, weather: Weather) -> Self {
        let mut net = Self {
            now: Now::ZERO,
            weather,
            hosts: BTreeMap::new(),
            heap: BTreeMap::new(),
            cut: BTreeSet::new(),
            events: 0,
            random: seed,
            leaders: BTreeMap::new(),
            elected: Vec::new(),
        };
        for index in 1..=n {
            net.add(index, 600.0 - index as f64);
        }
        net
    }

    /// A newcomer.
    pub(super) fn add(&mut self, n: usize, remaining_s: f64) {
        let host =
            Host { disk: (Term(0), None), machine: None, frozen: false, remaining_s, group: 0, sees: BTreeSet::new() };
        self.hosts.insert(peer(n), host);
        self.start(peer(n));
    }

    pub(super) fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below.max(1)
    }

    fn draw_time(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.draw(u64::try_from(most.as_micros()).unwrap() + 1))
    }

    fn schedule(&mut self, after: Duration, event: Event) {
        self.events += 1;
        self.heap.insert((self.now + after, self.events), event);
    }

    pub(super) fn up(&self) -> Vec<PeerId> {
        self.hosts.iter().filter(|(_, h)| h.machine.is_some()).map(|(p, _)| *p).collect()
    }

    pub(super) fn down(&self) -> Vec<PeerId> {
        self.hosts.iter().filter(|(_, h)| h.machine.is_none()).map(|(p, _)| *p).collect()
    }

    fn is_linked(&self, one: PeerId, other: PeerId) -> bool {
        let (a, b) = (&self.hosts[&one], &self.hosts[&other]);
        let is_up = |h: &Host| h.machine.is_some() && !h.frozen;
        is_up(a) && is_up(b) && a.group == b.group && !self.cut.contains(&(one.min(other), one.max(other)))
    }

    /// Kill -9: what is not on the disk is gone.
    pub(super) fn kill(&mut self, who: PeerId) {
        self.host(who).machine = None;
        self.look_around();
    }

    pub(super) fn start(&mut self, who: PeerId) {
        let seed = self.draw(u64::MAX);
        let host = self.host(who);
        let (term, voted_for) = host.disk;
        host.machine = Some(Election::new(who, term, voted_for, seed));
        host.frozen = false;
        host.sees.clear();
        let remaining_s = host.remaining_s;
        self.hear(who, Input::Live { peers: vec![Candidate { peer: who, remaining_s }] });
        self.look_around();
    }

    pub(super) fn freeze(&mut self, who: PeerId, frozen: bool) {
        self.host(who).frozen = frozen;
        self.look_around();
    }

    /// Peers of different groups stop hearing each other.
    pub(super) fn split(&mut self, group_of: impl Fn(PeerId) -> usize) {
        for (who, host) in &mut self.hosts {
            host.group = group_of(*who);
        }
        self.look_around();
    }

    pub(super) fn cut_link(&mut self, one: PeerId, other: PeerId) {
        self.cut.insert((one.min(other), one.max(other)));
        self.look_around();
    }

    pub(super) fn say(&mut self, who: PeerId, input: Input) {
        self.hear(who, input);
    }

    fn host(&mut self, who: PeerId) -> &mut Host {
        self.hosts.get_mut(&who).unwrap()
    }

    /// The topology has changed: everybody notices, each in its own time.
    fn look_around(&mut self) {
        for who in self.up() {
            let departure = self.draw_time(self.weather.notice_departure_max);
            self.schedule(departure, Event::Look { who, departures: true });
            self.schedule(self.weather.notice_arrival, Event::Look { who, departures: false });
        }
    }

    fn look(&mut self, who: PeerId, departures: bool) {
        let before = &self.hosts[&who].sees;
        let is_seen = |p: &PeerId| self.is_linked(who, *p) && before.contains(p);
        let is_new = |p: &PeerId| self.is_linked(who, *p);
        let sees = |p: &PeerId| if departures { is_seen(p) } else { before.contains(p) || is_new(p) };
        let others: Vec<PeerId> = self.hosts.keys().copied().filter(|p| *p != who && sees(p)).collect();
        let remaining = |p: PeerId| self.hosts[&p].remaining_s;
        let peers: Vec<Candidate> =
            others.iter().chain([&who]).map(|p| Candidate { peer: *p, remaining_s: remaining(*p) }).collect();
        let sees: BTreeSet<PeerId> = others.into_iter().collect();
        if self.hosts[&who].machine.is_some() && !self.hosts[&who].frozen && self.hosts[&who].sees != sees {
            self.host(who).sees = sees;
            self.hear(who, Input::Live { peers });
        }
    }

    fn hear(&mut self, who: PeerId, input: Input) {
        let now = self.now;
        let host = self.host(who);
        let Some(machine) = host.machine.as_mut().filter(|_| !host.frozen) else { return };
        machine.handle(now, input);
        let mut outputs = Vec::new();
        while let Some(output) = machine.poll_output() {
            outputs.push(output);
        }
        for output in outputs {
            self.carry_out(who, output);
        }
    }

    fn carry_out(&mut self, who: PeerId, output: Output) {
        match output {
            Output::Send { to, message } => self.send(who, to, message),
            Output::Persist { term, voted_for } => {
                let disk = &mut self.host(who).disk;
                assert!(round(term) > round(disk.0), "{who} votes twice in a round");
                *disk = (term, voted_for);
            }
            Output::Leader { term, leader: Some(leader) } => {
                assert!(owns(leader, term), "{who} follows {leader} in another's term");
                assert_eq!(*self.leaders.entry(term).or_insert(leader), leader, "two leaders in {term}");
                if leader == who && round(term) > 0 {
                    self.elected.push((self.now, who));
                }
            }
            Output::Leader { leader: None, .. } => {}
        }
    }

    fn send(&mut self, from: PeerId, to: PeerId, message: ElectionMessage) {
        if self.draw(100) >= self.weather.loss_percent {
            let copies = if self.draw(100) < self.weather.twice_percent { 2 } else { 1 };
            for _ in 0..copies {
                let after = self.draw_time(self.weather.delay_max);
                self.schedule(after, Event::Deliver { from, to, message });
            }
        }
    }

    /// Lets time pass.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.next_due().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            let is_message = self.heap.first_key_value().is_some_and(|((at, _), _)| *at <= self.now);
            match if is_message { self.heap.pop_first() } else { None } {
                Some((_, Event::Deliver { from, to, message })) if self.is_linked(from, to) => {
                    self.hear(to, Input::Peer { from, message });
                }
                Some((_, Event::Deliver { .. })) => {}
                Some((_, Event::Look { who, departures })) => self.look(who, departures),
                None => self.tick_due(),
            }
        }
        self.now = end;
    }

    fn due_of(host: &Host) -> Option<Now> {
        host.machine.as_ref().filter(|_| !host.frozen).and_then(Election::poll_timeout)
    }

    fn next_due(&self) -> Option<Now> {
        let timers = self.hosts.values().filter_map(Self::due_of);
        timers.chain(self.heap.keys().map(|(at, _)| *at).take(1)).min()
    }

    fn tick_due(&mut self) {
        let due: Vec<PeerId> = self
            .hosts
            .iter()
            .filter(|(_, h)| Self::due_of(h).is_some_and(|at| at <= self.now))
            .map(|(p, _)| *p)
            .collect();
        for who in due {
            self.hear(who, Input::Tick);
        }
    }

    pub(super) fn leader_at(&self, who: PeerId) -> Option<PeerId> {
        self.hosts[&who].machine.as_ref().and_then(Election::leader)
    }

    /// The leader that all of these follow; none where they do not agree.
    pub(super) fn leader_of(&self, peers: &[PeerId]) -> Option<PeerId> {
        let leaders: BTreeSet<Option<PeerId>> = peers.iter().map(|p| self.leader_at(*p)).collect();
        if leaders.len() == 1 { leaders.into_iter().next().flatten() } else { None }
    }

    /// Runs until these peers agree on a leader that is one of them; how long that took.
    pub(super) fn run_until_agreed(&mut self, peers: &[PeerId], within: Duration) -> Duration {
        let from = self.now;
        while self.leader_of(peers).is_none_or(|leader| !peers.contains(&leader)) {
            assert!(self.now < from + within, "no leader within {within:?}: {self:#?}");
            self.run(ms(5));
        }
        self.now.saturating_sub(from)
    }
}
