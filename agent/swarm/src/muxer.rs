//! Streams on a TCP connection: Yamux, with limits of our own.
//!
//! libp2p's wrapper of the same crate lets a connection's windows grow to a gibibyte and cuts what is written at 16 KiB; it
//! passes neither limit on. What is here is that wrapper's work, and no more: on the wire it is the same protocol.

use core::future::{Ready, ready};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::convert::Infallible;

use futures::{AsyncRead, AsyncWrite};
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};
use libp2p::core::upgrade::{InboundConnectionUpgrade, OutboundConnectionUpgrade, UpgradeInfo};
use yamux::{Config, Connection, ConnectionError, Mode, Stream};

/// Streams on a connection. Each may hold a window of 256 KiB at least.
pub(crate) const MAX_STREAMS: usize = 64;

/// Bytes that a connection's streams may hold for us together: what [`MAX_STREAMS`] windows take, and as much again for
/// those that carry much (1 Gbit/s over 100 ms). This is what a hostile peer can make us hold on one connection.
const MAX_HELD_BYTES: usize = 2 * MAX_STREAMS * yamux::DEFAULT_CREDIT as usize;

/// Bytes of a frame: one of Noise's. Every frame costs a passage through three tasks.
const FRAME_BYTES: usize = 64 * 1024;

/// Makes muxers of connections.
#[derive(Debug, Clone)]
pub(crate) struct Upgrade(Config);

impl Default for Upgrade {
    fn default() -> Self {
        let mut config = Config::default();
        // In this order: the second must be enough for the first.
        config.set_max_num_streams(MAX_STREAMS);
        config.set_max_connection_receive_window(Some(MAX_HELD_BYTES));
        config.set_split_send_size(FRAME_BYTES);
        Self(config)
    }
}

impl UpgradeInfo for Upgrade {
    type Info = &'static str;
    type InfoIter = [&'static str; 1];

    fn protocol_info(&self) -> Self::InfoIter {
        ["/yamux/1.0.0"]
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> InboundConnectionUpgrade<C> for Upgrade {
    type Output = Muxer<C>;
    type Error = Infallible;
    type Future = Ready<Result<Muxer<C>, Infallible>>;

    fn upgrade_inbound(self, connection: C, _name: &'static str) -> Self::Future {
        ready(Ok(Muxer::new(Connection::new(connection, self.0, Mode::Server))))
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> OutboundConnectionUpgrade<C> for Upgrade {
    type Output = Muxer<C>;
    type Error = Infallible;
    type Future = Ready<Result<Muxer<C>, Infallible>>;

    fn upgrade_outbound(self, connection: C, _name: &'static str) -> Self::Future {
        ready(Ok(Muxer::new(Connection::new(connection, self.0, Mode::Client))))
    }
}

/// The streams of one connection.
#[derive(Debug)]
pub(crate) struct Muxer<C> {
    connection: Connection<C>,
    /// Streams that the other side opened while nobody asked for one. Yamux ends the connection beyond [`MAX_STREAMS`].
    arrived: VecDeque<Stream>,
    /// Who asks for them.
    waker: Option<Waker>,
}

impl<C: AsyncRead + AsyncWrite + Unpin> Muxer<C> {
    fn new(connection: Connection<C>) -> Self {
        Self { connection, arrived: VecDeque::new(), waker: None }
    }

    /// The next stream of the other side. Only this moves bytes, on whatever stream.
    fn poll_arrival(&mut self, cx: &mut Context<'_>) -> Poll<Result<Stream, ConnectionError>> {
        let next = core::task::ready!(self.connection.poll_next_inbound(cx));
        Poll::Ready(next.unwrap_or(Err(ConnectionError::Closed)))
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin + 'static> StreamMuxer for Muxer<C> {
    type Substream = Stream;
    type Error = ConnectionError;

    fn poll_inbound(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Stream, ConnectionError>> {
        if let Some(stream) = self.arrived.pop_front() {
            return Poll::Ready(Ok(stream));
        }
        let arrival = self.poll_arrival(cx);
        if arrival.is_pending() {
            self.waker = Some(cx.waker().clone());
        }
        arrival
    }

    fn poll_outbound(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Stream, ConnectionError>> {
        self.connection.poll_new_outbound(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        self.connection.poll_close(cx)
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<StreamMuxerEvent, ConnectionError>> {
        loop {
            match self.poll_arrival(cx) {
                Poll::Ready(Ok(stream)) => {
                    self.arrived.push_back(stream);
                    if let Some(waker) = self.waker.take() {
                        waker.wake();
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
