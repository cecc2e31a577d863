//! Behaviours of the model store.

use super::super::gguf::tests::sample;
use super::*;

struct Home {
    dir: tempfile::TempDir,
    store: ModelStore,
}

fn home() -> Home {
    let dir = tempfile::tempdir().unwrap();
    let store = ModelStore::open(dir.path().join("models")).unwrap();
    Home { dir, store }
}

impl Home {
    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn import(&self, name: &str, context_tokens: u32) -> StoredModel {
        let file = self.file(&format!("{name}.gguf"), &sample(name, context_tokens));
        self.store.import(&file, None, &mut |_, _| {}).unwrap()
    }

    fn blobs(&self) -> usize {
        fs::read_dir(self.dir.path().join("models/blobs")).unwrap().count()
    }
}

#[test]
fn an_imported_file_is_found_by_name_and_by_hash() {
    let home = home();
    let bytes = sample("Smol", 2048);
    let file = home.file("SmolLM2-135M-Instruct-Q4_1.gguf", &bytes);
    let mut seen = (0, 0);
    let model = home.store.import(&file, None, &mut |done, total| seen = (done, total)).unwrap();
    assert_eq!(seen, (bytes.len() as u64, bytes.len() as u64));
    assert_eq!(model.info.id.0, <[u8; 32]>::from(Sha256::digest(&bytes)));
    assert_eq!((model.info.name.as_str(), model.info.context_tokens), ("smollm2-135m-instruct-q4_1", 2048));
    assert_eq!(fs::read(&model.path).unwrap(), bytes);
    let id = model.info.id.to_string();
    for asked in ["smollm2-135m-instruct-q4_1", "SmolLM2-135M-Instruct-Q4_1", "smol", &id, &id[..8], &id.to_uppercase()]
    {
        assert_eq!(home.store.resolve(asked).unwrap(), model, "{asked}");
    }
    assert_eq!(home.store.list().unwrap(), std::slice::from_ref(&model));
    assert_eq!(home.store.find(model.info.id).unwrap(), Some(model));
}

#[test]
fn a_name_that_fits_none_or_several_is_an_error_that_lists_them() {
    let home = home();
    let none = home.store.resolve("x").unwrap_err().to_string();
    assert!(none.contains("models import"), "{none}");
    home.import("smol-a", 1);
    home.import("smol-b", 2);
    let several = home.store.resolve("smol").unwrap_err().to_string();
    assert!(several.contains("smol-a, smol-b"), "{several}");
    let none = home.store.resolve("gpt").unwrap_err().to_string();
    assert!(none.contains("there are smol-a, smol-b"), "{none}");
    assert!(matches!(home.store.resolve(""), Err(ModelError::NotFound { .. })));
}

#[test]
fn importing_a_file_again_keeps_the_name_that_it_has() {
    let home = home();
    let file = home.file("Long-Name.gguf", &sample("x", 1));
    let import = |name| home.store.import(&file, name, &mut |_, _| {}).unwrap().info.name;
    assert_eq!([import(None), import(Some("short")), import(None)], ["long-name", "short", "short"]);
}

#[test]
fn an_exact_name_wins_over_a_longer_one() {
    let home = home();
    let short = home.import("smol", 1);
    home.import("smol-b", 2);
    assert_eq!(home.store.resolve("smol").unwrap(), short);
}

#[test]
fn the_same_file_twice_is_one_model_and_may_be_renamed() {
    let home = home();
    let first = home.import("a", 1);
    let file = home.file("again.gguf", &sample("a", 1));
    let second = home.store.import(&file, Some("other-name"), &mut |_, _| {}).unwrap();
    assert_eq!(second.info.id, first.info.id);
    assert_eq!(home.store.list().unwrap().len(), 1);
    assert_eq!(home.store.resolve("other-name").unwrap(), second);
    assert_eq!(home.blobs(), 1, "no copy is left behind");
}

#[test]
fn two_models_cannot_have_one_name() {
    let home = home();
    home.import("a", 1);
    let file = home.file("b.gguf", &sample("b", 1));
    let error = home.store.import(&file, Some("A"), &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("--name"), "{error}");
    assert_eq!(home.blobs(), 1, "no copy is left behind");
    for name in ["", "a b", "ä", &"x".repeat(97)] {
        assert!(matches!(home.store.import(&file, Some(name), &mut |_, _| {}), Err(ModelError::BadName { .. })));
    }
}

#[test]
fn a_corrupt_or_truncated_file_leaves_nothing_behind() {
    let home = home();
    let whole = sample("a", 1);
    let cases = [
        (b"PK\x03\x04 not a model".to_vec(), "not a GGUF"),
        (whole[..whole.len() - 1].to_vec(), "truncated"),
        (whole[..40].to_vec(), "truncated"),
        (vec![], "not a GGUF"),
    ];
    for (bytes, expected) in cases {
        let file = home.file("bad.gguf", &bytes);
        let error = home.store.import(&file, None, &mut |_, _| {}).unwrap_err();
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert!(error.to_string().contains("bad.gguf") && why.contains(expected), "{error}: {why}");
    }
    assert!(matches!(home.store.import(home.dir.path(), None, &mut |_, _| {}), Err(ModelError::Io { .. })));
    assert_eq!(home.blobs(), 0);
    assert!(home.store.list().unwrap().is_empty());
}

#[test]
fn an_unchanged_file_is_loaded_without_hashing_and_a_touched_one_is_verified_again() {
    let home = home();
    let model = home.import("a", 1);
    assert!(!home.store.to_load(model.info.id).unwrap().verify);
    // A copy put in its place: same bytes, another inode.
    let copy = home.file("copy", &fs::read(&model.path).unwrap());
    fs::rename(copy, &model.path).unwrap();
    assert!(home.store.to_load(model.info.id).unwrap().verify);
    assert!(!home.store.find(model.info.id).unwrap().unwrap().is_unchanged);
    home.store.confirm(model.info.id).unwrap();
    assert!(!home.store.to_load(model.info.id).unwrap().verify);
}

#[cfg(unix)]
#[test]
fn a_file_changed_in_place_is_verified_again_whatever_its_time_says() {
    use std::os::unix::fs::PermissionsExt;
    let home = home();
    let model = home.import("a", 1);
    let modified = fs::metadata(&model.path).unwrap().modified().unwrap();
    fs::set_permissions(&model.path, fs::Permissions::from_mode(0o600)).unwrap();
    let mut bytes = fs::read(&model.path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    // The clock of a file system ticks every few milliseconds.
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(&model.path, bytes).unwrap();
    File::options().write(true).open(&model.path).unwrap().set_modified(modified).unwrap();
    assert!(home.store.to_load(model.info.id).unwrap().verify);
}

#[test]
fn what_a_killed_import_left_is_cleared_and_what_another_writes_is_not() {
    let home = home();
    let blobs = home.dir.path().join("models/blobs");
    for left in [blobs.join(".tmpA1b2C3"), home.dir.path().join("models/.tmpZ9y8X7")] {
        fs::write(left, "a part").unwrap();
    }
    let writing = copying::begin(&home.dir.path().join("models")).unwrap();
    assert_eq!(home.store.clear_leftovers().unwrap(), 2);
    assert!(writing.path().exists() && home.blobs() == 1);
    drop(writing);
    fs::write(blobs.join(".tmpA1b2C3"), "a part").unwrap();
    home.import("a", 1);
    assert_eq!(home.blobs(), 1, "the next import clears it too");
}

#[cfg(unix)]
#[test]
fn a_fifo_is_not_waited_for() {
    let home = home();
    let fifo = home.dir.path().join("fifo.gguf");
    crate::store::make_fifo(&fifo).unwrap();
    assert!(matches!(home.store.import(&fifo, None, &mut |_, _| {}), Err(ModelError::Io { .. })));
}

#[test]
fn a_missing_or_shortened_blob_is_not_offered() {
    let home = home();
    let model = home.import("a", 1);
    let short = home.file("short", b"GGUF");
    fs::rename(short, &model.path).unwrap();
    assert!(home.store.list().unwrap().is_empty());
    let error = home.store.to_load(model.info.id).unwrap_err().to_string();
    assert!(error.contains("import it again"), "{error}");
    fs::remove_file(&model.path).unwrap();
    assert!(home.store.list().unwrap().is_empty());
    let again = home.import("a", 1);
    assert_eq!(home.store.list().unwrap(), [again], "importing it again repairs it");
}

#[test]
fn another_store_s_model_is_adopted_without_a_second_copy() {
    let (one, two) = (home(), home());
    let model = one.import("a", 1);
    let adopted = two.store.adopt(&model).unwrap();
    assert_eq!(adopted.info, model.info);
    assert!(!two.store.to_load(model.info.id).unwrap().verify);
    assert!(!one.store.to_load(model.info.id).unwrap().verify, "a link is no change");
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::MetadataExt::nlink(&fs::metadata(&adopted.path).unwrap()), 2);
}

#[test]
fn a_damaged_catalogue_is_an_error_and_not_an_empty_store() {
    let home = home();
    home.import("a", 1);
    fs::write(home.dir.path().join("models/models.json"), "{").unwrap();
    let error = home.store.list().unwrap_err().to_string();
    assert!(error.contains("models.json"), "{error}");
}

#[test]
fn two_processes_that_import_at_once_lose_nothing() {
    let home = home();
    std::thread::scope(|scope| {
        for n in 0..8_u32 {
            let home = &home;
            scope.spawn(move || home.import(&format!("m{n}"), n + 1));
        }
    });
    assert_eq!(home.store.list().unwrap().len(), 8);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_keeps_nothing_of_the_copy_and_says_what_was_needed() {
    let Some(disk) = crate::store::tiny_disk::TinyDisk::mount() else { return };
    let store = ModelStore::open(disk.path().join("models")).unwrap();
    let home = home();
    let mut bytes = sample("big", 1);
    bytes.resize(3 * 1024 * 1024, 0);
    let file = home.file("big.gguf", &bytes);
    let error = store.import(&file, None, &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, ModelError::Full { bytes: 3_145_728, free_bytes: ..1_048_577, .. }), "{error:?}");
    assert_eq!(fs::read_dir(disk.path().join("models/blobs")).unwrap().count(), 0, "a part of the copy was kept");
    assert!(store.list().unwrap().is_empty());
}
