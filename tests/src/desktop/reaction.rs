//! How soon a machine is its owner's again: from input at its screen to the engine that stops, and to what others know.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use super::{Bus, Lookout, Porch, Screen, Script};
use crate::agent::FOUND_WITHIN;
use crate::{Cluster, FAKE_MODEL, Fake, Lab, completion, within};

/// Seconds without input after which the owner is away.
const IDLE_DELAY_S: u32 = 1;

/// What the agent logs right before it halts its engine.
const STOPPED: &str = "engine stops computing";

/// The account of whoever has the screen that a lookout watches: "nobody", since a bus lets in none that the machine does not
/// have.
const ANNA: u32 = 65534;

/// Pieces that are read before the owner returns: the engine computes then.
const PIECES: usize = 5;

const DAY: Duration = Duration::from_hours(24);

/// What one return of the owner took.
#[derive(Debug, Clone, Copy)]
pub struct Reaction {
    /// From the input to the engine's halt.
    pub stopped: Duration,
    /// From the input until another peer knew, which looks every 20 ms.
    pub known: Duration,
}

/// An origin, and a worker with a screen.
pub struct World {
    cluster: Cluster,
    screen: Screen,
    _lookout: Option<Lookout>,
    _logind: Script,
    _bus: Bus,
}

impl World {
    /// Puts it up.
    pub fn new(lab: &Lab) -> Result<Self> {
        let (_, hosts) = lab.home(&["a", "b"])?;
        let (screen, bus) = (Screen::start()?, Bus::start(lab, "system")?);
        let mut logind = Script::logind(&bus)?;
        logind.say("session 1 0 root x11")?;
        let cluster = Cluster::new(lab, &hosts, |number, launch| {
            let launch = launch.fake(Fake::decoding(100.0));
            if number == 0 {
                return Ok(launch.busy());
            }
            let launch = launch.detecting(IDLE_DELAY_S).variable("DISPLAY", screen.display());
            Ok(launch.variable("DBUS_SYSTEM_BUS_ADDRESS", bus.address()))
        })?;
        Ok(Self { cluster, screen, _lookout: None, _logind: logind, _bus: bus })
    }

    /// The same with a worker that is a service of the system: the screen is another account's, and a lookout watches it.
    pub fn with_lookout(lab: &Lab) -> Result<Self> {
        let (_, hosts) = lab.home(&["a", "b"])?;
        let (screen, bus, porch) = (Screen::start()?, Bus::start(lab, "system")?, Porch::open(lab)?);
        let mut logind = Script::logind(&bus)?;
        logind.say(&format!("session 1 {ANNA} anna x11"))?;
        let lookout = porch.lookout(ANNA, &bus, screen.display())?;
        let cluster = Cluster::new(lab, &hosts, |number, launch| {
            let launch = launch.fake(Fake::decoding(100.0));
            if number == 0 {
                return Ok(launch.busy());
            }
            let launch = launch.detecting(IDLE_DELAY_S).set("owner.lookout_socket", porch.socket());
            Ok(launch.variable("DBUS_SYSTEM_BUS_ADDRESS", bus.address()))
        })?;
        Ok(Self { cluster, screen, _lookout: Some(lookout), _logind: logind, _bus: bus })
    }

    /// Waits until the owner is away and the worker works, then has the owner come back.
    pub fn trial(&mut self) -> Result<Reaction> {
        let (origin, worker) = (&self.cluster.0[0], &self.cluster.0[1]);
        let peer = worker.peer()?;
        origin.until_serving(peer, FOUND_WITHIN)?;
        let mut stream = origin.ask(&completion(FAKE_MODEL, "a long story", 2000))?;
        stream.read_pieces(PIECES)?;
        let before = worker.log()?.len();
        let wall = SystemTime::now();
        let began = self.screen.input()?;
        let (known, _) = within(Duration::from_secs(5), "the other peer to know", || {
            let status = origin.status()?;
            Ok(status.of(peer).is_some_and(|peer| !peer.is_serving()).then(|| began.elapsed()))
        })?;
        let (line, _) = within(Duration::from_secs(5), "the engine's halt", || {
            let log = worker.log()?;
            Ok(log[before..].lines().find(|line| line.contains(STOPPED)).map(str::to_owned))
        })?;
        let (at, began_at) = (time_of_day(&line)?, wall.duration_since(UNIX_EPOCH)?.as_micros() % DAY.as_micros());
        let began_at = Duration::from_micros(u64::try_from(began_at)?);
        // Midnight may lie between the two.
        let stopped = (at + DAY).saturating_sub(began_at);
        let stopped = stopped.checked_sub(DAY).unwrap_or(stopped);
        ensure!(stopped < Duration::from_mins(1), "the halt was logged before the input: {line}");
        // Before the delay has passed again, and the answer goes on where it was.
        drop(stream);
        worker.until(Duration::from_secs(5), "an engine without work", |status| {
            (status.engine.running == 0 && status.jobs_running == 0).then_some(())
        })?;
        Ok(Reaction { stopped, known })
    }

    /// Runs so many trials.
    pub fn trials(&mut self, count: usize) -> Result<Vec<Reaction>> {
        (0..count).map(|_| self.trial()).collect()
    }
}

/// The time of day with which a line of a log begins: `2026-11-30T13:54:13.123456Z`.
fn time_of_day(line: &str) -> Result<Duration> {
    let parse = || -> Option<Duration> {
        let time = line.split_once('T')?.1.split_once('Z')?.0;
        let mut parts = time.split(':');
        let (hours, minutes) = (parts.next()?.parse::<u64>().ok()?, parts.next()?.parse::<u64>().ok()?);
        let seconds: f64 = parts.next()?.parse().ok()?;
        Some(Duration::from_secs(hours * 3600 + minutes * 60) + Duration::from_secs_f64(seconds))
    };
    parse().with_context(|| format!("no time in {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lines_time_is_read_to_the_microsecond() -> Result<()> {
        let read = time_of_day("2026-11-30T01:02:03.000004Z  INFO idlewild: x")?;
        assert_eq!(read, Duration::from_micros(3_723_000_004));
        assert!(time_of_day("no time").is_err());
        Ok(())
    }
}
