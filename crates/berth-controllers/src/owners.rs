//! An index of objects by their controller.

use crate::cache::Index;
use berth_identity::{Namespace, ObjectKey, Uid};
use berth_workloads::{
    selector::Selector,
    view::{
        CronJobView, DaemonSetView, DeploymentView, JobPodView, JobView, Meta, PodView, ReplicaSetView, RevisionView, ScaleView,
        StatefulSetView, View,
    },
};
use std::{borrow::Borrow, collections::BTreeMap, sync::Arc};

/// A view that contains the whole metadata.
pub trait HasMeta: View {
    /// Its metadata.
    fn meta(&self) -> &Meta;
}

macro_rules! have_meta {
    ($($view:ty),*) => {
        $(impl HasMeta for $view {
            fn meta(&self) -> &Meta {
                &self.meta
            }
        })*
    };
}

have_meta!(CronJobView, DaemonSetView, DeploymentView, JobView, PodView, ReplicaSetView, RevisionView, ScaleView, StatefulSetView);

impl HasMeta for JobPodView {
    fn meta(&self) -> &Meta {
        &self.pod.meta
    }
}

/// Objects without a controller, found by selector.
#[derive(Debug)]
pub(crate) struct Orphans<V>(BTreeMap<Namespace, OrphansHere<V>>);

/// The orphans of one namespace.
#[derive(Debug)]
struct OrphansHere<V> {
    all: BTreeMap<ObjectKey, Arc<V>>,
    by_label: BTreeMap<(String, String), BTreeMap<ObjectKey, Arc<V>>>,
}

impl<V> Default for Orphans<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V: HasMeta> Orphans<V> {
    /// The orphans of a namespace that `selector` matches, by key. The cost is linear in the orphans with one of the required labels.
    pub(crate) fn selected<'a>(&'a self, namespace: &str, selector: &'a Selector) -> impl Iterator<Item = &'a Arc<V>> {
        let here = self.0.get(namespace);
        let candidates = here.and_then(|here| match selector.required_label() {
            Some((key, value)) => here.by_label.get(&(key.to_owned(), value.to_owned())),
            None => Some(&here.all),
        });
        candidates.into_iter().flat_map(BTreeMap::values).filter(|orphan| selector.matches(&orphan.meta().labels))
    }

    pub(crate) fn add(&mut self, orphan: &Arc<V>) {
        let empty = || OrphansHere { all: BTreeMap::new(), by_label: BTreeMap::new() };
        let here = self.0.entry(orphan.meta().namespace.clone()).or_insert_with(empty);
        for (key, value) in orphan.meta().labels.iter() {
            here.by_label.entry((key.to_owned(), value.to_owned())).or_default().insert(orphan.key(), Arc::clone(orphan));
        }
        here.all.insert(orphan.key(), Arc::clone(orphan));
    }

    pub(crate) fn remove(&mut self, orphan: &V) {
        let Some(here) = self.0.get_mut(&orphan.meta().namespace) else { return };
        for (key, value) in orphan.meta().labels.iter() {
            remove_from(&mut here.by_label, &(key.to_owned(), value.to_owned()), &orphan.key());
        }
        here.all.remove(&orphan.key());
        if here.all.is_empty() {
            self.0.remove(&orphan.meta().namespace);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Objects by uid and by the uid of their controller. Those without a controller are found by selector.
#[derive(Debug)]
pub struct OwnerIndex<V> {
    by_uid: BTreeMap<Uid, Arc<V>>,
    by_controller: BTreeMap<Uid, BTreeMap<ObjectKey, Arc<V>>>,
    /// The uids of controllers by namespace and name: more than one if a former object had the name.
    controllers: BTreeMap<ObjectKey, BTreeMap<Uid, ()>>,
    orphans: Orphans<V>,
}

impl<V> Default for OwnerIndex<V> {
    fn default() -> Self {
        Self { by_uid: BTreeMap::new(), by_controller: BTreeMap::new(), controllers: BTreeMap::new(), orphans: Orphans::default() }
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

    /// The objects whose controller has this name, but another uid than `uid`.
    pub fn of_namesakes<'a>(&'a self, controller: &ObjectKey, uid: &'a str) -> impl Iterator<Item = &'a Arc<V>> + use<'a, V> {
        let uids = self.controllers.get(controller).into_iter().flat_map(BTreeMap::keys);
        uids.filter(move |other| other.as_str() != uid).flat_map(|other| self.controlled_by(other))
    }

    /// The objects of a namespace without a controller that `selector` matches, by name. No selector matches nothing.
    pub fn orphans<'a>(&'a self, namespace: &'a str, selector: Option<&'a Selector>) -> impl Iterator<Item = &'a Arc<V>> {
        selector.into_iter().flat_map(|selector| self.orphans.selected(namespace, selector))
    }
}

impl<V: HasMeta> Index<V> for OwnerIndex<V> {
    fn change(&mut self, old: Option<&Arc<V>>, new: Option<&Arc<V>>) {
        if let Some(old) = old {
            self.by_uid.remove(old.uid());
            match old.meta().controller() {
                Some(owner) => {
                    remove_from(&mut self.by_controller, owner.uid.as_str(), &old.key());
                    let key = ObjectKey::new(&old.meta().namespace, &owner.name);
                    if !self.by_controller.contains_key(owner.uid.as_str()) {
                        remove_from(&mut self.controllers, &key, &Uid::from(&owner.uid));
                    }
                }
                None => self.orphans.remove(old),
            }
        }
        if let Some(new) = new {
            self.by_uid.insert(new.uid().clone(), Arc::clone(new));
            match new.meta().controller() {
                Some(owner) => {
                    let (key, uid) = (ObjectKey::new(&new.meta().namespace, &owner.name), Uid::from(&owner.uid));
                    self.controllers.entry(key).or_default().insert(uid.clone(), ());
                    self.by_controller.entry(uid).or_default().insert(new.key(), Arc::clone(new));
                }
                None => self.orphans.add(new),
            }
        }
    }
}

/// Removes one object from its group, and removes an empty group.
pub(crate) fn remove_from<G: Ord + Borrow<Q>, Q: Ord + ?Sized, K: Ord, V>(groups: &mut BTreeMap<G, BTreeMap<K, V>>, group: &Q, key: &K) {
    if let Some(members) = groups.get_mut(group) {
        members.remove(key);
        if members.is_empty() {
            groups.remove(group);
        }
    }
}
