//! What the user decided: directories and settings, each resolved once at start and passed on as a value.
//!
//! ```text
//! flags > environment (IDLEWILD_*) > config.toml > defaults --> Config
//! ```
//!
//! Deliberately absent: reloading. A change of `config.toml` counts from the next start on.

mod edit;
mod layer;
mod paths;
mod ranges;
mod settings;

pub use edit::{default_file, effective_file};
pub use layer::{ConfigError, Sources, resolve, setting};
pub use paths::{Paths, PathsError};
pub use settings::{
    ApiSettings, Backend, Config, EngineSettings, KEYS, Key, KvType, Layer, LogFormat, LogSettings, ModelSettings,
    OwnerChoice, OwnerSettings, SwarmSettings,
};
