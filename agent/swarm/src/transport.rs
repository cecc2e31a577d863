//! How bytes travel: QUIC for control and jobs, TCP with Noise and Yamux for bulk; through a relay, Noise and Yamux too.

use core::time::Duration;
use std::io;

use idlewild_protocol::SwarmId;
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::transport::{Boxed, OptionalTransport, OrTransport};
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::{PeerId, Transport, noise, quic, relay, tcp};

use crate::muxer;

/// How long a handshake may take, TCP's connect included.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// QUIC gives a silent connection up after this. Heartbeats notice departures much earlier; this ends what they left.
const QUIC_IDLE: Duration = Duration::from_secs(10);

/// QUIC's own keep-alive: only for connections that carry no heartbeats (a spare one).
const QUIC_KEEP_ALIVE: Duration = Duration::from_secs(4);

/// Streams that one peer may have open on a QUIC connection: jobs, control, and the making of more.
const QUIC_STREAMS: u32 = 256;

/// Bytes on their way on one QUIC stream, and on a connection: above the largest job (2 MiB), small enough that a
/// hostile peer pins little memory.
const QUIC_STREAM_BYTES: u32 = 4 * 1024 * 1024;
const QUIC_CONNECTION_BYTES: u32 = 8 * 1024 * 1024;

/// Of the streams of a TCP connection or a circuit, what one side may use for jobs and bulk. Yamux ends the whole connection when the sum of both sides is
/// exceeded, so that each keeps to less than half, and leaves room for a hello, control and streams that are closing.
pub(crate) const TCP_SLOTS: usize = 24;

/// TCP gives up on unacknowledged bytes after this: a peer that is gone frees its connections.
#[cfg(target_os = "linux")]
const TCP_UNACKNOWLEDGED: Duration = Duration::from_secs(5);

/// TCP asks a silent peer after this, and this often.
const TCP_KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The transports for one swarm. Noise takes the swarm's id into its handshake, so that a stranger fails in it, and a relay
/// reads nothing of what it passes on.
pub(crate) fn build(
    keypair: &Keypair,
    swarm: SwarmId,
    circuits: Option<relay::client::Transport>,
) -> io::Result<Boxed<(PeerId, StreamMuxerBox)>> {
    let quic = quic::tokio::Transport::new(quic_config(keypair));
    let noise = noise::Config::new(keypair).map_err(io::Error::other)?.with_prologue(prologue(swarm));
    let tcp = tcp::tokio::Transport::new(tcp::Config::default().nodelay(true))
        .map(|stream, _| watched(stream))
        .upgrade(Version::V1Lazy)
        .authenticate(noise.clone())
        .multiplex(muxer::Upgrade::default())
        .timeout(HANDSHAKE_LIMIT)
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let quic = quic.map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let circuits = circuits
        .map_or_else(OptionalTransport::none, OptionalTransport::some)
        .upgrade(Version::V1Lazy)
        .authenticate(noise)
        .multiplex(muxer::Upgrade::default())
        .timeout(HANDSHAKE_LIMIT)
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let direct = OrTransport::new(quic, tcp).map(|either, _| either.into_inner());
    // Circuits first: TCP would take the address of a relay for that of the peer behind it.
    Ok(OrTransport::new(circuits, direct).map(|either, _| either.into_inner()).boxed())
}

fn quic_config(keypair: &Keypair) -> quic::Config {
    let mut config = quic::Config::new(keypair);
    config.handshake_timeout = HANDSHAKE_LIMIT;
    config.max_idle_timeout = QUIC_IDLE.as_millis() as u32;
    config.keep_alive_interval = QUIC_KEEP_ALIVE;
    config.max_concurrent_stream_limit = QUIC_STREAMS;
    config.max_stream_data = QUIC_STREAM_BYTES;
    config.max_connection_data = QUIC_CONNECTION_BYTES;
    config
}

fn prologue(swarm: SwarmId) -> Vec<u8> {
    blake3::derive_key("idlewild 2025 noise prologue", &swarm.0).to_vec()
}

/// Makes the system notice a peer that is gone. Where it refuses, heartbeats still do.
fn watched(stream: tcp::tokio::TcpStream) -> tcp::tokio::TcpStream {
    use rustix::net::sockopt;
    let socket = &stream.0;
    let set = sockopt::set_socket_keepalive(socket, true)
        .and_then(|()| sockopt::set_tcp_keepidle(socket, TCP_KEEP_ALIVE))
        .and_then(|()| sockopt::set_tcp_keepintvl(socket, TCP_KEEP_ALIVE));
    #[cfg(target_os = "linux")]
    let set = set.and_then(|()| sockopt::set_tcp_user_timeout(socket, TCP_UNACKNOWLEDGED.as_millis() as u32));
    if let Err(error) = set {
        tracing::debug!(%error, "tcp keep-alive is not set");
    }
    stream
}
