//! Who is let in, and who is not.

use idlewild_protocol::{CertificateChain, Refusal, Role};

use super::world::{Desk, Peer, SOON, World};
use crate::membership::wall_clock_s;
use crate::{Identity, JoinError, RefusedBy, StartError, SwarmEvent, join, start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_connect_by_a_static_address_over_both_carriers() {
    let world = World::new();
    let (one, other) = world.pair().await;
    one.has_bulk_to(other.id()).await;
    other.has_bulk_to(one.id()).await;
    for link in [&one.swarm.peers()[0], &other.swarm.peers()[0]] {
        assert!(link.address.contains("quic"), "control travels on QUIC: {}", link.address);
        assert_eq!(link.role, Role::Member);
    }
    super::world::eventually(|| one.swarm.peers()[0].rtt_us > 0 && other.swarm.peers()[0].rtt_us > 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_of_another_swarm_is_refused_by_both_sides() {
    let (ours, theirs) = (World::new(), World::new());
    let mut member = ours.member(&[]).await;
    let mut stranger = theirs.member(&[&member]).await;
    assert_eq!(member.refuses().await, (stranger.id(), Refusal::OtherSwarm, RefusedBy::Us));
    assert_eq!(stranger.refuses().await, (member.id(), Refusal::OtherSwarm, RefusedBy::Us));
    assert!(!member.is_connected_to(stranger.id()) && !stranger.is_connected_to(member.id()));
}

/// Papers for a peer.
type Issue<'a> = &'a dyn Fn(idlewild_protocol::PeerId) -> CertificateChain;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_that_do_not_count_are_refused_with_their_reason() {
    let world = World::new();
    let mut member = world.member(&[]).await;
    let someone_else = Identity::generate().peer_id();
    let expired = |peer| world.chain_until(peer, wall_clock_s() - 1);
    let copied = |_| world.chain_until(someone_else, wall_clock_s() + 60);
    let forged = |peer| {
        let mut chain = world.chain_until(peer, wall_clock_s() + 60);
        chain.0[0].not_after_s += 1;
        chain
    };
    let self_made = |peer| World::new().chain_until(peer, wall_clock_s() + 60);
    let cases: [(&str, Issue<'_>, Refusal); 4] = [
        ("expired", &expired, Refusal::CertificateExpired),
        ("another peer's", &copied, Refusal::BadCertificate),
        ("forged", &forged, Refusal::BadCertificate),
        ("of another swarm", &self_made, Refusal::BadCertificate),
    ];
    for (name, issue, expect) in cases {
        let identity = Identity::generate();
        let peer = identity.peer_id();
        let showing = crate::hello::Showing::Membership(issue(peer));
        let outcome = super::hostile::hello_with(&world, &member, identity, showing).await;
        assert_eq!(outcome, Err(crate::hello::Failure::Refused(expect, RefusedBy::Them)), "{name}");
        assert_eq!(member.refuses().await, (peer, expect, RefusedBy::Us), "{name}");
        assert!(!member.is_connected_to(peer), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_makes_one_newcomer_a_member() {
    let world = World::new();
    let desk = Desk::new(&world);
    let mut config = world.config(world.founder.clone(), 1);
    config.desk = Some(desk.clone());
    let mut issuer = Peer::start(config).await;
    let ticket = desk.invite(issuer.swarm.listeners());

    let newcomer = Identity::generate();
    let joined = join(&newcomer, &ticket).await.unwrap();
    assert_eq!(joined.membership.verify(newcomer.peer_id(), wall_clock_s()), Ok(Role::Member));
    assert!(!issuer.is_connected_to(newcomer.peer_id()), "a newcomer is served nothing but its certificate");

    let mut config = world.config(newcomer.clone(), 1);
    config.membership = joined.membership;
    config.static_peers = joined.addresses;
    let mut member = Peer::start(config).await;
    member.sees(issuer.id()).await;
    issuer.sees(member.id()).await;

    let other = Identity::generate();
    let refused = join(&other, &ticket).await.unwrap_err();
    assert!(matches!(refused, JoinError::Refused(Refusal::TicketUsed)), "{refused}");
    assert_eq!(issuer.refuses().await, (other.peer_id(), Refusal::TicketUsed, RefusedBy::Us));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_that_do_not_count_say_why() {
    let world = World::new();
    let desk = Desk::new(&world);
    let mut config = world.config(world.founder.clone(), 1);
    config.desk = Some(desk.clone());
    let issuer = Peer::start(config).await;
    let good = desk.invite(issuer.swarm.listeners());

    let mut guessed = good.clone();
    guessed.secret = idlewild_protocol::TicketSecret([0; 32]);
    let mut old = good.clone();
    old.not_after_s = wall_clock_s() - 1;
    let mut nowhere = good.clone();
    nowhere.addresses = vec!["/ip4/127.0.0.1/tcp/1".to_owned()];
    let mut nothing = good.clone();
    nothing.addresses = vec!["x".to_owned()];
    let mut elsewhere = good.clone();
    elsewhere.swarm = World::new().founded.membership.swarm;
    let mut someone_else = good.clone();
    someone_else.issuer = Identity::generate().peer_id();
    for (name, ticket, says) in [
        ("guessed", &guessed, "not known"),
        ("old", &old, "expired"),
        ("nowhere", &nowhere, "cannot be reached at /ip4/127.0.0.1/tcp/1"),
        ("nothing", &nothing, "no usable address"),
        ("elsewhere", &elsewhere, "another swarm"),
        ("someone else", &someone_else, "another peer answers"),
    ] {
        let error = join(&Identity::generate(), ticket).await.unwrap_err().to_string();
        assert!(error.contains(says), "{name}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_without_a_desk_refuses_newcomers() {
    let world = World::new();
    let issuer = Peer::start(world.config(world.founder.clone(), 1)).await;
    let ticket = Desk::new(&world).invite(issuer.swarm.listeners());
    let error = join(&Identity::generate(), &ticket).await.unwrap_err();
    assert!(matches!(error, JoinError::Refused(Refusal::TicketUnknown)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swarm_does_not_start_with_papers_that_cannot_work() {
    let world = World::new();
    let identity = Identity::generate();
    let mut expired = world.config(identity.clone(), 1);
    expired.membership.chain = world.chain_until(identity.peer_id(), wall_clock_s() - 1);
    assert!(matches!(start(expired).await, Err(StartError::CertificateExpired)));

    let mut copied = world.config(identity.clone(), 1);
    copied.membership = world.membership_of(Identity::generate().peer_id());
    assert!(matches!(start(copied).await, Err(StartError::OtherPeersCertificate)));

    let mut forged = world.config(identity, 1);
    forged.membership.chain.0[0].not_after_s += 1;
    assert!(matches!(start(forged).await, Err(StartError::BadCertificate(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_in_use_is_named_with_its_setting() {
    let world = World::new();
    let first = world.member(&[]).await;
    let mut config = world.config(Identity::generate(), 1);
    config.port = first.address().rsplit_once(':').unwrap().1.parse().unwrap();
    let port = config.port.to_string();
    let error = start(config).await.err().unwrap().to_string();
    assert!(error.contains(&port) && error.contains("swarm.port"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_static_peer_that_is_no_address_is_left_out_with_a_hint() {
    let world = World::new();
    let mut config = world.config(Identity::generate(), 1);
    config.static_peers = vec!["desk".to_owned()];
    let mut peer = Peer::start(config).await;
    let hint = peer
        .event_within(SOON, |event| match event {
            SwarmEvent::Hint(hint) => Some(hint.to_string()),
            _ => None,
        })
        .await
        .unwrap();
    assert!(hint.contains("\"desk\""), "{hint}");
}
