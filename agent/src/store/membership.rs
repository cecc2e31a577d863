//! Which swarm this peer belongs to, and what proves it.

use std::path::Path;

use data_encoding::HEXLOWER;
use idlewild_protocol::{
    CertificateChain, MemberError, Message, PeerId, Role, SwarmId, Ticket, TicketId, TicketSecret,
};
use idlewild_swarm::{Founded, Identity, IssueError, Membership, found_swarm, issue_member};
use rand::TryRngCore;
use rand::rngs::OsRng;
use serde::{Deserialize, Serialize};

use super::file::{FileError, read_secret, write_secret};
use super::identity::IdentitySeed;
use crate::config::Paths;

const ADVICE: &str = "restore the file from a backup, or remove it and join the swarm again with a new ticket";

const FORMAT: u32 = 1;

/// How long a certificate counts: ten years. There is no renewal but a new invitation.
const CERTIFICATE_S: u64 = 10 * 365 * 24 * 3600;

/// A ticket counts for at least a minute, or nobody could type it in.
pub const TICKET_TTL_S_MIN: u64 = 60;

/// A ticket counts for at most a week: it is meant for somebody who waits for it.
pub const TICKET_TTL_S_MAX: u64 = 7 * 24 * 3600;

/// Addresses kept from a ticket, at most (as many as a ticket holds).
const MAX_ADDRESSES: usize = 8;

/// The membership cannot be used. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    /// The file is not as it should be.
    #[error(transparent)]
    File(#[from] FileError),
    /// The certificate does not count.
    #[error(
        "this peer's certificate does not count: {why}\nhint: ask a member of the swarm for a ticket and run `idlewild join --replace`"
    )]
    Certificate {
        /// Why.
        why: MemberError,
    },
    /// This peer may not invite.
    #[error("this peer may not invite others\nhint: run `idlewild invite` on the peer that founded the swarm")]
    MayNotInvite,
    /// The system has no randomness to give.
    #[error("the system gives no random bytes")]
    NoRandomness,
}

/// The secret key of a swarm. Only the founder has it. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SwarmKey([u8; 32]);

impl std::fmt::Debug for SwarmKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SwarmKey(..)")
    }
}

/// A membership as it lies on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMembership {
    /// The swarm.
    pub swarm: SwarmId,
    /// This peer's certificate and its issuer's.
    pub chain: CertificateChain,
    /// The swarm's key where this peer founded it.
    pub swarm_key: Option<SwarmKey>,
    /// Where the inviting peer listened: the first addresses to try.
    pub addresses: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    format: u32,
    swarm: SwarmId,
    chain: String,
    swarm_key: Option<String>,
    addresses: Vec<String>,
}

impl StoredMembership {
    /// A new private swarm whose only member is `founder`.
    pub fn found(founder: &IdentitySeed, now_s: u64) -> Self {
        let Founded { swarm_key, membership } = found_swarm(founder.peer(), now_s.saturating_add(CERTIFICATE_S));
        let swarm_key = Some(SwarmKey(swarm_key.seed()));
        Self { swarm: membership.swarm, chain: membership.chain, swarm_key, addresses: Vec::new() }
    }

    /// What a ticket bought.
    pub fn joined(swarm: SwarmId, chain: CertificateChain, mut addresses: Vec<String>) -> Self {
        addresses.truncate(MAX_ADDRESSES);
        Self { swarm, chain, swarm_key: None, addresses }
    }

    /// The role that the certificate gives `me`.
    pub fn role(&self, me: PeerId, now_s: u64) -> Result<Role, MembershipError> {
        self.chain.verify(self.swarm, me, now_s).map_err(|why| MembershipError::Certificate { why })
    }

    /// A plain member's certificate for `newcomer`, signed by `me`, who must have the invite right.
    pub fn issue(&self, me: &IdentitySeed, newcomer: PeerId, now_s: u64) -> Result<CertificateChain, MembershipError> {
        let membership = Membership { swarm: self.swarm, chain: self.chain.clone() };
        let not_after_s = now_s.saturating_add(CERTIFICATE_S);
        issue_member(&me.identity(), &membership, newcomer, not_after_s, now_s).map_err(|error| match error {
            IssueError::MayNotInvite => MembershipError::MayNotInvite,
            IssueError::OwnCertificate(why) => MembershipError::Certificate { why },
        })
    }

    /// Writes it in place of the present one.
    pub fn save(&self, paths: &Paths) -> Result<(), MembershipError> {
        let path = paths.membership_file();
        let failed = |why: String| FileError::Write { path: path.clone(), source: std::io::Error::other(why) };
        let saved = Saved {
            format: FORMAT,
            swarm: self.swarm,
            chain: HEXLOWER.encode(&self.chain.to_bytes().map_err(|e| failed(e.to_string()))?),
            swarm_key: self.swarm_key.as_ref().map(|key| HEXLOWER.encode(&key.0)),
            addresses: self.addresses.clone(),
        };
        let text = serde_json::to_string_pretty(&saved).map_err(|e| failed(e.to_string()))?;
        Ok(write_secret(&path, &text)?)
    }
}

/// A ticket of `me` for one newcomer, to be kept with `Store::add_ticket` before it is given away.
pub fn new_ticket(
    membership: &StoredMembership,
    me: &IdentitySeed,
    mut addresses: Vec<String>,
    now_s: u64,
    ttl_s: u64,
) -> Result<Ticket, MembershipError> {
    if membership.role(me.peer(), now_s)? != Role::MayInvite {
        return Err(MembershipError::MayNotInvite);
    }
    addresses.truncate(MAX_ADDRESSES);
    let id = random()?;
    Ok(Ticket {
        swarm: membership.swarm,
        issuer: me.peer(),
        addresses,
        id: TicketId(std::array::from_fn(|at| id[at])),
        secret: TicketSecret(random()?),
        not_after_s: now_s.saturating_add(ttl_s.clamp(TICKET_TTL_S_MIN, TICKET_TTL_S_MAX)),
    })
}

/// The membership on disk, checked; none where there is none.
pub fn load_membership(
    paths: &Paths,
    me: &IdentitySeed,
    now_s: u64,
) -> Result<Option<StoredMembership>, MembershipError> {
    let path = paths.membership_file();
    let Some(text) = read_secret(&path, ADVICE)? else {
        return Ok(None);
    };
    let membership = parse(&path, &text)?;
    membership.role(me.peer(), now_s)?;
    Ok(Some(membership))
}

/// The membership on disk; a private swarm of one is founded where there is none.
pub fn load_or_found_membership(
    paths: &Paths,
    me: &IdentitySeed,
    now_s: u64,
) -> Result<StoredMembership, MembershipError> {
    if let Some(membership) = load_membership(paths, me, now_s)? {
        return Ok(membership);
    }
    let membership = StoredMembership::found(me, now_s);
    membership.save(paths)?;
    Ok(membership)
}

fn parse(path: &Path, text: &str) -> Result<StoredMembership, FileError> {
    let damaged = |why: &str| FileError::Damaged { path: path.to_owned(), why: why.to_owned(), advice: ADVICE };
    let saved: Saved = serde_json::from_str(text).map_err(|_| damaged("it is not a membership file"))?;
    if saved.format != FORMAT {
        return Err(damaged("it was written by a newer idlewild"));
    }
    let bytes = HEXLOWER.decode(saved.chain.as_bytes()).map_err(|_| damaged("its certificate is not hexadecimal"))?;
    let chain = CertificateChain::from_bytes(&bytes).map_err(|_| damaged("its certificate is not one"))?;
    let swarm_key = saved.swarm_key.map(|hex| parse_key(&hex, saved.swarm)).transpose().map_err(damaged)?;
    Ok(StoredMembership { swarm: saved.swarm, chain, swarm_key, addresses: saved.addresses })
}

fn parse_key(hex: &str, swarm: SwarmId) -> Result<SwarmKey, &'static str> {
    let bytes: Option<[u8; 32]> = HEXLOWER.decode(hex.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
    let key = SwarmKey(bytes.ok_or("its swarm key is not 64 hexadecimal digits")?);
    if Identity::from_seed(key.0).peer_id().0 == swarm.0 {
        Ok(key)
    } else {
        Err("its swarm key is not that of its swarm")
    }
}

fn random() -> Result<[u8; 32], MembershipError> {
    let mut bytes = [0; 32];
    OsRng.try_fill_bytes(&mut bytes).map_err(|_| MembershipError::NoRandomness)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_800_000_000;

    fn home() -> (tempfile::TempDir, Paths, IdentitySeed) {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::under(dir.path());
        paths.create().unwrap();
        (dir, paths, IdentitySeed::generate().unwrap())
    }

    #[test]
    fn the_first_start_founds_a_private_swarm_and_the_second_finds_it() {
        let (_dir, paths, me) = home();
        assert_eq!(load_membership(&paths, &me, NOW_S).unwrap(), None);
        let founded = load_or_found_membership(&paths, &me, NOW_S).unwrap();
        assert_eq!(founded.role(me.peer(), NOW_S).unwrap(), Role::MayInvite);
        assert_eq!(load_or_found_membership(&paths, &me, NOW_S).unwrap(), founded);
    }

    #[test]
    fn an_issued_certificate_goes_back_to_the_swarm_and_may_not_invite() {
        let (_dir, _paths, founder) = home();
        let swarm = StoredMembership::found(&founder, NOW_S);
        let newcomer = IdentitySeed::generate().unwrap();
        let chain = swarm.issue(&founder, newcomer.peer(), NOW_S).unwrap();
        let member = StoredMembership::joined(swarm.swarm, chain, vec!["/ip4/1.2.3.4/tcp/1".into(); 20]);
        assert_eq!(member.addresses.len(), 8);
        assert_eq!(member.role(newcomer.peer(), NOW_S).unwrap(), Role::Member);
        let third = IdentitySeed::generate().unwrap().peer();
        assert!(matches!(member.issue(&newcomer, third, NOW_S), Err(MembershipError::MayNotInvite)));
        assert!(matches!(new_ticket(&member, &newcomer, vec![], NOW_S, 600), Err(MembershipError::MayNotInvite)));
    }

    #[test]
    fn a_ticket_names_swarm_issuer_and_a_bounded_time() {
        let (_dir, _paths, me) = home();
        let swarm = StoredMembership::found(&me, NOW_S);
        let ticket = new_ticket(&swarm, &me, vec!["/ip4/1.2.3.4/udp/1/quic-v1".into()], NOW_S, u64::MAX).unwrap();
        assert_eq!(ticket.to_string().parse::<Ticket>().unwrap(), ticket);
        assert_eq!((ticket.swarm, ticket.issuer), (swarm.swarm, me.peer()));
        assert_eq!(ticket.not_after_s, NOW_S + TICKET_TTL_S_MAX);
        let other = new_ticket(&swarm, &me, vec![], NOW_S, 0).unwrap();
        assert_eq!(other.not_after_s, NOW_S + TICKET_TTL_S_MIN);
        assert!(other.id != ticket.id && other.secret != ticket.secret);
    }

    #[test]
    fn a_certificate_that_has_run_out_or_is_another_peer_s_is_refused_with_advice() {
        let (_dir, paths, me) = home();
        load_or_found_membership(&paths, &me, NOW_S).unwrap();
        let late = load_membership(&paths, &me, NOW_S + CERTIFICATE_S + 1).unwrap_err().to_string();
        assert!(late.contains("expired") && late.contains("join --replace"), "{late}");
        let other = IdentitySeed::generate().unwrap();
        let error = load_membership(&paths, &other, NOW_S).unwrap_err().to_string();
        assert!(error.contains("another peer"), "{error}");
    }

    #[test]
    fn damaged_files_are_refused() {
        let (_dir, paths, me) = home();
        load_or_found_membership(&paths, &me, NOW_S).unwrap();
        let good = std::fs::read_to_string(paths.membership_file()).unwrap();
        let saved: serde_json::Value = serde_json::from_str(&good).unwrap();
        let with = |key: &str, value: &str| {
            let mut saved = saved.clone();
            saved[key] = value.into();
            saved.to_string()
        };
        for text in [
            String::new(),
            good[..good.len() / 2].to_owned(),
            with("chain", "00"),
            with("chain", "xyz"),
            with("swarm_key", &"1".repeat(64)),
            with("swarm_key", ""),
            with("swarm", "x"),
        ] {
            write_secret(&paths.membership_file(), &text).unwrap();
            let error = load_or_found_membership(&paths, &me, NOW_S).unwrap_err().to_string();
            assert!(error.contains("hint: restore"), "{text} gave {error}");
        }
    }
}
