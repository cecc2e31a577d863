//! Whether a file is the model that it is said to be, before llama.cpp sees a byte of it.

use std::fs::File;
use std::io::{self, Read};

use idlewild_protocol::ModelId;
use sha2::{Digest, Sha256};

use crate::{LoadFailure, ModelFile};

/// How every GGUF file begins.
const MAGIC: [u8; 4] = *b"GGUF";

/// Bytes read at once.
const BLOCK_BYTES: usize = 1024 * 1024;

/// Checks the file's first bytes and, where asked to, its hash.
pub(crate) fn verify(file: &ModelFile) -> Result<(), LoadFailure> {
    let unreadable = |error: io::Error| LoadFailure::Unreadable(error.to_string());
    let mut reader = File::open(&file.path).map_err(unreadable)?;
    let mut magic = [0; MAGIC.len()];
    match reader.read_exact(&mut magic) {
        Ok(()) if magic == MAGIC => {}
        Ok(()) => return Err(LoadFailure::NotGguf),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(LoadFailure::NotGguf),
        Err(error) => return Err(unreadable(error)),
    }
    if file.verify {
        let found = hash(&magic, reader).map_err(unreadable)?;
        if found != file.id {
            return Err(LoadFailure::WrongHash { expected: file.id.to_string(), found: found.to_string() });
        }
    }
    Ok(())
}

fn hash(begin: &[u8], mut rest: impl Read) -> io::Result<ModelId> {
    let mut hasher = Sha256::new_with_prefix(begin);
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match rest.read(&mut block) {
            Ok(0) => return Ok(ModelId(hasher.finalize().into())),
            Ok(count) => hasher.update(&block[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;

    use super::*;
    use crate::DoublesAt;

    fn file_of(bytes: &[u8], id: ModelId) -> (tempfile::NamedTempFile, ModelFile) {
        let mut temporary = tempfile::NamedTempFile::new().unwrap();
        temporary.write_all(bytes).unwrap();
        let path = temporary.path().to_path_buf();
        (temporary, ModelFile { path, id, verify: true, name: "m".to_owned(), doubles_at: DoublesAt::default() })
    }

    #[test]
    fn the_hash_of_the_whole_file_decides() {
        let bytes = [b"GGUF".to_vec(), vec![7; BLOCK_BYTES + 5]].concat();
        let id = ModelId(Sha256::digest(&bytes).into());
        let (_keep, file) = file_of(&bytes, id);
        assert_eq!(verify(&file), Ok(()));
        let (_keep, other) = file_of(&bytes, ModelId([1; 32]));
        let expected = LoadFailure::WrongHash { expected: ModelId([1; 32]).to_string(), found: id.to_string() };
        assert_eq!(verify(&other), Err(expected));
        assert_eq!(verify(&ModelFile { verify: false, ..other }), Ok(()));
    }

    #[test]
    fn other_files_are_refused_by_their_first_bytes() {
        for bytes in [&b""[..], b"GG", b"PK\x03\x04 and more", b"gguf"] {
            let (_keep, file) = file_of(bytes, ModelId([0; 32]));
            assert_eq!(verify(&file), Err(LoadFailure::NotGguf), "{bytes:?}");
        }
    }

    #[test]
    fn a_missing_file_is_unreadable() {
        let path = PathBuf::from("/nonexistent/model.gguf");
        let file = ModelFile {
            path,
            id: ModelId([0; 32]),
            verify: false,
            name: "m".to_owned(),
            doubles_at: DoublesAt::default(),
        };
        assert!(matches!(verify(&file), Err(LoadFailure::Unreadable(_))));
    }
}
