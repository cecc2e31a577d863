//! How this machine is looked at, for whoever asks; and how long without input makes its owner away.

use std::path::Path;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tracing::info;

use crate::api::wire::{DoctorReply, SystemReply};
use crate::config::{Config, OwnerSettings};
use crate::owner::conditions::{Roots, courtesy};
use crate::owner::notice::Reach;
use crate::owner::rules::Rule;
use crate::owner::{OwnerSight, OwnerSource};

/// What answers `idlewild doctor`.
#[derive(Debug)]
pub(super) struct Doctor {
    settings: OwnerSettings,
    /// What the detector's layers see.
    sight: watch::Receiver<OwnerSight>,
    /// To the owner's source.
    delay: watch::Sender<Duration>,
    roots: Roots,
    yields_to_all: bool,
}

impl Doctor {
    pub(super) fn new(config: &Config, owner: &dyn OwnerSource) -> Self {
        let roots = Roots::under(Path::new(&config.rules.root));
        let (settings, yields_to_all) = (config.owner.clone(), config.engine.yield_to_all);
        Self { settings, sight: owner.sight(), delay: owner.delay(), roots, yields_to_all }
    }

    /// The settings say how long without input makes an owner away.
    pub(super) fn take_idle_delay(&mut self, idle_delay_s: u32) {
        if std::mem::replace(&mut self.settings.idle_delay_s, idle_delay_s) != idle_delay_s {
            info!(idle_delay_s, "another owner.idle_delay_s counts from now on");
            self.delay.send_replace(Duration::from_secs(u64::from(idle_delay_s)));
        }
    }

    /// Answers from a task of its own: the system's services may take a second. `unseen` are rules that cannot be told here.
    pub(super) fn examine(&self, unseen: Vec<Rule>, reply: oneshot::Sender<DoctorReply>) {
        let owner = DoctorReply::new(&self.settings, &self.sight.borrow());
        let (roots, yields_to_all) = (self.roots.clone(), self.yields_to_all);
        tokio::spawn(async move {
            let system = SystemReply::rows(&Reach::look().await, &unseen, &courtesy(&roots), yields_to_all);
            // An asker that went away needs no answer.
            reply.send(owner.with_system(system)).ok();
        });
    }
}
