//! The Jobs and ReplicationControllers of the change.

use super::Observer;
use crate::others::{LiveOther, OtherKind};
use berth_identity::ObjectKey;
use berth_store::env::Timestamp;
use berth_workloads::view::{JobView, ReplicaSetView};

impl Observer {
    pub(super) fn put_job(&mut self, view: JobView, now: Timestamp) {
        self.put_other(OtherKind::Job, &view.meta.key(), LiveOther::Job(Box::new(view)), now);
    }

    pub(super) fn put_controller(&mut self, view: ReplicaSetView, now: Timestamp) {
        self.put_other(OtherKind::ReplicationController, &view.meta.key(), LiveOther::ReplicationController(Box::new(view)), now);
    }

    fn put_other(&mut self, kind: OtherKind, key: &ObjectKey, view: LiveOther, now: Timestamp) {
        let at = self.at(now);
        if let Some(other) = self.others.iter_mut().find(|other| other.kind == kind && other.key == *key) {
            other.put(view, at);
        }
    }
}
