//! Tables of sessions on disk, read within bounds.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use idlewild_coordinator::hazard::record::{Record, TableError};

use super::super::Exit;
use super::super::failure::Failure;

/// The longest table that is read. The largest public ones have some megabytes.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// The text of a file.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    let failed = |error| {
        let context = format!("could not read {}", path.display());
        Failure::new(Exit::Usage, anyhow::Error::new(error).context(context))
    };
    let mut bytes = Vec::new();
    fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::words(Exit::Usage, format!("{} is longer than 256 MiB", path.display())));
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::words(Exit::Usage, format!("{} is not a text in UTF-8", path.display())))
}

/// What is wrong with a table.
pub(super) fn wrong(path: &Path, error: TableError) -> Failure {
    Failure::words(Exit::Usage, format!("{}: {error}", path.display()))
}

/// A record of many hosts, with the time zones of the table of windows that lies beside it, if one does.
pub(super) fn record(path: &Path) -> Result<Record, Failure> {
    let mut record = Record::parse(&read(path)?)
        .map_err(|error| wrong(path, error).hint("a table of sessions looks like this: host,start_s,end_s,censored"))?;
    for windows in windows_beside(path).into_iter().filter(|windows| windows.is_file()).take(1) {
        record.add_zones(&read(&windows)?).map_err(|error| wrong(&windows, error))?;
    }
    Ok(record)
}

/// Where the windows of `a.csv` may be: `a.windows.csv`; of `a.part.csv` also `a.windows.part.csv`.
fn windows_beside(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let Some(stem) = name.strip_suffix(".csv") else { return Vec::new() };
    let of_part = stem.rsplit_once('.').map(|(set, part)| format!("{set}.windows.{part}.csv"));
    of_part.into_iter().chain([format!("{stem}.windows.csv")]).map(|name| path.with_file_name(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_looked_for_beside_their_table() {
        let beside = |path: &str| windows_beside(Path::new(path));
        assert_eq!(beside("d/x.csv"), [PathBuf::from("d/x.windows.csv")]);
        assert_eq!(beside("x.train.csv"), [PathBuf::from("x.windows.train.csv"), PathBuf::from("x.train.windows.csv")]);
        assert!(beside("x").is_empty());
    }

    #[test]
    fn a_record_knows_the_zones_of_its_windows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.test.csv");
        fs::write(&path, "host,start_s,end_s,censored\na,0,5,0\n").unwrap();
        assert_eq!(record(&path).unwrap().ahead_hours, [None]);
        let windows = dir.path().join("x.windows.test.csv");
        fs::write(&windows, "host,obs_start_s,obs_end_s,tz_hours\na,0,9,-6\n").unwrap();
        assert_eq!(record(&path).unwrap().ahead_hours, [Some(-6.0)]);
        fs::write(&windows, "host,obs_start_s,obs_end_s,tz_hours\na,0,9,east\n").unwrap();
        assert_eq!(record(&path).unwrap_err().exit(), Exit::Usage);
    }

    #[test]
    fn what_cannot_be_read_is_a_mistake_of_the_command_line() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&dir.path().join("none")).unwrap_err().exit(), Exit::Usage);
        let path = dir.path().join("binary");
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert_eq!(read(&path).unwrap_err().exit(), Exit::Usage);
    }
}
