//! What a lookout and its agent say to each other: a JSON object a line.
//!
//! ```text
//! lookout: {"lookout":1}                                           the version of these messages
//! agent:   {"welcome":{"alarm_ms":30000}}                          or {"refused":{"why":"..."}}, then the end
//! lookout: {"session":"2","screen":{"state":"quiet","by":"X11","since_ms":81234},"inhibited_by":[]}
//! ```
//!
//! The last is said on every change, and every few seconds where there is none. It is whole each time, so that one that is lost
//! costs nothing. Keys that are not known are skipped: a later version may add some.
//!
//! JSON in lines, since both ends are the same program on one machine, a few words a minute travel, and a person can read
//! along; bincode would bring its crate into this one, which the tidy tests keep out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::owner::sighting::SeenScreen;

/// The version of these messages.
pub(in crate::owner) const VERSION: u32 = 1;

/// Characters of a text that are kept.
const TEXT_MAX: usize = 160;

/// Inhibitors that are kept.
const INHIBITORS_MAX: usize = 8;

/// The first word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::owner) struct Hello {
    /// The version.
    pub(in crate::owner) lookout: u32,
}

/// The agent's answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::owner) enum Answer {
    /// It listens.
    Welcome {
        /// How long a screen must be without input before it is told to be quiet.
        alarm_ms: u64,
    },
    /// It does not, or no more.
    Refused {
        /// Why, in words, with what to do.
        why: String,
    },
}

/// What a lookout sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::owner) struct Word {
    /// logind's name of its session, where it is known.
    pub(in crate::owner) session: Option<String>,
    /// The screen.
    pub(in crate::owner) screen: SeenScreen,
    /// What inhibits idleness there.
    #[serde(default)]
    pub(in crate::owner) inhibited_by: Vec<String>,
}

impl Word {
    /// The same within bounds: texts are short and print as one line, and nothing has happened after `now`.
    pub(in crate::owner) fn within_bounds(self, now: Duration) -> Self {
        let screen = match self.screen {
            SeenScreen::Active { by } => SeenScreen::Active { by: tidy(&by) },
            SeenScreen::Quiet { by, since } => SeenScreen::Quiet { by: tidy(&by), since: since.min(now) },
            SeenScreen::Unseen { why } => SeenScreen::Unseen { why: tidy(&why) },
            SeenScreen::Nothing { why } => SeenScreen::Nothing { why: tidy(&why) },
        };
        let inhibited_by = self.inhibited_by.iter().take(INHIBITORS_MAX).map(|by| tidy(by)).collect();
        Self { session: self.session.map(|session| tidy(&session)), screen, inhibited_by }
    }
}

/// A text that others wrote, short and in one line.
pub(in crate::owner) fn tidy(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_written_as_documented_and_read_back() {
        let screen = SeenScreen::Quiet { by: "X11".into(), since: Duration::from_millis(81_234) };
        let word = Word { session: Some("2".into()), screen, inhibited_by: Vec::new() };
        let text = serde_json::to_string(&word).unwrap();
        assert_eq!(text, r#"{"session":"2","screen":{"state":"quiet","by":"X11","since_ms":81234},"inhibited_by":[]}"#);
        assert_eq!(serde_json::from_str::<Word>(&text).unwrap(), word);
        assert_eq!(serde_json::to_string(&Hello { lookout: VERSION }).unwrap(), r#"{"lookout":1}"#);
        let welcome = Answer::Welcome { alarm_ms: 30_000 };
        assert_eq!(serde_json::to_string(&welcome).unwrap(), r#"{"welcome":{"alarm_ms":30000}}"#);
    }

    #[test]
    fn what_is_not_known_is_skipped_and_what_is_missing_is_no_word() {
        let later = r#"{"session":null,"screen":{"state":"active","by":"X11","hue":7},"mood":"good"}"#;
        let word: Word = serde_json::from_str(later).unwrap();
        assert_eq!((word.session, word.inhibited_by), (None, Vec::new()));
        for text in [
            "{}",
            "[]",
            r#"{"session":"2"}"#,
            r#"{"screen":{"state":"away"}}"#,
            r#"{"screen":{"state":"quiet","by":"X11"}}"#,
            r#"{"screen":{"state":"quiet","by":"X11","since_ms":-1}}"#,
            r#"{"screen":{"state":"quiet","by":"X11","since_ms":1e99}}"#,
        ] {
            assert!(serde_json::from_str::<Word>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn texts_are_cut_and_hold_no_control_characters_and_nothing_comes_from_the_future() {
        let long = format!("a\u{1b}[31m\n{}", "ü".repeat(1000));
        let screen = SeenScreen::Quiet { by: long.clone(), since: Duration::from_secs(99) };
        let word = Word { session: Some(long.clone()), screen, inhibited_by: vec![long; 100] };
        let bound = word.within_bounds(Duration::from_secs(7));
        let SeenScreen::Quiet { by, since } = &bound.screen else { panic!("{bound:?}") };
        assert_eq!((by.chars().count(), *since), (TEXT_MAX, Duration::from_secs(7)));
        assert_eq!(bound.inhibited_by.len(), INHIBITORS_MAX);
        assert!(by.starts_with("a [31m ü") && bound.session.as_ref() == Some(by), "{bound:?}");
    }
}
