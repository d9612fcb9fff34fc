//! How many watches a user has, and how long each lasts.

use super::Exchange;
use crate::{limits::Share, status::Refusal};
use futures::future::BoxFuture;
use std::time::Duration;

/// Without `timeoutSeconds` a watch lasts this long, and up to twice as long, so that not all end at once.
const WATCH_SECONDS_MIN: u64 = 30 * 60;

/// A place for one more watch of the caller.
pub(super) fn share_of_watches(exchange: &Exchange<'_>) -> Result<Option<Share<String>>, Refusal> {
    let user = exchange.user();
    if user.is_master() {
        return Ok(None);
    }
    exchange.shared.watches.take(user.share().to_owned()).map(Some).ok_or(Refusal::Overloaded)
}

/// How long a watch lasts that does not say, and a log that is followed.
pub(super) fn follow_timeout(exchange: &Exchange<'_>) -> Duration {
    Duration::from_secs(WATCH_SECONDS_MIN + exchange.shared.rng.below(WATCH_SECONDS_MIN))
}

pub(super) fn end_of_watch(exchange: &Exchange<'_>, timeout: Duration) -> BoxFuture<'static, ()> {
    let mut stopping = exchange.shared.stopping.clone();
    Box::pin(async move {
        // Either way out, and also a server that is gone altogether, ends the watch.
        let _ = tokio::time::timeout(timeout, stopping.wait_for(|stopping| *stopping)).await;
    })
}
