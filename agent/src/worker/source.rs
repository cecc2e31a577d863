//! Where a worker's models come from.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use idlewild_engine::{DoublesAt, ModelFile};
use idlewild_protocol::{ModelId, ModelInfo};
use tracing::warn;

use crate::models::ModelStore;

/// A file, or why there is none, in words for the origin.
pub type FileAnswer<'a> = Pin<Box<dyn Future<Output = Result<ModelFile, String>> + Send + 'a>>;

/// The list is being brought up to date.
pub type Reading<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The models that this peer can load.
pub trait ModelSource: fmt::Debug + Send + Sync {
    /// What they are. From memory: called once a second.
    fn list(&self) -> Vec<ModelInfo>;

    /// Brings the list up to date, some time soon. Called once a second inside tokio.
    fn refresh(&self);

    /// Brings the list up to date; resolves when it is.
    fn reread(&self) -> Reading<'_>;

    /// The file of one. May read the disk.
    fn file(&self, id: ModelId) -> FileAnswer<'_>;

    /// The engine has loaded the file that was to be verified, and found it right.
    fn confirm(&self, id: ModelId);
}

/// A source of one model without a file: the fake engine's.
#[derive(Debug, Clone)]
pub struct OneModel(pub ModelInfo);

impl ModelSource for OneModel {
    fn list(&self) -> Vec<ModelInfo> {
        vec![self.0.clone()]
    }

    fn refresh(&self) {}

    fn reread(&self) -> Reading<'_> {
        Box::pin(std::future::ready(()))
    }

    fn file(&self, id: ModelId) -> FileAnswer<'_> {
        let file = if id == self.0.id {
            Ok(ModelFile {
                path: "fake".into(),
                id,
                verify: false,
                name: self.0.name.clone(),
                doubles_at: DoublesAt::default(),
            })
        } else {
            Err("this peer does not have it".to_owned())
        };
        Box::pin(std::future::ready(file))
    }

    fn confirm(&self, _id: ModelId) {}
}

/// How often the directory is read: models are added and removed by people.
const REFRESH: Duration = Duration::from_secs(5);

/// What is known of the directory.
#[derive(Debug, Default)]
struct Known {
    models: Vec<ModelInfo>,
    read_at: Option<Instant>,
}

/// The models in the store's directory.
#[derive(Debug, Clone)]
pub struct StoredModels {
    store: ModelStore,
    known: Arc<Mutex<Known>>,
    /// Held while the directory is read: a slow reading must not put an old list in the place of a newer one.
    reading: Arc<Mutex<()>>,
}

impl StoredModels {
    /// Reads the directory once; blocks for it.
    pub fn new(store: ModelStore) -> Self {
        let source = Self { store, known: Arc::default(), reading: Arc::default() };
        source.read();
        source
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) {
        let _one_at_a_time = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        match self.store.list() {
            Ok(models) => self.known().models = models.into_iter().map(|model| model.info).collect(),
            Err(error) => warn!(%error, "the models cannot be listed; the last list stays"),
        }
    }
}

impl ModelSource for StoredModels {
    fn list(&self) -> Vec<ModelInfo> {
        self.known().models.clone()
    }

    fn refresh(&self) {
        let mut known = self.known();
        if known.read_at.is_some_and(|at| at.elapsed() < REFRESH) {
            return;
        }
        known.read_at = Some(Instant::now());
        drop(known);
        let source = self.clone();
        tokio::task::spawn_blocking(move || source.read());
    }

    fn reread(&self) -> Reading<'_> {
        let source = self.clone();
        Box::pin(async move {
            if tokio::task::spawn_blocking(move || source.read()).await.is_err() {
                warn!("the models could not be listed; the last list stays");
            }
        })
    }

    fn file(&self, id: ModelId) -> FileAnswer<'_> {
        let store = self.store.clone();
        Box::pin(async move {
            let looked = tokio::task::spawn_blocking(move || store.to_load(id)).await;
            let model = looked.map_err(|_| "the model store failed".to_owned())?.map_err(|error| error.to_string())?;
            Ok(ModelFile {
                path: model.path,
                id: model.id,
                verify: model.verify,
                name: model.name,
                doubles_at: DoublesAt::default(),
            })
        })
    }

    fn confirm(&self, id: ModelId) {
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = store.confirm(id) {
                warn!(%error, "a checked model will be checked again before the next load");
            }
        });
    }
}
