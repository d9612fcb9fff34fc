//! The grace period of a pod's deletion.

use super::is_terminal;
use crate::{deletion::Grace, unset::text};
use k8s_openapi::api::core::v1::Pod;

/// The default grace period.
const DEFAULT_SECONDS: i64 = 30;

/// Returns the effect of a deletion request with the grace period `wanted`. An unscheduled or finished pod needs no
/// time.
///
/// Source: upstream `registry/core/pod/strategy.go`, `CheckGracefulDelete`, and `registry/rest/delete.go`.
pub(super) fn grace(pod: &Pod, wanted: Option<i64>) -> Grace {
    let wanted = wanted.map(positive);
    let current = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    if pod.metadata.deletion_timestamp.is_some() {
        return match wanted {
            _ if current == 0 => Grace::Over,
            Some(0) => Grace::Over,
            Some(seconds) if seconds < current => Grace::Shorten { seconds, back_by: current },
            Some(_) | None => Grace::Running,
        };
    }
    let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    let seconds = wanted.or(own.map(positive)).unwrap_or(DEFAULT_SECONDS);
    if seconds == 0 || !is_scheduled(pod) || has_ended(pod) { Grace::Over } else { Grace::Start(seconds) }
}

/// A negative grace period means one second, which upstream kept for compatibility with an old bug.
fn positive(seconds: i64) -> i64 {
    if seconds < 0 { 1 } else { seconds }
}

fn is_scheduled(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| !text(&spec.node_name).is_empty())
}

fn has_ended(pod: &Pod) -> bool {
    pod.status.as_ref().is_some_and(|status| is_terminal(text(&status.phase)))
}
