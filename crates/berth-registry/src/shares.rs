//! Each user's share of history: what he writes beyond it is slowed, so that what others watch and resume from is not forgotten in seconds.

use crate::Resource;
use berth_store::env::Timestamp;
use jiff::SignedDuration;
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Which part of all history one user may write at once.
const BURST_PART: u64 = 4;

/// In how many seconds a user may write as much as all history holds, from then on.
const REFILL_SECONDS: u64 = 64;

/// For how long a resource counts as watched by who began a watch of it: no watch lasts longer without beginning anew.
const WATCHED_FOR: SignedDuration = SignedDuration::from_hours(1);

/// Of how many users it is remembered that they watch a resource: of two, one is another than the writer.
const WATCHERS_MAX: usize = 2;

/// The longest that a write is held up. Who would have to wait longer is told to come again.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(5);

/// What a change costs in history beside the values, in bytes.
const CHANGE_BYTES: u64 = 512;

/// How many users are known before those who owe nothing are forgotten.
const USERS_MAX: usize = 1024;

/// What users have written lately, in bytes of history.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// How much history the store keeps; 0: nobody is slowed.
    history_bytes: u64,
    users: Mutex<BTreeMap<String, Share>>,
    /// Who watched a resource (`deployments.apps`) last, and when: who wants its history.
    watchers: Mutex<BTreeMap<String, Vec<(String, Timestamp)>>>,
}

#[derive(Clone, Copy, Debug)]
struct Share {
    bytes: u64,
    /// When it was that.
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

    /// A user has begun to watch a resource.
    pub(crate) fn watched(&self, resource: String, user: &str, now: Timestamp) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        let watchers = watchers.entry(resource).or_default();
        watchers.retain(|(other, _)| other != user);
        watchers.insert(0, (user.to_owned(), now));
        watchers.truncate(WATCHERS_MAX);
    }

    /// Whether another user may come back to what this one would make be forgotten.
    fn is_watched_by_others(&self, resource: &str, user: &str, now: Timestamp) -> bool {
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers
            .get(resource)
            .is_some_and(|watchers| watchers.iter().any(|(other, at)| other != user && now.duration_since(*at) < WATCHED_FOR))
    }

    /// How long a user has to wait before the next write to a resource. What nobody else watches is written as fast as it goes.
    pub(crate) fn delay(&self, resource: impl FnOnce() -> String, user: &str, now: Timestamp) -> Duration {
        let written = self.users.lock().unwrap_or_else(PoisonError::into_inner).get(user).map_or(0, |share| self.left(*share, now));
        let beyond = written.saturating_sub(self.history_bytes / BURST_PART);
        if beyond == 0 || !self.is_watched_by_others(&resource(), user, now) {
            return Duration::ZERO;
        }
        Duration::from_millis(beyond.saturating_mul(1000) / self.refill())
    }

    /// A user has changed an object, of that many bytes before and after. What nobody else watches takes nothing of a share.
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

    /// What still counts of a share.
    fn left(&self, share: Share, now: Timestamp) -> u64 {
        let passed = u64::try_from(now.duration_since(share.at).max(SignedDuration::ZERO).as_millis()).unwrap_or(u64::MAX);
        share.bytes.saturating_sub(self.refill().saturating_mul(passed) / 1000)
    }

    /// In bytes a second.
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
    fn what_nobody_else_watches_is_written_as_fast_as_it_goes() {
        let shares = Shares::of(64_000);
        let second = |second| Timestamp::from_second(second).expect("a time");
        let delay = |at| shares.delay(resource, "a", second(at));
        shares.note(&resource(), "a", 1_000_000, second(0));
        assert_eq!(delay(0), Duration::ZERO, "nobody watches");
        shares.watched(resource(), "a", second(0));
        shares.watched("secrets.".to_owned(), "b", second(0));
        assert_eq!(delay(0), Duration::ZERO, "the writer himself, and another something else");
        shares.watched(resource(), "b", second(0));
        assert_eq!(delay(0), Duration::ZERO, "what was written before anybody watched does not count");
        shares.note(&resource(), "a", 1_000_000, second(0));
        shares.watched(resource(), "a", second(1));
        assert_ne!(delay(1), Duration::ZERO);
        shares.note(&resource(), "a", 10_000_000, second(3599));
        assert_ne!(delay(3599), Duration::ZERO, "a watch that began within the hour");
        assert_eq!(delay(3600), Duration::ZERO, "it has ended");
    }

    #[test]
    fn without_a_bound_nobody_waits() {
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
