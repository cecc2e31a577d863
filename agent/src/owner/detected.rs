//! The detector: its layers look, the fuser puts together what they see, and every change is reported.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::fuse::{FuseInput, Fuser, LEAP};
use super::sighting::{LayerKind, OwnerSight, Sighting};
use super::{NextReport, OwnerReport, OwnerSource, OwnerState, layers, times};

/// Sightings that may wait. Layers report changes only, so that a few are under way at once.
const SIGHTINGS: usize = 32;

/// How often a machine whose owner is away looks whether it has slept meanwhile.
const SLEPT_EVERY: Duration = Duration::from_secs(2);

/// Reports what the layers of this system see. Dropping it ends them.
#[derive(Debug)]
pub struct Detected {
    fuser: Fuser,
    sightings: mpsc::Receiver<(LayerKind, Sighting)>,
    /// For layers to come.
    outlet: mpsc::Sender<(LayerKind, Sighting)>,
    /// How long without input makes an owner away: what the settings say now.
    delay: watch::Sender<Duration>,
    delays: watch::Receiver<Duration>,
    /// What was reported last.
    said: Option<OwnerReport>,
    /// How long the machine had slept when that was last looked at.
    asleep: Duration,
    sight: watch::Sender<OwnerSight>,
    is_service: bool,
    /// Where lookouts are listened to.
    lookouts: Option<PathBuf>,
    layers: JoinSet<()>,
}

impl Detected {
    /// Starts to look. An owner without input for `delay` is away. Lookouts are listened to at a socket, if one is named.
    /// Must be called inside tokio.
    pub fn start(delay: Duration, lookouts: Option<PathBuf>) -> Self {
        let (outlet, sightings) = mpsc::channel(SIGHTINGS);
        let (kinds, layers) = layers::start(delay, lookouts.clone(), &outlet);
        let fuser = Fuser::new(times::since_boot(), delay, &kinds);
        let (sight, _) = watch::channel(OwnerSight::default());
        let (delay, delays) = watch::channel(delay);
        let (said, asleep, is_service) = (None, times::asleep(), layers::is_service());
        Self { fuser, sightings, outlet, delay, delays, said, asleep, sight, is_service, lookouts, layers }
    }

    /// Waits for the next change. Everything learnt is in `self` before each wait, so that a drop loses nothing.
    async fn advance(&mut self) -> OwnerReport {
        loop {
            let now = times::since_boot();
            self.notice_sleep(now);
            let report = self.fuser.report(now);
            if self.sight.receiver_count() > 0 {
                self.sight.send_replace(OwnerSight { is_service: self.is_service, ..self.fuser.sight(now) });
            }
            let is_away = matches!(report.state, OwnerState::Away { .. });
            if self.is_news(&report) {
                self.said = Some(report.clone());
                return report;
            }
            let due = self.fuser.poll_timeout(now).map(|due| due.saturating_sub(now));
            let patience = due.into_iter().chain(is_away.then_some(SLEPT_EVERY)).min();
            tokio::select! {
                biased;
                Some((layer, sighting)) = self.sightings.recv() => {
                    tracing::debug!(?layer, ?sighting, "seen");
                    self.fuser.handle(times::since_boot(), FuseInput::Saw(layer, sighting));
                }
                Ok(()) = self.delays.changed() => self.take_delay(),
                () = sleep(patience) => {}
            }
        }
    }

    /// The settings say another delay. Layers whose alarm is another one look anew: until each has its first answer, what it
    /// saw before holds.
    fn take_delay(&mut self) {
        let delay = *self.delays.borrow_and_update();
        let is_other_alarm = layers::alarm(delay) != layers::alarm(self.fuser.delay());
        self.fuser.set_delay(delay);
        if is_other_alarm {
            self.layers = JoinSet::new();
            (_, self.layers) = layers::start(delay, self.lookouts.clone(), &self.outlet);
        }
    }

    fn notice_sleep(&mut self, now: Duration) {
        let asleep = times::asleep();
        if asleep > self.asleep + LEAP {
            self.fuser.handle(now, FuseInput::Woke);
        }
        self.asleep = asleep;
    }

    /// Whether it says more than that time goes on.
    fn is_news(&self, report: &OwnerReport) -> bool {
        let kind = |report: &OwnerReport| std::mem::discriminant(&report.state);
        self.said.as_ref().is_none_or(|said| kind(said) != kind(report) || said.reason != report.reason)
    }
}

/// For ever where there is nothing to wait for but a sighting.
async fn sleep(patience: Option<Duration>) {
    match patience {
        Some(patience) => tokio::time::sleep(patience).await,
        None => std::future::pending().await,
    }
}

impl OwnerSource for Detected {
    fn next(&mut self) -> NextReport<'_> {
        Box::pin(self.advance())
    }

    fn delay(&self) -> watch::Sender<Duration> {
        self.delay.clone()
    }

    fn sight(&self) -> watch::Receiver<OwnerSight> {
        self.sight.subscribe()
    }
}
