//! The owner's own word: no work until they say so, or for a while.

use serde::{Deserialize, Serialize};

/// Whether the owner has paused this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pause {
    /// No.
    #[default]
    None,
    /// Until `idlewild resume`.
    UntilResumed,
    /// For a while.
    Until {
        /// Seconds since 1970: the pause outlives the agent, and counts on while none runs.
        unix_s: u64,
    },
}

impl Pause {
    /// What is left of it at `unix_s`; none where it does not hold.
    pub fn left_s(self, unix_s: u64) -> Option<Left> {
        match self {
            Self::None => None,
            Self::UntilResumed => Some(Left::UntilResumed),
            Self::Until { unix_s: until } => until.checked_sub(unix_s).filter(|left| *left > 0).map(Left::Seconds),
        }
    }
}

/// What is left of a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// All of it: it has no end of its own.
    UntilResumed,
    /// So long.
    Seconds(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_by_itself_or_not_at_all() {
        for (pause, expected) in [
            (Pause::None, None),
            (Pause::UntilResumed, Some(Left::UntilResumed)),
            (Pause::Until { unix_s: 1060 }, Some(Left::Seconds(60))),
            (Pause::Until { unix_s: 1000 }, None),
            (Pause::Until { unix_s: 7 }, None),
        ] {
            assert_eq!(pause.left_s(1000), expected, "{pause:?}");
        }
    }
}
