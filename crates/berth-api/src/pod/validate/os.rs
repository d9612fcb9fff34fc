//! The fields that pods for one operating system must not have.

use crate::{Path, faults::Faults, unset::list};
use k8s_openapi::api::core::v1::{PodSecurityContext, PodSpec, SecurityContext};

const OF_LINUX: &str = "windows options cannot be set for a linux pod";
const OF_WINDOWS: &str = "cannot be set for a windows pod";

/// Source: upstream `validateOS`, `validateLinux`, `validateWindows`.
pub(super) fn validate(spec: &PodSpec, path: &Path, faults: &mut Faults) {
    let Some(os) = &spec.os else { return };
    match os.name.as_str() {
        "linux" => validate_linux(spec, path, faults),
        "windows" => validate_windows(spec, path, faults),
        "" => faults.required(&path.child("os").child("name"), ""),
        name => faults.known(&path.child("os"), name, &["linux", "windows"]),
    }
}

fn validate_linux(spec: &PodSpec, path: &Path, faults: &mut Faults) {
    if spec.security_context.as_ref().is_some_and(|context| context.windows_options.is_some()) {
        faults.forbidden(&path.child("securityContext").child("windowsOptions"), OF_LINUX);
    }
    for (path, context) in contexts(spec, path) {
        if context.windows_options.is_some() {
            faults.forbidden(&path.child("windowsOptions"), OF_LINUX);
        }
    }
}

fn validate_windows(spec: &PodSpec, path: &Path, faults: &mut Faults) {
    let context = spec.security_context.clone().unwrap_or_default();
    refuse(&fields_of_pod(spec, &context), path, faults);
    for (path, context) in contexts(spec, path) {
        refuse(&fields_of_container(context), &path, faults);
    }
}

fn refuse(fields: &[(&[&str], bool)], path: &Path, faults: &mut Faults) {
    for (field, _) in fields.iter().filter(|(_, is_set)| *is_set) {
        let path = field.iter().fold(path.clone(), |path, name| path.child(name));
        faults.forbidden(&path, OF_WINDOWS);
    }
}

fn fields_of_pod(spec: &PodSpec, context: &PodSecurityContext) -> [(&'static [&'static str], bool); 15] {
    [
        (&["securityContext", "appArmorProfile"], context.app_armor_profile.is_some()),
        (&["securityContext", "seLinuxOptions"], context.se_linux_options.is_some()),
        (&["hostUsers"], spec.host_users.is_some()),
        (&["hostPID"], spec.host_pid == Some(true)),
        (&["hostIPC"], spec.host_ipc == Some(true)),
        (&["securityContext", "seccompProfile"], context.seccomp_profile.is_some()),
        (&["securityContext", "fsGroup"], context.fs_group.is_some()),
        (&["securityContext", "fsGroupChangePolicy"], context.fs_group_change_policy.is_some()),
        (&["securityContext", "sysctls"], !list(&context.sysctls).is_empty()),
        (&["shareProcessNamespace"], spec.share_process_namespace.is_some()),
        (&["securityContext", "runAsUser"], context.run_as_user.is_some()),
        (&["securityContext", "runAsGroup"], context.run_as_group.is_some()),
        (&["securityContext", "supplementalGroups"], context.supplemental_groups.is_some()),
        (&["securityContext", "supplementalGroupsPolicy"], context.supplemental_groups_policy.is_some()),
        (&["securityContext", "seLinuxChangePolicy"], context.se_linux_change_policy.is_some()),
    ]
}

fn fields_of_container(context: &SecurityContext) -> [(&'static [&'static str], bool); 10] {
    [
        (&["appArmorProfile"], context.app_armor_profile.is_some()),
        (&["seLinuxOptions"], context.se_linux_options.is_some()),
        (&["seccompProfile"], context.seccomp_profile.is_some()),
        (&["capabilities"], context.capabilities.is_some()),
        (&["readOnlyRootFilesystem"], context.read_only_root_filesystem.is_some()),
        (&["privileged"], context.privileged.is_some()),
        (&["allowPrivilegeEscalation"], context.allow_privilege_escalation.is_some()),
        (&["procMount"], context.proc_mount.is_some()),
        (&["runAsUser"], context.run_as_user.is_some()),
        (&["runAsGroup"], context.run_as_group.is_some()),
    ]
}

/// Returns the security context of each container that has one, in upstream's order of validation.
fn contexts<'a>(spec: &'a PodSpec, path: &Path) -> Vec<(Path, &'a SecurityContext)> {
    let init: Vec<_> = list(&spec.init_containers).iter().map(|container| &container.security_context).collect();
    let regular: Vec<_> = spec.containers.iter().map(|container| &container.security_context).collect();
    let ephemeral: Vec<_> = list(&spec.ephemeral_containers).iter().map(|container| &container.security_context).collect();
    let mut found = Vec::new();
    for (field, contexts) in [("initContainers", init), ("containers", regular), ("ephemeralContainers", ephemeral)] {
        for (index, context) in contexts.into_iter().enumerate() {
            let path = path.child(field).index(index).child("securityContext");
            found.extend(context.iter().map(|context| (path.clone(), context)));
        }
    }
    found
}
