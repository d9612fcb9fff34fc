//! The taints that a DaemonSet's pods tolerate.

use k8s_openapi::api::core::v1::{PodSpec, Toleration};

/// Taints that each pod tolerates: its node may have problems, which the pod may be there to report.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// The same for pods in the network of their node.
const TOLERATED_BY_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The spec with the tolerations of a DaemonSet's pod.
///
/// Source: kubernetes `pkg/controller/daemon/util/daemonset_util.go`, `AddOrUpdateDaemonPodTolerations`.
pub(super) fn with_daemon_tolerations(mut spec: PodSpec) -> PodSpec {
    let uses_host_network = spec.host_network == Some(true);
    let tolerations = spec.tolerations.get_or_insert_default();
    TOLERATED.into_iter().for_each(|taint| tolerate(tolerations, taint));
    if uses_host_network {
        tolerate(tolerations, TOLERATED_BY_HOST_NETWORK);
    }
    spec
}

/// Adds a toleration without an end. One of the template that has an end loses it.
fn tolerate(tolerations: &mut Vec<Toleration>, (key, effect): (&str, &str)) {
    let text = |text: &str| Some(text.to_owned());
    let toleration = Toleration { key: text(key), operator: text("Exists"), effect: text(effect), ..Toleration::default() };
    let is_same = |other: &Toleration| Toleration { toleration_seconds: None, ..other.clone() } == toleration;
    let mut found = false;
    for same in tolerations.iter_mut().filter(|other| is_same(other)) {
        same.toleration_seconds = None;
        found = true;
    }
    if !found {
        tolerations.push(toleration);
    }
}
