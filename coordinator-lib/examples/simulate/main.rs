//! Compares policies over whole swarms: `simulate --fleet volunteer --policies reactive_fastest,hazard_overlapped`.
//!
//! Prints a table, and with `--json FILE` writes all figures: whole or not at all. `--help` names the options.

mod arguments;
mod output;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use arguments::{Arguments, Source};
use idlewild_coordinator::sim::input::{Availability, parse_availability, parse_workload};
use idlewild_coordinator::sim::recorded::RecordedSpec;
use idlewild_coordinator::sim::report::{Comparison, RunReport};
use idlewild_coordinator::sim::scenario::{Arrival, Scenario};
use idlewild_coordinator::sim::synthetic::SyntheticSpec;
use idlewild_coordinator::sim::{RunOptions, run};

type Failure = Box<dyn core::error::Error>;

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if given.iter().any(|argument| argument == "--help") {
        return if writeln!(io::stdout(), "{}", arguments::USAGE).is_ok() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    match simulate(&given) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody is left to be told if this fails.
            let _ = writeln!(io::stderr(), "simulate: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Where scenarios come from, with all tables read.
enum Drawn {
    Synthetic(SyntheticSpec),
    Recorded(RecordedSpec, Availability, Vec<Arrival>),
}

impl Drawn {
    fn of(source: &Source) -> Result<Self, Failure> {
        match source {
            Source::Synthetic(spec) => Ok(Self::Synthetic(*spec)),
            Source::Recorded { availability, workload, spec } => {
                let read = |file: &str| std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
                let hosts = parse_availability(availability, &read(availability)?)?;
                let requests = parse_workload(workload, &read(workload)?)?;
                Ok(Self::Recorded(spec.clone(), hosts, requests))
            }
        }
    }

    fn draw(&self, seed: u64) -> Result<Scenario, Failure> {
        match self {
            Self::Synthetic(spec) => Ok(spec.draw(seed)),
            Self::Recorded(spec, hosts, requests) => Ok(spec.draw(hosts, requests, seed)?),
        }
    }
}

fn simulate(given: &[String]) -> Result<(), Failure> {
    let arguments = Arguments::parse(given)?;
    let drawn = Drawn::of(&arguments.source)?;
    // All of it is looked at before the first run.
    for seed in arguments.seeds() {
        drawn.draw(seed)?.check()?;
    }
    let (mut reports, mut speeds, mut log) = (Vec::<RunReport>::new(), Vec::new(), String::new());
    let mut name = String::new();
    for policy in &arguments.policies {
        let (mut simulated_s, mut events) = (0.0, 0);
        let began = cpu_time();
        for seed in arguments.seeds() {
            let scenario = drawn.draw(seed)?;
            let parts = arguments.parts.clone();
            let (decider, keeps_log) = (arguments.decider, arguments.log.is_some());
            let options = RunOptions { seed, parts, decider, keeps_log };
            let run = run(&scenario, *policy, &options)?;
            simulated_s += run.simulated_s;
            events += run.events;
            log.push_str(&run.log);
            reports.push(run.report);
            name = scenario.name;
        }
        let took = cpu_time().saturating_sub(began);
        speeds.push(output::Speed::new(policy.name(), simulated_s, events, took));
    }
    let names: Vec<String> = arguments.policies.iter().map(|policy| policy.name().to_owned()).collect();
    let comparison = Comparison::of(&name, &names, &reports);
    if let Some(file) = &arguments.json {
        output::write_whole(file, &output::json(&comparison, given)?)?;
    }
    if let Some(file) = &arguments.log {
        output::write_whole(file, &log)?;
    }
    write!(io::stdout(), "{}", output::table(&comparison, &speeds))?;
    Ok(())
}

/// Seconds of a processor that this process has had: the wall clock would count what others do.
fn cpu_time() -> Duration {
    let schedule = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    // Where there is no such file speeds are not shown.
    schedule.split(' ').next().and_then(|text| text.parse().ok()).map_or(Duration::ZERO, Duration::from_nanos)
}
