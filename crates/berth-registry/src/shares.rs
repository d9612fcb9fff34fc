//! Each user's share of history. Writes beyond it are delayed, so that a single user cannot evict within seconds what
//! watches of others resume from.

use crate::Resource;
use berth_store::env::Timestamp;
use jiff::SignedDuration;
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The fraction of history that one user may write at once.
const BURST_PART: u64 = 4;

/// In this many seconds, a user may write as much as the whole history holds.
const REFILL_SECONDS: u64 = 64;

/// How long a user counts as a watcher of a resource after starting a watch. Every watch is restarted within this time.
const WATCHED_FOR: SignedDuration = SignedDuration::from_hours(1);

/// The number of watchers that are recorded per resource. Of two, at least one is not the writer.
const WATCHERS_MAX: usize = 2;

/// The maximum delay of a write. A write with a longer delay is rejected with a retry interval.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(5);

/// The size of a change in history without its values, in bytes.
const CHANGE_BYTES: u64 = 512;

/// The number of users above which those without used shares are removed.
const USERS_MAX: usize = 1024;

/// The recent writes of users, in bytes of history.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// The size of the store's history. 0: writes are not delayed.
    history_bytes: u64,
    users: Mutex<BTreeMap<String, Share>>,
    /// The last watchers of each resource (`deployments.apps`), with the times.
    watchers: Mutex<BTreeMap<String, Vec<(String, Timestamp)>>>,
}

#[derive(Clone, Copy, Debug)]
struct Share {
    bytes: u64,
    /// The time of that value.
    at: Timestamp,
}

/// `deployments.apps`.
pub(crate) fn name(resource: &Resource) -> String {
    format!("{}.{}", resource.plural().as_str(), resource.group().as_str())
}

impl Shares {
    pub(crate) fn of(history_bytes: u64) -> Self {
        Self { history_bytes, ..Self::default() }
    }

    /// Records that a user started a watch of a resource.
    pub(crate) fn watched(&self, resource: String, user: &str, now: Timestamp) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        let watchers = watchers.entry(resource).or_default();
        watchers.retain(|(other, _)| other != user);
        watchers.insert(0, (user.to_owned(), now));
        watchers.truncate(WATCHERS_MAX);
    }

    /// Whether another user may resume a watch from the history that this user's writes would evict.
    fn is_watched_by_others(&self, resource: &str, user: &str, now: Timestamp) -> bool {
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers
            .get(resource)
            .is_some_and(|watchers| watchers.iter().any(|(other, at)| other != user && now.duration_since(*at) < WATCHED_FOR))
    }

    /// Returns how long a user must wait before the next write to a resource. Writes to resources that no other user
    /// watches are not delayed.
    pub(crate) fn delay(&self, resource: impl FnOnce() -> String, user: &str, now: Timestamp) -> Duration {
        let written = self.users.lock().unwrap_or_else(PoisonError::into_inner).get(user).map_or(0, |share| self.left(*share, now));
        let beyond = written.saturating_sub(self.history_bytes / BURST_PART);
        if beyond == 0 || !self.is_watched_by_others(&resource(), user, now) {
            return Duration::ZERO;
        }
        Duration::from_millis(beyond.saturating_mul(1000) / self.refill())
    }

    /// Records a change by a user, with the size before and after. Changes of resources that no other user watches do
    /// not count.
    pub(crate) fn note(&self, resource: &str, user: &str, bytes: usize, now: Timestamp) {
        if self.history_bytes == 0 || !self.is_watched_by_others(resource, user, now) {
            return;
        }
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if USERS_MAX <= users.len() && !users.contains_key(user) {
            users.retain(|_, share| 0 < self.left(*share, now));
        }
        let before = users.get(user).map_or(0, |share| self.left(*share, now));
        let bytes = before.saturating_add(CHANGE_BYTES).saturating_add(bytes as u64);
        users.insert(user.to_owned(), Share { bytes, at: now });
    }

    /// Returns the used part of a share at this time.
    fn left(&self, share: Share, now: Timestamp) -> u64 {
        let passed = u64::try_from(now.duration_since(share.at).max(SignedDuration::ZERO).as_millis()).unwrap_or(u64::MAX);
        share.bytes.saturating_sub(self.refill().saturating_mul(passed) / 1000)
    }

    /// Returns the refill rate in bytes per second.
    fn refill(&self) -> u64 {
        (self.history_bytes / REFILL_SECONDS).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource() -> String {
        "configmaps.".to_owned()
    }

    #[test]
    fn who_writes_beyond_his_share_of_what_others_watch_waits_and_others_do_not() {
        let shares = Shares::of(64_000);
        let second = |second| Timestamp::from_second(second).expect("a time");
        let delay = |user: &str, at| shares.delay(resource, user, second(at));
        shares.watched(resource(), "c", second(0));
        shares.note(&resource(), "a", 16_000 - 512, second(0));
        assert_eq!(delay("a", 0), Duration::ZERO, "a quarter at once");
        shares.note(&resource(), "a", 2_000 - 512, second(0));
        assert_eq!(delay("a", 0), Duration::from_secs(2), "then a 64th each second");
        assert_eq!(delay("a", 1), Duration::from_secs(1));
        assert_eq!(delay("b", 0), Duration::ZERO);
        shares.note(&resource(), "a", 0, second(1000));
        assert_eq!(delay("a", 1000), Duration::ZERO, "what was long ago does not count");
    }

    #[test]
    fn writes_that_no_other_client_watches_are_not_delayed() {
        let shares = Shares::of(64_000);
        let second = |second| Timestamp::from_second(second).expect("a time");
        let delay = |at| shares.delay(resource, "a", second(at));
        shares.note(&resource(), "a", 1_000_000, second(0));
        assert_eq!(delay(0), Duration::ZERO, "there is no watcher");
        shares.watched(resource(), "a", second(0));
        shares.watched("secrets.".to_owned(), "b", second(0));
        assert_eq!(delay(0), Duration::ZERO, "the writer himself, and another something else");
        shares.watched(resource(), "b", second(0));
        assert_eq!(delay(0), Duration::ZERO, "what was written before the first watch does not count");
        shares.note(&resource(), "a", 1_000_000, second(0));
        shares.watched(resource(), "a", second(1));
        assert_ne!(delay(1), Duration::ZERO);
        shares.note(&resource(), "a", 10_000_000, second(3599));
        assert_ne!(delay(3599), Duration::ZERO, "a watch that began within the hour");
        assert_eq!(delay(3600), Duration::ZERO, "it has ended");
    }

    #[test]
    fn without_a_bound_no_write_is_delayed() {
        let shares = Shares::default();
        let now = Timestamp::UNIX_EPOCH;
        shares.watched(resource(), "b", now);
        shares.note(&resource(), "a", usize::MAX, now);
        assert_eq!(shares.delay(resource, "a", now), Duration::ZERO);
    }

    #[test]
    fn users_who_owe_nothing_are_forgotten() {
        let shares = Shares::of(64_000);
        let now = Timestamp::UNIX_EPOCH;
        shares.watched(resource(), "watcher", now);
        (0..USERS_MAX).for_each(|number| shares.note(&resource(), &number.to_string(), 0, now));
        shares.note(&resource(), "more", 0, now + SignedDuration::from_secs(60));
        assert_eq!(shares.users.lock().expect("no panic").len(), 1);
    }
}
