//! Certificates go back to the swarm's key or do not count; tickets are read whole or not at all.

use ed25519_dalek::Signer;
use idlewild_protocol::{
    Certificate, CertificateChain, Hello, MAX_TICKET_ADDRESSES, MemberError, Message, Role, SwarmId, TICKET_PREFIX,
    Ticket, TicketSecret, verify_signature,
};
use proptest::prelude::*;

use crate::samples::{certificate, key, peer, swarm, ticket};

const NOW_S: u64 = 1_770_000_000;
const LATER_S: u64 = NOW_S + 3600;

/// The swarm's key is 1. Peer 2 may invite, peer 3 was invited by it.
fn founder() -> Certificate {
    certificate(2, 1, Role::MayInvite, LATER_S)
}

fn verify(chain: Vec<Certificate>, of: u8) -> Result<Role, MemberError> {
    CertificateChain(chain).verify(swarm(), peer(of), NOW_S)
}

#[test]
fn a_member_signed_by_the_swarm_or_by_who_may_invite_is_one() {
    assert_eq!(verify(vec![founder()], 2), Ok(Role::MayInvite));
    assert_eq!(verify(vec![certificate(3, 1, Role::Member, LATER_S)], 3), Ok(Role::Member));
    assert_eq!(verify(vec![certificate(3, 2, Role::Member, LATER_S), founder()], 3), Ok(Role::Member));
}

#[test]
fn a_certificate_counts_up_to_its_last_second_and_not_after() {
    assert_eq!(verify(vec![certificate(3, 1, Role::Member, NOW_S)], 3), Ok(Role::Member));
    assert_eq!(verify(vec![certificate(3, 1, Role::Member, NOW_S - 1)], 3), Err(MemberError::Expired));
}

#[test]
fn chains_that_do_not_hold_are_refused_each_for_its_reason() {
    let invited = || certificate(3, 2, Role::Member, LATER_S);
    let changed = |change: fn(&mut Certificate)| {
        let mut certificate = certificate(3, 1, Role::Member, LATER_S);
        change(&mut certificate);
        certificate
    };
    let cases = [
        ("nothing at all", vec![], MemberError::BadSignature),
        ("of another peer", vec![founder()], MemberError::OtherPeer),
        ("signed by no one known", vec![certificate(3, 9, Role::Member, LATER_S)], MemberError::BadSignature),
        ("signed by the member itself", vec![certificate(3, 3, Role::Member, LATER_S)], MemberError::BadSignature),
        ("inviter's certificate missing", vec![invited()], MemberError::BadSignature),
        (
            "inviter's certificate is another's",
            vec![invited(), certificate(4, 1, Role::MayInvite, LATER_S)],
            MemberError::BadSignature,
        ),
        (
            "inviter is a plain member",
            vec![invited(), certificate(2, 1, Role::Member, LATER_S)],
            MemberError::IssuerMayNotInvite,
        ),
        (
            "inviter passes its right on",
            vec![certificate(3, 2, Role::MayInvite, LATER_S), founder()],
            MemberError::IssuerMayNotInvite,
        ),
        (
            "inviter's certificate has run out",
            vec![invited(), certificate(2, 1, Role::MayInvite, NOW_S - 1)],
            MemberError::Expired,
        ),
        (
            "inviter signed itself",
            vec![invited(), certificate(2, 2, Role::MayInvite, LATER_S)],
            MemberError::BadSignature,
        ),
        ("too many links", vec![invited(), founder(), founder()], MemberError::BadSignature),
        ("role raised", vec![changed(|c| c.role = Role::MayInvite)], MemberError::BadSignature),
        ("time added", vec![changed(|c| c.not_after_s += 1)], MemberError::BadSignature),
        ("signature changed", vec![changed(|c| c.signature[0] ^= 1)], MemberError::BadSignature),
        ("signature of zeros", vec![changed(|c| c.signature = [0; 64])], MemberError::BadSignature),
        ("moved to another swarm", vec![changed(|c| c.swarm = SwarmId([3; 32]))], MemberError::OtherSwarm),
    ];
    for (name, chain, why) in cases {
        assert_eq!(verify(chain, 3), Err(why), "{name}");
    }
}

#[test]
fn a_swarm_is_not_fooled_by_a_certificate_that_another_swarm_signed() {
    let other = SwarmId(key(7).verifying_key().to_bytes());
    let theirs = Certificate::issue(other, peer(3), Role::Member, LATER_S, |bytes| key(7).sign(bytes).to_bytes());
    assert_eq!(CertificateChain(vec![theirs.clone()]).verify(other, peer(3), NOW_S), Ok(Role::Member));
    assert_eq!(verify(vec![theirs], 3), Err(MemberError::OtherSwarm));
}

#[test]
fn a_key_of_small_order_signs_for_nobody() {
    // The neutral point: without the strict check a signature of zeros would fit every message.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let mut signature = [0; 64];
    signature[0] = 1;
    assert!(!verify_signature(&neutral, b"anything", &signature));
}

#[test]
fn the_hellos_tag_shows_the_swarm_to_its_members_only() {
    let hello = crate::samples::hello();
    assert!(hello.knows(swarm()));
    assert!(!hello.knows(SwarmId([2; 32])));
    assert!(!Hello { nonce: [8; 32], ..hello }.knows(swarm()), "a tag is good for its own nonce only");
}

#[test]
fn a_tickets_proof_is_bound_to_both_peers_and_both_nonces() {
    let secret = TicketSecret([10; 32]);
    let context = |a, b, x, y| Hello::ticket_context(peer(a), peer(b), &[x; 32], &[y; 32]);
    let proof = secret.proof(&context(3, 2, 7, 8));
    assert!(secret.proves(&context(3, 2, 7, 8), &proof));
    for other in
        [context(4, 2, 7, 8), context(3, 4, 7, 8), context(3, 2, 9, 8), context(3, 2, 7, 9), context(2, 3, 7, 8)]
    {
        assert!(!secret.proves(&other, &proof));
    }
    assert!(!TicketSecret([11; 32]).proves(&context(3, 2, 7, 8), &proof));
}

#[test]
fn a_tickets_secret_is_not_in_its_debug_text() {
    let shown = format!("{:?}", ticket());
    assert!(shown.contains("TicketSecret(..)") && !shown.contains("10, 10"), "{shown}");
}

#[test]
fn a_tickets_text_may_be_shouted_or_have_space_around_it() {
    let text = ticket().to_string();
    assert!(text.starts_with(TICKET_PREFIX) && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()));
    assert_eq!(format!("  {text}\n").parse(), Ok(ticket()));
    let shouted = format!("{TICKET_PREFIX}{}", text[TICKET_PREFIX.len()..].to_uppercase());
    assert_eq!(shouted.parse(), Ok(ticket()));
}

#[test]
fn a_ticket_with_the_most_addresses_fits_a_line_and_one_address_more_is_refused() {
    let of = |n| Ticket { addresses: vec![format!("/ip6/{}/udp/14354/quic-v1", "ffff:".repeat(8)); n], ..ticket() };
    assert_eq!(of(MAX_TICKET_ADDRESSES).to_string().parse(), Ok(of(MAX_TICKET_ADDRESSES)));
    assert!(of(MAX_TICKET_ADDRESSES + 1).to_bytes().is_err());
}

#[test]
fn text_that_is_no_ticket_is_refused() {
    let text = ticket().to_string();
    let long = format!("{TICKET_PREFIX}{}", "a".repeat(1_000_000));
    let cases = ["", TICKET_PREFIX, "idlewild2abc", &text[1..], &text[..text.len() - 1], &format!("{text}a"), &long];
    for case in cases {
        assert_eq!(case.parse::<Ticket>(), Err(MemberError::NotATicket), "{case:.40}");
    }
}

proptest! {
    #[test]
    fn a_typo_in_a_ticket_is_noticed(at in any::<prop::sample::Index>(), typed in "[a-z2-7]") {
        let mut text = ticket().to_string();
        let at = TICKET_PREFIX.len() + at.index(text.len() - TICKET_PREFIX.len());
        prop_assume!(text[at..=at] != typed);
        text.replace_range(at..=at, &typed);
        prop_assert_eq!(text.parse::<Ticket>(), Err(MemberError::NotATicket));
    }

    #[test]
    fn two_neighbours_swapped_in_a_ticket_are_noticed(at in any::<prop::sample::Index>()) {
        let text = ticket().to_string();
        let at = TICKET_PREFIX.len() + at.index(text.len() - TICKET_PREFIX.len() - 1);
        let (a, b) = (&text[at..=at], &text[at + 1..at + 2]);
        prop_assume!(a != b);
        let swapped = format!("{}{b}{a}{}", &text[..at], &text[at + 2..]);
        prop_assert_eq!(swapped.parse::<Ticket>(), Err(MemberError::NotATicket));
    }
}
