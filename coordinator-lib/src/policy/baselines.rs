//! What the hazard-aware rule is compared with. None of them moves what runs: they recover after a loss.
//!
//! They compute the same terms, so that an explanation compares like with like, and choose by something else.

use super::migration::StayReason;
use super::placement::{assess, choose_least};
use super::{Assessment, Fleet, Migration, Placement, Policy, Running};
use crate::cost::{CostParameters, Terms, Work};

/// Any peer that can take the work, each as likely as the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Random {
    /// For the terms.
    pub parameters: CostParameters,
    /// The choice is a function of this and of [`Fleet::draw`]: no state, so that a replay draws the same.
    pub seed: u64,
}

/// The peer that would be done first if nobody left.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ReactiveFastest {
    /// For the terms.
    pub parameters: CostParameters,
}

/// The peer with the least load, however fast it is; the faster of two equals.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LoadAware {
    /// For the terms.
    pub parameters: CostParameters,
}

/// The peer that would be done first among those that will stay long enough, known from
/// [`super::FleetPeer::known_remaining_s`]; among all where none will. A peer of which it is not known stays for ever.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OraclePlacement {
    /// For the terms.
    pub parameters: CostParameters,
}

impl<K: Copy + PartialEq> Policy<K> for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn place(&self, fleet: &Fleet<'_, K>, work: &Work) -> Placement<K> {
        let assessed = assess(fleet, work, &self.parameters);
        let fit: Vec<K> = assessed.iter().filter(|a| a.terms().is_some()).map(|a| a.peer).collect();
        let at = below(fit.len(), mix(self.seed ^ mix(fleet.draw)));
        Placement { chosen: fit.get(at).copied(), assessed }
    }

    fn should_migrate(&self, _: &Fleet<'_, K>, _: &Running<K>) -> Migration<K> {
        Migration::unexamined(StayReason::PolicyNeverMoves)
    }
}

impl<K: Copy + PartialEq> Policy<K> for ReactiveFastest {
    fn name(&self) -> &'static str {
        "reactive_fastest"
    }

    fn place(&self, fleet: &Fleet<'_, K>, work: &Work) -> Placement<K> {
        choose_least(assess(fleet, work, &self.parameters), Terms::time_s)
    }

    fn should_migrate(&self, _: &Fleet<'_, K>, _: &Running<K>) -> Migration<K> {
        Migration::unexamined(StayReason::PolicyNeverMoves)
    }
}

impl<K: Copy + PartialEq> Policy<K> for LoadAware {
    fn name(&self) -> &'static str {
        "load_aware"
    }

    fn place(&self, fleet: &Fleet<'_, K>, work: &Work) -> Placement<K> {
        let assessed = assess(fleet, work, &self.parameters);
        let least_s = assessed.iter().filter_map(Assessment::terms).map(|t| t.wait_s).fold(f64::INFINITY, f64::min);
        choose_least(assessed, |terms| if terms.wait_s <= least_s { terms.service_s } else { f64::INFINITY })
    }

    fn should_migrate(&self, _: &Fleet<'_, K>, _: &Running<K>) -> Migration<K> {
        Migration::unexamined(StayReason::PolicyNeverMoves)
    }
}

impl<K: Copy + PartialEq> Policy<K> for OraclePlacement {
    fn name(&self) -> &'static str {
        "oracle_placement"
    }

    fn place(&self, fleet: &Fleet<'_, K>, work: &Work) -> Placement<K> {
        let assessed = assess(fleet, work, &self.parameters);
        let stays = |assessment: &&Assessment<K>| {
            let remaining_s = fleet.peer(assessment.peer).and_then(|peer| peer.known_remaining_s);
            let time_s = assessment.terms().map_or(f64::INFINITY, Terms::time_s);
            remaining_s.is_none_or(|remaining_s| remaining_s > time_s)
        };
        let staying: Vec<Assessment<K>> = assessed.iter().filter(stays).copied().collect();
        let chosen = choose_least(staying, Terms::time_s).chosen;
        let fastest = choose_least(assessed, Terms::time_s);
        Placement { chosen: chosen.or(fastest.chosen), ..fastest }
    }

    fn should_migrate(&self, _: &Fleet<'_, K>, _: &Running<K>) -> Migration<K> {
        Migration::unexamined(StayReason::PolicyNeverMoves)
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014) after one step: every bit of the result hangs on every bit
/// of `x`.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number below `n` from 64 random bits, without bias worth the name for any fleet; 0 for none.
fn below(n: usize, bits: u64) -> usize {
    ((u128::from(bits) * n as u128) >> 64) as usize
}
