//! Where the revisions are kept.

#[cfg(feature = "embedded")]
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the part that has files and a thread; the simulation does not build it"
)]
pub(crate) mod embedded;
pub(crate) mod memory;

use crate::{EventKind, Expected, HeaderOf, Key, MAX_VALUE_BYTES, WriteError, mvcc::Write};
use bytes::Bytes;

/// A write as the caller asks for it, checked and with its header read.
fn prepare(header_of: &HeaderOf, kind: EventKind, key: Key, value: &Bytes, expected: Expected) -> Result<Write, WriteError> {
    if MAX_VALUE_BYTES < value.len() {
        return Err(WriteError::TooLarge { key, size: value.len(), max: MAX_VALUE_BYTES });
    }
    let header = header_of(&key, value);
    // Copied: what is given may be a part of, or have room for, much more, and would keep all of that alive.
    let value = Bytes::copy_from_slice(value);
    Ok(Write { kind, key, value, header, expected })
}
