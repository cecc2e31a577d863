//! Which models the swarm has and what they are called: our own, and those that connected peers told us of.
//!
//! A name is a peer's own word for a file; the id (sha256) is what counts. Any name that some peer uses is understood.
//! Where two files go by one name, ours is meant, else the one that more peers have.

use std::collections::BTreeMap;

use idlewild_protocol::{ModelId, ModelInfo, PeerId};

use crate::models::MIN_ID_PREFIX;

/// A model that some peer has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownModel {
    /// What it is: our name for it if we have it, and the longest context that a peer allows.
    pub info: ModelInfo,
    /// What other peers call it, where that is another name.
    pub other_names: Vec<String>,
    /// Who has it, the smallest id first.
    pub peers: Vec<PeerId>,
    /// Whether this peer has it.
    pub own: bool,
}

impl KnownModel {
    /// One that nobody has yet.
    fn new(info: ModelInfo) -> Self {
        Self { info, other_names: Vec::new(), peers: Vec::new(), own: false }
    }

    /// Takes in that `peer` has it, and what it says of it.
    fn add(&mut self, peer: PeerId, said: &ModelInfo) {
        if !self.peers.contains(&peer) {
            self.peers.push(peer);
        }
        self.info.context_tokens = self.info.context_tokens.max(said.context_tokens);
        let is_new = |name: &String| !name.eq_ignore_ascii_case(&said.name);
        if is_new(&self.info.name) && self.other_names.iter().all(is_new) {
            self.other_names.push(said.name.clone());
        }
    }
}

/// All known models, by name. A value: made by `Names` when something changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// The models.
    pub models: Vec<KnownModel>,
}

impl Catalogue {
    /// The model that some peer calls so (upper and lower case alike), or whose id is or begins so.
    pub fn find(&self, name: &str) -> Option<&ModelInfo> {
        let is_called = |model: &KnownModel| model.info.name.eq_ignore_ascii_case(name);
        let is_else_called =
            |model: &KnownModel| model.other_names.iter().any(|other| other.eq_ignore_ascii_case(name));
        let named = self.models.iter().filter(|model| is_called(model) || is_else_called(model));
        let rank = |model: &&KnownModel| (model.own && is_called(model), is_called(model), model.peers.len());
        named.max_by_key(rank).map(|model| &model.info).or_else(|| self.with_id(name))
    }

    /// The only model whose id begins so.
    fn with_id(&self, start: &str) -> Option<&ModelInfo> {
        let start = start.to_ascii_lowercase();
        if start.len() < MIN_ID_PREFIX {
            return None;
        }
        let mut fit = self.models.iter().filter(|model| model.info.id.to_string().starts_with(&start));
        let first = fit.next()?;
        fit.next().is_none().then_some(&first.info)
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

    /// Whether nobody has a model.
    pub(super) fn is_empty(&self) -> bool {
        self.by_peer.values().all(Vec::is_empty)
    }

    /// All of it as one list.
    pub(super) fn catalogue(&self) -> Catalogue {
        let mut known: BTreeMap<ModelId, KnownModel> = BTreeMap::new();
        // Ours first: where two peers call one file differently, it goes by the first name heard of it.
        let ours = self.by_peer.get_key_value(&self.me);
        let others = self.by_peer.iter().filter(|(peer, _)| **peer != self.me);
        for (peer, list) in ours.into_iter().chain(others) {
            for info in list {
                known.entry(info.id).or_insert_with(|| KnownModel::new(info.clone())).add(*peer, info);
            }
        }
        let mut models: Vec<KnownModel> = known.into_values().collect();
        for model in &mut models {
            model.own = model.peers.contains(&self.me);
            model.peers.sort_unstable();
        }
        models.sort_by(|a, b| (&a.info.name, a.info.id).cmp(&(&b.info.name, b.info.id)));
        Catalogue { models }
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
        for name in ["ours", "Theirs", &ModelId([7; 32]).to_string(), "07070707", "0707070707AA"] {
            let expect = (!name.ends_with("AA")).then_some(ModelId([7; 32]));
            assert_eq!(catalogue.find(name).map(|model| model.id), expect, "{name}");
        }
    }

    #[test]
    fn a_name_that_two_peers_give_to_different_files_means_the_file_that_goes_by_it() {
        let mut names = Names::new(ME);
        names.heard(A, vec![info(1, "x"), info(2, "m")]);
        names.heard(B, vec![info(1, "m")]);
        assert_eq!(names.catalogue().find("m").map(|m| m.id), Some(ModelId([2; 32])));
        assert_eq!(names.catalogue().find("x").map(|m| m.id), Some(ModelId([1; 32])));
    }

    #[test]
    fn the_beginning_of_an_id_names_a_model_if_it_is_long_enough_and_of_one_only() {
        let mut names = Names::new(ME);
        let twin = ModelInfo { id: ModelId(std::array::from_fn(|at| u8::from(at == 31))), ..info(0, "twin") };
        names.heard(A, vec![info(0, "zero"), twin, info(9, "nine")]);
        for (start, expect) in [("0909090", None), ("09090909", Some(9)), ("00000000", None), ("zzzzzzzz", None)] {
            assert_eq!(names.catalogue().find(start).map(|m| m.id.0[0]), expect, "{start}");
        }
    }

    #[test]
    fn a_model_s_context_is_the_longest_that_a_peer_allows() {
        let mut names = Names::new(ME);
        for (peer, context_tokens) in [(A, 10), (ME, 7), (B, 30)] {
            names.heard(peer, vec![ModelInfo { context_tokens, ..info(1, "m") }]);
        }
        assert_eq!(names.catalogue().models[0].info.context_tokens, 30);
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
