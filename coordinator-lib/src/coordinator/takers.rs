//! Who would take over from whom: the few that are the answer for everybody.

use idlewild_protocol::PeerId;

use super::candidate::Candidate;
use super::rule::Rule;
use crate::policy::overlapped::{Fallbacks, Host};

/// The best, and the best for the best.
#[derive(Debug, Clone, Default)]
pub(super) struct Takers<'a> {
    best: Vec<Candidate<'a>>,
    /// By the corrected rule.
    fallbacks: Option<Fallbacks<PeerId>>,
}

impl<'a> Takers<'a> {
    /// How many are enough, since digests do not say which peers leave together.
    pub(super) const MOST: usize = 2;

    /// Of the best by `rule` for a context of `context_tokens`, best first.
    pub(super) fn new(best: Vec<Candidate<'a>>, rule: Rule<'_>, context_tokens: u32) -> Self {
        let fallbacks = match rule {
            Rule::Given(_) => None,
            Rule::Corrected(parameters) => {
                let hosts: Vec<Host<'a, PeerId>> = best.iter().map(Candidate::host).collect();
                Some(Fallbacks::rank(hosts.iter(), f64::from(context_tokens), &parameters.prices))
            }
        };
        Self { best, fallbacks }
    }

    /// Who would take over from `peer`; none where there is nobody else.
    pub(super) fn of(&self, peer: PeerId) -> Option<&Candidate<'a>> {
        self.best.iter().find(|taker| taker.peer != peer)
    }

    /// The same with what it would cost, by the corrected rule.
    pub(super) fn fallbacks(&self) -> Option<&Fallbacks<PeerId>> {
        self.fallbacks.as_ref()
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Candidate<'a>] {
        &self.best
    }
}
