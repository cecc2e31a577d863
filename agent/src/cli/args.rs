//! Every command and flag, in one place.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::durations::{snooze_time, ticket_time};
use super::exit::Exit;
use super::hazard::HazardArgs;
use super::lookout::LookoutArgs;
use crate::config::{Layer, OwnerChoice};

/// Serve language models to each other from machines whose owners are away.
#[derive(Debug, Parser)]
#[command(name = "idlewild", version, about, after_help = Exit::help(), max_term_width = 100)]
pub(super) struct Cli {
    /// Keep everything (settings, identity, models) under this directory instead of the system's places
    /// [env: IDLEWILD_HOME]
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) home: Option<PathBuf>,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Start the agent of this machine and keep it running
    Up(UpArgs),
    /// Stop the agent of this machine
    Down,
    /// Send a prompt and print the answer as it comes
    Run(RunArgs),
    /// Show this peer, the others and what each is doing
    Status(JsonArgs),
    /// Show how this machine tells whether somebody uses it, what it cannot see, and what to do about that
    Doctor(JsonArgs),
    /// Take no work until `idlewild resume`, also after a restart
    Pause(JsonArgs),
    /// Take work again after `idlewild pause` or `idlewild snooze`
    Resume(JsonArgs),
    /// Take no work for a while, also after a restart
    Snooze(SnoozeArgs),
    /// Show every rule: its key, what it sees, its limit, and which one decides
    Rules(JsonArgs),
    /// Show where a request ran and why, with the numbers that decided
    Explain(ExplainArgs),
    /// Show how long this machine is expected to be left alone, and how good such forecasts were
    Hazard(HazardArgs),
    /// Have a running request go on at another peer, or be prepared there
    Move(MoveArgs),
    /// Print a ticket with which one machine can join this swarm
    Invite(InviteArgs),
    /// Join a swarm; the ticket is asked for, or read from stdin or a file
    Join(JoinArgs),
    /// List and add models
    Models(ModelsArgs),
    /// Show settings
    Config(ConfigArgs),
    /// Show or change who this machine is
    Identity(IdentityArgs),
    /// Tools for developers
    Dev(DevArgs),
    /// Tell an agent that runs as a service whether somebody uses the screen of this session; runs until the session ends
    Lookout(LookoutArgs),
    /// The engine's process, started by the agent
    #[command(hide = true)]
    Engine(super::engine::EngineArgs),
}

#[derive(Debug, Args, Default)]
pub(super) struct UpArgs {
    /// Take work at all times, whether or not somebody sits at this machine
    #[arg(long)]
    pub(super) always_idle: bool,
    /// The model for requests that name none
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// Address of the local API
    #[arg(long, value_name = "IP")]
    pub(super) api_address: Option<IpAddr>,
    /// Port of the local API (0: any)
    #[arg(long, value_name = "PORT")]
    pub(super) api_port: Option<u16>,
    /// Port for other peers, UDP and TCP (0: any)
    #[arg(long, value_name = "PORT")]
    pub(super) port: Option<u16>,
    /// Address to listen on for other peers; may be repeated
    #[arg(long, value_name = "IP")]
    pub(super) listen: Vec<IpAddr>,
    /// A peer to connect to: host:port such as 192.168.1.20:14354, or a multiaddress such as
    /// /ip4/192.168.1.20/udp/14354/quic-v1; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub(super) peer: Vec<String>,
    /// Do not look for peers on the local network
    #[arg(long)]
    pub(super) no_mdns: bool,
    /// Threads that compute (0: all cores but one)
    #[arg(long, value_name = "N")]
    pub(super) threads: Option<u16>,
    /// Log level, or directives such as info,idlewild::origin=debug
    #[arg(long, value_name = "LEVEL")]
    pub(super) log_level: Option<String>,
    /// Any other setting, such as engine.slots=8; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Return once the agent runs; it goes on in the background and writes to agent.log in the state directory
    #[arg(long)]
    pub(super) detach: bool,
}

impl UpArgs {
    /// What these flags say about the settings; those of `--set` come apart.
    pub(super) fn layer(&self) -> Layer {
        let mut layer = Layer::default();
        layer.owner.source = self.always_idle.then_some(OwnerChoice::AlwaysIdle);
        layer.models.default.clone_from(&self.model);
        layer.api.address = self.api_address;
        layer.api.port = self.api_port;
        layer.swarm.port = self.port;
        layer.swarm.listen = (!self.listen.is_empty()).then(|| self.listen.clone());
        layer.swarm.peers = (!self.peer.is_empty()).then(|| self.peer.clone());
        layer.swarm.mdns = self.no_mdns.then_some(false);
        layer.engine.threads = self.threads;
        layer.log.level.clone_from(&self.log_level);
        layer
    }
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The prompt; - reads it from stdin, and so does leaving it out where stdin is a pipe or a file
    pub(super) prompt: Option<String>,
    /// Which model; the default model, or the only one, if not given
    #[arg(long, short, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// A system message before the prompt
    #[arg(long, value_name = "TEXT")]
    pub(super) system: Option<String>,
    /// Most tokens of the answer
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<u32>,
    /// 0 always takes the likeliest token
    #[arg(long, value_name = "T")]
    pub(super) temperature: Option<f64>,
    /// Seed of the random draws; the same seed and machine give the same answer
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Print one JSON object at the end instead of text as it comes
    #[arg(long)]
    pub(super) json: bool,
    /// Print times and token counts to stderr
    #[arg(long)]
    pub(super) stats: bool,
    /// Say nothing about the answer: which peer gave it, whether it was cut
    #[arg(long, short)]
    pub(super) quiet: bool,
}

#[derive(Debug, Args)]
pub(super) struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct SnoozeArgs {
    /// How long: 90s, 30m, 2h or 3d (1s to 365d)
    #[arg(value_name = "TIME", value_parser = snooze_time)]
    pub(super) time: u64,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The request, as `idlewild run` prints it; the latest if it is `last` or not given
    pub(super) request: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct MoveArgs {
    /// The request, as `idlewild explain` prints it, or `last`; it must have been asked at this peer
    pub(super) request: String,
    /// Where to: a peer's id, or the end of it that `idlewild status` shows
    #[arg(long, value_name = "PEER")]
    pub(super) to: String,
    /// How its context gets there
    #[arg(long, value_enum, default_value_t = WayArg::Auto)]
    pub(super) way: WayArg,
    /// Only have the context there, for when the worker leaves
    #[arg(long)]
    pub(super) prepare_only: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// How a context gets to another peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum WayArg {
    /// As the rates between the two peers suggest
    Auto,
    /// The destination prefills the ids
    Ids,
    /// It pulls the whole KV cache
    Whole,
    /// It prefills from one end and pulls from the other
    Rest,
}

#[derive(Debug, Args)]
pub(super) struct InviteArgs {
    /// How long the ticket counts: 90s, 15m, 2h or 3d (1m to 7d)
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = ticket_time)]
    pub(super) ttl: u64,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct JoinArgs {
    /// Read the ticket from this file (- for stdin)
    #[arg(long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Leave the present swarm for the new one
    #[arg(long)]
    pub(super) replace: bool,
}

#[derive(Debug, Args)]
pub(super) struct ModelsArgs {
    #[command(subcommand)]
    pub(super) command: ModelsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ModelsCommand {
    /// List the models here and, while the agent runs, in the swarm
    List(JsonArgs),
    /// Copy a GGUF file into the model store
    #[command(alias = "add")]
    Import {
        /// The file
        file: PathBuf,
        /// What to call it; the file's name if not given
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    pub(super) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print the settings in force, as a config.toml
    Show,
    /// Print a config.toml that describes every key
    Default,
    /// Print where config.toml and the other directories are
    Path(JsonArgs),
}

#[derive(Debug, Args)]
pub(super) struct IdentityArgs {
    #[command(subcommand)]
    pub(super) command: IdentityCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum IdentityCommand {
    /// Print this machine's peer id and swarm
    Show(JsonArgs),
    /// Make a new identity, for a copied data directory; the old files are kept beside it
    Reset,
    /// Bind the identity to where the data directory is now, after it was moved
    Keep,
}

#[derive(Debug, Args)]
pub(super) struct DevArgs {
    #[command(subcommand)]
    pub(super) command: DevCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum DevCommand {
    /// Start several agents on this machine as one private swarm
    Cluster(ClusterArgs),
    /// Stop what `dev cluster --keep` left running
    Stop(StopArgs),
}

#[derive(Debug, Args)]
pub(super) struct ClusterArgs {
    /// How many agents
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub(super) peers: u16,
    /// A model for those that take work: a name in this user's store, or a .gguf file
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) model: Option<String>,
    /// How many of them, from the first on, take no work themselves and get no model
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) busy: u16,
    /// Any setting of all agents, such as engine.backend=fake; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Where the agents keep their files; they are found again there
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Leave the agents running; `idlewild dev stop` stops them
    #[arg(long)]
    pub(super) keep: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct StopArgs {
    /// The directory that `dev cluster` was given
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_of_up_become_settings_and_absent_ones_stay_silent() {
        let parse = |line: &str| {
            let command = Cli::try_parse_from(line.split(' ')).unwrap().command;
            let Command::Up(args) = command else { panic!("not up: {line}") };
            args.layer()
        };
        assert_eq!(parse("idlewild up"), Layer::default());
        let layer = parse("idlewild up --always-idle --api-port 0 --port 7 --peer /a --peer /b --no-mdns --model m");
        assert_eq!(layer.owner.source, Some(OwnerChoice::AlwaysIdle));
        assert_eq!((layer.api.port, layer.swarm.port, layer.swarm.mdns), (Some(0), Some(7), Some(false)));
        assert_eq!(layer.swarm.peers.unwrap().len(), 2);
        assert_eq!(layer.models.default.as_deref(), Some("m"));
    }
}
