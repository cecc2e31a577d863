//! Sessions on record and what is made of them: kills, sleep, imports, forecasts, scores.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_tests::{Agent, Fake, Lab, Launch, Signal, Verdict, eventually, in_lab, within};
use serde_json::Value;

/// What the agent does within a second or two, on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(20);

/// Longer than the gap between two signs of life that counts as sleep.
const SLEEPS: Duration = Duration::from_secs(7);

/// Tables of real sessions, `NAME.train.csv` each, in the form that `idlewild hazard score` reads.
const TRACES_VARIABLE: &str = "IDLEWILD_TEST_TRACES";

fn launch(lab: &Lab) -> Result<Launch> {
    let (_, hosts) = lab.home(&["a"])?;
    Ok(Launch::new(lab, &hosts[0])?.fake(Fake::decoding(400.0)).scripted())
}

fn run(launch: &Launch, arguments: &[&str]) -> Result<Output> {
    launch.command(arguments)?.stdin(std::process::Stdio::null()).output().context("run the program")
}

fn json(launch: &Launch, arguments: &[&str]) -> Result<Value> {
    let output = run(launch, arguments)?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("read its JSON")
}

/// The live session's age in seconds; none outside a session.
fn age_s(agent: &Agent) -> Result<Option<u64>> {
    Ok(agent.client()?.get("/idlewild/v1/status")?.successful()?.json["session_age_s"].as_u64())
}

fn until_session(agent: &Agent) -> Verdict {
    eventually(SOON, "a session", || Ok(age_s(agent)?.is_some())).map(|_| ())
}

fn database(launch: &Launch) -> Result<rusqlite::Connection> {
    let path = launch.home_path().join("data/idlewild.db");
    let database = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    database.busy_timeout(SOON)?;
    Ok(database)
}

/// Sessions that have not ended.
fn begun(launch: &Launch) -> Result<u32> {
    let sql = "SELECT count(*) FROM sessions WHERE ended_s IS NULL";
    database(launch)?.query_row(sql, [], |row| row.get(0)).context("count the sessions")
}

/// Causes and lengths in milliseconds of the sessions that have ended, in the order in which they began.
fn ended(launch: &Launch) -> Result<Vec<(String, i64)>> {
    let database = database(launch)?;
    let mut rows = database.prepare("SELECT cause, length_ms FROM sessions WHERE ended_s NOT NULL ORDER BY id")?;
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect::<rusqlite::Result<_>>().context("read the sessions")
}

fn until_ended(launch: &Launch, causes: &[&str]) -> Result<Vec<(String, i64)>> {
    let seen = within(SOON, &format!("sessions that ended by {causes:?}"), || {
        let ended = ended(launch)?;
        Ok((ended.len() >= causes.len()).then_some(ended))
    })?;
    let found: Vec<&str> = seen.0.iter().map(|(cause, _)| cause.as_str()).collect();
    ensure!(found == causes, "{found:?} and not {causes:?}");
    Ok(seen.0)
}

#[test]
fn sessions_outlive_kills_stops_and_standstills() -> Verdict {
    in_lab(|lab| {
        let launch = launch(lab)?;
        launch.owner("away")?;
        let mut agent = launch.clone().up()?;
        until_session(&agent)?;
        // On disk, too, a moment later.
        eventually(SOON, "a session in the database", || Ok(begun(&launch)? == 1))?;
        agent.kill()?;
        let mut agent = agent.again()?;
        until_ended(&launch, &["crash"])?;
        until_session(&agent)?;
        ensure!(agent.stop()?.success(), "it stops as it should");
        let agent = agent.again()?;
        until_ended(&launch, &["crash", "shutdown"])?;
        until_session(&agent)?;

        // A machine that stands still is one that sleeps, as far as its agent can see.
        let asked = Instant::now();
        let before_s = age_s(&agent)?.context("a session")?;
        agent.signal(Signal::STOP)?;
        let stopped = Instant::now();
        let most_ms = 1000 * (before_s.cast_signed() + 1) + i64::try_from(asked.elapsed().as_millis())?;
        thread::sleep(SLEEPS);
        agent.signal(Signal::CONT)?;
        let ended = until_ended(&launch, &["crash", "shutdown", "sleep"])?;
        let slept_after_ms = ended[2].1;
        ensure!(slept_after_ms <= most_ms, "the session ended {slept_after_ms} ms old, as it fell asleep");
        until_session(&agent)?;
        let age_s = age_s(&agent)?.context("another session")?;
        ensure!(age_s < stopped.elapsed().as_secs(), "the next session is {age_s} s old and begins after the sleep");

        agent.owner("present")?;
        until_ended(&launch, &["crash", "shutdown", "sleep", "owner_returned"])?;
        // The estimate follows the disk.
        eventually(SOON, "four sessions in the estimate", || {
            let shown = json(&launch, &["hazard", "--json"])?;
            Ok(shown["sessions"] == 4 && shown["age_s"].is_null() && shown["is_running"] == true)
        })?;
        Ok(())
    })
}

#[test]
fn a_running_and_a_stopped_agent_show_the_same_history() -> Verdict {
    in_lab(|lab| {
        let launch = launch(lab)?;
        let none = json(&launch, &["hazard", "--json"])?;
        ensure!(none["sessions"] == 0 && none["is_running"] == false, "{none}");
        ensure!(!launch.home_path().join("data/idlewild.db").exists(), "showing makes nothing");
        launch.owner("away")?;
        let mut agent = launch.clone().up()?;
        until_session(&agent)?;
        let live = json(&launch, &["hazard", "--json"])?;
        ensure!(live["age_s"].is_number() && live["curve"].as_array().is_some_and(|curve| curve.len() == 16), "{live}");
        let probabilities: Vec<f64> = live["leaves"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|leaves| leaves["probability"].as_f64())
            .collect();
        ensure!(probabilities.len() == 3 && probabilities.is_sorted() && probabilities[2] < 1.0, "{probabilities:?}");
        let said = agent.status()?.peer;
        ensure!(!said.is_empty(), "status goes on as before");
        ensure!(agent.stop()?.success(), "it stops");
        let recorded = json(&launch, &["hazard", "--json"])?;
        ensure!(recorded["sessions"] == 1 && recorded["is_running"] == false, "{recorded}");
        let text = run(&launch, &["hazard"])?;
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        ensure!(text.contains("1 session") && text.contains("100 %") && !text.contains('\u{1b}'), "{text}");
        ensure!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
        Ok(())
    })
}

/// Forty sessions of ten minutes, one an hour.
fn ten_minutes() -> String {
    let mut table = String::from("start_s,end_s,cause\n");
    for n in 0..40 {
        let start_s = 1_700_000_000 + 3600 * n;
        let _ = writeln!(table, "{start_s},{},owner_returned", start_s + 600);
    }
    table
}

fn write(lab: &Lab, name: &str, text: &str) -> Result<PathBuf> {
    let path = lab.files().join(name);
    fs::write(&path, text).context("write a table")?;
    Ok(path)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

#[test]
fn imports_are_learnt_from_at_once_and_wrong_ones_change_nothing() -> Verdict {
    in_lab(|lab| {
        let launch = launch(lab)?;
        let good = write(lab, "good.csv", &ten_minutes())?;
        let agent = launch.clone().up()?;
        for (name, table, says) in [
            ("backwards.csv", "start_s,end_s\n10,20\n40,30\n", "line 3: it ends before it begins"),
            ("overlap.csv", "start_s,end_s\n10,20\n15,30\n", "line 3: it overlaps the session of line 2"),
            ("unsorted.csv", "start_s,end_s\n10,20\n1,5\n", "line 3: it begins before the session of line 2"),
            ("negative.csv", "start_s,end_s\n-10,20\n", "line 2: it begins before 1970"),
            ("words.csv", "start_s,end_s\n10,twenty\n", "line 2: end_s is not a number"),
            ("columns.csv", "begin,end\n10,20\n", "line 1 does not name the column start_s"),
        ] {
            let table = write(lab, name, table)?;
            let output = run(&launch, &["hazard", "import", text(&table)])?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(output.status.code() == Some(2) && said.contains(says), "{name}: {said}");
        }
        ensure!(ended(&launch)?.is_empty(), "nothing was imported");
        let before = json(&launch, &["hazard", "--json"])?;
        ensure!(json(&launch, &["hazard", "import", text(&good), "--json"])?["imported"] == 40, "imported");
        let after = json(&launch, &["hazard", "--json"])?;
        ensure!(after["sessions"] == 40 && before["sessions"] == 0, "{after}");
        let leaves = |shown: &Value| shown["leaves"][2]["probability"].as_f64();
        ensure!(leaves(&after) > leaves(&before), "ten minutes, every time: {before} {after}");

        let again = run(&launch, &["hazard", "import", text(&good)])?;
        let said = String::from_utf8_lossy(&again.stderr).into_owned();
        ensure!(again.status.code() == Some(2) && said.contains("line 2: this session is on record already"), "{said}");
        ensure!(ended(&launch)?.len() == 40, "nothing was imported twice");
        drop(agent);
        ensure!(json(&launch, &["hazard", "--json"])?["sessions"] == 40, "and it stays");
        Ok(())
    })
}

/// Hosts whose owners are quick or slow, and how long each session lasts is a draw.
fn made_up(hosts: std::ops::Range<u64>, from_s: f64, sessions: u64) -> String {
    let mut table = String::from("host,start_s,end_s,censored,mood\n");
    let mut draw = 0x9e37_79b9_7f4a_7c15_u64;
    for host in hosts {
        let mean_s = if host % 2 == 0 { 300.0 } else { 7200.0 };
        let mut at_s = from_s;
        for _ in 0..sessions {
            draw ^= draw << 13;
            draw ^= draw >> 7;
            draw ^= draw << 17;
            let part = ((draw >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
            let end_s = at_s - part.ln() * mean_s;
            let _ = writeln!(table, "h{host},{at_s:.3},{end_s:.3},0,good");
            at_s = end_s + 600.0;
        }
    }
    table
}

/// Log loss and calibration error at 5 min of the default estimator, of each peer's curve, of the pooled curve.
fn scores(launch: &Launch, train: &Path, test: &Path) -> Result<[(f64, f64); 3]> {
    let shown = json(launch, &["hazard", "score", "--train", text(train), "--test", text(test), "--json"])?;
    let figures = |at: usize| -> Result<(f64, f64)> {
        let of = &shown["estimators"][at];
        let figure = |name: &str| of[name].as_f64().with_context(|| format!("{name} in {of}"));
        Ok((figure("log_loss")?, figure("calibration_error_5min")?))
    };
    Ok([figures(0)?, figures(1)?, figures(2)?])
}

/// What is promised of the default estimator: better than both curves, and probabilities that are right.
fn check_scores(launch: &Launch, train: &Path, test: &Path) -> Verdict {
    let [default, per_peer, pooled] = scores(launch, train, test)?;
    let said = format!("{}: default {default:?}, per peer {per_peer:?}, pooled {pooled:?}", train.display());
    ensure!(default.0 < per_peer.0 && default.0 < pooled.0, "log loss: {said}");
    ensure!(default.1 <= 0.03, "calibration error at 5 min: {said}");
    Ok(())
}

#[test]
fn estimators_are_scored_on_tables() -> Verdict {
    in_lab(|lab| {
        let launch = launch(lab)?;
        let train = write(lab, "train.csv", &made_up(0..40, 0.0, 60))?;
        let later = write(lab, "later.csv", &made_up(0..40, 900_000.0, 20))?;
        let others = write(lab, "others.csv", &made_up(100..140, 0.0, 60))?;
        for test in [&later, &others, &train] {
            check_scores(&launch, &train, test).with_context(|| text(test).to_owned())?;
        }
        let shown = run(&launch, &["hazard", "score", "--train", text(&train), "--test", text(&later)])?;
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        ensure!(
            ["frailty (default)", "CALIBRATION ERROR", "40 hosts in both"].iter().all(|s| shown.contains(s)),
            "{shown}"
        );

        let tiny = write(lab, "tiny.csv", "host,start_s,end_s\na,0,10\na,20,400\n")?;
        let output = run(&launch, &["hazard", "score", "--train", text(&tiny), "--test", text(&tiny)])?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success() && said.contains("few sessions"), "{said}");
        let empty = write(lab, "empty.csv", "host,start_s,end_s\n")?;
        let bad = write(lab, "bad.csv", "host,start_s,end_s\na,0,10\na,5,x\n")?;
        for (train, test, says) in [
            (&train, &empty, "the record to test on holds no session"),
            (&later, &train, "are the two files exchanged?"),
            (&train, &bad, "line 3: end_s is not a number"),
            (&train, &lab.files().join("none.csv"), "could not read"),
        ] {
            let output = run(&launch, &["hazard", "score", "--train", text(train), "--test", text(test)])?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(output.status.code() == Some(2) && said.contains(says), "{says:?}: {said}");
        }
        Ok(())
    })
}

#[test]
fn the_default_estimator_keeps_its_promise_on_real_traces() -> Verdict {
    let Some(folder) = std::env::var_os(TRACES_VARIABLE).map(PathBuf::from) else {
        println!("SKIPPED (no real traces): {TRACES_VARIABLE} names no folder of tables");
        return Ok(());
    };
    in_lab(|lab| {
        let launch = launch(lab)?;
        let mut seen = 0;
        for name in ["stunner_charging_d60", "stunner_batt80_d60", "skype_repaired"] {
            let table = folder.join(format!("{name}.train.csv"));
            if table.is_file() {
                seen += 1;
                check_scores(&launch, &table, &table).with_context(|| name.to_owned())?;
            }
        }
        ensure!(seen > 0, "{} holds none of the tables", folder.display());
        Ok(())
    })
}
