//! What an origin's report means in terms of costs.

use idlewild_protocol::{MAX_EXCLUDED_PEERS, PeerId, RequestReport, Standby, StandbyState};

use crate::cost::{Residual, Work};
use crate::policy::overlapped;

/// The standby as the policy wants it.
pub(super) fn standby(standby: Standby) -> overlapped::Standby<PeerId> {
    let Standby { peer, way, state, lag_tokens } = standby;
    overlapped::Standby { at: peer, way, lag_tokens, is_paused: state == StandbyState::Paused }
}

/// Who may not take it, in bounds.
pub(super) fn excluded(report: &RequestReport) -> &[PeerId] {
    &report.excluded[..report.excluded.len().min(MAX_EXCLUDED_PEERS)]
}

/// R, as far as the quantiles make sense.
pub(super) fn residual(report: &RequestReport) -> Residual {
    Residual::of(report.residual_tokens.map(f64::from))
}

/// What the standby holds of its context.
pub(super) fn held(report: &RequestReport) -> Option<(PeerId, u32)> {
    report.standby.map(|standby| (standby.peer, report.context_tokens().saturating_sub(standby.lag_tokens)))
}

fn expected_output_tokens(report: &RequestReport) -> u32 {
    report.done_tokens.saturating_add(residual(report).mean_tokens().round() as u32)
}

/// What is left of it where it runs.
pub(super) fn work_here(report: &RequestReport) -> Work {
    Work::running(report.prompt_tokens, expected_output_tokens(report), report.done_tokens)
}

/// What is left of it where it begins, or begins again: all of its context is prefilled.
pub(super) fn work_anew(report: &RequestReport) -> Work {
    Work::orphaned(report.prompt_tokens, expected_output_tokens(report), report.done_tokens)
}
