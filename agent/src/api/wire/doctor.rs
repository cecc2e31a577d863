//! What `idlewild doctor` shows: how a machine tells whether somebody uses it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::SystemReply;
use crate::config::{OwnerChoice, OwnerSettings};
use crate::owner::{LayerKind, OwnerSight, OwnerState, SeenSession, Shows, Sighting};

/// How the owner is looked for, and what is seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorReply {
    /// `owner.source` of the settings.
    pub source: OwnerChoice,
    /// `owner.idle_delay_s` of the settings.
    pub idle_delay_s: u32,
    /// `away`, `present` or `unknown`; none where the source is no detector.
    pub owner: Option<String>,
    /// Why, in words.
    pub reason: String,
    /// Each layer of the detector.
    pub layers: Vec<LayerReply>,
    /// The system around it.
    #[serde(default)]
    pub system: Vec<SystemReply>,
    /// What to do about what cannot be seen.
    pub advice: Vec<String>,
}

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerReply {
    /// Which.
    pub layer: LayerKind,
    /// Whether it sees something.
    pub sees: Sees,
    /// What, in words; or why not.
    pub says: String,
}

/// Whether a layer sees something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sees {
    /// It has not answered yet.
    Looking,
    /// It sees, and is counted on.
    Yes,
    /// There is nothing for it to see.
    Nothing,
    /// There is something, and it cannot see it.
    Blind,
}

impl DoctorReply {
    /// By these settings and what their detector sees, if it is one.
    pub fn new(settings: &OwnerSettings, sight: &OwnerSight) -> Self {
        let report = sight.report.as_ref();
        let owner = report.map(|report| match report.state {
            OwnerState::Away { .. } => "away",
            OwnerState::Present => "present",
            OwnerState::Unknown => "unknown",
        });
        let reason = report.map_or_else(|| fixed(settings.source).to_owned(), |report| report.reason.clone());
        let layers = sight.layers.iter().map(|(layer, sighting)| LayerReply {
            layer: *layer,
            sees: sees(sighting),
            says: says(sighting, sight.at),
        });
        Self {
            source: settings.source,
            idle_delay_s: settings.idle_delay_s,
            owner: owner.map(str::to_owned),
            reason,
            layers: layers.collect(),
            system: Vec::new(),
            advice: advice(settings.source, sight),
        }
    }

    /// The same with the system around the agent.
    #[must_use]
    pub fn with_system(mut self, system: Vec<SystemReply>) -> Self {
        self.advice.extend(super::system::advice(&system));
        Self { system, ..self }
    }
}

fn fixed(source: OwnerChoice) -> &'static str {
    match source {
        OwnerChoice::AlwaysIdle => "the settings say that nobody uses this machine: nothing is looked at",
        OwnerChoice::Scripted => "the owner does what a file says: nothing is looked at",
        OwnerChoice::Detected => "the detector has not begun to look",
    }
}

fn sees(sighting: &Sighting) -> Sees {
    match sighting {
        Sighting::Looking => Sees::Looking,
        Sighting::Absent { .. } => Sees::Nothing,
        Sighting::Blind { .. } => Sees::Blind,
        Sighting::Active | Sighting::Quiet { .. } | Sighting::Inhibited { .. } | Sighting::Logins { .. } => Sees::Yes,
        Sighting::Terminals(terminals) => {
            if terminals.is_empty() {
                Sees::Nothing
            } else {
                Sees::Yes
            }
        }
    }
}

fn says(sighting: &Sighting, at: Duration) -> String {
    let ago = |since: &Duration| format!("{} s ago", at.saturating_sub(*since).as_secs());
    match sighting {
        Sighting::Looking => "has not answered yet".to_owned(),
        Sighting::Absent { why } | Sighting::Blind { why } => why.clone(),
        Sighting::Active => "input a moment ago; its pauses and the next input are told at once".to_owned(),
        Sighting::Quiet { since } => format!("last input {}; the next is told at once", ago(since)),
        Sighting::Inhibited { by } => list(by, "nothing inhibits idleness"),
        Sighting::Logins { sessions, inhibitors } => {
            let sessions: Vec<String> = sessions.iter().map(session).collect();
            let mut text = list(&sessions, "nobody is logged in");
            if !inhibitors.is_empty() {
                text = format!("{text}; kept awake by {}", inhibitors.join(", "));
            }
            text
        }
        Sighting::Terminals(terminals) => {
            let each: Vec<String> =
                terminals.iter().map(|t| format!("{}: last input {}", t.line, ago(&t.last_input))).collect();
            list(&each, "nobody is logged in at a terminal")
        }
    }
}

fn list(items: &[String], none: &str) -> String {
    if items.is_empty() { none.to_owned() } else { items.join(", ") }
}

fn session(session: &SeenSession) -> String {
    let shows = match session.shows {
        Shows::Wayland => "Wayland",
        Shows::X11 => "X11",
        Shows::Text => "terminal",
    };
    let whose = if session.is_ours { "yours" } else { session.user.as_str() };
    let mut words = vec![whose.to_owned(), shows.to_owned()];
    words.extend(session.is_locked.then(|| "locked".to_owned()));
    words.extend(session.idle_since.map(|_| "idle".to_owned()));
    words.extend((!session.is_in_front).then(|| "in the background".to_owned()));
    format!("session {} ({})", session.id, words.join(", "))
}

/// What to do about what cannot be seen.
fn advice(source: OwnerChoice, sight: &OwnerSight) -> Vec<String> {
    if source != OwnerChoice::Detected {
        return vec!["for a machine that somebody uses remove --always-idle or owner.source".to_owned()];
    }
    let mut advice = Vec::new();
    let screens = || sight.layers.iter().filter(|(layer, _)| layer.is_screen()).map(|(_, sighting)| sighting);
    let logins = sight.layers.iter().find_map(|(_, sighting)| match sighting {
        Sighting::Logins { sessions, .. } => Some(sessions.as_slice()),
        Sighting::Looking
        | Sighting::Absent { .. }
        | Sighting::Blind { .. }
        | Sighting::Active
        | Sighting::Quiet { .. }
        | Sighting::Inhibited { .. }
        | Sighting::Terminals(_) => None,
    });
    let on_screen = || logins.unwrap_or_default().iter().filter(|session| session.is_on_screen());
    let is_seen = screens().any(|sighting| sees(sighting) == Sees::Yes);
    let is_wanted =
        screens().any(|sighting| sees(sighting) == Sees::Blind) || on_screen().any(|session| session.is_ours);
    if is_wanted && !is_seen {
        advice.push(
            "start the agent from a program of your desktop, or make its screen known to services: `systemctl --user \
             import-environment DISPLAY XAUTHORITY WAYLAND_DISPLAY`; until then a locked screen counts as left"
                .to_owned(),
        );
    }
    if on_screen().any(|session| !session.is_ours) {
        advice.push(
            "another account is at a screen: its input cannot be seen from here, and it counts as in use until its desktop \
             says that it is idle, or is locked"
                .to_owned(),
        );
    }
    if sight.report.as_ref().is_some_and(|report| report.state == OwnerState::Unknown) {
        advice.push("if nobody works at this machine, start it with `idlewild up --always-idle`".to_owned());
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layer;
    use crate::owner::OwnerReport;

    fn settings(source: OwnerChoice) -> OwnerSettings {
        OwnerSettings { source, ..Layer::default().with_defaults().owner }
    }

    fn sight(layers: Vec<(LayerKind, Sighting)>) -> OwnerSight {
        let report = OwnerReport { state: OwnerState::Unknown, reason: "nobody knows".into() };
        OwnerSight { layers, report: Some(report), at: Duration::from_secs(100) }
    }

    #[test]
    fn each_layer_says_what_it_sees_and_the_blind_one_gives_advice() {
        let reply = DoctorReply::new(
            &settings(OwnerChoice::Detected),
            &sight(vec![
                (LayerKind::X11, Sighting::Blind { why: "the X server refuses us".into() }),
                (LayerKind::Terminals, Sighting::Terminals(Vec::new())),
            ]),
        );
        assert_eq!((reply.owner.as_deref(), reply.reason.as_str()), (Some("unknown"), "nobody knows"));
        assert_eq!(reply.layers.iter().map(|layer| layer.sees).collect::<Vec<_>>(), [Sees::Blind, Sees::Nothing]);
        assert!(reply.advice[0].contains("import-environment") && reply.advice[1].contains("--always-idle"));
        let seen = DoctorReply::new(
            &settings(OwnerChoice::Detected),
            &sight(vec![(LayerKind::X11, Sighting::Quiet { since: Duration::from_secs(59) })]),
        );
        assert_eq!(seen.layers[0].says, "last input 41 s ago; the next is told at once");
        assert!(!seen.advice.iter().any(|line| line.contains("import-environment")));
    }

    #[test]
    fn a_source_that_looks_at_nothing_says_so() {
        for source in [OwnerChoice::AlwaysIdle, OwnerChoice::Scripted] {
            let reply = DoctorReply::new(&settings(source), &OwnerSight::default());
            assert!(reply.owner.is_none() && reply.layers.is_empty() && reply.reason.contains("nothing is looked at"));
            assert!(!reply.advice.is_empty());
        }
    }
}
