//! What the swarm tells: who is here, who is gone, what they say, and what links carry.

use idlewild_coordinator::election;
use idlewild_coordinator::ownership::LossReason;
use idlewild_protocol::{BootId, ControlMessage, DepartureCause, PeerId};
use idlewild_swarm::{Departure, SwarmEvent};
use tracing::{debug, info, warn};

use super::Driver;
use super::tasks::Probed;
use crate::worker::{Part, WorkerEnd};

impl Driver {
    pub(super) fn handle_swarm(&mut self, event: SwarmEvent) {
        match event {
            SwarmEvent::Connected { peer, role, boot } => {
                info!(peer = %peer.short(), ?role, "connected");
                self.handle_connected(peer, boot);
            }
            SwarmEvent::Departed { peer, why, .. } => self.handle_departed(peer, why),
            SwarmEvent::Control { peer, message } => self.handle_control(peer, message),
            SwarmEvent::Job { job, start } => self.worker.take(WorkerEnd::Remote(job), *start, Part::Worker),
            SwarmEvent::Prepare { job, start } => self.worker.take(WorkerEnd::Remote(job), *start, Part::Standby),
            SwarmEvent::Context { context, open } => self.worker.give(context, open),
            SwarmEvent::Refused { peer, refusal, by } => warn!(peer = %peer.short(), %refusal, ?by, "refused"),
            SwarmEvent::Listening(address) => info!(address, "listening for peers"),
            SwarmEvent::Hint(hint) => {
                warn!(%hint, "network");
                self.warn_user("network", Some(hint.to_string()));
            }
        }
    }

    fn handle_connected(&mut self, peer: PeerId, boot: BootId) {
        self.view.connected(self.now(), peer, boot);
        self.greet(peer);
        self.elect_among_live();
    }

    fn handle_departed(&mut self, peer: PeerId, why: Departure) {
        let (cause, loss) = match why {
            Departure::Closed => (DepartureCause::Crash, LossReason::Closed),
            Departure::Silent(_) => (DepartureCause::Network, LossReason::Silent),
            Departure::Goodbye(cause) => (cause, LossReason::Goodbye(cause)),
            Departure::Faulty => (DepartureCause::Unknown, LossReason::Closed),
        };
        info!(peer = %peer.short(), ?why, "departed");
        self.view.departed(self.now(), peer, cause);
        // Nobody listens where nothing runs.
        self.departures.send((peer, loss)).ok();
        if self.names.departed(peer) {
            self.publish_catalogue();
        }
        self.peer_changed(peer);
        self.elect_among_live();
    }

    fn handle_control(&mut self, from: PeerId, message: ControlMessage) {
        match message {
            ControlMessage::Digest(signed) => self.handle_digest(from, signed),
            ControlMessage::Unchanged(version) => self.handle_unchanged(from, version),
            ControlMessage::Versions(theirs) => self.handle_versions(from, &theirs),
            ControlMessage::Digests(digests) => digests.into_iter().for_each(|signed| self.handle_digest(from, signed)),
            ControlMessage::Election(message) => self.elect(election::Input::Peer { from, message }),
            ControlMessage::Place(request) => self.handle_place(from, &request),
            ControlMessage::Placed(reply) => self.placements.answered(from, reply),
            ControlMessage::Models(models) => self.handle_models(from, models),
            ControlMessage::Goodbye { cause, notice_ms } => self.handle_goodbye(from, cause, notice_ms),
            ControlMessage::Report(report) => self.handle_report(from, *report),
            ControlMessage::Ended { request } => self.handle_ended(from, request),
            ControlMessage::Plan(plan) => self.planner.planned(from, *plan),
            ControlMessage::PlanRefused(refused) => self.handle_refused(from, refused),
            // The swarm keeps these to itself.
            ControlMessage::Ping { .. } | ControlMessage::Pong { .. } | ControlMessage::Neighbours(_) => {}
        }
    }

    /// Those that messages can be sent to.
    pub(super) fn connected(&self) -> Vec<PeerId> {
        self.view.peers().filter(|(peer, view)| *peer != self.me && view.is_connected()).map(|(peer, _)| peer).collect()
    }

    pub(super) fn is_connected(&self, peer: PeerId) -> bool {
        self.view.peer(peer).is_some_and(idlewild_coordinator::view::PeerView::is_connected)
    }

    /// Takes over what the swarm measured, and has one link probed if it is its turn.
    pub(super) fn measure_links(&mut self) {
        let links = self.swarm.peers();
        for figure in self.links.figures(&links) {
            self.view.link(figure.peer, figure.bytes_per_s, figure.rtt_us);
        }
        if let Some(peer) = self.links.next_probe(self.now(), &links) {
            let (swarm, probes) = (self.swarm.clone(), self.tasks.probes.clone());
            tokio::spawn(async move {
                let outcome = swarm.probe(peer).await;
                // The driver is gone only when the agent is.
                probes.send((peer, outcome)).await.ok();
            });
        }
    }

    pub(super) fn handle_probed(&mut self, (peer, outcome): Probed) {
        match &outcome {
            Ok(probe) => {
                debug!(peer = %peer.short(), up = probe.up_bytes_per_s, down = probe.down_bytes_per_s, "probed");
            }
            Err(error) => debug!(peer = %peer.short(), %error, "not probed"),
        }
        let rtt_us = self.view.link_to(peer).map_or(0, |link| link.rtt_us);
        if let Some(record) = self.links.probed(self.now(), peer, outcome, rtt_us) {
            let store = self.store.clone();
            tokio::spawn(async move {
                if let Err(error) = store.record_link(record).await {
                    warn!(%error, "a link's figures are not recorded");
                }
            });
        }
    }
}
