//! Events are kept for an hour: has the registry delete older ones once a minute.

use berth_registry::Registry;
use berth_store::env::Env;
use jiff::SignedDuration;

/// How often old events are looked for.
const INTERVAL: SignedDuration = SignedDuration::from_mins(1);

/// Starts to delete events that are too old, for as long as the process runs.
pub fn start(registry: Registry, env: &Env) {
    let clock = std::sync::Arc::clone(&env.clock);
    let task = async move {
        loop {
            clock.sleep_until(clock.now() + INTERVAL).await;
            if let Err(error) = registry.expire_events().await {
                tracing::warn!(%error, "old events could not be deleted; trying again in a minute");
            }
        }
    };
    env.spawner.spawn("event ttl", Box::pin(task));
}
