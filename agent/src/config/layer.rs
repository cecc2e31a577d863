//! From four sources to one [`Config`]: flags, environment, file, defaults, the stronger first.

use std::path::{Path, PathBuf};
use std::{fs, io};

use toml::Value;

use super::ranges::{Fault, fault};
use super::settings::{Config, KEYS, Key, Layer};

/// Variables that begin as ours do and are no settings: read elsewhere, or set by tools around the agent.
const NOT_SETTINGS: [&str; 3] = ["IDLEWILD_HOME", "IDLEWILD_TEST", "IDLEWILD_CACHE"];

/// A longer `config.toml` is a mistake, not a configuration.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// A setting is wrong. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is there and cannot be read.
    #[error("could not read {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not what it should be.
    #[error("{path}:{line}: {key}: {message}\n{advice}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The key, with its section where that is known.
        key: String,
        /// What is wrong.
        message: String,
        /// What to do.
        advice: String,
    },
    /// A variable has a value of the wrong type.
    #[error("{variable}: {message}\nhint: unset {variable}, or see `idlewild config default` for what {key} may be")]
    Variable {
        /// Which variable.
        variable: String,
        /// The key that it sets.
        key: String,
        /// What is wrong.
        message: String,
    },
    /// A `--set` is wrong.
    #[error("--set {text}: {message}\nhint: write --set section.key=value; `idlewild config default` prints every key")]
    Flag {
        /// What was written.
        text: String,
        /// What is wrong.
        message: String,
    },
    /// A value of the command line is of the right type and cannot be.
    #[error("{key}: {message}\nhint: change it on the command line; `idlewild config default` prints every key")]
    Range {
        /// Which key.
        key: String,
        /// What it is, and what it may be.
        message: String,
    },
}

/// Where settings come from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// What the command line says.
    pub flags: Layer,
    /// The environment: names and values.
    pub variables: Vec<(String, String)>,
    /// `config.toml`, which need not exist.
    pub file: PathBuf,
}

impl Sources {
    /// Flags, the process's environment, and the user's file.
    pub fn of_process(flags: Layer, file: PathBuf) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self { flags, variables: std::env::vars_os().filter_map(text).collect(), file }
    }
}

/// The settings, and remarks that the user should see (such as a variable that names no setting).
pub fn resolve(sources: &Sources) -> Result<(Config, Vec<String>), ConfigError> {
    let text = read_file(&sources.file)?;
    let file = parse_file(&sources.file, &text)?;
    let (environment, remarks) = read_variables(&sources.variables)?;
    let config = sources.flags.clone().or(environment.clone()).or(file.clone()).with_defaults();
    match fault(&config) {
        None => Ok((config, remarks)),
        Some(fault) => Err(blame(fault, [&sources.flags, &environment, &file], (&sources.file, &text))),
    }
}

/// Says where a value comes from that cannot be: of the sources that speak of its keys, the strongest.
fn blame(fault: Fault, [flags, environment, file]: [&Layer; 3], (path, text): (&Path, &str)) -> ConfigError {
    let Fault { keys, message } = fault;
    let split = |key: &&'static str| key.split_once('.').unwrap_or((key, ""));
    let said_in = |layer: &Layer| keys.iter().map(split).find(|(section, name)| layer.says(section, name));
    let key = |(section, name): (&str, &str)| format!("{section}.{name}");
    if let Some(place) = said_in(flags) {
        return ConfigError::Range { key: key(place), message };
    }
    if let Some((section, name)) = said_in(environment) {
        let known = KEYS.iter().find(|known| known.section == section && known.name == name);
        let variable = known.map_or_else(String::new, Key::variable);
        return ConfigError::Variable { variable, key: key((section, name)), message };
    }
    // Defaults are in range: what is left is the file.
    let place = said_in(file).unwrap_or_default();
    let advice = advice_for(&message);
    ConfigError::File { path: path.to_owned(), line: line_of(text, place), key: key(place), message, advice }
}

/// The line (from 1) on which the file sets a key; the first where that is not found.
fn line_of(text: &str, (section, name): (&str, &str)) -> usize {
    let table = toml::de::DeTable::parse(text).ok();
    let value = table.as_ref().and_then(|table| table.get_ref().get(section)?.get_ref().get(name));
    let offset = value.map_or(0, |value| value.span().start);
    text.get(..offset).unwrap_or(text).matches('\n').count() + 1
}

/// The text of the file, empty where there is none.
fn read_file(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(e) => return Err(failed(e)),
        // A FIFO would keep the reader waiting.
        Ok(about) if !about.is_file() => return Err(failed(io::Error::other("it is not a plain file"))),
        Ok(about) if about.len() > MAX_FILE_BYTES => {
            return Err(failed(io::Error::other("it is longer than 1 MiB")));
        }
        Ok(_) => {}
    }
    fs::read_to_string(path).map_err(failed)
}

fn parse_file(path: &Path, text: &str) -> Result<Layer, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let (line, key) = place_of(text, error.span().map_or(0, |span| span.start));
        let message = in_words(&error.message().lines().collect::<Vec<_>>().join(", "));
        let advice = advice_for(&message);
        ConfigError::File { path: path.to_owned(), line, key, message, advice }
    })
}

/// What the parser says, with its names of types replaced by what a person may write.
fn in_words(message: &str) -> String {
    [("u16", "a whole number from 0 to 65535"), ("u32", "a whole number from 0 to 4294967295"), ("f32", "a number")]
        .into_iter()
        .fold(message.to_owned(), |text, (kind, words)| {
            text.replace(&format!("expected {kind}"), &format!("expected {words}"))
        })
}

fn advice_for(message: &str) -> String {
    let todo = if message.starts_with("unknown field") {
        "remove the key or correct its name"
    } else {
        "correct the value, or remove the line for the default"
    };
    format!("hint: {todo}; `idlewild config default` prints every key with its meaning")
}

/// The line (from 1) of a byte offset, and the key that governs it: `section.key` as far as the lines tell.
fn place_of(text: &str, offset: usize) -> (usize, String) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count();
    let lines: Vec<&str> = text.lines().take(line + 1).collect();
    let section = lines.iter().rev().find_map(|l| l.trim().strip_prefix('[')?.split(']').next());
    let key = lines
        .iter()
        .rev()
        .take_while(|l| !l.trim_start().starts_with('[') || l.contains('='))
        .find_map(|l| Some(l.split_once('=')?.0.trim()));
    let name = [section, key].into_iter().flatten().collect::<Vec<_>>().join(".");
    (line + 1, if name.is_empty() { "(no key)".to_owned() } else { name })
}

fn read_variables(variables: &[(String, String)]) -> Result<(Layer, Vec<String>), ConfigError> {
    let mut layer = Layer::default();
    let mut remarks = Vec::new();
    for (name, text) in variables.iter().filter(|(name, _)| name.starts_with("IDLEWILD_")) {
        if let Some(key) = KEYS.iter().find(|key| key.variable() == *name) {
            layer = layer.or(read_value(key, text).map_err(|message| ConfigError::Variable {
                variable: name.clone(),
                key: format!("{}.{}", key.section, key.name),
                message: if message.contains(text) { message } else { format!("{message} (it is {text:?})") },
            })?);
        } else if !NOT_SETTINGS.iter().any(|known| name.starts_with(known)) {
            remarks.push(format!("the environment variable {name} names no setting and is ignored"));
        }
    }
    Ok((layer, remarks))
}

/// What `key=value` says, as `--set` takes it: the key with its section, the value as in a variable.
pub fn setting(text: &str) -> Result<Layer, ConfigError> {
    let unknown = || ConfigError::Flag { text: text.to_owned(), message: "it names no setting".to_owned() };
    let (name, value) = text.split_once('=').ok_or_else(unknown)?;
    let key = KEYS.iter().find(|key| format!("{}.{}", key.section, key.name) == name.trim()).ok_or_else(unknown)?;
    read_value(key, value.trim()).map_err(|message| ConfigError::Flag { text: text.to_owned(), message })
}

/// Reads a variable as TOML, as bare text, or as a list separated by commas: whichever the key's type takes.
fn read_value(key: &Key, text: &str) -> Result<Layer, String> {
    let bare = Value::String(text.to_owned());
    let list = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let list = Value::Array(list.map(|part| Value::String(part.to_owned())).collect());
    let written = toml::from_str::<toml::Table>(&format!("v = {text}")).ok().and_then(|mut table| table.remove("v"));
    let first = layer_of(key, written.clone().unwrap_or_else(|| bare.clone()));
    first.clone().or_else(|_| layer_of(key, bare)).or_else(|_| layer_of(key, list)).or(first)
}

fn layer_of(key: &Key, value: Value) -> Result<Layer, String> {
    let section = toml::Table::from_iter([(key.name.to_owned(), value)]);
    let table = toml::Table::from_iter([(key.section.to_owned(), Value::Table(section))]);
    table.try_into().map_err(|e: toml::de::Error| in_words(e.message()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Backend, OwnerChoice};

    fn file(text: &str) -> Result<Layer, String> {
        parse_file(Path::new("config.toml"), text).map_err(|e| e.to_string())
    }

    fn resolved(flags: Layer, variables: &[(&str, &str)], text: &str) -> Result<(Config, Vec<String>), String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        fs::write(&path, text).unwrap();
        let variables = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        resolve(&Sources { flags, variables, file: path }).map_err(|e| e.to_string())
    }

    #[test]
    fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
        let mut flags = Layer::default();
        flags.api.port = Some(1);
        let environment = [("IDLEWILD_API_PORT", "2"), ("IDLEWILD_SWARM_PORT", "2")];
        let text = "[api]\nport = 3\nmax_requests = 3\n[swarm]\nport = 3\n";
        let (config, _) = resolved(flags, &environment, text).unwrap();
        assert_eq!((config.api.port, config.swarm.port, config.api.max_requests), (1, 2, 3));
        assert_eq!(config.engine.slots, 4);
    }

    #[test]
    fn no_file_and_no_variable_give_the_defaults() {
        let sources = Sources { flags: Layer::default(), variables: vec![], file: "/nonexistent/config.toml".into() };
        let (config, remarks) = resolve(&sources).unwrap();
        assert_eq!((config.api.port, config.swarm.port), (14353, 14354));
        assert!(config.api.address.is_loopback());
        assert_eq!(config.owner.source, OwnerChoice::Detected);
        assert!(remarks.is_empty());
    }

    #[test]
    fn a_mistake_in_the_file_is_named_with_its_line_and_key() {
        let cases = [
            ("[api]\nprot = 1\n", "config.toml:2: api.prot: unknown field `prot`"),
            ("[apu]\nport = 1\n", "config.toml:1: apu: unknown field `apu`"),
            (
                "\n[api]\n\nport = \"x\"\n",
                "config.toml:4: api.port: invalid type: string \"x\", expected a whole number",
            ),
            ("[api]\nport = 70000\n", "config.toml:2: api.port: invalid value: integer `70000`"),
            ("[swarm]\npeers = [\n  \"a\",\n  7,\n]\n", "config.toml:4: swarm.peers: invalid type: integer `7`"),
            ("[engine]\nbackend = \"gpu\"\n", "config.toml:2: engine.backend: unknown variant `gpu`"),
            ("[api]\nport = \n", "config.toml:2: api.port: "),
        ];
        for (text, expected) in cases {
            let message = file(text).unwrap_err();
            assert!(message.starts_with(expected), "{text:?} gave {message}");
            assert!(message.contains("hint: "), "{message}");
        }
    }

    #[test]
    fn variables_take_every_type_and_name_themselves_when_wrong() {
        let variables = [
            ("IDLEWILD_SWARM_PEERS", "/ip4/1.2.3.4/udp/1/quic-v1, /ip4/1.2.3.5/udp/1/quic-v1"),
            ("IDLEWILD_SWARM_MDNS", "false"),
            ("IDLEWILD_SWARM_LISTEN", "127.0.0.1"),
            ("IDLEWILD_ENGINE_BACKEND", "fake"),
            ("IDLEWILD_ENGINE_FAKE_DECODE_TPS", "12.5"),
            ("IDLEWILD_MODELS_DEFAULT", "17"),
        ];
        let (config, _) = resolved(Layer::default(), &variables, "").unwrap();
        assert_eq!(config.swarm.peers.len(), 2);
        assert_eq!(config.swarm.listen, [IpAddr::from([127, 0, 0, 1])]);
        assert!(!config.swarm.mdns);
        assert_eq!((config.engine.backend, config.engine.fake_decode_tps), (Backend::Fake, 12.5));
        assert_eq!(config.models.default, "17");
        let error = resolved(Layer::default(), &[("IDLEWILD_API_PORT", "many")], "").unwrap_err();
        assert!(error.starts_with("IDLEWILD_API_PORT: ") && error.contains("api.port"), "{error}");
        assert!(error.contains("a whole number from 0 to 65535") && error.matches("many").count() == 1, "{error}");
    }

    use std::net::IpAddr;

    #[test]
    fn any_setting_can_be_written_as_key_and_value() {
        assert_eq!(setting("engine.slots=8").unwrap().engine.slots, Some(8));
        assert_eq!(setting("engine.backend = fake").unwrap().engine.backend, Some(Backend::Fake));
        assert_eq!(setting("swarm.peers=/a,/b").unwrap().swarm.peers.unwrap().len(), 2);
        for text in ["engine.slots", "slots=8", "engine.slots=many"] {
            let error = setting(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--set {text}: ")) && error.contains("hint: "), "{error}");
        }
    }

    #[test]
    fn a_variable_that_names_no_setting_is_remarked_on() {
        let variables = [("IDLEWILD_API_PROT", "1"), ("IDLEWILD_HOME", "/h"), ("PATH", "/bin")];
        let (_, remarks) = resolved(Layer::default(), &variables, "").unwrap();
        assert_eq!(remarks, ["the environment variable IDLEWILD_API_PROT names no setting and is ignored"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_fifo_in_place_of_the_file_is_an_error_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        crate::store::make_fifo(&path).unwrap();
        assert!(matches!(read_file(&path), Err(ConfigError::Read { .. })));
    }

    #[test]
    fn a_value_that_cannot_be_is_named_with_its_line_and_key_and_what_it_may_be() {
        for (text, place, part) in [
            ("[engine]\nslots = 0\n", "2: engine.slots: ", "0 is out of range (it may be 1 to 32)"),
            ("\n[api]\nport = 1\n[engine]\n\nslots = 99\n", "6: engine.slots: ", "99 is out of range"),
            ("engine = { threads = 1,\n slots = 99 }\n", "2: engine.slots: ", "1 to 32"),
            ("[engine]\nkv_tokens = 100\n", "2: engine.kv_tokens: ", "at least engine.context_tokens (4096)"),
            ("[engine]\ncontext_tokens = 10000\n", "2: engine.context_tokens: ", "engine.kv_tokens (8192) must be"),
            ("[owner]\nidle_delay_s = 0\n", "2: owner.idle_delay_s: ", "1 to 86400"),
            ("[owner]\nlookout_socket = \"s\"\n", "2: owner.lookout_socket: ", "\"s\" is no path of a socket"),
            ("[engine]\nfake_decode_tps = nan\n", "2: engine.fake_decode_tps: ", "above 0"),
            ("[swarm]\nlisten = []\n", "2: swarm.listen: ", "at least one"),
            (
                "[swarm]\npeers = [\"1.2.3.4\"]\n",
                "2: swarm.peers: ",
                "\"1.2.3.4\" is no peer's address; write host:port",
            ),
            ("[api]\nmax_body_bytes = 3000000\n", "2: api.max_body_bytes: ", "1024 to 2000000"),
            ("[rules]\nram_idle_percent = 0\n", "2: rules.ram_idle_percent: ", "1 to 100"),
            ("[rules]\nexclusive_apps = [\"*\"]\n", "2: rules.exclusive_apps: ", "no name of a program"),
            ("[rules]\nschedule = [\"mo 1-2\"]\n", "2: rules.schedule: ", "\"mon-fri 22:00-07:00\""),
        ] {
            let error = resolved(Layer::default(), &[], text).unwrap_err();
            assert!(error.contains(&format!("config.toml:{place}")) && error.contains(part), "{text:?} gave {error}");
            assert!(error.contains("hint: "), "{error}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_is_blamed_on_the_strongest_source_that_gave_it() {
        let text = "[engine]\nslots = 99\n";
        let variables = [("IDLEWILD_ENGINE_SLOTS", "98")];
        let error = resolved(Layer::default(), &variables, text).unwrap_err();
        assert!(error.starts_with("IDLEWILD_ENGINE_SLOTS: 98 is out of range"), "{error}");
        let error = resolved(setting("engine.slots=97").unwrap(), &variables, text).unwrap_err();
        assert!(error.starts_with("engine.slots: 97 is out of range"), "{error}");
        let error = resolved(setting("swarm.peers=host:1,host").unwrap(), &[], "").unwrap_err();
        assert!(error.starts_with("swarm.peers: \"host\" is no peer's address"), "{error}");
    }
}
