//! Keeps one layer looking: what it sees goes to the detector, and when its attempt ends, another follows.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

#[cfg(any(target_os = "macos", target_os = "windows", test))]
use crate::owner::fuse::LOCK_DELAY;
use crate::owner::sighting::{LayerKind, SeenSession, Sighting};

/// How long an outside thing may take to answer. A desktop that is busy answers in a second; one that takes longer hangs.
pub(super) const ANSWER: Duration = Duration::from_secs(2);

/// How often a quiet screen is asked whether it still lives.
pub(super) const ALIVE_EVERY: Duration = Duration::from_secs(10);

/// The first pause before another attempt, which doubles up to [`PAUSE_MAX`]: a display takes a moment to come up.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest.
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// How long the screens wait for logind's first word, which says where to look.
const LOGINS_WITHIN: Duration = Duration::from_secs(3);

/// Why an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// There is nothing to see.
    Absent(String),
    /// There is something, and it cannot be seen.
    Blind(String),
}

impl From<Trouble> for Sighting {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Absent(why) => Self::Absent { why },
            Trouble::Blind(why) => Self::Blind { why },
        }
    }
}

/// What logind says of sessions, for the other layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Logins {
    /// It has not answered yet.
    Looking,
    /// It is not there, or does not answer.
    Unknown,
    /// These.
    Known(Vec<SeenSession>),
}

impl Logins {
    pub(super) fn sessions(&self) -> &[SeenSession] {
        match self {
            Self::Known(sessions) => sessions,
            Self::Looking | Self::Unknown => &[],
        }
    }
}

/// What a layer works with.
#[derive(Debug, Clone)]
pub(super) struct Outlet {
    pub(super) kind: LayerKind,
    /// How long a screen must be without input before it is told to be quiet.
    pub(super) alarm: Duration,
    pub(super) sightings: mpsc::Sender<(LayerKind, Sighting)>,
    pub(super) logins: watch::Receiver<Logins>,
}

impl Outlet {
    /// Tells what is seen from now on.
    pub(super) async fn say(&self, sighting: Sighting) {
        // Where nobody listens the layer is about to be dropped.
        self.sightings.send((self.kind, sighting)).await.ok();
    }

    /// What logind says, once it has said something or has had its time.
    pub(super) async fn logins(&mut self) -> Logins {
        let known = self.logins.wait_for(|logins| *logins != Logins::Looking);
        match timeout(LOGINS_WITHIN, known).await {
            Ok(Ok(logins)) => logins.clone(),
            Ok(Err(_)) | Err(_) => Logins::Unknown,
        }
    }
}

/// Attempts for ever: `watch` tells what it sees for as long as it can, and returns why it cannot any more.
pub(super) async fn keep<F>(mut out: Outlet, watch: impl Fn(Outlet) -> F)
where
    F: Future<Output = Result<Infallible, Trouble>>,
{
    let mut pause = PAUSE;
    loop {
        out.logins.mark_unchanged();
        let began = Instant::now();
        let Err(trouble) = watch(out.clone()).await;
        tracing::debug!(layer = ?out.kind, ?trouble, "cannot look");
        out.say(trouble.into()).await;
        if began.elapsed() > PAUSE_MAX {
            pause = PAUSE;
        }
        // Whoever logs in or out brings or takes a screen: soon worth another look.
        if out.kind != LayerKind::Logind && matches!(timeout(pause, out.logins.changed()).await, Ok(Ok(()))) {
            pause = PAUSE;
        }
        tokio::time::sleep(if out.kind == LayerKind::Logind { pause } else { PAUSE }).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Keeps the only layer of a system, which needs nobody to say where to look.
#[cfg(any(target_os = "macos", target_os = "windows", test))]
pub(super) fn keep_alone<F>(
    kind: LayerKind,
    delay: Duration,
    sightings: &mpsc::Sender<(LayerKind, Sighting)>,
    look: impl Fn(Outlet) -> F + Send + Sync + 'static,
) -> (Vec<LayerKind>, tokio::task::JoinSet<()>)
where
    F: Future<Output = Result<Infallible, Trouble>> + Send,
{
    let (publish, logins) = watch::channel(Logins::Unknown);
    let out = Outlet { kind, alarm: delay.min(LOCK_DELAY), sightings: sightings.clone(), logins };
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        // While it is there, a pause between two attempts is as long as it should be.
        let _publish = publish;
        keep(out, look).await;
    });
    (vec![kind], tasks)
}

/// Whether a socket is not there, or nobody listens at it.
pub(in crate::owner) fn is_nobody_there(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused)
}

/// Waits for an answer, but not longer than a living thing takes.
pub(super) async fn answer<T>(what: &str, answer: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
    timeout(ANSWER, answer).await.unwrap_or_else(|_| Err(Trouble::Blind(format!("{what} does not answer"))))
}
