//! The number of a user's watches, and their duration.

use super::Exchange;
use crate::{limits::Share, status::Refusal};
use futures::future::BoxFuture;
use std::time::Duration;

/// The minimum duration of a watch without `timeoutSeconds`. The duration is random up to twice as long, so that
/// watches do not end at the same time.
const WATCH_SECONDS_MIN: u64 = 30 * 60;

/// Takes a slot for another watch of the caller.
pub(super) fn share_of_watches(exchange: &Exchange<'_>) -> Result<Option<Share<String>>, Refusal> {
    let user = exchange.user();
    if user.is_master() {
        return Ok(None);
    }
    exchange.shared.watches.take(user.share().to_owned()).map(Some).ok_or(Refusal::Overloaded)
}

/// Returns the duration of a watch without a timeout, and of a followed log.
pub(super) fn follow_timeout(exchange: &Exchange<'_>) -> Duration {
    Duration::from_secs(WATCH_SECONDS_MIN + exchange.shared.rng.below(WATCH_SECONDS_MIN))
}

pub(super) fn end_of_watch(exchange: &Exchange<'_>, timeout: Duration) -> BoxFuture<'static, ()> {
    let mut stopping = exchange.shared.stopping.clone();
    Box::pin(async move {
        // The timeout, the stop and the drop of the server each end the watch.
        let _ = tokio::time::timeout(timeout, stopping.wait_for(|stopping| *stopping)).await;
    })
}
