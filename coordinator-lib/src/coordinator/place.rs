//! One placement.

use idlewild_protocol::{
    MAX_TERMS_PER_PLAN, PeerId, PeerTerms, PlaceOutcome, PlaceReply, PlaceRequest, RequestId, Term, Unfit,
};

use super::Coordinator;
use super::candidate::Candidate;
use super::fitness::{Question, Room};
use super::reservations::{Load, Reservation};
use super::rule::{FOREVER_S, Rule};
use super::search::{Search, Shortlist, Weighed};
use crate::Now;
use crate::cost::Terms;
use crate::view::View;

impl Coordinator {
    /// The same as [`super::Input::Place`], answered at once. Nothing is planned for the request until it is reported anew.
    pub fn answer(&mut self, now: Now, view: &View, origin: PeerId, request: &PlaceRequest) -> PlaceReply {
        self.ledger.mark_being_placed(origin, request.request);
        self.learn_overheads(now, view);
        self.place(now, view, self.term(), origin, request)
    }

    /// Where `request` of `origin` should run, by least E = T + L over the peers of `view`, with everybody's terms. The
    /// same view, time and history give the same answer; of equals the origin itself wins, then the smaller id.
    pub fn place(&mut self, now: Now, view: &View, term: Term, origin: PeerId, request: &PlaceRequest) -> PlaceReply {
        self.reservations.prune(now);
        self.reservations.forget(request.request);
        let question = Question::of(now, view, origin, request);
        let search = self.search(question, MAX_TERMS_PER_PLAN, usize::MAX);
        let list = search.run();
        let terms = all_terms(&search, &list);
        let outcome = outcome(&list);
        let reservation = list.best.first().map(|chosen| reservation(request.request, &question, chosen));
        if let Some(reservation) = reservation {
            self.reservations.add(reservation);
        }
        PlaceReply { request: request.request, attempt: request.attempt, term, outcome, terms }
    }

    pub(super) fn search<'a>(&'a self, question: Question<'a>, keep: usize, looks_max: usize) -> Search<'a> {
        let (reservations, rule) = (&self.reservations, Rule::of(&self.config.policy));
        Search { question, reservations, rule, keep, looks_max }
    }
}

/// What `request` will put on the peer that was chosen for it.
pub(super) fn reservation(request: RequestId, question: &Question<'_>, chosen: &Weighed<'_>) -> Reservation {
    let candidate = &chosen.candidate;
    let prefill_s = f64::from(question.work.prefill_tokens) / candidate.rates().prefill_tps;
    let tokens = u32::try_from(question.work.needed_tokens()).unwrap_or(u32::MAX);
    Reservation {
        request,
        peer: candidate.peer,
        placed_at: question.now,
        version: candidate.digest.version(),
        load: Load { requests: 1, prefill_s, service_s: chosen.terms.service_s, tokens },
    }
}

fn outcome(list: &Shortlist<'_>) -> PlaceOutcome {
    match list.best.first() {
        Some(chosen) => PlaceOutcome::Run { worker: chosen.candidate.peer, fallback: chosen.fallback },
        None => PlaceOutcome::Nowhere,
    }
}

/// Best first, then those that cannot; cut to what a reply may carry, yet never without the fallback.
fn all_terms(search: &Search<'_>, list: &Shortlist<'_>) -> Vec<PeerTerms> {
    let mut all: Vec<PeerTerms> = list.best.iter().map(|w| fit_terms(w.candidate.peer, &w.terms)).collect();
    all.extend(unfit(search, list, MAX_TERMS_PER_PLAN - all.len()));
    let fallback = list.best.first().and_then(|chosen| chosen.fallback);
    let taker = list.takers.all().iter().find(|candidate| Some(candidate.peer) == fallback);
    if let Some(candidate) = taker
        && all.iter().all(|terms| terms.peer != candidate.peer)
        && let Some(last) = all.last_mut()
    {
        *last = fit_terms(candidate.peer, &search.weigh(*candidate, &list.takers).terms);
    }
    all
}

/// The first `most` of the peers that cannot take the request, by id. Asked only where all that can are on the list.
fn unfit(search: &Search<'_>, list: &Shortlist<'_>, most: usize) -> Vec<PeerTerms> {
    let question = &search.question;
    let is_fit = |peer: PeerId| list.best.iter().any(|weighed| weighed.candidate.peer == peer);
    let others = question.view.peers().filter(|(peer, _)| !is_fit(*peer));
    let named = others.map(|(peer, view)| {
        let why = Candidate::new(question, search.reservations, Room::Free, peer, view).err();
        let context_tokens = question.model_on(peer, view).map_or(0, |(_, model)| model.context_tokens);
        unfit_terms(peer, why.unwrap_or(Unfit::ContextTooLong { context_tokens }))
    });
    named.take(most).collect()
}

/// Figures as they travel. What the request takes from others counts as a loss, so that they add up to what is compared.
/// A message with one that is not finite would be refused.
pub(super) fn fit_terms(peer: PeerId, terms: &Terms) -> PeerTerms {
    PeerTerms {
        peer,
        unfit: None,
        wait_s: finite_s(terms.wait_s),
        service_s: finite_s(terms.service_s),
        loss_s: finite_s(terms.loss_s + terms.slowdown_s),
        leave_probability: finite_s(terms.leave_probability).clamp(0.0, 1.0),
    }
}

/// Seconds that a message may carry.
pub(super) fn finite_s(x: f64) -> f64 {
    if x.is_finite() { x.clamp(-FOREVER_S, FOREVER_S) } else { FOREVER_S }
}

pub(super) fn unfit_terms(peer: PeerId, why: Unfit) -> PeerTerms {
    PeerTerms { peer, unfit: Some(why), wait_s: 0.0, service_s: 0.0, loss_s: 0.0, leave_probability: 0.0 }
}
