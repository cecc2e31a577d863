//! Looks at the machine and at `config.toml` every two seconds, apart from the driver, which never waits for either.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval};

use super::launch::Launch;
use crate::config::{Paths, Reload, Reloaded, RuleSettings};
use crate::owner::conditions::{Conditions, Eyes, Roots, engine_bytes, memory};
use crate::store::{StandingOrders, write_standing_orders};
use crate::worker::{FreeRoom, MemoryRoom};

/// Between two looks. Someone who pulls the plug has the machine within 5 s: this, a look, and the grace.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Orders that may wait for the disk: a person gives them.
const ORDERS: usize = 4;

/// What one look found.
#[derive(Debug)]
pub(super) struct Look {
    /// The machine.
    pub(super) conditions: Conditions,
    /// The room for an engine.
    pub(super) room: Option<FreeRoom>,
    /// The settings, where their file has changed.
    pub(super) reloaded: Option<Reloaded>,
}

/// What looks.
#[derive(Debug)]
struct Watcher {
    eyes: Eyes,
    reload: Option<Reload>,
    room: RoomByRules,
    rules: watch::Receiver<RuleSettings>,
}

impl Watcher {
    fn look(&mut self) -> Look {
        let exclusive = self.rules.borrow().exclusive_apps.clone();
        let reloaded = self.reload.as_mut().and_then(Reload::look);
        Look { conditions: self.eyes.look(&exclusive), room: self.room.free_bytes(), reloaded }
    }
}

/// Looks from now on, until nobody takes it in.
pub(super) fn start(launch: &Launch, rules: watch::Receiver<RuleSettings>) -> mpsc::Receiver<Look> {
    let reload = launch.sources.clone().map(|sources| Reload::new(sources, launch.config.clone()));
    let eyes = Eyes::new(roots(launch), std::process::id());
    let room = RoomByRules { roots: roots(launch), rules: rules.clone() };
    let mut watcher = Watcher { eyes, reload, room, rules };
    let (looks, out) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut next = interval(LOOK_EVERY);
        next.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            next.tick().await;
            // Firmware may take its time to answer.
            let looked = tokio::task::spawn_blocking(move || {
                let look = watcher.look();
                (watcher, look)
            });
            let Ok((back, look)) = looked.await else {
                return tracing::warn!("nobody looks at this machine any more");
            };
            watcher = back;
            if looks.send(look).await.is_err() {
                return;
            }
        }
    });
    out
}

fn roots(launch: &Launch) -> Roots {
    Roots::under(Path::new(&launch.config.rules.root))
}

/// The room that the rules leave.
#[derive(Debug)]
struct RoomByRules {
    roots: Roots,
    rules: watch::Receiver<RuleSettings>,
}

/// What the worker asks before it loads a model.
pub(super) fn room(launch: &Launch, rules: watch::Receiver<RuleSettings>) -> Arc<dyn MemoryRoom> {
    Arc::new(RoomByRules { roots: roots(launch), rules })
}

impl MemoryRoom for RoomByRules {
    fn free_bytes(&self) -> Option<FreeRoom> {
        let percent = {
            let rules = self.rules.borrow();
            // Without rules all of it may be in use; what does not fit at all is refused all the same.
            if rules.enabled { rules.ram_idle_percent } else { 100 }
        };
        let pid = std::process::id();
        let memory = memory(&self.roots, pid)?;
        let may_be_used = u64::try_from(u128::from(memory.total) * u128::from(percent) / 100).unwrap_or(u64::MAX);
        let used_by_others = memory.used().saturating_sub(engine_bytes(&self.roots, pid));
        Some(FreeRoom { bytes: may_be_used.saturating_sub(used_by_others), total_bytes: memory.total, percent })
    }
}

/// Orders to be written down, each with who waits for it.
pub(super) type OrdersOut = mpsc::Sender<(StandingOrders, Option<Kept>)>;

/// To be told whether it is written, and if not, why.
pub(super) type Kept = oneshot::Sender<Result<(), String>>;

/// Writes orders down in the order in which they come, until the driver is gone.
pub(super) fn start_keeping(paths: Paths) -> OrdersOut {
    let (out, mut orders) = mpsc::channel::<(StandingOrders, Option<Kept>)>(ORDERS);
    tokio::spawn(async move {
        while let Some((order, waiting)) = orders.recv().await {
            let paths = paths.clone();
            let written = tokio::task::spawn_blocking(move || write_standing_orders(&paths, &order)).await;
            let outcome = match written {
                Ok(outcome) => outcome.map_err(|error| error.to_string()),
                Err(_) => Err("the agent is stopping".to_owned()),
            };
            if let Err(why) = &outcome {
                tracing::warn!(why, "the rules do not remember");
            }
            if let Some(waiting) = waiting {
                // Whoever asked may have gone.
                waiting.send(outcome).ok();
            }
        }
    });
    out
}
