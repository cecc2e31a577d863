//! The start: everything that can fail with words for the user, then the local API, then the swarm.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use idlewild_coordinator::election::Election;
use idlewild_coordinator::view::View;
use idlewild_engine::{
    Backend as EngineBackend, Engine, EngineConfig, EngineNotice, FakeRates, KvType as EngineKvType,
};
use idlewild_protocol::{BootId, ModelId, ModelInfo, PeerId, Role};
use idlewild_swarm::{Identity, InterfaceFilter, Membership, RelayMode, Swarm, SwarmConfig, SwarmEvent};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::catalogue::Names;
use super::desk::{Desk, DeskBack};
use super::digests::Digests;
use super::doctor::Doctor;
use super::event_loop::{Driver, Inbox, Published};
use super::links::Links;
use super::planner::Planner;
use super::presence::start_writer;
use super::rules::Ruling;
use super::survival::Prior;
use super::tasks::tasks;
use super::tickets::Tickets;
use super::votes::Votes;
use super::{Clock, RunError, watching};
use crate::api::{self, Api, ApiKey, Hosts};
use crate::config::{Backend, Config, KvType, Paths, Relay, Sources};
use crate::models::ModelStore;
use crate::origin::{
    Coordinating, Departed, MeasuredOverheads, OpenRequests, OriginNews, Origins, PlacementAsk, Placer, Records,
    Reports, Shell, Submission, Workers,
};
use crate::owner::notice::{self, Notice};
use crate::owner::{Hearing, OwnerSource, SessionLog, SessionTracker, owner_source};
use crate::store::{
    DataLock, IdentitySeed, Running, Store, StoredMembership, load_or_create_api_key, load_or_create_identity,
    load_or_found_membership, machine_boot, read_standing_orders, unix_s, write_running,
};
use crate::worker::{Gate, Guess, MemoryRoom, ModelSource, OneModel, StoredModels, Worker};

/// The fake engine's model: the same on every peer, no file.
pub const FAKE_MODEL: ModelId = ModelId(*b"idlewild fake model, not a file!");

/// Departures that a pump may be behind with before it loses some (the stream's own end tells them too).
const DEPARTURES: usize = 64;

/// Words of the system that may wait: it sleeps and wakes a few times a day.
const SYSTEM_NOTICES: usize = 8;

/// Rates are measured anew after a load: what the first minute says is worth keeping.
const FIRST_RATES: Duration = Duration::from_mins(1);

/// Where the engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnginePlace {
    /// In a child process of this program.
    Child,
    /// On a thread, for tests.
    Thread,
}

/// What an agent is started with.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Every setting.
    pub config: Config,
    /// Where they come from, so that changes are noticed; none where nothing is to be read anew.
    pub sources: Option<Sources>,
    /// Where its files are.
    pub paths: Paths,
    /// Where the engine runs.
    pub engine: EnginePlace,
}

/// What is on disk, taken at the start.
pub(super) struct OnDisk {
    _lock: DataLock,
    pub(super) seed: IdentitySeed,
    pub(super) membership: StoredMembership,
    pub(super) role: Role,
    pub(super) store: Store,
    pub(super) boot: BootId,
    models: Arc<dyn ModelSource>,
    key: ApiKey,
}

impl OnDisk {
    /// Takes it, or says what is wrong with it.
    pub(super) async fn take(launch: &Launch) -> Result<(Self, Box<dyn OwnerSource>), RunError> {
        let (paths, config) = (&launch.paths, &launch.config);
        paths.create()?;
        let lock = DataLock::take(paths)?;
        let seed = load_or_create_identity(paths)?;
        let now_s = unix_s();
        let membership = load_or_found_membership(paths, &seed, now_s)?;
        let role = membership.role(seed.peer(), now_s)?;
        let key = ApiKey::new(&load_or_create_api_key(paths)?)?;
        let store = Store::open(&paths.database_file())?;
        let boot = store.begin_boot(now_s, machine_boot()).await?.id;
        let models = models_of(config, paths)?;
        let owner = owner_source(&config.owner, paths, Hearing::Lookouts)?;
        Ok((Self { _lock: lock, seed, membership, role, store, boot, models, key }, owner))
    }
}

fn models_of(config: &Config, paths: &Paths) -> Result<Arc<dyn ModelSource>, RunError> {
    if config.engine.backend == Backend::Fake {
        let context_tokens = config.engine.context_tokens;
        let fake = ModelInfo { id: FAKE_MODEL, name: "fake".to_owned(), size_bytes: 0, context_tokens };
        return Ok(Arc::new(OneModel(fake)));
    }
    let store = ModelStore::open(config.models_dir(paths))?;
    match store.clear_leftovers() {
        Ok(0) => {}
        Ok(files) => info!(files, "removed what killed imports had left"),
        Err(error) => warn!(%error, "what killed imports may have left stays"),
    }
    Ok(Arc::new(StoredModels::new(store)))
}

/// The API, which serves before anything else does.
pub(super) struct Served {
    pub(super) address: SocketAddr,
    pub(super) task: JoinHandle<std::io::Result<()>>,
    desk: DeskBack,
    submissions: mpsc::Receiver<Submission>,
    pub(super) records: Records,
    catalogue: watch::Receiver<Arc<super::Catalogue>>,
}

/// Binds and serves.
pub(super) async fn serve_api(launch: &Launch, disk: &OnDisk, stop: CancellationToken) -> Result<Served, RunError> {
    let settings = &launch.config.api;
    let wanted = SocketAddr::new(settings.address, settings.port);
    let refused = |source| RunError::api(wanted, source);
    let listener = TcpListener::bind(wanted).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let (origins, submissions) = Origins::channel(settings.max_requests as usize);
    let records = Records::new(Some(disk.store.clone()));
    let (desk, back) = Desk::pair(records.clone());
    let catalogue = desk.watch_catalogue();
    let api = Api {
        key: disk.key.clone(),
        hosts: Hosts::new(settings.address, []),
        origins,
        desk,
        max_body_bytes: settings.max_body_bytes as usize,
        default_model: default_model(&launch.config),
    };
    let task = tokio::spawn(api::serve(listener, api, async move { stop.cancelled().await }));
    let running = Running { pid: std::process::id(), api: address, started_s: unix_s(), version: version() };
    write_running(&launch.paths, &running)?;
    Ok(Served { address, task, desk: back, submissions, records, catalogue })
}

fn default_model(config: &Config) -> Option<String> {
    Some(config.models.default.trim().to_owned()).filter(|name| !name.is_empty())
}

fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// The swarm, with whom to trade tickets.
pub(super) async fn start_swarm(
    launch: &Launch,
    disk: &OnDisk,
) -> Result<(Swarm, mpsc::Receiver<SwarmEvent>), RunError> {
    let settings = &launch.config.swarm;
    let tickets = Tickets { store: disk.store.clone(), membership: disk.membership.clone(), seed: disk.seed.clone() };
    // Where this peer was invited from is where it finds the swarm, whatever the network's multicast does.
    let static_peers = settings.peers.iter().chain(&disk.membership.addresses).cloned().collect();
    let config = SwarmConfig {
        identity: Identity::from_seed(disk.seed.seed()),
        membership: Membership { swarm: disk.membership.swarm, chain: disk.membership.chain.clone() },
        boot: disk.boot,
        port: settings.port,
        listen: settings.listen.clone(),
        mdns: settings.mdns,
        static_peers,
        address_book: Some(launch.paths.address_book_file()),
        interfaces: InterfaceFilter {
            skip: settings.skip_interfaces.clone(),
            only: settings.only_interfaces.clone(),
            tunnels: settings.tunnels,
        },
        relay: match settings.relay {
            Relay::Auto => RelayMode::Auto,
            Relay::Always => RelayMode::Always,
            Relay::Never => RelayMode::Never,
        },
        desk: Some(Arc::new(tickets)),
    };
    Ok(idlewild_swarm::start(config).await?)
}

fn start_engine(launch: &Launch) -> Result<(Engine, mpsc::Receiver<EngineNotice>, Guess), RunError> {
    let settings = &launch.config.engine;
    let rates = FakeRates {
        prefill_tps: settings.fake_prefill_tps,
        decode_tps: settings.fake_decode_tps,
        load_ms: settings.fake_load_ms,
    };
    let (backend, guessed) = match settings.backend {
        Backend::Llama => (EngineBackend::Llama, None),
        Backend::Fake => (EngineBackend::Fake(rates), Some((rates.decode_tps, rates.prefill_tps))),
    };
    let program = std::env::current_exe().map_err(RunError::OwnProgram)?;
    let share = (!settings.yield_to_all).then_some("--share");
    let config = EngineConfig {
        program,
        arguments: ["engine"].into_iter().chain(share).map(str::to_owned).collect(),
        backend,
        threads: settings.threads,
        slots: settings.slots,
        context_tokens: settings.context_tokens,
        kv_tokens: settings.kv_tokens,
        kv_type: match settings.kv_type {
            KvType::F16 => EngineKvType::F16,
            KvType::Q8 => EngineKvType::Q8,
        },
    };
    let guess = Guess {
        rates: guessed,
        context_tokens: settings.context_tokens,
        kv_tokens: settings.kv_tokens.max(settings.context_tokens),
        slots: settings.slots,
    };
    let (engine, notices) = match launch.engine {
        EnginePlace::Child => Engine::start(config),
        EnginePlace::Thread => Engine::in_process(config),
    };
    Ok((engine, notices, guess))
}

async fn start_worker(
    launch: &Launch,
    models_and_room: (Arc<dyn ModelSource>, Arc<dyn MemoryRoom>),
    (gate, store): (watch::Receiver<Gate>, &Store),
    swarm: Swarm,
) -> Result<(Worker, mpsc::Receiver<EngineNotice>), RunError> {
    let (engine, notices, guess) = start_engine(launch)?;
    let idle_stop = Duration::from_secs(u64::from(launch.config.engine.idle_stop_s));
    let rates = store.rates().await?;
    Ok((Worker::start(engine, models_and_room, (gate, idle_stop), (guess, &rates), swarm), notices))
}

fn prior(launch: &Launch) -> Prior {
    Prior::of(launch.config.owner.source)
}

/// An agent that is ready to run.
pub(super) struct Assembled {
    pub(super) driver: Driver,
    pub(super) inbox: Inbox,
    /// Owns the requests; ends when the agent stops.
    pub(super) origins: JoinHandle<()>,
    /// Writes sessions down; ends with the driver.
    pub(super) writer: JoinHandle<()>,
    pub(super) api: JoinHandle<std::io::Result<()>>,
}

/// Requests and the driver, joined.
struct Joined {
    coordinating: Coordinating,
    planner: Planner,
    placements: mpsc::Receiver<PlacementAsk>,
    news: mpsc::Receiver<OriginNews>,
    departures: broadcast::Sender<Departed>,
}

fn join_requests(me: PeerId) -> Joined {
    let (placer, placements) = Placer::channel();
    let (reports, news) = Reports::channel();
    let open = OpenRequests::default();
    let overheads = MeasuredOverheads::default();
    let planner = Planner::new(me, open.clone(), overheads.clone());
    let (departures, _) = broadcast::channel(DEPARTURES);
    let coordinating = Coordinating { placer, open, reports, overheads };
    Joined { coordinating, planner, placements, news, departures }
}

/// What the owner's rules go by.
struct Watched {
    ruling: Ruling,
    room: Arc<dyn MemoryRoom>,
    looks: mpsc::Receiver<watching::Look>,
    system: mpsc::Receiver<Notice>,
}

fn watch_the_machine(launch: &Launch) -> Watched {
    let (settings, rules) = watch::channel(launch.config.rules.clone());
    let orders = watching::start_keeping(launch.paths.clone());
    let (notices, system) = mpsc::channel(SYSTEM_NOTICES);
    notice::listen(Duration::from_millis(u64::from(launch.config.owner.grace_ms)), notices);
    Watched {
        ruling: Ruling::new(settings, read_standing_orders(&launch.paths), orders),
        room: watching::room(launch, rules.clone()),
        looks: watching::start(launch, rules),
        system,
    }
}

/// Puts the parts together: `stop` ends requests and the loop, in that order of being noticed.
pub(super) async fn assemble(
    launch: &Launch,
    disk: OnDisk,
    served: Served,
    (swarm, events): (Swarm, mpsc::Receiver<SwarmEvent>),
    (owner, stop): (Box<dyn OwnerSource>, CancellationToken),
) -> Result<(Assembled, DataLock), RunError> {
    let clock = Clock::start();
    let me = swarm.me();
    let OnDisk { _lock: lock, seed, membership, role, store, boot, models, key: _ } = disk;
    let (gate, gate_seen) = watch::channel(Gate::UNKNOWN);
    let Watched { ruling, room, looks, system } = watch_the_machine(launch);
    let (worker, notices) = start_worker(launch, (models, room), (gate_seen, &store), swarm.clone()).await?;
    let Joined { coordinating, planner, placements, news, departures } = join_requests(me);
    let workers = Workers::new(worker.clone(), swarm.clone(), departures.clone());
    let shell = Shell::new((me, clock), coordinating, workers, served.records.clone(), served.catalogue, stop.clone());
    let origins = tokio::spawn(shell.dispatch(served.submissions));
    let (notes, estimates, writer) = start_writer(SessionLog::new(store.clone(), boot), store.clone(), prior(launch));
    let (tasks, outcomes) = tasks();
    let DeskBack { asks, catalogue, ready } = served.desk;
    let doctor = Doctor::new(&launch.config, &*owner);
    let inbox = Inbox {
        swarm: events,
        placements,
        news,
        asks,
        owner,
        looks,
        system,
        notices,
        engine: worker.watch_engine(),
        outcomes,
        estimates: estimates.clone(),
    };
    let (election, links) = recall(&store, me).await?;
    let driver = Driver {
        me,
        role,
        clock,
        api: served.address,
        identity: Identity::from_seed(seed.seed()),
        seed,
        membership,
        store,
        worker,
        records: served.records,
        desk: Published { catalogue, ready },
        view: View::new(me),
        election,
        votes: Votes::default(),
        planner,
        placements: super::placements::Placements::default(),
        digests: Digests::new(me, boot),
        links,
        names: Names::new(me),
        tracker: SessionTracker::default(),
        doctor,
        ruling,
        estimates,
        gate,
        notes,
        departures,
        tasks,
        default_model: default_model(&launch.config),
        stop,
        leaving: None,
        notice_ms: 0,
        grace_ms: launch.config.owner.grace_ms,
        warnings: BTreeMap::new(),
        next_housekeeping: Duration::ZERO,
        next_rates: FIRST_RATES,
        swarm,
    };
    Ok((Assembled { driver, inbox, origins, writer, api: served.task }, lock))
}

/// What the last run knew.
async fn recall(store: &Store, me: PeerId) -> Result<(Election, Links), RunError> {
    let (term, voted_for) = store.election().await?;
    Ok((Election::new(me, term, voted_for, rand::random()), Links::new(store.links().await?)))
}
