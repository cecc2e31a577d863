//! One placement.

use idlewild_protocol::{
    Digest, MAX_TERMS_PER_PLAN, ModelLoad, PeerId, PeerTerms, PlaceOutcome, PlaceReply, PlaceRequest, Term, Unfit,
};

use super::fitness::{Question, Room};
use super::reservations::{Load, Reservation, Reservations};
use crate::Now;
use crate::cost::{PeerRates, Terms};
use crate::hazard::{DigestCurve, Hazard};
use crate::policy::{Assessment, Fleet, FleetPeer, HazardAwarePolicy, Placement, Policy};
use crate::view::View;

/// Decode rate of a model that its peer has not measured yet, in tokens a second: low, so that measured peers come first.
const ASSUMED_DECODE_TPS: f64 = 2.0;

/// The same for prefill.
const ASSUMED_PREFILL_TPS: f64 = 20.0;

/// How a coordinator decides.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CoordinatorConfig {
    /// The rule, with its prices.
    pub policy: HazardAwarePolicy,
}

/// Answers placements, and remembers what it placed until digests show it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Coordinator {
    config: CoordinatorConfig,
    reservations: Reservations,
}

/// A peer that could take the request.
#[derive(Debug)]
struct Fit<'a> {
    peer: PeerId,
    digest: &'a Digest,
    /// Seconds since the digest was true.
    digest_age_s: f64,
    model: &'a ModelLoad,
    reserved: Load,
    curve: DigestCurve,
}

impl Coordinator {
    /// One that has placed nothing yet.
    pub fn new(config: CoordinatorConfig) -> Self {
        Self { config, reservations: Reservations::default() }
    }

    /// Where `request` of `origin` should run, by least E = T + L over the peers of `view`, with everybody's terms. The
    /// same view, time and history give the same answer; of equals the origin itself wins, then the smaller id.
    pub fn place(&mut self, now: Now, view: &View, term: Term, origin: PeerId, request: &PlaceRequest) -> PlaceReply {
        self.reservations.prune(now, view);
        self.reservations.forget(request.request);
        let question = Question { now, view, origin, request };
        let (fit, unfit) = self.sort_out(&question);
        let fleet = Fleet::new(fit.iter().map(|fit| fit.in_fleet()).collect());
        let placement = self.config.policy.place(&fleet, &question.work());
        self.reserve(&question, &fit, &placement);
        PlaceReply {
            request: request.request,
            attempt: request.attempt,
            term,
            outcome: outcome(&placement),
            terms: all_terms(&placement, unfit),
        }
    }

    /// Those that could take it, origin first, and why the others cannot, by id.
    fn sort_out<'a>(&self, question: &Question<'a>) -> (Vec<Fit<'a>>, Vec<(PeerId, Unfit)>) {
        let (mut able, mut unfit) = (Vec::new(), Vec::new());
        for (peer, view) in question.view.peers() {
            match question.model_on(peer, view) {
                Ok((digest, model)) => able.push(Fit {
                    peer,
                    digest,
                    digest_age_s: view.digest_age_s(question.now),
                    model,
                    reserved: self.reservations.on(peer),
                    curve: DigestCurve::new(&digest.survival),
                }),
                Err(why) => unfit.push((peer, why)),
            }
        }
        let work = question.work();
        let has = |room: Room, fit: &Fit<'_>| room.is_in(fit.model, fit.reserved.tokens, &work);
        let room = Room::IN_ORDER.into_iter().find(|room| able.iter().any(|fit| has(*room, fit)));
        let (mut fit, short): (Vec<_>, Vec<_>) =
            able.into_iter().partition(|fit| room.is_some_and(|room| has(room, fit)));
        unfit.extend(short.into_iter().map(|fit| {
            let context_tokens = fit.model.context_tokens;
            (fit.peer, Unfit::ContextTooLong { context_tokens })
        }));
        unfit.sort_unstable();
        fit.sort_by_key(|fit| (fit.peer != question.origin, fit.peer));
        (fit, unfit)
    }

    fn reserve(&mut self, question: &Question<'_>, fit: &[Fit<'_>], placement: &Placement<PeerId>) {
        let chosen = placement.chosen.and_then(|peer| fit.iter().find(|fit| fit.peer == peer));
        let terms = placement.chosen_assessment().and_then(Assessment::terms);
        let (Some(chosen), Some(terms)) = (chosen, terms) else { return };
        let work = question.work();
        let prefill_s = f64::from(work.prefill_tokens) / chosen.rates().prefill_tps;
        let tokens = u32::try_from(work.needed_tokens()).unwrap_or(u32::MAX);
        self.reservations.add(Reservation {
            request: question.request.request,
            peer: chosen.peer,
            placed_at: question.now,
            version: chosen.digest.version(),
            load: Load { requests: 1, prefill_s, service_s: terms.service_s, tokens },
        });
    }
}

impl Fit<'_> {
    /// As measured, or low where nothing was; with what is reserved decoding too.
    fn rates(&self) -> PeerRates {
        let or_assumed = |tps: f32, assumed: f64| if tps > 0.0 { f64::from(tps) } else { assumed };
        PeerRates {
            decode_tps: or_assumed(self.model.decode_tps, ASSUMED_DECODE_TPS) * self.reserved.decode_share(self.model),
            prefill_tps: or_assumed(self.model.prefill_tps, ASSUMED_PREFILL_TPS),
            bandwidth_bps: 0.0,
            kv_bytes_per_token: f64::from(self.model.kv_bytes_per_token),
            // Settled by `Room` already, which may be content with less than the whole request needs.
            room_tokens: u32::MAX,
        }
    }

    fn in_fleet(&self) -> FleetPeer<'_, PeerId> {
        let queue_s = f64::from(self.model.queue_wait_ms) / 1000.0;
        FleetPeer {
            id: self.peer,
            rates: self.rates(),
            load_s: queue_s + self.reserved.wait_s(self.model),
            hazard: Hazard { curve: &self.curve, age_s: self.digest_age_s },
            known_remaining_s: None,
        }
    }
}

fn outcome(placement: &Placement<PeerId>) -> PlaceOutcome {
    match placement.chosen_assessment() {
        Some(chosen) => PlaceOutcome::Run { worker: chosen.peer, fallback: chosen.fallback },
        None => PlaceOutcome::Nowhere,
    }
}

/// Best first, then those that cannot; cut to what a reply may carry, yet never without the fallback.
fn all_terms(placement: &Placement<PeerId>, unfit: Vec<(PeerId, Unfit)>) -> Vec<PeerTerms> {
    let fit = placement.ranked().into_iter().filter_map(|a| Some(fit_terms(a.peer, a.terms()?)));
    let mut all: Vec<PeerTerms> = fit.chain(unfit.into_iter().map(|(peer, why)| unfit_terms(peer, why))).collect();
    let fallback = placement.chosen_assessment().and_then(|chosen| chosen.fallback);
    if let Some(at) = all.iter().position(|t| Some(t.peer) == fallback)
        && at >= MAX_TERMS_PER_PLAN
    {
        all.swap(at, MAX_TERMS_PER_PLAN - 1);
    }
    all.truncate(MAX_TERMS_PER_PLAN);
    all
}

/// A figure that stands for "for ever": a message with one that is not finite would be refused. 30 years.
const FOREVER_S: f64 = 1e9;

/// Figures as they travel.
fn fit_terms(peer: PeerId, terms: &Terms) -> PeerTerms {
    let finite = |x: f64| if x.is_finite() { x.min(FOREVER_S) } else { FOREVER_S };
    PeerTerms {
        peer,
        unfit: None,
        wait_s: finite(terms.wait_s),
        service_s: finite(terms.service_s),
        loss_s: finite(terms.loss_s),
        leave_probability: finite(terms.leave_probability).clamp(0.0, 1.0),
    }
}

fn unfit_terms(peer: PeerId, why: Unfit) -> PeerTerms {
    PeerTerms { peer, unfit: Some(why), wait_s: 0.0, service_s: 0.0, loss_s: 0.0, leave_probability: 0.0 }
}
