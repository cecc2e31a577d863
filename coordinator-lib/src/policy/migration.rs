//! Whether a running request should move before its peer leaves.
//!
//! Never because a peer is merely faster: a rule that moved whenever E_j + C < E_i thrashed. Every move must be
//! attributable to the hazard, hence two tests: the risk must fall by more than the hysteresis, and the time must not
//! rise by as much.

use super::placement::{misfit, terms_on};
use super::{Fleet, FleetPeer, Misfit};
use crate::cost::{CostParameters, PlannedCost, Terms, Work, planned_cost, service_s};

/// A request that runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Running<K> {
    /// Where.
    pub current: K,
    /// How far it has got.
    pub work: Work,
    /// Seconds of its peer's load that are its own.
    pub own_load_s: f64,
    /// Planned moves that it has made.
    pub hops: u32,
}

/// What keeps requests from moving too lightly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MigrationLimits {
    /// h: seconds that the risk must fall by, and that the time may not rise by.
    pub hysteresis_s: f64,
    /// Seconds of service left below which a request stays.
    pub min_remaining_s: f64,
    /// Planned moves that one request may make.
    pub max_hops: u32,
}

impl Default for MigrationLimits {
    /// The rule as given.
    fn default() -> Self {
        Self { hysteresis_s: 2.0, min_remaining_s: 5.0, max_hops: 3 }
    }
}

/// Why a request stays where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StayReason {
    /// The policy never moves what runs.
    PolicyNeverMoves,
    /// The policy moves only what has been prepared: it is asked by [`super::Policy::decide`].
    MovesOnlyWhatIsPrepared,
    /// The fleet does not know the peer that it runs on.
    CurrentPeerUnknown,
    /// It has made as many planned moves as it may.
    HopsSpent,
    /// It will be done soon.
    NearlyDone,
    /// No other peer can take it.
    NobodyElse,
    /// No other peer passes both tests.
    NotWorthIt,
}

/// Move or stay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MoveDecision<K> {
    /// Move.
    Move {
        /// Where to.
        to: K,
        /// How, and at what cost.
        planned: PlannedCost,
    },
    /// Stay.
    Stay(StayReason),
}

/// One peer that the request might move to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MoveCandidate<K> {
    /// The peer.
    pub peer: K,
    /// Why it cannot take the request; none where it can.
    pub misfit: Option<Misfit>,
    /// C: what the move would cost.
    pub planned: PlannedCost,
    /// What the request would cost there.
    pub terms: Terms,
    /// L here - (C + L there): seconds of expected loss that the move saves.
    pub risk_gain_s: f64,
    /// (T there + C) - T here: seconds that the move delays the end.
    pub time_delta_s: f64,
    /// Whether it can take the request and both tests say move.
    pub passes: bool,
}

impl<K> MoveCandidate<K> {
    /// What candidates are ranked by: seconds of risk saved, less any delay.
    pub fn score_s(&self) -> f64 {
        self.risk_gain_s - self.time_delta_s.max(0.0)
    }
}

/// Whether a request should move, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Migration<K> {
    /// Move or stay.
    pub decision: MoveDecision<K>,
    /// What the rest of the request costs where it is; none where the fleet does not know its peer.
    pub stay: Option<Terms>,
    /// Every other peer, in the fleet's order.
    pub candidates: Vec<MoveCandidate<K>>,
}

impl<K> Migration<K> {
    /// The answer of a policy that did not look.
    pub(super) fn unexamined(reason: StayReason) -> Self {
        Self { decision: MoveDecision::Stay(reason), stay: None, candidates: Vec::new() }
    }
}

/// The blocking rule: the source stops, the context moves, the destination goes on.
pub(super) fn decide_blocking<K: Copy + PartialEq>(
    fleet: &Fleet<'_, K>,
    running: &Running<K>,
    parameters: &CostParameters,
    limits: &MigrationLimits,
) -> Migration<K> {
    let Some(source) = fleet.peer(running.current) else {
        return Migration::unexamined(StayReason::CurrentPeerUnknown);
    };
    let stay = terms_on(fleet, source, running.own_load_s, &running.work, parameters);
    let weighing = Weighing { fleet, source, stay: &stay, work: &running.work, parameters, limits };
    let others = fleet.peers.iter().filter(|peer| peer.id != source.id);
    let candidates: Vec<_> = others.map(|peer| weighing.candidate(peer)).collect();
    let decision = match forbids(source, running, limits) {
        Some(reason) => MoveDecision::Stay(reason),
        None => best(&candidates),
    };
    Migration { decision, stay: Some(stay), candidates }
}

/// Why `running` may not move, wherever to.
fn forbids<K>(source: &FleetPeer<'_, K>, running: &Running<K>, limits: &MigrationLimits) -> Option<StayReason> {
    if running.hops >= limits.max_hops {
        return Some(StayReason::HopsSpent);
    }
    // Service alone: the wait behind others is no work of this request.
    let is_nearly_done = service_s(&source.rates, &running.work) < limits.min_remaining_s;
    is_nearly_done.then_some(StayReason::NearlyDone)
}

/// What every candidate is weighed against.
struct Weighing<'a, K> {
    fleet: &'a Fleet<'a, K>,
    source: &'a FleetPeer<'a, K>,
    stay: &'a Terms,
    work: &'a Work,
    parameters: &'a CostParameters,
    limits: &'a MigrationLimits,
}

impl<K: Copy + PartialEq> Weighing<'_, K> {
    fn candidate(&self, peer: &FleetPeer<'_, K>) -> MoveCandidate<K> {
        let link_bps = self.fleet.link_bps(self.source, peer);
        let context_tokens = self.work.context_tokens;
        let planned = planned_cost(&self.source.rates, &peer.rates, link_bps, context_tokens, self.parameters);
        let terms = terms_on(self.fleet, peer, 0.0, self.work, self.parameters);
        let risk_gain_s = self.stay.loss_s - (planned.cost_s + terms.loss_s);
        let time_delta_s = (terms.time_s() + planned.cost_s) - self.stay.time_s();
        let misfit = misfit(peer, self.work);
        let hysteresis_s = self.limits.hysteresis_s;
        let passes = misfit.is_none() && risk_gain_s > hysteresis_s && time_delta_s < hysteresis_s;
        MoveCandidate { peer: peer.id, misfit, planned, terms, risk_gain_s, time_delta_s, passes }
    }
}

/// The candidate with the greatest score among those that pass, the first of equals.
fn best<K: Copy>(candidates: &[MoveCandidate<K>]) -> MoveDecision<K> {
    let passing = candidates.iter().filter(|candidate| candidate.passes);
    let best = passing.reduce(|best, candidate| if candidate.score_s() > best.score_s() { candidate } else { best });
    match best {
        Some(best) => MoveDecision::Move { to: best.peer, planned: best.planned },
        None if candidates.iter().all(|candidate| candidate.misfit.is_some()) => {
            MoveDecision::Stay(StayReason::NobodyElse)
        }
        None => MoveDecision::Stay(StayReason::NotWorthIt),
    }
}
