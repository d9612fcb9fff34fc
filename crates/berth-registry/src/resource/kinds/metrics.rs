//! PodMetrics and NodeMetrics, which the server computes at each request.

use super::data;
use crate::resource::Resource;
use berth_kinds::built_in::{node_metrics, pod_metrics};

/// The reason of a rejected write.
const COMPUTED: &str = "the server computes the usage of pods and nodes, so it cannot be written";

/// Returns their table entries.
pub(in crate::resource) fn resources() -> [Resource; 2] {
    // As those of metrics-server. With a singular, `kubectl get pod` could mean the usage of pods.
    [node_metrics(), pod_metrics()].map(|definition| data(definition).read_only(COMPUTED).computed().without_singular())
}
