//! Two weeks of an owner on a virtual clock, through the tracker, the log and a real database: what is on record is what
//! happened, whatever the wall clock said and however often the agent was killed.
//!
//! Precisely: the sessions on record are, in order, those that the script implies. Each has the length to the second and
//! the cause that the script implies, but for a session that a kill or a loss of power cut off: that one has the cause
//! `Crash` (the machine went on) or `Unknown` (it did not), and is at most a beat shorter than it was.

use std::time::Duration;

use idlewild_protocol::DepartureCause as Cause;
use tempfile::TempDir;

use super::*;
use crate::store::{SessionMoment, Store};

const WEEKS: u64 = 2 * 7 * 86_400;

/// What happens to the machine, at a second of its life.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    OwnerLeaves,
    OwnerReturns,
    /// It sleeps for so many seconds.
    Sleeps(u64),
    /// The agent is killed, and started again after so many seconds.
    Killed(u64),
    /// The power fails for so many seconds.
    PowerFails(u64),
    /// The agent is stopped as it should be, and started again after so many seconds.
    Stopped(u64),
    /// The wall clock is set by so many seconds.
    ClockSet(i64),
}

/// What must be on record: at least and at most so long.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Expected {
    length_s: [u64; 2],
    cause: Cause,
}

/// A draw that a seed decides.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        // xorshift64.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// The owner's life alone: every seed the same. Comes and goes, and shuts the lid at night.
fn owner_script() -> Vec<(u64, Event)> {
    let mut draw = Draw(0x5eed);
    let (mut script, mut at_s) = (Vec::new(), 60);
    while at_s < WEEKS {
        script.push((at_s, Event::OwnerLeaves));
        let away_s = 120 + draw.below(3 * 3600);
        if draw.below(4) == 0 {
            script.push((at_s + away_s / 3, Event::Sleeps(60 + draw.below(8 * 3600))));
        }
        at_s = script.last().map_or(at_s, |(at_s, _)| *at_s).max(at_s + away_s);
        if let Some((began_s, Event::Sleeps(length_s))) = script.last() {
            at_s = at_s.max(began_s + length_s + 30);
        }
        script.push((at_s, Event::OwnerReturns));
        at_s += 300 + draw.below(5 * 3600);
    }
    script
}

/// The same life with trouble between its events: kills, losses of power, restarts and jumps of the clock.
fn with_trouble(seed: u64) -> Vec<(u64, Event)> {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut script = owner_script();
    for pair in owner_script().windows(2) {
        let [(before_s, event), (after_s, _)] = pair else { continue };
        let from_s =
            before_s + if let Event::Sleeps(length_s) = event { length_s + AWAKENING.as_secs() + 1 } else { 1 };
        let room_s = after_s.saturating_sub(from_s + 200);
        if room_s < 60 {
            continue;
        }
        let (at_s, down_s) = (from_s + draw.below(room_s), 1 + draw.below(150));
        match draw.below(16) {
            0 | 1 => script.push((at_s, Event::Killed(down_s))),
            2 => script.push((at_s, Event::PowerFails(down_s))),
            3 => script.push((at_s, Event::Stopped(down_s))),
            4 | 5 => script.push((at_s, Event::ClockSet(draw.below(4 * 86_400).cast_signed() - 2 * 86_400))),
            _ => {}
        }
    }
    script.sort_by_key(|(at_s, _)| *at_s);
    script
}

/// What a script implies, by its own small reckoning: no tracker, no store.
fn implied(script: &[(u64, Event)]) -> Vec<Expected> {
    let (mut is_away, mut began_s, mut expected) = (false, None, Vec::new());
    let beat_s = BEAT.as_secs();
    for (at_s, event) in script {
        let mut end = |cause, slack_s: u64, again_s: Option<u64>| {
            if let Some(began_s) = began_s.take() {
                let length_s: u64 = at_s - began_s;
                expected.push(Expected { length_s: [length_s.saturating_sub(slack_s), length_s], cause });
            }
            began_s = again_s;
        };
        let after = |down_s: u64| is_away.then_some(at_s + down_s);
        match *event {
            Event::OwnerLeaves => {
                is_away = true;
                began_s = began_s.or(Some(*at_s));
            }
            Event::OwnerReturns => {
                is_away = false;
                end(Cause::OwnerReturned, 0, None);
            }
            Event::Sleeps(length_s) => end(Cause::Sleep, 0, after(length_s + AWAKENING.as_secs())),
            Event::Killed(down_s) => end(Cause::Crash, beat_s, after(down_s)),
            Event::PowerFails(down_s) => end(Cause::Unknown, beat_s, after(down_s)),
            Event::Stopped(down_s) => end(Cause::Shutdown, 0, after(down_s)),
            Event::ClockSet(_) => {}
        }
    }
    expected
}

/// A machine with the agent's parts that matter here.
struct Machine {
    dir: TempDir,
    tracker: SessionTracker,
    log: SessionLog,
    /// Seconds of the script, which go on in sleep as the suspend-aware clock does.
    now_s: u64,
    /// When the agent started, by the same.
    started_s: u64,
    /// What the wall clock is ahead of that.
    ahead_s: i64,
    boot_number: u32,
    is_away: bool,
    /// A beat that only matters if nothing follows it: it is written when the agent is killed.
    last_beat: Option<Duration>,
    writes_every_beat: bool,
}

impl Machine {
    async fn start(writes_every_beat: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ahead_s = 1_700_000_000;
        let log = open_log(&dir, ahead_s as u64, 0).await;
        let tracker = SessionTracker::default();
        Self {
            dir,
            tracker,
            log,
            now_s: 0,
            started_s: 0,
            ahead_s,
            boot_number: 0,
            is_away: false,
            last_beat: None,
            writes_every_beat,
        }
    }

    /// As the agent's clock reads.
    fn now(&self) -> Duration {
        Duration::from_secs(self.now_s - self.started_s)
    }

    fn moment(&self) -> SessionMoment {
        SessionMoment { wall_s: self.now_s.saturating_add_signed(self.ahead_s), on_ac: None }
    }

    async fn write(&mut self, change: Option<SessionChange>) {
        if let Some(change) = change {
            self.last_beat = None;
            let moment = self.moment();
            self.log.record(change, moment).await;
        }
    }

    /// What the driver does with an input: a sign of life, then the input.
    async fn input(&mut self, input: SessionInput) {
        let change = self.tracker.wake(self.now());
        self.write(change).await;
        let change = self.tracker.handle(self.now(), input);
        self.write(change).await;
    }

    /// Lives until `at_s`, a tick each second.
    async fn live_until(&mut self, at_s: u64) {
        while self.now_s < at_s {
            self.now_s += 1;
            if self.now_s < at_s {
                self.input(SessionInput::Tick).await;
            }
            if let Some(age) = self.tracker.beat(self.now()) {
                self.last_beat = Some(age);
                if self.writes_every_beat {
                    self.log.beat(age).await;
                }
            }
        }
    }

    fn owner(&self) -> SessionInput {
        let state = if self.is_away { OwnerState::Away { idle_for: Duration::ZERO } } else { OwnerState::Present };
        SessionInput::Owner(OwnerReport { state, reason: "the script".to_owned() })
    }

    /// The agent is gone without a word, and comes back after `down_s`.
    async fn restart(&mut self, down_s: u64) {
        if let Some(age) = self.last_beat.take() {
            self.log.beat(age).await;
        }
        self.now_s += down_s;
        self.started_s = self.now_s;
        self.tracker = SessionTracker::default();
        self.log = open_log(&self.dir, self.moment().wall_s, self.boot_number).await;
        let owner = self.owner();
        self.input(owner).await;
    }

    async fn meet(&mut self, event: Event) {
        match event {
            Event::OwnerLeaves | Event::OwnerReturns => {
                self.is_away = event == Event::OwnerLeaves;
                let owner = self.owner();
                self.input(owner).await;
            }
            Event::Sleeps(length_s) => {
                self.input(SessionInput::Tick).await;
                self.now_s += length_s;
                self.input(SessionInput::Tick).await;
            }
            Event::Killed(down_s) => self.restart(down_s).await,
            Event::PowerFails(down_s) => {
                self.boot_number += 1;
                self.restart(down_s).await;
            }
            Event::Stopped(down_s) => {
                self.input(SessionInput::Leaving { cause: Cause::Shutdown }).await;
                self.restart(down_s).await;
            }
            Event::ClockSet(by_s) => self.ahead_s += by_s,
        }
    }
}

async fn open_log(dir: &TempDir, wall_s: u64, boot_number: u32) -> SessionLog {
    let store = Store::open(&dir.path().join("idlewild.db")).unwrap();
    let boot = store.begin_boot(wall_s, Some(format!("boot {boot_number}"))).await.unwrap();
    SessionLog::new(store, boot.id)
}

/// Lengths and causes on record, in the order in which they were written, once the script has been lived.
async fn live(script: &[(u64, Event)], writes_every_beat: bool) -> Vec<(f64, Cause)> {
    let mut machine = Machine::start(writes_every_beat).await;
    for (at_s, event) in script {
        machine.live_until(*at_s).await;
        machine.meet(*event).await;
    }
    drop(machine.log);
    let connection = rusqlite::Connection::open(machine.dir.path().join("idlewild.db")).unwrap();
    let mut rows =
        connection.prepare("SELECT length_ms, cause FROM sessions WHERE ended_s NOT NULL ORDER BY id").unwrap();
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
    let rows = rows.query_map([], read).unwrap().map(Result::unwrap);
    rows.map(|(ms, cause)| (ms as f64 / 1000.0, crate::store::named_cause(&cause).unwrap())).collect()
}

fn assert_as_implied(seen: &[(f64, Cause)], expected: &[Expected], what: &str) {
    assert_eq!(seen.len(), expected.len(), "{what}");
    for (at, ((length_s, cause), expected)) in seen.iter().zip(expected).enumerate() {
        let [least_s, most_s] = expected.length_s.map(|s| s as f64);
        assert!(
            *cause == expected.cause && (least_s..=most_s).contains(length_s),
            "{what}, session {at}: {length_s} s, {cause:?}, and not {expected:?}"
        );
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
fn two_weeks_without_trouble_are_on_record_to_the_second() {
    let script = owner_script();
    let expected = implied(&script);
    assert!(expected.len() > 60 && expected.iter().any(|e| e.cause == Cause::Sleep), "{}", expected.len());
    assert!(expected.iter().all(|e| e.length_s[0] == e.length_s[1]));
    let seen = runtime().block_on(live(&script, false));
    assert_as_implied(&seen, &expected, "no trouble");
}

#[test]
fn kills_restarts_losses_of_power_and_clock_jumps_change_no_more_than_they_must() {
    let mut met = std::collections::BTreeMap::new();
    for seed in 0..24 {
        let script = with_trouble(seed);
        let seen = runtime().block_on(live(&script, false));
        assert_as_implied(&seen, &implied(&script), &format!("seed {seed}"));
        for (_, cause) in &seen {
            *met.entry(*cause).or_insert(0) += 1;
        }
    }
    for cause in [Cause::OwnerReturned, Cause::Sleep, Cause::Crash, Cause::Unknown, Cause::Shutdown] {
        assert!(met.get(&cause).is_some_and(|times| *times >= 30), "{cause:?} in {met:?}");
    }
}

#[test]
fn clock_jumps_alone_change_nothing() {
    for seed in 0..3 {
        let script: Vec<_> = with_trouble(seed)
            .into_iter()
            .filter(|(_, event)| {
                matches!(event, Event::OwnerLeaves | Event::OwnerReturns | Event::Sleeps(_) | Event::ClockSet(_))
            })
            .collect();
        assert!(script.len() > owner_script().len(), "the clock jumps");
        let both = [script, owner_script()].map(|script| runtime().block_on(live(&script, false)));
        assert_eq!(both[0], both[1]);
    }
}

#[test]
fn a_day_with_every_beat_written_is_the_same() {
    let script: Vec<_> = with_trouble(7).into_iter().take_while(|(at_s, _)| *at_s < 86_400).collect();
    let both = [true, false].map(|every| runtime().block_on(live(&script, every)));
    assert_eq!(both[0], both[1]);
}
