//! The rules, one after the other, and what holds whatever is seen.

use LayerKind::{Inhibitors, Logind, Mutter, Terminals, Wayland, X11};
use proptest::prelude::*;

use super::*;
use crate::owner::sighting::{SeenTerminal, Shows};

const DELAY_S: u64 = 180;

pub(super) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn absent() -> Sighting {
    Sighting::Absent { why: "none".into() }
}

fn blind() -> Sighting {
    Sighting::Blind { why: "it hangs".into() }
}

fn quiet(since_s: u64) -> Sighting {
    Sighting::Quiet { since: s(since_s) }
}

fn session(id: &str, shows: Shows) -> SeenSession {
    SeenSession {
        id: id.into(),
        user: "anna".into(),
        uid: 1000,
        is_ours: true,
        shows,
        is_in_front: true,
        is_locked: false,
        unlocked: None,
        idle_since: None,
        tty: String::new(),
        display: String::new(),
    }
}

pub(super) fn desktop() -> SeenSession {
    session("2", Shows::Wayland)
}

pub(super) fn logins(sessions: &[SeenSession]) -> Sighting {
    Sighting::Logins { sessions: sessions.to_vec(), inhibitors: Vec::new() }
}

fn terminal(line: &str, last_s: u64) -> Sighting {
    Sighting::Terminals(vec![SeenTerminal { line: line.into(), last_input: s(last_s) }])
}

/// A detector that was started at 1000 s and whose layers have all said that there is nothing, then what is given.
pub(super) fn seen(sightings: &[(LayerKind, Sighting)]) -> Fuser {
    let mut fuser = Fuser::new(s(1000), s(DELAY_S), &LayerKind::ALL);
    for layer in LayerKind::ALL {
        let given = sightings.iter().rev().find(|(kind, _)| *kind == layer);
        let sighting = given.map_or_else(absent, |(_, sighting)| sighting.clone());
        fuser.handle(s(1000), FuseInput::Saw(layer, sighting));
    }
    fuser
}

pub(super) fn word(state: OwnerState) -> &'static str {
    match state {
        OwnerState::Away { .. } => "away",
        OwnerState::Present => "present",
        OwnerState::Unknown => "unknown",
    }
}

#[track_caller]
pub(super) fn check(fuser: &Fuser, at_s: u64, expected: &str, reasons: &[&str]) {
    let report = fuser.report(s(at_s));
    assert_eq!(word(report.state), expected, "at {at_s}: {report:?}");
    for reason in reasons {
        assert!(report.reason.contains(reason), "{reason:?} is missing at {at_s} in {report:?}");
    }
}

#[test]
fn another_delay_counts_for_what_was_seen_before() {
    let mut fuser = seen(&[(X11, quiet(990))]);
    check(&fuser, 1100, "present", &[]);
    fuser.set_delay(s(60));
    assert_eq!(fuser.delay(), s(60));
    check(&fuser, 1100, "away", &["X11"]);
    assert_eq!(fuser.poll_timeout(s(1020)), Some(s(1050)));
    fuser.set_delay(s(3600));
    check(&fuser, 1100, "present", &[]);
}

#[test]
fn nothing_is_known_before_every_layer_has_answered() {
    let mut fuser = Fuser::new(s(0), s(1), &[X11, Logind]);
    check(&fuser, 50, "unknown", &["still looking", "X11, logind"]);
    fuser.handle(s(50), FuseInput::Saw(Logind, absent()));
    check(&fuser, 99, "unknown", &["(X11)"]);
    fuser.handle(s(99), FuseInput::Saw(X11, absent()));
    check(&fuser, 99, "away", &["nobody is logged in"]);
}

#[test]
fn a_machine_without_screen_and_logins_is_away_after_the_delay() {
    for nobody in [vec![], vec![(Logind, logins(&[]))], vec![(Logind, logins(&[session("9", Shows::Text)]))]] {
        let fuser = seen(&nobody);
        check(&fuser, 1179, "present", &["nobody is logged in", "180 s"]);
        assert_eq!(fuser.poll_timeout(s(1179)), Some(s(1180)));
        check(&fuser, 1180, "away", &["nobody is logged in"]);
    }
}

#[test]
fn the_latest_input_of_all_screens_and_terminals_counts() {
    let fuser = seen(&[(X11, quiet(900)), (Terminals, terminal("pts/0", 950))]);
    check(&fuser, 1129, "present", &["the terminal pts/0 less than 180 s ago"]);
    check(&fuser, 1130, "away", &["no input at the screen (X11) for 180 s", "no input at the terminal pts/0"]);
    assert_eq!(fuser.report(s(1150)).state, OwnerState::Away { idle_for: s(200) });
    let fuser = seen(&[(Wayland, quiet(100)), (Mutter, Sighting::Active)]);
    check(&fuser, 5000, "present", &["input at the screen (GNOME)"]);
}

#[test]
fn input_is_presence_at_once_and_for_the_whole_delay() {
    let mut fuser = seen(&[(X11, quiet(100))]);
    check(&fuser, 1000, "away", &[]);
    fuser.handle(s(1001), FuseInput::Saw(X11, Sighting::Active));
    check(&fuser, 1001, "present", &["input at the screen"]);
    fuser.handle(s(1031), FuseInput::Saw(X11, quiet(1001)));
    check(&fuser, 1180, "present", &["less than 180 s ago"]);
    check(&fuser, 1181, "away", &[]);
}

#[test]
fn a_screen_that_nobody_sees_counts_as_in_use() {
    check(&seen(&[(Logind, logins(&[desktop()])), (Wayland, blind())]), 9000, "unknown", &["your screen", "it hangs"]);
    check(&seen(&[(X11, blind())]), 9000, "unknown", &["there is a screen", "it hangs"]);
    check(&seen(&[(Logind, blind())]), 9000, "unknown", &["logind does not answer"]);
    // Whoever is blind beside one that sees does not matter.
    check(&seen(&[(Wayland, blind()), (Mutter, quiet(100)), (Logind, blind())]), 9000, "away", &[]);
}

#[test]
fn a_desktop_that_calls_itself_idle_is_believed_where_nobody_sees_its_screen() {
    let idle = SeenSession { idle_since: Some(s(1100)), ..desktop() };
    let fuser = seen(&[(Logind, logins(&[idle]))]);
    check(&fuser, 1279, "present", &["your screen"]);
    check(&fuser, 1280, "away", &["no input at your screen"]);
}

#[test]
fn another_accounts_screen_counts_as_in_use_until_it_is_idle_or_locked_or_in_the_background() {
    let other = SeenSession { is_ours: false, id: "4".into(), ..desktop() };
    let with = |session: SeenSession| seen(&[(Logind, logins(&[session])), (Mutter, quiet(100))]);
    check(&with(other.clone()), 9000, "unknown", &["the screen of anna (session 4)", "another account"]);
    check(&with(SeenSession { idle_since: Some(s(1000)), ..other.clone() }), 1180, "away", &[]);
    check(&with(SeenSession { is_locked: true, ..other.clone() }), 1030, "away", &["locked"]);
    check(&with(SeenSession { is_in_front: false, ..other }), 1000, "away", &[]);
}

#[test]
fn a_locked_screen_is_left_after_half_a_minute_and_input_before_the_lock_is_presence() {
    let locked = SeenSession { is_locked: true, ..desktop() };
    let mut fuser = seen(&[(Logind, logins(&[desktop()])), (Wayland, quiet(990))]);
    check(&fuser, 1000, "present", &[]);
    fuser.handle(s(1005), FuseInput::Saw(Logind, logins(std::slice::from_ref(&locked))));
    check(&fuser, 1034, "present", &["locked"]);
    check(&fuser, 1035, "away", &["the screen (Wayland), which is locked"]);
    // Somebody types at the lock.
    fuser.handle(s(1100), FuseInput::Saw(Wayland, Sighting::Active));
    check(&fuser, 1100, "present", &[]);
    fuser.handle(s(1131), FuseInput::Saw(Wayland, quiet(1101)));
    check(&fuser, 1131, "away", &[]);
    // Unlocked, the whole delay counts again.
    fuser.handle(s(1140), FuseInput::Saw(Logind, logins(&[desktop()])));
    check(&fuser, 1140, "present", &[]);
}

#[test]
fn whoever_inhibits_idleness_is_there_unless_the_screen_is_locked() {
    let film = "Firefox (a film plays)".to_owned();
    let inhibited =
        |sessions: &[SeenSession]| Sighting::Logins { sessions: sessions.to_vec(), inhibitors: vec![film.clone()] };
    let mut fuser = seen(&[(Logind, inhibited(&[desktop()])), (Wayland, quiet(0))]);
    check(&fuser, 2800, "present", &["Firefox (a film plays) keeps the screen awake"]);
    let locked = SeenSession { is_locked: true, ..desktop() };
    fuser.handle(s(2800), FuseInput::Saw(Logind, inhibited(&[locked])));
    check(&fuser, 2829, "present", &[]);
    check(&fuser, 2830, "away", &[]);
    // The film ends unlocked: whoever watched it has just been there.
    let mut fuser = seen(&[(Inhibitors, Sighting::Inhibited { by: vec![film] }), (Wayland, quiet(0))]);
    check(&fuser, 2800, "present", &["Firefox"]);
    fuser.handle(s(2800), FuseInput::Saw(Inhibitors, Sighting::Inhibited { by: Vec::new() }));
    check(&fuser, 2979, "present", &["was here until just now"]);
    check(&fuser, 2980, "away", &[]);
}

#[test]
fn waking_up_and_leaving_count_as_input() {
    let mut fuser = seen(&[(X11, quiet(100))]);
    fuser.handle(s(4000), FuseInput::Woke);
    check(&fuser, 4179, "present", &["woken up"]);
    check(&fuser, 4180, "away", &[]);
    // The display goes with its user.
    let mut fuser = seen(&[(X11, Sighting::Active)]);
    fuser.handle(s(5000), FuseInput::Saw(X11, absent()));
    check(&fuser, 5179, "present", &["until just now"]);
    check(&fuser, 5180, "away", &["nobody is logged in"]);
    // A terminal that is closed counts by its last input.
    let mut fuser = seen(&[(Terminals, terminal("tty1", 5000))]);
    fuser.handle(s(5100), FuseInput::Saw(Terminals, Sighting::Terminals(Vec::new())));
    check(&fuser, 5179, "present", &["until just now"]);
    check(&fuser, 5180, "away", &[]);
}

#[test]
fn whoever_unlocks_a_session_is_there() {
    let unlocked = SeenSession { unlocked: Some(s(5000)), ..desktop() };
    let mut fuser = seen(&[(Wayland, quiet(100)), (Logind, logins(&[desktop()]))]);
    check(&fuser, 4999, "away", &[]);
    fuser.handle(s(5000), FuseInput::Saw(Logind, logins(std::slice::from_ref(&unlocked))));
    check(&fuser, 5179, "present", &["somebody has just unlocked a session"]);
    check(&fuser, 5180, "away", &[]);
    // Told again with the next look, it is no news.
    fuser.handle(s(6000), FuseInput::Saw(Logind, logins(&[unlocked])));
    check(&fuser, 6000, "away", &[]);
}

#[test]
fn a_logind_that_goes_away_is_not_an_empty_machine() {
    let mut fuser = seen(&[(Logind, logins(&[desktop()]))]);
    fuser.handle(s(2000), FuseInput::Saw(Logind, absent()));
    check(&fuser, 9000, "unknown", &["logind"]);
}

#[test]
fn a_report_has_every_reason_that_holds() {
    let fuser = seen(&[
        (X11, Sighting::Active),
        (Terminals, terminal("pts/1", 1000)),
        (Inhibitors, Sighting::Inhibited { by: vec!["a call".into()] }),
    ]);
    check(&fuser, 1010, "present", &["the screen (X11)", "the terminal pts/1", "a call keeps the screen awake"]);
}

pub(super) fn any_sighting() -> impl Strategy<Value = (LayerKind, Sighting)> {
    let parts =
        (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), proptest::option::of(0_u64..2000), 0..3_u8);
    let session = parts.prop_map(|(is_ours, is_in_front, is_locked, graphical, idle, id)| SeenSession {
        is_ours,
        is_in_front,
        is_locked,
        idle_since: idle.map(s),
        ..session(&id.to_string(), if graphical { Shows::X11 } else { Shows::Text })
    });
    let screen = prop_oneof![Just(absent()), Just(blind()), Just(Sighting::Active), (0_u64..2000).prop_map(quiet)];
    let by = proptest::collection::vec(Just("a film".to_owned()), 0..2);
    prop_oneof![
        (prop_oneof![Just(Wayland), Just(Mutter), Just(X11)], screen),
        (proptest::collection::vec(session, 0..3), by.clone())
            .prop_map(|(sessions, inhibitors)| (Logind, Sighting::Logins { sessions, inhibitors })),
        by.prop_map(|by| (Inhibitors, Sighting::Inhibited { by })),
        (0_u64..2000).prop_map(|last| (Terminals, terminal("pts/0", last))),
        prop_oneof![Just((Logind, absent())), Just((Logind, blind()))],
    ]
}

/// What must hold of a report by what is on the board, told without the fuser's own words.
fn assert_sound(fuser: &Fuser, now: Duration, report: &OwnerReport) {
    assert!(!report.reason.is_empty());
    let OwnerState::Away { .. } = report.state else { return };
    let screens: Vec<&Sighting> = fuser.screens().map(|(_, sighting)| sighting).collect();
    assert!(!fuser.board.values().any(|sighting| *sighting == Sighting::Looking), "away before all have answered");
    assert!(!screens.contains(&&Sighting::Active), "away with input");
    let on_screen: Vec<&SeenSession> = fuser.sessions().iter().filter(|session| session.is_on_screen()).collect();
    let are_locked = on_screen.iter().all(|session| session.is_locked) && !on_screen.is_empty();
    let least = if are_locked { LOCK_DELAY } else { s(DELAY_S) };
    let seen: Vec<Duration> = screens.iter().filter_map(|sighting| quiet_since(sighting)).collect();
    if let Some(last) = seen.iter().max()
        && !on_screen.iter().any(|session| session.is_locked)
    {
        assert!(*last + s(DELAY_S) <= now, "away too early after input at {last:?}");
    }
    if seen.is_empty() {
        assert!(screens.iter().all(|sighting| **sighting == absent() || !on_screen.is_empty()), "away and blind");
        let is_excused = |session: &&SeenSession| session.is_locked || session.idle_since.is_some();
        assert!(on_screen.iter().all(is_excused), "away with a screen that nobody sees: {on_screen:?}");
    }
    if let Some(Sighting::Terminals(terminals)) = fuser.board.get(&Terminals) {
        assert!(terminals.iter().all(|terminal| terminal.last_input + s(DELAY_S) <= now), "away from a terminal");
    }
    assert!(are_locked || fuser.inhibitors().next().is_none(), "away during a film");
    assert!(now >= fuser.born + least || !seen.is_empty() || fuser.evidence().len() > 1 || !on_screen.is_empty());
}

proptest! {
    #[test]
    fn nobody_is_away_whom_any_rule_calls_present(
        steps in proptest::collection::vec((any_sighting(), 0_u64..200, any::<bool>()), 1..40),
    ) {
        let mut fuser = Fuser::new(s(0), s(DELAY_S), &LayerKind::ALL);
        let mut now = s(0);
        for ((layer, sighting), pause_s, woke) in steps {
            now += s(pause_s);
            let input = if woke && pause_s > 190 { FuseInput::Woke } else { FuseInput::Saw(layer, sighting) };
            let is_waking = input == FuseInput::Woke;
            fuser.handle(now, input);
            let report = fuser.report(now);
            let is_away = matches!(report.state, OwnerState::Away { .. });
            prop_assert!(!is_waking || !is_away);
            assert_sound(&fuser, now, &report);
            // Between two inputs a report changes at the announced instants only.
            let due = fuser.poll_timeout(now).map_or(now + s(1000), |due| due.min(now + s(1000)));
            let before = due.saturating_sub(Duration::from_millis(1)).max(now);
            prop_assert_eq!(word(fuser.report(before).state), word(report.state));
        }
    }
}
