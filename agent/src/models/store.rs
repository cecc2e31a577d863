//! The store: blobs named by their hash, and the names that people use.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use idlewild_protocol::{MAX_NAME_BYTES, ModelId, ModelInfo};
use sha2::{Digest, Sha256};

use super::catalogue::{Catalogue, Entry, Stamp, file_of};
use super::copying;
use super::gguf::{GgufError, GgufHeader, read_gguf_header};
use crate::store::open_regular;

/// Bytes that are read, hashed and written at a time.
const COPY_BYTES: usize = 1024 * 1024;

/// A shorter beginning of an id names too many models.
pub const MIN_ID_PREFIX: usize = 8;

/// Names that an error lists.
const MAX_NAMES_IN_ERROR: usize = 10;

/// A model cannot be had. The store is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// No model is called that.
    #[error("no model is called {asked:?} here\nhint: {known}")]
    NotFound {
        /// What was asked for.
        asked: String,
        /// What there is, in words.
        known: String,
    },
    /// More than one model is meant.
    #[error("{asked:?} may mean {candidates}\nhint: write one of these names in full")]
    Ambiguous {
        /// What was asked for.
        asked: String,
        /// What it may mean.
        candidates: String,
    },
    /// The file is not a model that can be used.
    #[error("{path} cannot be used as a model")]
    Gguf {
        /// The file.
        path: PathBuf,
        /// Why.
        source: GgufError,
    },
    /// Another model has the name.
    #[error("another model is called {name:?} already\nhint: give this one a name of its own with --name")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The name cannot be one.
    #[error("{name:?} cannot be a model's name: it takes 1 to 96 letters, digits and . _ - : /")]
    BadName {
        /// The name.
        name: String,
    },
    /// A blob is gone or has another length than it had.
    #[error("the file of model {name:?} is missing or has changed its length ({path})\nhint: import it again")]
    Gone {
        /// The model.
        name: String,
        /// Its blob.
        path: PathBuf,
    },
    /// The disk is full.
    #[error("the disk has no room for {bytes} bytes at {path} ({free_bytes} are free); nothing was kept of the copy")]
    Full {
        /// The store's directory.
        path: PathBuf,
        /// Bytes of the model.
        bytes: u64,
        /// Bytes that are free, as far as is known.
        free_bytes: u64,
    },
    /// A file cannot be read or written.
    #[error("could not use {path}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Raised inside changes of the catalogue, which know no path.
impl From<io::Error> for ModelError {
    fn from(source: io::Error) -> Self {
        Self::Io { path: PathBuf::from("models.json"), source }
    }
}

/// A model in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredModel {
    /// What it is.
    pub info: ModelInfo,
    /// Such as `llama`.
    pub architecture: String,
    /// Its file.
    pub path: PathBuf,
    /// Whether the file is the one that was hashed, by its size, time and inode.
    pub is_unchanged: bool,
}

/// What the engine is told to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelToLoad {
    /// The file.
    pub path: PathBuf,
    /// The hash that it must have.
    pub id: ModelId,
    /// Whether the hash must be computed again before the file is used.
    pub verify: bool,
    /// The model's name.
    pub name: String,
}

/// The models in one directory. Cheap to clone; several processes may use the same directory. Its calls touch the disk:
/// a server makes them where it may block.
#[derive(Debug, Clone)]
pub struct ModelStore {
    dir: PathBuf,
}

impl ModelStore {
    /// Opens the store in `dir`, made if need be.
    pub fn open(dir: PathBuf) -> Result<Self, ModelError> {
        let blobs = dir.join("blobs");
        fs::create_dir_all(&blobs).map_err(|source| ModelError::Io { path: blobs, source })?;
        let store = Self { dir };
        store.read()?;
        Ok(store)
    }

    /// Every model whose file is there, by name.
    pub fn list(&self) -> Result<Vec<StoredModel>, ModelError> {
        let mut models: Vec<StoredModel> =
            self.read()?.models.into_iter().filter_map(|entry| self.look_at(entry)).collect();
        models.sort_by(|a, b| a.info.name.cmp(&b.info.name));
        Ok(models)
    }

    /// The model with this id.
    pub fn find(&self, id: ModelId) -> Result<Option<StoredModel>, ModelError> {
        Ok(self.list()?.into_iter().find(|model| model.info.id == id))
    }

    /// The model that `asked` means: an id or its beginning, a name in any case, or the beginning of one name only.
    pub fn resolve(&self, asked: &str) -> Result<StoredModel, ModelError> {
        let models = self.list()?;
        let wanted = asked.trim().to_lowercase();
        let is_hex = wanted.len() >= MIN_ID_PREFIX && wanted.bytes().all(|b| b.is_ascii_hexdigit());
        let tests: [&dyn Fn(&StoredModel) -> bool; 3] = [
            &|model| model.info.name.to_lowercase() == wanted,
            &|model| is_hex && model.info.id.to_string().starts_with(&wanted),
            &|model| !wanted.is_empty() && model.info.name.to_lowercase().starts_with(&wanted),
        ];
        for test in tests {
            let mut fit: Vec<&StoredModel> = models.iter().filter(|model| test(model)).collect();
            match (fit.pop(), fit.is_empty()) {
                (None, _) => {}
                (Some(only), true) => return Ok(only.clone()),
                (Some(last), false) => {
                    fit.push(last);
                    let candidates = names(fit.iter().map(|model| model.info.name.as_str()));
                    return Err(ModelError::Ambiguous { asked: asked.to_owned(), candidates });
                }
            }
        }
        let known = match models.len() {
            0 => "there are no models yet: idlewild models import FILE.gguf".to_owned(),
            _ => format!("there are {}", names(models.iter().map(|model| model.info.name.as_str()))),
        };
        Err(ModelError::NotFound { asked: asked.to_owned(), known })
    }

    /// Looks at the model's file once more, as is right before each load.
    pub fn to_load(&self, id: ModelId) -> Result<ModelToLoad, ModelError> {
        let entry = self.read()?.models.into_iter().find(|entry| entry.info.id == id);
        let entry = entry.ok_or_else(|| ModelError::NotFound {
            asked: id.to_string(),
            known: "idlewild models list shows what there is".to_owned(),
        })?;
        let name = entry.info.name.clone();
        match self.look_at(entry) {
            Some(model) => Ok(ModelToLoad { path: model.path, id, verify: !model.is_unchanged, name }),
            None => Err(ModelError::Gone { name, path: self.blob(id) }),
        }
    }

    /// Remembers that the model's file, as it is now, was hashed and found right.
    pub fn confirm(&self, id: ModelId) -> Result<(), ModelError> {
        let path = self.blob(id);
        let about = fs::metadata(&path).map_err(|source| ModelError::Io { path, source })?;
        Catalogue::change(&self.dir, |catalogue| {
            for entry in catalogue.models.iter_mut().filter(|entry| entry.info.id == id) {
                entry.verified = Stamp::of(&about);
            }
            Ok(())
        })
    }

    /// Removes what imports that were killed have left. Gives how many files that were.
    pub fn clear_leftovers(&self) -> Result<usize, ModelError> {
        copying::clear(&self.dir).map_err(|source| ModelError::Io { path: self.dir.clone(), source })
    }

    /// Copies a GGUF file into the store. `progress` is told how many bytes of how many are done. A model that is there
    /// already is not copied; it takes the new name if one is given.
    pub fn import(
        &self,
        file: &Path,
        name: Option<&str>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<StoredModel, ModelError> {
        let failed = |source| ModelError::Io { path: file.to_owned(), source };
        let mut source = open_regular(file).map_err(failed)?;
        let about = source.metadata().map_err(failed)?;
        self.clear_leftovers()?;
        let header = File::open(file).map_err(failed).and_then(|head| {
            read_gguf_header(head, about.len()).map_err(|source| ModelError::Gguf { path: file.to_owned(), source })
        })?;
        name.map_or(Ok(()), check_name)?;
        if let Some(free_bytes) = copying::free_bytes(&self.dir).filter(|free| *free < about.len()) {
            return Err(ModelError::Full { path: self.dir.clone(), bytes: about.len(), free_bytes });
        }
        let (copy, id) =
            self.copy(&mut source, about.len(), progress).map_err(|e| self.explain(e, file, about.len()))?;
        let name = match name {
            Some(name) => name.to_owned(),
            None => self.find(id)?.map_or_else(|| name_from(file, &header), |known| known.info.name),
        };
        check_name(&name)?;
        let info = ModelInfo { id, name, size_bytes: about.len(), context_tokens: header.context_tokens };
        self.keep(info, header.architecture, |blob| copy.persist(blob).map(drop).map_err(|e| e.error))
    }

    /// Takes a model over from another store, by a link to its file where the file system allows it, else by a copy.
    pub fn adopt(&self, model: &StoredModel) -> Result<StoredModel, ModelError> {
        self.keep(model.info.clone(), model.architecture.clone(), |blob| {
            fs::hard_link(&model.path, blob).or_else(|_| fs::copy(&model.path, blob).map(drop))
        })
    }

    fn keep(
        &self,
        info: ModelInfo,
        architecture: String,
        place: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<StoredModel, ModelError> {
        let blob = self.blob(info.id);
        Catalogue::change(&self.dir, |catalogue| {
            let taken = |entry: &Entry| entry.info.id != info.id && entry.info.name.eq_ignore_ascii_case(&info.name);
            if catalogue.models.iter().any(taken) {
                return Err(ModelError::NameTaken { name: info.name.clone() });
            }
            let failed = |source| ModelError::Io { path: blob.clone(), source };
            if !fs::metadata(&blob).is_ok_and(|about| about.len() == info.size_bytes) {
                place(&blob).map_err(failed)?;
                protect(&blob).map_err(failed)?;
            }
            let verified = Stamp::of(&fs::metadata(&blob).map_err(failed)?);
            let entry = Entry { info, architecture, verified };
            catalogue.models.retain(|known| known.info.id != entry.info.id);
            catalogue.models.push(entry.clone());
            Ok(StoredModel {
                info: entry.info,
                architecture: entry.architecture,
                path: blob.clone(),
                is_unchanged: true,
            })
        })
    }

    fn copy(
        &self,
        source: &mut File,
        total: u64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> io::Result<(tempfile::NamedTempFile, ModelId)> {
        let mut copy = copying::begin(&self.dir)?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; COPY_BYTES];
        let mut done = 0;
        loop {
            let read = source.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
            copy.write_all(&buffer[..read])?;
            done += read as u64;
            progress(done, total);
        }
        if done != total {
            return Err(io::Error::other("it changed while it was read"));
        }
        copy.as_file().sync_all()?;
        Ok((copy, ModelId(hash.finalize().into())))
    }

    fn explain(&self, error: io::Error, file: &Path, bytes: u64) -> ModelError {
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            let free_bytes = copying::free_bytes(&self.dir).unwrap_or_default();
            ModelError::Full { path: self.dir.clone(), bytes, free_bytes }
        } else {
            ModelError::Io { path: file.to_owned(), source: error }
        }
    }

    fn read(&self) -> Result<Catalogue, ModelError> {
        Catalogue::read(&self.dir).map_err(|source| ModelError::Io { path: file_of(&self.dir), source })
    }

    /// The model with its file as it is now; none where the file is gone or has another length.
    fn look_at(&self, entry: Entry) -> Option<StoredModel> {
        let path = self.blob(entry.info.id);
        let about = fs::metadata(&path).ok().filter(|about| about.len() == entry.info.size_bytes)?;
        let is_unchanged = entry.verified.is_of(&about);
        Some(StoredModel { info: entry.info, architecture: entry.architecture, path, is_unchanged })
    }

    fn blob(&self, id: ModelId) -> PathBuf {
        self.dir.join("blobs").join(format!("sha256-{}", HEXLOWER.encode(&id.0)))
    }
}

/// Nobody changes a blob in place: its name says what is in it.
#[cfg(unix)]
fn protect(blob: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(blob, fs::Permissions::from_mode(0o400))
}

#[cfg(not(unix))]
fn protect(_blob: &Path) -> io::Result<()> {
    // A read-only attribute would keep the user from deleting the file.
    Ok(())
}

fn names<'a>(all: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = all.len().saturating_sub(MAX_NAMES_IN_ERROR);
    let text = all.take(MAX_NAMES_IN_ERROR).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

/// The file's name without its ending; for files that are named by a hash, the maker's name.
fn name_from(file: &Path, header: &GgufHeader) -> String {
    let stem = file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let is_hash = stem.trim_start_matches("sha256-").bytes().all(|b| b.is_ascii_hexdigit());
    let name = if is_hash { header.name.clone().unwrap_or(stem) } else { stem };
    let fit = |c: char| {
        if is_name_char(c) { c.to_ascii_lowercase() } else { '-' }
    };
    name.chars().map(fit).take(MAX_NAME_BYTES).collect()
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-:/".contains(c)
}

fn check_name(name: &str) -> Result<(), ModelError> {
    let fits = (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(is_name_char);
    if fits { Ok(()) } else { Err(ModelError::BadName { name: name.to_owned() }) }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
