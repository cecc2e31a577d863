//! The one task that owns view, election and coordinator: waits for what happens next, and hands it to the conversation
//! that it belongs to.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use idlewild_coordinator::election::{self, Election};
use idlewild_coordinator::view::View;
use idlewild_engine::{EngineNotice, EngineStats};
use idlewild_protocol::{DepartureCause, PeerId, Role};
use idlewild_swarm::{Identity, Swarm, SwarmEvent};
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Clock;
use super::catalogue::{Catalogue, Names};
use super::desk::{Ask, Readiness};
use super::digests::Digests;
use super::doctor::Doctor;
use super::links::Links;
use super::placements::Placements;
use super::planner::Planner;
use super::presence::Note;
use super::rules::Ruling;
use super::survival::OwnSurvival;
use super::tasks::{Done, Outcomes, Tasks};
use super::votes::Votes;
use super::watching::Look;
use crate::origin::{Departed, OriginNews, PlacementAsk, Records};
use crate::owner::notice::Notice;
use crate::owner::{OwnerReport, OwnerSource, SessionTracker};
use crate::store::{IdentitySeed, Store, StoredMembership};
use crate::worker::{Gate, Worker};

/// Between two rounds of housekeeping: expiry, links, ranks.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// Between two records of the loaded model's rates.
const RATES: Duration = Duration::from_mins(5);

/// What the driver publishes to the API.
pub(super) struct Published {
    pub(super) catalogue: watch::Sender<std::sync::Arc<Catalogue>>,
    pub(super) ready: watch::Sender<Readiness>,
}

/// Everything that one agent knows and decides with. Each conversation (see the folder) adds its methods.
pub(super) struct Driver {
    pub(super) me: PeerId,
    pub(super) role: Role,
    pub(super) clock: Clock,
    pub(super) api: SocketAddr,
    pub(super) identity: Identity,
    pub(super) seed: IdentitySeed,
    pub(super) membership: StoredMembership,
    pub(super) store: Store,
    pub(super) swarm: Swarm,
    pub(super) worker: Worker,
    pub(super) records: Records,
    pub(super) desk: Published,

    pub(super) view: View,
    pub(super) election: Election,
    pub(super) votes: Votes,
    pub(super) planner: Planner,
    pub(super) placements: Placements,
    pub(super) digests: Digests,
    pub(super) links: Links,
    pub(super) names: Names,
    pub(super) tracker: SessionTracker,
    pub(super) doctor: Doctor,
    pub(super) ruling: Ruling,
    pub(super) estimates: watch::Receiver<OwnSurvival>,

    pub(super) gate: watch::Sender<Gate>,
    pub(super) notes: mpsc::Sender<Note>,
    pub(super) departures: broadcast::Sender<Departed>,
    pub(super) tasks: Tasks,
    /// The model of requests that name none, where the settings have one.
    pub(super) default_model: Option<String>,
    pub(super) stop: CancellationToken,
    /// Why this agent goes down, once it does.
    pub(super) leaving: Option<DepartureCause>,
    /// How long it can still be reached then, in milliseconds.
    pub(super) notice_ms: u32,
    /// How long a context stays in memory for others once this machine is wanted back, in milliseconds.
    pub(super) grace_ms: u32,
    /// What the user should know, by heading.
    pub(super) warnings: BTreeMap<&'static str, String>,
    pub(super) next_housekeeping: Duration,
    pub(super) next_rates: Duration,
}

/// Where things happen.
pub(super) struct Inbox {
    pub(super) swarm: mpsc::Receiver<SwarmEvent>,
    pub(super) placements: mpsc::Receiver<PlacementAsk>,
    pub(super) news: mpsc::Receiver<OriginNews>,
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) owner: Box<dyn OwnerSource>,
    pub(super) looks: mpsc::Receiver<Look>,
    pub(super) system: mpsc::Receiver<Notice>,
    pub(super) notices: mpsc::Receiver<EngineNotice>,
    pub(super) engine: watch::Receiver<EngineStats>,
    pub(super) outcomes: Outcomes,
    pub(super) estimates: watch::Receiver<OwnSurvival>,
}

/// What happened next.
enum Happened {
    Swarm(Box<SwarmEvent>),
    Placement(PlacementAsk),
    /// Of a request of our own.
    News(OriginNews),
    Ask(Ask),
    Owner(OwnerReport),
    /// At the machine, for the rules.
    Look(Box<Look>),
    /// The machine sleeps, shuts down, or comes back.
    System(Notice),
    Engine(EngineNotice),
    Task(Done),
    /// The load, or the estimate of our own session, has changed.
    Changed,
    Timer,
    /// The swarm's event loop is no more.
    SwarmEnded,
}

impl Inbox {
    /// Waits for the next thing, but no longer than `patience`.
    async fn next(&mut self, patience: Duration) -> Happened {
        tokio::select! {
            biased;
            report = self.owner.next() => Happened::Owner(report),
            Some(notice) = self.system.recv() => Happened::System(notice),
            Some(look) = self.looks.recv() => Happened::Look(Box::new(look)),
            event = self.swarm.recv() => event.map_or(Happened::SwarmEnded, |event| Happened::Swarm(Box::new(event))),
            Some(ask) = self.placements.recv() => Happened::Placement(ask),
            Some(ask) = self.asks.recv() => Happened::Ask(ask),
            Some(news) = self.news.recv() => Happened::News(news),
            Some(notice) = self.notices.recv() => Happened::Engine(notice),
            done = self.outcomes.next() => Happened::Task(done),
            Ok(()) = self.engine.changed() => Happened::Changed,
            Ok(()) = self.estimates.changed() => Happened::Changed,
            () = tokio::time::sleep(patience) => Happened::Timer,
        }
    }
}

impl Driver {
    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Runs until it is told to stop or the swarm ends.
    pub(super) async fn run(&mut self, inbox: &mut Inbox) {
        let stop = self.stop.clone();
        self.refresh_models();
        self.speak();
        self.elect_among_live();
        loop {
            self.publish_readiness();
            let patience = self.patience();
            let Some(happened) = stop.run_until_cancelled(inbox.next(patience)).await else { return };
            self.notice_sleep();
            if matches!(happened, Happened::SwarmEnded) {
                tracing::error!("the swarm ended by itself; the agent stops");
                return;
            }
            self.handle(happened);
            self.keep_time();
        }
    }

    /// How long nothing needs to be done if nothing happens.
    fn patience(&self) -> Duration {
        let digest = self.digests.due(self.connected().len());
        let planner = self.planner.poll_timeout();
        let timers = [self.election.poll_timeout(), planner, Some(digest), Some(self.next_housekeeping)];
        let due = timers.into_iter().flatten().min().unwrap_or_default();
        due.saturating_sub(self.now())
    }

    fn handle(&mut self, happened: Happened) {
        match happened {
            Happened::Owner(report) => self.handle_owner(report),
            Happened::System(notice) => self.handle_notice_of_system(notice),
            Happened::Look(look) => self.handle_look(*look),
            Happened::Swarm(event) => self.handle_swarm(*event),
            Happened::Placement(ask) => self.handle_placement(ask),
            Happened::News(news) => self.handle_news(news),
            Happened::Ask(ask) => self.handle_ask(ask),
            Happened::Engine(notice) => self.handle_notice(notice),
            Happened::Task(Done::Probed(probed)) => self.handle_probed(probed),
            Happened::Task(Done::Reread(reply)) => self.handle_reread(reply),
            Happened::Task(Done::Kept(is_kept)) => self.handle_kept(is_kept),
            Happened::Changed => self.speak(),
            Happened::Timer | Happened::SwarmEnded => {}
        }
    }

    fn keep_time(&mut self) {
        let now = self.now();
        if self.election.poll_timeout().is_some_and(|due| due <= now) {
            self.elect(election::Input::Tick);
        }
        self.tick_planner();
        if self.next_housekeeping <= now {
            self.next_housekeeping = now + HOUSEKEEPING;
            self.keep_house();
        }
        if self.digests.due(self.connected().len()) <= now {
            self.speak();
        }
    }

    fn keep_house(&mut self) {
        let now = self.now();
        self.view.expire(now);
        self.worker.forget_strangers(|peer| self.view.peer(peer).is_some());
        self.measure_links();
        self.refresh_models();
        self.worker.models().refresh();
        self.elect_among_live();
        self.pass_time();
        if let Some(rates) = self.worker.rates().filter(|_| self.next_rates <= now) {
            self.next_rates = now + RATES;
            let store = self.store.clone();
            tokio::spawn(async move {
                if let Err(error) = store.record_rate(rates).await {
                    warn!(%error, "a model's rates are not recorded");
                }
            });
        }
    }

    fn handle_notice(&mut self, notice: EngineNotice) {
        match notice {
            EngineNotice::Exited { pid, how, restart_in } => {
                warn!(?pid, how, ?restart_in, "the engine died");
                self.warn_user("engine", Some(format!("the engine died ({how})")));
            }
            EngineNotice::Restarted { pid } => {
                info!(?pid, "the engine runs again");
                self.warn_user("engine", None);
            }
            EngineNotice::GaveUp => {
                warn!("the engine died too often; it is started again when next needed");
                self.warn_user("engine", Some("the engine died too often in a row and is not running".to_owned()));
            }
        }
        self.speak();
    }
}
