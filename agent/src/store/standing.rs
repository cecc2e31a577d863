//! What the rules must remember across a restart: the owner's pause, and what was exchanged today.

use serde::{Deserialize, Serialize};

use super::file::{FileError, read_secret, write_secret};
use crate::config::Paths;
use crate::owner::rules::Pause;

/// In `state/rules.json`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StandingOrders {
    /// The owner's own word.
    pub pause: Pause,
    /// The local day of the figure below, counted from 1970.
    pub day: i64,
    /// Bytes exchanged with peers on that day.
    pub transferred_bytes: u64,
}

/// What was kept; nothing where there is no file. One that cannot be read pauses nothing, and is told of.
pub fn read_standing_orders(paths: &Paths) -> StandingOrders {
    let read = || -> Result<Option<StandingOrders>, String> {
        let text = read_secret(&paths.rules_file(), "pause again if this machine should be paused");
        let Some(text) = text.map_err(|error| error.to_string())? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|error| error.to_string())
    };
    read()
        .unwrap_or_else(|error| {
            tracing::warn!(error, "what the rules had kept is unreadable: a pause is forgotten");
            None
        })
        .unwrap_or_default()
}

/// Writes it whole, or leaves what was there.
pub fn write_standing_orders(paths: &Paths, orders: &StandingOrders) -> Result<(), FileError> {
    let path = paths.rules_file();
    let text = serde_json::to_string(orders)
        .map_err(|e| FileError::Write { path: path.clone(), source: std::io::Error::other(e) })?;
    write_secret(&path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_kept_and_a_damaged_file_is_as_good_as_none() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path());
        paths.create().unwrap();
        assert_eq!(read_standing_orders(&paths), StandingOrders::default());
        for pause in [Pause::None, Pause::UntilResumed, Pause::Until { unix_s: 7 }] {
            let orders = StandingOrders { pause, day: 20_000, transferred_bytes: 5 };
            write_standing_orders(&paths, &orders).unwrap();
            assert_eq!(read_standing_orders(&paths), orders);
        }
        write_secret(&paths.rules_file(), "{\"pause\":").unwrap();
        assert_eq!(read_standing_orders(&paths), StandingOrders::default());
    }
}
