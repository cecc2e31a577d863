//! The X server's cookie, from the file that X programs share: a list of entries in big endian.

use std::path::{Path, PathBuf};

use tokio::fs;

/// The cookie is one of this kind.
pub(super) const COOKIE: &[u8] = b"MIT-MAGIC-COOKIE-1";

/// A longer file is not one of cookies.
const MAX_BYTES: u64 = 1024 * 1024;

/// Entries for this machine by its name, and for any.
const LOCAL: u16 = 256;
const WILD: u16 = 65535;

/// The cookie of a display of this machine; none where there is none, and perhaps none is wanted.
pub(super) async fn cookie(file: &Path, display: u16) -> Option<Vec<u8>> {
    // A FIFO or a device in its place is not opened, since that might wait.
    let is_file = fs::metadata(file).await.is_ok_and(|about| about.is_file() && about.len() <= MAX_BYTES);
    if is_file { find(&fs::read(file).await.ok()?, display) } else { None }
}

/// Where the file is if the environment does not say.
pub(super) fn usual_file() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".Xauthority"))
}

/// Any machine's name counts: names change under a session, and the display is reached by a socket of this machine.
fn find(mut bytes: &[u8], display: u16) -> Option<Vec<u8>> {
    let number = display.to_string();
    loop {
        let family = u16::from_be_bytes(take(&mut bytes, 2)?.try_into().ok()?);
        let _address = field(&mut bytes)?;
        let (shown, name, data) = (field(&mut bytes)?, field(&mut bytes)?, field(&mut bytes)?);
        let is_ours = [LOCAL, WILD].contains(&family) && (shown.is_empty() || shown == number.as_bytes());
        if is_ours && name == COOKIE {
            return Some(data.to_vec());
        }
    }
}

fn field<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = u16::from_be_bytes(take(bytes, 2)?.try_into().ok()?);
    take(bytes, usize::from(length))
}

fn take<'b>(bytes: &mut &'b [u8], count: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(family: u16, display: &str, name: &[u8], data: &[u8]) -> Vec<u8> {
        let mut bytes = family.to_be_bytes().to_vec();
        for field in [b"desk".as_slice(), display.as_bytes(), name, data] {
            bytes.extend(u16::try_from(field.len()).unwrap().to_be_bytes());
            bytes.extend(field);
        }
        bytes
    }

    #[test]
    fn the_cookie_of_a_display_is_found_among_others() {
        let file = [
            entry(0, "1", COOKIE, b"by address"),
            entry(LOCAL, "0", COOKIE, b"zero"),
            entry(LOCAL, "1", b"XDM-AUTHORIZATION-1", b"other kind"),
            entry(LOCAL, "1", COOKIE, b"one"),
            entry(WILD, "", COOKIE, b"any"),
        ]
        .concat();
        for (display, expected) in [(0, b"zero".as_slice()), (1, b"one"), (7, b"any")] {
            assert_eq!(find(&file, display).as_deref(), Some(expected), "{display}");
        }
        for length in 0..file.len() - 1 {
            let cut = find(&file[..length], 7);
            assert_eq!(cut, None, "of {length} bytes");
        }
    }
}
