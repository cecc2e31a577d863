//! From what the layers of a session see to one word about it. Pure.

use std::collections::BTreeMap;

use super::message::Word;
use crate::owner::sighting::{LayerKind, SeenScreen, SeenSession, Shows, Sighting};

/// What the layers see, and whose session it is.
#[derive(Debug)]
pub(super) struct Board {
    sightings: BTreeMap<LayerKind, Sighting>,
    /// What the environment calls the session.
    told: Option<String>,
    /// The session, once logind has named it.
    session: Option<String>,
    has_ended: bool,
}

impl Board {
    /// Of a lookout whose session the environment calls `told`.
    pub(super) fn new(told: Option<String>) -> Self {
        Self { sightings: BTreeMap::new(), told, session: None, has_ended: false }
    }

    /// Layers have been started, and nothing is seen yet; the session stays the same.
    pub(super) fn begin(&mut self, layers: &[LayerKind]) {
        self.sightings = layers.iter().map(|layer| (*layer, Sighting::Looking)).collect();
    }

    /// Takes in what a layer sees.
    pub(super) fn handle(&mut self, layer: LayerKind, sighting: Sighting) {
        if let Sighting::Logins { sessions, .. } = &sighting {
            match &self.session {
                None => self.session = choose(sessions, self.told.as_deref()),
                Some(own) => self.has_ended |= !sessions.iter().any(|session| session.id == *own),
            }
        }
        self.sightings.insert(layer, sighting);
    }

    /// Whether the session is no more.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// What there is to say.
    pub(super) fn word(&self) -> Word {
        let inhibited_by = match self.sightings.get(&LayerKind::Inhibitors) {
            Some(Sighting::Inhibited { by }) => by.clone(),
            Some(_) | None => Vec::new(),
        };
        let session = self.session.clone().or_else(|| self.told.clone());
        Word { session, screen: self.screen(), inhibited_by }
    }

    fn screen(&self) -> SeenScreen {
        let screens = || self.sightings.iter().filter(|(layer, _)| layer.is_screen());
        if let Some((layer, _)) = screens().find(|(_, sighting)| **sighting == Sighting::Active) {
            return SeenScreen::Active { by: layer.name().to_owned() };
        }
        let quiet = screens().filter_map(|(layer, sighting)| match sighting {
            Sighting::Quiet { since } => Some((*since, layer.name().to_owned())),
            Sighting::Looking
            | Sighting::Absent { .. }
            | Sighting::Blind { .. }
            | Sighting::Active
            | Sighting::Logins { .. }
            | Sighting::Inhibited { .. }
            | Sighting::Terminals(_)
            | Sighting::Lookouts { .. } => None,
        });
        if let Some((since, by)) = quiet.max() {
            return SeenScreen::Quiet { by, since };
        }
        let is_looking = screens().any(|(_, sighting)| *sighting == Sighting::Looking);
        let is_blind = screens().any(|(_, sighting)| matches!(sighting, Sighting::Blind { .. }));
        let why = if is_looking { "its lookout is still looking".to_owned() } else { self.whys() };
        if is_looking || is_blind { SeenScreen::Unseen { why } } else { SeenScreen::Nothing { why } }
    }

    fn whys(&self) -> String {
        let whys = self.sightings.iter().filter_map(|(layer, sighting)| {
            let (Sighting::Blind { why } | Sighting::Absent { why }) = sighting else { return None };
            layer.is_screen().then(|| format!("{}: {why}", layer.name()))
        });
        whys.collect::<Vec<_>>().join(", ")
    }
}

/// The session of this lookout: of its account's with a screen the one that it was told, else the one in front.
fn choose(sessions: &[SeenSession], told: Option<&str>) -> Option<String> {
    let ours = || sessions.iter().filter(|session| session.is_ours && session.shows != Shows::Text);
    let chosen = ours().find(|session| Some(session.id.as_str()) == told);
    let chosen = chosen.or_else(|| ours().find(|session| session.is_in_front)).or_else(|| ours().next());
    chosen.map(|session| session.id.clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LAYERS: [LayerKind; 3] = [LayerKind::Logind, LayerKind::X11, LayerKind::Wayland];

    fn session(id: &str, is_ours: bool, shows: Shows, is_in_front: bool) -> SeenSession {
        SeenSession {
            id: id.into(),
            user: "anna".into(),
            uid: 1000,
            is_ours,
            shows,
            is_in_front,
            is_locked: false,
            unlocked: None,
            idle_since: None,
            tty: String::new(),
            display: String::new(),
        }
    }

    fn logins(sessions: Vec<SeenSession>) -> Sighting {
        Sighting::Logins { sessions, inhibitors: Vec::new() }
    }

    fn board(told: Option<&str>) -> Board {
        let mut board = Board::new(told.map(str::to_owned));
        board.begin(&LAYERS);
        board
    }

    fn absent() -> Sighting {
        Sighting::Absent { why: "none".into() }
    }

    #[test]
    fn the_screen_is_what_the_best_layer_sees() {
        let mut board = board(None);
        assert!(matches!(board.word().screen, SeenScreen::Unseen { .. }), "nothing is known yet");
        board.handle(LayerKind::Wayland, absent());
        assert!(matches!(board.word().screen, SeenScreen::Unseen { .. }), "X11 has not answered");
        let since = Duration::from_secs(9);
        for (sighting, expected) in [
            (absent(), SeenScreen::Nothing { why: "X11: none, Wayland: none".into() }),
            (
                Sighting::Blind { why: "it hangs".into() },
                SeenScreen::Unseen { why: "X11: it hangs, Wayland: none".into() },
            ),
            (Sighting::Quiet { since }, SeenScreen::Quiet { by: "X11".into(), since }),
            (Sighting::Active, SeenScreen::Active { by: "X11".into() }),
        ] {
            board.handle(LayerKind::X11, sighting);
            assert_eq!(sorted(board.word().screen), sorted(expected));
        }
        board.handle(LayerKind::Wayland, Sighting::Quiet { since });
        assert_eq!(board.word().screen, SeenScreen::Active { by: "X11".into() }, "input anywhere is input");
    }

    /// Layers are listed in an order that is nobody's business.
    fn sorted(screen: SeenScreen) -> SeenScreen {
        let in_order = |why: String| {
            let mut parts: Vec<&str> = why.split(", ").collect();
            parts.sort_unstable();
            parts.join(", ")
        };
        match screen {
            SeenScreen::Unseen { why } => SeenScreen::Unseen { why: in_order(why) },
            SeenScreen::Nothing { why } => SeenScreen::Nothing { why: in_order(why) },
            other @ (SeenScreen::Active { .. } | SeenScreen::Quiet { .. }) => other,
        }
    }

    #[test]
    fn the_session_is_the_one_of_this_account_that_has_the_screen() {
        let (ours, theirs) = (true, false);
        for (told, list, expected) in [
            (None, vec![session("1", theirs, Shows::X11, true)], None),
            (None, vec![session("1", ours, Shows::Text, true), session("2", ours, Shows::X11, true)], Some("2")),
            (None, vec![session("2", ours, Shows::X11, false), session("3", ours, Shows::Wayland, true)], Some("3")),
            (Some("2"), vec![session("2", ours, Shows::X11, false), session("3", ours, Shows::X11, true)], Some("2")),
            // A login by ssh has a session of its own, without a screen.
            (Some("7"), vec![session("7", ours, Shows::Text, true), session("3", ours, Shows::X11, true)], Some("3")),
        ] {
            let mut board = board(told);
            board.handle(LayerKind::Logind, logins(list));
            assert_eq!(board.word().session.as_deref(), expected.or(told), "{told:?}");
        }
        assert_eq!(board(Some("5")).word().session.as_deref(), Some("5"), "no logind has said otherwise");
    }

    #[test]
    fn a_session_has_ended_when_logind_no_longer_lists_it_and_not_when_logind_is_gone() {
        let mut board = board(None);
        board.handle(LayerKind::Logind, logins(vec![]));
        assert!(!board.has_ended(), "it has not begun");
        board.handle(LayerKind::Logind, logins(vec![session("2", true, Shows::X11, true)]));
        board.handle(LayerKind::Logind, Sighting::Blind { why: "it hangs".into() });
        board.begin(&LAYERS);
        board.handle(LayerKind::Logind, logins(vec![session("2", true, Shows::X11, false)]));
        assert!(!board.has_ended());
        board.handle(LayerKind::Logind, logins(vec![session("3", true, Shows::X11, true)]));
        assert!(board.has_ended());
    }
}
