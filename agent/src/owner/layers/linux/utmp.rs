//! `utmp`, the list of terminal logins: fixed records of the C library.

/// Where it is.
pub(super) const FILE: &str = "/run/utmp";

/// A longer file is not one of logins: 2700 of them fit.
pub(super) const MAX_BYTES: u64 = 1024 * 1024;

/// A record of the C library on Linux: kind (2 bytes, then 2 of padding), process, the terminal's name, and more.
const RECORD: usize = 384;
const LINE: std::ops::Range<usize> = 8..40;

/// The kind of a user's login.
const USER_PROCESS: u16 = 7;

/// The terminals with somebody logged in.
pub(super) fn lines(bytes: &[u8]) -> Vec<String> {
    let logins = bytes.chunks_exact(RECORD).filter(|r| u16::from_ne_bytes([r[0], r[1]]) == USER_PROCESS);
    let line = |record: &[u8]| {
        let line = record[LINE].split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(line).into_owned()
    };
    logins.map(line).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u16, line: &str) -> Vec<u8> {
        let mut bytes = vec![0; RECORD];
        bytes[..2].copy_from_slice(&kind.to_ne_bytes());
        bytes[LINE.start..LINE.start + line.len()].copy_from_slice(line.as_bytes());
        bytes
    }

    #[test]
    fn logins_are_found_among_other_records_and_a_torn_end_is_no_login() {
        let mut file =
            [record(2, "~"), record(7, "tty1"), record(8, "pts/3"), record(7, "pts/0"), record(7, "")].concat();
        file.extend(&record(7, "pts/9")[..100]);
        assert_eq!(lines(&file), ["tty1", "pts/0"]);
        assert!(lines(&[]).is_empty());
    }
}
