//! Events about pods.

use berth_identity::{ObjectKey, ObjectRef, Uid};
use berth_workloads::{
    plan::{EventRecord, Repeat, Severity},
    resources::PODS,
};

pub(crate) fn about_pod(key: ObjectKey, uid: &Uid, severity: Severity, reason: &'static str, message: String) -> EventRecord {
    let about = ObjectRef { resource: PODS, key, uid: uid.clone(), resource_version: None };
    EventRecord {
        about,
        about_kind: "Pod".into(),
        about_api_version: "v1".into(),
        severity,
        reason: reason.into(),
        message,
        repeat: Repeat::Each,
    }
}
