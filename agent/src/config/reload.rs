//! Notices that `config.toml` has changed, and reads it anew. A file that cannot be used changes nothing.

use std::fs;
use std::time::SystemTime;

use super::layer::{ConfigError, Sources, resolve};
use super::settings::{Config, Key};

/// What a look at the file found.
#[derive(Debug)]
pub enum Reloaded {
    /// It has changed, and can be used.
    Changed {
        /// The settings as they are now.
        config: Box<Config>,
        /// Keys that changed against those in force and count from the next start on only.
        waiting: Vec<&'static Key>,
    },
    /// It has changed, and cannot be used: the settings in force stay.
    Broken(ConfigError),
}

/// The file as it was last seen: enough to notice that it is another one.
type Mark = Option<(SystemTime, u64)>;

/// Watches one agent's settings.
#[derive(Debug)]
pub struct Reload {
    sources: Sources,
    mark: Mark,
    /// What the agent was started with.
    started: Config,
}

impl Reload {
    /// Of an agent that was started with `started`, which these sources gave.
    pub fn new(sources: Sources, started: Config) -> Self {
        let mark = mark(&sources);
        Self { sources, mark, started }
    }

    /// Looks whether the file is another one than at the last look; one call of stat(2) where it is not.
    pub fn look(&mut self) -> Option<Reloaded> {
        let mark = mark(&self.sources);
        if mark == self.mark {
            return None;
        }
        self.mark = mark;
        Some(match resolve(&self.sources) {
            Ok((config, _)) => {
                let waiting = self.started.changes(&config).into_iter().filter(|key| !key.is_live()).collect();
                Reloaded::Changed { config: Box::new(config), waiting }
            }
            Err(error) => Reloaded::Broken(error),
        })
    }
}

fn mark(sources: &Sources) -> Mark {
    let about = fs::metadata(&sources.file).ok()?;
    Some((about.modified().ok()?, about.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layer;

    struct Bench {
        _dir: tempfile::TempDir,
        file: std::path::PathBuf,
        reload: Reload,
    }

    impl Bench {
        fn new(text: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("config.toml");
            fs::write(&file, text).unwrap();
            let sources = Sources { flags: Layer::default(), variables: Vec::new(), file: file.clone() };
            let (config, _) = resolve(&sources).unwrap();
            Self { _dir: dir, file, reload: Reload::new(sources, config) }
        }

        fn write(&mut self, text: &str) -> Option<Reloaded> {
            fs::write(&self.file, text).unwrap();
            self.reload.look()
        }
    }

    fn waiting(reloaded: Option<Reloaded>) -> (bool, Vec<String>) {
        let Some(Reloaded::Changed { config, waiting }) = reloaded else { panic!("{reloaded:?}") };
        let names = waiting.iter().map(|key| format!("{}.{}", key.section, key.name)).collect();
        (config.rules.on_battery, names)
    }

    #[test]
    fn a_changed_file_is_read_once_and_says_what_waits_for_a_restart() {
        let mut bench = Bench::new("[rules]\nmetered = true\n");
        assert!(bench.reload.look().is_none());
        assert_eq!(waiting(bench.write("[rules]\non_battery = true\n")), (true, vec![]));
        assert!(bench.reload.look().is_none());
        let both = "[engine]\nslots = 8\n[rules]\nroot = \"/x\"\non_battery = true\n";
        assert_eq!(waiting(bench.write(both)), (true, vec!["engine.slots".to_owned(), "rules.root".to_owned()]));
        fs::remove_file(&bench.file).unwrap();
        assert_eq!(waiting(bench.reload.look()), (false, vec![]), "without a file the defaults hold");
    }

    #[test]
    fn a_broken_file_is_named_with_its_line_and_key_and_a_mended_one_counts() {
        let mut bench = Bench::new("");
        let Some(Reloaded::Broken(error)) = bench.write("[rules]\n\nram_idle_percent = 900\n") else { panic!() };
        let text = error.to_string();
        assert!(text.contains("config.toml:3: rules.ram_idle_percent: 900 is out of range"), "{text}");
        assert_eq!(waiting(bench.write("[rules]\non_battery = true\n")), (true, vec![]));
    }
}
