//! The policy as of now: read once, then kept up to date by the changes since it was last asked for.

use crate::{ApiError, Registry, Resource, key, resource, stored};
use berth_api::k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use berth_rbac::{Policy, RoleName, Scope};
use berth_store::{Entry, EventKind, RangeRequest, Revision, Store, WatchItem};
use futures::{FutureExt, StreamExt};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The resources that a policy is made of.
const PLURALS: [&str; 4] = ["clusterroles", "roles", "clusterrolebindings", "rolebindings"];

/// The policy as it was last asked for.
#[derive(Default)]
pub(crate) struct PolicyCache(Mutex<Option<Loaded>>);

struct Loaded {
    policy: Arc<Policy>,
    /// It shows all writes up to here.
    revision: Revision,
}

impl PolicyCache {
    fn lock(&self) -> MutexGuard<'_, Option<Loaded>> {
        // A panic leaves a policy that repeats some changes at worst.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// The policy that all writes answered before this call have made. Costs a look at the store's newest revision while nothing is
    /// written, and what changed in roles and bindings otherwise.
    ///
    /// # Errors
    /// The store's.
    pub async fn policy(&self) -> Result<Arc<Policy>, ApiError> {
        if let Some(policy) = self.policy.lock().as_mut().and_then(|loaded| loaded.follow(&*self.store)) {
            return Ok(policy);
        }
        let loaded = self.load_policy().await?;
        let policy = Arc::clone(&loaded.policy);
        let mut kept = self.policy.lock();
        if kept.as_ref().is_none_or(|kept| kept.revision < loaded.revision) {
            *kept = Some(loaded);
        }
        Ok(policy)
    }

    async fn load_policy(&self) -> Result<Loaded, ApiError> {
        let revision = self.store.revision();
        let mut policy = Policy::default();
        for resource in resources() {
            let request =
                RangeRequest { prefix: key::resource_prefix(resource), start_after: None, at: Some(revision), limit: None, behind: None };
            for entry in self.store.range(request).await?.entries {
                put(&mut policy, resource, &entry);
            }
        }
        Ok(Loaded { policy: Arc::new(policy), revision })
    }
}

fn resources() -> impl Iterator<Item = &'static Arc<Resource>> {
    PLURALS.iter().map(|plural| resource::built_in().by_name(berth_rbac::GROUP, plural).expect("roles and bindings are served"))
}

impl Loaded {
    /// Takes in what changed; `None`: the changes are no longer all kept.
    fn follow(&mut self, store: &dyn Store) -> Option<Arc<Policy>> {
        let newest = store.revision();
        if self.revision < newest {
            for resource in resources() {
                self.follow_one(store, resource)?;
            }
            self.revision = newest;
        }
        Some(Arc::clone(&self.policy))
    }

    /// Changes that are visible are there at once, so nothing is waited for. Taking one in twice changes nothing: the last one counts.
    fn follow_one(&mut self, store: &dyn Store, resource: &Arc<Resource>) -> Option<()> {
        let mut changes = store.watch(&key::resource_prefix(resource), self.revision).ok()?;
        while let Some(item) = changes.next().now_or_never() {
            match item?.ok()? {
                WatchItem::Progress(_) => break,
                WatchItem::Event(event) => {
                    let policy = Arc::make_mut(&mut self.policy);
                    match event.kind {
                        EventKind::Put => put(policy, resource, &event.entry),
                        EventKind::Deleted => remove(policy, resource, &event.entry),
                    }
                }
            }
        }
        Some(())
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
    if resource.plural.ends_with("bindings") { policy.remove_binding(&name) } else { policy.remove_role(&name) }
}

fn name_of(resource: &Arc<Resource>, entry: &Entry) -> Option<RoleName> {
    let target = key::target_of(resource, &entry.key)?;
    Some((target.namespace.map_or(Scope::Cluster, Scope::Namespace), target.name))
}
