//! A small world: members of one swarm, strangers, and what is seen of them.

use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use idlewild_protocol::{
    BootId, CertificateChain, Epoch, JobInput, JobStart, ModelId, PeerId, Refusal, RequestId, Sampling, Ticket,
    TicketId, TicketSecret,
};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::membership::wall_clock_s;
use crate::{
    Founded, Identity, InterfaceFilter, Membership, RelayMode, Swarm, SwarmConfig, SwarmEvent, TicketDesk, found_swarm,
    issue_member, start,
};

/// How long anything may take that should happen at once, on a loaded machine.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// A swarm that somebody founded.
pub(super) struct World {
    pub(super) founder: Identity,
    pub(super) founded: Founded,
}

impl World {
    pub(super) fn new() -> Self {
        // For whoever sets RUST_LOG; the first world of a process decides.
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        drop(tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init());
        let founder = Identity::generate();
        let founded = found_swarm(founder.peer_id(), wall_clock_s() + 3_600);
        Self { founder, founded }
    }

    pub(super) fn membership_of(&self, peer: PeerId) -> Membership {
        let chain = self.chain_until(peer, wall_clock_s() + 600);
        Membership { swarm: self.founded.membership.swarm, chain }
    }

    pub(super) fn chain_until(&self, peer: PeerId, not_after_s: u64) -> CertificateChain {
        issue_member(&self.founder, &self.founded.membership, peer, not_after_s, wall_clock_s()).unwrap()
    }

    /// Configuration of a member on loopback that knows nobody.
    pub(super) fn config(&self, identity: Identity, boot: u64) -> SwarmConfig {
        let membership = if identity.peer_id() == self.founder.peer_id() {
            self.founded.membership.clone()
        } else {
            self.membership_of(identity.peer_id())
        };
        SwarmConfig {
            identity,
            membership,
            boot: BootId(boot),
            port: 0,
            listen: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            mdns: false,
            static_peers: Vec::new(),
            address_book: None,
            interfaces: InterfaceFilter::default(),
            relay: RelayMode::default(),
            desk: None,
        }
    }

    pub(super) async fn member(&self, knows: &[&Peer]) -> Peer {
        let mut config = self.config(Identity::generate(), 1);
        config.static_peers = knows.iter().map(|peer| peer.address()).collect();
        Peer::start(config).await
    }

    /// Two members that are connected.
    pub(super) async fn pair(&self) -> (Peer, Peer) {
        let mut one = self.member(&[]).await;
        let mut other = self.member(&[&one]).await;
        other.sees(one.id()).await;
        one.sees(other.id()).await;
        (one, other)
    }
}

/// A running member and what it was told.
pub(super) struct Peer {
    pub(super) swarm: Swarm,
    pub(super) events: mpsc::Receiver<SwarmEvent>,
}

impl Peer {
    pub(super) async fn start(config: SwarmConfig) -> Self {
        let (swarm, events) = start(config).await.unwrap();
        let peer = Self { swarm, events };
        eventually(|| peer.swarm.listeners().len() == 2).await;
        peer
    }

    pub(super) fn id(&self) -> PeerId {
        self.swarm.me()
    }

    /// `127.0.0.1:port`.
    pub(super) fn address(&self) -> String {
        let written = crate::address::Written::parse(&self.swarm.listeners()[0]).unwrap();
        written.place().unwrap().to_string()
    }

    /// The first event that `wanted` takes; others are dropped.
    pub(super) async fn event<T>(&mut self, mut wanted: impl FnMut(SwarmEvent) -> Option<T>) -> T {
        self.event_within(SOON, &mut wanted).await.expect("the event should have come")
    }

    pub(super) async fn event_within<T>(
        &mut self,
        limit: Duration,
        mut wanted: impl FnMut(SwarmEvent) -> Option<T>,
    ) -> Option<T> {
        let search = async {
            loop {
                let event = self.events.recv().await.expect("the swarm should run");
                if let Some(found) = wanted(event) {
                    return found;
                }
            }
        };
        timeout(limit, search).await.ok()
    }

    /// Waits until the peer is connected; gives its boot.
    pub(super) async fn sees(&mut self, other: PeerId) -> BootId {
        self.event(|event| match event {
            SwarmEvent::Connected { peer, boot, .. } if peer == other => Some(boot),
            _ => None,
        })
        .await
    }

    /// Waits until it departs; gives how.
    pub(super) async fn loses(&mut self, other: PeerId) -> crate::Departure {
        self.event(|event| match event {
            SwarmEvent::Departed { peer, why, .. } if peer == other => Some(why),
            _ => None,
        })
        .await
    }

    /// Waits for a refusal.
    pub(super) async fn refuses(&mut self) -> (PeerId, Refusal, crate::RefusedBy) {
        self.event(|event| match event {
            SwarmEvent::Refused { peer, refusal, by } => Some((peer, refusal, by)),
            _ => None,
        })
        .await
    }

    pub(super) fn is_connected_to(&self, other: PeerId) -> bool {
        self.swarm.peers().iter().any(|link| link.peer == other)
    }

    pub(super) async fn has_bulk_to(&self, other: PeerId) {
        eventually(|| self.swarm.peers().iter().any(|link| link.peer == other && link.has_bulk)).await;
    }
}

/// Waits for a level, not for a time.
pub(super) async fn eventually(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < SOON, "it should hold by now");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A desk like the agent's, without its database.
pub(super) struct Desk {
    issuer: Identity,
    membership: Membership,
    tickets: Mutex<Vec<(TicketId, TicketSecret, Option<PeerId>)>>,
}

impl Desk {
    pub(super) fn new(world: &World) -> Arc<Self> {
        let (issuer, membership) = (world.founder.clone(), world.founded.membership.clone());
        Arc::new(Self { issuer, membership, tickets: Mutex::default() })
    }

    pub(super) fn invite(&self, addresses: Vec<String>) -> Ticket {
        let (id, secret) = (TicketId(rand::random()), TicketSecret(rand::random()));
        self.tickets.lock().unwrap().push((id, secret.clone(), None));
        let not_after_s = wall_clock_s() + 60;
        Ticket { swarm: self.membership.swarm, issuer: self.issuer.peer_id(), addresses, id, secret, not_after_s }
    }
}

impl TicketDesk for Desk {
    fn redeem(
        &self,
        ticket: TicketId,
        newcomer: PeerId,
        proves: &dyn Fn(&TicketSecret) -> bool,
    ) -> Result<CertificateChain, Refusal> {
        let mut tickets = self.tickets.lock().unwrap();
        let found = tickets.iter_mut().find(|(id, secret, _)| *id == ticket && proves(secret));
        let (_, _, used_by) = found.ok_or(Refusal::TicketUnknown)?;
        if used_by.is_some_and(|user| user != newcomer) {
            return Err(Refusal::TicketUsed);
        }
        *used_by = Some(newcomer);
        let now_s = wall_clock_s();
        issue_member(&self.issuer, &self.membership, newcomer, now_s + 600, now_s).map_err(|_| Refusal::Busy)
    }
}

/// Some job.
pub(super) fn job(n: u8) -> JobStart {
    JobStart {
        request: RequestId([n; 16]),
        epoch: Epoch(1),
        model: ModelId([3; 32]),
        input: JobInput::Text { prompt: format!("prompt {n}") },
        sampling: Sampling::default(),
        max_tokens: 10,
        stop: Vec::new(),
        pull: None,
    }
}

/// An address at which a peer can be reached by TCP only.
pub(super) async fn tcp_only(peer: &Peer) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, behind) = (listener.local_addr().unwrap(), peer.address());
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let behind = behind.clone();
            tokio::spawn(async move {
                let mut far = tokio::net::TcpStream::connect(behind).await.unwrap();
                // Either side may end it.
                drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
            });
        }
    });
    address.to_string()
}
