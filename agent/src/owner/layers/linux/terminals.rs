//! Text terminals, the remote ones too: when something was typed there last, by the access time of the device.
//!
//! The kernel notes that time in steps of 8 s, and nothing tells of it: terminals are looked at now and then, while somebody
//! is logged in at one.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::Duration;

use tokio::fs;
use tokio::time::timeout;

use super::keep::{Logins, Outlet};
use super::utmp;
use crate::owner::sighting::{SeenTerminal, Sighting};
use crate::owner::times::of_wall;

/// Between two looks while somebody is logged in.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// Between two looks at the list of logins while nobody is (logind tells of most of them at once).
const LIST_EVERY: Duration = Duration::from_secs(10);

/// Terminals that are looked at.
const TERMINALS_MAX: usize = 64;

/// Looks for ever.
pub(super) async fn watch(mut out: Outlet) {
    out.logins().await;
    let mut said = None;
    loop {
        let logins = out.logins.borrow_and_update().clone();
        let lines = lines(&logins).await;
        let mut terminals = Vec::new();
        for line in lines.into_iter().take(TERMINALS_MAX) {
            terminals.extend(look(line).await);
        }
        let patience = if terminals.is_empty() { LIST_EVERY } else { LOOK_EVERY };
        let sighting = Some(Sighting::Terminals(terminals));
        if said != sighting {
            said.clone_from(&sighting);
            if let Some(sighting) = sighting {
                out.say(sighting).await;
            }
        }
        if let Ok(Err(_)) = timeout(patience, out.logins.changed()).await {
            return;
        }
    }
}

/// Names of devices below `/dev`.
async fn lines(logins: &Logins) -> BTreeSet<String> {
    let by_logind = logins.sessions().iter().map(|session| session.tty.clone()).filter(|tty| !tty.is_empty());
    let mut lines: BTreeSet<String> = by_logind.collect();
    let is_list = fs::metadata(utmp::FILE).await.is_ok_and(|about| about.is_file() && about.len() <= utmp::MAX_BYTES);
    if is_list && let Ok(bytes) = fs::read(utmp::FILE).await {
        lines.extend(utmp::lines(&bytes));
    }
    // What is no name below /dev is not looked at.
    lines.retain(|line| line.split('/').all(|part| !part.is_empty() && part != "." && part != ".."));
    lines
}

/// The accounts that are logged in at terminals, for where no logind tells it: a login makes its terminal its account's.
pub(super) async fn accounts() -> BTreeSet<u32> {
    let mut accounts = BTreeSet::new();
    for line in lines(&Logins::Unknown).await.into_iter().take(TERMINALS_MAX) {
        let about = fs::metadata(format!("/dev/{line}")).await;
        accounts.extend(about.ok().filter(|about| about.file_type().is_char_device()).map(|about| about.uid()));
    }
    accounts
}

async fn look(line: String) -> Option<SeenTerminal> {
    let about = fs::metadata(format!("/dev/{line}")).await.ok().filter(|about| about.file_type().is_char_device())?;
    let last_input = of_wall(Duration::from_secs(u64::try_from(about.atime()).unwrap_or(0)));
    // The two clocks are not read at the same moment: to the second, the same instant is the same.
    Some(SeenTerminal { line, last_input: Duration::from_secs((last_input + Duration::from_millis(500)).as_secs()) })
}
