//! Asks the product's own `Coordinator` through its door: digests go into a `View`, questions and reports into the machine,
//! and its answers and plans are what is done.
//!
//! One coordinator for all, that hears every digest as it changes: what a leader with a perfect network would know. Each
//! request is reported when it is looked at and forgotten after, so that the cadence is the run's. Deliberately absent: the
//! election, the origins' machines, and the time that messages take.

use core::time::Duration;

use idlewild_protocol::{
    BootId, DepartureCause, Digest, Epoch, ModelId, ModelLoad, PeerId, PeerState, PlaceOutcome, PlaceRequest, PlanStep,
    RequestId, RequestReport, RequestStage, Standby, StandbyState, Term,
};

use super::offers::offer;
use super::{Driver, PolicyDriver, PolicyKind, PolicyParts, Step};
use crate::coordinator::{Coordinator, CoordinatorConfig, Input, Output};
use crate::policy::HazardAwarePolicy;
use crate::sim::scenario::{Arrival, Scenario};
use crate::sim::world::{Phase, Presence, Swarm};
use crate::view::View;

const MODEL: ModelId = ModelId([1; 32]);
const BOOT: BootId = BootId(1);
const TERM: Term = Term(1);

/// No request of a run: what a digest says is for one more.
const NOBODY: usize = usize::MAX;

/// The machine, what it sees, and what agents would tell it.
#[derive(Debug)]
pub(crate) struct CoordinatorDriver<'a> {
    /// What peers know of their own chance to stay, and origins of lengths.
    known: PolicyDriver<'a>,
    coordinator: Coordinator,
    view: View,
    /// By peer: what its digest says, of the number that it had last.
    digests: Vec<Option<Digest>>,
    sequence: u64,
    reports: u64,
}

impl<'a> CoordinatorDriver<'a> {
    pub(crate) fn new(parts: PolicyParts, scenario: &'a Scenario, seed: u64) -> Self {
        let policy = HazardAwarePolicy { overlapped: parts.overlapped, ..HazardAwarePolicy::default() };
        let config = CoordinatorConfig { policy, check_interval: Duration::ZERO };
        let me = PeerId([u8::MAX; 32]);
        let mut driver = Self {
            known: PolicyDriver::new(PolicyKind::HazardOverlapped, parts, scenario, seed),
            coordinator: Coordinator::new(config),
            view: View::bounded(me, scenario.peers.len() + 1),
            digests: vec![None; scenario.peers.len()],
            sequence: 0,
            reports: 0,
        };
        driver.coordinator.handle(Duration::ZERO, &driver.view, Input::Leading { term: TERM });
        driver
    }

    /// Brings the view up to what digests say now.
    fn see(&mut self, swarm: &Swarm) {
        let now = time(swarm.now_s);
        self.known.refresh(swarm.now_s, (0..swarm.peers.len()).filter(|peer| swarm.peers[*peer].is_here()));
        for peer in 0..swarm.peers.len() {
            let said = self.digest(swarm, peer);
            match (said, &self.digests[peer]) {
                (Some(said), known) => {
                    let is_same = known
                        .as_ref()
                        .is_some_and(|known| Digest { sequence: known.sequence, ..said.clone() } == *known);
                    if known.is_none() {
                        self.view.connected(now, said.peer, BOOT);
                    }
                    if !is_same {
                        self.sequence += 1;
                        let said = Digest { sequence: self.sequence, ..said };
                        self.view.apply(now, said.clone());
                        self.digests[peer] = Some(said);
                    }
                }
                (None, Some(_)) => {
                    self.view.departed(now, id(peer), DepartureCause::Unknown);
                    self.digests[peer] = None;
                }
                (None, None) => {}
            }
        }
    }

    /// What a peer says of itself; nothing while it is away.
    fn digest(&self, swarm: &Swarm, at: usize) -> Option<Digest> {
        let peer = &swarm.peers[at];
        let state = match (peer.presence, peer.leaves) {
            (Presence::Away, _) => return None,
            (Presence::Stopped, _) => PeerState::Busy,
            (Presence::Here, Some(leaves)) => {
                PeerState::Leaving { cause: leaves.cause, notice_ms: to_ms(leaves.at_s - swarm.now_s) }
            }
            (Presence::Here, None) => PeerState::Serving,
        };
        let offer = offer(swarm, &self.known.lengths, at, NOBODY);
        let held = peer.active.iter().chain(&peer.queue).chain(&peer.standbys);
        let reserved: u64 = held.map(|request| swarm.requests[*request].reserved_tokens()).sum();
        let model = ModelLoad {
            model: MODEL,
            loaded: true,
            decode_tps: offer.rates.decode_tps as f32,
            prefill_tps: offer.rates.prefill_tps as f32,
            decode_doubles_at: 0,
            prefill_doubles_at: 0,
            kv_bytes_per_token: peer.spec.kv_bytes_per_token as u32,
            context_tokens: peer.spec.kv_tokens,
            kv_free_tokens: u64::from(peer.spec.kv_tokens).saturating_sub(reserved) as u32,
            queue_wait_ms: to_ms(offer.wait_s),
            running: peer.active.len() as u16,
            slots: peer.spec.slots,
        };
        Some(Digest {
            peer: id(at),
            boot: BOOT,
            sequence: 0,
            state,
            age_s: 0,
            survival: self.known.hazards.survival(at)?,
            models: vec![model],
            up_bytes_per_s: peer.spec.link.up_bps as u64,
            down_bytes_per_s: peer.spec.link.down_bps as u64,
            pairs: Vec::new(),
            coordinator: None,
            move_times: idlewild_protocol::MoveTimes::default(),
        })
    }

    /// What the origin of a request says of it; none where there is nothing to plan for.
    fn report(&mut self, swarm: &Swarm, at: usize) -> Option<RequestReport> {
        let live = &swarm.requests[at];
        let stage = match live.phase {
            Phase::Queued { worker } => {
                let wait_s = offer(swarm, &self.known.lengths, worker, at).wait_s;
                RequestStage::Queued { worker: id(worker), wait_ms: to_ms(wait_s) }
            }
            Phase::Decoding { worker } => RequestStage::Running { worker: id(worker) },
            Phase::Pending | Phase::Unnoticed | Phase::Starting { .. } | Phase::Filling { .. } | Phase::Finished => {
                return None;
            }
        };
        let state = |standby: &crate::sim::world::Standby| match (standby.is_paused, standby.keeps_up()) {
            (true, _) => StandbyState::Paused,
            (false, true) => StandbyState::Holding,
            (false, false) => StandbyState::Preparing,
        };
        let standby = live.standby.map(|standby| Standby {
            peer: id(standby.peer),
            way: standby.way,
            state: state(&standby),
            lag_tokens: standby.lag_tokens.ceil() as u32,
        });
        self.reports += 1;
        Some(RequestReport {
            request: request_id(at),
            epoch: Epoch(live.epoch),
            sequence: self.reports,
            model: MODEL,
            stage,
            prompt_tokens: live.arrival.prompt_tokens,
            done_tokens: live.done_tokens(),
            residual_tokens: self.known.wanted(swarm, at).residual.tokens().map(|tokens| tokens.round() as u32),
            hops: live.outcome.planned,
            standby,
            excluded: Vec::new(),
        })
    }
}

impl Driver for CoordinatorDriver<'_> {
    fn begin(&mut self, now_s: f64, peer: usize) {
        self.known.begin(now_s, peer);
    }

    fn end(&mut self, now_s: f64, peer: usize, cause: Option<DepartureCause>) {
        self.known.end(now_s, peer, cause);
    }

    fn expect(&mut self, arrival: &Arrival) -> u32 {
        self.known.expect(arrival)
    }

    fn finished(&mut self, arrival: &Arrival) {
        self.known.finished(arrival);
    }

    fn place(&mut self, swarm: &Swarm, request: usize) -> Option<usize> {
        self.see(swarm);
        let work = self.known.wanted(swarm, request).work;
        let question = PlaceRequest {
            request: request_id(request),
            attempt: swarm.requests[request].epoch,
            model: MODEL,
            prompt_tokens: swarm.requests[request].arrival.prompt_tokens,
            expected_output_tokens: work.expected_output_tokens,
            done_tokens: work.done_tokens,
            excluded: Vec::new(),
        };
        let reply = self.coordinator.answer(time(swarm.now_s), &self.view, self.view.me(), &question);
        match reply.outcome {
            PlaceOutcome::Run { worker, .. } => Some(index(worker)),
            PlaceOutcome::Nowhere => None,
        }
    }

    fn looks(&self) -> bool {
        true
    }

    fn heeds_notices(&self) -> bool {
        self.known.heeds_notices()
    }

    fn is_urgent(&self, swarm: &Swarm, peer: usize) -> bool {
        self.known.is_urgent(swarm, peer)
    }

    fn look(&mut self, swarm: &Swarm, request: usize) -> Step {
        self.see(swarm);
        let Some(report) = self.report(swarm, request) else { return Step::Stay };
        let (now, origin) = (time(swarm.now_s), self.view.me());
        self.coordinator.handle(now, &self.view, Input::Report { origin, report });
        self.coordinator.handle(now, &self.view, Input::Tick);
        let mut step = Step::Stay;
        while let Some(output) = self.coordinator.poll_output() {
            if let Output::Propose { plan, .. } = output {
                step = as_step(plan.step);
            }
        }
        self.coordinator.handle(now, &self.view, Input::Ended { origin, request: request_id(request) });
        step
    }
}

fn as_step(step: PlanStep) -> Step {
    match step {
        PlanStep::Prepare { destination, way } => Step::Prepare { to: index(destination), way },
        PlanStep::Hold { .. } => Step::Hold,
        PlanStep::Pause { .. } => Step::Pause,
        PlanStep::Commit { destination, way } => Step::Commit { to: index(destination), way },
        PlanStep::Release { .. } => Step::Release,
        PlanStep::Replace { worker, .. } => Step::Requeue { to: index(worker) },
        PlanStep::Abort { .. } => Step::Stay,
    }
}

fn time(now_s: f64) -> Duration {
    Duration::from_secs_f64(now_s.max(0.0))
}

fn to_ms(seconds: f64) -> u32 {
    (seconds * 1000.0).max(0.0) as u32
}

/// In the order of the peers' numbers, so that ties are won by the first.
fn id(peer: usize) -> PeerId {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(peer as u64).to_be_bytes());
    PeerId(bytes)
}

fn index(peer: PeerId) -> usize {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&peer.0[..8]);
    u64::from_be_bytes(bytes) as usize
}

fn request_id(request: usize) -> RequestId {
    RequestId((request as u128).to_be_bytes())
}
