//! What fuzz targets call: the readers of everything that comes from the disk.

use super::{acknowledged, journal, record};
use std::io::Cursor;

/// The value of an object's record; `None` for bytes that are not what was written under `key`.
#[must_use]
pub fn object_value(key: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    record::decode_object(key, bytes).map(|object| object.value.to_vec())
}

/// Whether the bytes are the record of a store's state.
#[must_use]
pub fn is_state(bytes: &[u8]) -> bool {
    record::Summary::decode(bytes).is_some()
}

/// Whether the bytes are a note of what was acknowledged.
#[must_use]
pub fn is_mark(bytes: &[u8]) -> bool {
    acknowledged::decode(bytes).is_some()
}

/// Puts the right checksum before `rest`, so that targets get behind it. `key` is that of an object, or `None` for the state.
#[must_use]
pub fn sealed(key: Option<&str>, rest: &[u8]) -> Vec<u8> {
    record::seal(key.map_or(record::STATE_KEY, str::as_bytes), [&[0; 8], rest].concat())
}

/// How many bytes of leading good batches a journal has, and how many ends of batches stand behind them.
///
/// # Panics
/// Where reading memory fails.
#[must_use]
pub fn journal(bytes: &[u8]) -> (u64, usize) {
    let scan = journal::scan(Cursor::new(bytes)).expect("memory can be read");
    (scan.end, scan.behind.trailers)
}
