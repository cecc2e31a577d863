//! Those who are no members: they learn nothing, get nothing, and cost next to nothing.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use idlewild_tests::agent::FOUND_WITHIN;
use idlewild_tests::{Client, Cluster, FAKE_MODEL, Fake, Launch, Verdict, completion, eventually, in_lab};
use serde_json::json;

const FAST: Fake = Fake::decoding(400.0);

/// A stranger is refused at most this often by one peer: once a minute, and it tried at the start.
const REFUSALS_IN_A_MINUTE_MAX: usize = 1;

/// Lines of a log that speak of a refusal.
fn refusals(log: &str) -> usize {
    log.lines().filter(|line| line.contains("refused") || line.contains("stranger")).count()
}

#[test]
fn a_stranger_on_the_same_lan_gets_nothing_and_costs_one_handshake_a_minute() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b", "x"])?;
        let cluster = Cluster::new(lab, &hosts[..2], |_, launch| Ok(launch.fake(FAST)))?;
        // It runs the same program, hears the same multicast and even knows an address, but is of another swarm.
        let address = cluster.0[0].address()?;
        let stranger = Launch::new(lab, &hosts[2])?.busy().set("swarm.peers", address).up()?;
        eventually(FOUND_WITHIN, "a refusal in somebody's log", || {
            Ok(refusals(&cluster.0[0].log()?) + refusals(&stranger.log()?) > 0)
        })?;
        let first = Instant::now();
        // Its dials at the start are several at once, over both transports.
        let at_first = cluster.0.iter().map(|agent| Ok(handshakes(&agent.log()?, stranger.peer()?)));
        let at_first = at_first.collect::<Result<Vec<_>>>()?;
        let (_, before) = hosts[2].traffic(&hosts[2].interfaces()[0])?;
        // Requests go on meanwhile, so that there would be something to overhear.
        while first.elapsed() < Duration::from_secs(30) {
            ensure!(cluster.0[0].answer(&completion(FAKE_MODEL, "secret", 5))?.done, "members are served");
            std::thread::sleep(Duration::from_millis(500));
        }
        let status = stranger.status()?;
        ensure!(status.connected().next().is_none(), "connected to {:?}", status.peers);
        ensure!(
            status.peers.iter().all(|peer| peer.models.is_empty() && peer.state.is_none()),
            "knows {:?}",
            status.peers
        );
        let models = stranger.client()?.get("/v1/models")?.successful()?;
        ensure!(!models.text.contains(FAKE_MODEL), "lists {}", models.text);
        let mut refused = stranger.ask(&completion(FAKE_MODEL, "let me in", 5))?;
        ensure!(refused.status() >= 400, "answered: {}", refused.body()?);
        for (agent, at_first) in cluster.0.iter().zip(at_first) {
            ensure!(!agent.status()?.sees(stranger.peer()?), "a member lists it");
            let count = handshakes(&agent.log()?, stranger.peer()?) - at_first;
            ensure!(count <= 2 * REFUSALS_IN_A_MINUTE_MAX, "refused {count} times in half a minute");
        }
        let (_, after) = hosts[2].traffic(&hosts[2].interfaces()[0])?;
        // mDNS, and at most one handshake with each of two peers over each of two transports.
        ensure!(after - before < 60_000, "{} bytes in half a minute", after - before);
        Ok(())
    })
}

/// Refusals of one peer in a log.
fn handshakes(log: &str, peer: &str) -> usize {
    log.lines().filter(|line| line.contains("refused") && line.contains(peer)).count()
}

/// What looks like the first packet of a QUIC connection and cannot be opened. Every fourth or so gets as far as that.
fn forged_initial(number: u16) -> Vec<u8> {
    let header = [0xc3, 0, 0, 0, 1, 8];
    let length = [0, 0x44, 0x90];
    let id = number.to_be_bytes().repeat(4);
    [&header[..], &id, &[8], &id, &length, &[0x5a; 1180]].concat()
}

#[test]
fn a_flood_of_forged_packets_is_a_line_a_minute_in_the_log() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "x"])?;
        let agent = Launch::new(lab, &hosts[0])?.fake(FAST).up()?;
        let address = agent.address()?;
        let socket = hosts[1].enter(|| std::net::UdpSocket::bind("0.0.0.0:0"))??;
        let lines = || Ok::<_, anyhow::Error>(agent.log()?.lines().filter(|line| line.contains(" WARN ")).count());
        let before = lines()?;
        for number in 0..1000 {
            socket.send_to(&forged_initial(number), &address)?;
            if number % 20 == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        eventually(FOUND_WITHIN, "a line about it", || Ok(lines()? > before))?;
        ensure!(agent.answer(&completion(FAKE_MODEL, "still there", 5))?.done, "its user is served");
        let lines = lines()? - before;
        ensure!(lines <= 2, "{lines} lines of a thousand packets");
        Ok(())
    })
}

#[test]
fn nobody_on_the_lan_reaches_the_api_unless_told_to_and_then_only_with_the_key() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "x"])?;
        let (a, x) = (&hosts[0], &hosts[1]);
        let mut agent = Launch::new(lab, a)?.fake(FAST).up()?;
        ensure!(agent.api()?.ip().is_loopback(), "bound to loopback by default");
        let remote = std::net::SocketAddr::from((a.address(), agent.api()?.port()));
        ensure!(x.connect(remote).is_err(), "the LAN gets no connection");
        agent.stop()?;
        let launch = agent.launch().clone().set("api.address", "0.0.0.0");
        drop(agent);
        let agent = launch.up()?;
        let guest = Client::new(x, remote, None)?;
        every_route_is_closed(&guest)?;
        let member = Client::new(x, remote, Some(&agent.key()?))?;
        ensure!(member.get("/v1/models")?.status == 200, "the key opens it");
        ensure!(a.connect(agent.api()?).is_ok(), "and it is still there for its own user");
        Ok(())
    })
}

/// Every route that tells or does anything.
fn every_route_is_closed(guest: &Client) -> Result<()> {
    for path in [
        "/v1/models",
        "/v1/models/fake",
        "/idlewild/v1/status",
        "/idlewild/v1/requests",
        "/idlewild/v1/models",
        "/idlewild/v1/explain/req-aaaaaaaaaaaaaaaaaaaaaaaaaa",
    ] {
        let reply = guest.get(path)?;
        ensure!(matches!(reply.status, 401 | 403), "GET {path} gave {} {}", reply.status, reply.text);
    }
    for path in ["/v1/chat/completions", "/v1/completions", "/idlewild/v1/invite", "/idlewild/v1/stop"] {
        let reply = guest.post(path, &json!({ "model": FAKE_MODEL, "prompt": "x", "messages": [], "ttl_s": 600 }))?;
        ensure!(matches!(reply.status, 401 | 403), "POST {path} gave {} {}", reply.status, reply.text);
    }
    let unknown = guest.get("/anything/else")?;
    ensure!(matches!(unknown.status, 401 | 403 | 404), "an unknown route gave {}", unknown.status);
    Ok(())
}
