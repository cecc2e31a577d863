//! Starting a swarm: checks, threads, listeners, and the event loop on its own runtime.

use std::io;
use std::net::IpAddr;
use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Instant;

use core::time::Duration;

use idlewild_protocol::{MemberError, PeerId};
use libp2p::identity::Keypair;
use libp2p::{Multiaddr, TransportError, relay};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, oneshot};

use crate::address::{Carrier, Place, Written};
use crate::behaviour::{Behaviour, mdns};
use crate::book::Book;
use crate::control::EVENT_QUEUE;
use crate::dialing::Dialing;
use crate::event::{Hint, SwarmEvent};
use crate::event_loop::{EventLoop, Parts};
use crate::gate::Gate;
use crate::handle::{COMMAND_QUEUE, Shared};
use crate::hello::Papers;
use crate::interfaces::Interfaces;
use crate::membership::wall_clock_s;
use crate::streams::Streams;
use crate::{Membership, StartError, Swarm, SwarmConfig, listen, multicast, relaying, transport};

/// Addresses of one peer that are dialled at once.
const DIALS_AT_ONCE: NonZeroU8 = NonZeroU8::MIN.saturating_add(7);

/// How long tasks may take to end with their runtime.
const END_LIMIT: Duration = Duration::from_millis(200);

/// Starts the swarm. It ends with [`Swarm::shut_down`], or when the last handle is dropped; the receiver then ends too.
pub async fn start(config: SwarmConfig) -> Result<(Swarm, mpsc::Receiver<SwarmEvent>), StartError> {
    let me = config.identity.peer_id();
    check_membership(&config.membership, me)?;
    let keypair = config.identity.keypair().ok_or(StartError::BadIdentity)?;
    let addresses = listen::addresses(&config.listen, config.port)?;
    let (started, starting) = oneshot::channel();
    let body = move || {
        let runtime = match runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                // Whoever starts it waits.
                drop(started.send(Err(StartError::Runtime(error))));
                return;
            }
        };
        runtime.block_on(run(config, keypair, addresses, started));
        runtime.shutdown_timeout(END_LIMIT);
    };
    thread("idlewild-swarm", body).map_err(StartError::Runtime)?;
    starting.await.unwrap_or_else(|_ended| Err(StartError::Runtime(io::ErrorKind::Other.into())))
}

/// What runs on the swarm's own thread. One: its tasks wake each other several times for every packet, and to wake a task
/// on another thread costs more than most of them do. None of them takes long; what may goes to blocking threads.
pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().thread_name("idlewild-swarm").enable_all().build()
}

/// Runs `body` on a thread of its own, which owns the runtime and may block.
pub(crate) fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}

type Started = oneshot::Sender<Result<(Swarm, mpsc::Receiver<SwarmEvent>), StartError>>;

async fn run(config: SwarmConfig, keypair: Keypair, addresses: Vec<Multiaddr>, started: Started) {
    let (events, event_queue) = mpsc::channel(EVENT_QUEUE);
    let (commands, command_queue) = mpsc::channel(COMMAND_QUEUE);
    let me = config.identity.peer_id();
    let shared = Arc::new(Shared::new(me, config.boot, Handle::current()));
    let reuse_quic_port = listen::one_of_each_family(&config.listen);
    let relays = config.relay;
    let made = match build(config, &keypair, &addresses, &events, &shared) {
        Ok(made) => made,
        Err(error) => {
            drop(started.send(Err(error)));
            return;
        }
    };
    let Made { swarm, papers, dialing, book } = made;
    let handle = Swarm { shared: Arc::clone(&shared), commands };
    if started.send(Ok((handle, event_queue))).is_err() {
        return;
    }
    let parts =
        Parts { swarm, shared, papers, dialing, book, relays, reuse_quic_port, events, commands: command_queue };
    EventLoop::new(parts).run().await;
}

struct Made {
    swarm: libp2p::Swarm<Behaviour>,
    papers: Papers,
    dialing: Dialing,
    book: Book,
}

fn build(
    config: SwarmConfig,
    keypair: &Keypair,
    addresses: &[Multiaddr],
    events: &mpsc::Sender<SwarmEvent>,
    shared: &Arc<Shared>,
) -> Result<Made, StartError> {
    let me = config.identity.peer_id();
    let now = Instant::now();
    let hint = |hint| drop(events.try_send(SwarmEvent::Hint(hint)));
    let loopback_only = config.listen.iter().all(IpAddr::is_loopback);
    let interfaces = Interfaces::new(config.interfaces, loopback_only);
    let discovery = if config.mdns && !loopback_only { discovery(keypair, &interfaces, &hint) } else { None };
    let statics = config.static_peers.into_iter().filter_map(|text| {
        let written = Written::parse(&text);
        if written.is_none() {
            hint(Hint::BadStaticPeer { text });
        }
        written
    });
    let mut dialing = Dialing::new(me, statics.collect(), now);
    let book = Book::open(config.address_book);
    for (peer, places) in book.places() {
        for place in places {
            dialing.remember(peer, *place, now);
        }
    }
    let us = keypair.public().to_peer_id();
    let (circuits, caller) = relay::client::new(us);
    let behaviour = Behaviour::new(Streams::new(Gate::new(interfaces)), discovery)
        .relaying(relaying::behaviour(us, Arc::clone(shared)), caller);
    let mut swarm =
        new_swarm(keypair, config.membership.swarm, behaviour, Some(circuits)).map_err(StartError::Runtime)?;
    for address in addresses {
        swarm.listen_on(address.clone()).map_err(|error| listen_error(address, error))?;
    }
    let Membership { swarm: swarm_id, chain } = config.membership;
    let papers = Papers { me, boot: config.boot, swarm: swarm_id, chain, desk: config.desk };
    Ok(Made { swarm, papers, dialing, book })
}

/// libp2p's swarm for one of ours. `circuits` is the transport that belongs to a behaviour that is `relaying`.
pub(crate) fn new_swarm(
    keypair: &Keypair,
    id: idlewild_protocol::SwarmId,
    behaviour: Behaviour,
    circuits: Option<relay::client::Transport>,
) -> io::Result<libp2p::Swarm<Behaviour>> {
    let config = libp2p::swarm::Config::with_tokio_executor().with_dial_concurrency_factor(DIALS_AT_ONCE);
    let transport = transport::build(keypair, id, circuits)?;
    Ok(libp2p::Swarm::new(transport, behaviour, keypair.public().to_peer_id(), config))
}

fn discovery(
    keypair: &Keypair,
    interfaces: &Interfaces,
    hint: &impl Fn(Hint),
) -> Option<libp2p::mdns::tokio::Behaviour> {
    multicast::check(interfaces).into_iter().for_each(hint);
    match mdns(keypair.public().to_peer_id()) {
        Ok(behaviour) => Some(behaviour),
        Err(error) => {
            hint(Hint::NoDiscovery { reason: error.to_string() });
            None
        }
    }
}

fn check_membership(membership: &Membership, me: PeerId) -> Result<(), StartError> {
    match membership.verify(me, wall_clock_s()) {
        Ok(_role) => Ok(()),
        Err(MemberError::OtherPeer) => Err(StartError::OtherPeersCertificate),
        Err(MemberError::Expired) => Err(StartError::CertificateExpired),
        Err(
            error @ (MemberError::OtherSwarm
            | MemberError::BadSignature
            | MemberError::IssuerMayNotInvite
            | MemberError::NotATicket),
        ) => Err(StartError::BadCertificate(error)),
    }
}

/// Another process may have taken the port since it was checked.
fn listen_error(address: &Multiaddr, error: TransportError<io::Error>) -> StartError {
    let source = match error {
        TransportError::Other(source) => source,
        TransportError::MultiaddrNotSupported(_) => io::ErrorKind::Unsupported.into(),
    };
    match Place::of(address) {
        Some((place, carrier)) => {
            let transport = match carrier {
                Carrier::Quic => "UDP",
                Carrier::Tcp | Carrier::Circuit => "TCP",
            };
            listen::failed(place.0.ip(), place.0.port(), transport, source)
        }
        None => StartError::Runtime(source),
    }
}
