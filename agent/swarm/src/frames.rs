//! Messages on a stream: frames in, frames out, neither of which loses bytes when its future is dropped half-way.

use std::io;
use std::time::Duration;

use futures::io::{ReadHalf, WriteHalf};
use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use idlewild_protocol::{DecodeError, FRAME_HEADER_BYTES, Message, frame, frame_len};

/// Bytes read from a stream at once: a few control messages, or a piece of a large one.
const READ_BYTES: usize = 4 * 1024;

/// Room that a stream keeps between messages: one large message must not hold its megabytes for ever.
const KEPT_BYTES: usize = 64 * 1024;

/// Why no message was read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The stream ended between two frames.
    End,
    /// It broke, or ended inside a frame.
    Broken,
    /// What came is no message.
    Malformed(DecodeError),
}

/// Why no message was written.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The message is too large.
    TooLarge,
    /// The stream broke.
    Broken,
}

/// Reads frames. `next` may be dropped and called again: what was read stays.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    stream: R,
    /// Room for what comes; at most a frame and [`READ_BYTES`].
    buffer: Vec<u8>,
    /// How much of it has come and is not yet taken.
    filled: usize,
    /// All bytes that came.
    total: u64,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self { stream, buffer: Vec::new(), filled: 0, total: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The next message.
    pub(crate) async fn next<M: Message>(&mut self) -> Result<M, ReadError> {
        loop {
            if let Some(message) = self.take_whole()? {
                return Ok(message);
            }
            self.fill(READ_BYTES).await?;
        }
    }

    /// Waits for a frame without a body.
    pub(crate) async fn read_empty(&mut self) -> Result<(), ReadError> {
        while self.filled < FRAME_HEADER_BYTES {
            self.fill(READ_BYTES).await?;
        }
        match self.buffer.get(..self.filled) {
            Some([0, 0, 0, 0]) => {
                self.filled = 0;
                Ok(())
            }
            Some(_) | None => Err(ReadError::Malformed(DecodeError::Malformed)),
        }
    }

    async fn fill(&mut self, piece: usize) -> Result<(), ReadError> {
        self.buffer.resize(self.filled + piece, 0);
        let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
        match self.stream.read(room).await {
            Ok(0) if self.filled == 0 => Err(ReadError::End),
            Ok(0) | Err(_) => Err(ReadError::Broken),
            Ok(read) => {
                self.total += read as u64;
                self.filled += read;
                Ok(())
            }
        }
    }

    fn take_whole<M: Message>(&mut self) -> Result<Option<M>, ReadError> {
        let come = self.buffer.get(..self.filled).unwrap_or_default();
        let Some((header, rest)) = come.split_first_chunk::<FRAME_HEADER_BYTES>() else { return Ok(None) };
        let length = frame_len::<M>(*header).map_err(ReadError::Malformed)?;
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let message = M::from_bytes(body).map_err(ReadError::Malformed)?;
        let taken = FRAME_HEADER_BYTES + length;
        self.buffer.copy_within(taken..self.filled, 0);
        self.filled -= taken;
        self.buffer.truncate(self.filled);
        if self.buffer.capacity() > KEPT_BYTES {
            self.buffer.shrink_to(KEPT_BYTES);
        }
        Ok(Some(message))
    }

    /// Reads some bytes that are no frame into `room`, at least one unless it has none. May be dropped half-way.
    pub(crate) async fn read(&mut self, room: &mut [u8]) -> Result<usize, ReadError> {
        if self.filled == 0 {
            return match self.stream.read(room).await {
                Ok(0) | Err(_) => Err(ReadError::Broken),
                Ok(read) => {
                    self.total += read as u64;
                    Ok(read)
                }
            };
        }
        let taken = self.filled.min(room.len());
        if let (Some(room), Some(come)) = (room.get_mut(..taken), self.buffer.get(..taken)) {
            room.copy_from_slice(come);
        }
        self.buffer.copy_within(taken..self.filled, 0);
        self.filled -= taken;
        Ok(taken)
    }

    /// Reads some bytes that are no frame, at least one and at most `most`, and forgets them; gives how many.
    pub(crate) async fn skip(&mut self, most: usize, piece: usize) -> Result<usize, ReadError> {
        if self.filled == 0 {
            self.fill(piece).await?;
        }
        let skipped = self.filled.min(most);
        self.buffer.copy_within(skipped..self.filled, 0);
        self.filled -= skipped;
        Ok(skipped)
    }
}

/// Writes frames. A dropped `send` leaves the rest of its frame to the next one: no frame is cut.
#[derive(Debug)]
pub(crate) struct FrameWriter<W> {
    stream: W,
    /// Bytes that are to be written, from `written` on.
    pending: Vec<u8>,
    written: usize,
    /// All bytes that were taken.
    total: u64,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    pub(crate) fn new(stream: W) -> Self {
        Self { stream, pending: Vec::new(), written: 0, total: 0 }
    }

    /// Bytes written so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Writes a message and flushes.
    pub(crate) async fn send<M: Message>(&mut self, message: &M) -> Result<(), WriteError> {
        self.push(&frame(message).map_err(|_too_large| WriteError::TooLarge)?);
        self.flush().await.map_err(|_broken| WriteError::Broken)
    }

    /// Adds a whole frame to what is to be written; `flush` writes it.
    pub(crate) fn push(&mut self, frame: &[u8]) {
        self.pending.extend_from_slice(frame);
        self.total += frame.len() as u64;
    }

    /// Writes all that was added.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        while let Some(rest) = self.pending.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => self.written += written,
            }
        }
        self.pending.clear();
        self.written = 0;
        self.stream.flush().await
    }

    /// Whether something was added that is not all written.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes some bytes that are no frame, after all that was added; gives how many. May be dropped half-way.
    pub(crate) async fn write_raw(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_pending() {
            self.flush().await?;
        }
        match self.stream.write(bytes).await? {
            0 if !bytes.is_empty() => Err(io::ErrorKind::WriteZero.into()),
            written => {
                self.total += written as u64;
                Ok(written)
            }
        }
    }

    /// Says that nothing more comes.
    pub(crate) async fn close(&mut self) -> io::Result<()> {
        self.flush().await?;
        self.stream.close().await
    }
}

/// The two directions of a libp2p stream.
pub(crate) type StreamReader = FrameReader<ReadHalf<libp2p::Stream>>;
pub(crate) type StreamWriter = FrameWriter<WriteHalf<libp2p::Stream>>;

/// Both directions of one stream.
pub(crate) fn framed<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
) -> (FrameReader<ReadHalf<S>>, FrameWriter<WriteHalf<S>>) {
    let (read, write) = stream.split();
    (FrameReader::new(read), FrameWriter::new(write))
}

/// Closes a stream in the background so that what was written arrives, for at most `limit`. `held` is dropped after it.
pub(crate) fn close_behind<W, H>(runtime: &tokio::runtime::Handle, mut writer: FrameWriter<W>, limit: Duration, held: H)
where
    W: AsyncWrite + Unpin + Send + 'static,
    H: Send + 'static,
{
    runtime.spawn(async move {
        // Nothing is left to do about a stream that cannot even be closed.
        drop(tokio::time::timeout(limit, writer.close()).await);
        drop(writer);
        drop(held);
    });
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::io::Cursor;
    use idlewild_protocol::ControlMessage;

    use super::*;

    fn ping(nonce: u64) -> Vec<u8> {
        frame(&ControlMessage::Ping { nonce }).unwrap()
    }

    #[test]
    fn frames_are_taken_one_by_one_whatever_comes_together() {
        let bytes: Vec<u8> = (0..3_000).flat_map(ping).collect();
        let total = bytes.len() as u64;
        let mut reader = FrameReader::new(Cursor::new(bytes));
        for nonce in 0..3_000 {
            let message: ControlMessage = block_on(reader.next()).unwrap();
            assert_eq!(message, ControlMessage::Ping { nonce });
        }
        assert!(matches!(block_on(reader.next::<ControlMessage>()), Err(ReadError::End)));
        assert_eq!(reader.total(), total);
    }

    #[test]
    fn a_cut_frame_is_broken_wherever_it_is_cut() {
        let whole = ping(77_777);
        for cut in 1..whole.len() {
            let mut reader = FrameReader::new(Cursor::new(whole[..cut].to_vec()));
            let read = block_on(reader.next::<ControlMessage>());
            assert!(matches!(read, Err(ReadError::Broken)), "cut at {cut}");
        }
    }

    #[test]
    fn a_long_frame_is_refused_by_its_header_alone() {
        let mut bytes = (ControlMessage::MAX_BYTES as u32 + 1).to_le_bytes().to_vec();
        bytes.push(0);
        let mut reader = FrameReader::new(Cursor::new(bytes));
        let read = block_on(reader.next::<ControlMessage>());
        assert!(matches!(read, Err(ReadError::Malformed(DecodeError::TooLong { .. }))));
    }

    #[test]
    fn only_an_empty_frame_is_a_last_word() {
        for (bytes, accepted) in
            [(&[0, 0, 0, 0][..], true), (&[1, 0, 0, 0], false), (&[0, 0, 0, 0, 0], false), (&[], false)]
        {
            let mut reader = FrameReader::new(Cursor::new(bytes.to_vec()));
            assert_eq!(block_on(reader.read_empty()).is_ok(), accepted, "{bytes:?}");
        }
    }
}
