//! What every command needs: this user's directories and settings.

use std::path::PathBuf;

use super::Exit;
use super::client::OTHERS_DIRECTORY;
use super::failure::{Failure, OrExit};
use crate::config::{Config, ConfigError, Layer, Paths, Sources, resolve};
use crate::models::ModelStore;

/// The directories, and from them the settings.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) paths: Paths,
}

impl Context {
    /// The directories under `home`, else under what `IDLEWILD_HOME` says, else where the system wants them.
    pub(super) fn new(home: Option<PathBuf>) -> Result<Self, Failure> {
        // An empty variable is as good as none, as for other programs.
        let variable = || std::env::var_os("IDLEWILD_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
        Ok(Self { paths: Paths::resolve(home.or_else(variable).as_deref()).or_exit(Exit::Usage)? })
    }

    /// The settings with these flags on top, and remarks about them.
    pub(super) fn config(&self, flags: Layer) -> Result<(Config, Vec<String>), Failure> {
        self.config_of(flags).map(|(config, _, remarks)| (config, remarks))
    }

    /// The same, with where they come from.
    pub(super) fn config_of(&self, flags: Layer) -> Result<(Config, Sources, Vec<String>), Failure> {
        let sources = Sources::of_process(flags, self.paths.config_file());
        let resolved = resolve(&sources).map_err(|error| match error {
            ConfigError::Read { .. } => Failure::new(Exit::State, error).hint(OTHERS_DIRECTORY),
            ConfigError::File { .. }
            | ConfigError::Variable { .. }
            | ConfigError::Flag { .. }
            | ConfigError::Range { .. } => Failure::new(Exit::Usage, error),
        });
        resolved.map(|(config, remarks)| (config, sources, remarks))
    }

    pub(super) fn create_directories(&self) -> Result<(), Failure> {
        self.paths.create().or_exit(Exit::State)
    }

    /// The model store that the settings name.
    pub(super) fn model_store(&self, config: &Config) -> Result<ModelStore, Failure> {
        self.create_directories()?;
        ModelStore::open(config.models_dir(&self.paths)).or_exit(Exit::Failed)
    }

    /// The same to look at only: none where there is none yet, and nothing is made.
    pub(super) fn present_model_store(&self, config: &Config) -> Result<Option<ModelStore>, Failure> {
        let dir = config.models_dir(&self.paths);
        if dir.is_dir() { ModelStore::open(dir).or_exit(Exit::Failed).map(Some) } else { Ok(None) }
    }
}
