//! Indexes of claims, volumes, classes and pods.

use crate::cache::{Cache, Index};
use berth_identity::{Name, ObjectKey, Uid};
use berth_workloads::{
    view::View,
    volume_binding::{ClaimRef, ClaimUserView, ClaimView, ClassView, VolumeView, claim::class_of},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// All claims.
pub type ClaimCache = Cache<ClaimView, ClaimIndex>;
/// All volumes.
pub type VolumeCache = Cache<VolumeView, VolumeIndex>;
/// All storage classes.
pub type ClassCache = Cache<ClassView>;
/// All pods, as users of claims.
pub type ClaimUserCache = Cache<ClaimUserView, ClaimUserIndex>;

/// The key of the claim that a volume names.
#[must_use]
pub fn claim_key(claim_ref: &ClaimRef) -> ObjectKey {
    ObjectKey::new(&claim_ref.namespace, &claim_ref.name)
}

/// Keys of claims by the volume that they name. Claims without a volume are listed by class.
#[derive(Debug, Default)]
pub struct ClaimIndex {
    by_volume: BTreeMap<String, BTreeSet<ObjectKey>>,
    looking: BTreeMap<String, BTreeSet<ObjectKey>>,
}

impl ClaimIndex {
    /// The claims that name the volume.
    pub fn naming(&self, volume: &str) -> impl Iterator<Item = &ObjectKey> {
        self.by_volume.get(volume).into_iter().flatten()
    }

    /// The claims of the class that have no volume.
    pub fn looking(&self, class: &str) -> impl Iterator<Item = &ObjectKey> {
        self.looking.get(class).into_iter().flatten()
    }

    fn set_of(&mut self, claim: &ClaimView) -> (&mut BTreeMap<String, BTreeSet<ObjectKey>>, String) {
        match claim.volume_name.as_str() {
            "" => (&mut self.looking, class_of(claim).to_owned()),
            volume => (&mut self.by_volume, volume.to_owned()),
        }
    }
}

impl Index<ClaimView> for ClaimIndex {
    fn change(&mut self, old: Option<&Arc<ClaimView>>, new: Option<&Arc<ClaimView>>) {
        if let Some(old) = old {
            let (sets, name) = self.set_of(old);
            remove(sets, &name, |keys| _ = keys.remove(&old.key()), BTreeSet::is_empty);
        }
        if let Some(new) = new {
            let (sets, name) = self.set_of(new);
            sets.entry(name).or_default().insert(new.key());
        }
    }
}

/// Volumes by the claim that they are reserved for. Available ones are listed by class.
#[derive(Debug, Default)]
pub struct VolumeIndex {
    reserved: BTreeMap<ObjectKey, BTreeMap<Name, Arc<VolumeView>>>,
    free: BTreeMap<String, BTreeMap<Name, Arc<VolumeView>>>,
}

impl VolumeIndex {
    /// The volumes reserved for a claim with this key.
    pub fn reserved(&self, claim: &ObjectKey) -> impl Iterator<Item = &Arc<VolumeView>> {
        self.reserved.get(claim).into_iter().flat_map(BTreeMap::values)
    }

    /// The available volumes of the class.
    pub fn free(&self, class: &str) -> impl Iterator<Item = &Arc<VolumeView>> {
        self.free.get(class).into_iter().flat_map(BTreeMap::values)
    }
}

impl Index<VolumeView> for VolumeIndex {
    fn change(&mut self, old: Option<&Arc<VolumeView>>, new: Option<&Arc<VolumeView>>) {
        if let Some(old) = old {
            if let Some(claim_ref) = &old.claim_ref {
                remove(&mut self.reserved, &claim_key(claim_ref), |all| _ = all.remove(&old.meta.name), BTreeMap::is_empty);
            }
            remove(&mut self.free, &old.class, |all| _ = all.remove(&old.meta.name), BTreeMap::is_empty);
        }
        if let Some(new) = new {
            if let Some(claim_ref) = &new.claim_ref {
                self.reserved.entry(claim_key(claim_ref)).or_default().insert(new.meta.name.clone(), Arc::clone(new));
            }
            if new.is_free() {
                self.free.entry(new.class.clone()).or_default().insert(new.meta.name.clone(), Arc::clone(new));
            }
        }
    }
}

/// Pods by the claims they use.
#[derive(Debug, Default)]
pub struct ClaimUserIndex(BTreeMap<ObjectKey, BTreeMap<Uid, Arc<ClaimUserView>>>);

impl ClaimUserIndex {
    /// The pods that use the claim.
    pub fn users(&self, claim: &ObjectKey) -> impl Iterator<Item = &Arc<ClaimUserView>> {
        self.0.get(claim).into_iter().flat_map(BTreeMap::values)
    }
}

impl Index<ClaimUserView> for ClaimUserIndex {
    fn change(&mut self, old: Option<&Arc<ClaimUserView>>, new: Option<&Arc<ClaimUserView>>) {
        if let Some(pod) = old {
            for claim in claims(pod) {
                remove(&mut self.0, &claim, |pods| _ = pods.remove(&pod.meta.uid), BTreeMap::is_empty);
            }
        }
        if let Some(pod) = new {
            for claim in claims(pod) {
                self.0.entry(claim).or_default().insert(pod.meta.uid.clone(), Arc::clone(pod));
            }
        }
    }
}

/// The keys of the claims that a pod uses.
pub(super) fn claims(pod: &ClaimUserView) -> impl Iterator<Item = ObjectKey> + '_ {
    pod.claims.iter().map(|claim| ObjectKey::new(&pod.meta.namespace, claim))
}

/// Removes an element from one of many collections, and removes the collection if it is empty then.
fn remove<K: Ord, C>(all: &mut BTreeMap<K, C>, key: &K, take: impl FnOnce(&mut C), is_empty: impl FnOnce(&C) -> bool) {
    if let Some(one) = all.get_mut(key) {
        take(one);
        if is_empty(one) {
            all.remove(key);
        }
    }
}
