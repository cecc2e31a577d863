//! The owner's detector before real screens, buses and compositors: what it sees, how soon, and what it must never believe.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::cpu_time;
use idlewild_tests::desktop::{Bus, Compositor, Engine, Mutter, Screen, Script, Sight, Silent, World};
use idlewild_tests::lab::can_have_desktop;
use idlewild_tests::{Agent, Fake, Lab, Launch, Verdict, in_lab};

/// Seconds without input.
const DELAY_S: u32 = 2;

/// For what takes the delay of a second, on a busy machine.
const SOON: Duration = Duration::from_secs(15);

/// For what takes a layer's next attempt, or its next sign of life.
const LATER: Duration = Duration::from_secs(40);

/// An agent of its own, that sees a system bus.
fn detecting(lab: &Lab, system: &Bus) -> Result<Launch> {
    let launch = Launch::new(lab, &lab.host("a")?)?.fake(Fake::decoding(100.0)).detecting(DELAY_S);
    Ok(launch.variable("DBUS_SYSTEM_BUS_ADDRESS", system.address()))
}

fn until(agent: &Agent, state: &str, reason: &str, deadline: Duration) -> Result<Duration> {
    let what = format!("{state}, since {reason:?}");
    let seen = agent
        .until(deadline, &what, |status| (status.state() == state && status.reason.contains(reason)).then_some(()));
    seen.map(|((), took)| took)
}

/// Whether a test that needs a desktop runs.
fn in_desktop(body: impl FnOnce(&Lab) -> Verdict) -> Verdict {
    if can_have_desktop()? { in_lab(body) } else { Ok(()) }
}

#[test]
fn input_stops_the_engine_within_a_tenth_of_a_second_and_others_know_within_one() -> Verdict {
    in_desktop(|lab| {
        let reactions = World::new(lab, Sight::X11, &Engine::Fake)?.trials(10)?;
        let mut told: Vec<Duration> = reactions.iter().map(|reaction| reaction.told).collect();
        told.sort();
        ensure!(told[told.len() / 2] <= Duration::from_millis(100), "the engine stopped after {told:?}");
        let mut known: Vec<Duration> = reactions.iter().map(|reaction| reaction.known).collect();
        known.sort();
        ensure!(known[known.len() / 2] <= Duration::from_secs(1), "others knew after {known:?}");
        Ok(())
    })
}

#[test]
fn however_input_is_seen_it_stops_the_engine_and_others_know_within_a_second() -> Verdict {
    for sight in [Sight::Wayland, Sight::Gnome, Sight::Logind] {
        in_desktop(|lab| {
            let mut reactions = World::new(lab, sight, &Engine::Fake)?.trials(3)?;
            reactions.sort_by_key(|reaction| reaction.told);
            ensure!(reactions[1].told <= Duration::from_millis(500), "{sight:?}: {reactions:?}");
            reactions.sort_by_key(|reaction| reaction.known);
            ensure!(reactions[1].known <= Duration::from_secs(1), "{sight:?}: {reactions:?}");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn a_machine_at_which_nobody_is_logged_in_works_after_the_delay() -> Verdict {
    in_desktop(|lab| {
        let bus = Bus::start(lab, "system")?;
        let mut logind = Script::logind(&bus)?;
        let agent = detecting(lab, &bus)?.up()?;
        until(&agent, "serving", "nobody is logged in", SOON)?;
        // Another account takes the screen, goes idle, comes back, and leaves.
        logind.say("session 3 4711 anna wayland")?;
        until(&agent, "busy", "the screen of anna (session 3) cannot be seen", SOON)?;
        logind.say("set 3 IdleSinceHintMonotonic 1000000")?;
        logind.say("set 3 IdleHint true")?;
        until(&agent, "serving", "no input at the screen of anna", SOON)?;
        logind.say("set 3 IdleHint false")?;
        until(&agent, "busy", "the screen of anna", SOON)?;
        logind.say("set 3 LockedHint true")?;
        until(&agent, "serving", "which is locked", SOON)?;
        logind.say("set 3 LockedHint false")?;
        until(&agent, "busy", "the screen of anna", SOON)?;
        logind.say("end 3")?;
        until(&agent, "serving", "nobody is logged in", SOON).map(drop)
    })
}

#[test]
fn a_service_that_starts_before_its_display_finds_it_and_inhibitors_count_as_input() -> Verdict {
    in_desktop(|lab| {
        let (system, session) = (Bus::start(lab, "system")?, Bus::start(lab, "session")?);
        let (mut logind, mut gnome) = (Script::logind(&system)?, Script::gnome(&session)?);
        let agent = detecting(lab, &system)?.variable("DBUS_SESSION_BUS_ADDRESS", session.address()).up()?;
        until(&agent, "serving", "nobody is logged in", SOON)?;
        let mut screen = Screen::start()?;
        logind.say("session 2 0 root x11")?;
        until(&agent, "busy", "your screen cannot be seen", SOON)?;
        logind.say(&format!("set 2 Display \"{}\"", screen.display()))?;
        until(&agent, "serving", "no input at the screen (X11)", LATER)?;
        screen.input()?;
        until(&agent, "busy", "the screen (X11)", SOON)?;
        until(&agent, "serving", "no input at the screen (X11)", SOON)?;
        // A film, by the system's inhibitor and by the desktop's.
        for script in [&mut logind, &mut gnome] {
            script.say("inhibit Player a-film")?;
            until(&agent, "busy", "Player (a-film) keeps the screen awake", SOON)?;
            script.say("release")?;
            until(&agent, "serving", "no input at the screen (X11)", SOON)?;
        }
        // Nobody watches a film behind a lock.
        logind.say("set 2 LockedHint true")?;
        logind.say("inhibit Player a-film")?;
        until(&agent, "serving", "which is locked", SOON)?;
        screen.input()?;
        until(&agent, "busy", "the screen (X11)", SOON)?;
        // Whoever logs out takes the screen along.
        drop(screen);
        logind.say("release")?;
        logind.say("end 2")?;
        until(&agent, "serving", "nobody is logged in", LATER).map(drop)
    })
}

#[test]
fn an_x_server_that_freezes_is_a_screen_that_nobody_sees() -> Verdict {
    in_desktop(|lab| {
        let (bus, mut screen) = (Bus::start(lab, "system")?, Screen::start()?);
        let mut logind = Script::logind(&bus)?;
        logind.say("session 2 0 root x11")?;
        let agent = detecting(lab, &bus)?.variable("DISPLAY", screen.display()).up()?;
        until(&agent, "serving", "no input at the screen (X11)", SOON)?;
        // The login screen lets somebody in: that is presence before the first input.
        logind.say("unlock 2")?;
        until(&agent, "busy", "somebody has just unlocked a session", SOON)?;
        until(&agent, "serving", "no input at the screen (X11)", SOON)?;
        screen.freeze()?;
        until(&agent, "busy", "the X server does not answer", LATER)?;
        screen.thaw()?;
        screen.input()?;
        until(&agent, "serving", "no input at the screen (X11)", LATER).map(drop)
    })
}

#[test]
fn a_compositor_with_idle_notifications_tells_of_input_and_a_frozen_one_is_not_believed() -> Verdict {
    in_desktop(|lab| {
        let (bus, compositor) = (Bus::start(lab, "system")?, Compositor::start(lab)?);
        let mut logind = Script::logind(&bus)?;
        logind.say("session 2 0 root wayland")?;
        // Xwayland's display is there too, and must not be listened to.
        let screen = Screen::start()?;
        let launch = detecting(lab, &bus)?.variable("WAYLAND_DISPLAY", compositor.socket());
        let agent = launch.variable("DISPLAY", screen.display()).up()?;
        for _ in 0..3 {
            until(&agent, "serving", "no input at the screen (Wayland)", SOON)?;
            compositor.input()?;
            let took = until(&agent, "busy", "the screen (Wayland)", SOON)?;
            ensure!(took < Duration::from_secs(2), "present {took:?} after the input");
        }
        until(&agent, "serving", "no input at the screen (Wayland)", SOON)?;
        compositor.inhibit(true)?;
        until(&agent, "busy", "the screen (Wayland)", SOON)?;
        compositor.inhibit(false)?;
        until(&agent, "serving", "no input at the screen (Wayland)", SOON)?;
        compositor.freeze()?;
        until(&agent, "busy", "the compositor does not answer", LATER).map(drop)
    })
}

#[test]
fn gnomes_own_idle_monitor_is_seen_where_its_compositor_has_no_notifications() -> Verdict {
    in_desktop(|lab| {
        let bus = Bus::start(lab, "both")?;
        let mutter = Mutter::start(lab, &bus)?;
        let runtime = lab.files().join("mutter");
        let launch = detecting(lab, &bus)?.variable("DBUS_SESSION_BUS_ADDRESS", bus.address());
        let launch = launch.variable("XDG_RUNTIME_DIR", &runtime).variable("WAYLAND_DISPLAY", "wayland-0");
        let agent = launch.up()?;
        for _ in 0..3 {
            until(&agent, "serving", "no input at the screen (GNOME)", SOON)?;
            mutter.input()?;
            let took = until(&agent, "busy", "the screen (GNOME)", SOON)?;
            ensure!(took < Duration::from_secs(2), "present {took:?} after the input");
        }
        drop(mutter);
        // Its compositor went, and nobody says that somebody is logged in.
        until(&agent, "serving", "nobody is logged in", LATER).map(drop)
    })
}

#[test]
fn another_idle_delay_counts_without_a_restart() -> Verdict {
    in_desktop(|lab| {
        let (bus, screen) = (Bus::start(lab, "system")?, Screen::start()?);
        let mut logind = Script::logind(&bus)?;
        logind.say("session 2 0 root x11")?;
        let launch = Launch::new(lab, &lab.host("a")?)?.fake(Fake::decoding(100.0)).set("owner.source", "detected");
        let launch = launch.variable("DBUS_SYSTEM_BUS_ADDRESS", bus.address()).variable("DISPLAY", screen.display());
        launch.configure("[owner]\nidle_delay_s = 3600\n")?;
        let agent = launch.clone().up()?;
        until(&agent, "busy", "the screen (X11)", SOON)?;
        for (delay_s, state) in [(DELAY_S, "serving"), (3600, "busy"), (DELAY_S + 1, "serving")] {
            launch.configure(&format!("[owner]\nidle_delay_s = {delay_s}\n"))?;
            until(&agent, state, "the screen (X11)", SOON)?;
            let doctor = launch.command(&["doctor"])?.output().context("run the doctor")?;
            let says = String::from_utf8_lossy(&doctor.stdout).into_owned();
            ensure!(says.contains(&format!("detected, away after {delay_s} s")), "{says}");
        }
        ensure!(agent.status()?.warnings.is_empty(), "nothing waits: {:?}", agent.status()?.warnings);
        Ok(())
    })
}

/// How long it is watched that nothing is believed: several attempts of each layer.
const WATCHED: Duration = Duration::from_secs(12);

/// Of a core, all attempts included.
const SHARE_MAX: f64 = 0.03;

#[test]
fn sockets_that_never_answer_delay_nothing_cost_nothing_and_are_never_taken_for_an_absent_owner() -> Verdict {
    in_desktop(|lab| {
        let folder = lab.directory("silent")?;
        let [system, session, wayland] = ["system", "session", "wayland"].map(|name| folder.join(name));
        let buses = [Silent::at(&system)?, Silent::at(&session)?];
        let compositor = Silent::at(&wayland)?;
        let (x, display) = Silent::display()?;
        let address = |path: &std::path::Path| format!("unix:path={}", path.display());
        let launch = Launch::new(lab, &lab.host("a")?)?.fake(Fake::decoding(100.0)).detecting(DELAY_S);
        let launch = launch.variable("DBUS_SYSTEM_BUS_ADDRESS", address(&system));
        let launch = launch.variable("DBUS_SESSION_BUS_ADDRESS", address(&session));
        for (name, value, why) in [
            ("DISPLAY", display.as_str(), "the X server does not answer"),
            ("WAYLAND_DISPLAY", wayland.to_str().context("a path")?, "the compositor does not answer"),
        ] {
            // Returns once the API is up, within its promise.
            let mut agent = launch.clone().variable(name, value).up()?;
            until(&agent, "busy", why, SOON)?;
            let (started, used) = (Instant::now(), cpu_time(agent.pid())?);
            while started.elapsed() < WATCHED {
                let status = agent.status()?;
                ensure!(status.state() == "busy", "it believes {}", status.reason);
                thread::sleep(Duration::from_millis(100));
            }
            let share = cpu_time(agent.pid())?.saturating_sub(used).as_secs_f64() / started.elapsed().as_secs_f64();
            ensure!(share < SHARE_MAX, "{share:.3} of a core");
            ensure!(agent.stop()?.success(), "it stops as always");
        }
        for (socket, name) in buses.iter().zip(["system", "session"]).chain([(&x, "X"), (&compositor, "Wayland")]) {
            // With pauses of 1, 2, 4 and 8 s and 2 s for each attempt; three layers share the session bus.
            ensure!((1..=40).contains(&socket.calls()), "{} calls at {name}", socket.calls());
        }
        Ok(())
    })
}

#[test]
fn the_doctor_says_what_is_seen_what_is_not_and_what_to_do() -> Verdict {
    in_desktop(|lab| {
        let (bus, screen) = (Bus::start(lab, "system")?, Screen::start()?);
        let mut logind = Script::logind(&bus)?;
        logind.say("session 2 0 root x11")?;
        let launch = detecting(lab, &bus)?.variable("DISPLAY", screen.display());
        let doctor = |arguments: &[&str]| -> Result<String> {
            let output = launch.command(arguments)?.output().context("run the doctor")?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
        };
        let alone = doctor(&["doctor"])?;
        let said = ["X11 ", "session 2 (yours, X11)", "no agent runs", "peers are not told before this machine"];
        for word in
            said.into_iter().chain(["detected, away after 2 s", "it is not on the system bus: no network", "processor"])
        {
            ensure!(alone.contains(word), "{word:?} is missing in {alone}");
        }
        let agent = launch.clone().up()?;
        until(&agent, "serving", "X11", SOON)?;
        let asked = doctor(&["doctor"])?;
        ensure!(asked.contains("owner   away: no input at the screen (X11)") && !asked.contains("no agent"), "{asked}");
        ensure!(
            asked.lines().any(|line| line.starts_with("NetworkManager") && line.contains("nothing there")),
            "{asked}"
        );
        drop(screen);
        until(&agent, "busy", "your screen cannot be seen", LATER)?;
        let told = doctor(&["doctor", "--json"])?;
        let told: serde_json::Value = serde_json::from_str(&told).context("read the doctor's JSON")?;
        ensure!(told["owner"] == "unknown" && told["advice"].to_string().contains("import-environment"), "{told}");
        Ok(())
    })
}
