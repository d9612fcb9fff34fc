//! Keeps what Services are given in order: the Service `kubernetes` stays what it should be, claims that a crash left are given back.

use berth_registry::{
    Registry, ServerAddress,
    allocation::{Good, repair::Step},
};
use berth_store::env::Env;
use jiff::SignedDuration;

/// How often it is looked whether the Service `kubernetes` is there, as upstream's API server does.
const PUBLISH_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// How often claims are compared with Services.
const REPAIR_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

/// Starts to do both, for as long as the process runs.
pub fn start(registry: &Registry, server: ServerAddress, env: &Env) {
    let (clock, publisher) = (std::sync::Arc::clone(&env.clock), registry.clone());
    let publish = async move {
        loop {
            clock.sleep_until(clock.now() + PUBLISH_INTERVAL).await;
            if let Err(error) = publisher.publish_server(server).await {
                tracing::debug!(%error, "the Service kubernetes is not what it should be; trying again");
            }
        }
    };
    env.spawner.spawn("kubernetes service", Box::pin(publish));
    let (clock, registry) = (std::sync::Arc::clone(&env.clock), registry.clone());
    let repair = async move {
        loop {
            clock.sleep_until(clock.now() + REPAIR_INTERVAL).await;
            match registry.repair_allocations().await {
                Ok(steps) => steps.iter().for_each(tell),
                Err(error) => tracing::warn!(%error, "Services could not be compared with what they were given; trying again in a minute"),
            }
        }
    };
    env.spawner.spawn("service allocation repair", Box::pin(repair));
}

fn tell(step: &Step) {
    let kind = |good: &Good| match good {
        Good::Address(_) => "cluster IP",
        Good::NodePort(_) => "node port",
    };
    match step {
        // It may be that of a Service that is being made.
        Step::Mark(_) => (),
        Step::Release(good) => tracing::warn!("{} {good} was claimed, and no Service has it: free again", kind(good)),
        Step::Claim(good, holder) => {
            tracing::warn!("{} {good} of Service {}/{} was not claimed: claimed now", kind(good), holder.namespace, holder.name);
        }
        Step::Tell(good, holder) => {
            let (namespace, name) = (&holder.namespace, &holder.name);
            tracing::warn!("{} {good} of Service {namespace}/{name} belongs to another; please recreate the Service", kind(good));
        }
    }
}
