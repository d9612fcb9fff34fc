//! The checks of the restricted level. Each returns the violation of a pod, in upstream's words.

use super::{
    baseline::{added_capabilities, is_seccomp_allowed, seccomp as bad_seccomp},
    found::{Violation, containers, plural, quoted, setters, unique},
    subject::Subject,
};
use crate::{pod::volume_sources, unset::list};
use k8s_openapi::api::core::v1::SecurityContext;

/// Volume types that expose nothing of the node.
const VOLUME_TYPES: &[&str] =
    &["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret"];

pub(super) fn privilege_escalation(pod: &Subject<'_>) -> Option<Violation> {
    let is_off = |context: &SecurityContext| context.allow_privilege_escalation == Some(false);
    let names = pod.parts_where(|part| !part.context.is_some_and(is_off));
    let detail = || format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names));
    (!names.is_empty()).then(|| Violation { reason: "allowPrivilegeEscalation != false", detail: detail() })
}

pub(super) fn capabilities(pod: &Subject<'_>) -> Option<Violation> {
    let drops_all = |context: &SecurityContext| {
        let capabilities = context.capabilities.as_ref();
        capabilities.is_some_and(|capabilities| list(&capabilities.drop).iter().any(|name| name == "ALL"))
    };
    let keeping = pod.parts_where(|part| !part.context.is_some_and(drops_all));
    let keeping = (!keeping.is_empty()).then(|| format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    let details: Vec<String> = keeping.into_iter().chain(added_capabilities(pod, &["NET_BIND_SERVICE"])).collect();
    (!details.is_empty()).then(|| Violation { reason: "unrestricted capabilities", detail: details.join("; ") })
}

pub(super) fn volume_types(pod: &Subject<'_>) -> Option<Violation> {
    let bad: Vec<(&str, &str)> = list(&pod.spec.volumes)
        .iter()
        .map(|volume| (volume.name.as_str(), volume_sources::names(volume)))
        .filter(|(_, kinds)| !kinds.iter().any(|kind| VOLUME_TYPES.contains(kind)))
        .map(|(name, kinds)| (name, kinds.first().copied().unwrap_or("unknown")))
        .collect();
    let types = unique(bad.iter().map(|(_, kind)| *kind));
    (!bad.is_empty()).then(|| Violation {
        reason: "restricted volume types",
        detail: format!(
            "{} {} {} {} {}",
            plural(bad.len(), "volume", "volumes"),
            quoted(bad.iter().map(|(name, _)| name)),
            plural(bad.len(), "uses", "use"),
            plural(types.len(), "restricted volume type", "restricted volume types"),
            quoted(types)
        ),
    })
}

pub(super) fn run_as_non_root(pod: &Subject<'_>) -> Option<Violation> {
    let of_pod = pod.context().and_then(|context| context.run_as_non_root);
    let names = pod.containers_where(|context| context.run_as_non_root == Some(false));
    let reason = "runAsNonRoot != true";
    if let Some(who) = setters(of_pod == Some(false), &names) {
        return Some(Violation { reason, detail: format!("{who} must not set securityContext.runAsNonRoot=false") });
    }
    let silent = pod.parts_where(|part| part.context.and_then(|context| context.run_as_non_root).is_none());
    let detail = || format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent));
    (of_pod.is_none() && !silent.is_empty()).then(|| Violation { reason, detail: detail() })
}

pub(super) fn run_as_user(pod: &Subject<'_>) -> Option<Violation> {
    let of_pod = pod.context().and_then(|context| context.run_as_user) == Some(0);
    let names = pod.containers_where(|context| context.run_as_user == Some(0));
    let detail = format!("{} must not set runAsUser=0", setters(of_pod, &names)?);
    Some(Violation { reason: "runAsUser=0", detail })
}

pub(super) fn seccomp(pod: &Subject<'_>) -> Option<Violation> {
    if let Some(violation) = bad_seccomp(pod) {
        return Some(violation);
    }
    let of_pod = pod.context().and_then(|context| context.seccomp_profile.as_ref());
    let silent = pod.parts_where(|part| part.context.is_none_or(|context| context.seccomp_profile.is_none()));
    let is_bad = !of_pod.is_some_and(|profile| is_seccomp_allowed(&profile.type_)) && !silent.is_empty();
    is_bad.then(|| Violation {
        reason: "seccompProfile",
        detail: format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            containers(&silent)
        ),
    })
}
