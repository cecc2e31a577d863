//! One run: a scenario, a policy, and the events in between.
//!
//! ```text
//! queue --event--> events (what happens) --Driver--> steps (what is done) --> Swarm --settle--> queue
//! ```
//!
//! Deterministic: the scenario, the policy and the seed give the same events in the same order.

mod events;
mod steps;

use super::driver::{CoordinatorDriver, Driver, PolicyDriver, PolicyKind, PolicyParts};
use super::report::{Figures, RunReport};
use super::scenario::{Scenario, ScenarioError};
use super::world::{Event, Phase, Swarm};

/// A run that is under way.
#[derive(Debug)]
pub struct Simulation<'a> {
    scenario: &'a Scenario,
    swarm: Swarm,
    driver: Box<dyn Driver + 'a>,
    policy: PolicyKind,
    seed: u64,
    /// Requests that found no peer, in the order in which they came.
    pending: Vec<usize>,
    /// Whether those are to try again.
    is_retry_due: bool,
    unfinished: usize,
    events: u64,
}

/// What is left of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its figures.
    pub report: RunReport,
    /// Events that happened.
    pub events: u64,
    /// Seconds of the modelled world, from 0 to the last event.
    pub simulated_s: f64,
    /// What happened, a line each; empty unless it was asked for.
    pub log: String,
}

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decider {
    /// The rules themselves: fast, and every policy can be compared.
    #[default]
    Rules,
    /// The rules, asked with loads as the published simulator counts them: to check the world against its figures.
    Published,
    /// The product's coordinator, by digests and reports. It has the corrected rule, all of it.
    Coordinator,
}

/// How a run goes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunOptions {
    /// Of policies that draw.
    pub seed: u64,
    /// How the corrected rule is set.
    pub parts: PolicyParts,
    /// Who is asked.
    pub decider: Decider,
    /// Whether to keep a log: some 100 bytes for each thing that happens.
    pub keeps_log: bool,
}

/// Runs a scenario under a policy.
///
/// # Errors
/// Whatever is wrong with the scenario, before anything happens.
pub fn run(scenario: &Scenario, policy: PolicyKind, options: &RunOptions) -> Result<Run, ScenarioError> {
    let mut simulation = Simulation::new(scenario, policy, options)?;
    while simulation.step() {}
    Ok(simulation.finish())
}

impl<'a> Simulation<'a> {
    /// A run that begins.
    ///
    /// # Errors
    /// Whatever is wrong with the scenario.
    pub fn new(scenario: &'a Scenario, policy: PolicyKind, options: &RunOptions) -> Result<Self, ScenarioError> {
        scenario.check()?;
        let mut swarm = Swarm::new(scenario, options.keeps_log);
        for (peer, stays) in scenario.stays.iter().enumerate() {
            if let Some(first) = stays.first() {
                swarm.events.push(first.start_s, Event::Begins { peer, stay: 0 });
            }
        }
        if let Some(first) = scenario.arrivals.first() {
            swarm.events.push(first.at_s, Event::Arrives);
        }
        let parts = options.parts.clone();
        let driver: Box<dyn Driver + 'a> = match options.decider {
            Decider::Rules => Box::new(PolicyDriver::new(policy, parts, scenario, options.seed)),
            Decider::Published => {
                Box::new(PolicyDriver::new(policy, parts, scenario, options.seed).with_published_loads())
            }
            Decider::Coordinator if policy == PolicyKind::HazardOverlapped => {
                Box::new(CoordinatorDriver::new(parts, scenario, options.seed))
            }
            Decider::Coordinator => return Err(ScenarioError::NotCoordinated { policy: policy.name() }),
        };
        Ok(Self {
            scenario,
            swarm,
            driver,
            policy,
            seed: options.seed,
            pending: Vec::new(),
            is_retry_due: false,
            unfinished: 0,
            events: 0,
        })
    }

    /// The next thing happens. False once the run is over: all requests that came in time are finished, or time is up.
    pub fn step(&mut self) -> bool {
        let all_came = self.swarm.requests.len() >= self.counted_arrivals();
        if all_came && self.unfinished == 0 {
            return false;
        }
        let Some((at_s, event)) = self.swarm.events.pop() else { return false };
        if at_s > self.scenario.span.end_s() {
            return false;
        }
        self.swarm.now_s = at_s;
        self.events += 1;
        self.handle(event);
        if core::mem::take(&mut self.is_retry_due) {
            self.place_pending();
        }
        self.swarm.settle();
        true
    }

    /// Arrivals within the run.
    fn counted_arrivals(&self) -> usize {
        self.scenario.arrivals.partition_point(|arrival| arrival.at_s < self.scenario.span.duration_s)
    }

    /// What is left of it.
    pub fn finish(mut self) -> Run {
        let (now_s, from_s) = (self.swarm.now_s, self.swarm.counts_from_s);
        for request in 0..self.swarm.requests.len() {
            let live = &mut self.swarm.requests[request];
            live.advance(now_s);
            // Who still waits has waited until now.
            if let Some((since_s, was_planned)) = live.stalled.take().filter(|_| live.phase != Phase::Finished) {
                let stall_s = if was_planned { &mut live.outcome.planned_stall_s } else { &mut live.outcome.stall_s };
                *stall_s += now_s - since_s;
            }
        }
        for peer in &mut self.swarm.peers {
            peer.count(now_s, from_s);
        }
        let sum = |of: fn(&super::world::Peer) -> f64| self.swarm.peers.iter().map(of).sum::<f64>();
        let here_s = sum(|peer| peer.here_s);
        let utilisation = if here_s > 0.0 { sum(|peer| peer.busy_s) / here_s } else { 0.0 };
        let outcomes = self.swarm.requests.iter().map(|live| &live.outcome);
        let figures = Figures::of(outcomes, from_s, utilisation);
        let report = RunReport { seed: self.seed, policy: self.policy.name().to_owned(), figures };
        Run { report, events: self.events, simulated_s: now_s.max(0.0), log: self.swarm.take_log() }
    }

    #[cfg(test)]
    pub(super) fn swarm(&self) -> &Swarm {
        &self.swarm
    }

    #[cfg(test)]
    pub(super) fn swarm_mut(&mut self) -> &mut Swarm {
        &mut self.swarm
    }
}
