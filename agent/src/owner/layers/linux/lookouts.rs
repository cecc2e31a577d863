//! Lookouts of other sessions: a socket at which they report, and what keeps that sound.
//!
//! Everybody on this machine can connect. The kernel says who does (SO_PEERCRED): root, the agent's own account, and accounts
//! that are logged in are listened to. Each connection costs a task and a line of bounded length.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::keep::{ANSWER, Logins, Outlet, Trouble};
use super::terminals;
use crate::owner::lookout::{Answer, Hello, Lines, NoLine, SILENCE, VERSION, Word};
use crate::owner::sighting::{SeenLookout, Sighting};
use crate::owner::times::since_boot;

/// Connections of one account, and of all: a session has one, and an account seldom more than a session.
const OF_ACCOUNT_MAX: usize = 4;
const OF_ALL_MAX: usize = 64;

/// How long callers are waited for.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// To say what they are.
    hello: Duration,
    /// For logind to tell of the login that they belong to: a desktop starts its programs at once.
    login: Duration,
    /// For a word, once they have been welcomed.
    word: Duration,
}

const PATIENCE: Patience = Patience { hello: Duration::from_secs(5), login: Duration::from_secs(5), word: SILENCE };

/// Words in any one second; a screen changes twice in one.
const WORDS_A_SECOND_MAX: u32 = 50;

/// Words of callers that may wait.
const WORDS: usize = 32;

/// Pause after a connection could not be taken: there are no descriptors left.
const REST: Duration = Duration::from_secs(1);

/// Listens, and tells what lookouts see.
pub(super) async fn watch(out: Outlet, socket: Option<PathBuf>) -> Result<Infallible, Trouble> {
    if let Some(path) = socket {
        return listen(out, path, PATIENCE).await;
    }
    let why = "no socket is set at which other sessions could report (owner.lookout_socket)".to_owned();
    out.say(Sighting::Absent { why }).await;
    std::future::pending().await
}

async fn listen(out: Outlet, path: PathBuf, patience: Patience) -> Result<Infallible, Trouble> {
    let bound = Bound::at(&path).await?;
    let (words, mut heard) = mpsc::channel(WORDS);
    let mut hall = Hall { words, callers: BTreeMap::new(), tasks: JoinSet::new(), next: 0, patience };
    let mut logins = out.logins.clone();
    let mut said = None;
    loop {
        let seen = hall.seen(&logins.borrow_and_update());
        if said.as_ref() != Some(&seen) {
            said = Some(seen.clone());
            out.say(Sighting::Lookouts { at: path.display().to_string(), seen }).await;
        }
        tokio::select! {
            accepted = bound.listener.accept() => match accepted {
                Ok((stream, _)) => hall.admit(stream, &out),
                Err(error) => {
                    tracing::warn!(%error, "a lookout cannot be listened to");
                    sleep(REST).await;
                }
            },
            Some((number, word)) = heard.recv() => hall.hear(number, word),
            Some(ended) = hall.tasks.join_next(), if !hall.tasks.is_empty() => hall.see_off(&ended),
            // Somebody has logged in or out: others may count now.
            Ok(()) = logins.changed() => {}
        }
    }
}

/// The socket. Its name goes with it.
struct Bound {
    listener: UnixListener,
    path: PathBuf,
}

impl Bound {
    async fn at(path: &Path) -> Result<Self, Trouble> {
        let bound = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_over(path).await => {
                std::fs::remove_file(path).and_then(|()| UnixListener::bind(path))
            }
            bound => bound,
        };
        let cannot = |error: io::Error| {
            let why = if error.kind() == io::ErrorKind::AddrInUse {
                "it is there already, and in use or no socket".to_owned()
            } else {
                error.to_string()
            };
            Trouble::Blind(format!("lookouts cannot be listened to at {}: {why}", path.display()))
        };
        let bound = Self { listener: bound.map_err(cannot)?, path: path.to_owned() };
        // Whoever is logged in may report: who that is, is asked of the kernel.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(cannot)?;
        Ok(bound)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // Best effort: one that is left over is found out by the next agent.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether a socket is there at which nobody listens: an agent that was killed left it.
async fn is_left_over(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket());
    let answered = timeout(ANSWER, UnixStream::connect(path)).await;
    is_socket && matches!(answered, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}

/// A connection.
struct Caller {
    uid: u32,
    /// Its last word; none before the first.
    word: Option<Word>,
}

/// All connections.
struct Hall {
    words: mpsc::Sender<(u64, Word)>,
    callers: BTreeMap<u64, Caller>,
    /// Each gives its number when it ends.
    tasks: JoinSet<u64>,
    next: u64,
    patience: Patience,
}

impl Hall {
    fn admit(&mut self, stream: UnixStream, out: &Outlet) {
        while let Some(ended) = self.tasks.try_join_next() {
            self.see_off(&ended);
        }
        // Somebody whom the kernel does not name is not listened to.
        let Ok(uid) = stream.peer_cred().map(|cred| cred.uid()) else { return };
        let of_account = self.callers.values().filter(|caller| caller.uid == uid).count();
        if of_account >= OF_ACCOUNT_MAX || self.callers.len() >= OF_ALL_MAX {
            let why = format!("{of_account} of account {uid} are listened to already; end those");
            // It fits into the buffer of a socket that is new.
            drop(stream.into_std().and_then(|mut stream| stream.write(&line(&Answer::Refused { why }))));
            return;
        }
        let number = self.next;
        self.next += 1;
        let (words, logins, alarm, patience) = (self.words.clone(), out.logins.clone(), out.alarm, self.patience);
        self.tasks.spawn(async move {
            let (read, mut write) = stream.into_split();
            let say = |word| words.send((number, word));
            if let Err(why) = serve((Lines::new(read), &mut write), (uid, logins), (alarm, patience), say).await {
                tracing::info!(uid, why, "a lookout is not listened to any more");
                timeout(ANSWER, write.write_all(&line(&Answer::Refused { why }))).await.ok();
            }
            number
        });
        self.callers.insert(number, Caller { uid, word: None });
    }

    fn see_off(&mut self, ended: &Result<u64, JoinError>) {
        // None of them panics, and none is ended from here.
        if let Ok(number) = ended {
            self.callers.remove(number);
        }
    }

    fn hear(&mut self, number: u64, word: Word) {
        // It may have gone since.
        if let Some(caller) = self.callers.get_mut(&number) {
            caller.word = Some(word);
        }
    }

    /// What those say whose account is logged in. The others notice the end of their sessions themselves, and whoever is not
    /// known to have gone may still be there.
    fn seen(&self, logins: &Logins) -> Vec<SeenLookout> {
        let counts = |caller: &&Caller| !matches!(logins, Logins::Known(_)) || is_welcome(caller.uid, logins);
        let words = self.callers.values().filter(counts).filter_map(|caller| Some((caller.uid, caller.word.clone()?)));
        let seen = |(uid, Word { session, screen, inhibited_by })| SeenLookout { uid, session, screen, inhibited_by };
        words.map(seen).collect()
    }
}

/// Listens to one caller until it goes; says why it is listened to no more.
async fn serve<F>(
    (mut lines, write): (Lines<OwnedReadHalf>, &mut OwnedWriteHalf),
    (uid, mut logins): (u32, watch::Receiver<Logins>),
    (alarm, patience): (Duration, Patience),
    say: impl Fn(Word) -> F,
) -> Result<(), String>
where
    F: Future<Output = Result<(), mpsc::error::SendError<(u64, Word)>>>,
{
    let hello = timeout(patience.hello, lines.next()).await.map_err(|_| "it does not say what it is".to_owned())?;
    let Some(hello) = spoken(hello)? else { return Ok(()) };
    let Ok(Hello { lookout }) = serde_json::from_slice(&hello) else { return Err("that is no lookout".to_owned()) };
    if lookout != VERSION {
        return Err(format!("it speaks version {lookout}, and the agent version {VERSION}: use the same program"));
    }
    if !is_welcome_soon(uid, &mut logins, patience.login).await {
        return Err(format!("account {uid} is not logged in on this machine"));
    }
    let alarm_ms = u64::try_from(alarm.as_millis()).unwrap_or(u64::MAX);
    let welcomed = timeout(ANSWER, write.write_all(&line(&Answer::Welcome { alarm_ms }))).await;
    welcomed.map_err(|_| "it does not listen".to_owned())?.map_err(|error| error.to_string())?;
    let mut meter = Meter { since: Instant::now(), words: 0 };
    loop {
        let Ok(next) = timeout(patience.word, lines.next()).await else {
            // It may have been stopped, and comes again when it goes on.
            tracing::info!(uid, silent_s = patience.word.as_secs(), "a lookout has fallen silent");
            return Ok(());
        };
        let Some(bytes) = spoken(next)? else { return Ok(()) };
        if !meter.takes_one_more() {
            return Err("it speaks too often".to_owned());
        }
        let word: Word = serde_json::from_slice(&bytes).map_err(|_| "that is no word of a lookout".to_owned())?;
        if say(word.within_bounds(since_boot())).await.is_err() {
            return Ok(());
        }
    }
}

/// A line; none where the caller has gone.
fn spoken(line: Result<Vec<u8>, NoLine>) -> Result<Option<Vec<u8>>, String> {
    match line {
        Ok(line) => Ok(Some(line)),
        Err(NoLine::Ended) => Ok(None),
        Err(NoLine::TooLong) => Err("it speaks without end".to_owned()),
    }
}

/// How often somebody speaks.
struct Meter {
    since: Instant,
    words: u32,
}

impl Meter {
    fn takes_one_more(&mut self) -> bool {
        if self.since.elapsed() >= Duration::from_secs(1) {
            *self = Self { since: Instant::now(), words: 0 };
        }
        self.words += 1;
        self.words <= WORDS_A_SECOND_MAX
    }
}

fn line(answer: &Answer) -> Vec<u8> {
    let mut line = serde_json::to_vec(answer).unwrap_or_default();
    line.push(b'\n');
    line
}

fn is_welcome(uid: u32, logins: &Logins) -> bool {
    let is_trusted = uid == 0 || uid == rustix::process::geteuid().as_raw();
    is_trusted || logins.sessions().iter().any(|session| session.uid == uid)
}

/// The same, with some time for a login that has just happened, and by the terminals where there is no logind.
async fn is_welcome_soon(uid: u32, logins: &mut watch::Receiver<Logins>, soon: Duration) -> bool {
    let known = logins.wait_for(|logins| is_welcome(uid, logins) || *logins == Logins::Unknown);
    let known = timeout(soon, known).await.map(|known| known.is_ok_and(|logins| is_welcome(uid, &logins)));
    match known {
        Ok(true) => true,
        Ok(false) => terminals::accounts().await.contains(&uid),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests;
