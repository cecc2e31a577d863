//! The key of the local HTTP API.

use data_encoding::BASE32_NOPAD;
use rand::TryRngCore;
use rand::rngs::OsRng;

use super::file::{FileError, read_secret, write_secret};
use crate::config::Paths;

/// A shorter key could be guessed.
const MIN_KEY_CHARS: usize = 16;

const ADVICE: &str = "remove the file and a new key is made at the next start";

/// The key in `state/api-key`; a new one is made where there is none.
pub fn load_or_create_api_key(paths: &Paths) -> Result<String, FileError> {
    let path = paths.api_key_file();
    if let Some(text) = read_secret(&path, ADVICE)? {
        let key = text.trim();
        let damaged = |why: &str| FileError::Damaged { path: path.clone(), why: why.to_owned(), advice: ADVICE };
        if key.chars().count() < MIN_KEY_CHARS {
            return Err(damaged("the key is shorter than 16 characters"));
        }
        if !key.chars().all(|c| c.is_ascii_graphic()) {
            return Err(damaged("a key is one word of printable ASCII characters"));
        }
        return Ok(key.to_owned());
    }
    let mut bytes = [0; 32];
    OsRng.try_fill_bytes(&mut bytes).map_err(|_| FileError::Write {
        path: path.clone(),
        source: std::io::Error::other("the system gives no random bytes"),
    })?;
    let key = format!("idw-{}", BASE32_NOPAD.encode(&bytes).to_ascii_lowercase());
    write_secret(&path, &format!("{key}\n"))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::under(dir.path());
        paths.create().unwrap();
        let key = load_or_create_api_key(&paths).unwrap();
        assert_eq!(key.len(), 4 + 52);
        assert_eq!(load_or_create_api_key(&paths).unwrap(), key);
    }

    #[test]
    fn an_empty_or_weak_key_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::under(dir.path());
        paths.create().unwrap();
        for (text, expected) in [("", "is empty"), ("short", "shorter than 16"), ("two words, long enough", "one word")]
        {
            write_secret(&paths.api_key_file(), text).unwrap();
            let error = load_or_create_api_key(&paths).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("hint: remove the file"), "{error}");
        }
    }
}
