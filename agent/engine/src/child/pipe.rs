//! Frames on blocking descriptors.

use std::io::{self, Read, Write};

use idlewild_protocol::{FRAME_HEADER_BYTES, Message, frame, frame_len};

/// The next message; none where the pipe was closed between frames.
pub(crate) fn read<M: Message>(from: &mut impl Read) -> io::Result<Option<M>> {
    let mut header = [0; FRAME_HEADER_BYTES];
    let mut filled = 0;
    while filled < header.len() {
        match from.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let mut body = vec![0; frame_len::<M>(header).map_err(io::Error::other)?];
    from.read_exact(&mut body)?;
    M::from_bytes(&body).map(Some).map_err(io::Error::other)
}

/// Writes a message and sends it off.
pub(crate) fn write<M: Message>(to: &mut impl Write, message: &M) -> io::Result<()> {
    to.write_all(&frame(message).map_err(io::Error::other)?)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::SequenceId;
    use crate::messages::EngineCommand;

    #[test]
    fn messages_come_back_in_order_and_the_end_is_clean() {
        let sent =
            [EngineCommand::Cancel(SequenceId(1)), EngineCommand::Unload, EngineCommand::Cancel(SequenceId(300))];
        let mut bytes = Vec::new();
        for command in &sent {
            write(&mut bytes, command).unwrap();
        }
        let mut reader = &bytes[..];
        for command in sent {
            assert_eq!(read(&mut reader).unwrap(), Some(command));
        }
        assert_eq!(read::<EngineCommand>(&mut reader).unwrap(), None);
    }

    #[test]
    fn a_cut_or_oversized_frame_is_an_error() {
        let mut bytes = Vec::new();
        write(&mut bytes, &EngineCommand::Cancel(SequenceId(1))).unwrap();
        for length in 1..bytes.len() {
            assert!(read::<EngineCommand>(&mut &bytes[..length]).is_err(), "{length}");
        }
        assert!(read::<EngineCommand>(&mut &u32::MAX.to_le_bytes()[..]).is_err());
    }
}
