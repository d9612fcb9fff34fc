//! How far caches are behind the stored objects. A process with outdated caches should get no requests. A cache is behind while it does not
//! contain what was stored at the previous check. A cache that is busy with changes is behind as long as that takes. A cache with a broken
//! watch falls behind further from the next write on.

use crate::{cluster::Cluster, lock, metrics::Metrics};
use berth_env::{Clock, Timestamp};
use berth_identity::{GroupResource, Revision};
use futures::future::join_all;
use jiff::SignedDuration;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// How often the caches are checked. Each check queries the cluster once for each resource.
const CHECK_INTERVAL: SignedDuration = SignedDuration::from_secs(5);

/// How far the caches of one process are behind.
pub struct Lags {
    clock: Arc<dyn Clock>,
    behind: Mutex<BTreeMap<GroupResource, Behind>>,
}

/// What a cache does not contain yet.
#[derive(Clone, Copy)]
struct Behind {
    /// The revision that was stored then.
    revision: Revision,
    since: Timestamp,
}

impl Lags {
    /// No check has happened yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, behind: Mutex::default() }
    }

    /// Checks the caches in `metrics` indefinitely.
    pub async fn follow(self: Arc<Self>, cluster: Arc<dyn Cluster>, metrics: Arc<Metrics>) {
        loop {
            self.clock.sleep_until(self.clock.now() + CHECK_INTERVAL).await;
            let asked = metrics.reached().into_keys().map(async |resource| Some((resource.clone(), cluster.newest(resource).await.ok()?)));
            // A cluster that does not answer provides no evidence about its caches.
            let newest: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
            self.observe(&newest, &metrics.reached());
        }
    }

    /// Caches that have been behind for longer than this, and for how long.
    #[must_use]
    pub fn longer_than(&self, longest: Duration) -> Vec<(GroupResource, Duration)> {
        let now = self.clock.now();
        let age = |(resource, behind): (&GroupResource, &Behind)| (resource.clone(), now.duration_since(behind.since).unsigned_abs());
        lock(&self.behind).iter().map(age).filter(|(_, age)| longest < *age).collect()
    }

    /// `newest` was read before `reached`.
    fn observe(&self, newest: &[(GroupResource, Revision)], reached: &BTreeMap<GroupResource, Revision>) {
        let now = self.clock.now();
        let mut behind = lock(&self.behind);
        behind.retain(|resource, behind| reached.get(resource).is_some_and(|reached| *reached < behind.revision));
        for (resource, revision) in newest {
            if reached.get(resource).is_some_and(|reached| reached < revision) {
                behind.entry(resource.clone()).or_insert(Behind { revision: *revision, since: now });
            }
        }
    }
}
