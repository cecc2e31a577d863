//! A placement and the terms that it rests on.

use super::{Fleet, FleetPeer};
use crate::cost::{CostParameters, PeerRates, Situation, Terms, Work, terms, wait_s};

/// Why a peer cannot take work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misfit {
    /// Its context is too short.
    NoRoom {
        /// Tokens that the request will hold at its end.
        needed_tokens: i64,
        /// Tokens that one request may hold there.
        room_tokens: u32,
    },
    /// Its rates were never measured: nothing can be said about how long it takes.
    NotMeasured,
}

/// What a policy found out about one peer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// It can take the work, at this cost.
    Fit(Terms),
    /// It cannot.
    Unfit(Misfit),
}

/// One peer's part in a placement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assessment<K> {
    /// The peer.
    pub peer: K,
    /// Who would take over if it left; none where there is nobody else.
    pub fallback: Option<K>,
    /// Whether it can take the work, and at what cost.
    pub verdict: Verdict,
}

impl<K> Assessment<K> {
    /// The terms, where the peer can take the work.
    pub fn terms(&self) -> Option<&Terms> {
        match &self.verdict {
            Verdict::Fit(terms) => Some(terms),
            Verdict::Unfit(_) => None,
        }
    }
}

/// Where work should run, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement<K> {
    /// The peer; none where none can take it.
    pub chosen: Option<K>,
    /// Every peer, in the fleet's order.
    pub assessed: Vec<Assessment<K>>,
}

impl<K: Copy + PartialEq> Placement<K> {
    /// What was found out about the chosen peer.
    pub fn chosen_assessment(&self) -> Option<&Assessment<K>> {
        self.chosen.and_then(|id| self.assessed.iter().find(|assessment| assessment.peer == id))
    }

    /// Every peer for an explanation: by rising E, those that cannot take the work last.
    pub fn ranked(&self) -> Vec<&Assessment<K>> {
        let mut ranked: Vec<_> = self.assessed.iter().collect();
        ranked.sort_by(|a, b| rank_s(a).total_cmp(&rank_s(b)));
        ranked
    }
}

fn rank_s<K>(assessment: &Assessment<K>) -> f64 {
    assessment.terms().map_or(f64::INFINITY, |terms| or_endless(terms.expected_s()))
}

/// What is no number compares as endless: it must not win, and a comparison with it is always false.
fn or_endless(value_s: f64) -> f64 {
    if value_s.is_nan() { f64::INFINITY } else { value_s }
}

/// What every peer of the fleet would cost.
pub(super) fn assess<K: Copy + PartialEq>(
    fleet: &Fleet<'_, K>,
    work: &Work,
    parameters: &CostParameters,
) -> Vec<Assessment<K>> {
    let assess_one = |peer: &FleetPeer<'_, K>| Assessment {
        peer: peer.id,
        fallback: fleet.fallback(peer.id).map(|other| other.id),
        verdict: match misfit(peer, work) {
            Some(misfit) => Verdict::Unfit(misfit),
            None => Verdict::Fit(terms_on(fleet, peer, 0.0, work, parameters)),
        },
    };
    fleet.peers.iter().map(assess_one).collect()
}

/// Why `peer` cannot take `work`; none where it can.
pub(super) fn misfit<K>(peer: &FleetPeer<'_, K>, work: &Work) -> Option<Misfit> {
    misfit_of(&peer.rates, work)
}

/// Why a peer with these rates cannot take `work`; none where it can.
pub(super) fn misfit_of(rates: &PeerRates, work: &Work) -> Option<Misfit> {
    let needed_tokens = work.needed_tokens();
    if !rates.is_measured() {
        return Some(Misfit::NotMeasured);
    }
    let no_room = Misfit::NoRoom { needed_tokens, room_tokens: rates.room_tokens };
    (!rates.has_room_for(needed_tokens)).then_some(no_room)
}

/// The terms of `work` on `peer`, `own_load_s` of whose load is the work's own.
pub(super) fn terms_on<K: Copy + PartialEq>(
    fleet: &Fleet<'_, K>,
    peer: &FleetPeer<'_, K>,
    own_load_s: f64,
    work: &Work,
    parameters: &CostParameters,
) -> Terms {
    let situation = Situation {
        rates: &peer.rates,
        hazard: peer.hazard,
        wait_s: wait_s(peer.load_s, own_load_s),
        rebuild_tps: fleet.fallback(peer.id).map(|other| other.rates.prefill_tps),
    };
    terms(&situation, work, parameters)
}

/// The placement on the peer whose terms have the least `key`, the first of equals. A key that is no number is the
/// greatest.
pub(super) fn choose_least<K: Copy>(assessed: Vec<Assessment<K>>, key: impl Fn(&Terms) -> f64) -> Placement<K> {
    let mut best: Option<(K, f64)> = None;
    for assessment in &assessed {
        let Some(value) = assessment.terms().map(|terms| or_endless(key(terms))) else { continue };
        if best.is_none_or(|(_, least)| value < least) {
            best = Some((assessment.peer, value));
        }
    }
    Placement { chosen: best.map(|(peer, _)| peer), assessed }
}
