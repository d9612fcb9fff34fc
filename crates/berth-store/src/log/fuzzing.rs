//! What fuzz targets call: the readers of everything that comes from the disk.

use super::{acknowledged, frame, history::History, record, recover};
use crate::{
    Revision,
    files::{Files, disk::Disk},
};

/// How many records the body of a frame has, and whether that is all of it.
#[must_use]
pub fn records(body: &[u8]) -> (usize, bool) {
    let found: Vec<_> = record::decode(body).collect();
    let whole = found.iter().flatten().count();
    (whole, whole == found.len())
}

/// Whether the bytes are a note of what was acknowledged.
#[must_use]
pub fn is_note(bytes: &[u8]) -> bool {
    acknowledged::decode(bytes).is_some()
}

/// A frame with this body behind the frame with the checksum `previous`, and its checksum, so that targets get behind it.
#[must_use]
pub fn sealed(body: &[u8], previous: u64) -> (Vec<u8>, u64) {
    let mut bytes = Vec::new();
    frame::begin(&mut bytes);
    bytes.extend_from_slice(body);
    let checksum = frame::seal(&mut bytes, previous);
    (bytes, checksum)
}

/// The body with which the first log of an empty store begins.
#[must_use]
pub fn beginning() -> Vec<u8> {
    let begin = record::Begin { format: record::FORMAT, kind: record::Kind::Log, number: 1, state: record::Summary::default() };
    let mut body = Vec::new();
    record::encode_begin(&begin, &mut body);
    body
}

/// How many faults a folder has whose first log is this, behind an empty store.
///
/// # Panics
/// Where reading memory fails.
#[must_use]
pub fn faults(log: &[u8]) -> usize {
    let disk = Disk::default();
    acknowledged::Acknowledged::replace(&disk, Revision(0)).expect("memory");
    disk.damage(&record::Kind::Log.name(1), Some(log.to_vec()));
    recover::read(&disk as &dyn Files, History::default()).expect("memory can be read").faults.len()
}
