//! The machine sleeps or shuts down: peers hear a goodbye and see no timeout, and nothing keeps the machine awake for long.

use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::{API_WITHIN, FOUND_WITHIN};
use idlewild_tests::{
    Agent, Bus, Cluster, FAKE_MODEL, Fake, Lab, Launch, Logind, Signal, Verdict, completion, eventually, in_lab, within,
};

const FAKE: Fake = Fake { prefill_tps: 2000.0, decode_tps: 25.0, load_ms: 20 };
const TOKENS: u32 = 150;

/// The promise is 1.5 s from logind's word on; the two ends of the bus are on a busy machine.
const RELEASED_WITHIN: Duration = Duration::from_secs(3);

/// What takes no time on a machine that has some.
const SOON: Duration = Duration::from_secs(15);

/// An origin, and workers of which the first is on the bus and away from the start, the second when the test says so.
fn cluster(lab: &Lab, bus: &Bus) -> Result<Cluster> {
    let (_, hosts) = lab.home(&["a", "b", "c"])?;
    let cluster = Cluster::new(lab, &hosts, |number, launch| {
        let launch = launch.fake(FAKE);
        Ok(match number {
            0 => launch.busy(),
            1 => launch.system_bus(bus.address()),
            _ => launch.scripted(),
        })
    })?;
    cluster.0[0].until_serving(cluster.0[1].peer()?, FOUND_WITHIN)?;
    Ok(cluster)
}

/// What the origin believes of a peer.
fn until_leaving(agent: &Agent, peer: &str, cause: &str) -> Result<()> {
    let seen = agent.until(SOON, &format!("a departure of {cause}"), |status| {
        let state = status.of(peer)?.state.as_ref()?;
        (state["state"] == "leaving" && state["cause"] == cause).then_some(())
    });
    seen.map(drop)
}

/// Scenario 32, the agent's half.
#[test]
fn a_machine_that_sleeps_says_goodbye_first_and_serves_again_when_it_wakes() -> Verdict {
    in_lab(|lab| {
        let bus = Bus::start(lab)?;
        let mut logind = Logind::start(&bus)?;
        let cluster = cluster(lab, &bus)?;
        let [origin, sleeper, other] = &cluster.0[..] else { anyhow::bail!("three agents") };
        let peer = sleeper.peer()?.to_owned();
        for what in ["sleep", "shutdown"] {
            logind.wait_for_inhibitors(what, 1)?;
        }
        let mut stream = origin.ask(&completion(FAKE_MODEL, "good night", TOKENS))?;
        stream.read_pieces(10)?;
        let request = stream.request()?.to_owned();
        other.owner("away")?;
        origin.until_serving(other.peer()?, FOUND_WITHIN)?;
        let reader = thread::spawn(move || stream.finish()?.whole());

        let from = logind.tell("sleep")?;
        logind.wait_for(from, "released sleep", RELEASED_WITHIN)?;
        until_leaving(origin, sleeper.peer()?, "sleep")?;
        // The machine sleeps: nothing of it runs.
        sleeper.signal(Signal::STOP)?;
        origin.until_gone(sleeper.peer()?, SOON)?;
        let departed = |line: &str| line.contains("peer departed") && line.contains(&peer);
        let (departure, _) = within(SOON, "a word about it in the log", || {
            Ok(origin.log()?.lines().find(|line| departed(line)).map(str::to_owned))
        })?;
        ensure!(departure.contains("why=Goodbye(Sleep)"), "a timeout and no goodbye: {departure}");
        let answer = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??;
        ensure!(answer.done && answer.error.is_none(), "{answer:?}");
        let story = origin.explain(&request)?;
        ensure!(story.first_left("sleep"), "{story:#?}");

        sleeper.signal(Signal::CONT)?;
        logind.tell("wake")?;
        logind.wait_for_inhibitors("sleep", 1)?;
        origin.until_serving(sleeper.peer()?, Duration::from_secs(30))?;
        Ok(())
    })
}

#[test]
fn a_shutdown_that_is_called_off_is_a_departure_and_a_return() -> Verdict {
    in_lab(|lab| {
        let bus = Bus::start(lab)?;
        let mut logind = Logind::start(&bus)?;
        let cluster = cluster(lab, &bus)?;
        let peer = cluster.0[1].peer()?;
        logind.wait_for_inhibitors("shutdown", 1)?;
        let from = logind.tell("shutdown")?;
        logind.wait_for(from, "released shutdown", RELEASED_WITHIN)?;
        until_leaving(&cluster.0[0], peer, "shutdown")?;
        logind.tell("stay")?;
        cluster.0[0].until_serving(peer, SOON)?;
        logind.wait_for_inhibitors("shutdown", 1)
    })
}

/// What the doctor says of the logind that tells before the machine sleeps: its second row of that name, if the first is that
/// of who is logged in.
fn doctor_of_logind(agent: &Agent) -> Result<String> {
    let said = agent.launch().command(&["doctor"])?.output().context("run the doctor")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    said.lines().rfind(|line| line.starts_with("logind")).map(str::to_owned).context("no row of logind's")
}

#[test]
fn without_a_logind_nothing_waits_and_the_log_says_why() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a"])?;
        // A bus that takes connections and never answers.
        let socket = lab.files().join("deaf");
        let _deaf = UnixListener::bind(&socket)?;
        let deaf = format!("unix:path={}", socket.display());
        let bus = Bus::start(lab)?;
        for (name, address, why, doctor) in [
            ("none", "unix:path=/nonexistent/bus", "there is no system bus", "there is no system bus"),
            ("deaf", deaf.as_str(), "the system bus does not answer", "the system bus does not answer"),
            ("bare", bus.address(), "logind does not answer", "it is not on the system bus"),
        ] {
            let launch =
                Launch::named(lab, &hosts[0], name)?.fake(FAKE).set("api.port", 0_u16).set("swarm.port", 0_u16);
            let agent = launch.system_bus(address).start()?;
            let took = agent.wait_for_api()?;
            ensure!(took < API_WITHIN, "{name}: the API took {took:?}");
            agent.until(SOON, "a session", |status| (status.state() == "serving").then_some(()))?;
            ensure!(agent.answer(&completion(FAKE_MODEL, "hello", 5))?.done, "{name}");
            eventually(SOON, why, || Ok(agent.log()?.contains(why)))?;
            let says = doctor_of_logind(&agent)?;
            ensure!(says.contains(doctor) && says.contains("peers are not told before"), "{name}: {says}");
        }
        let logind = Logind::start(&bus)?;
        let agent = Launch::named(lab, &hosts[0], "left")?.fake(FAKE).system_bus(bus.address()).up()?;
        logind.wait_for_inhibitors("sleep", 1)?;
        let says = doctor_of_logind(&agent)?;
        ensure!(says.contains("says before this machine sleeps or shuts down, and waits"), "{says}");
        logind.vanish()?;
        eventually(SOON, "a word about it", || Ok(agent.log()?.contains("logind has gone")))?;
        ensure!(agent.answer(&completion(FAKE_MODEL, "hello", 5))?.done);
        // And one that comes back is found again.
        let again = Logind::start(&bus)?;
        again.wait_for_inhibitors("sleep", 1)
    })
}
