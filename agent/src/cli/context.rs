//! What every command needs: this user's directories and settings.

use std::path::Path;

use super::Exit;
use super::failure::{Failure, OrExit};
use crate::config::{Config, Layer, Paths, Sources, resolve};
use crate::models::ModelStore;

/// The directories, and from them the settings.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) paths: Paths,
}

impl Context {
    pub(super) fn new(home: Option<&Path>) -> Result<Self, Failure> {
        Ok(Self { paths: Paths::resolve(home).or_exit(Exit::Usage)? })
    }

    /// The settings with these flags on top, and remarks about them.
    pub(super) fn config(&self, flags: Layer) -> Result<(Config, Vec<String>), Failure> {
        resolve(Sources::of_process(flags, self.paths.config_file())).or_exit(Exit::Usage)
    }

    pub(super) fn create_directories(&self) -> Result<(), Failure> {
        self.paths.create().or_exit(Exit::State)
    }

    /// The model store that the settings name.
    pub(super) fn model_store(&self, config: &Config) -> Result<ModelStore, Failure> {
        self.create_directories()?;
        ModelStore::open(config.models_dir(&self.paths)).or_exit(Exit::Failed)
    }
}
