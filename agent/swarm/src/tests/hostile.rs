//! Peers that do not play by the rules: raw libp2p, with our own stream behaviour for the bytes.

use core::time::Duration;

use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use idlewild_protocol::{BootId, ControlMessage};
use libp2p::Stream;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{ConnectionId, SwarmEvent as Libp2pEvent};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::world::{Peer, SOON, World};
use crate::address::{Carrier, Written};
use crate::behaviour::Behaviour;
use crate::gate::Gate;
use crate::hello::{Failure, Outcome, Showing};
use crate::identity::to_libp2p;
use crate::interfaces::Interfaces;
use crate::start::new_swarm;
use crate::streams::{Kind, Streams};
use crate::{Departure, Identity, InterfaceFilter, OpenError, SwarmEvent};

/// A libp2p peer with one connection and no manners.
struct Raw {
    swarm: libp2p::Swarm<Behaviour>,
    them: libp2p::PeerId,
    connection: ConnectionId,
    closed: bool,
}

impl Raw {
    /// Connects to a member over one carrier; none where the handshake fails.
    async fn connect(world: &World, to: &Peer, identity: &Identity, carrier: Carrier) -> Option<Self> {
        let gate = Gate::new(Interfaces::new(InterfaceFilter::default(), true));
        let behaviour = Behaviour::new(Streams::new(gate), None);
        let keypair = identity.keypair().unwrap();
        let mut swarm = new_swarm(&keypair, world.founded.membership.swarm, behaviour, None).unwrap();
        let place = Written::parse(&to.address()).unwrap().place().unwrap();
        let them = to_libp2p(to.id()).unwrap();
        let options = DialOpts::peer_id(them)
            .condition(PeerCondition::Always)
            .addresses(vec![if carrier == Carrier::Quic { place.quic() } else { place.tcp() }])
            .allocate_new_port()
            .build();
        swarm.dial(options).unwrap();
        loop {
            match timeout(SOON, swarm.select_next_some()).await.unwrap() {
                Libp2pEvent::ConnectionEstablished { connection_id: connection, .. } => {
                    return Some(Self { swarm, them, connection, closed: false });
                }
                Libp2pEvent::OutgoingConnectionError { .. } => return None,
                _ => {}
            }
        }
    }

    async fn open(&mut self, kind: Kind) -> Result<Stream, OpenError> {
        let (opener, opened) = oneshot::channel();
        self.swarm.behaviour_mut().streams.open(self.them, self.connection, kind, opener);
        self.while_it_runs(opened).await.unwrap_or(Err(OpenError::NotConnected))
    }

    async fn while_it_runs<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        let both = async {
            loop {
                tokio::select! {
                    result = &mut work => return result,
                    event = self.swarm.select_next_some() => {
                        self.closed |= matches!(event, Libp2pEvent::ConnectionClosed { .. });
                    }
                }
            }
        };
        timeout(SOON, both).await.expect("it should end by now")
    }

    async fn hello(&mut self, world: &World, me: &Identity, to: &Peer, showing: Showing) -> Result<Outcome, Failure> {
        let stream = self.open(Kind::Hello).await.map_err(|_| Failure::Broken)?;
        let ours = (me.peer_id(), BootId(1), world.founded.membership.swarm);
        let admit = |_| core::future::ready(Ok(()));
        self.while_it_runs(crate::hello::dial(stream, ours, to.id(), showing, admit)).await
    }

    /// Whether the other side closes the connection within the time.
    async fn is_closed_within(&mut self, limit: Duration) -> bool {
        let closed = async {
            while !self.closed {
                let event = self.swarm.select_next_some().await;
                self.closed = matches!(event, Libp2pEvent::ConnectionClosed { .. });
            }
        };
        timeout(limit, closed).await.is_ok()
    }
}

/// One hello with chosen papers, on a fresh connection.
pub(super) async fn hello_with(
    world: &World,
    to: &Peer,
    identity: Identity,
    showing: Showing,
) -> Result<Outcome, Failure> {
    let mut raw = Raw::connect(world, to, &identity, Carrier::Quic).await.ok_or(Failure::Broken)?;
    raw.hello(world, &identity, to, showing).await
}

/// A member that has passed its hello, and speaks raw bytes from then on.
async fn raw_member(world: &World, to: &Peer, carrier: Carrier) -> (Raw, Identity) {
    // A smaller id opens the control stream; a greater one would have to wait for it.
    let identity = loop {
        let identity = Identity::generate();
        if identity.peer_id() < to.id() {
            break identity;
        }
    };
    let mut raw = Raw::connect(world, to, &identity, carrier).await.unwrap();
    let showing = Showing::Membership(world.membership_of(identity.peer_id()).chain);
    raw.hello(world, &identity, to, showing).await.unwrap();
    (raw, identity)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_served_no_stream_and_put_out_after_five_seconds() {
    let world = World::new();
    let mut member = world.member(&[]).await;
    for carrier in Carrier::DIRECT {
        let mut raw = Raw::connect(&world, &member, &Identity::generate(), carrier).await.unwrap();
        for kind in [Kind::Control, Kind::Job, Kind::Bulk] {
            assert_eq!(raw.open(kind).await.err(), Some(OpenError::Refused), "{carrier:?} {kind:?}");
        }
        assert!(raw.is_closed_within(Duration::from_secs(7)).await, "{carrier:?}");
    }
    let told = member.event_within(Duration::ZERO, |event| match event {
        SwarmEvent::Connected { .. } | SwarmEvent::Job { .. } | SwarmEvent::Control { .. } => Some(()),
        _ => None,
    });
    assert!(told.await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_does_not_pass_the_handshake_of_tcp() {
    let (ours, theirs) = (World::new(), World::new());
    let member = ours.member(&[]).await;
    let raw = Raw::connect(&theirs, &member, &Identity::generate(), Carrier::Tcp).await;
    assert!(raw.is_none(), "noise is bound to the swarm");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_peer_gets_no_second_hello_within_its_minute() {
    let world = World::new();
    let mut member = world.member(&[]).await;
    let identity = Identity::generate();
    let showing = || Showing::Membership(world.membership_of(Identity::generate().peer_id()).chain);
    let first = hello_with(&world, &member, identity.clone(), showing()).await;
    assert!(matches!(first, Err(Failure::Refused(..))), "{first:?}");
    member.refuses().await;
    for _ in 0..3 {
        let again = hello_with(&world, &member, identity.clone(), showing()).await;
        assert_eq!(again, Err(Failure::Broken), "the connection is closed before a word is said");
    }
    let more = member.event_within(Duration::ZERO, |event| match event {
        SwarmEvent::Refused { .. } => Some(()),
        _ => None,
    });
    assert!(more.await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rubbish_instead_of_a_hello_ends_the_connection() {
    let world = World::new();
    let member = world.member(&[]).await;
    for rubbish in [&[0xff; 64][..], &[10, 0, 0, 0, 1, 2][..], &[0, 0, 0, 0][..]] {
        let mut raw = Raw::connect(&world, &member, &Identity::generate(), Carrier::Quic).await.unwrap();
        let mut stream = raw.open(Kind::Hello).await.unwrap();
        raw.while_it_runs(async {
            stream.write_all(rubbish).await.unwrap();
            // It may have been closed already.
            let _ = stream.close().await;
        })
        .await;
        assert!(raw.is_closed_within(Duration::from_secs(7)).await, "{rubbish:?}");
    }
    assert_eq!(member.swarm.peers(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_sends_malformed_frames_is_put_out_and_the_rest_goes_on() {
    let world = World::new();
    let (mut member, friend) = world.pair().await;
    let oversized = u32::MAX.to_le_bytes().to_vec();
    let unknown = [&2_u32.to_le_bytes()[..], &[250, 250]].concat();
    let trailing = [&3_u32.to_le_bytes()[..], &[0, 1, 9]].concat();
    for (name, bytes) in [("oversized", oversized), ("unknown", unknown), ("trailing", trailing)] {
        for carrier in Carrier::DIRECT {
            let (mut raw, identity) = raw_member(&world, &member, carrier).await;
            let mut stream = raw.open(Kind::Control).await.unwrap();
            raw.while_it_runs(member.sees(identity.peer_id())).await;
            raw.while_it_runs(stream.write_all(&bytes)).await.unwrap();
            raw.while_it_runs(stream.flush()).await.unwrap();
            let why = raw.while_it_runs(member.loses(identity.peer_id())).await;
            assert_eq!(why, Departure::Faulty, "{name} over {carrier:?}");
            assert!(raw.is_closed_within(SOON).await, "{name} over {carrier:?}");
        }
    }
    assert!(member.is_connected_to(friend.id()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_that_ends_too_early_is_a_closed_connection() {
    let world = World::new();
    let mut member = world.member(&[]).await;
    let (mut raw, identity) = raw_member(&world, &member, Carrier::Quic).await;
    let mut stream = raw.open(Kind::Control).await.unwrap();
    raw.while_it_runs(async {
        stream.write_all(&[100, 0, 0, 0, 1]).await.unwrap();
        stream.close().await.unwrap();
    })
    .await;
    raw.while_it_runs(member.sees(identity.peer_id())).await;
    assert_eq!(raw.while_it_runs(member.loses(identity.peer_id())).await, Departure::Closed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_stream_without_a_proper_start_is_dropped_and_harms_nobody() {
    let world = World::new();
    let mut member = world.member(&[]).await;
    let (mut raw, identity) = raw_member(&world, &member, Carrier::Quic).await;
    let control = raw.open(Kind::Control).await.unwrap();
    raw.while_it_runs(member.sees(identity.peer_id())).await;
    // Whatever else it does, it is alive.
    let answering = tokio::spawn(answer_pings(control));
    for bytes in [u32::MAX.to_le_bytes().to_vec(), vec![1, 0, 0, 0, 77], vec![]] {
        let mut stream = raw.open(Kind::Job).await.unwrap();
        let answer = raw
            .while_it_runs(async {
                stream.write_all(&bytes).await.unwrap();
                stream.close().await.unwrap();
                let mut answer = Vec::new();
                // An error is as good as the end.
                drop(stream.read_to_end(&mut answer).await);
                answer
            })
            .await;
        assert_eq!(answer, Vec::<u8>::new());
    }
    assert!(member.is_connected_to(identity.peer_id()));
    answering.abort();
}

async fn answer_pings(control: Stream) {
    let (mut reader, mut writer) = crate::frames::framed(control);
    while let Ok(message) = reader.next::<ControlMessage>().await {
        if let ControlMessage::Ping { nonce } = message {
            drop(writer.send(&ControlMessage::Pong { nonce }).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_falls_silent_departs_within_two_seconds() {
    let world = World::new();
    let mut member = world.member(&[]).await;
    let (mut raw, identity) = raw_member(&world, &member, Carrier::Quic).await;
    let _control = raw.open(Kind::Control).await.unwrap();
    raw.while_it_runs(member.sees(identity.peer_id())).await;
    // Its connection is kept alive by libp2p all the while; it just does not answer.
    let why = raw.while_it_runs(member.loses(identity.peer_id())).await;
    // By the member's own watch, which leaves out what it slept itself.
    assert!(matches!(why, Departure::Silent(silence) if silence < Duration::from_secs(2)), "{why:?}");
}
