//! Which digests two peers lack of each other.

use std::collections::BTreeMap;

use idlewild_protocol::{
    BootId, DigestVersion, MAX_DIGESTS_PER_MESSAGE, MAX_VERSIONS_PER_MESSAGE, PeerId, SignedDigest,
};

use crate::view::View;

impl View {
    /// What we have, for another to compare: at most [`MAX_VERSIONS_PER_MESSAGE`].
    pub fn versions(&self) -> Vec<DigestVersion> {
        let held = self.peers().filter_map(|(peer, view)| {
            let (boot, sequence) = view.digest.as_ref()?.version();
            Some(DigestVersion { peer, boot, sequence })
        });
        held.take(MAX_VERSIONS_PER_MESSAGE).collect()
    }

    /// Digests, as they were signed, that are newer than what another has: at most [`MAX_DIGESTS_PER_MESSAGE`].
    pub fn lacking_in(&self, theirs: &[DigestVersion]) -> Vec<SignedDigest> {
        let theirs: BTreeMap<PeerId, (BootId, u64)> = theirs.iter().map(|v| (v.peer, (v.boot, v.sequence))).collect();
        let newer = self.peers().filter_map(|(peer, view)| {
            let version = view.digest.as_ref()?.version();
            let is_newer = theirs.get(&peer).is_none_or(|known| *known < version);
            if is_newer { view.signed.clone() } else { None }
        });
        newer.take(MAX_DIGESTS_PER_MESSAGE).collect()
    }

    /// Whether another has a digest that we lack and would believe: then it is worth telling it our versions.
    pub fn lacks_from(&self, theirs: &[DigestVersion]) -> bool {
        theirs.iter().any(|v| {
            let is_newer = self
                .peer(v.peer)
                .and_then(|view| view.digest.as_ref())
                .is_none_or(|d| d.version() < (v.boot, v.sequence));
            is_newer && v.peer != self.me() && !self.is_over(v.peer, v.boot)
        })
    }
}
