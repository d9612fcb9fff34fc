//! The current policy: read once, then kept up to date by watches.
//!
//! Two rules limit its age. It contains every acknowledged write of this server: a right that a request to this server
//! grants or removes applies to the next request. It contains the writes of other servers after [`LAG_MAX`] at the
//! latest. If the policy is not known to be that fresh, it authorizes nothing, and the server is not ready.

use super::own_writes::{OwnWrites, resources};
use crate::{ApiError, Resource, key, stored};
use berth_api::k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use berth_rbac::{Policy, RoleName, Scope};
use berth_store::{
    Entry, EventKind, RangeRequest, ReadError, Revision, Store, Watch, WatchItem,
    env::{Clock, Timestamp},
};
use futures::{
    FutureExt, StreamExt,
    future::{Either, select, try_join_all},
    lock,
};
use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long a policy is usable after it was known to contain all writes.
pub const LAG_MAX: Duration = Duration::from_secs(1);
/// The age at which the store is asked for newer writes: half of [`LAG_MAX`], so that the answer has time to arrive.
const ASK_AFTER: Duration = Duration::from_millis(500);
/// How long the watches may take to deliver what the store has. After that, all roles and bindings are listed again,
/// because an old etcd does not report the progress of an idle watch.
const SHOWN_WITHIN: Duration = Duration::from_millis(100);

/// Authorizes by the roles and bindings in a store, with the last policy.
pub(crate) struct Authorizer {
    own_writes: Arc<OwnWrites>,
    clock: Arc<dyn Clock>,
    /// Locked briefly. `None` at first, during a refresh, and after a failed refresh.
    kept: Mutex<Option<Kept>>,
    /// Locked during a refresh. Contains the time of the last failure, which applies to all callers that arrived before
    /// it.
    failed_at: lock::Mutex<Option<Timestamp>>,
}

/// The cached policy during a refresh. Put back in every case.
struct Taken<'a> {
    cache: &'a Authorizer,
    kept: Option<Kept>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.cache.kept() = self.kept.take();
    }
}

struct Kept {
    policy: Arc<Policy>,
    followed: Vec<Followed>,
    /// The policy contains every write that any server acknowledged before this time.
    fresh_at: Timestamp,
}

/// One resource, and the revision of it that the policy contains.
struct Followed {
    resource: &'static Arc<Resource>,
    changes: Watch,
    seen: Revision,
}

/// A watch has expired or ended.
struct Lost;

impl Authorizer {
    pub(crate) fn new(own_writes: Arc<OwnWrites>, clock: Arc<dyn Clock>) -> Self {
        Self { own_writes, clock, kept: Mutex::default(), failed_at: lock::Mutex::default() }
    }

    /// Returns the store, with the revisions of this server's writes.
    pub(crate) fn own_writes(&self) -> &Arc<OwnWrites> {
        &self.own_writes
    }

    /// Locks the policy. A panic can leave it incomplete only in writes that its watches have yet to deliver.
    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the policy if it contains `own` and need not be refreshed yet.
    fn current(&self, own: &[Revision], now: Timestamp) -> Option<Arc<Policy>> {
        let mut kept = self.kept();
        let kept = kept.as_mut()?;
        let is_followed = kept.take_in_what_is_there().is_ok();
        (is_followed && kept.shows(own) && now < later(kept.fresh_at, ASK_AFTER)).then(|| Arc::clone(&kept.policy))
    }

    /// Returns a policy with all writes of this server before this call, and those of others up to [`LAG_MAX`] ago.
    /// Costs a poll of four watches, the changes of roles and bindings, and occasionally a request to the store.
    ///
    /// # Errors
    /// [`ApiError::Unavailable`] if the store does not respond in time, or errors of the store.
    pub(crate) async fn policy(&self) -> Result<Arc<Policy>, ApiError> {
        let (came_at, own) = (self.clock.now(), self.own_writes.newest());
        if let Some(policy) = self.current(&own, came_at) {
            return Ok(policy);
        }
        let mut failed_at = self.failed_at.lock().await;
        // Another caller may have refreshed it in the meantime.
        let (now, own) = (self.clock.now(), self.own_writes.newest());
        if let Some(policy) = self.current(&own, now) {
            return Ok(policy);
        }
        if failed_at.is_some_and(|failed_at| came_at < failed_at) {
            return Err(too_old());
        }
        let mut taken = Taken { cache: self, kept: self.kept().take() };
        let brought_up_to_date = {
            let catching_up = pin!(self.bring_up_to_date(&mut taken.kept));
            match select(catching_up, self.clock.sleep_until(later(now, LAG_MAX))).await {
                Either::Left((done, _)) => done,
                Either::Right(_) => Err(too_old()),
            }
        };
        // A refresh that began after this call is fresh enough, however long the machine was suspended since.
        let is_fresh = |kept: &Kept| came_at <= kept.fresh_at || self.clock.now() <= later(kept.fresh_at, LAG_MAX);
        let usable = |kept: &&Kept| kept.shows(&own) && is_fresh(kept);
        match (brought_up_to_date, taken.kept.as_ref().filter(usable)) {
            (_, Some(kept)) => Ok(Arc::clone(&kept.policy)),
            (failed, None) => {
                *failed_at = Some(self.clock.now());
                Err(failed.err().unwrap_or_else(too_old))
            }
        }
    }

    /// Adds all writes before this call, by any server.
    async fn bring_up_to_date(&self, kept: &mut Option<Kept>) -> Result<(), ApiError> {
        let asked_at = self.clock.now();
        if let Some(kept) = kept {
            let newest = try_join_all(kept.followed.iter().map(|followed| self.own_writes.revision(followed.resource.prefix()))).await?;
            let too_late = self.clock.sleep_until(later(self.clock.now(), SHOWN_WITHIN));
            let is_shown = matches!(select(pin!(kept.take_in_up_to(&newest)), too_late).await, Either::Left((Ok(()), _)));
            if is_shown {
                kept.fresh_at = asked_at;
                return Ok(());
            }
        }
        *kept = Some(self.load_policy(asked_at).await?);
        Ok(())
    }

    async fn load_policy(&self, asked_at: Timestamp) -> Result<Kept, ApiError> {
        let (mut policy, mut followed) = (Policy::default(), Vec::new());
        for resource in resources() {
            let found = self.own_writes.range(RangeRequest::all(resource.prefix())).await?;
            found.entries.iter().for_each(|entry| put(&mut policy, resource, entry));
            let changes = self.own_writes.watch(resource.prefix(), found.revision)?;
            followed.push(Followed { resource, changes, seen: found.revision });
        }
        Ok(Kept { policy: Arc::new(policy), followed, fresh_at: asked_at })
    }
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_add(by).expect("a positive duration can be added")
}

fn too_old() -> ApiError {
    let message = format!("what is known of roles and bindings is more than {} s old, and the store does not say more", LAG_MAX.as_secs());
    ApiError::Unavailable { message }
}

impl Kept {
    /// Whether the policy contains these revisions, one for each of [`resources`].
    fn shows(&self, revisions: &[Revision]) -> bool {
        self.followed.iter().zip(revisions).all(|(followed, revision)| *revision <= followed.seen)
    }

    /// Adds what the watches have already delivered.
    fn take_in_what_is_there(&mut self) -> Result<(), Lost> {
        for followed in &mut self.followed {
            while let Some(item) = followed.changes.next().now_or_never() {
                followed.take_in(&mut self.policy, item)?;
            }
        }
        Ok(())
    }

    /// Waits until the policy contains these revisions, one for each of [`resources`].
    async fn take_in_up_to(&mut self, newest: &[Revision]) -> Result<(), Lost> {
        for (followed, newest) in self.followed.iter_mut().zip(newest) {
            while followed.seen < *newest {
                let item = followed.changes.next().await;
                followed.take_in(&mut self.policy, item)?;
            }
        }
        Ok(())
    }
}

impl Followed {
    fn take_in(&mut self, policy: &mut Arc<Policy>, item: Option<Result<WatchItem, ReadError>>) -> Result<(), Lost> {
        match item {
            Some(Ok(WatchItem::Progress(revision))) => self.seen = revision,
            Some(Ok(WatchItem::Events(events))) => {
                let policy = Arc::make_mut(policy);
                for event in &events {
                    match event.kind {
                        EventKind::Put => put(policy, self.resource, &event.entry),
                        EventKind::Deleted => remove(policy, self.resource, &event.entry),
                    }
                }
                self.seen = events[0].entry.mod_revision;
            }
            Some(Err(_)) | None => return Err(Lost),
        }
        Ok(())
    }
}

/// Adds one role or binding. An undecodable one grants nothing.
fn put(policy: &mut Policy, resource: &Arc<Resource>, entry: &Entry) {
    let Ok(object) = stored::load(resource, entry) else { return remove(policy, resource, entry) };
    if let Some(role) = object.downcast_ref::<Role>() {
        policy.put_role(role.clone());
    } else if let Some(role) = object.downcast_ref::<ClusterRole>() {
        policy.put_cluster_role(role.clone());
    } else if let Some(binding) = object.downcast_ref::<RoleBinding>() {
        policy.put_binding(binding.clone().into());
    } else if let Some(binding) = object.downcast_ref::<ClusterRoleBinding>() {
        policy.put_binding(binding.clone().into());
    }
}

fn remove(policy: &mut Policy, resource: &Arc<Resource>, entry: &Entry) {
    let Some(name) = name_of(resource, entry) else { return };
    if resource.plural().ends_with("bindings") { policy.remove_binding(&name) } else { policy.remove_role(&name) }
}

fn name_of(resource: &Arc<Resource>, entry: &Entry) -> Option<RoleName> {
    let target = key::target_of(resource, &entry.key)?;
    Some((target.namespace.map_or(Scope::Cluster, Scope::Namespace), target.name))
}
