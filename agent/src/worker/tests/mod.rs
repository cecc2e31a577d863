//! Jobs over engines (the fake model, on a thread) and swarms on loopback, with an origin that the test plays word by word.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use idlewild_engine::{Backend, Engine, EngineConfig, FakeRates};
use idlewild_protocol::{
    BootId, DepartureCause, Epoch, JobEvent, JobFailure, JobInput, JobRequest, JobStart, ModelInfo, PeerId, Pull,
    PullPart, RequestId, Sampling, TokenId,
};
use idlewild_swarm::{
    Founded, Identity, InterfaceFilter, Membership, RelayMode, SwarmConfig, SwarmEvent, found_swarm, issue_member,
    start,
};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::fake::MODEL;
use super::*;
use crate::store::unix_s;

mod floods;
mod patience;
mod pulls;
mod successors;

/// For things that take milliseconds on an idle machine; these tests run on busy ones.
const SOON: Duration = Duration::from_secs(30);

const HOUR: Duration = Duration::from_hours(1);

/// More than any test reads, so that no answer ends by itself.
const TOKENS: u32 = 400;

/// Ten tokens take it minutes.
const UNABLE_TO_PREFILL: FakeRates = FakeRates { prefill_tps: 0.05, decode_tps: 0.0, load_ms: 0 };

/// As fast as a small model.
const STEADY: FakeRates = FakeRates { prefill_tps: 0.0, decode_tps: 100.0, load_ms: 0 };

/// A swarm that somebody founded.
struct World {
    founder: Identity,
    founded: Founded,
}

impl World {
    fn new() -> Self {
        let founder = Identity::generate();
        let founded = found_swarm(founder.peer_id(), unix_s() + 3600);
        Self { founder, founded }
    }

    fn membership_of(&self, peer: PeerId) -> Membership {
        let Membership { swarm, .. } = self.founded.membership;
        let chain = issue_member(&self.founder, &self.founded.membership, peer, unix_s() + 600, unix_s()).unwrap();
        Membership { swarm, chain }
    }
}

/// What a peer is like.
struct Nature {
    rates: FakeRates,
    slots: u16,
    patience: Patience,
    gives: Gives,
}

/// How a peer treats those who pull contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gives {
    /// As all do.
    Well,
    /// It takes the stream and says nothing.
    Nothing,
    /// It takes so long for each chunk.
    Slowly(Duration),
}

const ABLE: Nature =
    Nature { rates: STEADY, slots: 2, patience: Patience { last_feed: HOUR, parked: HOUR }, gives: Gives::Well };

/// Memory without bounds.
#[derive(Debug)]
struct AnyRoom;

impl MemoryRoom for AnyRoom {
    fn free_bytes(&self) -> Option<FreeRoom> {
        None
    }
}

/// A peer that works. Dropping it ends it.
struct Peer {
    worker: Worker,
    swarm: Swarm,
    /// Streams on which contexts were asked for here.
    pulled_by: watch::Receiver<u32>,
    gate: watch::Sender<Gate>,
    _serving: AbortOnDropHandle<()>,
}

impl Peer {
    /// A peer that is connected to `knows`.
    async fn start(world: &World, nature: Nature, knows: &[&Self]) -> Self {
        let identity = Identity::generate();
        let config = SwarmConfig {
            membership: world.membership_of(identity.peer_id()),
            identity,
            boot: BootId(1),
            port: 0,
            listen: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            mdns: false,
            static_peers: knows.iter().flat_map(|peer| peer.swarm.listeners()).collect(),
            address_book: None,
            interfaces: InterfaceFilter::default(),
            relay: RelayMode::default(),
            desk: None,
        };
        let (swarm, events) = start(config).await.unwrap();
        eventually("it listens", || swarm.listeners().len() == 2).await;
        let (engine, _) = Engine::in_process(EngineConfig {
            backend: Backend::Fake(nature.rates),
            slots: nature.slots,
            context_tokens: 2048,
            kv_tokens: 4096,
            ..fake::config()
        });
        let models: Arc<dyn ModelSource> =
            Arc::new(OneModel(ModelInfo { id: MODEL, name: "fake".to_owned(), size_bytes: 0, context_tokens: 2048 }));
        let (gate, gate_seen) = watch::channel(Gate::Open);
        let guess = Guess { rates: None, context_tokens: 2048, kv_tokens: 4096, slots: nature.slots };
        let worker = Worker::start(
            engine,
            (models, Arc::new(AnyRoom)),
            (gate_seen, Duration::ZERO),
            (guess, &[]),
            swarm.clone(),
        );
        let worker = Worker { patience: nature.patience, ..worker };
        let (pulls, pulled_by) = watch::channel(0);
        let serving = tokio::spawn(serve(worker.clone(), events, nature.gives, pulls));
        let peer = Self { worker, swarm, pulled_by, gate, _serving: AbortOnDropHandle::new(serving) };
        for other in knows {
            eventually("they are connected", || peer.is_linked_to(other) && other.is_linked_to(&peer)).await;
        }
        peer
    }

    fn id(&self) -> PeerId {
        self.swarm.me()
    }

    fn is_linked_to(&self, other: &Self) -> bool {
        self.swarm.peers().iter().any(|link| link.peer == other.id() && link.has_bulk)
    }

    /// Runs a job of its own.
    fn runs(&self, start: JobStart) -> OriginEnd {
        let (origin, worker) = local_line(self.id());
        self.worker.take(worker, start, Part::Worker);
        origin
    }

    /// As an origin, has another one run a job.
    async fn has_run(&self, other: &Self, start: JobStart) -> OriginEnd {
        OriginEnd::Remote(Box::new(self.swarm.open_job(other.id(), start).await.unwrap()))
    }

    /// As an origin, has another one prepare.
    async fn has_prepared(&self, other: &Self, start: JobStart) -> OriginEnd {
        OriginEnd::Remote(Box::new(self.swarm.open_prepare(other.id(), start).await.unwrap()))
    }

    /// Waits until its engine's stats are so.
    async fn until(&self, what: &str, is_so: impl FnMut(&EngineStats) -> bool) {
        let mut stats = self.worker.watch_engine();
        let reached = timeout(SOON, stats.wait_for(is_so)).await.is_ok_and(|reached| reached.is_ok());
        assert!(reached, "waited in vain until {what}: {:?}", self.worker.engine());
    }
}

/// What the driver does with what comes from other peers.
async fn serve(worker: Worker, mut events: mpsc::Receiver<SwarmEvent>, gives: Gives, pulls: watch::Sender<u32>) {
    let mut waiting = Vec::new();
    while let Some(event) = events.recv().await {
        if let SwarmEvent::Job { job, start } = event {
            worker.take(WorkerEnd::Remote(job), *start, Part::Worker);
        } else if let SwarmEvent::Prepare { job, start } = event {
            worker.take(WorkerEnd::Remote(job), *start, Part::Standby);
        } else if let SwarmEvent::Context { context, open } = event {
            pulls.send_modify(|count| *count += 1);
            match gives {
                Gives::Well => worker.give(context, open),
                Gives::Nothing => waiting.push(context),
                Gives::Slowly(pause) => drop(tokio::spawn(give_slowly(worker.contexts.clone(), context, open, pause))),
            }
        }
    }
}

/// Answers pull after pull, each as late as that.
async fn give_slowly(contexts: Contexts, mut context: ContextServer, open: ContextOpen, pause: Duration) {
    let held = contexts.find(context.peer(), &open).await.unwrap();
    while let Ok(range) = context.next().await {
        tokio::time::sleep(pause).await;
        let Ok(bytes) = held.handle.export(range.from, range.to).await else { return };
        if context.send(bytes).await.is_err() {
            return;
        }
    }
}

async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Request `number`, to be answered from here on.
fn job(number: u8, epoch: u32, input: JobInput, pull: Option<Pull>) -> JobStart {
    JobStart {
        request: RequestId([number; 16]),
        epoch: Epoch(epoch),
        model: MODEL,
        input,
        sampling: Sampling::default(),
        max_tokens: TOKENS,
        stop: Vec::new(),
        pull,
    }
}

fn words(count: usize) -> JobInput {
    JobInput::Text { prompt: vec!["w"; count].join(" ") }
}

fn ids(prompt: &[TokenId], generated: &[TokenId]) -> JobInput {
    JobInput::Tokens { prompt: prompt.to_vec(), generated: generated.to_vec() }
}

fn whole_from(holder: &Peer) -> Pull {
    Pull { holder: holder.id(), part: PullPart::Whole }
}

async fn say(end: &mut OriginEnd, word: JobRequest) {
    end.send(word).await.unwrap();
}

/// The first event that is `wanted`.
async fn hear<T>(what: &str, end: &mut OriginEnd, mut wanted: impl FnMut(&JobEvent) -> Option<T>) -> T {
    loop {
        let event = timeout(SOON, end.next()).await.unwrap_or_else(|_| panic!("waited in vain for {what}"));
        let event = event.unwrap_or_else(|_| panic!("the job was gone before {what}"));
        if let Some(found) = wanted(&event) {
            return found;
        }
        assert!(!matches!(event, JobEvent::Failed { .. } | JobEvent::Finished { .. }), "{event:?} before {what}");
    }
}

async fn prompt_of(end: &mut OriginEnd) -> Vec<TokenId> {
    let accepted =
        |event: &JobEvent| if let JobEvent::Accepted { prompt, .. } = event { Some(prompt.clone()) } else { None };
    hear("its acceptance", end, accepted).await
}

/// The next tokens, which begin at `from_index`.
async fn tokens(end: &mut OriginEnd, from_index: u32, count: u32) -> Vec<TokenId> {
    let mut drawn = Vec::new();
    for expected in from_index..from_index + count {
        let token =
            |event: &JobEvent| if let JobEvent::Token { index, id, .. } = event { Some((*index, *id)) } else { None };
        let (index, id) = hear("a token", end, token).await;
        assert_eq!(index, expected);
        drawn.push(id);
    }
    drawn
}

async fn failure_of(end: &mut OriginEnd) -> JobFailure {
    let failed =
        |event: &JobEvent| if let JobEvent::Failed { failure, .. } = event { Some(failure.clone()) } else { None };
    hear("a failure", end, failed).await
}

/// Until a standby holds so many tokens; how many of them were pulled.
async fn until_held(end: &mut OriginEnd, wanted: u32) -> u32 {
    let held = |event: &JobEvent| {
        if let JobEvent::Held { tokens, pulled_tokens, .. } = event {
            (*tokens >= wanted).then_some(*pulled_tokens)
        } else {
            None
        }
    };
    hear("what it holds", end, held).await
}
