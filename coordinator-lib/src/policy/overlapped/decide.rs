//! The order of the tests for one running request.
//!
//! ```text
//! announced ------------------------------> NOTICE
//! no standby -----------------------------> PREPARE the candidate that is worth most
//! standby: gone or vetoed for good -------> Release
//!          COMMIT passes -----------------> Commit
//!          keeps up, HOLD ----------------> Hold or Pause
//!          on its way, PREPARE (half) ----> Prepare (go on) or Pause
//!          paused, PREPARE ---------------> Prepare (resume) or Stay
//! ```

use super::candidate::{Destination, terms};
use super::weigh::Weighing;
use super::{
    Action, Because, CandidateTerms, Decision, Leaving, NoticeTest, OverlappedParameters, PrepareTest, RunningRequest,
    Standby,
};
use crate::cost::Way;

/// What to do with a request that runs, by the corrected rule.
///
/// The same inputs give the same decision; of equals the first candidate wins. Inputs that are no numbers make a peer no
/// destination, or the decision one to stay: never an action that rests on them.
pub fn decide<K: Copy + PartialEq>(request: &RunningRequest<'_, K>, parameters: &OverlappedParameters) -> Decision<K> {
    let Some(weighing) = Weighing::new(request, parameters) else {
        return Decision::unexamined(Because::SourceNotMeasured);
    };
    let standby = request.standby.and_then(|standby| request.candidate(standby.at));
    let standby = standby
        .and_then(|candidate| Destination::new(&weighing, candidate).ok().map(|to| (&candidate.host, to.as_it_is())));
    let stay = weighing.stay(standby.as_ref().map(|(host, takeover)| (*host, takeover)));
    let candidates: Vec<_> = request
        .candidates
        .iter()
        .filter(|candidate| candidate.host.id != request.source.id)
        .map(|candidate| terms(&weighing, candidate, &stay))
        .collect();
    let (action, because) = match (request.leaving, request.standby) {
        (Leaving::Announced { notice_ms, decodes, .. }, _) => {
            on_notice(&weighing, &candidates, f64::from(notice_ms) / 1000.0, decodes)
        }
        (Leaving::Unannounced, Some(standby)) => with_standby(&candidates, &standby),
        (Leaving::Unannounced, None) => without_standby(&candidates),
    };
    let fallback = weighing.fallback.map(|fallback| fallback.peer);
    Decision { action, because, fallback, stay: Some(stay), candidates }
}

fn without_standby<K: Copy>(candidates: &[CandidateTerms<K>]) -> (Action<K>, Because) {
    let fit = || candidates.iter().filter(|terms| terms.veto.is_none());
    let paying = fit().filter_map(|terms| Some((terms, terms.prepare.filter(PrepareTest::passes)?)));
    let best = paying.reduce(|best, other| if other.1.net_s() > best.1.net_s() { other } else { best });
    match best.and_then(|(terms, _)| Some((terms.host, terms.preparation?.way))) {
        Some((destination, way)) => (Action::Prepare { destination, way }, Because::PreparationPays),
        None if candidates.is_empty() => (Action::Stay, Because::NobodyElse),
        None if fit().next().is_none() => (Action::Stay, Because::AllVetoed),
        None => (Action::Stay, Because::NoPreparationPays),
    }
}

fn with_standby<K: Copy + PartialEq>(candidates: &[CandidateTerms<K>], standby: &Standby<K>) -> (Action<K>, Because) {
    let destination = standby.at;
    let terms = candidates.iter().find(|terms| terms.host == destination);
    let useful = terms.filter(|terms| !terms.veto.is_some_and(super::veto::is_final));
    let Some((terms, commit)) = useful.and_then(|terms| Some((terms, terms.commit?))) else {
        return (Action::Release { destination }, Because::StandbyUseless);
    };
    let is_free = terms.veto.is_none();
    let way = terms.preparation.map_or(standby.way, |preparation| preparation.way);
    let prepare_pays = is_free && terms.prepare.is_some_and(|test| test.passes());
    if is_free && commit.passes() {
        return (Action::Commit { destination, way }, Because::MovePays);
    }
    if commit.is_ready() && !standby.is_paused {
        return match terms.hold {
            Some(hold) if hold.passes() => (Action::Hold { destination }, Because::StandbyPays),
            Some(_) | None => (Action::Pause { destination }, Because::StandbyDoesNotPay),
        };
    }
    match (prepare_pays, standby.is_paused) {
        (true, _) => (Action::Prepare { destination, way }, Because::PreparationPays),
        (false, true) => (Action::Stay, Because::NoPreparationPays),
        (false, false) => (Action::Pause { destination }, Because::NoPreparationPays),
    }
}

fn on_notice<K: Copy + PartialEq>(
    weighing: &Weighing<'_, K>,
    candidates: &[CandidateTerms<K>],
    notice_s: f64,
    decodes: bool,
) -> (Action<K>, Because) {
    if decodes && weighing.remainder.horizon_s() < notice_s {
        return (Action::Stay, Because::DoneBeforeNotice);
    }
    let able = || candidates.iter().filter_map(|terms| Some((terms, terms.notice?, terms.preparation?)));
    // What is transferred to the standby is worth keeping, and a look later noise may have it the other way.
    let kept_s =
        |host| if weighing.standby_at(host).is_some() { weighing.parameters.limits.switch_gain_s } else { 0.0 };
    let cost_s = |terms: &CandidateTerms<K>, notice: &NoticeTest| notice.cost_s() - kept_s(terms.host);
    let better = able().filter(|(_, notice, _)| notice.gain_s > 0.0);
    let best =
        better.reduce(|best, other| if cost_s(other.0, &other.1) < cost_s(best.0, &best.1) { other } else { best });
    let Some((terms, _, preparation)) = best else {
        let because = if able().next().is_some() { Because::NoticeWithoutBetter } else { Because::NobodyElse };
        return (Action::Stay, because);
    };
    let destination = terms.host;
    if !decodes {
        return (Action::Commit { destination, way: Way::StoppedSplit }, Because::Notice);
    }
    // The last look before it goes: what is not there yet comes from the stopped source, or is prefilled.
    let is_last_look = notice_s <= preparation.stall_s + weighing.parameters.overheads.tick_s;
    let is_ready = terms.commit.is_some_and(|commit| commit.is_ready());
    let action = match (is_ready, is_last_look) {
        (true, _) => Action::Commit { destination, way: preparation.way },
        (false, true) => Action::Commit { destination, way: Way::StoppedSplit },
        (false, false) => Action::Prepare { destination, way: preparation.way },
    };
    (action, Because::Notice)
}
