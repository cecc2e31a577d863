//! Joining: a short-lived swarm that dials a ticket's issuer, shows the ticket, and comes back with a certificate.

use core::time::Duration;

use futures::StreamExt;
use idlewild_protocol::{BootId, CertificateChain, PeerId, Ticket};
use libp2p::Multiaddr;
use libp2p::identity::Keypair;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{ConnectionId, DialError, SwarmEvent as Libp2pEvent};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::address::{Place, Written, with_peer};
use crate::behaviour::Behaviour;
use crate::gate::Gate;
use crate::hello::{self, Failure, Member, Outcome, Showing};
use crate::identity::to_libp2p;
use crate::interfaces::Interfaces;
use crate::membership::wall_clock_s;
use crate::start::{new_swarm, runtime, thread};
use crate::streams::{Kind, Streams};
use crate::{Identity, InterfaceFilter, JoinError, Membership};

/// The whole attempt.
const LIMIT: Duration = Duration::from_secs(15);

/// Rounds of dials: a peer that has just been started may not listen yet.
const ROUNDS: u32 = 3;

/// Between two rounds.
const ROUND_WAIT: Duration = Duration::from_secs(1);

/// How long a connection is kept after the last word of a hello.
const CLOSE_WAIT: Duration = Duration::from_millis(200);

/// What a ticket bought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The membership.
    pub membership: Membership,
    /// Where the issuer listens: fit for `static_peers`.
    pub addresses: Vec<String>,
}

/// Redeems a ticket with its issuer, within 15 s.
pub async fn join(identity: &Identity, ticket: &Ticket) -> Result<Joined, JoinError> {
    if ticket.not_after_s < wall_clock_s() {
        return Err(JoinError::Expired);
    }
    let keypair = identity.keypair().ok_or(JoinError::BadIdentity)?;
    let (me, ticket) = (identity.peer_id(), ticket.clone());
    let (joined, joining) = oneshot::channel();
    let body = move || {
        let result = match runtime() {
            Ok(runtime) => runtime.block_on(redeem(&keypair, me, &ticket)),
            Err(error) => Err(JoinError::Runtime(error)),
        };
        // Whoever asked may have given up.
        drop(joined.send(result));
    };
    thread("idlewild-join", body).map_err(JoinError::Runtime)?;
    joining.await.unwrap_or_else(|_ended| Err(JoinError::Runtime(std::io::ErrorKind::Other.into())))
}

async fn redeem(keypair: &Keypair, me: PeerId, ticket: &Ticket) -> Result<Joined, JoinError> {
    let mut attempt = Attempt::new(keypair, me, ticket)?;
    let chain = timeout(LIMIT, attempt.run()).await.unwrap_or(Err(Setback::NoAnswer("no answer in time".to_owned())));
    let chain = chain.map_err(|setback| setback.into_error(ticket))?;
    let membership = Membership { swarm: ticket.swarm, chain };
    membership.verify(me, wall_clock_s()).map_err(|_invalid| JoinError::BadAnswer)?;
    let addresses = attempt.addresses.iter().map(|address| with_peer(address.clone(), ticket.issuer)).collect();
    Ok(Joined { membership, addresses })
}

/// Why one round did not succeed.
enum Setback {
    NoAnswer(String),
    Failed(Failure),
}

impl Setback {
    fn into_error(self, ticket: &Ticket) -> JoinError {
        match self {
            Self::NoAnswer(reason) => JoinError::Unreachable { addresses: ticket.addresses.join(", "), reason },
            Self::Failed(Failure::Refused(refusal, _)) => JoinError::Refused(refusal),
            Self::Failed(Failure::Broken) => JoinError::Unreachable {
                addresses: ticket.addresses.join(", "),
                reason: "the connection was closed before the ticket was answered".to_owned(),
            },
        }
    }
}

struct Attempt<'a> {
    swarm: libp2p::Swarm<Behaviour>,
    me: PeerId,
    issuer: libp2p::PeerId,
    ticket: &'a Ticket,
    /// Of the ticket, once for each carrier.
    addresses: Vec<Multiaddr>,
}

impl<'a> Attempt<'a> {
    fn new(keypair: &Keypair, me: PeerId, ticket: &'a Ticket) -> Result<Self, JoinError> {
        let places = ticket.addresses.iter().filter_map(|text| Written::parse(text)?.place());
        let mut addresses: Vec<_> = places.flat_map(Place::addresses).collect();
        addresses.dedup();
        let issuer = to_libp2p(ticket.issuer).filter(|_| !addresses.is_empty()).ok_or(JoinError::NoAddress)?;
        // The user names the addresses: no filter.
        let gate =
            Gate::new(Interfaces::new(InterfaceFilter { skip: Vec::new(), only: Vec::new(), tunnels: true }, true));
        let behaviour = Behaviour::new(Streams::new(gate), None);
        let swarm = new_swarm(keypair, ticket.swarm, behaviour, None).map_err(JoinError::Runtime)?;
        Ok(Self { swarm, me, issuer, ticket, addresses })
    }

    async fn run(&mut self) -> Result<CertificateChain, Setback> {
        let mut last = Setback::NoAnswer("no attempt was made".to_owned());
        for round in 0..ROUNDS {
            if round > 0 {
                sleep(ROUND_WAIT).await;
            }
            match self.round().await {
                Ok(chain) => return Ok(chain),
                Err(Setback::Failed(refused @ Failure::Refused(..))) => return Err(Setback::Failed(refused)),
                Err(setback) => last = setback,
            }
        }
        Err(last)
    }

    /// Dials all addresses at once and shows the ticket on the first connection.
    async fn round(&mut self) -> Result<CertificateChain, Setback> {
        let options = DialOpts::peer_id(self.issuer)
            .condition(PeerCondition::Always)
            .addresses(self.addresses.clone())
            .allocate_new_port()
            .build();
        self.swarm.dial(options).map_err(|error| Setback::NoAnswer(reason(&error)))?;
        let connection = loop {
            let event = self.swarm.select_next_some().await;
            if let Libp2pEvent::ConnectionEstablished { connection_id, .. } = event {
                break connection_id;
            } else if let Libp2pEvent::OutgoingConnectionError { error, .. } = event {
                return Err(Setback::NoAnswer(reason(&error)));
            }
        };
        self.show(connection).await.map_err(Setback::Failed)
    }

    async fn show(&mut self, connection: ConnectionId) -> Result<CertificateChain, Failure> {
        let (opener, opened) = oneshot::channel();
        self.swarm.behaviour_mut().streams.open(self.issuer, connection, Kind::Hello, opener);
        let Self { swarm, me, ticket, .. } = self;
        let showing = Showing::Ticket(ticket.id, ticket.secret.clone());
        let exchange = async {
            let stream = opened.await.ok().and_then(Result::ok).ok_or(Failure::Broken)?;
            // A newcomer is no process of the swarm yet: its boot is not remembered.
            let ours = (*me, BootId(0), ticket.swarm);
            let outcome =
                hello::dial(stream, ours, ticket.issuer, showing, |_member: Member| core::future::ready(Ok(())))
                    .await?;
            sleep(CLOSE_WAIT).await;
            Ok::<Outcome, Failure>(outcome)
        };
        tokio::pin!(exchange);
        let outcome = loop {
            tokio::select! {
                result = &mut exchange => break result?,
                _event = swarm.select_next_some() => {}
            }
        };
        match outcome {
            Outcome::Newcomer(chain) => Ok(chain),
            // Let in without a certificate: not what was asked for.
            Outcome::Members(_) => Err(Failure::Broken),
        }
    }
}

/// What a person can make use of.
fn reason(error: &DialError) -> String {
    match error {
        DialError::WrongPeerId { .. } => "another peer answers there".to_owned(),
        DialError::LocalPeerId { .. } => "that is this very peer".to_owned(),
        DialError::Transport(errors) => errors
            .iter()
            .map(|(address, error)| format!("{address}: {}", innermost(error)))
            .collect::<Vec<_>>()
            .join("; "),
        DialError::NoAddresses
        | DialError::DialPeerConditionFalse(_)
        | DialError::Aborted
        | DialError::Denied { .. } => error.to_string(),
    }
}

fn innermost(error: &dyn core::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
