//! From what all layers see to one report. Pure: time is an argument.
//!
//! The rules, of which all must hold before an owner counts as away:
//! - No input for the idle delay, at any screen and any terminal: the latest input of all counts.
//! - A locked screen needs [`LOCK_DELAY`] only.
//! - A screen that nobody can see counts as in use, unless its desktop says that it is idle or locked. A lookout in a session
//!   sees its screen for us.
//! - Where nobody is logged in and no screen is there, the machine has no owner at it: the delay counts from the start.
//! - A program that inhibits idleness (a film, a call) counts as input, unless all screens are locked.
//! - Waking from sleep, unlocking a session, and whoever leaves altogether, count as input at that moment.
//!
//! Instants are time since the machine started, sleep included.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::lookouts::LookedOut;
use super::sighting::{LayerKind, OwnerSight, SeenSession, Sighting};
use super::{OwnerReport, OwnerState};

mod lookouts;

/// How long a screen must be locked: whoever locks it leaves.
pub const LOCK_DELAY: Duration = Duration::from_secs(30);

/// A longer difference between the clock that counts sleep and the one that does not means that the machine slept.
pub const LEAP: Duration = Duration::from_secs(5);

/// What the keys of inhibitors begin with.
const INHIBITOR: &str = "inhibitor ";

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FuseInput {
    /// A layer sees something else than before.
    Saw(LayerKind, Sighting),
    /// The machine has just woken up.
    Woke,
}

/// Puts together what the layers see.
#[derive(Debug)]
pub struct Fuser {
    /// How long without input makes an owner away.
    delay: Duration,
    /// When looking began.
    born: Duration,
    board: BTreeMap<LayerKind, Sighting>,
    /// Locked sessions, each with when that was first seen.
    locked: BTreeMap<String, Duration>,
    /// The last sign of somebody that no layer shows any more.
    past: Option<(Duration, &'static str)>,
}

/// One thing that says something about the owner.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Evidence {
    /// Where it comes from; the same place has the same key whatever it says.
    key: String,
    fact: Fact,
    what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fact {
    /// Somebody is there.
    Here,
    /// Somebody may be.
    Unknown,
    /// No sign since then; away after so long.
    Quiet { since: Duration, delay: Duration },
}

impl Fact {
    fn due(self) -> Option<Duration> {
        match self {
            Self::Quiet { since, delay } => Some(since + delay),
            Self::Here | Self::Unknown => None,
        }
    }
}

impl Fuser {
    /// Begins to look at `now`, with these layers.
    pub fn new(now: Duration, delay: Duration, layers: &[LayerKind]) -> Self {
        let board = layers.iter().map(|layer| (*layer, Sighting::Looking)).collect();
        Self { delay, born: now, board, locked: BTreeMap::new(), past: None }
    }

    /// How long without input makes an owner away.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// It is so long from now on, for what was seen before too.
    pub fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }

    /// Takes in what happened at `now`.
    pub fn handle(&mut self, now: Duration, input: FuseInput) {
        let before = self.evidence();
        match input {
            FuseInput::Saw(layer, sighting) => self.see(now, layer, sighting),
            FuseInput::Woke => self.past = Some((now, "the machine has just woken up")),
        }
        let after: BTreeSet<String> = self.evidence().into_iter().map(|evidence| evidence.key).collect();
        for gone in before.into_iter().filter(|evidence| !after.contains(&evidence.key)) {
            // No answer yet is nobody's presence, and neither is a film that goes on behind a lock.
            let is_ignored = gone.key.starts_with(INHIBITOR) && self.are_screens_locked();
            if is_ignored || ["looking", "nobody", "past"].contains(&gone.key.as_str()) {
                continue;
            }
            let since = match gone.fact {
                Fact::Here | Fact::Unknown => now,
                Fact::Quiet { since, .. } => since,
            };
            if self.past.is_none_or(|(past, _)| past < since) {
                self.past = Some((since, "somebody was here until just now"));
            }
        }
    }

    fn see(&mut self, now: Duration, layer: LayerKind, sighting: Sighting) {
        if let Sighting::Logins { sessions, .. } = &sighting {
            let locked = sessions.iter().filter(|session| session.is_locked);
            self.locked = locked.map(|s| (s.id.clone(), self.locked.get(&s.id).copied().unwrap_or(now))).collect();
            let unlocked = sessions.iter().filter_map(|session| session.unlocked).max();
            if let Some(since) = unlocked
                && self.past.is_none_or(|(past, _)| past < since)
            {
                self.past = Some((since, "somebody has just unlocked a session"));
            }
        }
        let was_there = matches!(self.board.get(&layer), Some(Sighting::Logins { .. }));
        let sighting = if was_there && let Sighting::Absent { why } = sighting {
            // Whoever was logged in may still be.
            Sighting::Blind { why }
        } else {
            sighting
        };
        self.board.insert(layer, sighting);
    }

    /// What follows at `now`, with all its reasons.
    pub fn report(&self, now: Duration) -> OwnerReport {
        let evidence = self.evidence();
        let is_early = |fact: Fact| fact.due().is_some_and(|due| now < due);
        let any = |test: &dyn Fn(Fact) -> bool| evidence.iter().any(|evidence| test(evidence.fact));
        let state = if any(&|fact| fact == Fact::Here || is_early(fact)) {
            OwnerState::Present
        } else if any(&|fact| fact == Fact::Unknown) {
            OwnerState::Unknown
        } else {
            let last = evidence.iter().filter_map(|evidence| match evidence.fact {
                Fact::Quiet { since, .. } => Some(since),
                Fact::Here | Fact::Unknown => None,
            });
            OwnerState::Away { idle_for: now.saturating_sub(last.max().unwrap_or(self.born)) }
        };
        let is_away = matches!(state, OwnerState::Away { .. });
        let counts = |evidence: &&Evidence| match evidence.fact {
            Fact::Here | Fact::Unknown => true,
            // What is long over is no news, unless it is all there is.
            Fact::Quiet { .. } if evidence.key == "past" => is_early(evidence.fact),
            Fact::Quiet { .. } => is_away || is_early(evidence.fact),
        };
        let reasons: Vec<String> =
            evidence.iter().filter(counts).map(|evidence| says(evidence, is_early(evidence.fact))).collect();
        OwnerReport { state, reason: reasons.join("; ") }
    }

    /// When the report changes if nothing happens.
    pub fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        self.evidence().into_iter().filter_map(|evidence| evidence.fact.due()).filter(|due| *due > now).min()
    }

    /// What each layer sees, and what follows.
    pub fn sight(&self, now: Duration) -> OwnerSight {
        let layers = self.board.iter().map(|(layer, sighting)| (*layer, sighting.clone())).collect();
        OwnerSight { layers, report: Some(self.report(now)), at: now, is_service: false }
    }

    fn evidence(&self) -> Vec<Evidence> {
        let mut all = Vec::new();
        let looking = self.board.iter().filter(|(_, sighting)| **sighting == Sighting::Looking);
        let looking: Vec<&str> = looking.map(|(layer, _)| layer.name()).collect();
        if !looking.is_empty() {
            let what = format!("still looking whether somebody is here ({})", looking.join(", "));
            all.push(Evidence { key: "looking".to_owned(), fact: Fact::Unknown, what });
        }
        all.extend(self.screen());
        all.extend(self.other_screens());
        all.extend(self.terminals());
        all.extend(self.inhibitors());
        if all.is_empty() {
            let fact = Fact::Quiet { since: self.born, delay: self.delay };
            all.push(Evidence { key: "nobody".to_owned(), fact, what: "nobody is logged in".to_owned() });
        }
        // After that: what others say of themselves is no reason to leave anything else out.
        all.extend(self.strays());
        all.extend(self.inhibited_elsewhere());
        all.extend(self.past.map(|(since, what)| Evidence {
            key: "past".to_owned(),
            fact: Fact::Quiet { since, delay: self.delay },
            what: what.to_owned(),
        }));
        all
    }

    fn sessions(&self) -> &[SeenSession] {
        match self.board.get(&LayerKind::Logind) {
            Some(Sighting::Logins { sessions, .. }) => sessions,
            Some(_) | None => &[],
        }
    }

    /// The session whose screen the layers of this process see.
    fn own(&self) -> Option<&SeenSession> {
        self.sessions().iter().find(|session| session.is_ours && session.is_on_screen())
    }

    /// Whether there are screens and nobody can be at one without unlocking it.
    fn are_screens_locked(&self) -> bool {
        let mut screens = self.sessions().iter().filter(|session| session.is_on_screen()).peekable();
        screens.peek().is_some() && screens.all(|session| session.is_locked)
    }

    fn screens(&self) -> impl Iterator<Item = (LayerKind, &Sighting)> {
        self.board.iter().filter(|(layer, _)| layer.is_screen()).map(|(layer, sighting)| (*layer, sighting))
    }

    /// Our own screen: by whoever sees it, else by what its desktop tells logind.
    fn screen(&self) -> Option<Evidence> {
        let key = "screen".to_owned();
        let active = self.screens().find(|(_, sighting)| **sighting == Sighting::Active);
        if let Some((layer, _)) = active {
            return Some(Evidence { key, fact: Fact::Here, what: format!("input at the screen ({})", layer.name()) });
        }
        let quiet = self.screens().filter_map(|(layer, sighting)| quiet_since(sighting).map(|since| (since, layer)));
        let own = self.own();
        if let Some((since, layer)) = quiet.max() {
            let what = format!("the screen ({})", layer.name());
            return Some(match own.and_then(|session| self.locked.get(&session.id)) {
                Some(locked) => {
                    Evidence { key, fact: self.locked_since(since.max(*locked)), what: locked_screen(&what) }
                }
                None => Evidence { key, fact: Fact::Quiet { since, delay: self.delay }, what },
            });
        }
        if let Some(own) = own {
            return Some(self.unseen(own, key, "your screen", &self.why_blind()));
        }
        let is_blind = |sighting: &Sighting| matches!(sighting, Sighting::Blind { .. });
        let logins = self.board.get(&LayerKind::Logind);
        let fact = Fact::Unknown;
        if self.screens().any(|(_, sighting)| is_blind(sighting)) {
            let what = format!("there is a screen whose input cannot be seen: {}", self.why_blind());
            return Some(Evidence { key, fact, what });
        }
        logins.filter(|sighting| is_blind(sighting)).map(|_| Evidence {
            key,
            fact,
            what: "whether somebody is logged in cannot be seen: logind does not answer".to_owned(),
        })
    }

    /// The screens of others, and of a second session of ours: only logind speaks of them.
    fn other_screens(&self) -> impl Iterator<Item = Evidence> {
        let own = self.own().map(|session| session.id.as_str());
        let others = self.sessions().iter().filter(move |s| s.is_on_screen() && Some(s.id.as_str()) != own);
        others.map(|session| {
            let what = format!("the screen of {} (session {})", session.user, session.id);
            let why = if self.hears_lookouts() {
                "no lookout reports from it, and its desktop says that it is in use"
            } else {
                "another account's input is not for us to see, and its desktop says that it is in use"
            };
            self.unseen(session, format!("session {}", session.id), &what, why)
        })
    }

    /// A screen that no layer of ours sees: by its lookout, else by what its desktop tells logind.
    fn unseen(&self, session: &SeenSession, key: String, what: &str, why: &str) -> Evidence {
        let (delay, locked) = (self.delay, self.locked.get(&session.id));
        let by_layer = |by: &str| match what.strip_suffix(')') {
            Some(open) => format!("{open}, {by})"),
            None => format!("{what} ({by})"),
        };
        let whys = match self.looked_out(session) {
            LookedOut::Active(by) => {
                return Evidence { key, fact: Fact::Here, what: format!("input at {}", by_layer(&by)) };
            }
            LookedOut::Quiet(since, by) => {
                let (fact, what) = match locked {
                    Some(locked) => (self.locked_since(since.max(*locked)), locked_screen(&by_layer(&by))),
                    None => (Fact::Quiet { since, delay }, by_layer(&by)),
                };
                return Evidence { key, fact, what };
            }
            LookedOut::Unseen(whys) => whys,
        };
        let why = if whys.is_empty() { why } else { &whys };
        match (locked, session.idle_since) {
            (Some(locked), _) => Evidence { key, fact: self.locked_since(*locked), what: locked_screen(what) },
            (None, Some(since)) => Evidence { key, fact: Fact::Quiet { since, delay }, what: what.to_owned() },
            (None, None) => Evidence {
                key,
                fact: Fact::Unknown,
                what: format!("{what} cannot be seen and counts as in use: {why}"),
            },
        }
    }

    fn locked_since(&self, since: Duration) -> Fact {
        Fact::Quiet { since, delay: self.delay.min(LOCK_DELAY) }
    }

    fn why_blind(&self) -> String {
        let whys = self.screens().filter_map(|(layer, sighting)| {
            let (Sighting::Blind { why } | Sighting::Absent { why }) = sighting else { return None };
            Some(format!("{}: {why}", layer.name()))
        });
        whys.collect::<Vec<_>>().join(", ")
    }

    fn terminals(&self) -> impl Iterator<Item = Evidence> {
        let terminals = match self.board.get(&LayerKind::Terminals) {
            Some(Sighting::Terminals(terminals)) => terminals.as_slice(),
            Some(_) | None => &[],
        };
        terminals.iter().map(|terminal| Evidence {
            key: format!("terminal {}", terminal.line),
            fact: Fact::Quiet { since: terminal.last_input, delay: self.delay },
            what: format!("the terminal {}", terminal.line),
        })
    }

    fn inhibitors(&self) -> impl Iterator<Item = Evidence> {
        let said = [LayerKind::Logind, LayerKind::Inhibitors].into_iter().filter_map(|layer| self.board.get(&layer));
        let by = said.flat_map(|sighting| {
            let (Sighting::Logins { inhibitors: by, .. } | Sighting::Inhibited { by }) = sighting else {
                return &[][..];
            };
            by.as_slice()
        });
        let are_locked = self.are_screens_locked();
        by.filter(move |_| !are_locked).map(|by| Evidence {
            key: format!("{INHIBITOR}{by}"),
            fact: Fact::Here,
            what: format!("{by} keeps the screen awake"),
        })
    }
}

fn quiet_since(sighting: &Sighting) -> Option<Duration> {
    if let Sighting::Quiet { since } = sighting { Some(*since) } else { None }
}

fn locked_screen(what: &str) -> String {
    format!("{what}, which is locked")
}

fn says(evidence: &Evidence, is_early: bool) -> String {
    let Evidence { key, fact, what } = evidence;
    match fact {
        Fact::Quiet { .. } if key == "past" => what.clone(),
        Fact::Quiet { delay, .. } if key == "nobody" && is_early => {
            format!("{what}; this machine takes work once that has been so for {} s", delay.as_secs())
        }
        Fact::Quiet { .. } if key == "nobody" => what.clone(),
        Fact::Quiet { delay, .. } if is_early => format!("input at {what} less than {} s ago", delay.as_secs()),
        Fact::Quiet { delay, .. } => format!("no input at {what} for {} s", delay.as_secs()),
        Fact::Here | Fact::Unknown => what.clone(),
    }
}

#[cfg(test)]
mod lookout_tests;
#[cfg(test)]
mod tests;
