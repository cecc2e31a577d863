//! The format of a model's state, learnt from the state of one position that this process has just made.

use super::parse::{MAGIC, Reader};
use super::{Cache, Format, Kind, Rows, Windowed};
use crate::child::model::KvError;

/// Layers of any model. More is not read, so that nothing is allocated from a damaged figure.
const LAYERS_MAX: u32 = 4096;

/// Bytes of one position in one layer, at most: 128 heads of 1,024 values of 4 bytes.
const ROW_BYTES_MAX: u32 = 512 * 1024;

/// Reads the format; `window` is that of the model's second cache, where it has one.
pub(crate) fn learn(state: &[u8], window: Option<u32>) -> Result<Format, KvError> {
    let mut reader = Reader { rest: state };
    reader.expect(MAGIC, "it does not begin as a state does")?;
    reader.u32()?;
    let whole = cache(&mut reader)?;
    let windowed = match window {
        None => None,
        Some(0) => return Err(KvError::Malformed("a window of no position")),
        Some(window) => Some(Windowed { cache: cache(&mut reader)?, window }),
    };
    if reader.rest.is_empty() {
        Ok(Format { whole, windowed })
    } else {
        Err(KvError::Malformed("there are more caches"))
    }
}

fn cache(reader: &mut Reader<'_>) -> Result<Cache, KvError> {
    reader.expect(1, "it has several streams")?;
    reader.expect(1, "it holds another number of positions")?;
    reader.expect(0, "its position is not the first")?;
    reader.expect(1, "a position belongs to several sequences")?;
    reader.u32()?;
    reader.expect(0, "its values are transposed")?;
    let layers = reader.u32()?;
    if layers == 0 || layers > LAYERS_MAX {
        return Err(KvError::Malformed("a number of layers that no model has"));
    }
    let rotations = [reader.u32()?, reader.u32()?];
    let mut all = || (0..layers).map(|_| rows(reader)).collect::<Result<Vec<Rows>, KvError>>();
    Ok(Cache { keys: all()?, values: all()?, rotations })
}

fn rows(reader: &mut Reader<'_>) -> Result<Rows, KvError> {
    let kind = Kind::from_code(reader.u32()?).ok_or(KvError::Malformed("a type that is not known here"))?;
    let bytes = u32::try_from(reader.u64()?).unwrap_or(u32::MAX);
    if bytes == 0 || bytes > ROW_BYTES_MAX || !bytes.is_multiple_of(kind.unit_bytes()) {
        return Err(KvError::Malformed("a row of a size that no model has"));
    }
    reader.take(bytes as usize)?;
    Ok(Rows { kind, bytes })
}
