//! Agents in this process: real swarms on loopback, the real driver, worker, origin and API, and the engine's fake on a
//! thread. Each has a runtime of its own, so that it can be dropped in the middle of whatever it does. That is less than
//! kill -9: the swarm notices that its handles are gone and closes its connections properly. The silent death of a
//! process is tested with processes, in `tests/`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use idlewild::api::wire::{ExplainReply, PeerReply, StatusReply};
use idlewild::config::{Backend, Config, Layer, OwnerChoice, Paths};
use idlewild::driver::{EnginePlace, Launch, run_until};
use idlewild::store::{
    DataLock, IdentitySeed, StoredMembership, load_or_create_identity, load_or_found_membership, read_running,
    remove_running, unix_s,
};
use idlewild_protocol::{PeerId, PeerState};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

/// For things that take milliseconds on an idle machine; these tests run on busy ones.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// One agent.
pub(crate) struct Agent {
    home: TempDir,
    paths: Paths,
    seed: IdentitySeed,
    pub(crate) peer: PeerId,
    config: Config,
    /// None once it was killed.
    runtime: Option<Runtime>,
    stop: CancellationToken,
    key: String,
    url: String,
    client: Client,
}

/// How an agent differs from the others.
#[derive(Clone, Copy)]
pub(crate) struct Nature {
    pub(crate) owner: OwnerChoice,
    pub(crate) decode_tps: f32,
    pub(crate) context_tokens: u32,
}

/// Works, fast.
pub(crate) const WORKER: Nature = Nature { owner: OwnerChoice::AlwaysIdle, decode_tps: 100.0, context_tokens: 2048 };

/// Submits only: nobody can tell whether its owner is there.
pub(crate) const ORIGIN: Nature = Nature { owner: OwnerChoice::Scripted, ..WORKER };

/// Does what its script says.
pub(crate) const SCRIPTED: Nature = Nature { owner: OwnerChoice::Scripted, ..WORKER };

impl Agent {
    /// An agent, started and ready, that knows the addresses of `others`, in the swarm of the first of them (or a new one).
    pub(crate) async fn start(nature: Nature, others: &[&Self]) -> Self {
        // Shown where a test fails. All agents of a test write into the same log.
        let _ = tracing_subscriber::fmt().with_env_filter("info").with_ansi(false).with_test_writer().try_init();
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path());
        paths.create().unwrap();
        let seed = load_or_create_identity(&paths).unwrap();
        let mut config = Layer::default().with_defaults();
        config.api.port = 0;
        config.swarm.port = 0;
        // Other tests use this machine too.
        config.rules.enabled = false;
        config.swarm.listen = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
        config.swarm.mdns = false;
        config.engine.backend = Backend::Fake;
        config.engine.fake_decode_tps = nature.decode_tps;
        config.engine.context_tokens = nature.context_tokens;
        config.owner.source = nature.owner;
        if let Some(founder) = others.first() {
            let membership = founder.membership();
            let chain = membership.issue(&founder.seed, seed.peer(), unix_s()).unwrap();
            StoredMembership::joined(membership.swarm, chain, Vec::new()).save(&paths).unwrap();
        }
        for other in others {
            config.swarm.peers.extend(other.status().await.listeners);
        }
        let peer = seed.peer();
        let client = Client::builder().no_proxy().build().unwrap();
        let stop = CancellationToken::new();
        let mut agent = Self {
            home,
            paths,
            seed,
            peer,
            config,
            runtime: None,
            stop,
            key: String::new(),
            url: String::new(),
            client,
        };
        agent.up().await;
        agent
    }

    /// Starts it (again), and waits until it takes requests, whether or not anybody can serve them.
    pub(crate) async fn up(&mut self) {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        self.stop = CancellationToken::new();
        // A killed agent's threads end on their own time (SQLite removes its log last), and what it wrote about where it
        // listens stays behind.
        let log = self.paths.database_file().with_extension("db-wal");
        let is_free = || !DataLock::is_held(&self.paths) && !log.exists();
        eventually("nobody uses its directory", || async { is_free().then_some(()) }).await;
        remove_running(&self.paths);
        let (config, paths) = (self.config.clone(), self.paths.clone());
        let launch = Launch { config, sources: None, paths, engine: EnginePlace::Thread };
        let stop = self.stop.clone();
        runtime.spawn(async move {
            if let Err(error) = Box::pin(run_until(launch, stop)).await {
                panic!("agent could not start: {error}");
            }
        });
        self.runtime = Some(runtime);
        let paths = &self.paths;
        let running = eventually("its API listens", || async { read_running(paths).ok().flatten() }).await;
        self.url = format!("http://{}", running.api);
        let key = std::fs::read_to_string(self.paths.api_key_file()).unwrap();
        key.trim().clone_into(&mut self.key);
        let ready = format!("{}/ready", self.url);
        eventually("it has started", || async {
            let reply = self.client.get(&ready).send().await.ok()?.text().await.ok()?;
            (!reply.contains("starting")).then_some(())
        })
        .await;
        // The API answers before the ports for peers are open.
        eventually("it listens", || async { (self.status().await.listeners.len() == 2).then_some(()) }).await;
    }

    fn membership(&self) -> StoredMembership {
        load_or_found_membership(&self.paths, &self.seed, unix_s()).unwrap()
    }

    /// Ends it in the middle of whatever it does.
    pub(crate) fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Tells it to stop, as SIGTERM does.
    pub(crate) fn terminate(&self) {
        self.stop.cancel();
    }

    /// Tells its owner script.
    pub(crate) fn owner(&self, state: &str) {
        use std::io::Write;
        let path: PathBuf = self.paths.owner_control_file();
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{state}").unwrap();
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.client.get(format!("{}{path}", self.url)).bearer_auth(&self.key).send().await.unwrap()
    }

    pub(crate) async fn status(&self) -> StatusReply {
        self.get("/idlewild/v1/status").await.json().await.unwrap()
    }

    pub(crate) async fn explain(&self, request: &str) -> ExplainReply {
        self.get(&format!("/idlewild/v1/explain/{request}")).await.json().await.unwrap()
    }

    /// Waits until it sees all of `others` serving or not, as they are.
    pub(crate) async fn sees(&self, others: &[&Self]) {
        eventually("it sees the others", || async {
            let status = self.status().await;
            let sees = |other: &&Self| {
                status
                    .peers
                    .iter()
                    .any(|p| p.peer == other.peer && p.connected && p.state.is_some() && !p.models.is_empty())
            };
            (others.iter().all(sees) && status.coordinator.is_some()).then_some(())
        })
        .await;
    }

    /// Waits until it is connected to `other` and sees it take work.
    pub(crate) async fn sees_serving(&self, other: &Self) {
        eventually("it sees the other serve", || async {
            let status = self.status().await;
            let serves = |p: &PeerReply| p.peer == other.peer && p.connected && p.state == Some(PeerState::Serving);
            status.peers.iter().any(serves).then_some(())
        })
        .await;
    }

    /// Asks for a chat of `tokens` greedy tokens.
    pub(crate) async fn chat(&self, tokens: u32, more: Value) -> Response {
        let mut body = json!({
            "model": "fake", "temperature": 0, "seed": 7, "max_tokens": tokens,
            "messages": [{ "role": "user", "content": "tell me of the sea" }],
        });
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        let request = self.client.post(format!("{}/v1/chat/completions", self.url)).bearer_auth(&self.key);
        request.body(body.to_string()).send().await.unwrap()
    }

    /// The text of a chat that nothing disturbs.
    pub(crate) async fn undisturbed(&self, tokens: u32) -> String {
        let response = self.chat(tokens, json!({})).await;
        assert_eq!(response.status(), 200);
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["usage"]["completion_tokens"], tokens);
        body["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
        // The directory must outlive what uses it.
        let _ = self.home.path();
    }
}

/// Waits until `look` finds something, or panics.
pub(crate) async fn eventually<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
