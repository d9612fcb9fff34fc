//! The restrictions of a pod's claims on its placement.

use super::view::PodInfo;
use berth_identity::{Name, ObjectKey, Uid};
use berth_workloads::{
    view::View,
    volume_binding::{BindingMode, ClaimView, ClassView},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// All claims, and how those of each class are bound.
#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: BTreeMap<ObjectKey, Arc<ClaimView>>,
    modes: BTreeMap<Name, BindingMode>,
}

/// Whether a pod can be placed, as far as its claims go.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It can; these of its claims get their volumes when its node is known.
    Placeable { delayed: Vec<Arc<ClaimView>> },
    /// Not before something happens to one of them. The text is the one that people know from `kubectl describe pod`.
    Held { why: String },
}

/// Pods that something is to be done for when one of their claims changes.
#[derive(Debug, Default)]
pub(super) struct ByClaim {
    pods: BTreeMap<Uid, Arc<PodInfo>>,
    users: BTreeMap<ObjectKey, BTreeSet<Uid>>,
}

impl ByClaim {
    pub(super) fn insert(&mut self, pod: Arc<PodInfo>) {
        for claim in keys(&pod) {
            self.users.entry(claim).or_default().insert(pod.uid.clone());
        }
        self.pods.insert(pod.uid.clone(), pod);
    }

    pub(super) fn remove(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let pod = self.pods.remove(uid)?;
        for claim in keys(&pod) {
            if let Some(users) = self.users.get_mut(&claim) {
                users.remove(uid);
                if users.is_empty() {
                    self.users.remove(&claim);
                }
            }
        }
        Some(pod)
    }

    pub(super) fn contains(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.pods.values()
    }

    /// The pods that use the claim.
    pub(super) fn users(&self, claim: &ObjectKey) -> Vec<Arc<PodInfo>> {
        let users = self.users.get(claim).into_iter().flatten();
        users.filter_map(|uid| self.pods.get(uid).cloned()).collect()
    }
}

fn keys(pod: &PodInfo) -> impl Iterator<Item = ObjectKey> + '_ {
    pod.claims.iter().map(|claim| ObjectKey::new(&pod.namespace, claim))
}

impl Claims {
    pub(super) fn set_claim(&mut self, claim: Arc<ClaimView>) {
        self.claims.insert(claim.key(), claim);
    }

    pub(super) fn remove_claim(&mut self, key: &ObjectKey) {
        self.claims.remove(key);
    }

    /// Gives whether claims of the class are bound otherwise than before.
    pub(super) fn set_class(&mut self, class: &ClassView) -> bool {
        self.modes.insert(class.meta.name.clone(), class.binding_mode) != Some(class.binding_mode)
    }

    pub(super) fn remove_class(&mut self, name: &str) {
        self.modes.remove(name);
    }

    pub(super) fn verdict(&self, pod: &PodInfo) -> Verdict {
        let mut delayed = Vec::new();
        for name in &pod.claims {
            match self.claims.get(&ObjectKey::new(&pod.namespace, name)) {
                None => return Verdict::Held { why: format!("persistentvolumeclaim \"{name}\" not found") },
                Some(claim) => match self.obstacle(claim) {
                    Some(why) => return Verdict::Held { why },
                    None if claim.is_bound() => (),
                    None => delayed.push(Arc::clone(claim)),
                },
            }
        }
        Verdict::Placeable { delayed }
    }

    fn obstacle(&self, claim: &ClaimView) -> Option<String> {
        let name = &claim.meta.name;
        if claim.meta.deleting {
            return Some(format!("persistentvolumeclaim \"{name}\" is being deleted"));
        }
        if claim.phase == "Lost" {
            return Some(format!("persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{}\"", claim.volume_name));
        }
        let waits = || claim.class_name().and_then(|class| self.modes.get(class)) == Some(&BindingMode::WaitForFirstConsumer);
        let is_delayed = || claim.volume_name.is_empty() && waits();
        // Once a node is chosen the binder may have begun: the claim still counts as one that waits.
        let is_under_way = claim.selected_node().is_some();
        (!claim.is_bound() && !is_delayed() && !is_under_way).then(|| "pod has unbound immediate PersistentVolumeClaims".to_owned())
    }
}
