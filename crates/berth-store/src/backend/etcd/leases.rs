//! The time of values: keys that end at about the same time share a lease, since each lease costs etcd more than a key does.

use super::api::{Etcd, EtcdError, Lease};
use crate::env::Timestamp;
use futures::lock::Mutex;
use jiff::SignedDuration;
use std::sync::Arc;

/// By how much a value may outlive its time, at most: upstream's. At most a twentieth of its time, too.
const LATE_MAX: SignedDuration = SignedDuration::from_secs(60);
/// How many keys share a lease, at most: its end is one revision, which every watcher must take whole. Upstream's.
const KEYS_MAX: usize = 1000;

pub(super) struct Leases {
    etcd: Arc<dyn Etcd>,
    /// The last one that was granted.
    current: Mutex<Option<Current>>,
}

#[derive(Debug)]
struct Current {
    lease: Lease,
    /// Not before.
    ends: Timestamp,
    keys: usize,
}

impl Leases {
    pub(super) fn new(etcd: Arc<dyn Etcd>) -> Self {
        Self { etcd, current: Mutex::default() }
    }

    /// A lease for a key that is to go at `until`.
    pub(super) async fn until(&self, until: Timestamp, now: Timestamp) -> Result<Lease, EtcdError> {
        let time = until.duration_since(now).max(SignedDuration::from_secs(1));
        let late = (time / 20).min(LATE_MAX);
        let mut current = self.current.lock().await;
        if let Some(current) = current.as_mut().filter(|current| current.fits(until, late)) {
            current.keys += 1;
            return Ok(current.lease);
        }
        // Whole seconds, none too few.
        let seconds = (time + late + SignedDuration::from_millis(999)).as_secs();
        let lease = self.etcd.grant(seconds).await?;
        *current = Some(Current { lease, ends: now + SignedDuration::from_secs(seconds), keys: 1 });
        Ok(lease)
    }

    /// The lease is not there any more.
    pub(super) async fn forget(&self, lease: Lease) {
        let mut current = self.current.lock().await;
        if current.as_ref().is_some_and(|current| current.lease == lease) {
            *current = None;
        }
    }
}

impl Current {
    fn fits(&self, until: Timestamp, late: SignedDuration) -> bool {
        let later = self.ends.duration_since(until);
        // Leases end at whole seconds.
        !later.is_negative() && later <= late + SignedDuration::from_secs(1) && self.keys < KEYS_MAX
    }
}
