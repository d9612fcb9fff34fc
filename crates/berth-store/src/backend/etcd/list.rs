//! Lists from etcd itself.

use super::api::{Etcd, EtcdError, KeyValue, PAGE_BYTES, Query};
use crate::{Decoded, Entry, Key, Layout, Revision};
use bytes::Bytes;
use std::sync::Arc;

/// How many keys are asked for at first: what the keys of a resource take is not known before some of them are seen.
const FIRST_KEYS: usize = 100;
/// How many keys are asked for at once, at most: others are to have their turn at etcd.
const PAGE_KEYS: usize = 1000;

/// What was asked for.
pub(super) struct Listed {
    /// In key order.
    pub(super) entries: Vec<Arc<Entry>>,
    /// The keys of those that are encrypted.
    pub(super) encrypted: Vec<Key>,
    /// Which they are of.
    pub(super) revision: Revision,
    /// The number of keys of the prefix after those that were read.
    pub(super) remaining: usize,
}

/// Reads what `query` asks for, all of it at one revision, in pages: of large values fewer at a time.
pub(super) async fn list(etcd: &dyn Etcd, layout: &dyn Layout, mut query: Query) -> Result<Listed, EtcdError> {
    let wanted = query.limit.unwrap_or(usize::MAX);
    let (mut entries, mut encrypted) = (Vec::new(), Vec::new());
    let (mut page_keys, mut read) = (FIRST_KEYS, 0);
    loop {
        query.limit = Some(page_keys.min(wanted - read));
        let page = etcd.range(query.clone()).await?;
        // The pages after the first one show the revision of the first.
        let revision = *query.at.get_or_insert(page.revision);
        let (found, remaining) = (page.keys.len(), page.count.saturating_sub(page.keys.len()));
        let bytes: usize = page.keys.iter().map(|found| found.key.as_str().len() + found.value.len()).sum();
        // Half of what may be: the next may be larger.
        page_keys = (PAGE_BYTES / 2 * found / bytes.max(1)).clamp(1, PAGE_KEYS);
        query.start_after = page.keys.last().map(|last| last.key.clone());
        // Also of what is not shown.
        read += found;
        for found in page.keys {
            match shown(layout, found) {
                Shown::Entry(entry) => entries.push(Arc::new(entry)),
                Shown::Encrypted(key) => encrypted.push(key),
                Shown::Nothing => (),
            }
        }
        if remaining == 0 || found == 0 || wanted <= read {
            return Ok(Listed { entries, encrypted, revision, remaining });
        }
    }
}

/// What is shown of a key.
pub(super) enum Shown {
    /// Its value.
    Entry(Entry),
    /// Nothing: it is encrypted.
    Encrypted(Key),
    /// Nothing.
    Nothing,
}

/// What is shown of a key.
pub(super) fn shown(layout: &dyn Layout, found: KeyValue) -> Shown {
    let KeyValue { key, value, create_revision, mod_revision, lease: _ } = found;
    let value = match layout.decode(&key, &value) {
        // Copied: what came is a part of a whole message, and would keep all of that alive.
        Decoded::Unchanged => Bytes::copy_from_slice(&value),
        Decoded::Converted(value) => value,
        Decoded::Encrypted => return Shown::Encrypted(key),
        Decoded::Ignored => return Shown::Nothing,
    };
    let header = layout.header(&key, &value);
    Shown::Entry(Entry { value, header, key, create_revision, mod_revision })
}
