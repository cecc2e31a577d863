//! A leader, and what origins tell it.

use core::time::Duration;

use idlewild_protocol::{
    Digest, Epoch, PeerId, Plan, PlanStep, QuantisedSurvival, RequestId, RequestReport, RequestStage, Term,
};

use super::fleet::{MODEL, digest, model, ms, peer, request, view_of};
use crate::Now;
use crate::coordinator::{Coordinator, CoordinatorConfig, Input, Output};
use crate::view::View;

/// When a leader elected at 0 begins its first round.
pub(super) const FIRST_ROUND: Now = Duration::from_secs(5);

/// The origin of every request here.
pub(super) fn origin() -> PeerId {
    peer(1)
}

/// Elected at 0.
pub(super) fn leader() -> Coordinator {
    leader_with(&CoordinatorConfig::default())
}

/// The same, which decides so.
pub(super) fn leader_with(config: &CoordinatorConfig) -> Coordinator {
    let mut leader = Coordinator::new(*config);
    leader.handle(ms(0), &view_of(&[]), Input::Leading { term: Term(1) });
    leader
}

/// A digest of a peer that is expected to stay `mean_s` seconds, over links of 100 MB a second.
pub(super) fn staying(n: u8, mean_s: f64) -> Digest {
    Digest {
        survival: QuantisedSurvival::of(|t_s| (-t_s / mean_s).exp()),
        up_bytes_per_s: 100_000_000,
        down_bytes_per_s: 100_000_000,
        ..digest(n, model())
    }
}

/// Request `n`, with a context of 2000 tokens and as good as certainly 300 more to come.
pub(super) fn report(n: u8, stage: RequestStage) -> RequestReport {
    RequestReport {
        request: request(n).request,
        epoch: Epoch(1),
        sequence: 1,
        model: MODEL,
        stage,
        prompt_tokens: 1500,
        done_tokens: 500,
        residual_tokens: [300; 5],
        hops: 0,
        standby: None,
        excluded: Vec::new(),
    }
}

pub(super) fn running_on(n: u8) -> RequestStage {
    RequestStage::Running { worker: peer(n) }
}

/// What comes out by now.
pub(super) fn outputs(leader: &mut Coordinator) -> Vec<Output> {
    core::iter::from_fn(|| leader.poll_output()).collect()
}

/// The plans that come out by now, of which there is nothing else.
pub(super) fn plans(leader: &mut Coordinator) -> Vec<Plan> {
    let plan = |output| match output {
        Output::Propose { origin: to, plan } => {
            assert_eq!(to, origin());
            plan
        }
        Output::Answer { .. } | Output::PeerFault { .. } => panic!("{output:?}"),
    };
    outputs(leader).into_iter().map(plan).collect()
}

pub(super) fn actions(leader: &mut Coordinator) -> Vec<(RequestId, PlanStep)> {
    plans(leader).into_iter().map(|plan| (plan.request, plan.step)).collect()
}

pub(super) fn tell(leader: &mut Coordinator, now: Now, view: &View, report: RequestReport) {
    leader.handle(now, view, Input::Report { origin: origin(), report });
}

/// Reports at 0, then a tick at the first round.
pub(super) fn first_round(leader: &mut Coordinator, view: &View, reports: &[RequestReport]) {
    for report in reports {
        tell(leader, ms(0), view, report.clone());
    }
    assert_eq!(outputs(leader), [], "before the round");
    leader.handle(FIRST_ROUND, view, Input::Tick);
}
