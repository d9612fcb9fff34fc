//! Follows the custom resource definitions in the store: serves their kinds, writes their status, deletes the objects of definitions that clients
//! delete. Each API server does, also without controllers, as upstream's does.

use crate::service_allocation::Among;
use berth_env::{Clock, Env};
use berth_kinds::custom::Termination;
use berth_registry::{
    ApiError, Registry,
    definitions::{DefinitionFollower, Finalization, TerminatingDefinition, write_statuses},
};
use futures::future::{FutureExt, select};
use jiff::SignedDuration;
use std::{collections::BTreeSet, pin::pin, time::Duration};

/// How long to wait after an error of the store.
const RETRY_INTERVAL: SignedDuration = SignedDuration::from_secs(1);
/// How long other servers may take to learn that a definition is being deleted. Until then, they may create objects of it.
const LEARNED_BY_OTHERS: SignedDuration = SignedDuration::from_secs(1);
/// The interval after which objects that finalizers hold are deleted once more.
const DELETE_INTERVAL: Duration = Duration::from_secs(5);
/// How long the deletion of objects takes before the definition's condition reports their number.
const REPORTED_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Serves the stored definitions, and starts to follow them for as long as the process runs. Call it before the server is ready.
///
/// # Errors
/// Errors of the store.
pub async fn start(registry: &Registry, among: Among, env: &Env) -> Result<(), ApiError> {
    let follower = registry.follow_definitions(&env.spawner).await?;
    let following = Following { registry: registry.clone(), env: env.clone(), among, finalizing: BTreeSet::new() };
    env.spawner.spawn("custom resource definitions", following.run(follower).boxed());
    Ok(())
}

struct Following {
    registry: Registry,
    env: Env,
    among: Among,
    /// The uids of the definitions whose objects are being deleted.
    finalizing: BTreeSet<String>,
}

impl Following {
    async fn run(mut self, mut follower: DefinitionFollower) {
        loop {
            for fault in follower.take_faults() {
                tracing::warn!(definition = %fault.name, error = %fault.source, "a custom resource definition cannot be served");
            }
            self.finalize(follower.terminating());
            let unwritten = follower.unwritten();
            let retry_at = write_statuses(&self.registry, &unwritten).await.err().map(|error| {
                tracing::debug!(%error, "the status of a custom resource definition could not be written; retrying");
                self.env.clock.now() + RETRY_INTERVAL
            });
            match retry_at {
                None => follower.changed().await,
                Some(at) => _ = select(pin!(follower.changed()), self.env.clock.sleep_until(at)).await,
            }
            if let Err(error) = follower.serve_changes().await {
                tracing::debug!(%error, "custom resource definitions could not be read; retrying");
                pause(&*self.env.clock, RETRY_INTERVAL).await;
            }
        }
    }

    /// Begins to delete the objects of these definitions, unless it has begun already.
    fn finalize(&mut self, terminating: Vec<TerminatingDefinition>) {
        self.finalizing.retain(|uid| terminating.iter().any(|definition| **uid == *definition.uid));
        for definition in terminating {
            if self.finalizing.insert(definition.uid.to_string()) {
                let finalizing = finalize(self.registry.clone(), definition, self.among, self.env.clone());
                self.env.spawner.spawn("custom resource finalizer", finalizing.boxed());
            }
        }
    }
}

/// Deletes the objects of a definition until none is left, and then the definition.
async fn finalize(registry: Registry, definition: TerminatingDefinition, among: Among, env: Env) {
    let started = env.clock.now();
    if among == Among::Others {
        pause(&*env.clock, LEARNED_BY_OTHERS).await;
    }
    let mut state = Termination::InProgress;
    loop {
        if let Err(error) = registry.record_termination(&definition, &state).await {
            tracing::debug!(definition = %definition.name, %error, "its condition could not be written");
        }
        match registry.finalize_definition(&definition).await {
            Ok(Finalization::Done) => return,
            Ok(Finalization::Left(left)) => {
                if REPORTED_AFTER < env.clock.now().duration_since(started) {
                    state = Termination::Pending(left);
                }
                registry.removal_of_object(&definition, DELETE_INTERVAL).await;
            }
            Err(ApiError::Conflict { .. } | ApiError::NotFound { .. }) => (),
            Err(error) => {
                tracing::debug!(definition = %definition.name, %error, "its objects could not be deleted; retrying");
                state = Termination::Failed(error.to_string());
                pause(&*env.clock, RETRY_INTERVAL).await;
            }
        }
    }
}

async fn pause(clock: &dyn Clock, by: SignedDuration) {
    clock.sleep_until(clock.now() + by).await;
}
