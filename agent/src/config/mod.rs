//! What the user decided: directories and settings, each resolved once at start and passed on as a value.
//!
//! ```text
//! flags > environment (IDLEWILD_*) > config.toml > defaults --> Config
//! ```
//!
//! A change of `config.toml` is noticed while the agent runs ([`Reload`]): keys that are live ([`Key::is_live`]) count at
//! once, the others from the next start on.

mod edit;
mod layer;
mod paths;
mod ranges;
mod reload;
mod schedule;
mod settings;

pub use edit::{default_file, effective_file};
pub use layer::{ConfigError, Sources, resolve, setting};
pub use paths::{Paths, PathsError};
pub use reload::{Reload, Reloaded};
pub use schedule::{Schedule, ScheduleError, WeekTime};
pub use settings::{
    ApiSettings, Backend, Config, EngineSettings, KEYS, Key, KvType, Layer, LogFormat, LogSettings, ModelSettings,
    OwnerChoice, OwnerSettings, Relay, RuleSettings, SwarmSettings,
};
