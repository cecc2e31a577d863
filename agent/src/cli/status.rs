//! `idlewild status`: this peer and its view of the others.

use std::net::SocketAddr;

use idlewild_protocol::{ModelInfo, ModelLoad, PeerState, Role};

use super::args::JsonArgs;
use super::client::Client;
use super::context::Context;
use super::failure::Failure;
use super::format::{bytes, count, percent, rate, seconds, table};
use super::{Exit, Printer};
use crate::api::wire::{EngineReply, PeerReply, StatusReply};

pub(super) async fn status(context: &Context, printer: &mut Printer, args: JsonArgs) -> Result<Exit, Failure> {
    let client = Client::new(&context.paths)?;
    let reply: StatusReply = client.get("/idlewild/v1/status").await?;
    if args.json {
        printer.json(&reply)?;
        return Ok(Exit::Fine);
    }
    for line in lines(&reply) {
        printer.line(line)?;
    }
    for warning in &reply.warnings {
        printer.warning(warning);
    }
    Ok(Exit::Fine)
}

fn lines(status: &StatusReply) -> Vec<String> {
    let role = match status.role {
        Role::MayInvite => "may invite",
        Role::Member => "member",
    };
    let coordinator = status.coordinator.map_or_else(
        || "nobody yet".to_owned(),
        |c| {
            let who = if c.leader == status.peer { "this peer".to_owned() } else { c.leader.short() };
            format!("{who} (term {})", c.term)
        },
    );
    let mut lines = vec![
        format!("peer         {}", status.peer),
        format!("swarm        {} ({role}, {})", status.swarm, count(status.peers.len(), "other peer")),
        format!("agent        idlewild {}, up {}", status.version, seconds(status.uptime_s)),
        format!("api          http://{}/v1", status.api),
    ];
    lines.extend(labelled("listens at", &places(&status.listeners)));
    lines.extend([
        format!("state        {}", own_state(status)),
        format!("coordinator  {coordinator}"),
        format!("engine       {}", engine(&status.engine)),
        format!("requests     {} of its own, {} being worked on", status.requests_running, status.jobs_running),
    ]);
    let model = |m: &ModelInfo| format!("{} ({}, {} tokens of context)", m.name, bytes(m.size_bytes), m.context_tokens);
    lines.extend(labelled("models", &status.models.iter().map(model).collect::<Vec<_>>()));
    if !status.peers.is_empty() {
        let header = ["PEER", "STATE", "RTT", "UP", "DOWN", "STAYS 1 MIN", "15 MIN", "MODELS"].map(str::to_owned);
        let rows: Vec<Vec<String>> =
            std::iter::once(header.to_vec()).chain(status.peers.iter().map(|peer| row(peer, status))).collect();
        lines.push(String::new());
        lines.extend(table(&rows));
    }
    lines
}

/// A line each, the first behind the label.
fn labelled(label: &str, values: &[String]) -> Vec<String> {
    let line = |(at, value): (usize, &String)| format!("{:<13}{value}", if at == 0 { label } else { "" });
    values.iter().enumerate().map(line).collect()
}

/// Addresses as `--peer` takes them: UDP and TCP of one place are one.
fn places(listeners: &[String]) -> Vec<String> {
    let mut places: Vec<String> = Vec::new();
    for listener in listeners {
        let place = place(listener).unwrap_or_else(|| listener.clone());
        if !places.contains(&place) {
            places.push(place);
        }
    }
    if places.is_empty() { vec!["no address yet".to_owned()] } else { places }
}

/// `host:port` of a multiaddress.
fn place(listener: &str) -> Option<String> {
    let mut parts = listener.split('/').skip(1);
    let (_family, ip, _transport, port) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?).to_string())
}

fn own_state(status: &StatusReply) -> String {
    let age = status.session_age_s.map_or_else(String::new, |age| format!(" for {}", seconds(age)));
    format!("{}{age}: {}", state(status.state), status.reason)
}

fn state(state: PeerState) -> &'static str {
    match state {
        PeerState::Serving => "serving",
        PeerState::Busy => "busy",
        PeerState::Leaving { .. } => "leaving",
    }
}

fn engine(engine: &EngineReply) -> String {
    let process = engine.pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
    let restarts = match engine.restarts {
        0 => String::new(),
        n => format!(", restarted {}", count(n as usize, "time")),
    };
    format!(
        "{}{process}, {} of {} requests, {} waiting, {:.0} tok/s answer, {:.0} tok/s prompt{restarts}",
        engine.phase.replace('_', " "),
        engine.running,
        engine.slots,
        engine.waiting,
        engine.decode_tps,
        engine.prefill_tps
    )
}

fn row(peer: &PeerReply, status: &StatusReply) -> Vec<String> {
    let rtt = peer.rtt_us.map_or_else(|| "-".to_owned(), |us| format!("{:.1} ms", f64::from(us) / 1000.0));
    let shown_state = match (peer.state, peer.connected) {
        (_, false) => "unreachable",
        (None, true) => "new",
        (Some(known), true) => state(known),
    };
    vec![
        peer.peer.short(),
        if peer.relayed { format!("{shown_state}, relayed") } else { shown_state.to_owned() },
        rtt,
        rate(peer.up_bytes_per_s),
        rate(peer.down_bytes_per_s),
        percent(peer.stays_60s),
        percent(peer.stays_15min),
        peer.models.iter().map(|load| model(load, status)).collect::<Vec<_>>().join(", "),
    ]
}

fn model(load: &ModelLoad, status: &StatusReply) -> String {
    let known = status.models.iter().chain(&status.known_models).find(|model| model.id == load.model);
    let name = known.map_or_else(|| load.model.to_string()[..12].to_owned(), |model| model.name.clone());
    let loaded = if load.loaded { "" } else { ", not loaded" };
    format!("{name} ({:.0} tok/s, {}/{}{loaded})", load.decode_tps, load.running, load.slots)
}

#[cfg(test)]
mod tests {
    use idlewild_protocol::{BootId, ModelId, PeerId, SwarmId, Term};

    use super::*;
    use crate::api::wire::{CoordinatorReply, OverheadsReply};

    fn reply() -> StatusReply {
        let load = ModelLoad {
            model: ModelId([3; 32]),
            loaded: true,
            decode_tps: 89.0,
            prefill_tps: 261.0,
            decode_doubles_at: 0,
            prefill_doubles_at: 0,
            kv_bytes_per_token: 1,
            context_tokens: 4096,
            kv_free_tokens: 8192,
            queue_wait_ms: 0,
            running: 1,
            slots: 4,
        };
        StatusReply {
            version: "0.1.0".into(),
            peer: PeerId([1; 32]),
            boot: BootId(1),
            swarm: SwarmId([1; 32]),
            role: Role::MayInvite,
            uptime_s: 130,
            state: PeerState::Serving,
            reason: "set to always idle".into(),
            session_age_s: Some(65),
            sessions_recorded: 3,
            api: "127.0.0.1:14353".into(),
            listeners: vec![],
            coordinator: Some(CoordinatorReply { term: Term(2), leader: PeerId([1; 32]) }),
            engine: EngineReply {
                phase: "backing_off".into(),
                pid: None,
                model: None,
                running: 0,
                waiting: 0,
                slots: 4,
                decode_tps: 0.0,
                prefill_tps: 0.0,
                decode_doubles_at: 0,
                prefill_doubles_at: 0,
                restarts: 2,
            },
            models: vec![ModelInfo {
                id: ModelId([3; 32]),
                name: "smol".into(),
                size_bytes: 99_000_000,
                context_tokens: 2048,
            }],
            known_models: vec![],
            requests_running: 0,
            jobs_running: 1,
            overheads: OverheadsReply::default(),
            peers: vec![PeerReply {
                peer: PeerId([2; 32]),
                connected: true,
                role: Some(Role::Member),
                address: None,
                relayed: true,
                connected_for_s: Some(3),
                rtt_us: Some(340),
                up_bytes_per_s: Some(110_000_000),
                down_bytes_per_s: None,
                state: Some(PeerState::Busy),
                age_s: 0,
                stays_60s: Some(0.98),
                stays_15min: None,
                models: vec![load],
            }],
            warnings: vec![],
        }
    }

    #[test]
    fn a_person_sees_this_peer_and_the_others() {
        let text = lines(&reply()).join("\n");
        for expected in [
            "may invite, 1 other peer)",
            "serving for 65 s: set to always idle",
            "this peer (term 2)",
            "backing off, 0 of 4 requests",
            "restarted 2 times",
            "smol (99 MB, 2048 tokens of context)",
            "no address yet",
        ] {
            assert!(text.contains(expected), "{expected:?} is missing in\n{text}");
        }
        let row = text.lines().last().unwrap();
        for expected in
            [&PeerId([2; 32]).short(), "busy, relayed", "0.3 ms", "110 MB/s", "98 %", "smol (89 tok/s, 1/4)"]
        {
            assert!(row.contains(expected), "{expected:?} is missing in {row}");
        }
    }

    #[test]
    fn addresses_are_shown_as_they_can_be_written_each_once_and_on_a_line_of_its_own() {
        let mut status = reply();
        status.listeners =
            ["/ip4/10.0.0.2/udp/7/quic-v1/p2p/12D3", "/ip4/10.0.0.2/tcp/7/p2p/12D3", "/ip6/fd00::2/tcp/7"]
                .map(str::to_owned)
                .to_vec();
        let text = lines(&status).join("\n");
        assert!(text.contains("listens at   10.0.0.2:7\n             [fd00::2]:7\n"), "{text}");
    }

    #[test]
    fn a_model_that_only_others_have_goes_by_their_name_and_without_one_by_its_hash() {
        let mut status = reply();
        status.known_models = std::mem::take(&mut status.models);
        assert!(lines(&status).last().unwrap().contains("smol (89 tok/s"));
        status.known_models.clear();
        assert!(lines(&status).last().unwrap().contains("030303030303 (89 tok/s"));
    }

    #[test]
    fn a_peer_without_connection_is_unreachable_whatever_it_said_last() {
        let mut status = reply();
        status.peers[0].connected = false;
        assert!(lines(&status).last().unwrap().contains("unreachable"));
    }
}
