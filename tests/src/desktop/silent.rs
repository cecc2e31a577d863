//! A socket that accepts everybody and says nothing.

use std::fs;
use std::io::Read;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use anyhow::{Context, Result};

/// Where X servers have their sockets.
const X_SOCKETS: &str = "/tmp/.X11-unix";

/// The socket. Dropping it removes its name; connections end with the process.
pub struct Silent {
    path: PathBuf,
    calls: Arc<AtomicU32>,
}

impl Silent {
    /// Listens at a path.
    pub fn at(path: &Path) -> Result<Self> {
        let listener = UnixListener::bind(path).with_context(|| format!("listen at {}", path.display()))?;
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        thread::spawn(move || {
            for mut caller in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                // Hears it out, to its end.
                thread::spawn(move || std::io::copy(&mut caller.by_ref(), &mut std::io::sink()));
            }
        });
        Ok(Self { path: path.to_owned(), calls })
    }

    /// In place of an X server; gives its display's number.
    pub fn display() -> Result<(Self, String)> {
        fs::create_dir_all(X_SOCKETS).context("make the folder of X sockets")?;
        // Numbers that no X server takes by itself.
        let number = 20_000 + std::process::id() % 10_000;
        let path = PathBuf::from(format!("{X_SOCKETS}/X{number}"));
        let _ = fs::remove_file(&path);
        Ok((Self::at(&path)?, format!(":{number}")))
    }

    /// How often somebody connected.
    pub fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
