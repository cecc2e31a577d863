//! A running agent, and what a test does to it.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, ExitStatus};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::process::{children, is_running, signal};
use super::{Explanation, Launch, Signal, Status};
use crate::{Answer, Client, Host, Stream, eventually, within};

/// The promise: the local API is up within this, whatever else is not.
pub const API_WITHIN: Duration = Duration::from_secs(5);

/// How long tests wait for it that are about something else.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// A stopped agent has said goodbye and closed its files by then.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

/// A real agent. Dropping it kills it and its engine.
pub struct Agent {
    launch: Launch,
    child: Child,
    client: OnceLock<Client>,
    peer: OnceLock<String>,
}

impl Agent {
    pub(super) fn new(launch: Launch, child: Child) -> Self {
        Self { launch, child, client: OnceLock::new(), peer: OnceLock::new() }
    }

    /// Its host.
    pub fn host(&self) -> &Host {
        self.launch.host()
    }

    /// How it was started.
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its peer id.
    pub fn peer(&self) -> Result<&str> {
        if self.peer.get().is_none() {
            let _ = self.peer.set(self.status()?.peer);
        }
        self.peer.get().map(String::as_str).context("no peer id")
    }

    /// A client on the same host that has the key.
    pub fn client(&self) -> Result<&Client> {
        if self.client.get().is_none() {
            let _ = self.client.set(Client::new(self.host(), self.api()?, Some(&self.key()?))?);
        }
        self.client.get().context("no client")
    }

    /// The key of its API.
    pub fn key(&self) -> Result<String> {
        let path = self.launch.home_path().join("state/api-key");
        Ok(fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?.trim().to_owned())
    }

    /// Where its API listens: what it wrote down for the command line.
    pub fn api(&self) -> Result<SocketAddr> {
        let path = self.launch.home_path().join("state/agent.json");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let running: serde_json::Value = serde_json::from_str(&text).context("read agent.json")?;
        let api = running["api"].as_str().context("agent.json names no API")?;
        api.parse().with_context(|| format!("API address {api}"))
    }

    /// Returns once its API takes requests, whether or not anybody can serve them; fails if the process ends, or after the promised time.
    pub fn wait_for_api(&self) -> Result<Duration> {
        eventually(READY_WITHIN, "the API", || {
            ensure!(is_running(self.pid()), "the agent ended: {}", self.log_end()?);
            Ok(self.api().is_ok() && self.client()?.get("/ready").is_ok_and(|reply| !reply.text.contains("starting")))
        })
    }

    /// What it says about itself.
    pub fn status(&self) -> Result<Status> {
        let reply = self.client()?.get("/idlewild/v1/status")?.successful()?;
        serde_json::from_value(reply.json).context("read the status")
    }

    /// Waits until its status shows something.
    pub fn until<T>(
        &self,
        deadline: Duration,
        what: &str,
        mut look: impl FnMut(&Status) -> Option<T>,
    ) -> Result<(T, Duration)> {
        let seen = within(deadline, what, || Ok(look(&self.status()?)));
        seen.with_context(|| format!("status of {}: {:#?}", self.host().name(), self.status()))
    }

    /// Waits until it is connected to `count` others, each with a digest.
    pub fn until_connected(&self, count: usize, deadline: Duration) -> Result<Duration> {
        let what = format!("{count} connected peers");
        let ready = |status: &Status| {
            let known = status.connected().filter(|peer| peer.state.is_some()).count();
            (known >= count).then_some(())
        };
        self.until(deadline, &what, ready).map(|((), took)| took)
    }

    /// Waits until it is not connected to `peer`.
    pub fn until_gone(&self, peer: &str, deadline: Duration) -> Result<Duration> {
        self.until(deadline, "a departure", |status| (!status.sees(peer)).then_some(())).map(|((), took)| took)
    }

    /// Waits until it could place requests on `peer`.
    pub fn until_serving(&self, peer: &str, deadline: Duration) -> Result<Duration> {
        let ready = |status: &Status| status.of(peer).is_some_and(super::PeerStatus::is_serving).then_some(());
        self.until(deadline, "a peer that serves", ready).map(|((), took)| took)
    }

    /// Puts a completion to its API and gives the stream.
    pub fn ask(&self, body: &serde_json::Value) -> Result<Stream> {
        let path = if body.get("messages").is_some() { "/v1/chat/completions" } else { "/v1/completions" };
        self.client()?.stream(path, body)
    }

    /// Puts a completion to its API and waits for the whole answer.
    pub fn answer(&self, body: &serde_json::Value) -> Result<Answer> {
        self.ask(body)?.finish()?.whole()
    }

    /// Why a request ran where it ran.
    pub fn explain(&self, request: &str) -> Result<Explanation> {
        let reply = self.client()?.get(&format!("/idlewild/v1/explain/{request}"))?.successful()?;
        serde_json::from_value(reply.json).context("read the explanation")
    }

    /// A ticket for one newcomer.
    pub fn invite(&self) -> Result<String> {
        let (reply, _) = within(READY_WITHIN, "an address to invite to", || {
            let reply = self.client()?.post("/idlewild/v1/invite", &json!({ "ttl_s": 600 }))?;
            // 503: it does not listen yet, and says so.
            if reply.status == 503 { Ok(None) } else { reply.successful().map(Some) }
        })?;
        reply.json["ticket"].as_str().map(str::to_owned).context("no ticket")
    }

    /// Where other peers can reach it, as `swarm.peers` wants it.
    pub fn address(&self) -> Result<String> {
        let (port, _) = within(READY_WITHIN, "a port to listen on", || {
            Ok(self.status()?.listeners.iter().find_map(|address| port_of(address)))
        })?;
        Ok(format!("{}:{port}", self.host().address()))
    }

    /// Says what its owner does, for an agent with [`Launch::scripted`].
    pub fn owner(&self, does: &str) -> Result<()> {
        self.launch.owner(does)
    }

    /// Its engine's process.
    pub fn engine_pid(&self) -> Option<u32> {
        children(self.pid()).into_iter().find(|pid| is_running(*pid))
    }

    /// Sends it a signal.
    pub fn signal(&self, which: Signal) -> Result<()> {
        signal(self.pid(), which)
    }

    /// Kills its engine's process only.
    pub fn kill_engine(&self) -> Result<u32> {
        let pid = self.engine_pid().context("it has no engine")?;
        signal(pid, Signal::KILL)?;
        Ok(pid)
    }

    /// kill -9: no goodbye. Its engine is left to find out for itself.
    pub fn kill(&mut self) -> Result<()> {
        let engines = children(self.pid());
        self.signal(Signal::KILL)?;
        self.child.wait().context("wait for the killed agent")?;
        for engine in engines {
            eventually(STOPPED_WITHIN, "the engine's end after its agent's", || Ok(!is_running(engine)))?;
        }
        Ok(())
    }

    /// SIGTERM, and waits for its end.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let (status, _) = within(STOPPED_WITHIN, "the agent's end", || Ok(self.child.try_wait()?))?;
        Ok(status)
    }

    /// Waits for it to end by itself.
    pub fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        within(deadline, "the agent's end", || Ok(self.child.try_wait()?)).map(|(status, _)| status)
    }

    /// Whether its process runs.
    pub fn is_running(&self) -> bool {
        is_running(self.pid())
    }

    /// Starts it again after its end, from the same home.
    pub fn again(self) -> Result<Self> {
        let launch = self.launch.clone();
        drop(self);
        launch.up()
    }

    /// What it has written about itself.
    pub fn log(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.launch.log_path()).context("read the log")?).into_owned())
    }

    fn log_end(&self) -> Result<String> {
        let log = self.log()?;
        let lines: Vec<&str> = log.lines().collect();
        Ok(lines[lines.len().saturating_sub(5)..].join("\n"))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let engines = children(self.pid());
        let _ = self.child.kill();
        let _ = self.child.wait();
        for engine in engines {
            let _ = signal(engine, Signal::KILL);
        }
    }
}

/// The port in a multiaddress such as `/ip4/10.0.0.1/udp/14354/quic-v1`.
fn port_of(address: &str) -> Option<u16> {
    let mut parts = address.split('/');
    parts.find(|part| matches!(*part, "udp" | "tcp"))?;
    parts.next()?.parse().ok()
}
