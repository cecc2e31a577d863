//! A way between two peers that can be cut: TCP and UDP behind the same port number, as the peers expect it.

use core::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::world::Peer;

/// Room for one datagram.
const DATAGRAM_BYTES: usize = 64 * 1024;

/// A way to one peer, for one other.
pub(super) struct Relay {
    address: SocketAddr,
    /// TCP connections; ends with them.
    connections: Arc<Mutex<JoinSet<()>>>,
    _tasks: JoinSet<()>,
}

impl Relay {
    /// Carries QUIC, and TCP if `with_tcp`.
    pub(super) async fn to(peer: &Peer, with_tcp: bool) -> Self {
        let (tcp, udp) = loop {
            let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
            // The number may be taken in UDP.
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
                break (tcp, udp);
            }
        };
        let address = udp.local_addr().unwrap();
        let behind = peer.address();
        let (connections, mut tasks) = (Arc::default(), JoinSet::new());
        tasks.spawn(datagrams(udp, behind.clone()));
        if with_tcp {
            tasks.spawn(streams(tcp, behind, Arc::clone(&connections)));
        }
        Self { address, connections, _tasks: tasks }
    }

    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Cuts the TCP connections that there are. New ones are carried again.
    pub(super) fn cut(&self) {
        self.connections.lock().unwrap().abort_all();
    }
}

async fn streams(listener: TcpListener, behind: String, connections: Arc<Mutex<JoinSet<()>>>) {
    while let Ok((mut near, _)) = listener.accept().await {
        let behind = behind.clone();
        connections.lock().unwrap().spawn(async move {
            let mut far = TcpStream::connect(behind).await.unwrap();
            // Either side may end it.
            drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
        });
    }
}

async fn datagrams(near: UdpSocket, behind: String) {
    let far = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    far.connect(behind).await.unwrap();
    let (mut there, mut back) = (vec![0; DATAGRAM_BYTES], vec![0; DATAGRAM_BYTES]);
    let mut from = None;
    loop {
        // What cannot be delivered is lost, as on any network.
        tokio::select! {
            Ok((bytes, address)) = near.recv_from(&mut there) => {
                from = Some(address);
                drop(far.send(&there[..bytes]).await);
            }
            Ok(bytes) = far.recv(&mut back) => {
                if let Some(from) = from {
                    drop(near.send_to(&back[..bytes], from).await);
                }
            }
        }
    }
}
