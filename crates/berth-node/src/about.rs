//! Events about pods.

use berth_identity::{ObjectKey, ObjectRef, Uid};
use berth_workloads::{
    plan::{EventRecord, Severity},
    resources::PODS,
};

pub(crate) fn about_pod(key: ObjectKey, uid: &Uid, severity: Severity, reason: &'static str, message: String) -> EventRecord {
    EventRecord::new(ObjectRef { resource: PODS, key, uid: uid.clone(), resource_version: None }, severity, reason, message)
}
