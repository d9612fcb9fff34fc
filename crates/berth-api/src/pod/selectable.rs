//! The selectable fields of pods.

use k8s_openapi::api::core::v1::Pod;
use std::borrow::Cow;

/// Returns the value of a field, empty if the pod does not have it. `None`: the field is not selectable.
pub(super) fn selectable<'p>(pod: &'p Pod, field: &str) -> Option<Cow<'p, str>> {
    let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
    let text = match field {
        "spec.hostNetwork" => Some(if spec.and_then(|spec| spec.host_network) == Some(true) { "true" } else { "false" }),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.as_deref()),
        "spec.restartPolicy" => spec.and_then(|spec| spec.restart_policy.as_deref()),
        "spec.schedulerName" => spec.and_then(|spec| spec.scheduler_name.as_deref()),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.as_deref()),
        "status.nominatedNodeName" => status.and_then(|status| status.nominated_node_name.as_deref()),
        "status.phase" => status.and_then(|status| status.phase.as_deref()),
        "status.podIP" => status.and_then(|status| status.pod_ip.as_deref()),
        "status.podIPs" => return Some(addresses(pod)),
        _ => return None,
    };
    Some(Cow::Borrowed(text.unwrap_or_default()))
}

fn addresses(pod: &Pod) -> Cow<'_, str> {
    let addresses = pod.status.as_ref().and_then(|status| status.pod_ips.as_deref()).unwrap_or_default();
    match addresses {
        [] => Cow::Borrowed(""),
        [one] => Cow::Borrowed(&one.ip),
        several => Cow::Owned(several.iter().map(|address| address.ip.as_str()).collect::<Vec<_>>().join(",")),
    }
}
