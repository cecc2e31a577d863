//! What lookouts change, and what they cannot.

use LayerKind::{Logind, Lookouts};
use proptest::prelude::*;

use super::tests::{absent, any_sighting, check, desktop, logins, s, seen, word};
use super::*;
use crate::owner::sighting::{SeenLookout, SeenScreen};

const ANNA: u32 = 1000;
const BEN: u32 = 1001;

/// Anna's session, of another account than the agent's.
fn annas() -> SeenSession {
    SeenSession { is_ours: false, ..desktop() }
}

fn lookout(uid: u32, session: Option<&str>, screen: SeenScreen) -> SeenLookout {
    SeenLookout { uid, session: session.map(str::to_owned), screen, inhibited_by: Vec::new() }
}

fn heard(seen: Vec<SeenLookout>) -> Sighting {
    Sighting::Lookouts { at: "/run/idlewild/lookouts.sock".into(), seen }
}

fn active() -> SeenScreen {
    SeenScreen::Active { by: "X11".into() }
}

fn quiet_screen(since_s: u64) -> SeenScreen {
    SeenScreen::Quiet { by: "X11".into(), since: s(since_s) }
}

fn with(session: SeenSession, lookouts: Vec<SeenLookout>) -> Fuser {
    seen(&[(Logind, logins(&[session])), (Lookouts, heard(lookouts))])
}

#[test]
fn a_lookout_sees_the_screen_of_its_session() {
    let mut fuser = with(annas(), vec![]);
    check(&fuser, 9000, "unknown", &["the screen of anna (session 2) cannot be seen", "no lookout reports from it"]);
    let says = |fuser: &mut Fuser, at: u64, screen: SeenScreen| {
        fuser.handle(s(at), FuseInput::Saw(Lookouts, heard(vec![lookout(ANNA, Some("2"), screen)])));
    };
    says(&mut fuser, 9000, SeenScreen::Unseen { why: "its lookout is still looking".into() });
    check(&fuser, 9000, "unknown", &["still looking"]);
    says(&mut fuser, 9001, quiet_screen(8000));
    check(&fuser, 9001, "away", &["no input at the screen of anna (session 2, X11) for 180 s"]);
    says(&mut fuser, 9002, active());
    check(&fuser, 9500, "present", &["input at the screen of anna (session 2, X11)"]);
    says(&mut fuser, 9530, quiet_screen(9500));
    check(&fuser, 9679, "present", &["less than 180 s ago"]);
    check(&fuser, 9680, "away", &[]);
    // Killed, or fallen silent.
    fuser.handle(s(9700), FuseInput::Saw(Lookouts, heard(vec![])));
    check(&fuser, 99_000, "unknown", &["no lookout reports from it"]);
    // The session ends: whoever was there has just been there.
    fuser.handle(s(99_000), FuseInput::Saw(Logind, logins(&[])));
    check(&fuser, 99_179, "present", &["until just now"]);
    check(&fuser, 99_180, "away", &["nobody is logged in"]);
}

#[test]
fn locks_and_a_desktop_that_calls_itself_idle_count_beside_a_lookout() {
    let locked = SeenSession { is_locked: true, ..annas() };
    let fuser = with(locked.clone(), vec![lookout(ANNA, Some("2"), quiet_screen(990))]);
    check(&fuser, 1029, "present", &[]);
    check(&fuser, 1030, "away", &["locked"]);
    let fuser = with(locked, vec![lookout(ANNA, Some("2"), active())]);
    check(&fuser, 9000, "present", &["input at the screen of anna"]);
    let idle = SeenSession { idle_since: Some(s(1000)), ..annas() };
    let blind = SeenScreen::Unseen { why: "it hangs".into() };
    check(&with(idle, vec![lookout(ANNA, Some("2"), blind)]), 1180, "away", &[]);
}

#[test]
fn of_two_lookouts_in_one_session_input_at_either_counts() {
    for (first, second, expected) in [
        (quiet_screen(0), active(), "present"),
        (quiet_screen(0), quiet_screen(8900), "present"),
        (quiet_screen(0), SeenScreen::Unseen { why: "it hangs".into() }, "away"),
    ] {
        let both = vec![lookout(ANNA, Some("2"), first), lookout(ANNA, Some("2"), second)];
        check(&with(annas(), both.clone()), 9000, expected, &[]);
        check(&with(annas(), both.into_iter().rev().collect()), 9000, expected, &[]);
    }
}

#[test]
fn a_lookout_that_knows_no_name_of_its_session_means_the_only_one_of_its_account() {
    let lookouts = || vec![lookout(ANNA, None, quiet_screen(0))];
    check(&with(annas(), lookouts()), 9000, "away", &["no input at the screen of anna (session 2, X11)"]);
    let both = logins(&[annas(), SeenSession { id: "4".into(), ..annas() }]);
    let fuser = seen(&[(Logind, both), (Lookouts, heard(lookouts()))]);
    check(&fuser, 9000, "unknown", &["(session 2) cannot be seen", "(session 4) cannot be seen"]);
}

#[test]
fn the_word_of_another_account_never_counts_for_a_session() {
    for session in [Some("2"), None, Some("77")] {
        let fuser = with(annas(), vec![lookout(BEN, session, quiet_screen(0))]);
        check(&fuser, 9000, "unknown", &["the screen of anna (session 2) cannot be seen"]);
    }
    // It may say that somebody is there.
    let fuser = with(annas(), vec![lookout(BEN, Some("2"), active())]);
    check(&fuser, 9000, "present", &["input at a screen of account 1001 (X11)"]);
}

#[test]
fn a_lookout_where_logind_knows_no_session_is_a_screen_of_its_own() {
    let alone = |screen: SeenScreen| seen(&[(Logind, absent()), (Lookouts, heard(vec![lookout(ANNA, None, screen)]))]);
    check(&alone(active()), 9000, "present", &["input at a screen of account 1000"]);
    check(&alone(quiet_screen(8900)), 9000, "present", &["a screen of account 1000 (X11) less than"]);
    check(&alone(quiet_screen(8000)), 9000, "away", &["no input at a screen of account 1000"]);
    check(&alone(SeenScreen::Unseen { why: "it hangs".into() }), 9000, "unknown", &["it hangs"]);
    check(&alone(SeenScreen::Nothing { why: "no display".into() }), 9000, "away", &["nobody is logged in"]);
    // One that goes away takes its screen along.
    let mut fuser = alone(quiet_screen(0));
    fuser.handle(s(9000), FuseInput::Saw(Lookouts, heard(vec![])));
    check(&fuser, 9000, "away", &["nobody is logged in"]);
    let mut fuser = alone(active());
    fuser.handle(s(9000), FuseInput::Saw(Lookouts, heard(vec![])));
    check(&fuser, 9179, "present", &["until just now"]);
}

#[test]
fn a_film_in_another_session_counts_unless_that_one_is_locked_or_in_the_background() {
    let film = || {
        vec![SeenLookout { inhibited_by: vec!["Player (a film)".into()], ..lookout(ANNA, Some("2"), quiet_screen(0)) }]
    };
    check(&with(annas(), film()), 9000, "present", &["Player (a film) keeps the screen awake"]);
    check(&with(SeenSession { is_locked: true, ..annas() }, film()), 9000, "away", &[]);
    check(&with(SeenSession { is_in_front: false, ..annas() }, film()), 9000, "away", &[]);
}

fn any_lookout(uid: u32) -> impl Strategy<Value = SeenLookout> {
    let screen = prop_oneof![
        Just(active()),
        (0_u64..2000).prop_map(quiet_screen),
        Just(SeenScreen::Unseen { why: "it hangs".into() }),
        Just(SeenScreen::Nothing { why: "none".into() }),
    ];
    let by = proptest::collection::vec(Just("a film".to_owned()), 0..2);
    (proptest::option::of(0..4_u8), screen, by).prop_map(move |(session, screen, inhibited_by)| SeenLookout {
        inhibited_by,
        ..lookout(uid, session.map(|id| id.to_string()).as_deref(), screen)
    })
}

proptest! {
    /// All sessions of `any_sighting` are Anna's; the lookouts are Ben's.
    #[test]
    fn whatever_an_account_says_it_makes_no_other_accounts_owner_absent(
        steps in proptest::collection::vec((any_sighting(), 0_u64..200), 1..20),
        lookouts in proptest::collection::vec(any_lookout(BEN), 1..4),
        later_s in 0_u64..5000,
    ) {
        let mut without = Fuser::new(s(0), s(180), &LayerKind::ALL);
        let mut with = Fuser::new(s(0), s(180), &LayerKind::ALL);
        for layer in LayerKind::ALL {
            without.handle(s(0), FuseInput::Saw(layer, absent()));
            with.handle(s(0), FuseInput::Saw(layer, absent()));
        }
        with.handle(s(0), FuseInput::Saw(Lookouts, heard(lookouts)));
        let mut now = s(0);
        for ((layer, sighting), pause_s) in steps {
            now += s(pause_s);
            if layer != Lookouts {
                without.handle(now, FuseInput::Saw(layer, sighting.clone()));
                with.handle(now, FuseInput::Saw(layer, sighting));
            }
        }
        let at = now + s(later_s);
        if !matches!(without.report(at).state, OwnerState::Away { .. }) {
            prop_assert_ne!(word(with.report(at).state), "away");
        }
    }
}
