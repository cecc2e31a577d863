//! The owner's rules, with running agents on machines whose /proc and /sys the test writes.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::FOUND_WITHIN;
use idlewild_tests::lab::real_model;
use idlewild_tests::{
    Agent, Cluster, FAKE_MODEL, Fake, Lab, Launch, REAL_MODEL, Verdict, completion, eventually, in_lab, within,
};

/// Slow enough that a stream still runs when its worker leaves.
const FAKE: Fake = Fake { prefill_tps: 2000.0, decode_tps: 25.0, load_ms: 20 };
const TOKENS: u32 = 200;

/// Scenario 30: who pulls the plug has the machine within 5 s.
const DRAINED_WITHIN: Duration = Duration::from_secs(5);

/// A change is noticed at the next look, 2 s apart; a busy machine may be late.
const NOTICED_WITHIN: Duration = Duration::from_secs(15);

/// The kernel's files of one machine.
struct Machine(PathBuf);

impl Machine {
    fn new(lab: &Lab, name: &str) -> Result<Self> {
        lab.directory(&format!("machine-{name}")).map(Self)
    }

    /// Replaces a file whole, as the kernel would: a reader never sees half of it.
    fn write(&self, path: &str, text: &str) -> Result<()> {
        let file = self.0.join(path);
        fs::create_dir_all(file.parent().context("a file is in a directory")?)?;
        let fresh = file.with_extension("new");
        fs::write(&fresh, text)?;
        fs::rename(fresh, file).with_context(|| format!("write {path}"))
    }

    fn battery(&self, status: &str) -> Result<()> {
        self.write("sys/class/power_supply/BAT0/status", status)?;
        self.write("sys/class/power_supply/BAT0/type", "Battery\n")
    }

    /// So many megabytes, of which so many are available.
    fn memory(&self, total: u64, available: u64) -> Result<()> {
        let text = format!("MemTotal: {} kB\nMemFree: 1 kB\nMemAvailable: {} kB\n", total * 1000, available * 1000);
        self.write("proc/meminfo", &text)
    }

    /// An agent on it, with rules.
    fn dress(&self, launch: Launch) -> Launch {
        launch.set("rules.enabled", true).set("rules.root", self.0.to_string_lossy().into_owned())
    }
}

fn until_state(agent: &Agent, state: &str, reason: &str) -> Result<()> {
    let what = format!("{state} because of {reason:?}");
    let seen = agent.until(NOTICED_WITHIN, &what, |status| {
        (status.state() == state && status.reason.contains(reason)).then_some(())
    });
    seen.map(drop)
}

/// One agent with rules on a machine that shows nothing.
fn alone(lab: &Lab) -> Result<(Machine, Agent)> {
    let (_, hosts) = lab.home(&["a"])?;
    let machine = Machine::new(lab, "a")?;
    let launch = machine.dress(Launch::new(lab, &hosts[0])?.fake(FAKE));
    launch.configure("")?;
    Ok((machine, launch.up()?))
}

/// Runs a command of the program; gives what it prints.
fn command(agent: &Agent, words: &[&str]) -> Result<String> {
    let output = agent.launch().command(words)?.output().context("run idlewild")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "idlewild {words:?} ended with {}: {said}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn rules(agent: &Agent) -> Result<serde_json::Value> {
    serde_json::from_str(&command(agent, &["rules", "--json"])?).context("read the rules")
}

#[test]
fn a_machine_on_battery_is_drained_in_time_and_the_answer_goes_on_elsewhere() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b", "c"])?;
        let machines = ["a", "b", "c"].map(|name| Machine::new(lab, name));
        let machines = machines.into_iter().collect::<Result<Vec<_>>>()?;
        for machine in &machines {
            machine.battery("Charging\n")?;
        }
        let cluster = Cluster::new(lab, &hosts, |number, launch| {
            let launch = machines[number].dress(launch.fake(FAKE));
            Ok(if number == 0 { launch.busy() } else { launch })
        })?;
        for worker in &cluster.0[1..] {
            cluster.0[0].until_serving(worker.peer()?, FOUND_WITHIN)?;
        }
        let question = completion(FAKE_MODEL, "the plug is pulled", TOKENS);
        let expected = cluster.0[0].answer(&question)?;
        let mut stream = cluster.0[0].ask(&question)?;
        stream.read_pieces(20)?;
        let request = stream.request()?.to_owned();
        let first = cluster.0[0].explain(&request)?.assignments.last().context("an assignment")?.worker.clone();
        let worker = &cluster.0[cluster.position(&first)?];
        let reader = thread::spawn(move || stream.finish()?.whole());

        let pulled = Instant::now();
        machines[cluster.position(&first)?].battery("Discharging\n")?;
        eventually(NOTICED_WITHIN, "an engine that is gone", || Ok(worker.engine_pid().is_none()))?;
        let drained = pulled.elapsed();
        ensure!(drained < DRAINED_WITHIN, "drained after {drained:?}");
        until_state(worker, "busy", "on battery (rules.on_battery: only on mains)")?;

        let answer = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??;
        ensure!(answer.text() == expected.text(), "{:?} is not {:?}", answer.text(), expected.text());
        let story = cluster.0[0].explain(&request)?;
        ensure!(story.assignments.len() == 2, "{story:#?}");
        ensure!(story.first_left("battery"), "{story:#?}");
        let said = rules(worker)?;
        ensure!(said["decides"] == "rules.on_battery" && said["takes_work"] == false, "{said:#}");

        // Back on mains: not before the 20 seconds of a suspension, and then by itself.
        machines[cluster.position(&first)?].battery("Charging\n")?;
        cluster.0[0].until_serving(&first, Duration::from_mins(1))?;
        ensure!(pulled.elapsed() >= Duration::from_secs(20), "flapped after {:?}", pulled.elapsed());
        Ok(())
    })
}

#[test]
fn a_pause_holds_across_restarts_until_it_is_lifted_or_over() -> Verdict {
    in_lab(|lab| {
        let (_machine, mut agent) = alone(lab)?;
        until_state(&agent, "serving", "always idle")?;
        ensure!(rules(&agent)?["decides"].is_null());
        command(&agent, &["pause"])?;
        until_state(&agent, "busy", "paused by its owner (idlewild pause")?;
        agent.stop()?;
        let mut agent = agent.again()?;
        until_state(&agent, "busy", "paused by its owner")?;
        ensure!(rules(&agent)?["decides"] == "idlewild pause", "{:#}", rules(&agent)?);
        command(&agent, &["resume"])?;
        until_state(&agent, "serving", "always idle")?;

        let reply: serde_json::Value = serde_json::from_str(&command(&agent, &["snooze", "2h", "--json"])?)?;
        ensure!(reply["is_paused"] == true && reply["until_s"].is_u64(), "{reply:#}");
        agent.stop()?;
        let agent = agent.again()?;
        until_state(&agent, "busy", "paused by its owner for another")?;
        command(&agent, &["snooze", "3s"])?;
        until_state(&agent, "serving", "always idle")?;
        let refused = agent.launch().command(&["snooze", "soon"])?.output()?;
        ensure!(refused.status.code() == Some(2), "{refused:?}");
        Ok(())
    })
}

/// A window of the week that is not now, wherever on earth this runs.
fn never_now() -> Result<String> {
    let days = SystemTime::now().duration_since(UNIX_EPOCH).context("a clock")?.as_secs() / 86_400;
    // 1 January 1970 was a Thursday; three days off is another day in every time zone.
    let day = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"][((days + 3 + 3) % 7) as usize];
    Ok(format!("{day} 00:00-24:00"))
}

#[test]
fn rules_change_with_their_file_and_a_broken_one_leaves_the_last_good_one_in_force() -> Verdict {
    in_lab(|lab| {
        let (_machine, agent) = alone(lab)?;
        until_state(&agent, "serving", "always idle")?;
        let window = never_now()?;
        agent.launch().configure(&format!("[rules]\nschedule = [\"{window}\"]\n"))?;
        until_state(&agent, "busy", &format!("(rules.schedule: {window})"))?;

        agent.launch().configure("[rules]\non_battery = true\nschedule = [\"whenever\"]\n")?;
        let named = "config.toml:3: rules.schedule: \"whenever\"";
        agent.until(NOTICED_WITHIN, "a warning", |status| {
            status.warnings.iter().any(|w| w.contains(named)).then_some(())
        })?;
        ensure!(agent.log()?.contains("the settings in force stay"), "it is in the log too");
        until_state(&agent, "busy", "rules.schedule")?;

        agent.launch().configure("[engine]\nslots = 7\n[rules]\non_battery = true\n")?;
        until_state(&agent, "serving", "always idle")?;
        let warnings = agent.status()?.warnings;
        ensure!(warnings.len() == 1 && warnings[0].contains("next start on: engine.slots"), "{warnings:?}");
        agent.launch().configure("")?;
        agent.until(NOTICED_WITHIN, "no warning", |status| status.warnings.is_empty().then_some(()))?;
        Ok(())
    })
}

#[test]
fn a_network_that_goes_away_ends_a_session_and_the_machine_still_serves_itself() -> Verdict {
    in_lab(|lab| {
        let (_machine, agent) = alone(lab)?;
        until_state(&agent, "serving", "always idle")?;
        ensure!(agent.answer(&completion(FAKE_MODEL, "hello", 5))?.done);
        // Addresses are looked at every 2 s: one look must have seen them.
        eventually(NOTICED_WITHIN, "a look", || {
            let said = rules(&agent)?;
            let all = said["rules"].as_array().context("rules")?;
            Ok(all.iter().any(|rule| rule["key"] == "rules.on_battery" && rule["seen"] == "on mains"))
        })?;
        agent.host().ip("addr flush dev eth0")?;
        eventually(NOTICED_WITHIN, "the end of a session", || {
            Ok(agent.log()?.contains("session ended cause=Network"))
        })?;
        ensure!(agent.answer(&completion(FAKE_MODEL, "hello", 5))?.done, "it serves itself");
        Ok(())
    })
}

#[test]
fn a_full_memory_gets_the_engines_part_back_at_once() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a"])?;
        let machine = Machine::new(lab, "a")?;
        machine.memory(8000, 6000)?;
        // A grace that is longer than the test waits.
        let agent = machine.dress(Launch::new(lab, &hosts[0])?.fake(FAKE).set("owner.grace_ms", 30_000_u32)).up()?;
        let mut stream = agent.ask(&completion(FAKE_MODEL, "much to say", TOKENS))?;
        stream.read_pieces(5)?;
        machine.memory(8000, 300)?;
        eventually(NOTICED_WITHIN, "an engine that is gone", || Ok(agent.engine_pid().is_none()))?;
        until_state(&agent, "busy", "96 % of 8192 MB of memory in use (rules.ram_idle_percent")?;
        Ok(())
    })
}

#[test]
fn an_engine_that_holds_more_than_the_owner_gives_it_is_gone_at_once_when_the_owner_is_back() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a"])?;
        let machine = Machine::new(lab, "a")?;
        machine.memory(8000, 6000)?;
        // A grace that is longer than the test waits.
        let launch = Launch::new(lab, &hosts[0])?.fake(FAKE).scripted().set("owner.grace_ms", 30_000_u32);
        let agent = machine.dress(launch).up()?;
        agent.owner("away")?;
        until_state(&agent, "serving", "the owner script")?;
        let mut stream = agent.ask(&completion(FAKE_MODEL, "much to say", TOKENS))?;
        stream.read_pieces(5)?;
        let (pid, engine) = (agent.pid(), agent.engine_pid().context("an engine")?);
        machine.write(&format!("proc/{engine}/status"), "VmRSS: 5000000 kB\n")?;
        machine.write(&format!("proc/{pid}/task/{pid}/children"), &format!("{engine}\n"))?;
        let of_ram_busy = || -> Result<(String, String)> {
            let said = rules(&agent)?;
            let all = said["rules"].as_array().context("rules")?;
            let rule = all.iter().find(|rule| rule["key"] == "rules.ram_busy_percent").context("the rule")?;
            let text = |name: &str| rule[name].as_str().unwrap_or_default().to_owned();
            Ok((text("standing"), text("seen")))
        };
        eventually(NOTICED_WITHIN, "a look", || Ok(of_ram_busy()?.1.contains("holds 62 %")))?;
        ensure!(of_ram_busy()?.0 == "off" && agent.engine_pid() == Some(engine), "it is the owner's who is there");
        agent.owner("present")?;
        eventually(NOTICED_WITHIN, "an engine that is gone", || Ok(agent.engine_pid().is_none()))?;
        let (standing, seen) = of_ram_busy()?;
        ensure!(standing == "broken", "{standing}: {seen}");
        until_state(&agent, "busy", "(rules.ram_busy_percent: at most 50 % while the owner is there)")
    })
}

/// The room shows in what others are told, so that they do not ask in vain.
#[test]
fn a_peer_without_memory_for_a_model_is_asked_after_those_that_have_it() -> Verdict {
    let Some(model) = real_model()? else { return Ok(()) };
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b", "c"])?;
        let machines = ["b", "c"].map(|name| Machine::new(lab, name));
        let machines = machines.into_iter().collect::<Result<Vec<_>>>()?;
        for (machine, mb) in machines.iter().zip([300_u64, 3000]) {
            machine.memory(16_000, 15_000)?;
            machine.write("proc/self/cgroup", "0::/idlewild.service\n")?;
            machine.write("sys/fs/cgroup/idlewild.service/memory.max", &format!("{}\n", mb * 1_000_000))?;
            machine.write("sys/fs/cgroup/idlewild.service/memory.current", "20000000\n")?;
        }
        let cluster = Cluster::new(lab, &hosts, |number, launch| {
            if number == 0 {
                return Ok(launch.busy());
            }
            launch.import(&model, REAL_MODEL)?;
            Ok(machines[number - 1].dress(launch))
        })?;
        let [origin, small, large] = &cluster.0[..] else { anyhow::bail!("three agents") };
        for worker in [small, large] {
            origin.until_serving(worker.peer()?, FOUND_WITHIN)?;
        }
        let stream = origin.ask(&completion(REAL_MODEL, "1 2 3 4", 8))?;
        let request = stream.request()?.to_owned();
        ensure!(stream.finish()?.whole()?.done);
        let story = origin.explain(&request)?;
        let [only] = &story.assignments[..] else { anyhow::bail!("tried in vain: {story:#?}") };
        let wait_s = |peer: &str| only.terms.iter().find(|terms| terms.peer == peer).map(|terms| terms.wait_s);
        ensure!(only.worker == large.peer()?, "{story:#?}");
        ensure!(wait_s(small.peer()?).is_some_and(|wait| wait >= 3600.0), "{story:#?}");
        ensure!(wait_s(large.peer()?).is_some_and(|wait| wait < 60.0), "{story:#?}");
        Ok(())
    })
}

/// Scenario 37: the control group allows less than the machine has free.
#[test]
fn a_model_that_does_not_fit_is_refused_with_numbers_and_loaded_once_it_does() -> Verdict {
    let Some(model) = real_model()? else { return Ok(()) };
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a"])?;
        let machine = Machine::new(lab, "a")?;
        machine.memory(16_000, 15_000)?;
        machine.write("proc/self/cgroup", "0::/user.slice/idlewild.service\n")?;
        let group = "sys/fs/cgroup/user.slice/idlewild.service";
        machine.write(&format!("{group}/memory.max"), "300000000\n")?;
        machine.write(&format!("{group}/memory.current"), "20000000\n")?;
        let launch = machine.dress(Launch::new(lab, &hosts[0])?);
        launch.import(&model, REAL_MODEL)?;
        let agent = launch.up()?;
        agent.until(NOTICED_WITHIN, "a session", |status| (status.state() == "serving").then_some(()))?;
        let question = completion(REAL_MODEL, "1 2 3 4", 8);
        let mut refused = agent.ask(&question)?;
        let body = refused.body()?;
        ensure!(refused.status() >= 400, "{body}");
        for part in ["needs about", "250 MB may be taken: 90 % of 300 MB", "rules.ram_idle_percent"] {
            ensure!(body.contains(part), "{part:?} is missing in {body}");
        }
        ensure!(agent.status()?.engine.model.is_none(), "{:?}", agent.status()?.engine);
        machine.write(&format!("{group}/memory.max"), "3000000000\n")?;
        let (answer, _) = within(NOTICED_WITHIN, "an answer", || Ok(agent.answer(&question).ok()))?;
        ensure!(answer.done, "{answer:?}");
        Ok(())
    })
}
