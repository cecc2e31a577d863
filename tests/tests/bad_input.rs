//! Bad input of every kind: a clear error that says what to do, nothing lost, no panic (the lab fails on one).

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::{FOUND_WITHIN, join};
use idlewild_tests::lab::real_model;
use idlewild_tests::{
    Agent, Client, Cluster, FAKE_MODEL, Fake, Lab, Launch, REAL_MODEL, Reply, Verdict, completion, eventually, in_lab,
};
use serde_json::json;

const FAST: Fake = Fake::decoding(400.0);

/// One agent with the fake engine on one host.
fn alone(lab: &Lab) -> Result<Agent> {
    let (_, hosts) = lab.home(&["a"])?;
    Launch::new(lab, &hosts[0])?.fake(FAST).up()
}

fn refused(reply: &Reply, status: u16, code: &str, says: &str) -> Verdict {
    ensure!(reply.status == status, "status {} instead of {status}: {}", reply.status, reply.text);
    ensure!(reply.code() == code, "code {:?} instead of {code:?}: {}", reply.code(), reply.text);
    ensure!(reply.message().contains(says), "{:?} does not say {says:?}", reply.message());
    Ok(())
}

#[test]
fn requests_that_cannot_be_served_are_refused_with_the_reason() -> Verdict {
    in_lab(|lab| {
        let agent = alone(lab)?;
        let client = agent.client()?;
        let post = |body| client.post("/v1/completions", &body);
        refused(&post(json!({ "model": "gpt-9", "prompt": "x" }))?, 404, "model_not_found", FAKE_MODEL)?;
        let long = vec!["word"; 6000].join(" ");
        let too_long = post(json!({ "model": FAKE_MODEL, "prompt": long, "max_tokens": 10 }))?;
        refused(&too_long, 400, "context_length_exceeded", "context")?;
        refused(
            &post(json!({ "model": FAKE_MODEL, "prompt": "x", "temperature": 9 }))?,
            400,
            "invalid_value",
            "temperature",
        )?;
        for malformed in ["{\"model\": ", "[]", "{\"model\": 3}", "\u{0}", ""] {
            let reply = client.post_text("/v1/chat/completions", malformed)?;
            ensure!(
                reply.status == 400 && !reply.message().is_empty(),
                "{malformed:?} gave {} {}",
                reply.status,
                reply.text
            );
        }
        // A little over the limit: of one that is far over it, the server hangs up before the client has said all.
        let huge = client.post_text("/v1/completions", &"x".repeat(1_048_577))?;
        ensure!(huge.status == 413 && !huge.message().is_empty(), "a huge body gave {} {}", huge.status, huge.text);
        ensure!(agent.answer(&completion(FAKE_MODEL, "still here", 5))?.done, "it goes on");
        Ok(())
    })
}

#[test]
fn a_wrong_or_missing_key_is_refused_everywhere() -> Verdict {
    in_lab(|lab| {
        let agent = alone(lab)?;
        for key in [Some("idw-wrong"), Some(""), None] {
            let client = Client::new(agent.host(), agent.api()?, key)?;
            for path in ["/v1/models", "/idlewild/v1/status"] {
                let reply = client.get(path)?;
                ensure!(reply.status == 401 && reply.message().contains("key"), "{path} with {key:?}: {}", reply.text);
            }
        }
        Ok(())
    })
}

/// Raw bytes to an address; whatever comes back.
fn raw(agent: &Agent, to: SocketAddr, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut stream = agent.host().connect(to)?;
    stream.set_read_timeout(Some(Duration::from_secs(12)))?;
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.take(1 << 20).read_to_end(&mut answer);
    Ok(answer)
}

#[test]
fn truncated_frames_and_noise_on_any_port_leave_the_agent_as_it_was() -> Verdict {
    in_lab(|lab| {
        let agent = alone(lab)?;
        let port = agent.address()?.parse::<SocketAddr>()?.port();
        let noise: Vec<u8> = (0..4096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let cut = [&b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 400\r\n\r\n{\"mod"[..]];
        for bytes in
            cut.into_iter().chain([&noise[..], &noise[..3], b"\x13/multistream/1.0.0\n\xff\xff\xff\xff\x0f", b""])
        {
            raw(&agent, agent.api()?, bytes)?;
            raw(&agent, SocketAddr::from((agent.host().address(), port)), bytes)?;
            agent.host().enter(|| {
                let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
                socket.send_to(&bytes[..bytes.len().min(1200)], (agent.host().address(), port))
            })??;
        }
        ensure!(agent.is_running() && agent.answer(&completion(FAKE_MODEL, "still here", 5))?.done, "it goes on");
        Ok(())
    })
}

/// Runs a command of the program to its end: exit code, and what it wrote to stderr.
fn tell(launch: &Launch, arguments: &[&str]) -> Result<(i32, String)> {
    let output = launch.command(arguments)?.stdin(std::process::Stdio::null()).output().context("run the program")?;
    Ok((output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[test]
fn a_ticket_that_was_used_is_of_another_swarm_has_expired_or_is_none_is_refused_with_what_to_do() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b", "c"])?;
        let founder = Launch::new(lab, &hosts[0])?.fake(FAST).up()?;
        let (used, late) = (founder.invite()?, founder.invite()?);
        let newcomer = Launch::new(lab, &hosts[1])?.fake(FAST);
        ensure!(join(&newcomer, &used)?.status.success(), "the first use counts");
        let third = Launch::new(lab, &hosts[2])?.fake(FAST);
        let refused = |ticket: &str, says: &str| {
            let output = join(&third, ticket)?;
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(!output.status.success() && told.contains(says), "{ticket:.12}: {told:?} does not say {says:?}");
            ensure!(!third.home_path().join("data/membership.json").exists(), "{ticket:.12}: nothing is left behind");
            Ok(())
        };
        refused(&used, "has been used; ask for a new one")?;
        refused("nonsense", "not a ticket")?;
        refused("idlewild1nonsense", "damaged")?;
        refused("", "ticket")?;
        let cut = &late[..late.len() - 7];
        refused(cut, "damaged")?;

        // A ticket whose time is over at its issuer, whatever the newcomer's clock says.
        let mut founder = founder;
        founder.stop()?;
        expire_tickets(founder.launch().home_path())?;
        let founder = founder.again()?;
        refused(&late, "expired; ask for a new one")?;

        // Another swarm's peer asks this member to let it into the other swarm.
        let stranger = Launch::named(lab, &hosts[1], "other")?.fake(FAST).set("swarm.port", 14_360_u16).up()?;
        let elsewhere = stranger.invite()?;
        let member = join(&newcomer, &elsewhere)?;
        let told = String::from_utf8_lossy(&member.stderr).into_owned();
        ensure!(
            !member.status.success() && told.contains("--replace"),
            "a member does not change swarms unasked: {told}"
        );
        ensure!(founder.is_running() && stranger.is_running(), "nobody was harmed");
        Ok(())
    })
}

/// Puts the end of every ticket into the past, as the issuer wrote it down.
fn expire_tickets(home: &Path) -> Result<()> {
    let database = rusqlite::Connection::open(home.join("data/idlewild.db")).context("open the database")?;
    let changed = database.execute("UPDATE tickets SET not_after_s = 1", []).context("expire the tickets")?;
    ensure!(changed > 0, "there are tickets");
    Ok(())
}

#[test]
fn a_port_in_use_is_named_with_the_setting_that_changes_it() -> Verdict {
    in_lab(|lab| {
        let agent = alone(lab)?;
        let second = Launch::named(lab, agent.host(), "second")?.fake(FAST);
        let (code, told) = tell(&second, &["up"])?;
        ensure!(code != 0 && told.contains("14353") && told.contains("api"), "the API's port: {code} {told}");
        let (code, told) = tell(&second.set("api.port", 0_u16), &["up"])?;
        ensure!(code != 0 && told.contains("14354") && told.contains("port"), "the swarm's port: {code} {told}");
        Ok(())
    })
}

#[test]
fn an_empty_secret_or_a_wrong_setting_keeps_the_agent_from_starting() -> Verdict {
    in_lab(|lab| {
        let mut agent = alone(lab)?;
        agent.stop()?;
        let launch = agent.launch().clone();
        drop(agent);
        for (file, says) in
            [("state/api-key", "api-key"), ("data/identity.json", "identity"), ("data/membership.json", "membership")]
        {
            let path = launch.home_path().join(file);
            let before = fs::read(&path).with_context(|| file.to_owned())?;
            fs::write(&path, "")?;
            let (code, told) = tell(&launch, &["up"])?;
            ensure!(code != 0 && told.contains(says) && told.contains("hint"), "empty {file}: {code} {told}");
            fs::write(&path, before)?;
        }
        fs::write(launch.home_path().join("config/config.toml"), "[api]\nprot = 3\n")?;
        let (code, told) = tell(&launch, &["up"])?;
        ensure!(code == 2 && told.contains("config.toml:2") && told.contains("api.prot"), "{code} {told}");
        Ok(())
    })
}

#[test]
fn a_copied_data_directory_is_refused_and_the_swarm_keeps_the_original() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b", "c"])?;
        let cluster = Cluster::new(lab, &hosts[..2], |_, launch| Ok(launch.fake(FAST)))?;
        let original = &cluster.0[1];
        let copy = Launch::named(lab, &hosts[2], "copy")?.fake(FAST);
        let copied = std::process::Command::new("cp")
            .args(["-a", "-T"])
            .args([original.launch().home_path(), copy.home_path()])
            .status()?;
        ensure!(copied.success(), "copy the home");
        let (code, told) = tell(&copy, &["up"])?;
        ensure!(code == 6 && told.contains("identity"), "refused on the spot: {code} {told}");

        // Its user insists: then the swarm refuses it.
        let (code, told) = tell(&copy, &["identity", "keep"])?;
        ensure!(code == 0, "keep: {code} {told}");
        let copy = copy.up()?;
        eventually(FOUND_WITHIN, "a refusal in the copy's log", || {
            Ok(copy.log()?.contains("same identity") || !copy.status()?.warnings.is_empty())
        })?;
        ensure!(cluster.0[0].status()?.sees(original.peer()?), "the original stays");
        let answer = cluster.0[0].answer(&completion(FAKE_MODEL, "hello", 5))?;
        ensure!(answer.done && copy.is_running(), "and all goes on");
        Ok(())
    })
}

#[test]
fn a_full_disk_is_reported_and_costs_neither_answers_nor_what_was_written_before() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a"])?;
        let disk = lab.small_disk("disk", 24)?;
        let agent = Launch::new(lab, &hosts[0])?.home(disk.path()).fake(FAST).up()?;
        let id = agent.peer()?.to_owned();
        let filler = disk.fill()?;
        for number in 0..20 {
            let answer = agent.answer(&completion(FAKE_MODEL, &format!("question {number}"), 10))?;
            ensure!(answer.done, "answers need no disk");
        }
        agent.until(Duration::from_secs(15), "a warning about the disk", |status| {
            status.warnings.iter().find(|warning| warning.contains("disk") || warning.contains("space")).cloned()
        })?;
        fs::remove_file(&filler)?;
        let mut agent = agent;
        agent.stop()?;
        let agent = agent.again()?;
        ensure!(agent.peer()? == id && agent.answer(&completion(FAKE_MODEL, "again", 5))?.done, "nothing was lost");

        let model = lab.files().join("big.gguf");
        fs::write(&model, gguf_of(30_000_000))?;
        let (code, told) = tell(agent.launch(), &["models", "import", model.to_str().context("a path")?])?;
        ensure!(code != 0 && (told.contains("the disk has no room")), "an import that does not fit: {code} {told}");
        let left = fs::read_dir(disk.path().join("data/models")).map_or(0, |entries| {
            entries.flatten().filter(|entry| entry.metadata().is_ok_and(|about| about.len() > 1_000_000)).count()
        });
        ensure!(left == 0, "no half a model is left");
        Ok(())
    })
}

/// A GGUF file without tensors: its architecture, its context, and zeros. Enough for an import to begin.
fn gguf_of(bytes: usize) -> Vec<u8> {
    let text = |file: &mut Vec<u8>, text: &str| {
        file.extend_from_slice(&(text.len() as u64).to_le_bytes());
        file.extend_from_slice(text.as_bytes());
    };
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend_from_slice(&0_u64.to_le_bytes());
    file.extend_from_slice(&2_u64.to_le_bytes());
    text(&mut file, "general.architecture");
    file.extend_from_slice(&8_u32.to_le_bytes());
    text(&mut file, "llama");
    text(&mut file, "llama.context_length");
    file.extend_from_slice(&4_u32.to_le_bytes());
    file.extend_from_slice(&2048_u32.to_le_bytes());
    file.resize(bytes, 0);
    file
}

#[test]
fn a_file_that_is_no_model_or_a_broken_one_is_refused_at_import() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a"])?;
        let launch = Launch::new(lab, &hosts[0])?;
        for (name, bytes) in [
            ("empty.gguf", Vec::new()),
            ("text.gguf", b"hello".to_vec()),
            ("cut.gguf", gguf_of(1 << 16)[..20].to_vec()),
        ] {
            let path = lab.files().join(name);
            fs::write(&path, bytes)?;
            let (code, told) = tell(&launch, &["models", "import", path.to_str().context("a path")?])?;
            ensure!(code != 0 && told.to_lowercase().contains("gguf"), "{name}: {code} {told}");
        }
        let (code, told) = tell(&launch, &["models", "import", "/nonexistent.gguf"])?;
        ensure!(code != 0 && told.contains("/nonexistent.gguf"), "{code} {told}");
        Ok(())
    })
}

/// Changes bytes in the middle of the one large file below a directory, as a failing disk would.
fn damage_the_model_in(home: &Path) -> Result<()> {
    let directory = home.join("data/models");
    let mut pending = vec![directory];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory)?.flatten() {
            let (about, path) = (entry.metadata()?, entry.path());
            if about.is_dir() {
                pending.push(path);
            } else if about.len() > 10_000_000 {
                fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
                let mut file = fs::OpenOptions::new().write(true).open(&path)?;
                file.seek(SeekFrom::Start(about.len() / 2))?;
                return file.write_all(&[0x5a; 4096]).context("damage the model");
            }
        }
    }
    anyhow::bail!("no model in the store")
}

#[test]
fn a_model_that_was_damaged_on_disk_is_never_run_and_the_swarm_answers_from_a_good_copy() -> Verdict {
    let Some(model) = real_model()? else { return Ok(()) };
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b"])?;
        let cluster = Cluster::new(lab, &hosts, |number, launch| {
            launch.import(&model, REAL_MODEL)?;
            if number == 0 {
                damage_the_model_in(launch.home_path())?;
            }
            Ok(launch)
        })?;
        let (damaged, good) = (&cluster.0[0], &cluster.0[1]);
        damaged.until_serving(good.peer()?, FOUND_WITHIN)?;
        let mut first = None;
        for agent in &cluster.0 {
            let answer = agent.answer(&completion(REAL_MODEL, "The sky is", 4))?;
            ensure!(answer.worker.as_deref() == Some(good.peer()?), "answered by the good copy: {answer:?}");
            first = first.or(answer.request);
        }
        ensure!(damaged.is_running() && good.is_running(), "both live");
        // The first question was its own, and of equals the origin is chosen: it tried, and says why that was no use.
        let refused = damaged.explain(&first.context("a request")?)?;
        let ended = refused.assignments.first().and_then(|one| one.ended.clone()).unwrap_or_default();
        ensure!(refused.assignments.len() == 2 && ended.contains("sha256"), "{refused:?}");
        Ok(())
    })
}
