//! Security contexts.

use super::names::check_relative_path;
use crate::{FieldError, Path, faults::Faults, unset::list};
use k8s_openapi::api::core::v1::{AppArmorProfile, PodSpec, SeccompProfile, SecurityContext, Sysctl};
use std::collections::BTreeSet;

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
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        faults.invalid(&path.child("shareProcessNamespace"), true, "ShareProcessNamespace and HostPID cannot both be enabled");
    }
    validate_sysctls(list(&context.sysctls), &path.child("sysctls"), faults);
    faults.optional_one_of(&path.child("fsGroupChangePolicy"), &context.fs_group_change_policy, &["Always", "OnRootMismatch"]);
    validate_seccomp(context.seccomp_profile.as_ref(), &path.child("seccompProfile"), faults);
    validate_app_armor(context.app_armor_profile.as_ref(), &path.child("appArmorProfile"), faults);
    // The other policy is behind a gate that is off.
    let policies = [
        ("supplementalGroupsPolicy", &context.supplemental_groups_policy, &["Merge", "Strict"][..]),
        ("seLinuxChangePolicy", &context.se_linux_change_policy, &["Recursive"]),
    ];
    for (field, policy, known) in policies {
        policy.iter().for_each(|policy| faults.known(&path.child(field), policy, known));
    }
}

/// `has_own_users`: whether the users of the pod are not those of its node.
pub(super) fn validate_container(context: Option<&SecurityContext>, has_own_users: bool, path: &Path, faults: &mut Faults) {
    let Some(context) = context else { return };
    validate_ids(&[("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)], path, faults);
    if let Some(mount) = &context.proc_mount {
        faults.known(&path.child("procMount"), mount, &["Default", "Unmasked"]);
        if mount == "Unmasked" && !has_own_users {
            faults.invalid(&path.child("procMount"), mount.as_str(), "`hostUsers` must be false to use `Unmasked`");
        }
    }
    validate_seccomp(context.seccomp_profile.as_ref(), &path.child("seccompProfile"), faults);
    if context.allow_privilege_escalation == Some(false) {
        // Upstream prints the whole context, which this omits.
        let mut refuse = |with: &str| {
            faults.invalid(path, serde_json::json!({}), format!("cannot set `allowPrivilegeEscalation` to false and {with}"));
        };
        if context.privileged == Some(true) {
            refuse("`privileged` to true");
        }
        let added = context.capabilities.iter().flat_map(|capabilities| list(&capabilities.add));
        added.filter(|capability| *capability == "CAP_SYS_ADMIN").for_each(|_| refuse("`capabilities.Add` CAP_SYS_ADMIN"));
    }
    validate_app_armor(context.app_armor_profile.as_ref(), &path.child("appArmorProfile"), faults);
}

/// Types of the profiles that confine a container.
const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
/// Longest name of a profile of the node, in bytes.
const LOCALHOST_PROFILE_BYTES_MAX: usize = 4095;

/// Source: upstream `validateSeccompProfileField`.
fn validate_seccomp(profile: Option<&SeccompProfile>, path: &Path, faults: &mut Faults) {
    let Some(profile) = profile else { return };
    validate_profile_type(&profile.type_, "seccompProfile", &path.child("type"), faults);
    let name_path = path.child("localhostProfile");
    match (&profile.localhost_profile, profile.type_ == "Localhost") {
        (None, true) => faults.required(&name_path, "must be set when seccomp type is Localhost"),
        (Some(name), true) => faults.form(&name_path, name, check_relative_path),
        (Some(_), false) => faults.invalid(&name_path, serde_json::json!(profile), "can only be set when seccomp type is Localhost"),
        (None, false) => (),
    }
}

/// Source: upstream `ValidateAppArmorProfileField`.
fn validate_app_armor(profile: Option<&AppArmorProfile>, path: &Path, faults: &mut Faults) {
    let Some(profile) = profile else { return };
    let name_path = path.child("localhostProfile");
    match (profile.type_.as_str(), profile.localhost_profile.as_deref()) {
        ("Localhost", None | Some("")) => faults.required(&name_path, "must be set when AppArmor type is Localhost"),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                faults.invalid(&name_path, name, "must not be padded with whitespace");
            }
            if name.len() > LOCALHOST_PROFILE_BYTES_MAX {
                faults.add([FieldError::too_long(&name_path, LOCALHOST_PROFILE_BYTES_MAX)]);
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            faults.invalid(&name_path, name, "can only be set when AppArmor type is Localhost");
        }
        (type_, _) => validate_profile_type(type_, "appArmorProfile", &path.child("type"), faults),
    }
}

fn validate_profile_type(type_: &str, field: &str, path: &Path, faults: &mut Faults) {
    if type_.is_empty() {
        faults.required(path, &format!("type is required when {field} is set"));
    } else if !PROFILE_TYPES.contains(&type_) {
        faults.add([FieldError::not_supported(path, type_, PROFILE_TYPES)]);
    }
}

/// Longest name of a parameter of the kernel, in bytes.
const SYSCTL_BYTES_MAX: usize = 253;
const SYSCTL_FORM: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Source: upstream `validateSysctls`.
fn validate_sysctls(sysctls: &[Sysctl], path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, Sysctl { name, .. }) in sysctls.iter().enumerate() {
        let path = path.index(index).child("name");
        if !faults.set(&path, name) {
            continue;
        }
        if name.len() > SYSCTL_BYTES_MAX || !name.split(['.', '/']).all(is_sysctl_word) {
            faults.invalid(&path, name.as_str(), format!("must have at most {SYSCTL_BYTES_MAX} characters and match regex {SYSCTL_FORM}"));
        } else if seen.contains(name) {
            faults.duplicate(&path, name.as_str());
        }
        seen.insert(name);
    }
}

fn is_sysctl_word(word: &str) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    is_end(word.bytes().next()) && is_end(word.bytes().next_back()) && word.bytes().all(is_known)
}

fn validate_ids(ids: &[(&str, Option<i64>)], path: &Path, faults: &mut Faults) {
    for (field, id) in ids {
        if let Some(id) = id {
            faults.within(&path.child(field), *id, IDS);
        }
    }
}
