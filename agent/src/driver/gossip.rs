//! Digests out and in, anti-entropy, and what models are called.

use std::sync::Arc;

use idlewild_coordinator::view::Applied;
use idlewild_protocol::{
    ControlMessage, CoordinatorView, Digest, DigestVersion, MAX_MODELS_PER_DIGEST, MAX_MODELS_PER_MESSAGE, ModelInfo,
    PeerId, SignedDigest,
};
use tracing::{debug, warn};

use super::Driver;
use super::digests::{Content, Word};

/// Heading of the warning about a model that is the default and is not there.
const DEFAULT_MODEL: &str = "default model";

impl Driver {
    /// Says of this peer what is to be said now.
    pub(super) fn speak(&mut self) {
        let now = self.now();
        let content = self.content();
        let peers = self.connected();
        match self.digests.word(now, peers.len(), content) {
            None => {}
            Some(Word::Unchanged(version)) => self.tell(&peers, &ControlMessage::Unchanged(version)),
            Some(Word::Digest(digest)) => {
                let identity = self.identity.clone();
                let signed = match SignedDigest::sign(&brief(&digest), |bytes| identity.sign(bytes)) {
                    Ok(signed) => signed,
                    Err(error) => return warn!(%error, "our digest cannot be sent: others will not place here"),
                };
                self.view.state_own(now, *digest, Some(signed.clone()));
                self.digests.signed = Some(signed.clone());
                self.tell(&peers, &ControlMessage::Digest(signed));
                self.peer_changed(self.me);
            }
        }
        if let Some(peer) = self.digests.round_with(now, &peers, rand::random()) {
            self.tell(&[peer], &ControlMessage::Versions(self.view.versions()));
        }
    }

    fn content(&self) -> Content {
        let age_s = self.tracker.age(self.now()).unwrap_or_default().as_secs_f64();
        let (pairs, up_bytes_per_s, down_bytes_per_s) = self.links.stated(&self.swarm.peers());
        let leader = self.election.leader();
        Content {
            state: self.state(),
            age_s: age_s as u32,
            survival: self.estimates.borrow().curve_at(age_s),
            models: self.worker.loads(),
            up_bytes_per_s,
            down_bytes_per_s,
            move_times: self.planner.measured().times(),
            pairs,
            coordinator: leader.map(|leader| CoordinatorView { term: self.election.term(), leader }),
        }
    }

    /// Sends to several; a peer that does not take it will ask, or is gone.
    pub(super) fn tell(&self, peers: &[PeerId], message: &ControlMessage) {
        for peer in peers {
            if let Err(error) = self.swarm.send(*peer, message) {
                debug!(peer = %peer.short(), %error, "not sent");
            }
        }
    }

    /// What a peer that has just come should know.
    pub(super) fn greet(&self, peer: PeerId) {
        let to = [peer];
        if let Some(signed) = &self.digests.signed {
            self.tell(&to, &ControlMessage::Digest(signed.clone()));
        }
        self.tell(&to, &ControlMessage::Models(self.own_models()));
        self.tell(&to, &ControlMessage::Versions(self.view.versions()));
    }

    pub(super) fn handle_unchanged(&mut self, from: PeerId, version: DigestVersion) {
        let is_known = version.peer == from && self.view.confirm(self.now(), version);
        if !is_known && self.digests.may_ask(self.now(), from) {
            self.tell(&[from], &ControlMessage::Versions(self.view.versions()));
        }
    }

    pub(super) fn handle_versions(&mut self, from: PeerId, theirs: &[DigestVersion]) {
        let newer = self.view.lacking_in(theirs);
        if !newer.is_empty() {
            self.tell(&[from], &ControlMessage::Digests(newer));
        }
        if self.view.lacks_from(theirs) && self.digests.may_ask(self.now(), from) {
            self.tell(&[from], &ControlMessage::Versions(self.view.versions()));
        }
    }

    pub(super) fn handle_digest(&mut self, from: PeerId, signed: SignedDigest) {
        match self.view.hear(self.now(), signed) {
            Ok((peer, Applied::Newer)) => self.peer_changed(peer),
            Ok((_, Applied::Stale | Applied::Departed | Applied::Full)) => {}
            Err(error) => warn!(peer = %from.short(), %error, "passed on a digest that is none"),
        }
    }

    pub(super) fn handle_models(&mut self, from: PeerId, models: Vec<ModelInfo>) {
        self.view.names_models(from, models.clone());
        if self.names.heard(from, models) {
            self.publish_catalogue();
        }
    }

    /// Looks whether our own models have changed, and tells everybody if so.
    pub(super) fn refresh_models(&mut self) {
        let own = self.own_models();
        if self.names.heard(self.me, own.clone()) {
            self.publish_catalogue();
            self.tell(&self.connected(), &ControlMessage::Models(own));
            self.speak();
        }
    }

    pub(super) fn own_models(&self) -> Vec<ModelInfo> {
        let mut models = self.worker.models().list();
        models.truncate(MAX_MODELS_PER_MESSAGE);
        for model in &mut models {
            model.context_tokens = model.context_tokens.min(self.worker.context_tokens_max());
        }
        models
    }

    pub(super) fn publish_catalogue(&mut self) {
        let catalogue = self.names.catalogue();
        let missing = self.default_model.as_deref().filter(|name| catalogue.find(name).is_none());
        let warning = missing.map(|name| {
            format!(
                "no peer seen so far has the model {name:?} (--model, models.default); requests that name none fail until \
                 one has"
            )
        });
        if let Some(warning) = warning.as_ref().filter(|_| !self.warnings.contains_key(DEFAULT_MODEL)) {
            warn!("{warning}");
        }
        self.warn_user(DEFAULT_MODEL, warning);
        self.desk.catalogue.send_replace(Arc::new(catalogue));
    }
}

/// What others are told: they know by name the models that have no room in a digest.
fn brief(digest: &Digest) -> Digest {
    let mut brief = digest.clone();
    brief.models.truncate(MAX_MODELS_PER_DIGEST);
    brief
}
