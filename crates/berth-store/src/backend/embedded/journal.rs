//! Looks over the engine's journals before the engine does.
//!
//! fjall takes the first place of a journal that it cannot read as the end and cuts the rest off, because a crash may have torn the last
//! batch. A bit that flipped in the middle would cost all batches behind it. So this reads the journals first, changes nothing if a
//! batch is damaged that others follow or that was acknowledged, and cuts off a torn one itself (fjall refuses one whose end reached the
//! disk before its middle).
//!
//! A batch in fjall's format 3, numbers little-endian: tag 1, count u32, sequence number u64; for each item tag 2, value type u8,
//! compression u8, keyspace u64, key length u16, value length u32, stored length u32, key, stored value; then tag 3, xxh3 of the items
//! u64, and `FJL\x03`. Unused space is zeros.

use super::{
    OpenError,
    acknowledged::Mark,
    record::{STATE_KEY, Summary},
};
use crate::Revision;
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_64;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const TRAILER: [u8; 4] = *b"FJL\x03";
/// Large enough to pass quickly over the zeros behind the last batch.
const BUFFER_BYTES: usize = 64 << 10;
static ZEROS: [u8; BUFFER_BYTES] = [0; BUFFER_BYTES];

/// Checks all journals in the engine's folder; cuts a torn batch off the last.
pub(super) fn check(engine_dir: &Path, acknowledged: Mark) -> Result<(), OpenError> {
    let journals = journals(engine_dir).map_err(|source| OpenError::io("list", engine_dir, source))?;
    let mut revision = Revision(0);
    for (index, path) in journals.iter().enumerate() {
        let is_last = index + 1 == journals.len();
        let scan = open(path).and_then(scan).map_err(|source| OpenError::io("read", path, source))?;
        revision = revision.max(scan.revision);
        let may_be_torn = is_last && (scan.behind.trailers == 0 || (scan.behind.trailers == 1 && acknowledged.last <= revision));
        if scan.behind.is_empty() {
            continue;
        } else if may_be_torn {
            cut(path, scan.end).map_err(|source| OpenError::io("cut the torn end off", path, source))?;
        } else {
            let what = format!("the batch at byte {} of {}, behind revision {revision},", scan.end, path.display());
            return Err(OpenError::Damaged { what, why: "it cannot be read, and it is not a torn end".into() });
        }
    }
    Ok(())
}

/// By number, oldest first. Empty if there is no engine yet.
fn journals(engine_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut numbered = Vec::new();
    for file in fs::read_dir(engine_dir)? {
        let path = file?.path();
        let is_journal = path.extension().is_some_and(|extension| extension == "jnl");
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let (true, Some(number)) = (is_journal, number) {
            numbered.push((number, path));
        }
    }
    numbered.sort();
    Ok(numbered.into_iter().map(|(_, path)| path).collect())
}

/// What one journal holds.
pub(super) struct Scan {
    /// Where the last of its leading good batches ends.
    pub(super) end: u64,
    /// Of the last state in those.
    revision: Revision,
    pub(super) behind: Behind,
}

/// What stands behind the good batches.
#[derive(Default)]
pub(super) struct Behind {
    /// Bytes that are not zero.
    used: bool,
    /// Ends of batches.
    pub(super) trailers: usize,
}

impl Behind {
    fn is_empty(&self) -> bool {
        !self.used
    }
}

fn open(path: &Path) -> io::Result<BufReader<File>> {
    File::open(path).map(|file| BufReader::with_capacity(BUFFER_BYTES, file))
}

pub(super) fn scan(mut reader: impl BufRead + Seek) -> io::Result<Scan> {
    let (mut end, mut revision, mut sequence_number) = (0, Revision(0), None);
    while let Some(batch) = read_batch(&mut reader)? {
        // The checksum leaves this out, and a batch with a low one would count as overwritten.
        if Some(batch.sequence_number) <= sequence_number {
            break;
        }
        sequence_number = Some(batch.sequence_number);
        end += batch.bytes;
        revision = batch.state.map_or(revision, |state| state.revision);
    }
    reader.seek(SeekFrom::Start(end))?;
    Ok(Scan { end, revision, behind: look_behind(&mut reader)? })
}

struct Batch {
    sequence_number: u64,
    bytes: u64,
    state: Option<Summary>,
}

/// The next batch, `None` if what comes is not a good one.
fn read_batch(reader: &mut impl BufRead) -> io::Result<Option<Batch>> {
    let mut items = Vec::new();
    match read_batch_into(reader, &mut items) {
        Ok(batch) => Ok(batch),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// `items` is a buffer, for the bytes that the checksum covers.
fn read_batch_into(reader: &mut impl BufRead, items: &mut Vec<u8>) -> io::Result<Option<Batch>> {
    const START_BYTES: u64 = 1 + 4 + 8;
    const END_BYTES: u64 = 1 + 8 + 4;
    let [START] = take(reader)? else { return Ok(None) };
    let count = u32::from_le_bytes(take(reader)?);
    let sequence_number = u64::from_le_bytes(take(reader)?);
    let mut state = None;
    for _ in 0..count {
        let Some(found) = read_item(reader, items)? else { return Ok(None) };
        state = found.or(state);
    }
    let [END] = take(reader)? else { return Ok(None) };
    let checksum = u64::from_le_bytes(take(reader)?);
    let is_good = take(reader)? == TRAILER && checksum == xxh3_64(items);
    Ok(is_good.then_some(Batch { sequence_number, bytes: START_BYTES + items.len() as u64 + END_BYTES, state }))
}

/// Appends an item to `items`; gives the state if it is that. `None` if there is no item.
fn read_item(reader: &mut impl BufRead, items: &mut Vec<u8>) -> io::Result<Option<Option<Summary>>> {
    const FIXED_BYTES: usize = 1 + 1 + 1 + 8 + 2 + 4 + 4;
    let fixed: [u8; FIXED_BYTES] = take(reader)?;
    let [ITEM, _value_type, _compression, _, _, _, _, _, _, _, _, key0, key1, _, _, _, _, stored @ ..] = fixed else { return Ok(None) };
    let key_bytes = u64::from(u16::from_le_bytes([key0, key1]));
    let stored_bytes = u64::from(u32::from_le_bytes(stored));
    items.extend_from_slice(&fixed);
    let key_at = items.len();
    // Grows with what is there, not with what a damaged length says.
    if reader.take(key_bytes + stored_bytes).read_to_end(items)? as u64 != key_bytes + stored_bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let (key, value) = items[key_at..].split_at(key_bytes as usize);
    let state = if key == STATE_KEY { Summary::decode(value) } else { None };
    Ok(Some(state.map(|(_format, state)| state)))
}

fn take<const N: usize>(reader: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn look_behind(reader: &mut impl BufRead) -> io::Result<Behind> {
    let (mut behind, mut matched) = (Behind::default(), 0);
    loop {
        let chunk = reader.fill_buf()?;
        let length = chunk.len();
        if length == 0 {
            return Ok(behind);
        }
        if chunk == &ZEROS[..length] {
            matched = 0;
        } else {
            behind.used = true;
            for byte in chunk {
                matched = if *byte == TRAILER[matched] { matched + 1 } else { usize::from(*byte == TRAILER[0]) };
                if matched == TRAILER.len() {
                    behind.trailers += 1;
                    matched = 0;
                }
            }
        }
        reader.consume(length);
    }
}

fn cut(path: &Path, end: u64) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    file.set_len(end)?;
    file.sync_all()
}
