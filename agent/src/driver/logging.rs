//! Logs to stderr: text for people, JSON for machines.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::config::{LogFormat, LogSettings};

/// Logs cannot be written as configured.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level is not one.
    #[error("log.level {level:?} is neither a level nor a list of directives ({why}); try \"info\"")]
    Level {
        /// As configured.
        level: String,
        /// What is wrong with it.
        why: String,
    },
    /// Something else logs in this process already.
    #[error("logging was started twice")]
    Twice(#[source] TryInitError),
}

/// Starts logging for the whole process, in colours if so.
pub fn start_logging(settings: &LogSettings, is_coloured: bool) -> Result<(), LogError> {
    let filter = EnvFilter::try_new(&settings.level)
        .map_err(|error| LogError::Level { level: settings.level.clone(), why: error.to_string() })?;
    // It logs an error for each multicast that fails; the swarm says it once, in words.
    let mdns_off = "libp2p_mdns=off"
        .parse()
        .map_err(|error| LogError::Level { level: settings.level.clone(), why: format!("{error}") })?;
    let registry = tracing_subscriber::registry().with(filter.add_directive(mdns_off));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(is_coloured);
    match settings.format {
        LogFormat::Text => registry.with(lines).try_init(),
        LogFormat::Json => registry.with(lines.json()).try_init(),
    }
    .map_err(LogError::Twice)
}
