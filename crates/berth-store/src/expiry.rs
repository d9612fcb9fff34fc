//! The expiry of values that were written with a time to live, for stores that take the time from the caller.

use crate::{Store, WriteError, env::Env};
use futures::{FutureExt, future::BoxFuture};
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;

/// How late a value may go: what an idle server wakes for.
const INTERVAL: SignedDuration = SignedDuration::from_secs(1);

/// A [`Store`] that has no clock of its own. A store whose backend keeps the time, as etcd does with its leases, does not implement it.
pub trait Expire: Store {
    /// Deletes keys whose time is over by `now`, each by a commit of its own: all of them, or so many that others' writes need not wait long.
    /// Gives how many went; one that is written at the same moment stays.
    ///
    /// # Errors
    /// [`WriteError`]; what else is due stays until the next call.
    fn expire(&self, now: Timestamp) -> BoxFuture<'_, Result<usize, WriteError>>;
}

/// Has values deleted whose time is over, for as long as the process runs.
pub fn start(store: Arc<dyn Expire>, env: &Env) {
    let clock = Arc::clone(&env.clock);
    let task = async move {
        loop {
            clock.sleep_until(clock.now() + INTERVAL).await;
            // What fails now is tried again, and who writes hears of it too.
            while store.expire(clock.now()).await.is_ok_and(|gone| 0 < gone) {}
        }
    };
    env.spawner.spawn("expiry", task.boxed());
}

/// Deletes `due` keys.
pub(crate) async fn delete(store: &dyn Store, due: Vec<(crate::Key, crate::Revision)>) -> Result<usize, WriteError> {
    let mut deleted = 0;
    let deletions: Vec<_> = due.into_iter().map(|(key, revision)| store.delete(key, revision)).collect();
    for deletion in deletions {
        match deletion.await {
            Ok(_) => deleted += 1,
            Err(WriteError::Conflict { .. }) => (),
            Err(error) => return Err(error),
        }
    }
    Ok(deleted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Expected, Key, MemoryStore, Purpose, RangeRequest, Write,
        env::Rng,
        virtual_time::{Order, Step, VirtualTime},
    };

    struct Zeros;

    impl Rng for Zeros {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(0);
        }
    }

    fn left(store: &MemoryStore) -> usize {
        let range = store.range(RangeRequest::all("")).now_or_never().expect("ready at once");
        range.expect("readable").entries.len()
    }

    /// More values than one call expires, as after a long pause: the values that expire next must not wait for them.
    #[test]
    fn all_that_is_due_goes_at_once_however_much_it_is() {
        let time = VirtualTime::new(Order::Fifo, Arc::new(Zeros), Timestamp::UNIX_EPOCH);
        let env = Env { clock: Arc::new(time.clone()), rng: Arc::new(Zeros), spawner: Arc::new(time.process()) };
        let store = Arc::new(MemoryStore::new(Arc::new(()), 1 << 20));
        let second = |second| Timestamp::from_second(second).expect("in range");
        for number in 0..2500 {
            let until = if number < 2400 { second(1) } else { second(9) };
            let put = Write::put(Key::new(&format!("/events/{number}")), "1".into(), Expected::Absent, Purpose::Growth);
            store.commit(vec![Write { expires_at: Some(until), ..put }]).now_or_never().expect("ready at once").expect("a new key");
        }
        start(Arc::clone(&store) as Arc<dyn Expire>, &env);
        let pass_until = |until| while time.step(until) != Step::Quiet {};
        pass_until(second(1) - SignedDuration::from_nanos(1));
        assert_eq!(left(&store), 2500, "nothing goes before its time");
        pass_until(second(1) + INTERVAL);
        assert_eq!(left(&store), 100);
        pass_until(second(9) + INTERVAL);
        assert_eq!(left(&store), 0, "it goes on looking");
    }
}
