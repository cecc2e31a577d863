//! A bare peer for trials on a real network: finds others of its kind by mDNS and says what happens.
//!
//! `cargo run --release -p idlewild-swarm --example peer -- NUMBER [ADDRESS...]`, with another number on each machine.
//! All of them are members of one swarm whose key is in this file: for trials only.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use idlewild_protocol::{BootId, Certificate, CertificateChain, Role, SwarmId};
use idlewild_swarm::{Identity, InterfaceFilter, Membership, RelayMode, SwarmConfig, SwarmEvent, start};

type Failure = Box<dyn std::error::Error>;

/// Everybody's key to the trial swarm.
const SWARM_SEED: [u8; 32] = [200; 32];

/// Certificates count this long.
const DAY: Duration = Duration::from_hours(24);

const PORT: u16 = 14_354;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let number: u8 = arguments.next().ok_or("which number?")?.parse()?;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let identity = Identity::from_seed([number; 32]);
    let swarm_key = Identity::from_seed(SWARM_SEED);
    let swarm = SwarmId(swarm_key.peer_id().0);
    let not_after_s = now_s + DAY.as_secs();
    let certificate =
        Certificate::issue(swarm, identity.peer_id(), Role::Member, not_after_s, |bytes| swarm_key.sign(bytes));
    let config = SwarmConfig {
        identity,
        membership: Membership { swarm, chain: CertificateChain(vec![certificate]) },
        boot: BootId(now_s),
        port: PORT,
        listen: vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)],
        mdns: true,
        static_peers: arguments.collect(),
        address_book: None,
        interfaces: InterfaceFilter::default(),
        relay: RelayMode::default(),
        desk: None,
    };
    let begun = Instant::now();
    let (handle, mut events) = start(config).await?;
    while let Some(event) = events.recv().await {
        let line = match event {
            SwarmEvent::Hint(hint) => format!("hint: {hint}"),
            SwarmEvent::Connected { .. }
            | SwarmEvent::Departed { .. }
            | SwarmEvent::Control { .. }
            | SwarmEvent::Job { .. }
            | SwarmEvent::Prepare { .. }
            | SwarmEvent::Context { .. }
            | SwarmEvent::Refused { .. }
            | SwarmEvent::Listening(_) => format!("{event:?}"),
        };
        writeln!(std::io::stdout(), "{:>7} ms {line} (peers: {})", begun.elapsed().as_millis(), handle.peers().len())?;
    }
    Ok(())
}
