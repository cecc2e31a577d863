//! What `idlewild doctor` shows: how a machine tells whether somebody uses it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::SystemReply;
use crate::config::{OwnerChoice, OwnerSettings};
use crate::owner::{LayerKind, OwnerSight, OwnerState, SeenLookout, SeenScreen, SeenSession, Shows, Sighting};

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
            says: says(sighting, sight),
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
        Sighting::Terminals(terminals) if terminals.is_empty() => Sees::Nothing,
        Sighting::Lookouts { seen, .. } if seen.is_empty() => Sees::Nothing,
        Sighting::Active
        | Sighting::Quiet { .. }
        | Sighting::Inhibited { .. }
        | Sighting::Logins { .. }
        | Sighting::Terminals(_)
        | Sighting::Lookouts { .. } => Sees::Yes,
    }
}

fn says(sighting: &Sighting, sight: &OwnerSight) -> String {
    let ago = |since: &Duration| format!("{} s ago", sight.at.saturating_sub(*since).as_secs());
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
        Sighting::Lookouts { at, seen } => {
            let each: Vec<String> = seen.iter().map(|lookout| says_lookout(lookout, sight)).collect();
            list(&each, &format!("none reports at {at}"))
        }
    }
}

fn says_lookout(lookout: &SeenLookout, sight: &OwnerSight) -> String {
    let session = sessions(sight).iter().find(|session| lookout.is_in(session, sessions(sight)));
    let whose = session.map_or_else(
        || format!("account {}", lookout.uid),
        |session| format!("session {} of {}", session.id, session.user),
    );
    let mut text = match &lookout.screen {
        SeenScreen::Active { by } => format!("{whose} ({by}): input a moment ago"),
        SeenScreen::Quiet { by, since } => {
            format!("{whose} ({by}): last input {} s ago", sight.at.saturating_sub(*since).as_secs())
        }
        SeenScreen::Unseen { why } => format!("{whose}: its screen cannot be seen: {why}"),
        SeenScreen::Nothing { why } => format!("{whose}: no screen: {why}"),
    };
    if !lookout.inhibited_by.is_empty() {
        text = format!("{text}; kept awake by {}", lookout.inhibited_by.join(", "));
    }
    text
}

/// Every login session, as far as logind tells.
fn sessions(sight: &OwnerSight) -> &[SeenSession] {
    let sessions = sight.layers.iter().find_map(|(_, sighting)| match sighting {
        Sighting::Logins { sessions, .. } => Some(sessions.as_slice()),
        Sighting::Looking
        | Sighting::Absent { .. }
        | Sighting::Blind { .. }
        | Sighting::Active
        | Sighting::Quiet { .. }
        | Sighting::Inhibited { .. }
        | Sighting::Terminals(_)
        | Sighting::Lookouts { .. } => None,
    });
    sessions.unwrap_or_default()
}

/// Where lookouts are heard, and what each sees; none where none would be heard.
fn lookouts(sight: &OwnerSight) -> Option<&[SeenLookout]> {
    sight.layers.iter().find_map(|(_, sighting)| match sighting {
        Sighting::Lookouts { seen, .. } => Some(seen.as_slice()),
        Sighting::Looking
        | Sighting::Absent { .. }
        | Sighting::Blind { .. }
        | Sighting::Active
        | Sighting::Quiet { .. }
        | Sighting::Logins { .. }
        | Sighting::Inhibited { .. }
        | Sighting::Terminals(_) => None,
    })
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
    let on_screen = || sessions(sight).iter().filter(|session| session.is_on_screen());
    let is_seen = screens().any(|sighting| sees(sighting) == Sees::Yes);
    let is_blind = screens().any(|sighting| sees(sighting) == Sees::Blind);
    let is_wanted = is_blind || on_screen().any(|session| session.is_ours);
    if is_wanted && !is_seen && (is_blind || !sight.is_service) {
        advice.push(
            "start the agent from a program of your desktop, or make its screen known to services: `systemctl --user \
             import-environment DISPLAY XAUTHORITY WAYLAND_DISPLAY`; until then a locked screen counts as left"
                .to_owned(),
        );
    }
    let heard = lookouts(sight);
    let is_unseen = |session: &SeenSession| {
        let is_looked_at = session.is_ours && !sight.is_service;
        !is_looked_at && !heard.unwrap_or_default().iter().any(|lookout| lookout.is_in(session, sessions(sight)))
    };
    let is_somebody_unseen = on_screen().any(is_unseen);
    if is_somebody_unseen {
        advice.push(
            "another account is at a screen: its input cannot be seen from here, and it counts as in use until its desktop \
             says that it is idle, or is locked, or a lookout in its session reports"
                .to_owned(),
        );
    }
    if sight.is_service && (is_somebody_unseen || on_screen().next().is_none()) {
        let socket = match heard {
            Some(_) => "",
            None => "set owner.lookout_socket (such as /run/idlewild/lookouts.sock), and ",
        };
        advice.push(format!(
            "this agent has no session of its own, so each graphical session needs a lookout: {socket}start `idlewild lookout` \
             in every session as its user, from the desktop's autostart or as a user service (docs/operating.md, Lookouts)"
        ));
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
        OwnerSight { layers, report: Some(report), at: Duration::from_secs(100), is_service: false }
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

    fn annas_session() -> SeenSession {
        SeenSession {
            id: "3".into(),
            user: "anna".into(),
            uid: 1000,
            is_ours: false,
            shows: Shows::X11,
            is_in_front: true,
            is_locked: false,
            unlocked: None,
            idle_since: None,
            tty: String::new(),
            display: String::new(),
        }
    }

    fn service(lookouts: Sighting) -> DoctorReply {
        let logins = Sighting::Logins { sessions: vec![annas_session()], inhibitors: Vec::new() };
        let layers = vec![(LayerKind::Logind, logins), (LayerKind::Lookouts, lookouts)];
        DoctorReply::new(&settings(OwnerChoice::Detected), &OwnerSight { is_service: true, ..sight(layers) })
    }

    #[test]
    fn a_service_is_told_that_sessions_need_lookouts_and_how_to_start_them() {
        let deaf = service(Sighting::Absent { why: "no socket is set".into() });
        let advice = deaf.advice.join("\n");
        assert!(advice.contains("set owner.lookout_socket") && advice.contains("`idlewild lookout`"), "{advice}");
        assert!(!advice.contains("import-environment"), "{advice}");
        let at = "/run/idlewild/lookouts.sock".to_owned();
        let hears = service(Sighting::Lookouts { at: at.clone(), seen: vec![] });
        assert_eq!(hears.layers[1].says, "none reports at /run/idlewild/lookouts.sock");
        let advice = hears.advice.join("\n");
        assert!(advice.contains("`idlewild lookout`") && !advice.contains("set owner.lookout_socket"), "{advice}");
        let screen = SeenScreen::Quiet { by: "X11".into(), since: Duration::from_secs(59) };
        let inhibited_by = vec!["Player (a film)".to_owned()];
        let lookout = SeenLookout { uid: 1000, session: Some("3".into()), screen, inhibited_by };
        let stray = SeenLookout {
            uid: 1001,
            screen: SeenScreen::Unseen { why: "it hangs".into() },
            inhibited_by: vec![],
            ..lookout.clone()
        };
        let seen = service(Sighting::Lookouts { at, seen: vec![lookout, stray] });
        assert_eq!(
            seen.layers[1].says,
            "session 3 of anna (X11): last input 41 s ago; kept awake by Player (a film), account 1001: its screen cannot be \
             seen: it hangs"
        );
        assert!(!seen.advice.iter().any(|line| line.contains("lookout")), "{:?}", seen.advice);
    }
}
