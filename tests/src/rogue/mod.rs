//! A member of the swarm that does not keep to the rules: it joins as others do, says of itself what they say, and works on
//! the fake engine with the same words. What it does with contexts, events and pulls is its [`Manner`].
//!
//! ```text
//! test --Manner, leave, ask, flood--> Rogue (handle) --> life: digest, jobs, contexts   on threads inside the host's
//! test <--------Seen-----------------'                                                  namespace, over a real swarm
//! ```
//!
//! It takes no part in elections. Everything of it ends when the handle is dropped.

mod context;
mod flood;
mod job;
mod life;
mod looks;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use idlewild_engine::{Backend, DoublesAt, Engine, EngineConfig, FakeRates, KvType, ModelFile};
use idlewild_protocol::{BootId, ContextOpen, ContextRefusal, ModelId, PeerId, RequestId, Ticket};
use idlewild_swarm::{ContextRange, Identity, InterfaceFilter, RelayMode, Swarm, SwarmConfig, SwarmEvent};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use crate::{Agent, FAKE_MODEL, Fake, Host};
pub use flood::{Asked, WordFlood};
use life::{Life, Presence};

/// What may be seen and not looked at yet; what finds no room is forgotten.
const SEEN_MAX: usize = 1024;

/// Tokens of one context, and of all: as agents have them by default.
const CONTEXT_TOKENS: u32 = 4096;
const KV_TOKENS: u32 = 8192;

/// Requests that it works on at once.
const SLOTS: u16 = 4;

/// How it behaves, from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// As an honest worker, with what it holds offered and given.
    Honest,
    /// Whoever pulls gets no answer.
    NeverAnswers,
    /// Whoever pulls is refused.
    Refuses(ContextRefusal),
    /// Whoever pulls finds the stream closed.
    HangsUp,
    /// Each chunk comes so late.
    Slowly(Duration),
    /// What is sent is of other positions than its label says.
    OtherRange,
    /// As a worker it stops after some tokens and shows signs of life without pause; as a standby it says without pause how
    /// little it holds.
    FloodsEvents,
}

/// What it has seen of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It is to run this.
    Job(RequestId),
    /// It is to get ready for this.
    Prepares(RequestId),
    /// This peer may pull from it.
    Offered(Option<PeerId>),
    /// Somebody wants these positions.
    Pulled(ContextRange),
    /// An origin closed this request's stream.
    Left(RequestId),
}

/// A rogue on a host. Dropping it ends it.
pub struct Rogue {
    /// None only while it is dropped.
    runtime: Option<Runtime>,
    /// Its peer id, as agents print it.
    pub peer: String,
    swarm: Swarm,
    engine: Engine,
    /// How it behaves.
    pub manner: watch::Sender<Manner>,
    presence: watch::Sender<Presence>,
    seen: mpsc::Receiver<Seen>,
    /// Streams that it opened and does not read.
    unread: Arc<Mutex<Vec<idlewild_swarm::ContextClient>>>,
}

impl Rogue {
    /// Joins the swarm of `origin` from `host`, connects to `origin` and to those whom it `knows`, and serves at `rates`, which
    /// are what it promises, too. Returns once `origin` would place requests there.
    pub fn join(host: &Host, origin: &Agent, knows: &[&Agent], rates: Fake) -> Result<Self> {
        let started = host.enter(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build());
        let runtime = started?.context("start the rogue's runtime")?;
        let ticket: Ticket = origin.invite()?.parse().context("read the ticket")?;
        let addresses = [origin].iter().chain(knows).map(|agent| agent.address()).collect::<Result<Vec<_>>>()?;
        let model = fake_model(origin)?;
        let identity = Identity::generate();
        // By a task: the threads of a swarm are where the thread is that starts them.
        let begun = runtime.spawn(begin(identity.clone(), ticket, addresses, (model, rates)));
        let (swarm, events, engine) = futures::executor::block_on(begun).context("the rogue's task failed")??;
        let (manner, manner_seen) = watch::channel(Manner::Honest);
        let (presence, presence_seen) = watch::channel(Presence::Serving);
        let (to_test, seen) = mpsc::channel(SEEN_MAX);
        let life = Life {
            identity,
            swarm: swarm.clone(),
            engine: engine.clone(),
            model,
            rates,
            manner: manner_seen,
            presence: presence_seen,
            seen: to_test,
            held: Arc::default(),
        };
        runtime.spawn(life.run(events));
        let peer = swarm.me().to_string();
        let unread = Arc::default();
        let rogue = Self { runtime: Some(runtime), peer, swarm, engine, manner, presence, seen, unread };
        origin.until_serving(&rogue.peer, crate::agent::FOUND_WITHIN)?;
        for other in knows {
            rogue.until_linked(other)?;
        }
        Ok(rogue)
    }

    /// Behaves so from now on.
    pub fn behave(&self, manner: Manner) {
        self.manner.send_replace(manner);
    }

    /// Its owner is back: it says goodbye to whom it works for, computes no more, and holds contexts for the notice. Others see
    /// that it takes no work.
    pub fn leave(&self, notice_ms: u32) {
        self.presence.send_replace(Presence::Gone { notice_ms });
    }

    /// Its owner is away again.
    pub fn come_back(&self) {
        self.presence.send_replace(Presence::Serving);
    }

    /// Its id.
    pub fn id(&self) -> PeerId {
        self.swarm.me()
    }

    /// The context of a request, as one would ask for it who has the same model.
    pub fn context_of(&self, origin: PeerId, request: &str) -> Result<ContextOpen> {
        let loaded = self.engine.stats().model.context("the rogue has no model")?;
        let layout = loaded.layout.context("contexts of the fake travel")?;
        Ok(ContextOpen { origin, request: request.parse().context("a request's id")?, model: loaded.id, layout })
    }

    /// Waits until it sees what `is_it`; what comes before is passed over.
    pub fn until_seen(&mut self, deadline: Duration, what: &str, is_it: impl Fn(&Seen) -> bool) -> Result<Seen> {
        let (seen, _) = crate::within(deadline, what, || Ok(self.look().into_iter().find(|seen| is_it(seen))))?;
        Ok(seen)
    }

    /// What it has seen and nobody has looked at.
    pub fn look(&mut self) -> Vec<Seen> {
        std::iter::from_fn(|| self.seen.try_recv().ok()).collect()
    }

    fn until_linked(&self, other: &Agent) -> Result<()> {
        let id: PeerId = other.peer()?.parse().context("a peer's id")?;
        crate::eventually(crate::agent::FOUND_WITHIN, "both connections to a peer", || {
            Ok(self.swarm.peers().iter().any(|link| link.peer == id && link.has_bulk))
        })?;
        Ok(())
    }

    fn runtime(&self) -> Result<&Runtime> {
        match &self.runtime {
            Some(runtime) => Ok(runtime),
            None => bail!("the rogue has ended"),
        }
    }
}

impl Drop for Rogue {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The id of the fake engine's model, as agents have it.
fn fake_model(agent: &Agent) -> Result<ModelId> {
    let reply = agent.client()?.get("/idlewild/v1/models")?.successful()?;
    let models = reply.json["models"].as_array().context("no list of models")?;
    let fake = models.iter().find(|model| model["name"] == FAKE_MODEL).context("the agent has no fake model")?;
    fake["id"].as_str().context("a model has an id")?.parse().context("a model's id")
}

async fn begin(
    identity: Identity,
    ticket: Ticket,
    static_peers: Vec<String>,
    (model, rates): (ModelId, Fake),
) -> Result<(Swarm, mpsc::Receiver<SwarmEvent>, Engine)> {
    let joined = idlewild_swarm::join(&identity, &ticket).await.context("join the swarm")?;
    let config = SwarmConfig {
        identity,
        membership: joined.membership,
        boot: BootId(1),
        port: 0,
        listen: vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)],
        mdns: false,
        static_peers,
        address_book: None,
        interfaces: InterfaceFilter::default(),
        relay: RelayMode::default(),
        desk: None,
    };
    let (swarm, events) = idlewild_swarm::start(config).await.context("start the rogue's swarm")?;
    let (engine, _) = Engine::in_process(EngineConfig {
        program: "none".into(),
        arguments: Vec::new(),
        backend: Backend::Fake(FakeRates {
            prefill_tps: rates.prefill_tps,
            decode_tps: rates.decode_tps,
            load_ms: rates.load_ms,
        }),
        threads: 1,
        slots: SLOTS,
        context_tokens: CONTEXT_TOKENS,
        kv_tokens: KV_TOKENS,
        kv_type: KvType::default(),
    });
    let file = ModelFile {
        path: "fake".into(),
        id: model,
        verify: false,
        name: FAKE_MODEL.to_owned(),
        doubles_at: DoublesAt::default(),
    };
    engine.load(file).await.context("load the fake model")?;
    Ok((swarm, events, engine))
}
