//! Answers to the command line's questions.

use idlewild_coordinator::hazard::{DigestCurve, Survival};
use idlewild_coordinator::view::PeerView;
use idlewild_protocol::{Digest, ModelId, PeerId, PeerState, Ticket};
use idlewild_swarm::PeerLink;
use tokio::sync::oneshot;
use tracing::info;

use super::Driver;
use super::desk::{Ask, InviteRefused, Readiness};
use super::tasks::Reread;
use crate::api::wire::{
    CoordinatorReply, EngineReply, InviteReply, InviteRequest, ModelReply, ModelsReply, OverheadReply, OverheadsReply,
    PeerReply, StatusReply, StopReply,
};
use crate::origin::MeasuredTime;
use crate::store::{MembershipError, TICKET_TTL_S_MAX, TICKET_TTL_S_MIN, new_ticket, unix_s};

/// Horizons of the probabilities that a status shows, in seconds.
const SHOWN_SOON_S: f64 = 60.0;
const SHOWN_LATER_S: f64 = 15.0 * 60.0;

impl Driver {
    pub(super) fn handle_ask(&mut self, ask: Ask) {
        // An asker that went away needs no answer.
        match ask {
            Ask::Status(reply) => drop(reply.send(self.status())),
            Ask::Doctor(reply) => self.doctor.examine(self.ruling.unseen(), reply),
            Ask::Models(reply) => drop(reply.send(self.models())),
            Ask::Reread(reply) => {
                let (read, rereads) = (self.worker.reread_models(), self.tasks.rereads.clone());
                tokio::spawn(async move {
                    read.await;
                    // The driver is gone only when the agent is.
                    rereads.send(reply).await.ok();
                });
            }
            Ask::Rules(reply) => drop(reply.send(self.rules())),
            Ask::Pause(pause, reply) => self.handle_pause(pause, reply),
            Ask::Move(asked, answer) => self.handle_move(asked, answer),
            Ask::Hazard(reply) => self.tell_hazard(reply, false),
            Ask::RereadSessions(reply) => self.tell_hazard(reply, true),
            Ask::Invite(asked, reply) => self.invite(asked, reply),
            Ask::Stop(reply) => {
                info!("told to stop");
                reply.send(StopReply { pid: std::process::id() }).ok();
                self.stop.cancel();
            }
        }
    }

    pub(super) fn handle_reread(&mut self, reply: Reread) {
        self.refresh_models();
        drop(reply.send(self.models()));
    }

    /// Says whether a request of this peer could be served now.
    pub(super) fn publish_readiness(&self) {
        let serves = |(peer, view): (PeerId, &PeerView)| {
            let is_reachable = peer == self.me || view.is_connected();
            let takes_work = |digest: &Digest| digest.state == PeerState::Serving && !digest.models.is_empty();
            is_reachable && view.digest.as_ref().is_some_and(takes_work)
        };
        let readiness = if self.names.is_empty() {
            Readiness::NoModel
        } else if self.view.peers().any(serves) {
            Readiness::Ready
        } else {
            Readiness::NobodyServes
        };
        self.desk.ready.send_if_modified(|known| std::mem::replace(known, readiness) != readiness);
    }

    fn status(&self) -> StatusReply {
        let now = self.now();
        StatusReply {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            peer: self.me,
            boot: self.swarm.boot(),
            swarm: self.membership.swarm,
            role: self.role,
            uptime_s: now.as_secs(),
            state: self.state(),
            reason: self.tracker.reasons().join("; "),
            session_age_s: self.tracker.age(now).map(|age| age.as_secs()),
            sessions_recorded: self.estimates.borrow().sessions(),
            api: self.api.to_string(),
            listeners: self.swarm.listeners(),
            coordinator: self.election.leader().map(|leader| CoordinatorReply { term: self.election.term(), leader }),
            engine: self.engine_reply(),
            models: self.own_models(),
            known_models: self.names.catalogue().models.into_iter().map(|model| model.info).collect(),
            requests_running: u32::try_from(self.records.open().len()).unwrap_or(u32::MAX),
            jobs_running: self.worker.jobs_running(),
            overheads: self.overheads(),
            peers: self.peers(),
            warnings: self.warnings.values().cloned().chain(self.store.trouble()).collect(),
        }
    }

    fn engine_reply(&self) -> EngineReply {
        let stats = self.worker.engine();
        EngineReply {
            phase: serde_json::to_value(stats.phase)
                .ok()
                .and_then(|v| v.as_str().map(str::to_owned))
                .unwrap_or_default(),
            pid: stats.pid,
            model: stats.model.map(|model| model.id),
            running: stats.running,
            waiting: stats.waiting,
            slots: stats.slots,
            decode_tps: stats.decode_tps,
            prefill_tps: stats.prefill_tps,
            decode_doubles_at: stats.decode_doubles_at,
            prefill_doubles_at: stats.prefill_doubles_at,
            restarts: stats.restarts,
        }
    }

    /// What was measured here, and what decisions go by.
    fn overheads(&self) -> OverheadsReply {
        let (measured, used) = (self.planner.measured().measured(), self.planner.overheads(&self.view));
        let reply = |of: MeasuredTime, used_s: f64| OverheadReply {
            measured: u32::try_from(of.count).unwrap_or(u32::MAX),
            median_s: of.median_s,
            used_s,
        };
        OverheadsReply {
            hand_off: reply(measured.hand_off, used.hand_off_s),
            transfer: reply(measured.transfer_start, used.transfer_s),
            recompute: reply(measured.prefill_start, used.recompute_s),
            detection: reply(measured.detection, used.detection_s),
        }
    }

    /// The others, nearest first.
    fn peers(&self) -> Vec<PeerReply> {
        let links = self.swarm.peers();
        let others = self.view.peers().filter(|(peer, _)| *peer != self.me);
        let mut peers: Vec<PeerReply> = others
            .map(|(peer, view)| self.peer_reply(peer, view, links.iter().find(|link| link.peer == peer)))
            .collect();
        peers.sort_by_key(|peer| (!peer.connected, peer.rtt_us.unwrap_or(u32::MAX), peer.peer));
        peers
    }

    fn peer_reply(&self, peer: PeerId, view: &PeerView, link: Option<&PeerLink>) -> PeerReply {
        let age_s = view.digest_age_s(self.now());
        let curve = view.digest.as_ref().map(|digest| DigestCurve::new(&digest.survival));
        let stays = |t_s: f64| curve.as_ref().map(|curve| curve.conditional(age_s, t_s));
        PeerReply {
            peer,
            connected: link.is_some(),
            role: link.map(|link| link.role),
            address: link.map(|link| link.address.clone()),
            relayed: link.is_some_and(|link| link.is_relayed),
            connected_for_s: link.map(|link| link.connected_for.as_secs()),
            rtt_us: link.map(|link| link.rtt_us),
            up_bytes_per_s: link.and_then(|link| link.up_bytes_per_s),
            down_bytes_per_s: link.and_then(|link| link.down_bytes_per_s),
            state: view.digest.as_ref().map(|digest| digest.state),
            age_s: view.digest.as_ref().map_or(0, |digest| digest.age_s),
            stays_60s: stays(SHOWN_SOON_S),
            stays_15min: stays(SHOWN_LATER_S),
            models: view.digest.as_ref().map_or_else(Vec::new, |digest| digest.models.clone()),
        }
    }

    /// The models that are known by name; with each, who takes work and could run it.
    fn models(&self) -> ModelsReply {
        let catalogue = self.names.catalogue();
        let models = catalogue.models.iter().map(|model| ModelReply {
            id: model.info.id,
            name: model.info.name.clone(),
            size_bytes: Some(model.info.size_bytes),
            context_tokens: Some(model.info.context_tokens),
            here: model.own,
            peers: self.who_could_run(model.info.id),
        });
        ModelsReply { models: models.collect() }
    }

    fn who_could_run(&self, model: ModelId) -> Vec<PeerId> {
        let could = |view: &PeerView| {
            view.digest.as_ref().is_some_and(|digest| {
                digest.state == PeerState::Serving && digest.models.iter().any(|load| load.model == model)
            })
        };
        self.view.peers().filter(|(_, view)| could(view)).map(|(peer, _)| peer).collect()
    }

    /// Answers once the ticket is on the disk: one that is not could not be redeemed.
    fn invite(&self, asked: InviteRequest, reply: oneshot::Sender<Result<InviteReply, InviteRefused>>) {
        let now_s = unix_s();
        let ticket = match self.write_ticket(asked, now_s) {
            Ok(ticket) => ticket,
            Err(refused) => return drop(reply.send(Err(refused))),
        };
        let store = self.store.clone();
        tokio::spawn(async move {
            let kept = store.add_ticket(&ticket, now_s).await;
            let answer = kept.map_err(|e| InviteRefused::NotKept(e.to_string())).map(|()| InviteReply {
                ticket: ticket.to_string(),
                not_after_s: ticket.not_after_s,
                addresses: ticket.addresses,
            });
            // An asker that went away needs no answer.
            reply.send(answer).ok();
        });
    }

    fn write_ticket(&self, asked: InviteRequest, now_s: u64) -> Result<Ticket, InviteRefused> {
        if !(TICKET_TTL_S_MIN..=TICKET_TTL_S_MAX).contains(&asked.ttl_s) {
            return Err(InviteRefused::BadTime { min_s: TICKET_TTL_S_MIN, max_s: TICKET_TTL_S_MAX });
        }
        let addresses = self.swarm.listeners();
        if addresses.is_empty() {
            return Err(InviteRefused::NoAddress);
        }
        new_ticket(&self.membership, &self.seed, addresses, now_s, asked.ttl_s).map_err(|e| match e {
            MembershipError::MayNotInvite => InviteRefused::MayNotInvite,
            MembershipError::File(_) | MembershipError::Certificate { .. } | MembershipError::NoRandomness => {
                InviteRefused::NotKept(e.to_string())
            }
        })
    }

    /// Sets or clears what the user should know under one heading.
    pub(super) fn warn_user(&mut self, heading: &'static str, warning: Option<String>) {
        match warning {
            Some(warning) => drop(self.warnings.insert(heading, warning)),
            None => drop(self.warnings.remove(heading)),
        }
    }
}
