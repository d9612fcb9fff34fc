//! Security contexts.

use crate::{Path, faults::Faults, unset::list};
use k8s_openapi::api::core::v1::{PodSpec, SecurityContext};

/// User and group numbers that Linux knows.
const IDS: (i64, i64) = (0, i32::MAX as i64);

pub(super) fn validate_pod(spec: &PodSpec, path: &Path, faults: &mut Faults) {
    let Some(context) = &spec.security_context else { return };
    let path = path.child("securityContext");
    let ids = [("fsGroup", context.fs_group), ("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)];
    validate_ids(&ids, &path, faults);
    for (index, group) in list(&context.supplemental_groups).iter().enumerate() {
        faults.within(&path.child("supplementalGroups").index(index), *group, IDS);
    }
    faults.optional_one_of(&path.child("fsGroupChangePolicy"), &context.fs_group_change_policy, &["Always", "OnRootMismatch"]);
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        faults.invalid(&path.child("shareProcessNamespace"), true, "ShareProcessNamespace and HostPID cannot both be enabled");
    }
}

pub(super) fn validate_container(context: Option<&SecurityContext>, path: &Path, faults: &mut Faults) {
    let Some(context) = context else { return };
    validate_ids(&[("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)], path, faults);
    if context.allow_privilege_escalation == Some(false) && context.privileged == Some(true) {
        // Upstream prints the whole context; nobody reads it there.
        faults.invalid(path, serde_json::json!({}), "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
    }
}

fn validate_ids(ids: &[(&str, Option<i64>)], path: &Path, faults: &mut Faults) {
    for (field, id) in ids {
        if let Some(id) = id {
            faults.within(&path.child(field), *id, IDS);
        }
    }
}
