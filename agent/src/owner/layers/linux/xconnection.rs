//! A connection to an X server that never blocks: requests and answers one at a time, events kept in between.
//!
//! x11rb's own connection waits for answers on the thread that asks; here an X server that hangs costs an await with a
//! deadline. The bytes are x11rb's.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use x11rb::reexports::x11rb_protocol::connect::Connect;
use x11rb::reexports::x11rb_protocol::protocol::xproto::QueryExtensionReply;
use x11rb::reexports::x11rb_protocol::protocol::xproto::QueryExtensionRequest;
use x11rb::reexports::x11rb_protocol::x11_utils::TryParse;

use super::keep::{Trouble, answer, is_nobody_there};
use super::xauthority::COOKIE;

/// The least packet, and what events and errors take.
const PACKET: usize = 32;

/// No answer to what is asked here is longer.
const MAX_ANSWER: usize = 64 * 1024;

/// Events that may wait while an answer is awaited.
const MAX_EVENTS: usize = 64;

/// Kinds of packets: an error, an answer, an event with more bytes behind it.
const ERROR: u8 = 0;
const ANSWER: u8 = 1;
const GENERIC: u8 = 35;

/// A connection.
#[derive(Debug)]
pub(super) struct XConnection {
    stream: UnixStream,
    /// Bytes that were read and make no packet yet.
    partial: Vec<u8>,
    /// The number of the last request.
    sequence: u16,
    events: VecDeque<Vec<u8>>,
    /// The first of the ids that this client may give.
    ids: u32,
}

/// An extension of the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extension {
    pub(super) opcode: u8,
    pub(super) first_event: u8,
}

impl XConnection {
    /// Connects to a display by its socket.
    pub(super) async fn open(socket: &Path, cookie: Option<Vec<u8>>) -> Result<Self, Trouble> {
        let name = if cookie.is_some() { COOKIE.to_vec() } else { Vec::new() };
        let opened = async {
            let mut stream = UnixStream::connect(socket).await.map_err(|error| {
                let absent = || Trouble::Absent(format!("no X server listens at {}", socket.display()));
                if is_nobody_there(&error) { absent() } else { broken(&error) }
            })?;
            let (mut connect, hello) = Connect::with_authorization(name, cookie.unwrap_or_default());
            stream.write_all(&hello).await.map_err(|error| broken(&error))?;
            loop {
                let read = stream.read(connect.buffer()).await.map_err(|error| broken(&error))?;
                if read == 0 {
                    return Err(Trouble::Blind("the X server has closed the connection".to_owned()));
                }
                if connect.advance(read) {
                    break;
                }
            }
            let setup =
                connect.into_setup().map_err(|error| Trouble::Blind(format!("the X server refuses us: {error}")))?;
            let (partial, events) = (Vec::new(), VecDeque::new());
            Ok(Self { stream, partial, sequence: 0, events, ids: setup.resource_id_base })
        };
        answer("the X server", opened).await
    }

    /// The id of the `number`th thing that this client makes.
    pub(super) fn id(&self, number: u32) -> u32 {
        self.ids | number
    }

    /// An extension, if the server has it.
    pub(super) async fn extension(&mut self, name: &'static str) -> Result<Option<Extension>, Trouble> {
        let request = QueryExtensionRequest { name: Cow::Borrowed(name.as_bytes()) };
        let reply: QueryExtensionReply = self.ask(&request.serialize().0).await?;
        let extension = Extension { opcode: reply.major_opcode, first_event: reply.first_event };
        Ok(reply.present.then_some(extension))
    }

    /// Sends a request that has no answer.
    pub(super) async fn tell(&mut self, request: &[Cow<'_, [u8]>]) -> Result<(), Trouble> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request.concat();
        let sent = async { self.stream.write_all(&bytes).await.map_err(|error| broken(&error)) };
        answer("the X server", sent).await
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn ask<R: TryParse>(&mut self, request: &[Cow<'_, [u8]>]) -> Result<R, Trouble> {
        self.tell(request).await?;
        answer("the X server", async {
            loop {
                let packet = self.packet().await?;
                let is_ours = packet.get(2..4) == Some(&self.sequence.to_ne_bytes());
                match packet.first() {
                    Some(&ANSWER) if is_ours => {
                        return R::try_parse(&packet).map(|(reply, _)| reply).map_err(|error| {
                            Trouble::Blind(format!("the X server's answer is not understood: {error}"))
                        });
                    }
                    Some(&ERROR) if is_ours => {
                        let code = packet.get(1).copied().unwrap_or_default();
                        return Err(Trouble::Blind(format!("the X server refuses a request (error {code})")));
                    }
                    Some(&(ANSWER | ERROR)) | None => {}
                    Some(_) => self.keep_event(packet),
                }
            }
        })
        .await
    }

    /// The next event. Dropping the future loses none.
    pub(super) async fn event(&mut self) -> Result<Vec<u8>, Trouble> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let packet = self.packet().await?;
            if packet.first().is_some_and(|kind| ![ERROR, ANSWER].contains(kind)) {
                return Ok(packet);
            }
        }
    }

    fn keep_event(&mut self, event: Vec<u8>) {
        // The latest say how things are.
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// The next packet. Dropping the future loses nothing.
    async fn packet(&mut self) -> Result<Vec<u8>, Trouble> {
        loop {
            if let Some(length) = length(&self.partial)? {
                let rest = self.partial.split_off(length);
                return Ok(std::mem::replace(&mut self.partial, rest));
            }
            let mut bytes = [0; 1024];
            let read = self.stream.read(&mut bytes).await.map_err(|error| broken(&error))?;
            if read == 0 {
                return Err(Trouble::Blind("the X server has closed the connection".to_owned()));
            }
            self.partial.extend_from_slice(&bytes[..read]);
        }
    }
}

/// The length of the first packet, once it is whole.
fn length(bytes: &[u8]) -> Result<Option<usize>, Trouble> {
    let Some(head) = bytes.get(..PACKET) else { return Ok(None) };
    let more = match head[0] & 0x7f {
        ANSWER | GENERIC => u32::from_ne_bytes([head[4], head[5], head[6], head[7]]) as usize,
        _ => 0,
    };
    let length = more.saturating_mul(4).saturating_add(PACKET);
    if length > MAX_ANSWER {
        return Err(Trouble::Blind("the X server's answer is too long".to_owned()));
    }
    Ok((bytes.len() >= length).then_some(length))
}

fn broken(error: &std::io::Error) -> Trouble {
    Trouble::Blind(format!("the connection to the X server broke: {error}"))
}
