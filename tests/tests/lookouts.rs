//! An agent that belongs to no session, and lookouts in the sessions of others: what it sees by them, and what they cannot do.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::resident_bytes;
use idlewild_tests::desktop::{Bus, Engine, Porch, Screen, Script, Sight, World};
use idlewild_tests::lab::can_have_desktop;
use idlewild_tests::{Agent, Fake, Lab, Launch, Signal, Verdict, eventually, in_lab};

/// The account "nobody": a bus lets in none that the machine does not have. The other it need not.
const ANNA: u32 = 65534;
const STRANGER: u32 = 4713;

/// Seconds without input.
const DELAY_S: u32 = 2;

/// For what takes the delay of a second, on a busy machine.
const SOON: Duration = Duration::from_secs(15);

/// For what takes a lookout's silence, or its next attempt.
const LATER: Duration = Duration::from_secs(40);

/// Whether a test that needs a desktop runs.
fn in_desktop(body: impl FnOnce(&Lab) -> Verdict) -> Verdict {
    if can_have_desktop()? { in_lab(body) } else { Ok(()) }
}

/// A service of the system: no screen and no session bus in its environment.
fn service(lab: &Lab, system: &Bus, porch: &Porch) -> Result<Launch> {
    let launch = Launch::new(lab, &lab.host("a")?)?.fake(Fake::decoding(100.0)).detecting(DELAY_S);
    let launch = launch.variable("DBUS_SYSTEM_BUS_ADDRESS", system.address());
    Ok(launch.set("owner.lookout_socket", porch.socket()))
}

fn until(agent: &Agent, state: &str, reason: &str, deadline: Duration) -> Result<()> {
    let what = format!("{state}, since {reason:?}");
    let seen = agent
        .until(deadline, &what, |status| (status.state() == state && status.reason.contains(reason)).then_some(()));
    seen.map(drop)
}

fn doctor(agent: &Agent) -> Result<String> {
    let output = agent.launch().command(&["doctor"])?.output().context("run the doctor")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn input_that_a_lookout_sees_stops_the_engine_within_a_tenth_of_a_second() -> Verdict {
    in_desktop(|lab| {
        let reactions = World::new(lab, Sight::Lookout, &Engine::Fake)?.trials(7)?;
        let mut stopped: Vec<Duration> = reactions.iter().map(|reaction| reaction.told).collect();
        stopped.sort();
        println!("the engine stopped after {stopped:?}");
        ensure!(stopped[stopped.len() / 2] <= Duration::from_millis(100), "the engine stopped after {stopped:?}");
        Ok(())
    })
}

#[test]
fn a_service_sees_a_sessions_screen_by_its_lookout_and_without_one_counts_it_as_in_use() -> Verdict {
    in_desktop(|lab| {
        let (bus, mut screen, porch) = (Bus::start(lab, "system")?, Screen::start()?, Porch::open(lab)?);
        let mut logind = Script::logind(&bus)?;
        logind.say(&format!("session 3 {ANNA} anna x11"))?;
        let (seen, unseen) = ("the screen of anna (session 3, X11)", "no lookout reports from it");
        let mut agent = service(lab, &bus, &porch)?.up()?;
        until(&agent, "busy", unseen, SOON)?;
        let told = doctor(&agent)?;
        ensure!(told.contains("none reports at ") && told.contains("start `idlewild lookout`"), "{told}");

        let lookout = porch.lookout(ANNA, &bus, screen.display())?;
        until(&agent, "serving", seen, SOON)?;
        let told = doctor(&agent)?;
        ensure!(told.contains("session 3 of anna (X11): last input ") && !told.contains("hint: this agent"), "{told}");
        screen.input()?;
        until(&agent, "busy", seen, SOON)?;
        until(&agent, "serving", seen, SOON)?;

        // Killed: nobody sees the screen any more.
        drop(lookout);
        until(&agent, "busy", unseen, SOON)?;
        let mut lookout = porch.lookout(ANNA, &bus, screen.display())?;
        until(&agent, "serving", seen, SOON)?;
        // Frozen: as good as killed, until it goes on.
        lookout.signal(Signal::STOP)?;
        until(&agent, "busy", unseen, LATER)?;
        lookout.signal(Signal::CONT)?;
        until(&agent, "serving", seen, LATER)?;

        // The agent restarts, after a kill too, and the lookout finds it again.
        ensure!(agent.stop()?.success(), "it stops as always");
        let mut agent = agent.again()?;
        until(&agent, "serving", seen, LATER)?;
        agent.kill()?;
        let agent = agent.again()?;
        until(&agent, "serving", seen, LATER)?;

        // The session ends, and with it its lookout.
        logind.say("end 3")?;
        ensure!(lookout.wait(SOON)?.success(), "{}", lookout.words()?);
        ensure!(lookout.words()?.contains("this session has ended"), "{}", lookout.words()?);
        until(&agent, "serving", "nobody is logged in", SOON)
    })
}

/// Says something at the socket as root; gives the connection.
fn call(porch: &Porch, words: &[u8]) -> Result<UnixStream> {
    let mut stream = UnixStream::connect(porch.socket()).context("connect")?;
    // It may be hung up on before it has said all.
    let _ = stream.write_all(words);
    Ok(stream)
}

/// What a refused caller is told.
fn told(mut stream: UnixStream) -> String {
    let mut text = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn strangers_and_garbage_are_refused_and_nobody_speaks_for_anothers_session() -> Verdict {
    in_desktop(|lab| {
        let (bus, screen, porch) = (Bus::start(lab, "system")?, Screen::start()?, Porch::open(lab)?);
        let mut logind = Script::logind(&bus)?;
        logind.say(&format!("session 3 {ANNA} anna x11"))?;
        let agent = service(lab, &bus, &porch)?.up()?;
        until(&agent, "busy", "no lookout reports from it", SOON)?;

        // Whoever is not logged in is told so, and its lookout ends.
        let mut stranger = porch.lookout(STRANGER, &bus, screen.display())?;
        ensure!(stranger.wait(SOON)?.code() == Some(1), "{}", stranger.words()?);
        ensure!(stranger.words()?.contains("account 4713 is not logged in"), "{}", stranger.words()?);

        // Another account, root even, says that nobody is at Anna's screen.
        let lie = "{\"session\":\"3\",\"screen\":{\"state\":\"quiet\",\"by\":\"X11\",\"since_ms\":0}}\n";
        let liar = call(&porch, format!("{{\"lookout\":1}}\n{lie}").as_bytes())?;
        eventually(SOON, "the lie to be heard", || Ok(doctor(&agent)?.contains("account 0 (X11): last input")))?;
        let status = agent.status()?;
        ensure!(status.state() == "busy" && status.reason.contains("the screen of anna (session 3) cannot be seen"));
        drop(liar);

        // Bytes without end, of which nothing is kept.
        let before = resident_bytes(agent.pid())?;
        let text = told(call(&porch, &vec![b'x'; 32 << 20])?);
        ensure!(text.contains("it speaks without end"), "{text:?}");
        for garbage in [&b"\xff\xfe\0\n"[..], b"{}\n", b"{\"lookout\":1}\n[]\n"] {
            let text = told(call(&porch, garbage)?);
            ensure!(text.contains("refused"), "{text:?}");
        }
        let grown = resident_bytes(agent.pid())?.saturating_sub(before);
        ensure!(grown < 8 << 20, "the agent has grown by {grown} bytes");
        // More connections than an account may have.
        let kept: Vec<UnixStream> =
            (0..4).map(|_| call(&porch, b"{\"lookout\":1}\n")).collect::<Result<_>>().context("connect")?;
        for stream in &kept {
            let mut first = [0];
            ensure!((&mut &*stream).read(&mut first)? == 1, "each of four is answered");
        }
        let text = told(call(&porch, b"{\"lookout\":1}\n")?);
        ensure!(text.contains("4 of account 0"), "{text:?}");
        drop(kept);

        // Who is welcome is heard as before.
        let _lookout = porch.lookout(ANNA, &bus, screen.display())?;
        until(&agent, "serving", "no input at the screen of anna (session 3, X11)", SOON)
    })
}
