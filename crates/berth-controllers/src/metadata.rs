//! The metadata of all objects of all kinds: what the garbage collector and the namespace controller know.

use crate::{
    cache::{Cache, Index, View, Warm},
    cluster::{Cluster, ClusterError, RawObject},
    lock,
    metrics::Metrics,
};
use berth_api::Scope;
use berth_identity::{Name, Namespace, ObjectKey, ResourceName, Revision, Uid};
use berth_registry::{Resource, resource};
use berth_store::env::Spawner;
use berth_workloads::{
    gc::{Deletion, FOREGROUND, ORPHAN, Seen, TypeMeta},
    owners::OwnerReferences,
    view::read_metadata,
};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// What is read of an object of any kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetaView {
    /// `metadata.namespace`; empty for cluster-scoped objects.
    #[serde(default)]
    pub namespace: Namespace,
    /// `metadata.name`.
    #[serde(default)]
    pub name: Name,
    /// `metadata.uid`.
    #[serde(default)]
    pub uid: Uid,
    /// `metadata.ownerReferences`.
    pub owner_references: Option<OwnerReferences>,
    /// `metadata.finalizers`.
    pub finalizers: Option<Vec<String>>,
    /// `metadata.deletionTimestamp`.
    pub deletion_timestamp: Option<Timestamp>,
    /// The resource version of this version.
    #[serde(skip)]
    pub revision: Revision,
}

impl View for MetaView {
    fn decode(raw: &RawObject) -> Result<Self, serde_json::Error> {
        Ok(Self { revision: raw.revision, ..read_metadata(&raw.json)? })
    }
    fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }
    fn uid(&self) -> &Uid {
        &self.uid
    }
    fn is_being_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

impl MetaView {
    /// Its owners.
    #[must_use]
    pub fn owners(&self) -> &[OwnerReference] {
        self.owner_references.as_deref().unwrap_or_default()
    }

    /// How it is being deleted.
    #[must_use]
    pub fn deletion(&self) -> Deletion {
        match self.deletion_timestamp {
            None => Deletion::None,
            Some(_) => self.asked_for(),
        }
    }

    /// What its finalizers ask of the collector, whether or not it is being deleted.
    #[must_use]
    pub fn asked_for(&self) -> Deletion {
        let has = |wanted| self.finalizers.iter().flatten().any(|finalizer| finalizer == wanted);
        match (has(ORPHAN), has(FOREGROUND)) {
            (true, _) => Deletion::Orphan,
            (_, true) => Deletion::Foreground,
            _ => Deletion::Other,
        }
    }

    /// The object as the garbage collector sees it.
    #[must_use]
    pub fn seen(&self, resource: &Resource) -> Seen {
        let type_meta = TypeMeta { api_version: resource.api_version().to_owned(), kind: resource.kind.clone() };
        Seen {
            type_meta,
            key: self.key(),
            uid: self.uid.clone(),
            owners: self.owner_references.clone().unwrap_or_default(),
            deletion: self.deletion(),
        }
    }
}

/// How many objects of a kind there are in each namespace.
#[derive(Debug, Default)]
pub struct NamespaceCounts(BTreeMap<Namespace, usize>);

impl NamespaceCounts {
    /// Objects in `namespace`.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> usize {
        self.0.get(namespace).copied().unwrap_or(0)
    }
}

impl Index<MetaView> for NamespaceCounts {
    fn change(&mut self, old: Option<&Arc<MetaView>>, new: Option<&Arc<MetaView>>) {
        if let Some(new) = new {
            *self.0.entry(new.namespace.clone()).or_default() += 1;
        }
        if let Some(old) = old {
            match self.0.get_mut(&old.namespace) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.0.remove(&old.namespace)),
            }
        }
    }
}

/// The metadata of all objects of one kind.
pub type MetaCache = Cache<MetaView, NamespaceCounts>;

/// The metadata of all objects.
pub struct MetaCaches {
    caches: Vec<(&'static Resource, Arc<MetaCache>)>,
    awaited: Arc<Mutex<Awaited>>,
}

/// How far each resource is awaited, by the uid of what is being deleted; until that is gone.
type Awaited = BTreeMap<Uid, BTreeMap<ResourceName, Revision>>;

impl Default for MetaCaches {
    /// Empty caches of every kind of the table. A kind that is served in two groups is kept once.
    fn default() -> Self {
        let kinds = resource::built_in().stored().filter(|resource| resource.group != "events.k8s.io");
        let awaited = Arc::<Mutex<Awaited>>::default();
        let cache = |resource| {
            let (cache, awaited) = (MetaCache::new(name_of(resource)), Arc::clone(&awaited));
            cache.on_change(move |delta| {
                if let (Some(gone), None) = (&delta.old, &delta.new) {
                    lock(&awaited).remove(&gone.uid);
                }
            });
            Arc::new(cache)
        };
        Self { caches: kinds.map(|resource| (&**resource, cache(resource))).collect(), awaited }
    }
}

impl MetaCaches {
    /// Each kind and its cache.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Resource, &Arc<MetaCache>)> {
        self.caches.iter().map(|(resource, cache)| (*resource, cache))
    }

    /// The cache of one kind.
    #[must_use]
    pub fn of(&self, group: &str, plural: &str) -> Option<&Arc<MetaCache>> {
        self.iter().find(|(resource, _)| resource.group == group && resource.plural == plural).map(|(_, cache)| cache)
    }

    /// Starts all of them.
    pub fn start(&self, cluster: &dyn Cluster, spawner: &dyn Spawner, metrics: &Arc<Metrics>) {
        self.iter().for_each(|(_, cache)| cache.start(cluster, spawner, metrics));
    }

    /// Resolves when all have their first consistent list.
    pub async fn warm(&self) {
        for (_, cache) in self.iter() {
            cache.warm().await;
        }
    }

    /// Whether every cache shows all that was written before this was first asked about `uid`: of an object that has been deleted, all that depended on
    /// it or was in it then. To be asked again until it is so; that is remembered until the object is gone.
    ///
    /// Each cache is compared with its own resource alone: revisions of others may be of another store.
    ///
    /// # Errors
    /// The cluster does not say how far a resource is.
    pub async fn show_all_since(&self, uid: &Uid, cluster: &dyn Cluster) -> Result<bool, ClusterError> {
        let mut awaited = lock(&self.awaited).get(uid).cloned().unwrap_or_default();
        let unknown = self.iter().map(|(resource, _)| name_of(resource)).filter(|resource| !awaited.contains_key(resource));
        let mut first_error = None;
        for (resource, newest) in join_all(unknown.map(async |resource| (resource, cluster.newest(resource).await))).await {
            match newest {
                Ok(revision) => _ = awaited.insert(resource, revision),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        // What is known need not be asked again, whatever becomes of the rest.
        lock(&self.awaited).insert(uid.clone(), awaited.clone());
        if let Some(error) = first_error {
            return Err(error);
        }
        Ok(self.iter().all(|(resource, cache)| awaited.get(&name_of(resource)).is_none_or(|revision| cache.revision() >= *revision)))
    }
}

/// The resource's name.
#[must_use]
pub fn name_of(resource: &'static Resource) -> ResourceName {
    ResourceName { group: &resource.group, plural: &resource.plural }
}

/// The key of an object of `resource`; cluster-scoped ones are in no namespace.
#[must_use]
pub fn key_of(resource: &Resource, namespace: &Namespace, name: impl Into<Name>) -> ObjectKey {
    let namespace = if resource.scope == Scope::Namespaced { namespace.clone() } else { Namespace::default() };
    ObjectKey { namespace, name: name.into() }
}
