//! The policy as of now: read once, then kept up to date by watches.
//!
//! Two rules bound how old it may be. What this server has written and answered is in it: whoever was given a right or lost one by a
//! request to this server finds it so in the next. What other servers have written is in it after [`LAG_MAX`] at the latest: a policy that
//! is not known to be so fresh decides nothing, and the server is not ready.

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

/// How long a policy may be used after it was known to show all that anybody had written.
pub const LAG_MAX: Duration = Duration::from_secs(1);
/// How long before the store is asked whether there is more: half of it, so that the answer has time to come.
const ASK_AFTER: Duration = Duration::from_millis(500);
/// How long the watches may take to show what the store has. Behind that all is read anew: an old etcd tells nobody how far a watch is of which nothing
/// changes.
const SHOWN_WITHIN: Duration = Duration::from_millis(100);

/// Who may do what, by the roles and bindings in a store: the policy as it was last asked for.
pub(crate) struct Authorizer {
    own_writes: Arc<OwnWrites>,
    clock: Arc<dyn Clock>,
    /// Locked for a look. None is there at first, while somebody brings it up to date, and where that failed.
    kept: Mutex<Option<Kept>>,
    /// Held by who brings it up to date. When the last try was given up: an answer to all who came before.
    failed_at: lock::Mutex<Option<Timestamp>>,
}

/// What is kept, in the hands of who brings it up to date. Given back however that ends.
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
    /// All that was answered before, by whichever server, is in the policy.
    fresh_at: Timestamp,
}

/// One resource, and how much of it the policy shows.
struct Followed {
    resource: &'static Arc<Resource>,
    changes: Watch,
    seen: Revision,
}

/// A watch has lost its place, or ended.
struct Lost;

impl Authorizer {
    pub(crate) fn new(own_writes: Arc<OwnWrites>, clock: Arc<dyn Clock>) -> Self {
        Self { own_writes, clock, kept: Mutex::default(), failed_at: lock::Mutex::default() }
    }

    /// What a panic left behind is behind at worst: what its watches have shown is in it or still to come.
    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The policy, if it shows `own` and the store need not be asked yet.
    fn current(&self, own: &[Revision], now: Timestamp) -> Option<Arc<Policy>> {
        let mut kept = self.kept();
        let kept = kept.as_mut()?;
        let is_followed = kept.take_in_what_is_there().is_ok();
        (is_followed && kept.shows(own) && now < later(kept.fresh_at, ASK_AFTER)).then(|| Arc::clone(&kept.policy))
    }

    /// The policy, with all that this server has written before this call and what others have up to [`LAG_MAX`] ago. Costs a look at four
    /// watches, what changed in roles and bindings, and now and then a question to the store.
    ///
    /// # Errors
    /// [`ApiError::Unavailable`] where the store does not say what there is; the store's.
    pub(crate) async fn policy(&self) -> Result<Arc<Policy>, ApiError> {
        let (came_at, own) = (self.clock.now(), self.own_writes.newest());
        if let Some(policy) = self.current(&own, came_at) {
            return Ok(policy);
        }
        let mut failed_at = self.failed_at.lock().await;
        // Somebody may have brought it up to date meanwhile.
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
        // What was asked for after this call came cannot be too old for it, however long the machine stood still since.
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

    /// Takes in all that was written before this call, by whichever server.
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
    /// Whether these revisions are in the policy, one for each of [`resources`].
    fn shows(&self, revisions: &[Revision]) -> bool {
        self.followed.iter().zip(revisions).all(|(followed, revision)| *revision <= followed.seen)
    }

    /// Takes in what the watches have ready.
    fn take_in_what_is_there(&mut self) -> Result<(), Lost> {
        for followed in &mut self.followed {
            while let Some(item) = followed.changes.next().now_or_never() {
                followed.take_in(&mut self.policy, item)?;
            }
        }
        Ok(())
    }

    /// Waits until these revisions are in the policy, one for each of [`resources`].
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

/// Takes one role or binding in. What cannot be read grants nothing.
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
