//! What lookouts add: sight of screens that this process has no right to see.
//!
//! A lookout counts for the screen of the session that it names, if that is its account's: there its word is as good as a layer's
//! of our own. All others can only add to what speaks for presence. So no account can make another's screen count as left.

use std::time::Duration;

use super::{Evidence, Fact, Fuser, INHIBITOR};
use crate::owner::sighting::{LayerKind, SeenLookout, SeenScreen, SeenSession, Sighting};

/// What the lookouts of a session see of its screen, all together.
pub(super) enum LookedOut {
    /// Input, as this layer sees it.
    Active(String),
    /// None since then, as this layer sees it.
    Quiet(Duration, String),
    /// Nothing, for these reasons; empty where there is no lookout.
    Unseen(String),
}

impl Fuser {
    fn lookouts(&self) -> &[SeenLookout] {
        match self.board.get(&LayerKind::Lookouts) {
            Some(Sighting::Lookouts { seen, .. }) => seen,
            Some(_) | None => &[],
        }
    }

    /// Whether lookouts would be heard, if there were any.
    pub(super) fn hears_lookouts(&self) -> bool {
        matches!(self.board.get(&LayerKind::Lookouts), Some(Sighting::Lookouts { .. }))
    }

    /// What the lookouts of a session see.
    pub(super) fn looked_out(&self, session: &SeenSession) -> LookedOut {
        let all = || self.lookouts().iter().filter(|lookout| lookout.is_in(session, self.sessions()));
        let active = all().find_map(|lookout| match &lookout.screen {
            SeenScreen::Active { by } => Some(by.clone()),
            SeenScreen::Quiet { .. } | SeenScreen::Unseen { .. } | SeenScreen::Nothing { .. } => None,
        });
        if let Some(by) = active {
            return LookedOut::Active(by);
        }
        let quiet = all().filter_map(|lookout| match &lookout.screen {
            SeenScreen::Quiet { since, by } => Some((*since, by.clone())),
            SeenScreen::Active { .. } | SeenScreen::Unseen { .. } | SeenScreen::Nothing { .. } => None,
        });
        if let Some((since, by)) = quiet.max() {
            return LookedOut::Quiet(since, by);
        }
        let whys = all().filter_map(|lookout| match &lookout.screen {
            SeenScreen::Unseen { why } | SeenScreen::Nothing { why } => Some(why.as_str()),
            SeenScreen::Active { .. } | SeenScreen::Quiet { .. } => None,
        });
        LookedOut::Unseen(whys.collect::<Vec<_>>().join(", "))
    }

    /// Lookouts without a session that logind knows as theirs: their screens are there beside all others.
    pub(super) fn strays(&self) -> impl Iterator<Item = Evidence> {
        let strays = self.lookouts().iter().filter(|lookout| self.session_of(lookout).is_none());
        strays.filter_map(|lookout| {
            let of = format!("a screen of account {}", lookout.uid);
            let (fact, what) = match &lookout.screen {
                SeenScreen::Active { by } => (Fact::Here, format!("input at {of} ({by})")),
                SeenScreen::Quiet { since, by } => {
                    (Fact::Quiet { since: *since, delay: self.delay }, format!("{of} ({by})"))
                }
                SeenScreen::Unseen { why } => {
                    (Fact::Unknown, format!("{of} cannot be seen and counts as in use: {why}"))
                }
                SeenScreen::Nothing { .. } => return None,
            };
            Some(Evidence { key: format!("lookout {}", lookout.uid), fact, what })
        })
    }

    /// What lookouts tell of programs that inhibit idleness: not behind a lock, nor at a screen that nobody can look at.
    pub(super) fn inhibited_elsewhere(&self) -> impl Iterator<Item = Evidence> {
        let are_locked = self.are_screens_locked();
        let counts = move |lookout: &&SeenLookout| match self.session_of(lookout) {
            Some(own) => own.is_on_screen() && !own.is_locked,
            None => !are_locked,
        };
        let by = |lookout: &SeenLookout| {
            let uid = lookout.uid;
            // Named with its account: it stands for no other's that has the same name.
            let evidence = move |by: &String| Evidence {
                key: format!("{INHIBITOR}{by} of {uid}"),
                fact: Fact::Here,
                what: format!("{by} keeps the screen awake"),
            };
            lookout.inhibited_by.iter().map(evidence).collect::<Vec<_>>()
        };
        self.lookouts().iter().filter(counts).flat_map(by)
    }

    /// The session of a lookout, if logind knows it as its account's.
    fn session_of(&self, lookout: &SeenLookout) -> Option<&SeenSession> {
        self.sessions().iter().find(|session| lookout.is_in(session, self.sessions()))
    }
}
