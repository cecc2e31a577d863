//! Figures of a swarm on this machine: memory and processor time of an idle peer, and how soon departures are noticed.
//!
//! `cargo run --release -p idlewild-swarm --example measure` starts peers in processes of their own, on loopback.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use idlewild_protocol::{BootId, CertificateChain, Message, PeerId, SwarmId};
use idlewild_swarm::{
    Founded, Identity, InterfaceFilter, Membership, RelayMode, Swarm, SwarmConfig, SwarmEvent, found_swarm,
    issue_member, start,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::mpsc;

type Failure = Box<dyn std::error::Error>;

/// Rounds of killing and freezing.
const ROUNDS: usize = 10;

/// How long an idle peer is watched.
const IDLE: Duration = Duration::from_secs(20);

/// Certificates count this long.
const HOUR_S: u64 = 3_600;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [seed, swarm, chain, address] => be_child(seed, swarm, chain, address).await,
        _ => measure().await,
    }
}

async fn measure() -> Result<(), Failure> {
    let world = World::found();
    let (swarm, mut events) = start(world.config(world.founder.clone(), Vec::new())?).await?;
    let address = loop {
        match events.recv().await {
            Some(SwarmEvent::Listening(address)) => break address,
            Some(_) => {}
            None => return Err("the swarm ended".into()),
        }
    };
    idle(&world, &mut events, &address).await?;
    for (name, signal) in [("kill -9", Signal::KILL), ("SIGSTOP", Signal::STOP)] {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            times.push(departure(&world, &swarm, &mut events, &address, signal).await?);
        }
        times.sort_unstable();
        say(&format!(
            "{name}: noticed after {:?} (median), {:?} (worst of {ROUNDS})",
            times[ROUNDS / 2],
            times[ROUNDS - 1]
        ));
    }
    rates(&world, &swarm, &mut events, &address).await
}

async fn idle(world: &World, events: &mut mpsc::Receiver<SwarmEvent>, address: &str) -> Result<(), Failure> {
    let child = world.child(address)?;
    seen(events, child.id).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = cpu_ms(&child)?;
    tokio::time::sleep(IDLE).await;
    let used = cpu_ms(&child)? - before;
    let share = used as f64 / IDLE.as_millis() as f64 * 100.0;
    say(&format!("idle peer with one link: {share:.2} % of a core, {} KiB resident", resident_kib(&child)?));
    Ok(())
}

async fn departure(
    world: &World,
    swarm: &Swarm,
    events: &mut mpsc::Receiver<SwarmEvent>,
    address: &str,
    signal: Signal,
) -> Result<Duration, Failure> {
    let child = world.child(address)?;
    seen(events, child.id).await?;
    while !swarm.peers().iter().any(|link| link.peer == child.id && link.has_bulk) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let pid = Pid::from_raw(i32::try_from(child.process.id())?).ok_or("no pid")?;
    kill_process(pid, signal)?;
    let begun = Instant::now();
    loop {
        match events.recv().await {
            Some(SwarmEvent::Departed { peer, .. }) if peer == child.id => return Ok(begun.elapsed()),
            Some(_) => {}
            None => return Err("the swarm ended".into()),
        }
    }
}

async fn rates(
    world: &World,
    swarm: &Swarm,
    events: &mut mpsc::Receiver<SwarmEvent>,
    address: &str,
) -> Result<(), Failure> {
    let child = world.child(address)?;
    seen(events, child.id).await?;
    while !swarm.peers().iter().any(|link| link.peer == child.id && link.has_bulk) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let before = swarm.traffic();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let after = swarm.traffic();
    let sent = (after.control_sent_bytes - before.control_sent_bytes) / 5;
    say(&format!(
        "heartbeats: {sent} B/s to one peer, round trip {:?} us",
        swarm.peers().first().map(|link| link.rtt_us)
    ));
    say(&format!("probe on loopback: {:?}", swarm.probe(child.id).await));
    Ok(())
}

async fn seen(events: &mut mpsc::Receiver<SwarmEvent>, wanted: PeerId) -> Result<(), Failure> {
    loop {
        match events.recv().await {
            Some(SwarmEvent::Connected { peer, .. }) if peer == wanted => return Ok(()),
            Some(_) => {}
            None => return Err("the swarm ended".into()),
        }
    }
}

async fn be_child(seed: &str, swarm: &str, chain: &str, address: &str) -> Result<(), Failure> {
    let seed: [u8; 32] = from_hex(seed)?.try_into().map_err(|_| "not a seed")?;
    let swarm: [u8; 32] = from_hex(swarm)?.try_into().map_err(|_| "not a swarm")?;
    let membership = Membership { swarm: SwarmId(swarm), chain: CertificateChain::from_bytes(&from_hex(chain)?)? };
    let config = config(Identity::from_seed(seed), membership, vec![address.to_owned()]);
    let (_swarm, mut events) = start(config).await?;
    while events.recv().await.is_some() {}
    Ok(())
}

struct World {
    founder: Identity,
    founded: Founded,
}

struct Other {
    process: Child,
    id: PeerId,
}

impl World {
    fn found() -> Self {
        let founder = Identity::generate();
        let founded = found_swarm(founder.peer_id(), now_s() + HOUR_S);
        Self { founder, founded }
    }

    fn config(&self, identity: Identity, static_peers: Vec<String>) -> Result<SwarmConfig, Failure> {
        let membership = if identity.peer_id() == self.founder.peer_id() {
            self.founded.membership.clone()
        } else {
            self.membership_of(identity.peer_id())?
        };
        Ok(config(identity, membership, static_peers))
    }

    fn membership_of(&self, peer: PeerId) -> Result<Membership, Failure> {
        let chain = issue_member(&self.founder, &self.founded.membership, peer, now_s() + HOUR_S, now_s())?;
        Ok(Membership { swarm: self.founded.membership.swarm, chain })
    }

    fn child(&self, address: &str) -> Result<Other, Failure> {
        let identity = Identity::generate();
        let membership = self.membership_of(identity.peer_id())?;
        let process = Command::new(std::env::current_exe()?)
            .arg(to_hex(&identity.seed()))
            .arg(to_hex(&membership.swarm.0))
            .arg(to_hex(&membership.chain.to_bytes()?))
            .arg(address)
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Other { process, id: identity.peer_id() })
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have been killed already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn config(identity: Identity, membership: Membership, static_peers: Vec<String>) -> SwarmConfig {
    SwarmConfig {
        identity,
        membership,
        boot: BootId(1),
        port: 0,
        listen: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        mdns: false,
        static_peers,
        address_book: None,
        interfaces: InterfaceFilter::default(),
        relay: RelayMode::default(),
        desk: None,
    }
}

/// Processor time of a process so far: fields 14 and 15 of its stat, in ticks of 10 ms.
fn cpu_ms(of: &Other) -> Result<u64, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", of.process.id()))?;
    let fields = stat.rsplit_once(')').ok_or("no stat")?.1;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(ticks * 10)
}

fn resident_kib(of: &Other) -> Result<u64, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", of.process.id()))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no resident size")?;
    Ok(line.split_whitespace().nth(1).ok_or("no resident size")?.parse()?)
}

fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Result<Vec<u8>, Failure> {
    let digits = |at: usize| text.get(2 * at..2 * at + 2).ok_or("not hexadecimal");
    (0..text.len() / 2).map(|at| Ok(u8::from_str_radix(digits(at)?, 16)?)).collect()
}

fn say(line: &str) {
    // A closed terminal ends the measurement no sooner.
    drop(writeln!(std::io::stdout(), "{line}"));
}
