//! The owner's rules and the machine's own departures, as blocks of the session: what holds, since when, and what is said of
//! it.

use std::collections::BTreeMap;
use std::time::Duration;

use idlewild_coordinator::election;
use idlewild_protocol::{ControlMessage, DepartureCause};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::Driver;
use super::watching::{Kept, Look, OrdersOut};
use crate::api::wire::{RuleReply, RulesReply, StandingWord};
use crate::config::{Reloaded, RuleSettings};
use crate::owner::conditions::{Conditions, Power};
use crate::owner::notice::Notice;
use crate::owner::rules::{Block, Pause, Rule, Seen, Standing, Suspensions, Verdict, decide, wall_clock};
use crate::owner::{OwnerReport, OwnerState, SessionInput};
use crate::store::StandingOrders;
use crate::worker::Gate;

/// Headings of what the user should know about settings.
const BROKEN_SETTINGS: &str = "settings";
const WAITING_SETTINGS: &str = "settings at the next start";

/// How long it takes at most until what was said is on the wire: the swarm's own threads send it.
const ON_THE_WIRE: Duration = Duration::from_millis(100);

/// Between two records of what was exchanged.
const RECORD_EVERY: Duration = Duration::from_mins(5);

/// What the driver knows of the rules.
pub(super) struct Ruling {
    settings: watch::Sender<RuleSettings>,
    seen: Seen,
    /// Before the first look no session begins: the machine may be on battery.
    has_looked: bool,
    /// By NetworkManager.
    metered: Option<bool>,
    suspensions: Suspensions,
    verdict: Verdict,
    /// What forbids, as the session was told.
    blocks: BTreeMap<DepartureCause, Block>,
    /// The machine is about to sleep or shut down, and how long it can still be reached, in milliseconds.
    pub(super) departing: Option<(DepartureCause, u32)>,
    transfer: Transfer,
    orders: OrdersOut,
}

/// What was exchanged today.
#[derive(Debug, Default)]
struct Transfer {
    day: i64,
    /// By the counters, when last looked at.
    counted_bytes: u64,
    next_record: Duration,
}

impl Ruling {
    /// With what an earlier run has kept.
    pub(super) fn new(settings: watch::Sender<RuleSettings>, kept: StandingOrders, orders: OrdersOut) -> Self {
        let seen = Seen {
            pause: kept.pause,
            is_owner_there: true,
            transferred_bytes: kept.transferred_bytes,
            ..Seen::default()
        };
        Self {
            settings,
            seen,
            has_looked: false,
            metered: None,
            suspensions: Suspensions::default(),
            verdict: Verdict::default(),
            blocks: BTreeMap::new(),
            departing: None,
            transfer: Transfer { day: kept.day, ..Transfer::default() },
            orders,
        }
    }

    fn standing_orders(&self) -> StandingOrders {
        let Seen { pause, transferred_bytes, .. } = self.seen;
        StandingOrders { pause, day: self.transfer.day, transferred_bytes }
    }

    /// Whether the machine runs on mains, by the last look.
    pub(super) fn is_on_mains(&self) -> Option<bool> {
        self.seen.conditions.power.map(|power| power == Power::Mains)
    }

    /// The rules that are in force and cannot be told: what they are about is not seen here.
    pub(super) fn unseen(&self) -> Vec<Rule> {
        let unseen = self.verdict.findings.iter().filter(|finding| finding.standing == Standing::Unknown);
        unseen.map(|finding| finding.rule).collect()
    }

    /// What was exchanged since the last look, on the day that it is.
    fn count(&mut self, all_bytes: u64, today: i64) {
        if self.transfer.day != today {
            self.transfer.day = today;
            self.seen.transferred_bytes = 0;
        }
        let more = all_bytes.saturating_sub(self.transfer.counted_bytes);
        self.transfer.counted_bytes = all_bytes;
        self.seen.transferred_bytes = self.seen.transferred_bytes.saturating_add(more);
    }

    fn record_now_and_then(&mut self, now: Duration) {
        // Without a limit nothing needs to be remembered.
        if self.settings.borrow().transfer_mb_per_day > 0 && self.transfer.next_record <= now {
            self.transfer.next_record = now + RECORD_EVERY;
            // Where the disk is that slow the next record has it all.
            self.orders.try_send((self.standing_orders(), None)).ok();
        }
    }
}

impl Driver {
    /// The owner comes or goes. Rules are asked in an order in which no session begins beside one that forbids, and in which
    /// one that the owner's return ends has ended of that.
    pub(super) fn handle_owner(&mut self, report: OwnerReport) {
        info!(state = ?report.state, reason = report.reason, "owner");
        let is_there = !matches!(report.state, OwnerState::Away { .. });
        self.ruling.seen.is_owner_there = is_there;
        if is_there {
            self.change_session(SessionInput::Owner(report), self.grace_ms);
            self.apply_rules();
        } else {
            self.apply_rules();
            self.change_session(SessionInput::Owner(report), self.grace_ms);
        }
    }

    pub(super) fn handle_look(&mut self, look: Look) {
        if let Some(reloaded) = look.reloaded {
            self.handle_reloaded(reloaded);
        }
        self.worker.has_room(look.room);
        let had_address = self.ruling.seen.conditions.has_address;
        let has_address = look.conditions.has_address;
        self.ruling.has_looked = true;
        self.ruling.seen.conditions = Conditions { metered: self.ruling.metered, ..look.conditions };
        let (traffic, now) = (self.swarm.traffic(), self.now());
        let all_bytes = traffic.control_sent_bytes + traffic.control_received_bytes + self.worker.moved_bytes();
        self.ruling.count(all_bytes, wall_clock().day);
        self.ruling.record_now_and_then(now);
        self.apply_rules();
        if (had_address, has_address) == (Some(true), Some(false)) {
            self.leave_the_network();
        }
    }

    fn handle_reloaded(&mut self, reloaded: Reloaded) {
        match reloaded {
            Reloaded::Changed { config, waiting } => {
                self.doctor.take_idle_delay(config.owner.idle_delay_s);
                self.ruling.settings.send_if_modified(|rules| std::mem::replace(rules, config.rules.clone()) != *rules);
                let names: Vec<String> = waiting.iter().map(|key| format!("{}.{}", key.section, key.name)).collect();
                info!(waiting = names.join(", "), "config.toml has changed");
                self.warn_user(BROKEN_SETTINGS, None);
                let text = format!("changed in config.toml, counts from the next start on: {}", names.join(", "));
                self.warn_user(WAITING_SETTINGS, (!names.is_empty()).then_some(text));
            }
            Reloaded::Broken(error) => {
                warn!(%error, "config.toml has changed and cannot be used; the settings in force stay");
                self.warn_user(BROKEN_SETTINGS, Some(format!("{error} (the settings before stay in force)")));
            }
        }
    }

    /// Asks the rules, and has the session follow.
    fn apply_rules(&mut self) {
        let verdict = decide(&self.ruling.seen, &self.ruling.settings.borrow(), wall_clock());
        let now = self.now();
        self.ruling.suspensions.update(now, &verdict);
        self.ruling.verdict = verdict;
        let mut blocks = self.ruling.suspensions.blocks();
        if !self.ruling.has_looked {
            let reason = "this machine is being looked at for the first time".to_owned();
            blocks.entry(DepartureCause::Rule).or_insert(Block { reason, is_at_once: false });
        }
        let before = std::mem::replace(&mut self.ruling.blocks, blocks.clone());
        for (cause, block) in &blocks {
            if !before.contains_key(cause) {
                info!(?cause, reason = block.reason, "the rules forbid work");
            }
            if before.get(cause) != Some(block) {
                let notice_ms = if block.is_at_once { 0 } else { self.grace_ms };
                self.change_session(SessionInput::Blocked { cause: *cause, reason: block.reason.clone() }, notice_ms);
            }
        }
        if blocks.values().any(|block| block.is_at_once) {
            self.want_memory_at_once();
        }
        for cause in before.into_keys().filter(|cause| !blocks.contains_key(cause)) {
            info!(?cause, "the rules no longer forbid work");
            self.change_session(SessionInput::Unblocked { cause }, self.grace_ms);
        }
    }

    /// A grace that runs is over.
    fn want_memory_at_once(&self) {
        self.gate.send_if_modified(|gate| match gate {
            Gate::Shut { notice_ms, .. } => std::mem::take(notice_ms) > 0,
            Gate::Open => false,
        });
    }

    /// Others can no longer be reached: for them this session has ended. What this machine does for itself goes on, and so
    /// the next session begins at once.
    fn leave_the_network(&mut self) {
        if !self.tracker.is_serving() {
            return;
        }
        let cause = DepartureCause::Network;
        let reason = "this machine has no address any more".to_owned();
        self.change_session(SessionInput::Blocked { cause, reason }, self.grace_ms);
        self.change_session(SessionInput::Unblocked { cause }, self.grace_ms);
    }

    pub(super) fn handle_notice_of_system(&mut self, notice: Notice) {
        match notice {
            Notice::Leave { cause, notice, said } => self.depart(cause, notice, said),
            Notice::Back { cause } => self.come_back(cause),
            Notice::Metered(is_metered) => {
                self.ruling.metered = is_metered;
                self.ruling.seen.conditions.metered = is_metered;
                self.apply_rules();
            }
        }
    }

    /// The machine sleeps, or shuts down: everybody is told before it may go.
    fn depart(&mut self, cause: DepartureCause, notice: Duration, said: oneshot::Sender<()>) {
        let notice_ms = u32::try_from(notice.as_millis()).unwrap_or(u32::MAX);
        info!(?cause, notice_ms, "this machine is about to leave");
        self.ruling.departing = Some((cause, notice_ms));
        let does = if cause == DepartureCause::Sleep { "goes to sleep" } else { "shuts down" };
        let reason = format!("this machine {does}");
        self.change_session(SessionInput::Blocked { cause, reason }, notice_ms);
        self.speak();
        let peers = self.connected();
        self.tell(&peers, &ControlMessage::Goodbye { cause, notice_ms });
        self.elect(election::Input::Leaving);
        let mut jobs = self.worker.watch_jobs();
        tokio::spawn(async move {
            // What runs here is taken over from here as long as it may; without any there is nothing to wait for.
            timeout(notice, jobs.wait_for(|running| *running == 0)).await.ok();
            sleep(ON_THE_WIRE).await;
            // Whoever waited may have given up.
            said.send(()).ok();
        });
    }

    fn come_back(&mut self, cause: DepartureCause) {
        info!(?cause, "this machine is back");
        self.ruling.departing = self.ruling.departing.filter(|(departing, _)| *departing != cause);
        self.elect(election::Input::Staying);
        self.change_session(SessionInput::Unblocked { cause }, self.grace_ms);
        self.speak();
    }

    /// The owner's own word: counts at once, and is answered once it is on the disk.
    pub(super) fn handle_pause(&mut self, pause: Pause, reply: Kept) {
        info!(?pause, "the owner's word");
        self.ruling.seen.pause = pause;
        self.apply_rules();
        if let Err(refused) = self.ruling.orders.try_send((self.ruling.standing_orders(), Some(reply))) {
            let (_, waiting) = refused.into_inner();
            if let Some(waiting) = waiting {
                waiting.send(Err("the disk does not keep up".to_owned())).ok();
            }
        }
    }

    /// What `idlewild rules` shows.
    pub(super) fn rules(&self) -> RulesReply {
        let first = self.ruling.suspensions.first();
        let is_serving = self.tracker.is_serving();
        let decides = match (self.ruling.departing, first) {
            (Some((cause, _)), _) => Some(format!("the machine's {cause:?}").to_lowercase()),
            (None, Some(rule)) => Some(rule.key().to_owned()),
            (None, None) => (!is_serving).then(|| "the owner".to_owned()),
        };
        let rules = self.ruling.verdict.findings.iter().map(|finding| RuleReply {
            key: finding.rule.key().to_owned(),
            seen: finding.seen.clone(),
            limit: finding.limit.clone(),
            standing: word(finding.standing),
            cause: finding.rule.cause(),
            forbids: self.ruling.suspensions.holds(finding.rule),
            decides: first == Some(finding.rule) && self.ruling.departing.is_none(),
        });
        let reason = self.tracker.reasons().join("; ");
        RulesReply { takes_work: is_serving, reason, decides, rules: rules.collect() }
    }
}

fn word(standing: Standing) -> StandingWord {
    match standing {
        Standing::Off => StandingWord::Off,
        Standing::Unknown => StandingWord::Unknown,
        Standing::Fine => StandingWord::Fine,
        Standing::Near => StandingWord::Near,
        Standing::Broken => StandingWord::Broken,
    }
}
