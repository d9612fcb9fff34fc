//! The uids and timestamps of objects.

use berth_store::env::{Rng, Timestamp};

/// Returns a version 4 UUID.
pub(crate) fn new_uid(rng: &dyn Rng) -> String {
    let mut bytes = [0; 16];
    rng.fill(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

/// Object timestamps have no fraction.
pub(crate) fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).expect("a timestamp's seconds are a timestamp")
}
