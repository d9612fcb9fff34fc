//! What lies on disk: one record a live key, and one for the store as a whole. Little-endian; each begins with a checksum.
//!
//! | record | key in the engine | value |
//! |---|---|---|
//! | object | `k`, then the key's text | checksum u64, create revision u64, mod revision u64, the value |
//! | object with a time | the same | checksum u64, create revision with its highest bit set u64, mod revision u64, second since 1970 when the value is to go i64, the value |
//! | state | `s` | checksum u64, format u64, revision u64, count u64, sum u64 |
//!
//! An object's checksum covers its key too. The state's `count` and `sum` are over all objects, so that recovery sees when one is
//! missing, is back after its deletion, or is an older version than it should be.

use crate::{Entry, Key, Revision, env::Timestamp};
use bytes::Bytes;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The layout described above.
pub(super) const FORMAT: u64 = 2;
/// The same without objects that have a time. Older ones and newer ones are not opened.
pub(super) const OLDEST_FORMAT: u64 = 1;
/// In the create revision of an object whose value is to go some time. No store lives to see half of all revisions.
const EXPIRES: u64 = 1 << 63;
pub(super) const STATE_KEY: &[u8] = b"s";
pub(super) const OBJECT_PREFIX: &[u8] = b"k";

const U64: usize = size_of::<u64>();

/// What one record says, if its checksum is right.
pub(super) struct Object {
    pub(super) value: Bytes,
    pub(super) create_revision: Revision,
    pub(super) mod_revision: Revision,
    pub(super) expires_at: Option<Timestamp>,
}

pub(super) fn object_key(key: &Key) -> Vec<u8> {
    [OBJECT_PREFIX, key.as_str().as_bytes()].concat()
}

pub(super) fn encode_object(entry: &Entry, expires_at: Option<Timestamp>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 * U64 + entry.value.len());
    bytes.extend_from_slice(&[0; U64]);
    let flag = if expires_at.is_some() { EXPIRES } else { 0 };
    bytes.extend_from_slice(&(entry.create_revision.0 | flag).to_le_bytes());
    bytes.extend_from_slice(&entry.mod_revision.0.to_le_bytes());
    if let Some(at) = expires_at {
        bytes.extend_from_slice(&at.as_second().to_le_bytes());
    }
    bytes.extend_from_slice(&entry.value);
    seal(entry.key.as_str().as_bytes(), bytes)
}

/// `None` if the bytes are not what was written under `key`.
pub(super) fn decode_object(key: &str, bytes: &[u8]) -> Option<Object> {
    let rest = unseal(key.as_bytes(), bytes)?;
    let (create, rest) = split_u64(rest)?;
    let (modified, rest) = split_u64(rest)?;
    let (expires_at, value) = match create & EXPIRES {
        0 => (None, rest),
        _ => split_u64(rest).map(|(second, value)| (Timestamp::from_second(second.cast_signed()).ok(), value))?,
    };
    let (create_revision, mod_revision) = (Revision(create & !EXPIRES), Revision(modified));
    Some(Object { value: Bytes::copy_from_slice(value), create_revision, mod_revision, expires_at })
}

/// The store as a whole, as of its last commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) revision: Revision,
    /// Live objects.
    pub(super) count: u64,
    /// Over the live objects' keys and mod revisions, in any order.
    pub(super) sum: u64,
}

impl Summary {
    pub(super) fn add(&mut self, key: &Key, modified: Revision) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(fingerprint(key, modified));
    }

    /// Takes away what was added before.
    pub(super) fn remove(&mut self, key: &Key, modified: Revision) {
        self.count -= 1;
        self.sum = self.sum.wrapping_sub(fingerprint(key, modified));
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        self.encode_as(FORMAT)
    }

    pub(super) fn encode_as(&self, format: u64) -> Vec<u8> {
        let mut bytes = vec![0; U64];
        for field in [format, self.revision.0, self.count, self.sum] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        seal(STATE_KEY, bytes)
    }

    /// The format beside the state, since only [`FORMAT`] has this meaning. `None` if the bytes are not what was written.
    pub(super) fn decode(bytes: &[u8]) -> Option<(u64, Self)> {
        let (format, rest) = split_u64(unseal(STATE_KEY, bytes)?)?;
        let (revision, rest) = split_u64(rest)?;
        let (count, rest) = split_u64(rest)?;
        let (sum, _) = split_u64(rest)?;
        Some((format, Self { revision: Revision(revision), count, sum }))
    }
}

/// Writes the checksum of what follows it into the first eight bytes.
pub(super) fn seal(key: &[u8], mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = xxh3_64_with_seed(&bytes[U64..], xxh3_64(key));
    bytes[..U64].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// What stands behind the checksum, if that is right.
pub(super) fn unseal<'a>(key: &[u8], bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (checksum, rest) = split_u64(bytes)?;
    (checksum == xxh3_64_with_seed(rest, xxh3_64(key))).then_some(rest)
}

pub(super) fn split_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*first), rest))
}

fn fingerprint(key: &Key, modified: Revision) -> u64 {
    xxh3_64_with_seed(&modified.0.to_le_bytes(), xxh3_64(key.as_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Header;

    fn entry(key: &str, value: &'static [u8]) -> Entry {
        let (create_revision, mod_revision) = (Revision(3), Revision(7));
        Entry { key: Key::new(key), value: Bytes::from_static(value), header: Header::default(), create_revision, mod_revision }
    }

    #[test]
    fn an_object_comes_back_as_written() {
        for expires_at in [None, Some(Timestamp::from_second(1_767_225_600).expect("a year of this century"))] {
            let object = decode_object("/a", &encode_object(&entry("/a", b"value"), expires_at)).expect("just encoded");
            assert_eq!((&*object.value, object.create_revision, object.mod_revision), (&b"value"[..], Revision(3), Revision(7)));
            assert_eq!(object.expires_at, expires_at);
        }
    }

    #[test]
    fn every_flipped_bit_cut_and_foreign_key_is_seen() {
        let bytes = encode_object(&entry("/a", b"value"), Some(Timestamp::UNIX_EPOCH));
        assert!(decode_object("/b", &bytes).is_none());
        for at in 0..bytes.len() {
            assert!(decode_object("/a", &bytes[..at]).is_none());
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(decode_object("/a", &flipped).is_none());
            }
        }
    }

    #[test]
    fn the_sum_tells_an_older_version_from_the_newest() {
        let key = Key::new("/a");
        let (mut old, mut new) = (Summary::default(), Summary::default());
        old.add(&key, Revision(1));
        new.add(&key, Revision(2));
        assert_ne!(old, new);
        new.remove(&key, Revision(2));
        new.add(&key, Revision(1));
        assert_eq!(old, new);
        assert_eq!(Summary::decode(&new.encode()), Some((FORMAT, new)));
    }
}
