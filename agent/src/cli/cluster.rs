//! `idlewild dev cluster`: several agents on this machine as one private swarm, each with a home of its own.
//!
//! The agents are made as users would make them: the first founds a swarm, the others join with its tickets. They listen
//! on loopback only and do not use multicast.

use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::args::{ClusterArgs, StopArgs};
use super::client::Client;
use super::context::Context;
use super::failure::{Failure, OrExit};
use super::format::count;
use super::join::join_with;
use super::process::{self, Stopped};
use super::{Exit, Printer, models};
use crate::api::wire::{InviteReply, InviteRequest, StatusReply};
use crate::config::{Layer, Paths, setting};
use crate::models::{ModelStore, StoredModel};
use crate::store::{TICKET_TTL_S_MIN, load_or_create_api_key, read_secret, write_secret};

/// How long peers may take to find each other.
const MEET_TIMEOUT: Duration = Duration::from_secs(20);

/// How often the peers are asked whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Agents that a cluster may have (`--peers` takes as many).
const MAX_PEERS: u16 = 16;

/// Free ports tried before giving up.
const PORT_ATTEMPTS: u32 = 50;

/// What is printed with `--json`, and kept for `dev stop`.
#[derive(Debug, Serialize, Deserialize)]
struct ClusterReply {
    peers: Vec<ClusterPeer>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ClusterPeer {
    peer: String,
    home: PathBuf,
    api: String,
    api_key: String,
    takes_work: bool,
}

pub(super) async fn cluster(context: &Context, printer: &mut Printer, args: ClusterArgs) -> Result<Exit, Failure> {
    for text in &args.set {
        setting(text).or_exit(Exit::Usage)?;
    }
    let dir = directory(context, args.dir.clone());
    check_stopped(&dir).await?;
    let model = args.model.as_deref().map(|asked| find_model(context, printer, (&dir, &args), asked)).transpose()?;
    let mut agents = Agents::default();
    let outcome = start_all(&dir, &args, model.as_ref(), &mut agents, printer).await;
    let reply = match outcome {
        Ok(reply) => reply,
        Err(failure) => {
            agents.stop().await;
            return Err(failure);
        }
    };
    show(printer, &reply, args.json)?;
    if args.keep {
        printer.note(format!("the agents go on; `{} dev stop --dir {}` stops them", program(), dir.display()));
        return Ok(Exit::Fine);
    }
    printer.note("Ctrl-C stops them");
    let end = agents.wait().await;
    agents.stop().await;
    end
}

pub(super) async fn stop(context: &Context, printer: &mut Printer, args: StopArgs) -> Result<Exit, Failure> {
    let dir = directory(context, args.dir);
    let mut stopped = 0;
    for home in homes(&dir) {
        stopped += usize::from(process::stop(&Paths::under(&home)).await? != Stopped::NoneRan);
    }
    match stopped {
        0 => printer.note(format!("no agent of a cluster runs in {}", dir.display())),
        n => {
            let (agents, have) = (count(n, "agent"), if n == 1 { "has" } else { "have" });
            printer.note(format!("{agents} {have} stopped; the files are still in {}", dir.display()));
        }
    }
    Ok(Exit::Fine)
}

fn directory(context: &Context, given: Option<PathBuf>) -> PathBuf {
    let dir = given.unwrap_or_else(|| context.paths.cache.join("dev-cluster"));
    std::path::absolute(&dir).unwrap_or(dir)
}

/// The homes in a cluster's directory, in order.
fn homes(dir: &Path) -> Vec<PathBuf> {
    (1..=MAX_PEERS).map(|n| home(dir, n)).filter(|home| home.is_dir()).collect()
}

fn home(dir: &Path, number: u16) -> PathBuf {
    dir.join(format!("peer-{number}"))
}

async fn check_stopped(dir: &Path) -> Result<(), Failure> {
    for home in homes(dir) {
        if process::answer(&Paths::under(&home)).await.is_some() {
            return Err(Failure::words(Exit::State, format!("a cluster runs already in {}", dir.display()))
                .hint("stop it with `idlewild dev stop`, or name another directory with --dir"));
        }
    }
    Ok(())
}

/// The first peer that gets the model: those that take no work have no use for one.
fn first_holder(args: &ClusterArgs) -> u16 {
    args.busy.saturating_add(1).min(args.peers)
}

/// The model that the working peers get: a file, or one of this user's store.
fn find_model(
    context: &Context,
    printer: &mut Printer,
    (dir, args): (&Path, &ClusterArgs),
    asked: &str,
) -> Result<StoredModel, Failure> {
    let (config, _) = context.config(Layer::default())?;
    let failed = |error| Failure::new(models::exit_of(&error), error);
    let is_file = Path::new(asked).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"));
    if !is_file {
        return context.model_store(&config)?.resolve(asked).map_err(failed);
    }
    // The first store that is to have it takes the copy; the others link to it.
    let paths = Paths::under(&home(dir, first_holder(args)));
    paths.create().or_exit(Exit::State)?;
    let store = ModelStore::open(paths.models_dir()).map_err(failed)?;
    models::import(printer, &store, Path::new(asked), None)
}

async fn start_all(
    dir: &Path,
    args: &ClusterArgs,
    model: Option<&StoredModel>,
    agents: &mut Agents,
    printer: &mut Printer,
) -> Result<ClusterReply, Failure> {
    let mut reply = ClusterReply { peers: Vec::new() };
    for number in 1..=args.peers {
        let home = home(dir, number);
        let paths = Paths::under(&home);
        paths.create().or_exit(Exit::State)?;
        if let Some(model) = model.filter(|_| number >= first_holder(args)) {
            let store = ModelStore::open(paths.models_dir()).or_exit(Exit::Failed)?;
            store.adopt(model).or_exit(Exit::Failed)?;
        }
        if number > 1
            && read_secret(&paths.membership_file(), "remove the cluster's directory").or_exit(Exit::State)?.is_none()
        {
            join(agents, &paths).await?;
        }
        let takes_work = number > args.busy;
        let mut started = process::spawn(&paths, &arguments(args, &home, takes_work, agents)?)?;
        let status = process::wait_until_up(&mut started, &paths, can_be_dialled).await;
        let listeners = status.as_ref().map_or_else(|_| Vec::new(), |status| status.listeners.clone());
        agents.0.push(Agent { child: started.child, paths: paths.clone(), listeners });
        let status = status?;
        printer.note(format!("peer {number} of {} runs: {}", args.peers, status.peer));
        reply.peers.push(ClusterPeer {
            peer: status.peer.to_string(),
            api: format!("http://{}/v1", status.api),
            api_key: load_or_create_api_key(&paths).or_exit(Exit::State)?,
            home,
            takes_work,
        });
    }
    agents.wait_until_met().await?;
    let text = serde_json::to_string_pretty(&reply).or_exit(Exit::Failed)?;
    write_secret(&dir.join("cluster.json"), &text).or_exit(Exit::State)?;
    Ok(reply)
}

/// Joins with a fresh ticket of the first agent.
async fn join(agents: &Agents, paths: &Paths) -> Result<(), Failure> {
    let first = agents.0.first().ok_or_else(|| Failure::words(Exit::Failed, "the first agent is not there"))?;
    let client = Client::new(&first.paths)?;
    let asked = InviteRequest { ttl_s: TICKET_TTL_S_MIN };
    let invitation: InviteReply = client.post("/idlewild/v1/invite", &asked).await?;
    let ticket = invitation.ticket.parse().or_exit(Exit::Failed)?;
    join_with(paths, &ticket, false).await.map(|_| ())
}

/// The API answers before the ports for peers are open: the next agents would not be told where this one is.
fn can_be_dialled(status: &StatusReply) -> bool {
    ["/quic-v1", "/tcp/"].iter().all(|kind| status.listeners.iter().any(|address| address.contains(kind)))
}

fn arguments(args: &ClusterArgs, home: &Path, takes_work: bool, agents: &Agents) -> Result<Vec<OsString>, Failure> {
    let mut arguments: Vec<OsString> = vec!["--home".into(), home.into(), "up".into()];
    arguments.extend(["--no-mdns", "--listen", "127.0.0.1", "--api-port", "0", "--port"].map(OsString::from));
    arguments.push(free_port()?.to_string().into());
    if takes_work {
        arguments.push("--always-idle".into());
    } else {
        // Nobody writes its script: it counts as in use.
        arguments.extend(["--set", "owner.source=scripted"].map(OsString::from));
    }
    // Ports are new at each start, so that the addresses that were learnt when joining may be old.
    for agent in &agents.0 {
        for address in &agent.listeners {
            arguments.extend(["--peer", address].map(OsString::from));
        }
    }
    // They share this machine: each would take the others for programs of its owner's.
    arguments.extend(["--set", "rules.enabled=false"].map(OsString::from));
    for text in &args.set {
        arguments.extend(["--set", text].map(OsString::from));
    }
    Ok(arguments)
}

/// A port that is free for TCP and UDP now. Another process may take it before the agent does; then the agent says so.
fn free_port() -> Result<u16, Failure> {
    for _ in 0..PORT_ATTEMPTS {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).or_exit(Exit::Failed)?;
        let port = tcp.local_addr().or_exit(Exit::Failed)?.port();
        if UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Failure::words(Exit::Failed, "no port is free for both TCP and UDP"))
}

fn show(printer: &mut Printer, reply: &ClusterReply, json: bool) -> Result<(), Failure> {
    if json {
        printer.json(reply)?;
        return Ok(());
    }
    for (number, peer) in (1..).zip(&reply.peers) {
        let work = if peer.takes_work { "takes work" } else { "busy" };
        printer.line(format!("peer {number}  {}  {work}", peer.peer))?;
        printer.line(format!("        {}  key in {}", peer.api, Paths::under(&peer.home).api_key_file().display()))?;
        printer.line(format!("        {} --home {} status", program(), peer.home.display()))?;
    }
    Ok(())
}

/// This program as it was called: it need not be on the PATH.
fn program() -> String {
    std::env::args_os().next().map_or_else(|| "idlewild".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Ctrl-C, or what a script or a service manager sends.
async fn told_to_stop() {
    #[cfg(unix)]
    if let Ok(mut term) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = term.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        return;
    }
    // Where signals cannot be listened to, their default ends this process, and `dev stop` the agents.
    let _ = tokio::signal::ctrl_c().await;
}

/// The running agents of a cluster.
#[derive(Default)]
struct Agents(Vec<Agent>);

struct Agent {
    child: Child,
    paths: Paths,
    /// Where it listens for the others.
    listeners: Vec<String>,
}

impl Agents {
    /// Waits until each is connected to every other.
    async fn wait_until_met(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + MEET_TIMEOUT;
        for agent in &self.0 {
            loop {
                let met = process::answer(&agent.paths).await.map_or(0, |status| {
                    status.peers.iter().filter(|peer| peer.connected && peer.state.is_some()).count()
                });
                if met + 1 >= self.0.len() {
                    break;
                }
                if Instant::now() >= deadline {
                    return Err(Failure::words(Exit::Failed, "the agents run and do not find each other")
                        .hint(format!("see {}", agent.paths.log_file().display())));
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        Ok(())
    }

    /// Waits for Ctrl-C, or for the end of an agent.
    async fn wait(&mut self) -> Result<Exit, Failure> {
        loop {
            tokio::select! {
                () = told_to_stop() => return Ok(Exit::Fine),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            for agent in &mut self.0 {
                if let Some(status) = agent.child.try_wait().or_exit(Exit::Failed)? {
                    let log = agent.paths.log_file();
                    return Err(Failure::words(Exit::Failed, format!("an agent has ended ({status})"))
                        .hint(format!("its log is {}", log.display())));
                }
            }
        }
    }

    async fn stop(&mut self) {
        for agent in &mut self.0 {
            // One that has not come as far as its lock, or does not stop, is ended.
            if !matches!(process::stop(&agent.paths).await, Ok(Stopped::Ended | Stopped::Killed)) {
                let _ = agent.child.kill();
            }
            let _ = agent.child.wait();
        }
    }
}
