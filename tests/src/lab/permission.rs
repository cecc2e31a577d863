//! Whether this machine lets us make network namespaces, and what a test does where it does not.

use std::io::Write;
use std::sync::OnceLock;

use anyhow::{Result, bail};

use super::namespace::{self, Namespace};

/// Set to 1, whatever a test lacks (this permission first) is a failure, and the test not skipped. `tests/run.sh` sets it where it has made sure of it.
pub const REQUIRE_VARIABLE: &str = "IDLEWILD_REQUIRE_NETNS";

/// Whether labs can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// They can.
    Granted,
    /// They cannot, and why.
    Refused(String),
}

/// Tries once a process: a namespace and a pair of interfaces in it.
pub fn permission() -> Permission {
    static TRIED: OnceLock<Permission> = OnceLock::new();
    TRIED
        .get_or_init(|| match probe() {
            Ok(()) => Permission::Granted,
            Err(why) => Permission::Refused(format!("{why:#}")),
        })
        .clone()
}

fn probe() -> Result<()> {
    let trial = Namespace::create(format!("{}{}-try", namespace::PREFIX, std::process::id()))?;
    trial.ip("link add try0 type veth peer name try1")?;
    trial.enter(|| ())
}

/// Says loudly that a test did nothing, or fails where it should not have come to that.
pub(super) fn skip(lack: &str, why: &str) -> Result<()> {
    let line = format!("SKIPPED ({lack}): {why}");
    if std::env::var(REQUIRE_VARIABLE).is_ok_and(|value| value == "1") {
        bail!("{line}; {REQUIRE_VARIABLE}=1 says that nothing may be skipped here");
    }
    let _ = writeln!(std::io::stderr(), "{line}");
    Ok(())
}
