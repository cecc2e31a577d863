//! Every setting, once: its key in `config.toml`, its type, its default and what it means to the user.
//!
//! The environment variable of `api.port` is `IDLEWILD_API_PORT`, and so on for each key.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Paths;

/// A key as the user sees it.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The table in `config.toml`.
    pub section: &'static str,
    /// The key in that table.
    pub name: &'static str,
    /// What it means, a line an element.
    pub about: &'static [&'static str],
}

/// Sections whose keys count within seconds of a change of `config.toml`. The keys of others count from the next start on,
/// but for those below.
const LIVE_SECTIONS: [&str; 1] = ["rules"];

/// Keys that are unlike their section: of a live one read at the start only, of another one live.
const UNLIKE_THEIR_SECTION: [(&str, &str); 2] = [("rules", "root"), ("owner", "idle_delay_s")];

impl Key {
    /// The environment variable that sets it.
    pub fn variable(&self) -> String {
        format!("IDLEWILD_{}_{}", self.section, self.name).to_ascii_uppercase()
    }

    /// Whether a change counts without a restart.
    pub fn is_live(&self) -> bool {
        LIVE_SECTIONS.contains(&self.section) != UNLIKE_THEIR_SECTION.contains(&(self.section, self.name))
    }
}

/// Declares the sections: for each a struct of values, one of optional values (a layer), and the keys' descriptions.
macro_rules! settings {
    ($(
        #[doc = $about:literal]
        $section:ident: $Values:ident, $Part:ident {
            $( $(#[doc = $doc:literal])+ $key:ident: $type:ty = $default:expr, )+
        }
    )+) => {
        $(
            #[doc = $about]
            #[derive(Debug, Clone, PartialEq, Serialize)]
            pub struct $Values {
                $( $(#[doc = $doc])+ pub $key: $type, )+
            }

            #[doc = concat!("What one source says about [`", stringify!($Values), "`].")]
            #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields, default)]
            pub struct $Part {
                $( $(#[doc = $doc])+ pub $key: Option<$type>, )+
            }

            impl $Part {
                fn or(self, weaker: Self) -> Self {
                    Self { $( $key: self.$key.or(weaker.$key), )+ }
                }

                fn with_defaults(self) -> $Values {
                    $Values { $( $key: self.$key.unwrap_or_else(|| $default), )+ }
                }
            }
        )+

        /// Every setting, resolved. Written once at start, read by everyone.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        pub struct Config {
            $( #[doc = $about] pub $section: $Values, )+
        }

        /// What one source (flags, environment or file) says; what it does not mention is left to a weaker one.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Layer {
            $( #[doc = $about] pub $section: $Part, )+
        }

        impl Layer {
            /// This layer, and where it says nothing, the weaker one.
            #[must_use]
            pub fn or(self, weaker: Self) -> Self {
                Self { $( $section: self.$section.or(weaker.$section), )+ }
            }

            /// Whether it says something about a key.
            pub(super) fn says(&self, section: &str, name: &str) -> bool {
                let table = toml::Table::try_from(self).unwrap_or_default();
                table.get(section).is_some_and(|section| section.get(name).is_some())
            }

            /// The settings, with defaults where no layer said anything. Ranges are not checked here.
            pub fn with_defaults(self) -> Config {
                Config { $( $section: self.$section.with_defaults(), )+ }
            }
        }

        /// Every key, in the order of the default file.
        pub const KEYS: &[Key] = &[
            $($( Key { section: stringify!($section), name: stringify!($key), about: &[$($doc),+] }, )+)+
        ];
    };
}

settings! {
    /// The HTTP API on this machine.
    api: ApiSettings, ApiPart {
        /// Address on which the API listens. Anything but a loopback address lets your network talk to it (with the
        /// key only).
        address: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST),
        /// TCP port of the API. 0 takes any free one; `idlewild status` finds it.
        port: u16 = 14353,
        /// Longest request body, in bytes (1024 to 2000000).
        max_body_bytes: u32 = 1_048_576,
        /// Requests that this peer accepts at once from its clients (1 to 10000); more are told to come again.
        max_requests: u32 = 256,
    }
    /// The conversation with other peers.
    swarm: SwarmSettings, SwarmPart {
        /// Port for other peers, the same number for UDP (QUIC) and TCP. 0 takes any free one: then others find this
        /// peer by mDNS only.
        port: u16 = 14354,
        /// Addresses to listen on.
        listen: Vec<IpAddr> = vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)],
        /// Whether to look for peers of this swarm on the local network by multicast.
        mdns: bool = true,
        /// Peers to connect to wherever they are: "192.168.1.20:14354" (host:port), or a multiaddress such as
        /// "/ip4/192.168.1.20/udp/14354/quic-v1".
        peers: Vec<String> = Vec::new(),
        /// Network interfaces that are never used; a name may end in *.
        skip_interfaces: Vec<String> =
            ["docker*", "br-*", "veth*", "virbr*", "cni*", "flannel*", "podman*", "lxc*"].map(str::to_owned).to_vec(),
        /// If not empty, the only interfaces that are used; a name may end in *.
        only_interfaces: Vec<String> = Vec::new(),
        /// Whether tunnels (tun*, tap*, wg*, tailscale*, zt*, utun*) are used too.
        tunnels: bool = true,
        /// Whether this peer passes on what members say to each other that do not reach each other (never contexts):
        /// "auto" where a member has reached it from another network, "always" or "never".
        relay: Relay = Relay::Auto,
    }
    /// The engine that runs models, in a process of its own.
    engine: EngineSettings, EnginePart {
        /// "llama" runs models with llama.cpp. "fake" is for tests: it makes up text at the rates below.
        backend: Backend = Backend::Llama,
        /// Threads that compute (0 to 1024); 0 leaves one core free for the owner (but uses at least one).
        threads: u16 = 0,
        /// Whether the engine comes after the programs of all sessions. If not, it has its share of the processor beside those
        /// of others: for a machine whose other programs need not come first.
        yield_to_all: bool = true,
        /// Requests that run at once (1 to 32).
        slots: u16 = 4,
        /// Longest context of one request, prompt and answer, in tokens (64 to 1048576). A model made for less has less.
        context_tokens: u32 = 4096,
        /// Room of all contexts together, in tokens (at least context_tokens). It costs memory as soon as a model is
        /// loaded: 23 kB a token for a 135M model, 128 kB for many of 8B.
        kv_tokens: u32 = 8192,
        /// How the KV cache keeps keys and values: "f16", or "q8_0", which halves its memory and what a move sends, and is
        /// slower on a CPU (a quarter to a half where prompts are read). Contexts move whole between peers that keep them
        /// alike; to others by their token ids.
        kv_type: KvType = KvType::F16,
        /// Seconds without work after which the engine's process ends and its memory is free (0 keeps it).
        idle_stop_s: u32 = 600,
        /// Fake backend: tokens of prompt a second.
        fake_prefill_tps: f32 = 2000.0,
        /// Fake backend: tokens of answer a second, for each request.
        fake_decode_tps: f32 = 50.0,
        /// Fake backend: milliseconds that loading takes.
        fake_load_ms: u32 = 20,
    }
    /// The models on this machine.
    models: ModelSettings, ModelPart {
        /// The model that a request without one gets, by name or sha256. Empty: the only one there is, else none.
        default: String = String::new(),
        /// Where models are kept. Empty: "models" in the data directory.
        directory: String = String::new(),
    }
    /// Whether the owner of this machine is there.
    owner: OwnerSettings, OwnerPart {
        /// "detected": this machine takes work while nobody uses its screens and terminals, as far as `idlewild doctor`
        /// shows that they can be seen. "always_idle": the owner counts as away at all times (servers, spare machines).
        /// "scripted": read from a file, for tests.
        source: OwnerChoice = OwnerChoice::Detected,
        /// Seconds without input after which a detected owner is away (1 to 86400). A locked screen needs 30 at most. A
        /// change counts within seconds, without a restart.
        idle_delay_s: u32 = 180,
        /// Socket at which lookouts (`idlewild lookout`) in sessions of other accounts report to a detector, as an absolute path.
        /// Empty: "lookouts.sock" in the folder that systemd makes for a service ($RUNTIME_DIRECTORY, such as
        /// /run/idlewild), and none where there is no such folder. On Linux only.
        lookout_socket: String = String::new(),
        /// The scripted source's file. Empty: "owner-control" in the state directory.
        script: String = String::new(),
        /// Milliseconds for which the engine's memory is kept once the machine is wanted back (0 to 30000), so that what
        /// it was working on can go on elsewhere without a long pause. It computes nothing meanwhile.
        grace_ms: u32 = 1800,
    }
    /// When this machine takes no work although its owner is away. Changes count within seconds, without a restart.
    rules: RuleSettings, RulePart {
        /// Whether these rules hold at all. `idlewild pause` and the owner's presence count in any case.
        enabled: bool = true,
        /// Whether to take work on battery. A machine without a battery is never on it.
        on_battery: bool = false,
        /// Charge in percent below which no work is taken on battery, where on_battery permits it (0 to 100).
        battery_percent_min: u32 = 20,
        /// Degrees Celsius from which on no work is taken (0 to 150). 0: ten degrees below the temperature that the
        /// machine's own sensors call hot or critical.
        temperature_max_c: u32 = 0,
        /// Share of all cores, in percent, that other programs may use on average over about 10 s (1 to 100; 100: any).
        others_cpu_percent_max: u32 = 25,
        /// Share of the memory, in percent, that may be in use while the owner is away, idlewild's own part included
        /// (1 to 100). No model is loaded that would not fit.
        ram_idle_percent: u32 = 90,
        /// Share of the memory, in percent, that idlewild itself may keep once the owner is back (1 to 100): above it
        /// owner.grace_ms does not count, and the memory is given back at once.
        ram_busy_percent: u32 = 50,
        /// Programs that want the machine for themselves: while one of them runs, no work is taken. Names of processes;
        /// a name may end in *.
        exclusive_apps: Vec<String> = Vec::new(),
        /// Whether to take work while the network is metered (as NetworkManager says).
        metered: bool = false,
        /// When work is taken, in local time, such as "mon-fri 22:00-07:00" or "sat,sun 00:00-24:00". Empty: at any time.
        schedule: Vec<String> = Vec::new(),
        /// Megabytes a day (of local time) that this peer may exchange with others (0: any number).
        transfer_mb_per_day: u32 = 0,
        /// Where /proc and /sys are looked for: another directory is for tests.
        root: String = "/".to_owned(),
    }
    /// What the agent writes about itself.
    log: LogSettings, LogPart {
        /// "error", "warn", "info", "debug" or "trace"; or directives such as "info,idlewild::origin=debug".
        level: String = "info".to_owned(),
        /// "text" for people, "json" for machines.
        format: LogFormat = LogFormat::Text,
    }
}

impl Config {
    /// The keys in which two configurations differ, in the order of the default file.
    pub fn changes(&self, other: &Self) -> Vec<&'static Key> {
        let table = |config: &Self| toml::Table::try_from(config).unwrap_or_default();
        let (ours, theirs) = (table(self), table(other));
        let value = |table: &toml::Table, key: &Key| table.get(key.section)?.get(key.name).cloned();
        KEYS.iter().filter(|key| value(&ours, key) != value(&theirs, key)).collect()
    }

    /// Where models are kept.
    pub fn models_dir(&self, paths: &Paths) -> PathBuf {
        if self.models.directory.is_empty() { paths.models_dir() } else { PathBuf::from(&self.models.directory) }
    }
}

/// How keys and values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum KvType {
    /// Two bytes a value.
    #[serde(rename = "f16")]
    F16,
    /// 34 bytes for 32 values.
    #[serde(rename = "q8_0")]
    Q8,
}

/// What computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// llama.cpp.
    Llama,
    /// Made-up text at settable rates.
    Fake,
}

/// What says whether the owner is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerChoice {
    /// Screens, logins and terminals.
    Detected,
    /// The owner is away, always.
    AlwaysIdle,
    /// A file.
    Scripted,
}

/// Whether to relay for members that do not reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relay {
    /// Where it was reached from another network.
    Auto,
    /// From the start.
    Always,
    /// Never.
    Never,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}
