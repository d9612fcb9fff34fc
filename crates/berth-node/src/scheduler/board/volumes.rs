//! What the board learns of volumes, their claims and their classes, and which pods it affects.

use super::{super::view::PodInfo, Board, order};
use berth_identity::ObjectKey;
use berth_workloads::volume_binding::{ClaimView, ClassView, VolumeView};
use std::sync::Arc;

impl Board {
    /// Takes in a claim's new version.
    pub fn set_claim(&mut self, claim: Arc<ClaimView>) {
        let key = claim.meta.key();
        if self.claims.set_claim(claim) {
            self.give_users_back(&key);
        }
        self.claim_changed(&key);
    }

    /// Takes in that a claim is gone.
    pub fn remove_claim(&mut self, claim: &ClaimView) {
        let key = claim.meta.key();
        self.claims.remove_claim(&key);
        self.claim_changed(&key);
    }

    /// Takes in a volume's new version.
    pub fn set_volume(&mut self, volume: Arc<VolumeView>) {
        let reserved = volume.reserved_for();
        let before = self.claims.set_volume(volume).and_then(|old| old.reserved_for());
        if reserved.is_none() {
            self.volumes_changed();
        }
        before.iter().filter(|claim| Some(*claim) != reserved.as_ref()).for_each(|claim| self.give_users_back(claim));
        before.iter().chain(&reserved).for_each(|claim| self.requeue_users(claim));
    }

    /// Takes in that a volume is gone.
    pub fn remove_volume(&mut self, volume: &VolumeView) {
        let chosen = self.claims.remove_volume(&volume.meta.name);
        if let Some(claim) = volume.reserved_for().or(chosen) {
            self.give_users_back(&claim);
            self.requeue_users(&claim);
        }
    }

    /// Lets pods wait again that use claims.
    fn volumes_changed(&mut self) {
        let users: Vec<Arc<PodInfo>> = self.parked.iter().filter(|pod| !pod.claims.is_empty()).cloned().collect();
        users.into_iter().for_each(|pod| self.requeue(pod));
    }

    /// Lets pods wait again that use the claim.
    fn requeue_users(&mut self, claim: &ObjectKey) {
        self.parked.users(claim).into_iter().for_each(|pod| self.requeue(pod));
    }

    /// The claim does not get a volume on the chosen node: the pods that wait for it need another place.
    fn give_users_back(&mut self, claim: &ObjectKey) {
        let has_volume = self.claims.is_bound(claim);
        let users = if has_volume { Vec::new() } else { self.mounting.users(claim) };
        users.iter().for_each(|pod| self.give_back(pod));
    }

    /// Takes in a storage class' new version.
    pub fn set_class(&mut self, class: Arc<ClassView>) {
        if self.claims.set_class(class) {
            let held = std::mem::take(&mut self.held);
            held.iter().for_each(|pod| _ = self.waiting.insert(order(pod), Arc::clone(pod)));
            self.volumes_changed();
        }
    }

    /// Takes in that a storage class is gone.
    pub fn remove_class(&mut self, class: &ClassView) {
        self.claims.remove_class(&class.meta.name);
    }

    /// Lets pods wait again that the claim held up, or that are about to mount it.
    fn claim_changed(&mut self, key: &ObjectKey) {
        for pod in self.held.users(key) {
            self.held.remove(&pod.uid);
            self.waiting.insert(order(&pod), pod);
        }
        self.mounting.users(key).into_iter().for_each(|pod| _ = self.waiting.insert(order(&pod), pod));
        self.requeue_users(key);
    }
}
