//! The checks of the baseline level. Each returns the violation of a pod, in upstream's words.

use super::{
    found::{Violation, containers, plural, quoted, setters, unique},
    subject::{Part, Subject},
};
use crate::unset::{entries, list, text};
use k8s_openapi::api::core::v1::{LifecycleHandler, Probe, SELinuxOptions, SecurityContext};
use std::collections::BTreeSet;

const CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The allowed types. Later releases allow more, in this order.
const SE_LINUX_TYPES: [&str; 4] = ["container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

/// The allowed kernel parameters. Later releases allow more, in this order.
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// The annotations that preceded the fields: a prefix and a container's name.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";

pub(super) fn app_armor(pod: &Subject<'_>) -> Option<Violation> {
    let is_allowed = |kind: &str| matches!(kind, "RuntimeDefault" | "Localhost");
    let of_container = |context: &SecurityContext| context.app_armor_profile.as_ref().is_some_and(|profile| !is_allowed(&profile.type_));
    let of_pod = pod.context().and_then(|context| context.app_armor_profile.as_ref()).map(|profile| profile.type_.as_str());
    let of_pod = of_pod.filter(|kind| !is_allowed(kind));
    let kinds = pod.containers.iter().filter_map(|part| part.context?.app_armor_profile.as_ref()).map(|profile| profile.type_.as_str());
    let bad_kinds = unique(kinds.chain(of_pod).filter(|kind| !is_allowed(kind)));
    let is_bad = |value: &str| !(value.is_empty() || value == "runtime/default" || value.starts_with("localhost/"));
    let annotations: Vec<String> = entries(&pod.meta.annotations)
        .filter(|(key, value)| key.starts_with(APP_ARMOR) && is_bad(value))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    let noted = (!annotations.is_empty()).then(|| plural(annotations.len(), "annotation", "annotations").to_owned());
    let who: Vec<String> = setters(of_pod.is_some(), &pod.containers_where(of_container)).into_iter().chain(noted).collect();
    let bad: Vec<String> = bad_kinds.into_iter().map(str::to_owned).chain(annotations).collect();
    (!bad.is_empty()).then(|| Violation {
        reason: plural(bad.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles"),
        detail: format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(&bad)),
    })
}

pub(super) fn capabilities(pod: &Subject<'_>) -> Option<Violation> {
    let detail = added_capabilities(pod, CAPABILITIES)?;
    Some(Violation { reason: "non-default capabilities", detail })
}

/// Returns who adds other capabilities than the allowed ones.
pub(super) fn added_capabilities(pod: &Subject<'_>, allowed: &[&str]) -> Option<String> {
    let is_bad = |capability: &&str| !allowed.contains(capability);
    let names = pod.parts_where(|part| added(part).any(|capability| is_bad(&capability)));
    let bad = unique(pod.containers.iter().flat_map(added).filter(is_bad));
    (!names.is_empty()).then(|| format!("{} must not include {} in securityContext.capabilities.add", containers(&names), quoted(bad)))
}

fn added<'a>(part: &Part<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    let capabilities = part.context.and_then(|context| context.capabilities.as_ref());
    capabilities.map_or(&[][..], |capabilities| list(&capabilities.add)).iter().map(String::as_str)
}

pub(super) fn host_namespaces(pod: &Subject<'_>) -> Option<Violation> {
    let spec = pod.spec;
    let all = [("hostNetwork=true", spec.host_network), ("hostPID=true", spec.host_pid), ("hostIPC=true", spec.host_ipc)];
    let shared: Vec<&str> = all.into_iter().filter(|(_, is_shared)| *is_shared == Some(true)).map(|(text, _)| text).collect();
    (!shared.is_empty()).then(|| Violation { reason: "host namespaces", detail: shared.join(", ") })
}

pub(super) fn host_path_volumes(pod: &Subject<'_>) -> Option<Violation> {
    let volumes = list(&pod.spec.volumes).iter().filter(|volume| volume.host_path.is_some());
    let names: Vec<&str> = volumes.map(|volume| volume.name.as_str()).collect();
    let detail = || format!("{} {}", plural(names.len(), "volume", "volumes"), quoted(&names));
    (!names.is_empty()).then(|| Violation { reason: "hostPath volumes", detail: detail() })
}

pub(super) fn host_ports(pod: &Subject<'_>) -> Option<Violation> {
    let of = |part: &Part<'_>| part.ports.iter().filter_map(|port| port.host_port.filter(|port| *port != 0)).collect::<Vec<_>>();
    let names = pod.parts_where(|part| !of(part).is_empty());
    let ports: Vec<String> = pod.containers.iter().flat_map(of).map(|port| port.to_string()).collect();
    let ports = unique(ports.iter().map(String::as_str));
    (!names.is_empty()).then(|| Violation {
        reason: "hostPort",
        detail: format!(
            "{} {} {} {}",
            containers(&names),
            plural(names.len(), "uses", "use"),
            plural(ports.len(), "hostPort", "hostPorts"),
            ports.into_iter().collect::<Vec<_>>().join(", ")
        ),
    })
}

pub(super) fn probe_hosts(pod: &Subject<'_>) -> Option<Violation> {
    let names = unique(pod.parts_where(|part| !hosts(part).is_empty()));
    let hosts = unique(pod.containers.iter().flat_map(hosts));
    let names: Vec<&str> = names.into_iter().collect();
    (!names.is_empty()).then(|| Violation {
        reason: "probe or lifecycle host",
        detail: format!(
            "{} {} {} {}",
            containers(&names),
            plural(names.len(), "uses", "use"),
            plural(hosts.len(), "probe or lifecycle host", "probe or lifecycle hosts"),
            quoted(hosts)
        ),
    })
}

/// Returns the hosts in a container's probes and lifecycle hooks.
fn hosts<'a>(part: &Part<'a>) -> Vec<&'a str> {
    let of_probe = |probe: &'a Probe| {
        [probe.http_get.as_ref().map(|action| text(&action.host)), probe.tcp_socket.as_ref().map(|action| text(&action.host))]
    };
    let of_hook = |hook: &'a LifecycleHandler| {
        [hook.http_get.as_ref().map(|action| text(&action.host)), hook.tcp_socket.as_ref().map(|action| text(&action.host))]
    };
    let hooks = part.lifecycle.into_iter().flat_map(|lifecycle| [&lifecycle.post_start, &lifecycle.pre_stop]).flatten();
    let all = part.probes.into_iter().flatten().flat_map(of_probe).chain(hooks.flat_map(of_hook));
    all.flatten().filter(|host| !host.is_empty()).collect()
}

pub(super) fn privileged(pod: &Subject<'_>) -> Option<Violation> {
    let names = pod.containers_where(|context| context.privileged == Some(true));
    let detail = || format!("{} must not set securityContext.privileged=true", containers(&names));
    (!names.is_empty()).then(|| Violation { reason: "privileged", detail: detail() })
}

/// A pod with a user namespace may see its whole `/proc`.
pub(super) fn proc_mount_of_node_users(pod: &Subject<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { proc_mount(pod) }
}

pub(super) fn proc_mount(pod: &Subject<'_>) -> Option<Violation> {
    let names = pod.containers_where(|context| context.proc_mount.as_deref().is_some_and(|kind| kind != "Default"));
    let kinds = pod.containers.iter().filter_map(|part| part.context?.proc_mount.as_deref()).filter(|kind| *kind != "Default");
    let detail = || format!("{} must not set securityContext.procMount to {}", containers(&names), quoted(unique(kinds)));
    (!names.is_empty()).then(|| Violation { reason: "procMount", detail: detail() })
}

/// Only the first `known` types are allowed.
pub(super) fn se_linux(pod: &Subject<'_>, known: usize) -> Option<Violation> {
    let is_bad_type = |kind: &str| !kind.is_empty() && !SE_LINUX_TYPES[..known].contains(&kind);
    let is_bad =
        |options: &SELinuxOptions| is_bad_type(text(&options.type_)) || !text(&options.user).is_empty() || !text(&options.role).is_empty();
    let of_pod = pod.context().and_then(|context| context.se_linux_options.as_ref()).filter(|options| is_bad(options));
    let names = pod.containers_where(|context| context.se_linux_options.as_ref().is_some_and(is_bad));
    let who = setters(of_pod.is_some(), &names)?;
    let of_containers = pod.containers.iter().filter_map(|part| part.context?.se_linux_options.as_ref());
    let all: Vec<&SELinuxOptions> = of_pod.into_iter().chain(of_containers).collect();
    let types = unique(all.iter().map(|options| text(&options.type_)).filter(|kind| is_bad_type(kind)));
    let mut what = Vec::new();
    if !types.is_empty() {
        what.push(format!("{} {}", plural(types.len(), "type", "types"), quoted(types)));
    }
    if all.iter().any(|options| !text(&options.user).is_empty()) {
        what.push("user may not be set".to_owned());
    }
    if all.iter().any(|options| !text(&options.role).is_empty()) {
        what.push("role may not be set".to_owned());
    }
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {}", what.join("; "));
    Some(Violation { reason: "seLinuxOptions", detail })
}

/// The annotations that preceded the field.
pub(super) fn seccomp_annotations(pod: &Subject<'_>) -> Option<Violation> {
    let is_bad = |value: &str| !matches!(value, "runtime/default" | "docker/default") && !value.starts_with("localhost/");
    let containers: BTreeSet<&str> = pod.containers.iter().map(|part| part.name).collect();
    let has_container = |key: &str| key.strip_prefix(SECCOMP).is_some_and(|name| containers.contains(name));
    let bad: Vec<String> = entries(&pod.meta.annotations)
        .filter(|(key, value)| (key.as_str() == SECCOMP_OF_POD || has_container(key)) && is_bad(value))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    let detail = || format!("forbidden {} {}", plural(bad.len(), "annotation", "annotations"), bad.join(", "));
    (!bad.is_empty()).then(|| Violation { reason: "seccompProfile", detail: detail() })
}

pub(super) fn seccomp(pod: &Subject<'_>) -> Option<Violation> {
    let of_pod = pod.context().and_then(|context| context.seccomp_profile.as_ref()).map(|profile| profile.type_.as_str());
    let of_pod = of_pod.filter(|kind| !is_seccomp_allowed(kind));
    let names = pod.containers_where(|context| context.seccomp_profile.as_ref().is_some_and(|profile| !is_seccomp_allowed(&profile.type_)));
    let who = setters(of_pod.is_some(), &names)?;
    let kinds = pod.containers.iter().filter_map(|part| part.context?.seccomp_profile.as_ref()).map(|profile| profile.type_.as_str());
    let bad = unique(kinds.chain(of_pod).filter(|kind| !is_seccomp_allowed(kind)));
    let detail = format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(bad));
    Some(Violation { reason: "seccompProfile", detail })
}

pub(super) fn is_seccomp_allowed(kind: &str) -> bool {
    matches!(kind, "RuntimeDefault" | "Localhost")
}

/// Only the first `known` are allowed.
pub(super) fn sysctls(pod: &Subject<'_>, known: usize) -> Option<Violation> {
    let all = pod.context().map_or(&[][..], |context| list(&context.sysctls)).iter().map(|sysctl| sysctl.name.as_str());
    let bad: Vec<&str> = all.filter(|name| !SYSCTLS[..known].contains(name)).collect();
    (!bad.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: bad.join(", ") })
}

pub(super) fn host_process(pod: &Subject<'_>) -> Option<Violation> {
    let of_pod = pod.context().and_then(|context| context.windows_options.as_ref()?.host_process) == Some(true);
    let names = pod.containers_where(|context| context.windows_options.as_ref().is_some_and(|options| options.host_process == Some(true)));
    let detail = format!("{} must not set securityContext.windowsOptions.hostProcess=true", setters(of_pod, &names)?);
    Some(Violation { reason: "hostProcess", detail })
}
