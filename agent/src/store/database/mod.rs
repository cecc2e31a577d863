//! The database: one thread that owns the connection, and handles that send it work.
//!
//! ```text
//! Store (clone) --bounded queue of closures--> thread with the Connection --> idlewild.db
//! ```
//!
//! Every write is durable when its call returns (a vote that is forgotten could be given twice), so that no caller
//! should wait for one while it holds a token back.

mod election;
mod forecasts;
mod imports;
mod links;
mod requests;
mod schema;
#[cfg(test)]
mod session_tests;
mod sessions;
#[cfg(test)]
mod tests;
mod tickets;

use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::{mpsc, oneshot};

pub use forecasts::{ForecastRecord, MAX_FORECASTS};
pub use imports::{ImportRefused, ImportedSession};
pub use links::{LinkRecord, RateRecord};
pub use requests::MAX_REQUESTS;
pub use sessions::{
    Boot, MAX_SESSIONS, OpenSession, SessionId, SessionMoment, SessionRecord, cause_names, named_cause,
};

/// Jobs that may wait for the thread; a job takes milliseconds, so that a full queue is a disk that hangs.
const QUEUE: usize = 128;

/// How long SQLite waits for another process (a backup, a curious user) to let go of the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// How long [`Store::call_now`] lets its caller wait.
const NOW_TIMEOUT: Duration = Duration::from_secs(2);

/// The database cannot do what was asked. What was there before is still there.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full.
    #[error("the disk that holds {path} is full; nothing was recorded")]
    Full {
        /// The database.
        path: PathBuf,
    },
    /// The file may not be written.
    #[error("{path} cannot be written (a read-only disk, or another owner); nothing was recorded")]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// The file is not a database, or is damaged.
    #[error(
        "{path} is damaged or not a database\nhint: move it away; a new one is made at the next start, and only history is lost"
    )]
    Damaged {
        /// The database.
        path: PathBuf,
    },
    /// It was written by a later version.
    #[error(
        "{path} has schema {found} and this idlewild knows up to {known}\nhint: upgrade idlewild; nothing was changed"
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// Too much work waits, or the thread is gone.
    #[error("the database does not keep up (is the disk hanging?)")]
    Overloaded,
    /// Too many of these exist already.
    #[error("there are {0} open tickets already; wait until some are used or expire")]
    TooManyTickets(u32),
    /// Anything else that SQLite says.
    #[error("the database {path} failed")]
    Sql {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// A handle on the database. The thread ends, and the file is closed, when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Store {
    jobs: mpsc::Sender<Job>,
    path: PathBuf,
    trouble: Arc<Mutex<Option<Trouble>>>,
}

/// The last thing that could not be done.
#[derive(Debug)]
struct Trouble {
    what: String,
    at: Instant,
}

/// How long a failure is worth telling: sessions are written four times a minute, so that one that lasts is told again
/// before this is over.
const TROUBLE_TOLD: Duration = Duration::from_mins(1);

impl Store {
    /// Opens the file, makes it (private to this user) where there is none, and brings its schema up to date.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let mut connection = connect(path)?;
        schema::migrate(&mut connection, path)?;
        let (jobs, mut queue) = mpsc::channel::<Job>(QUEUE);
        let work = move || {
            while let Some(job) = queue.blocking_recv() {
                job(&mut connection);
            }
        };
        let spawned = thread::Builder::new().name("idlewild-store".to_owned()).spawn(work);
        spawned.map_err(|_| StoreError::Overloaded)?;
        Ok(Self { jobs, path: path.to_owned(), trouble: Arc::default() })
    }

    /// What went wrong in the last minute, if something did: for the user, who should not have to read the log for it.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.as_ref().filter(|trouble| trouble.at.elapsed() < TROUBLE_TOLD).map(|trouble| trouble.what.clone())
    }

    /// What a job came to; none where it was not done. A failure is remembered for [`Store::trouble`].
    fn settle<T>(&self, done: Option<rusqlite::Result<T>>) -> Result<T, StoreError> {
        let outcome = done.ok_or(StoreError::Overloaded).and_then(|done| done.map_err(|e| explain(&self.path, e)));
        outcome.inspect_err(|error| {
            let trouble = Trouble { what: error.to_string(), at: Instant::now() };
            *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(trouble);
        })
    }

    /// Runs `work` on the database's thread, after what was asked before.
    async fn call<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |connection| drop(reply.send(work(connection))));
        let sent = self.jobs.send(job).await.is_ok();
        self.settle(if sent { answer.await.ok() } else { None })
    }

    /// The same for callers that cannot wait as futures do: blocks, for a bounded time.
    fn call_now<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (reply, answer) = sync_channel(1);
        let job: Job = Box::new(move |connection| drop(reply.send(work(connection))));
        let sent = self.jobs.try_send(job).is_ok();
        self.settle(if sent { answer.recv_timeout(NOW_TIMEOUT).ok() } else { None })
    }

    /// Returns when everything that was asked before is on disk and in the database's own file: right before the end of
    /// a process, which may come before the thread has closed the file.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.call(|connection| connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))).await
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    make_private_file(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "journal_size_limit", 4 * 1024 * 1024)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        Ok(connection)
    };
    open().map_err(|e| explain(path, e))
}

/// SQLite gives its other files the mode of the database: tickets' secrets are in there.
fn make_private_file(path: &Path) -> Result<(), StoreError> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::StorageFull => Err(StoreError::Full { path: path.to_owned() }),
        Err(_) => Err(StoreError::ReadOnly { path: path.to_owned() }),
    }
}

/// What SQLite's error means to a user.
fn explain(path: &Path, error: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    let code = error.sqlite_error_code();
    if code == Some(ErrorCode::DiskFull) {
        StoreError::Full { path }
    } else if matches!(code, Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)) {
        StoreError::ReadOnly { path }
    } else if matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)) {
        StoreError::Damaged { path }
    } else {
        StoreError::Sql { path, source: error }
    }
}
