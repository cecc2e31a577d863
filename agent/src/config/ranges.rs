//! What values may be, beyond their types.

use std::ops::RangeInclusive;

use super::schedule::Schedule;
use super::settings::{Config, RuleSettings};

/// The largest prompt a peer may be sent is 2 MiB with its frame; a body must leave room for what is added to it.
const MAX_BODY_BYTES: u32 = 2_000_000;

/// A value that cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// The keys that it hangs on, `section.key`, the one to change first.
    pub(super) keys: &'static [&'static str],
    /// What it is, and what it may be.
    pub(super) message: String,
}

/// The first fault of these settings.
pub(super) fn fault(config: &Config) -> Option<Fault> {
    let (api, engine) = (&config.api, &config.engine);
    within(&["api.max_body_bytes"], api.max_body_bytes, 1024..=MAX_BODY_BYTES)
        .or_else(|| within(&["api.max_requests"], api.max_requests, 1..=10_000))
        .or_else(|| within(&["engine.threads"], u32::from(engine.threads), 0..=1024))
        .or_else(|| within(&["engine.slots"], u32::from(engine.slots), 1..=32))
        .or_else(|| within(&["engine.context_tokens"], engine.context_tokens, 64..=1_048_576))
        .or_else(|| within(&["engine.kv_tokens"], engine.kv_tokens, 0..=16_777_216))
        .or_else(|| room(engine.kv_tokens, engine.context_tokens))
        .or_else(|| rate(&["engine.fake_prefill_tps"], engine.fake_prefill_tps))
        .or_else(|| rate(&["engine.fake_decode_tps"], engine.fake_decode_tps))
        .or_else(|| within(&["owner.idle_delay_s"], config.owner.idle_delay_s, 1..=86_400))
        .or_else(|| socket(&config.owner.lookout_socket))
        .or_else(|| within(&["owner.grace_ms"], config.owner.grace_ms, 0..=30_000))
        .or_else(|| level(&config.log.level))
        .or_else(|| rules(&config.rules))
        .or_else(|| listen(config))
        .or_else(|| peers(config))
}

fn within(keys: &'static [&'static str], value: u32, range: RangeInclusive<u32>) -> Option<Fault> {
    let message = || format!("{value} is out of range (it may be {} to {})", range.start(), range.end());
    (!range.contains(&value)).then(|| Fault { keys, message: message() })
}

/// A word alone that is no level would be taken for a part of the program, and nothing else be logged.
fn level(directives: &str) -> Option<Fault> {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    let is_level = |word: &str| levels.iter().any(|level| level.eq_ignore_ascii_case(word.trim()));
    let wrong = directives.split(',').find(|part| !is_level(part.rsplit('=').next().unwrap_or_default()))?;
    let message =
        format!("{wrong:?} is no level (they are {}), nor a part and its level (\"libp2p=debug\")", levels.join(", "));
    Some(Fault { keys: &["log.level"], message })
}

/// Bytes that the path of a socket may have, on the system that permits the fewest.
const SOCKET_PATH_MAX: usize = 100;

fn socket(path: &str) -> Option<Fault> {
    let is_fine = path.is_empty() || (std::path::Path::new(path).is_absolute() && path.len() <= SOCKET_PATH_MAX);
    let message = || {
        format!(
            "{path:?} is no path of a socket; write an absolute one of at most {SOCKET_PATH_MAX} bytes, such as \
             /run/idlewild/lookouts.sock"
        )
    };
    (!is_fine).then(|| Fault { keys: &["owner.lookout_socket"], message: message() })
}

fn rules(rules: &RuleSettings) -> Option<Fault> {
    within(&["rules.battery_percent_min"], rules.battery_percent_min, 0..=100)
        .or_else(|| within(&["rules.temperature_max_c"], rules.temperature_max_c, 0..=150))
        .or_else(|| within(&["rules.others_cpu_percent_max"], rules.others_cpu_percent_max, 1..=100))
        .or_else(|| within(&["rules.ram_idle_percent"], rules.ram_idle_percent, 1..=100))
        .or_else(|| within(&["rules.ram_busy_percent"], rules.ram_busy_percent, 1..=100))
        .or_else(|| exclusive_apps(&rules.exclusive_apps))
        .or_else(|| {
            let wrong = Schedule::parse(&rules.schedule).err()?;
            Some(Fault { keys: &["rules.schedule"], message: wrong.to_string() })
        })
}

/// A name that matches everything would stop the machine for good.
fn exclusive_apps(names: &[String]) -> Option<Fault> {
    let wrong = names.iter().find(|name| name.trim_end_matches('*').trim().is_empty() || name.contains('/'))?;
    let message = format!("{wrong:?} is no name of a program (such as \"blender\", without its directory)");
    Some(Fault { keys: &["rules.exclusive_apps"], message })
}

fn room(kv_tokens: u32, context_tokens: u32) -> Option<Fault> {
    let message = || {
        format!(
            "engine.kv_tokens ({kv_tokens}) must be at least engine.context_tokens ({context_tokens}): one context must fit"
        )
    };
    let keys = &["engine.kv_tokens", "engine.context_tokens"];
    (kv_tokens < context_tokens).then(|| Fault { keys, message: message() })
}

fn rate(keys: &'static [&'static str], tps: f32) -> Option<Fault> {
    let is_fine = tps.is_finite() && tps > 0.0;
    (!is_fine).then(|| Fault { keys, message: format!("{tps} is out of range (it may be any number above 0)") })
}

fn listen(config: &Config) -> Option<Fault> {
    let message = || "there must be at least one address to listen on, such as 0.0.0.0".to_owned();
    config.swarm.listen.is_empty().then(|| Fault { keys: &["swarm.listen"], message: message() })
}

fn peers(config: &Config) -> Option<Fault> {
    let wrong = config.swarm.peers.iter().find(|text| !idlewild_swarm::is_peer_address(text))?;
    let message = format!(
        "{wrong:?} is no peer's address; write host:port such as 192.168.1.20:14354, or a multiaddress such as \
         /ip4/192.168.1.20/udp/14354/quic-v1"
    );
    Some(Fault { keys: &["swarm.peers"], message })
}
