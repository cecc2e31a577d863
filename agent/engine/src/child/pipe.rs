//! Frames on blocking descriptors, and the blobs behind them.

use std::io::{self, Read, Write};

use idlewild_protocol::{FRAME_HEADER_BYTES, frame, frame_len};

use crate::blob::Parcel;

/// The next message; none where the pipe was closed between frames.
pub(crate) fn read<M: Parcel>(from: &mut impl Read) -> io::Result<Option<M>> {
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
    let mut message = M::from_bytes(&body).map_err(io::Error::other)?;
    if let Some(blob) = message.blob_mut() {
        // Neither zeroed first nor grown: one more byte than announced, since a full vector is doubled to look for the end.
        let mut bytes = Vec::with_capacity(blob.announced() + 1);
        from.take(blob.announced() as u64).read_to_end(&mut bytes)?;
        if !blob.fill(bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(Some(message))
}

/// Writes a message and sends it off.
pub(crate) fn write<M: Parcel>(to: &mut impl Write, message: &M) -> io::Result<()> {
    to.write_all(&frame(message).map_err(io::Error::other)?)?;
    if let Some(blob) = message.blob() {
        to.write_all(blob.as_bytes())?;
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::Blob;
    use crate::handle::SequenceCommand;
    use crate::job::SequenceId;
    use crate::messages::EngineCommand;

    fn import(bytes: Vec<u8>) -> EngineCommand {
        let bytes = Blob::new(bytes).unwrap();
        EngineCommand::Sequence { id: SequenceId(1), command: SequenceCommand::Import { from: 4, to: 5, bytes } }
    }

    #[test]
    fn messages_come_back_in_order_and_the_end_is_clean() {
        let sent = [
            EngineCommand::Cancel(SequenceId(1)),
            import(vec![7; 70_000]),
            EngineCommand::Unload,
            import(vec![]),
            EngineCommand::Cancel(SequenceId(300)),
        ];
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
        for command in [EngineCommand::Cancel(SequenceId(1)), import(vec![7; 9])] {
            let mut bytes = Vec::new();
            write(&mut bytes, &command).unwrap();
            for length in 1..bytes.len() {
                assert!(read::<EngineCommand>(&mut &bytes[..length]).is_err(), "{command:?} cut to {length}");
            }
        }
        assert!(read::<EngineCommand>(&mut &u32::MAX.to_le_bytes()[..]).is_err());
    }
}
