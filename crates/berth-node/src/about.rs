//! Events about pods.

use berth_workloads::plan::{EventRecord, ObjectRef, Repeat, Severity};

pub(crate) fn about_pod(namespace: &str, name: &str, uid: &str, severity: Severity, reason: &'static str, message: String) -> EventRecord {
    let about = ObjectRef {
        group: "",
        resource: "pods",
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        resource_version: None,
    };
    EventRecord { about, about_kind: "Pod", about_api_version: "v1".to_owned(), severity, reason, message, repeat: Repeat::Each }
}
