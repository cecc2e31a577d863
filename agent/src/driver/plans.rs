//! Plans and reports: between our own requests, the planner and other peers.

use std::time::Duration;

use idlewild_protocol::{DepartureCause, PeerId, PeerState, PlanRefused, RequestId, RequestReport};
use tokio::sync::oneshot;
use tracing::info;

use super::Driver;
use super::planner::{Mail, Standing};
use crate::api::wire::{MoveReply, MoveRequest};
use crate::origin::{MoveRefused, OriginNews, Told, Wish};

/// Where the answer to a wish goes.
pub(super) type MoveAnswer = oneshot::Sender<Result<MoveReply, MoveRefused>>;

impl Driver {
    fn post(&self, mail: Mail) {
        for (peer, message) in mail {
            self.tell(&[peer], &message);
        }
    }

    /// The election, or who can be reached, may have changed.
    pub(super) fn follow_leader(&mut self) {
        let is_visible = |leader: &PeerId| *leader == self.me || self.is_connected(*leader);
        let leader = self.election.leader().filter(is_visible);
        let standing = Standing { term: self.election.term(), leader };
        let mail = self.planner.follow(self.clock.now(), &self.view, standing);
        self.post(mail);
    }

    pub(super) fn handle_news(&mut self, news: OriginNews) {
        let mail = self.planner.hear_own(self.clock.now(), &self.view, news);
        self.post(mail);
    }

    pub(super) fn handle_report(&mut self, from: PeerId, report: RequestReport) {
        let mail = self.planner.reported(self.clock.now(), &self.view, from, report);
        self.post(mail);
    }

    pub(super) fn handle_ended(&mut self, from: PeerId, request: RequestId) {
        let mail = self.planner.ended(self.clock.now(), &self.view, from, request);
        self.post(mail);
    }

    pub(super) fn handle_refused(&mut self, from: PeerId, refused: PlanRefused) {
        let mail = self.planner.refused(self.clock.now(), &self.view, from, refused);
        self.post(mail);
    }

    pub(super) fn handle_goodbye(&mut self, from: PeerId, cause: DepartureCause, notice_ms: u32) {
        info!(peer = %from.short(), ?cause, notice_ms, "says goodbye");
        let notice = Duration::from_millis(u64::from(notice_ms));
        let mail = self.planner.noticed((self.clock.now(), &self.view), from, cause, notice);
        self.post(mail);
    }

    /// The view has taken in a digest of a peer, or its departure.
    pub(super) fn peer_changed(&mut self, peer: PeerId) {
        let digest = self.view.peer(peer).and_then(|known| known.digest.as_ref());
        self.worker.heard(peer, digest.map_or(&[][..], |digest| &digest.models[..]));
        let mail = self.planner.peer_changed(self.clock.now(), &self.view, peer);
        self.post(mail);
    }

    pub(super) fn tick_planner(&mut self) {
        let mail = self.planner.tick(self.clock.now(), &self.view);
        self.post(mail);
    }

    /// A person wants a request elsewhere.
    pub(super) fn handle_move(&mut self, asked: MoveRequest, answer: MoveAnswer) {
        let (reply, taken) = oneshot::channel();
        let begun = self.check_move(asked).and_then(|(from, wish)| {
            let told = self.planner.open().tell(asked.request, Told::Move { wish, reply });
            told.map(|()| (from, wish)).map_err(|_| MoveRefused::Ended)
        });
        let (from, wish) = match begun {
            Ok(begun) => begun,
            Err(why) => {
                // Whoever asked may have gone.
                answer.send(Err(why)).ok();
                return;
            }
        };
        let Wish { to, way, prepare_only } = wish;
        let begun = MoveReply { request: asked.request, from, to, way, prepare_only };
        tokio::spawn(async move {
            let taken = taken.await.unwrap_or(Err(MoveRefused::Ended));
            // Whoever asked may have gone.
            answer.send(taken.map(|()| begun)).ok();
        });
    }

    /// Who has the request, and what is to become of it; or what is wrong with the question.
    fn check_move(&self, asked: MoveRequest) -> Result<(PeerId, Wish), MoveRefused> {
        let MoveRequest { request, to, way, prepare_only } = asked;
        let report = self.planner.own(request).ok_or(MoveRefused::UnknownRequest)?;
        let from = report.worker().ok_or(MoveRefused::BeingPlaced)?;
        let known = self.view.peer(to).and_then(|view| view.digest.as_ref()).ok_or(MoveRefused::UnknownPeer)?;
        // Whether it runs there already its origin says: what is known here may be a second old.
        if !known.models.iter().any(|model| model.model == report.model) {
            return Err(MoveRefused::LacksModel);
        }
        if known.state != PeerState::Serving {
            return Err(MoveRefused::TakesNoWork);
        }
        let way = way.unwrap_or_else(|| self.planner.way(self.clock.now(), &self.view, report, to));
        Ok((from, Wish { to, way, prepare_only }))
    }
}
