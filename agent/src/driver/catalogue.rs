//! Which models the swarm has and what they are called: our own, and those that connected peers told us of.
//!
//! A name is a peer's own word for a file; the id (sha256) is what counts. Where two files go by one name, ours is meant,
//! else the one that more peers have.

use std::collections::{BTreeMap, BTreeSet};

use idlewild_protocol::{ModelId, ModelInfo, PeerId};

/// A model that some peer has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownModel {
    /// What it is.
    pub info: ModelInfo,
    /// Who has it, the smallest id first.
    pub peers: Vec<PeerId>,
    /// Whether this peer has it.
    pub own: bool,
}

/// All known models, by name. A value: made by `Names` when something changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// The models.
    pub models: Vec<KnownModel>,
}

impl Catalogue {
    /// The model of this name (upper and lower case alike) or with this id.
    pub fn find(&self, name: &str) -> Option<&ModelInfo> {
        let by_id = name.parse::<ModelId>().ok();
        let named = |model: &&KnownModel| Some(model.info.id) == by_id || model.info.name.eq_ignore_ascii_case(name);
        let best = self.models.iter().filter(named).max_by_key(|model| (model.own, model.peers.len()));
        best.map(|model| &model.info)
    }

    /// What is known of the model with this id.
    pub fn model(&self, id: ModelId) -> Option<&KnownModel> {
        self.models.iter().find(|model| model.info.id == id)
    }

    /// Their names.
    pub fn names(&self) -> Vec<&str> {
        self.models.iter().map(|model| model.info.name.as_str()).collect()
    }

    /// The only model's name, where there is only one.
    pub fn only(&self) -> Option<&str> {
        match self.models.as_slice() {
            [one] => Some(&one.info.name),
            _ => None,
        }
    }
}

/// What each peer calls its models. Bounded by the peers that are connected and by the limit of one message.
#[derive(Debug)]
pub(super) struct Names {
    me: PeerId,
    by_peer: BTreeMap<PeerId, Vec<ModelInfo>>,
}

impl Names {
    pub(super) fn new(me: PeerId) -> Self {
        Self { me, by_peer: BTreeMap::new() }
    }

    /// Takes what `peer` says of its models. Whether anything changed.
    pub(super) fn heard(&mut self, peer: PeerId, models: Vec<ModelInfo>) -> bool {
        let changed = self.by_peer.get(&peer) != Some(&models);
        self.by_peer.insert(peer, models);
        changed
    }

    /// Forgets a peer that is gone.
    pub(super) fn departed(&mut self, peer: PeerId) -> bool {
        self.by_peer.remove(&peer).is_some()
    }

    /// All of it as one list.
    pub(super) fn catalogue(&self) -> Catalogue {
        let mut models: BTreeMap<(String, ModelId), (ModelInfo, BTreeSet<PeerId>)> = BTreeMap::new();
        // Ours first: where two peers call one file differently, the first name heard of it stays.
        let ours = self.by_peer.get_key_value(&self.me);
        let others = self.by_peer.iter().filter(|(peer, _)| **peer != self.me);
        let mut name_of: BTreeMap<ModelId, String> = BTreeMap::new();
        for (peer, list) in ours.into_iter().chain(others) {
            for info in list {
                let name = name_of.entry(info.id).or_insert_with(|| info.name.clone()).clone();
                models.entry((name, info.id)).or_insert_with(|| (info.clone(), BTreeSet::new())).1.insert(*peer);
            }
        }
        let models = models.into_values().map(|(info, peers)| KnownModel {
            own: peers.contains(&self.me),
            info,
            peers: peers.into_iter().collect(),
        });
        Catalogue { models: models.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(id: u8, name: &str) -> ModelInfo {
        ModelInfo { id: ModelId([id; 32]), name: name.to_owned(), size_bytes: 1, context_tokens: 1 }
    }

    const ME: PeerId = PeerId([0; 32]);
    const A: PeerId = PeerId([1; 32]);
    const B: PeerId = PeerId([2; 32]);

    #[test]
    fn a_file_with_two_names_is_one_model_and_goes_by_our_name() {
        let mut names = Names::new(ME);
        assert!(names.heard(A, vec![info(7, "theirs")]));
        assert!(!names.heard(A, vec![info(7, "theirs")]));
        assert!(names.heard(ME, vec![info(7, "ours")]));
        let catalogue = names.catalogue();
        assert_eq!(catalogue.names(), ["ours"]);
        assert_eq!(catalogue.models[0].peers, [ME, A]);
    }

    #[test]
    fn a_name_with_two_files_means_ours_else_the_more_common_one() {
        let mut names = Names::new(ME);
        names.heard(A, vec![info(1, "m")]);
        names.heard(B, vec![info(1, "m")]);
        names.heard(PeerId([3; 32]), vec![info(2, "m")]);
        assert_eq!(names.catalogue().find("M").map(|m| m.id), Some(ModelId([1; 32])));
        names.heard(ME, vec![info(2, "m")]);
        assert_eq!(names.catalogue().find("m").map(|m| m.id), Some(ModelId([2; 32])));
        assert_eq!(names.catalogue().find(&ModelId([1; 32]).to_string()).map(|m| m.id), Some(ModelId([1; 32])));
    }

    #[test]
    fn models_go_with_the_last_peer_that_has_them() {
        let mut names = Names::new(ME);
        names.heard(A, vec![info(1, "m")]);
        assert!(names.departed(A));
        assert!(!names.departed(A));
        assert_eq!(names.catalogue(), Catalogue::default());
    }
}
