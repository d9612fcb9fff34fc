//! The end of values that were written with a time: for stores that must be told how late it is.

use crate::{Store, WriteError, env::Env};
use futures::{FutureExt, future::BoxFuture};
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;

/// How late a value may go: what an idle server wakes for.
const INTERVAL: SignedDuration = SignedDuration::from_secs(1);

/// A [`Store`] that looks at no clock of its own. One whose backend keeps the time, as etcd does with its leases, is none.
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
