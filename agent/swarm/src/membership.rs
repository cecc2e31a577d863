//! Being in a swarm: which one, and the certificates that show it.

use idlewild_protocol::{Certificate, CertificateChain, MemberError, PeerId, Role, SwarmId};

use crate::Identity;

/// What a peer must hold to be let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The swarm.
    pub swarm: SwarmId,
    /// The peer's certificate, and its issuer's.
    pub chain: CertificateChain,
}

impl Membership {
    /// What `peer` may do at `now_s` (seconds since 1970), or why this does not make it a member.
    pub fn verify(&self, peer: PeerId, now_s: u64) -> Result<Role, MemberError> {
        self.chain.verify(self.swarm, peer, now_s)
    }
}

/// A swarm that was just created, with one member who may invite.
#[derive(Debug, Clone)]
pub struct Founded {
    /// The swarm's own key. Whoever holds it can make anyone a member with the right to invite: kept at mode 0600,
    /// needed only to certify further inviters.
    pub swarm_key: Identity,
    /// The founder's membership.
    pub membership: Membership,
}

/// Creates a swarm with `founder` as its first member, certified until `not_after_s` (seconds since 1970).
pub fn found_swarm(founder: PeerId, not_after_s: u64) -> Founded {
    let swarm_key = Identity::generate();
    let swarm = SwarmId(swarm_key.peer_id().0);
    let root = Certificate::issue(swarm, founder, Role::MayInvite, not_after_s, |bytes| swarm_key.sign(bytes));
    Founded { swarm_key, membership: Membership { swarm, chain: CertificateChain(vec![root]) } }
}

/// Why a certificate cannot be issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    /// Only members whom the swarm's key certified with the right to invite may issue.
    #[error("this peer may not invite; ask the one who created the swarm for an invitation")]
    MayNotInvite,
    /// The issuer's own certificate does not count.
    #[error("this peer's own certificate is not valid")]
    OwnCertificate(#[source] MemberError),
}

/// Makes `newcomer` a plain member, signed by `issuer`, until `not_after_s` (seconds since 1970).
pub fn issue_member(
    issuer: &Identity,
    membership: &Membership,
    newcomer: PeerId,
    not_after_s: u64,
    now_s: u64,
) -> Result<CertificateChain, IssueError> {
    let role = membership.verify(issuer.peer_id(), now_s).map_err(IssueError::OwnCertificate)?;
    let [own] = membership.chain.0.as_slice() else { return Err(IssueError::MayNotInvite) };
    if role != Role::MayInvite {
        return Err(IssueError::MayNotInvite);
    }
    // A certificate counts no longer than its issuer's, so it does not promise more.
    let not_after_s = not_after_s.min(own.not_after_s);
    let leaf = Certificate::issue(membership.swarm, newcomer, Role::Member, not_after_s, |bytes| issuer.sign(bytes));
    Ok(CertificateChain(vec![leaf, own.clone()]))
}

/// Seconds since 1970 by this machine's clock: what expiries are compared with, never a peer's word.
pub(crate) fn wall_clock_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_000;

    #[test]
    fn a_founder_may_invite_and_an_invited_peer_may_not() {
        let founder = Identity::from_seed([1; 32]);
        let guest = Identity::from_seed([2; 32]);
        let third = Identity::from_seed([3; 32]);
        let founded = found_swarm(founder.peer_id(), 9_000);
        assert_eq!(founded.membership.verify(founder.peer_id(), NOW_S), Ok(Role::MayInvite));

        let chain = issue_member(&founder, &founded.membership, guest.peer_id(), 99_000, NOW_S).unwrap();
        assert_eq!(chain.0[0].not_after_s, 9_000, "no longer than the issuer's own");
        let guests = Membership { swarm: founded.membership.swarm, chain };
        assert_eq!(guests.verify(guest.peer_id(), NOW_S), Ok(Role::Member));

        let refused = issue_member(&guest, &guests, third.peer_id(), 9_000, NOW_S);
        assert_eq!(refused, Err(IssueError::MayNotInvite));
    }

    #[test]
    fn an_expired_issuer_cannot_invite() {
        let founder = Identity::from_seed([1; 32]);
        let founded = found_swarm(founder.peer_id(), 500);
        let refused = issue_member(&founder, &founded.membership, PeerId([9; 32]), 9_000, NOW_S);
        assert_eq!(refused, Err(IssueError::OwnCertificate(MemberError::Expired)));
    }
}
