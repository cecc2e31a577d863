//! Windows: the last input of the session in which this program runs (`GetLastInputInfo`), and who else is logged on.
//!
//! The input of another session is not told to this one: while another is in use, this one cannot see whether somebody is at
//! the machine. A service (session 0) sees nobody's input: the agent runs in the session of its user. Locks and programs that
//! keep the screen awake are not looked at.

#[cfg(target_os = "windows")]
mod calls;

use std::time::Duration;

/// A session of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Session {
    number: u32,
    /// Somebody is connected to it, at the console or from afar.
    is_active: bool,
}

/// Services run in this one; it has no screen.
const SERVICES: u32 = 0;

/// Why the last input of session `ours` says nothing about the machine; none where it does.
fn blindness(ours: u32, sessions: &[Session]) -> Option<String> {
    if ours == SERVICES {
        return Some(
            "this program runs as a service, which sees no input: start it in the session of a user".to_owned(),
        );
    }
    let other = sessions.iter().find(|session| session.is_active && ![ours, SERVICES].contains(&session.number))?;
    Some(format!("another session ({}) is in use, whose input is not for this one to see", other.number))
}

/// The clock of ticks may be read this much before the input that it is compared with.
const SKEW_MS: u32 = 60_000;

/// The time since the last input, by a clock of milliseconds that begins anew every 49.7 days.
fn since_input(now_ticks: u32, input_ticks: u32) -> Duration {
    let ms = now_ticks.wrapping_sub(input_ticks);
    // An input that seems to come a moment later than now has just been; a pause as long as that is none.
    Duration::from_millis(if ms > u32::MAX - SKEW_MS { 0 } else { u64::from(ms) })
}

#[cfg(target_os = "windows")]
pub(in crate::owner) use layer::start;

/// The part that asks the system.
#[cfg(target_os = "windows")]
mod layer {
    use std::path::PathBuf;
    use std::time::Duration;

    use tokio::sync::mpsc;
    use tokio::task::JoinSet;
    use tokio::time::Instant;

    use super::{blindness, calls, since_input};
    use crate::owner::layers::keep::{Trouble, keep_alone};
    use crate::owner::layers::polled::{Counter, follow};
    use crate::owner::sighting::{LayerKind, Sighting};

    /// Between two looks at the sessions: each asks another process.
    const SESSIONS_EVERY: Duration = Duration::from_secs(2);

    #[derive(Debug, Default)]
    struct LastInput {
        /// When the sessions were looked at last.
        looked: Option<Instant>,
    }

    impl Counter for LastInput {
        async fn idle(&mut self) -> Result<Duration, Trouble> {
            if self.looked.is_none_or(|looked| looked.elapsed() >= SESSIONS_EVERY) {
                // It asks a service, which may take its time.
                let seen = tokio::task::spawn_blocking(|| (calls::own_session(), calls::sessions())).await;
                let (Some(ours), Some(sessions)) = seen.unwrap_or_default() else {
                    return Err(Trouble::Blind("Windows does not tell who is logged on".to_owned()));
                };
                if let Some(why) = blindness(ours, &sessions) {
                    return Err(Trouble::Blind(why));
                }
                self.looked = Some(Instant::now());
            }
            let input = calls::last_input_ticks();
            let input = input.ok_or_else(|| Trouble::Blind("Windows does not tell the last input".to_owned()))?;
            Ok(since_input(calls::ticks(), input))
        }
    }

    /// Starts the one layer; it ends when the set is dropped.
    pub(in crate::owner) fn start(
        delay: Duration,
        _lookouts: Option<PathBuf>,
        sightings: &mpsc::Sender<(LayerKind, Sighting)>,
    ) -> (Vec<LayerKind>, JoinSet<()>) {
        keep_alone(LayerKind::Windows, delay, sightings, |out| async move { follow(&out, LastInput::default()).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(list: &[(u32, bool)]) -> Vec<Session> {
        list.iter().map(|(number, is_active)| Session { number: *number, is_active: *is_active }).collect()
    }

    #[test]
    fn ticks_are_compared_across_the_end_of_their_clock() {
        for (now, input, expected_ms) in [
            (5000, 2000, 3000),
            (2000, 2000, 0),
            (999, u32::MAX - 1000, 2000),
            (u32::MAX, 0, 0),
            // An input that comes between the two readings is no pause of weeks.
            (2000, 2016, 0),
            (0, 30_000, 0),
            (u32::MAX - SKEW_MS, 0, u64::from(u32::MAX - SKEW_MS)),
        ] {
            assert_eq!(since_input(now, input), Duration::from_millis(expected_ms), "{now} {input}");
        }
    }

    #[test]
    fn input_is_believed_only_where_no_other_session_is_in_use() {
        let alone = sessions(&[(0, false), (1, true), (65_536, false)]);
        assert_eq!(blindness(1, &alone), None);
        // Nobody is connected to ours, and to no other.
        assert_eq!(blindness(1, &sessions(&[(0, false), (1, false), (2, false)])), None);
        let another = blindness(1, &sessions(&[(0, false), (1, false), (2, true)])).unwrap();
        assert!(another.contains("session (2)"), "{another}");
        assert!(blindness(1, &sessions(&[(1, true), (3, true)])).is_some());
        assert!(blindness(SERVICES, &alone).unwrap().contains("service"));
    }
}
