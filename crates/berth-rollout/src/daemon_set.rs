//! How far a DaemonSet's rollout is, in kubectl's words.

use berth_workloads::view::{DaemonSetView, DaemonUpdate};

/// What is left to do, in the words of `kubectl rollout status`; `None` if nothing is. With `OnDelete`, pods of older templates count too.
#[must_use]
pub fn pending(set: &DaemonSetView) -> Option<String> {
    let status = &set.status;
    if status.observed_generation.unwrap_or(0) < set.meta.generation.0 {
        return Some("Waiting for daemon set spec update to be observed...".to_owned());
    }
    let (desired, name) = (status.desired_number_scheduled, &set.meta.name);
    let (updated, available) = (status.updated_number_scheduled.unwrap_or(0), status.number_available.unwrap_or(0));
    if set.choices == DaemonUpdate::RollingUpdate && updated < desired {
        let counts = format!("{updated} out of {desired} new pods have been updated...");
        return Some(format!("Waiting for daemon set {name:?} rollout to finish: {counts}"));
    }
    let counts = || format!("{available} of {desired} updated pods are available...");
    (available < desired).then(|| format!("Waiting for daemon set {name:?} rollout to finish: {}", counts()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use berth_workloads::view::View;
    use serde_json::{Value, json};

    #[test]
    fn a_rollout_is_complete_when_each_pod_is_updated_and_available() {
        let check = |type_: &str, status: Value, wanted: Option<&str>| {
            let spec = json!({"selector": {}, "template": {}, "updateStrategy": {"type": type_}});
            let json = json!({"metadata": {"name": "agent", "generation": 2}, "spec": spec, "status": status});
            let set = DaemonSetView::decode(json.to_string().as_bytes(), Revision(1)).expect("a set");
            assert_eq!(pending(&set).as_deref(), wanted, "{status}");
        };
        let status = |updated: i32, available: i32| json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": updated, "numberAvailable": available});
        check("RollingUpdate", json!({}), Some("Waiting for daemon set spec update to be observed..."));
        let updated = r#"Waiting for daemon set "agent" rollout to finish: 1 out of 3 new pods have been updated..."#;
        check("RollingUpdate", status(1, 3), Some(updated));
        let available = r#"Waiting for daemon set "agent" rollout to finish: 2 of 3 updated pods are available..."#;
        check("RollingUpdate", status(3, 2), Some(available));
        check("RollingUpdate", status(3, 3), None);
        check("OnDelete", status(0, 3), None);
        check("OnDelete", status(0, 2), Some(available));
    }
}
