//! `idlewild status`: this peer and its view of the others.

use idlewild_protocol::{ModelLoad, PeerState, Role};

use super::args::JsonArgs;
use super::client::Client;
use super::context::Context;
use super::failure::Failure;
use super::format::{bytes, percent, rate, seconds, table};
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
        format!("swarm        {} ({role}, {} other peers)", status.swarm, status.peers.len()),
        format!("agent        idlewild {}, up {}", status.version, seconds(status.uptime_s)),
        format!("api          http://{}/v1", status.api),
        format!("listens at   {}", or_nowhere(&status.listeners)),
        format!("state        {}", own_state(status)),
        format!("coordinator  {coordinator}"),
        format!("engine       {}", engine(&status.engine)),
        format!("requests     {} of its own, {} being worked on", status.requests_running, status.jobs_running),
    ];
    for (at, model) in status.models.iter().enumerate() {
        let label = if at == 0 { "models" } else { "" };
        lines.push(format!(
            "{label:<13}{} ({}, {} tokens of context)",
            model.name,
            bytes(model.size_bytes),
            model.context_tokens
        ));
    }
    if !status.peers.is_empty() {
        let header = ["PEER", "STATE", "RTT", "UP", "DOWN", "STAYS 1 MIN", "15 MIN", "MODELS"].map(str::to_owned);
        let rows: Vec<Vec<String>> =
            std::iter::once(header.to_vec()).chain(status.peers.iter().map(|peer| row(peer, status))).collect();
        lines.push(String::new());
        lines.extend(table(&rows));
    }
    lines
}

fn or_nowhere(listeners: &[String]) -> String {
    if listeners.is_empty() { "no address yet".to_owned() } else { listeners.join(", ") }
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
        n => format!(", restarted {n} times"),
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
        shown_state.to_owned(),
        rtt,
        rate(peer.up_bytes_per_s),
        rate(peer.down_bytes_per_s),
        percent(peer.stays_60s),
        percent(peer.stays_15min),
        peer.models.iter().map(|load| model(load, status)).collect::<Vec<_>>().join(", "),
    ]
}

fn model(load: &ModelLoad, status: &StatusReply) -> String {
    let known = status.models.iter().find(|model| model.id == load.model);
    let name = known.map_or_else(|| load.model.to_string()[..12].to_owned(), |model| model.name.clone());
    let loaded = if load.loaded { "" } else { ", not loaded" };
    format!("{name} ({:.0} tok/s, {}/{}{loaded})", load.decode_tps, load.running, load.slots)
}

#[cfg(test)]
mod tests {
    use idlewild_protocol::{BootId, ModelId, ModelInfo, PeerId, SwarmId, Term};

    use super::*;
    use crate::api::wire::CoordinatorReply;

    fn reply() -> StatusReply {
        let load = ModelLoad {
            model: ModelId([3; 32]),
            loaded: true,
            decode_tps: 89.0,
            prefill_tps: 261.0,
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
                restarts: 2,
            },
            models: vec![ModelInfo {
                id: ModelId([3; 32]),
                name: "smol".into(),
                size_bytes: 99_000_000,
                context_tokens: 2048,
            }],
            requests_running: 0,
            jobs_running: 1,
            peers: vec![PeerReply {
                peer: PeerId([2; 32]),
                connected: true,
                role: Some(Role::Member),
                address: None,
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
            "may invite, 1 other peers",
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
        for expected in [&PeerId([2; 32]).short(), "busy", "0.3 ms", "110 MB/s", "98 %", "smol (89 tok/s, 1/4)"] {
            assert!(row.contains(expected), "{expected:?} is missing in {row}");
        }
    }

    #[test]
    fn a_peer_without_connection_is_unreachable_whatever_it_said_last() {
        let mut status = reply();
        status.peers[0].connected = false;
        assert!(lines(&status).last().unwrap().contains("unreachable"));
    }
}
