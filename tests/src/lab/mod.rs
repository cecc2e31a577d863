//! One test's world: namespaces, segments, hosts, files and logs, gone when the test ends.
//!
//! [`in_lab`] is how a test begins. It checks the permission, sweeps away what dead test processes left, runs the body,
//! and afterwards reads the logs: a line at ERROR or a panic fails a test that did not announce it, and a test that
//! fails for any reason prints the end of every log.

mod command;
mod disk;
mod filter;
mod host;
mod logs;
mod namespace;
mod permission;
mod requirements;
mod segment;
mod subnet;
mod sweep;

use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use tempfile::TempDir;

pub use disk::SmallDisk;
pub use filter::Filter;
pub use host::{Host, Interface};
pub use logs::Logs;
pub use permission::{Permission, REQUIRE_VARIABLE, permission};
pub use requirements::{can_have_desktop, python, real_model};
pub use segment::Segment;
pub use subnet::Subnet;
pub use sweep::sweep;

use crate::relay::Path as RelayPath;
pub(crate) use namespace::Namespace;

/// What a test returns.
pub type Verdict = Result<()>;

/// Tells the labs of one process apart, where tests run as threads of it.
static LABS: AtomicU32 = AtomicU32::new(0);

/// One test's world.
pub struct Lab {
    /// What the names of its namespaces begin with: `iw<pid>-<lab>`.
    prefix: String,
    /// Where the bridges are, apart from every host.
    switches: Namespace,
    /// Homes of agents, logs, scripts.
    files: TempDir,
    logs: Logs,
    segments: AtomicU32,
}

/// Runs a test's body in a lab of its own, or says that it was skipped. Namespaces, processes and files are gone afterwards.
pub fn in_lab(body: impl FnOnce(&Lab) -> Verdict) -> Verdict {
    match permission() {
        Permission::Granted => {}
        Permission::Refused(why) => return permission::skip("no network namespaces", &why),
    }
    let lab = Lab::open()?;
    let verdict = match catch_unwind(AssertUnwindSafe(|| body(&lab))) {
        Ok(verdict) => verdict.and_then(|()| lab.logs.check()),
        Err(panic) => {
            lab.logs.print_ends();
            resume_unwind(panic)
        }
    };
    if verdict.is_err() {
        lab.logs.print_ends();
    }
    verdict
}

impl Lab {
    fn open() -> Result<Self> {
        sweep::sweep_once();
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("{}{}-{number}", namespace::PREFIX, std::process::id());
        let switches = Namespace::create(format!("{prefix}-sw"))?;
        let files = format!("{}{}-", sweep::FILES_PREFIX, std::process::id());
        let files = tempfile::Builder::new().prefix(&files).tempdir().context("make a directory")?;
        Ok(Self { prefix, switches, files, logs: Logs::default(), segments: AtomicU32::new(0) })
    }

    /// A directory that is gone after the test.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.files.path().join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(path)
    }

    /// A file system of a few megabytes that is gone after the test.
    pub fn small_disk(&self, name: &str, mebibytes: u32) -> Result<SmallDisk> {
        SmallDisk::mount(self.directory(name)?, mebibytes)
    }

    /// Where all files of this test are.
    pub fn files(&self) -> &Path {
        self.files.path()
    }

    /// The logs that are checked when the test ends.
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    /// A machine without any link but loopback. `name` is at most four characters, so that a namespace's name stays short.
    pub fn host(&self, name: &str) -> Result<Host> {
        let namespace = Namespace::create(format!("{}-{name}", self.prefix))?;
        Ok(Host::new(namespace, self.switches.clone(), name))
    }

    /// An Ethernet without delay or loss: a bridge, 10.77.N.0/24.
    pub fn segment(&self) -> Result<Segment> {
        Segment::bridge(&self.switches, self.next_segment())
    }

    /// An Ethernet whose every port has this path: a switch in this process, 10.77.N.0/24.
    pub fn slow_segment(&self, path: RelayPath) -> Result<Segment> {
        let (_, subnet) = self.next_segment();
        Segment::relay(path, subnet)
    }

    /// A router between segments: forwards unicast, no multicast. It is the default gateway of hosts that name it with
    /// [`Host::route_by`].
    pub fn router(&self, name: &str, between: &[&Segment]) -> Result<Host> {
        let router = self.host(name)?;
        for segment in between {
            router.attach(segment)?;
        }
        router.forward()?;
        Ok(router)
    }

    /// `names` on one new segment, one interface each: the usual home.
    pub fn home(&self, names: &[&str]) -> Result<(Segment, Vec<Host>)> {
        let segment = self.segment()?;
        let hosts = names.iter().map(|name| self.host(name)).collect::<Result<Vec<_>>>()?;
        for host in &hosts {
            host.attach(&segment)?;
        }
        Ok((segment, hosts))
    }

    fn next_segment(&self) -> (u32, Subnet) {
        let number = self.segments.fetch_add(1, Ordering::Relaxed);
        (number, Subnet::new(Ipv4Addr::new(10, 77, number as u8, 0), 24))
    }
}
