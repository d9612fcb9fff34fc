//! How long events are kept.

use crate::Resource;
use berth_store::env::Timestamp;
use jiff::SignedDuration;

/// How long an event is kept after it was last written: whatever happens again is written again.
const TIME_TO_LIVE: SignedDuration = SignedDuration::from_hours(1);

/// The place of stored events, of both groups.
const PREFIX: &str = "/registry/events/";

/// When an object that is written now is to go; `None`: it stays.
pub(crate) fn expires_at(resource: &Resource, now: Timestamp) -> Option<Timestamp> {
    (resource.prefix() == PREFIX).then(|| now + TIME_TO_LIVE)
}
