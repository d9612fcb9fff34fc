//! Delegates authentication and authorization to the API server, with limits, because any client can cause these
//! requests.

use crate::status::Refusal;
use berth_rbac::User;
use berth_registry::ApiError;
use berth_store::env::Clock;
use futures::future::{BoxFuture, Either, select};
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::Semaphore;

/// The API server is unavailable, or its response is invalid.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unanswered(pub String);

/// The API server that authenticates and authorizes for a component.
pub trait Delegate: Send + Sync {
    /// Returns the user of this token, or `None` if it is invalid.
    fn holder(&self, token: String) -> BoxFuture<'_, Result<Option<User>, Unanswered>>;
    /// Whether the user may use the verb on the path: `get`, `/metrics`.
    fn may<'a>(&'a self, user: &'a User, verb: &'a str, path: &'a str) -> BoxFuture<'a, Result<bool, Unanswered>>;
}

/// The maximum number of concurrent requests to the API server.
const ASKED_MAX: usize = 4;
/// The maximum number of waiting requests. Further ones are rejected with a retry interval.
const WAITING_MAX: usize = 64;
/// The timeout of a response, and the lifetime of its cache entry, as upstream.
const ANSWER_MAX: SignedDuration = SignedDuration::from_secs(10);
const COUNTS_FOR: SignedDuration = SignedDuration::from_secs(10);
/// The maximum number of cached responses of each type.
const REMEMBERED_MAX: usize = 256;
/// Longer tokens are invalid.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Sends a limited number of concurrent requests, and caches the responses for a short time.
pub(super) struct Delegation {
    delegate: Arc<dyn Delegate>,
    clock: Arc<dyn Clock>,
    asking: Semaphore,
    waiting: Semaphore,
    /// By digest, so that tokens are in memory only during their request.
    holders: Remembered<[u8; 32], Option<Arc<User>>>,
    /// By the digest of user, verb and path, which may be long.
    rights: Remembered<[u8; 32], bool>,
}

impl Delegation {
    pub(super) fn new(delegate: Arc<dyn Delegate>, clock: Arc<dyn Clock>) -> Self {
        let [asking, waiting] = [ASKED_MAX, WAITING_MAX].map(Semaphore::new);
        Self { delegate, clock, asking, waiting, holders: Remembered::default(), rights: Remembered::default() }
    }

    /// Returns the user of this token, or `None` if it is invalid.
    ///
    /// # Errors
    /// The API server does not respond, or too many requests wait.
    pub(super) async fn holder(&self, token: &[u8]) -> Result<Option<Arc<User>>, Refusal> {
        let Some(text) = std::str::from_utf8(token).ok().filter(|token| token.len() <= TOKEN_BYTES_MAX) else { return Ok(None) };
        let digest = Sha256::digest(token).into();
        if let Some(known) = self.holders.get(&digest, self.clock.now()) {
            return Ok(known);
        }
        let holder = self.ask(|| self.delegate.holder(text.to_owned())).await?.map(Arc::new);
        self.holders.keep(digest, holder.clone(), self.clock.now());
        Ok(holder)
    }

    /// Whether the user may use the verb on the path.
    ///
    /// # Errors
    /// The API server does not respond, or too many requests wait.
    pub(super) async fn may(&self, user: &User, verb: &str, path: &str) -> Result<bool, Refusal> {
        let asked = digest(user, verb, path);
        if let Some(known) = self.rights.get(&asked, self.clock.now()) {
            return Ok(known);
        }
        let may = self.ask(|| self.delegate.may(user, verb, path)).await?;
        self.rights.keep(asked, may, self.clock.now());
        Ok(may)
    }

    async fn ask<'a, T>(&self, question: impl FnOnce() -> BoxFuture<'a, Result<T, Unanswered>>) -> Result<T, Refusal> {
        let unavailable = |why: String| ApiError::Unavailable { message: format!("the API server did not authorize this request: {why}") };
        let _waiting = self.waiting.try_acquire().map_err(|_| Refusal::Overloaded)?;
        let _asking = self.asking.acquire().await.map_err(|closed| unavailable(closed.to_string()))?;
        match select(question(), self.clock.sleep_until(self.clock.now() + ANSWER_MAX)).await {
            Either::Left((answer, _)) => answer.map_err(|error| unavailable(error.to_string()).into()),
            Either::Right(_) => Err(unavailable(format!("no answer within {} s", ANSWER_MAX.as_secs())).into()),
        }
    }
}

/// Returns a digest of all inputs of an authorization. The texts are quoted, so that different inputs have different
/// encodings.
fn digest(user: &User, verb: &str, path: &str) -> [u8; 32] {
    Sha256::digest(format!("{user:?} {verb:?} {path:?}")).into()
}

/// The last responses, each for [`COUNTS_FOR`].
struct Remembered<K, V>(Mutex<BTreeMap<K, (Timestamp, V)>>);

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone, V: Clone> Remembered<K, V> {
    fn get(&self, key: &K, now: Timestamp) -> Option<V> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|(at, _)| counts(*at, now)).map(|(_, value)| value.clone())
    }

    /// Adds an entry. Above the limit, it removes the oldest one.
    fn keep(&self, key: K, value: V, now: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (at, _)| counts(*at, now));
        if REMEMBERED_MAX <= known.len() {
            let oldest = known.iter().min_by_key(|(_, (at, _))| *at).map(|(key, _)| key.clone());
            oldest.map(|key| known.remove(&key));
        }
        known.insert(key, (now, value));
    }
}

fn counts(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) < COUNTS_FOR
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, future::pending};
    use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
    use tokio::task::yield_now;

    /// A clock that the test sets, in milliseconds.
    #[derive(Default)]
    struct ByHand(AtomicI64);

    impl ByHand {
        fn advance(&self, by: SignedDuration) {
            let millis = i64::try_from(by.as_millis()).expect("a short time");
            self.0.fetch_add(millis, Ordering::SeqCst);
        }
    }

    impl Clock for ByHand {
        fn now(&self) -> Timestamp {
            Timestamp::from_millisecond(self.0.load(Ordering::SeqCst)).expect("a time")
        }

        fn sleep_until(&self, _: Timestamp) -> BoxFuture<'static, ()> {
            // Long enough for the other tasks to progress as far as they can.
            async {
                for _ in 0..10 {
                    yield_now().await;
                }
            }
            .boxed()
        }
    }

    /// Accepts the token `good`, authorizes alice to read, counts the requests, and never responds to the token `slow`.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Delegate for Counting {
        fn holder(&self, token: String) -> BoxFuture<'_, Result<Option<User>, Unanswered>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            match token.as_str() {
                "slow" => pending().boxed(),
                "broken" => async { Err(Unanswered("it is away".to_owned())) }.boxed(),
                token => {
                    let user = (token == "good").then(|| User::authenticated("alice", &[]));
                    async { Ok(user) }.boxed()
                }
            }
        }

        fn may<'a>(&'a self, user: &'a User, verb: &'a str, path: &'a str) -> BoxFuture<'a, Result<bool, Unanswered>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            async move { Ok(user.name == "alice" && verb == "get" && path == "/metrics") }.boxed()
        }
    }

    fn delegation() -> (Arc<Counting>, Arc<ByHand>, Delegation) {
        let (counting, clock) = (Arc::<Counting>::default(), Arc::<ByHand>::default());
        let delegation = Delegation::new(Arc::<Counting>::clone(&counting), Arc::<ByHand>::clone(&clock));
        (counting, clock, delegation)
    }

    #[tokio::test]
    async fn what_was_answered_counts_for_ten_seconds() {
        let (counting, clock, delegation) = delegation();
        let asked = || counting.0.load(Ordering::SeqCst);
        for _ in 0..3 {
            let alice = delegation.holder(b"good").await.expect("an answer").expect("hers");
            assert_eq!(delegation.holder(b"bad").await.expect("an answer"), None);
            assert!(delegation.may(&alice, "get", "/metrics").await.expect("an answer"));
            assert!(!delegation.may(&alice, "get", "/configz").await.expect("an answer"));
            assert!(!delegation.may(&alice, "post", "/metrics").await.expect("an answer"));
        }
        assert_eq!(asked(), 5);
        clock.advance(COUNTS_FOR);
        assert!(delegation.holder(b"good").await.expect("an answer").is_some());
        assert_eq!(asked(), 6);
    }

    #[tokio::test]
    async fn only_so_much_is_remembered() {
        let (counting, clock, delegation) = delegation();
        for number in 0..2 * REMEMBERED_MAX {
            assert_eq!(delegation.holder(number.to_string().as_bytes()).await.expect("an answer"), None);
            clock.advance(SignedDuration::from_millis(1));
        }
        assert_eq!(delegation.holders.0.lock().expect("not poisoned").len(), REMEMBERED_MAX);
        assert_eq!(delegation.holder(&[b'x'; TOKEN_BYTES_MAX + 1]).await.expect("an answer"), None);
        assert_eq!(counting.0.load(Ordering::SeqCst), 2 * REMEMBERED_MAX, "what is too long is not asked");
    }

    #[tokio::test]
    async fn who_cannot_be_asked_is_not_waited_for_and_not_believed() {
        let (counting, _, delegation) = delegation();
        let refusal = delegation.holder(b"broken").await.expect_err("no answer");
        assert_eq!(refusal.to_string(), "the API server did not authorize this request: it is away");
        let slow = futures::future::join_all((0..WAITING_MAX).map(|_| delegation.holder(b"slow")));
        let (slow, more) = tokio::join!(slow, delegation.holder(b"good"));
        assert!(matches!(more, Err(Refusal::Overloaded)), "{more:?}");
        assert!(slow.iter().all(|found| matches!(found, Err(Refusal::Api(ApiError::Unavailable { .. })))));
        assert_eq!(counting.0.load(Ordering::SeqCst), 1 + WAITING_MAX);
        assert!(delegation.holder(b"good").await.expect("there is room again").is_some());
    }
}
