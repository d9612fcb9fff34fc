//! Views of workloads as cache entries, and an index of objects by their controller.

use crate::{
    cache::{Index, ObjectKey, View},
    cluster::RawObject,
};
use berth_workloads::view::{
    BudgetView, ClaimView, DeploymentView, Meta, PodView, ReplicaSetView, RevisionView, ScaleView, StatefulSetView,
};
use std::{collections::BTreeMap, sync::Arc};

/// A view that carries the whole metadata.
pub trait HasMeta: View {
    /// Its metadata.
    fn meta(&self) -> &Meta;
}

macro_rules! workload_view {
    ($view:ident) => {
        impl View for $view {
            fn decode(raw: &RawObject) -> Result<Self, serde_json::Error> {
                $view::decode(&raw.json, raw.revision)
            }
            fn namespace(&self) -> &str {
                &self.meta.namespace
            }
            fn name(&self) -> &str {
                &self.meta.name
            }
            fn uid(&self) -> &str {
                &self.meta.uid
            }
            fn is_being_deleted(&self) -> bool {
                self.meta.deleted.is_some()
            }
        }

        impl HasMeta for $view {
            fn meta(&self) -> &Meta {
                &self.meta
            }
        }
    };
}

workload_view!(BudgetView);
workload_view!(ClaimView);
workload_view!(DeploymentView);
workload_view!(PodView);
workload_view!(ReplicaSetView);
workload_view!(RevisionView);
workload_view!(ScaleView);
workload_view!(StatefulSetView);

/// Objects by uid and by the uid of their controller; those without one by namespace.
#[derive(Debug)]
pub struct OwnerIndex<V> {
    by_uid: BTreeMap<String, Arc<V>>,
    by_controller: BTreeMap<String, BTreeMap<ObjectKey, Arc<V>>>,
    orphans: BTreeMap<String, BTreeMap<ObjectKey, Arc<V>>>,
}

impl<V> Default for OwnerIndex<V> {
    fn default() -> Self {
        Self { by_uid: BTreeMap::new(), by_controller: BTreeMap::new(), orphans: BTreeMap::new() }
    }
}

impl<V: HasMeta> OwnerIndex<V> {
    /// The object with this uid.
    #[must_use]
    pub fn by_uid(&self, uid: &str) -> Option<&Arc<V>> {
        self.by_uid.get(uid)
    }

    /// The objects that this uid controls, by key.
    pub fn controlled_by(&self, uid: &str) -> impl Iterator<Item = &Arc<V>> {
        self.by_controller.get(uid).into_iter().flat_map(BTreeMap::values)
    }

    /// The objects of a namespace that nobody controls, by name.
    pub fn orphans(&self, namespace: &str) -> impl Iterator<Item = &Arc<V>> {
        self.orphans.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    fn group(&mut self, view: &V) -> (&mut BTreeMap<String, BTreeMap<ObjectKey, Arc<V>>>, String) {
        match view.meta().controller() {
            Some(owner) => (&mut self.by_controller, owner.uid.clone()),
            None => (&mut self.orphans, view.meta().namespace.clone()),
        }
    }
}

impl<V: HasMeta> Index<V> for OwnerIndex<V> {
    fn change(&mut self, old: Option<&Arc<V>>, new: Option<&Arc<V>>) {
        if let Some(old) = old {
            self.by_uid.remove(old.uid());
            let (groups, group) = self.group(old);
            remove_from(groups, &group, &old.key());
        }
        if let Some(new) = new {
            self.by_uid.insert(new.uid().to_owned(), Arc::clone(new));
            let (groups, group) = self.group(new);
            groups.entry(group).or_default().insert(new.key(), Arc::clone(new));
        }
    }
}

/// Takes one object out of its group; no group stays empty.
pub(crate) fn remove_from<G: Ord, K: Ord, V>(groups: &mut BTreeMap<G, BTreeMap<K, V>>, group: &G, key: &K) {
    if let Some(members) = groups.get_mut(group) {
        members.remove(key);
        if members.is_empty() {
            groups.remove(group);
        }
    }
}
