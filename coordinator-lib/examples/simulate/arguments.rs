//! What is asked for on the command line.

use core::str::FromStr;

use idlewild_coordinator::sim::fleet::{Archetype, BatchSpec, LinkClass};
use idlewild_coordinator::sim::input::LeavingSpec;
use idlewild_coordinator::sim::recorded::RecordedSpec;
use idlewild_coordinator::sim::scenario::Span;
use idlewild_coordinator::sim::synthetic::{SyntheticFleet, SyntheticSpec};
use idlewild_coordinator::sim::{Decider, Part, PolicyKind, PolicyParts};

pub(crate) const USAGE: &str = "\
usage: simulate [--fleet volunteer|mixed | --availability FILE --workload FILE] [OPTION VALUE]...

what is simulated
  --fleet NAME          a fleet of the published reference, drawn anew for each seed (default volunteer)
  --scale N             times as many machines and requests (default 1)
  --load X              times as many requests (default 1)
  --history-s S         seconds of sessions that the machines know of before the run (default 0)
  --availability FILE   host,start_s,end_s,censored; with
  --workload FILE       arrival_s,prompt_tokens,output_tokens
  --peers N             hosts of the record (default 30)
  --link CLASS          ethernet, wifi, fibre or dsl (default wifi)
  --share X             part of the recorded requests that come (default 0.025)
  --stretch X           times slower than they were recorded (default 3)
  --duration-s S  --warmup-s S  --drain-s S
how machines work and leave
  --slots N             requests that may run at once (default 1)
  --shared-step X       part of a decoding step that all of a batch share (default 0.5)
  --announced X         part of departures that are announced, --notice-s S ahead (default 0, 30)
  --stops X             part in which the owner is back and contexts stay for --grace-s S (default 0, 10)
what is compared
  --policies A,B,..     random, reactive_fastest, load_aware, hazard_blocking, hazard_overlapped, oracle_placement,
                        oracle_full (default reactive_fastest,hazard_overlapped); differences are from the first
  --without A,B,..      parts of the corrected rule to leave out: prepare, commit, requeue, residual, placement-hazard,
                        slowdown, notice
  --set NAME=VALUE,..   numbers of the corrected rule: idle_second, placement_loss_s, move_loss_s, requeue_gain_s
  --decider NAME        rules (default), or coordinator: the product's machine, which has hazard_overlapped alone
  --seeds N             runs of each (default 40), from --first-seed N (default 0)
results
  --json FILE           all figures; whole or not at all
  --log FILE            what happened, a line each";

/// Where scenarios come from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Synthetic(SyntheticSpec),
    Recorded { availability: String, workload: String, spec: RecordedSpec },
}

/// All that was asked.
#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    pub(crate) source: Source,
    pub(crate) policies: Vec<PolicyKind>,
    pub(crate) parts: PolicyParts,
    pub(crate) decider: Decider,
    pub(crate) json: Option<String>,
    pub(crate) log: Option<String>,
    first_seed: u64,
    count: u64,
}

/// Options and their values, as they are taken.
struct Given<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Given<'a> {
    fn of(arguments: &'a [String]) -> Result<Self, String> {
        let pairs = arguments.chunks(2).map(|pair| match pair {
            [name, value] if name.starts_with("--") => Ok((name.as_str(), value.as_str())),
            [name, _] => Err(format!("{name} is no option; --help names them")),
            [name] | [name, ..] => Err(format!("{name} needs a value; --help says which")),
            [] => Err("no option".to_owned()),
        });
        pairs.collect::<Result<_, String>>().map(Self)
    }

    fn take(&mut self, name: &str) -> Option<&'a str> {
        let at = self.0.iter().position(|(known, _)| *known == name)?;
        Some(self.0.remove(at).1)
    }

    fn parse<T: FromStr>(&mut self, name: &str, or: T) -> Result<T, String> {
        match self.take(name) {
            Some(text) => text.parse().map_err(|_| format!("{name}: {text:?} is no such number")),
            None => Ok(or),
        }
    }

    fn named<T: FromStr<Err: core::fmt::Display>>(&mut self, name: &str, or: &str) -> Result<T, String> {
        self.take(name).unwrap_or(or).parse().map_err(|error: T::Err| format!("{name}: {error}"))
    }

    fn list<T: FromStr<Err: core::fmt::Display>>(&mut self, name: &str, or: &str) -> Result<Vec<T>, String> {
        let names = self.take(name).unwrap_or(or).split(',').filter(|part| !part.is_empty());
        names.map(|part| part.parse().map_err(|error: T::Err| format!("{name}: {error}"))).collect()
    }
}

impl Arguments {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut given = Given::of(arguments)?;
        let parsed = Self {
            policies: given.list("--policies", "reactive_fastest,hazard_overlapped")?,
            parts: parts(&mut given)?,
            decider: decider(&mut given)?,
            json: given.take("--json").map(str::to_owned),
            log: given.take("--log").map(str::to_owned),
            first_seed: given.parse("--first-seed", 0)?,
            count: given.parse("--seeds", 40)?,
            source: source(&mut given)?,
        };
        if let Some((name, _)) = given.0.first() {
            return Err(format!("{name} is not known here, or was said twice; --help names the options"));
        }
        if parsed.policies.is_empty() || parsed.count == 0 {
            return Err("at least one policy and one seed are needed".to_owned());
        }
        Ok(parsed)
    }

    pub(crate) fn seeds(&self) -> impl Iterator<Item = u64> {
        self.first_seed..self.first_seed.saturating_add(self.count)
    }
}

fn decider(given: &mut Given<'_>) -> Result<Decider, String> {
    match given.take("--decider") {
        None | Some("rules") => Ok(Decider::Rules),
        Some("coordinator") => Ok(Decider::Coordinator),
        Some(other) => Err(format!("--decider: {other:?} is none: use rules or coordinator")),
    }
}

fn parts(given: &mut Given<'_>) -> Result<PolicyParts, String> {
    let mut parts = PolicyParts { without: given.list::<Part>("--without", "")?, ..PolicyParts::default() };
    let set = given.take("--set").unwrap_or_default();
    for pair in set.split(',').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(format!("--set: {pair:?} has no ="))?;
        let value: f64 = value.parse().map_err(|_| format!("--set: {value:?} is no number"))?;
        let (prices, limits) = (&mut parts.overlapped.prices, &mut parts.overlapped.limits);
        match name {
            "idle_second" => prices.idle_second = value,
            "placement_loss_s" => prices.placement_loss_s = value,
            "move_loss_s" => prices.move_loss_s = value,
            "requeue_gain_s" => limits.requeue_gain_s = value,
            _ => return Err(format!("--set: {name:?} is not known; --help names them")),
        }
    }
    Ok(parts)
}

fn source(given: &mut Given<'_>) -> Result<Source, String> {
    let batch = BatchSpec { slots: given.parse("--slots", 1)?, shared_step: given.parse("--shared-step", 0.5)? };
    let leaving = LeavingSpec {
        announced_share: given.parse("--announced", 0.0)?,
        notice_s: given.parse("--notice-s", 30.0)?,
        stops_share: given.parse("--stops", 0.0)?,
        grace_s: given.parse("--grace-s", 10.0)?,
    };
    match (given.take("--availability"), given.take("--workload")) {
        (Some(availability), Some(workload)) => recorded(given, batch, leaving, [availability, workload]),
        (None, None) => synthetic(given, batch, leaving).map(Source::Synthetic),
        (Some(_), None) | (None, Some(_)) => Err("--availability and --workload go together".to_owned()),
    }
}

fn span(given: &mut Given<'_>, or: Span) -> Result<Span, String> {
    Ok(Span {
        duration_s: given.parse("--duration-s", or.duration_s)?,
        warmup_s: given.parse("--warmup-s", or.warmup_s)?,
        drain_s: given.parse("--drain-s", or.drain_s)?,
    })
}

fn synthetic(given: &mut Given<'_>, batch: BatchSpec, leaving: LeavingSpec) -> Result<SyntheticSpec, String> {
    let fleet: SyntheticFleet = given.named("--fleet", "volunteer")?;
    Ok(SyntheticSpec {
        fleet,
        batch,
        leaving,
        scale: given.parse("--scale", 1)?,
        load: given.parse("--load", 1.0)?,
        history_s: given.parse("--history-s", 0.0)?,
        span: Some(span(given, fleet.span())?),
    })
}

fn recorded(
    given: &mut Given<'_>,
    batch: BatchSpec,
    leaving: LeavingSpec,
    [availability, workload]: [&str; 2],
) -> Result<Source, String> {
    let link: LinkClass = given.named("--link", "wifi")?;
    let stem = |file: &str| {
        let name = std::path::Path::new(file).file_name().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_default().split('.').next().unwrap_or_default().to_owned()
    };
    let spec = RecordedSpec {
        name: format!("{} x {}", stem(availability), stem(workload)),
        peers: given.parse("--peers", 30)?,
        kind: Archetype::LAPTOP,
        link: link.link(),
        batch,
        leaving,
        share: given.parse("--share", 0.025)?,
        stretch: given.parse("--stretch", 3.0)?,
        span: span(given, Span { duration_s: 7200.0, warmup_s: 1800.0, drain_s: 3600.0 })?,
    };
    Ok(Source::Recorded { availability: availability.to_owned(), workload: workload.to_owned(), spec })
}
