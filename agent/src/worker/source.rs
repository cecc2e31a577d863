//! Where a worker's models come from.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use idlewild_engine::ModelFile;
use idlewild_protocol::{ModelId, ModelInfo};

/// A file, or why there is none, in words for the origin.
pub type FileAnswer<'a> = Pin<Box<dyn Future<Output = Result<ModelFile, String>> + Send + 'a>>;

/// The models that this peer can load.
pub trait ModelSource: fmt::Debug + Send + Sync {
    /// What they are. From memory: called once a second.
    fn list(&self) -> Vec<ModelInfo>;

    /// The file of one. May read the disk.
    fn file(&self, id: ModelId) -> FileAnswer<'_>;
}

/// A source of one model without a file: the fake engine's.
#[derive(Debug, Clone)]
pub struct OneModel(pub ModelInfo);

impl ModelSource for OneModel {
    fn list(&self) -> Vec<ModelInfo> {
        vec![self.0.clone()]
    }

    fn file(&self, id: ModelId) -> FileAnswer<'_> {
        let file = if id == self.0.id {
            Ok(ModelFile { path: "fake".into(), id, verify: false, name: self.0.name.clone() })
        } else {
            Err("this peer does not have it".to_owned())
        };
        Box::pin(std::future::ready(file))
    }
}
