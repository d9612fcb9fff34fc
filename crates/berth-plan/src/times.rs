//! Spans of time: counted, and in JSON.

use berth_store::env::Timestamp;
use serde::Serializer;
use std::time::Duration;

/// The duration from one time to a later one. Zero if it is not later.
pub(crate) fn since(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// Serializes seconds, rounded to milliseconds.
pub(crate) fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    // The precision is one millisecond.
    serializer.serialize_f64((time.as_secs_f64() * 1000.0).round() / 1000.0)
}

pub(crate) fn maybe_seconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => seconds(time, serializer),
        None => serializer.serialize_none(),
    }
}
