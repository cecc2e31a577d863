//! Who this peer is: an Ed25519 key that stays on the machine for which it was made.

use std::fs;
use std::path::PathBuf;

use data_encoding::HEXLOWER;
use idlewild_protocol::PeerId;
use idlewild_swarm::Identity;
use rand::TryRngCore;
use rand::rngs::OsRng;
use serde::{Deserialize, Serialize};

use super::file::{FileError, read_secret, write_secret};
use super::machine::MachineMark;
use crate::config::Paths;

const ADVICE: &str = "restore the file from a backup, or run `idlewild identity reset` for a new identity (this peer must then be invited again)";

/// The only layout of the file so far.
const FORMAT: u32 = 1;

/// The identity cannot be used. Nothing was started, nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file is not as it should be.
    #[error(transparent)]
    File(#[from] FileError),
    /// The data directory is a copy.
    #[error(
        "the identity in {directory} does not belong here: {difference}; two agents with one identity would cut each other off\n\
         hint: `idlewild identity reset` makes a new identity for this copy (it must be invited again); if the original is \
         gone for good, `idlewild identity keep` binds it to this place"
    )]
    Copied {
        /// The data directory.
        directory: PathBuf,
        /// What differs.
        difference: &'static str,
    },
    /// The system has no randomness to give.
    #[error("the system gives no random bytes for a new identity")]
    NoRandomness,
}

/// The secret from which the peer's key is made. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct IdentitySeed([u8; 32]);

impl std::fmt::Debug for IdentitySeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IdentitySeed(..)")
    }
}

impl IdentitySeed {
    /// A new one.
    pub fn generate() -> Result<Self, IdentityError> {
        let mut seed = [0; 32];
        OsRng.try_fill_bytes(&mut seed).map_err(|_| IdentityError::NoRandomness)?;
        Ok(Self(seed))
    }

    /// The secret bytes.
    pub fn seed(&self) -> [u8; 32] {
        self.0
    }

    /// What signs with it.
    pub fn identity(&self) -> Identity {
        Identity::from_seed(self.0)
    }

    /// Who has this seed.
    pub fn peer(&self) -> PeerId {
        self.identity().peer_id()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    format: u32,
    /// For people who look: made from the seed.
    peer: PeerId,
    seed: String,
    made_at: MachineMark,
}

/// The identity of this data directory; a new one where there is none. Take the [`super::DataLock`] first.
pub fn load_or_create_identity(paths: &Paths) -> Result<IdentitySeed, IdentityError> {
    let Some((seed, made_at)) = load(paths)? else {
        let seed = IdentitySeed::generate()?;
        save(paths, &seed)?;
        return Ok(seed);
    };
    let here = MachineMark::of(&paths.data);
    match here.difference(&made_at) {
        Some(difference) => Err(IdentityError::Copied { directory: paths.data.clone(), difference }),
        None => Ok(seed),
    }
}

/// Gives this data directory a new identity. The old files are kept beside it with the ending `.old`.
pub fn reset_identity(paths: &Paths) -> Result<IdentitySeed, IdentityError> {
    for path in [paths.identity_file(), paths.membership_file()] {
        let old = path.with_extension("json.old");
        match fs::rename(&path, old) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(FileError::Write { path, source: e }.into());
            }
            Ok(()) | Err(_) => {}
        }
    }
    let seed = IdentitySeed::generate()?;
    save(paths, &seed)?;
    Ok(seed)
}

/// Binds the identity to where it is now, after the directory was moved; none where there is no identity.
pub fn keep_identity(paths: &Paths) -> Result<Option<IdentitySeed>, IdentityError> {
    let Some((seed, _)) = load(paths)? else {
        return Ok(None);
    };
    save(paths, &seed)?;
    Ok(Some(seed))
}

fn load(paths: &Paths) -> Result<Option<(IdentitySeed, MachineMark)>, IdentityError> {
    let path = paths.identity_file();
    let Some(text) = read_secret(&path, ADVICE)? else {
        return Ok(None);
    };
    let damaged = |why: &str| FileError::Damaged { path: path.clone(), why: why.to_owned(), advice: ADVICE };
    let saved: Saved = serde_json::from_str(&text).map_err(|_| damaged("it is not an identity file"))?;
    if saved.format != FORMAT {
        return Err(damaged("it was written by a newer idlewild").into());
    }
    let bytes = HEXLOWER.decode(saved.seed.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
    let seed = IdentitySeed(bytes.ok_or_else(|| damaged("its seed is not 64 hexadecimal digits"))?);
    if seed.0 == [0; 32] || seed.peer() != saved.peer {
        return Err(damaged("its seed and its peer id do not fit together").into());
    }
    Ok(Some((seed, saved.made_at)))
}

fn save(paths: &Paths, seed: &IdentitySeed) -> Result<(), FileError> {
    let saved = Saved {
        format: FORMAT,
        peer: seed.peer(),
        seed: HEXLOWER.encode(&seed.0),
        made_at: MachineMark::of(&paths.data),
    };
    let path = paths.identity_file();
    let text = serde_json::to_string_pretty(&saved)
        .map_err(|e| FileError::Write { path: path.clone(), source: std::io::Error::other(e) })?;
    write_secret(&path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Paths) {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::under(dir.path());
        paths.create().unwrap();
        (dir, paths)
    }

    #[test]
    fn an_identity_is_made_once_and_kept() {
        let (_dir, paths) = home();
        let seed = load_or_create_identity(&paths).unwrap();
        assert_eq!(load_or_create_identity(&paths).unwrap(), seed);
        assert!(!format!("{seed:?}").contains(&HEXLOWER.encode(&seed.seed())[..8]));
    }

    #[test]
    fn a_copied_data_directory_is_refused_until_its_user_decides() {
        let (_dir, paths) = home();
        let original = load_or_create_identity(&paths).unwrap();
        let (_other, copy) = home();
        fs::copy(paths.identity_file(), copy.identity_file()).unwrap();
        if MachineMark::of(&copy.data).directory.is_some() {
            let error = load_or_create_identity(&copy).unwrap_err().to_string();
            assert!(error.contains("identity reset") && error.contains("identity keep"), "{error}");
        }
        assert_eq!(keep_identity(&copy).unwrap(), Some(original.clone()));
        assert_eq!(load_or_create_identity(&copy).unwrap(), original);
        let fresh = reset_identity(&copy).unwrap();
        assert_ne!(fresh, original);
        assert_eq!(load_or_create_identity(&copy).unwrap(), fresh);
        assert!(copy.data.join("identity.json.old").exists(), "nothing is lost");
    }

    #[test]
    fn another_machine_s_identity_is_refused() {
        let (_dir, paths) = home();
        load_or_create_identity(&paths).unwrap();
        let text = fs::read_to_string(paths.identity_file()).unwrap();
        let mut saved: serde_json::Value = serde_json::from_str(&text).unwrap();
        if saved["made_at"]["machine"].is_null() {
            return; // This machine has no id: there is nothing to compare.
        }
        saved["made_at"]["machine"] = "0".repeat(32).into();
        write_secret(&paths.identity_file(), &saved.to_string()).unwrap();
        let error = load_or_create_identity(&paths).unwrap_err().to_string();
        assert!(error.contains("another machine"), "{error}");
    }

    #[test]
    fn damaged_files_are_refused_with_advice_and_left_alone() {
        let (_dir, paths) = home();
        let seed = load_or_create_identity(&paths).unwrap();
        let good = fs::read_to_string(paths.identity_file()).unwrap();
        let hex = HEXLOWER.encode(&seed.seed());
        for text in [
            String::new(),
            "{}".to_owned(),
            good[..good.len() / 2].to_owned(),
            good.replace(&hex, &"0".repeat(64)),
            good.replace(&hex, "abc"),
            good.replace("\"format\": 1", "\"format\": 2"),
        ] {
            write_secret(&paths.identity_file(), &text).unwrap();
            let error = load_or_create_identity(&paths).unwrap_err().to_string();
            assert!(error.contains("hint: restore"), "{text} gave {error}");
            assert_eq!(fs::read_to_string(paths.identity_file()).unwrap(), text);
        }
    }
}
