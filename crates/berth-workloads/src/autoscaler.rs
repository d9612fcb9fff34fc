//! HorizontalPodAutoscalers: berth does not measure simulated pods, so it does not scale them. A condition informs the user.
//!
//! Source: kubernetes `pkg/controller/podautoscaler/horizontal.go`. Its condition of this type states whether the autoscaler can scale.

use crate::{
    plan::{Action, Outcome, Plan, Reason, Stage, Subresource, Urgency},
    resources::AUTOSCALERS,
    view::{Identity, View},
};
use berth_api::decode::Codec;
use berth_identity::{Name, Namespace, Revision, Uid};
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::json;

/// The message of the condition.
const MESSAGE: &str =
    "berth runs no autoscaler: it neither measures simulated pods nor scales them, not even to minReplicas. Scale the target yourself";

/// The fields of a HorizontalPodAutoscaler that the plan reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoscalerView {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// The resource version.
    pub revision: Revision,
    /// Whether its `deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether its status has a condition, from berth or from another autoscaler.
    pub has_conditions: bool,
}

impl View for AutoscalerView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let HorizontalPodAutoscaler { metadata, status, .. } = HorizontalPodAutoscaler::decode_json(json)?;
        let conditions = status.and_then(|status| status.conditions);
        Ok(Self {
            deleting: metadata.deletion_timestamp.is_some(),
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            revision,
            has_conditions: conditions.is_some_and(|conditions| !conditions.is_empty()),
        })
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: Some(&self.namespace), name: &self.name, uid: &self.uid, is_being_deleted: self.deleting }
    }
}

/// Writes the condition, unless the status has one.
#[must_use]
pub fn plan(autoscaler: &AutoscalerView, now: Timestamp) -> Plan {
    if autoscaler.has_conditions || autoscaler.deleting {
        return Plan::default();
    }
    let condition = json!({
        "type": "ScalingActive", "status": "False", "reason": "NoAutoscaler", "message": MESSAGE,
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    });
    let action = Action::Patch {
        target: autoscaler.identity().reference(AUTOSCALERS, autoscaler.revision),
        subresource: Some(Subresource::Status),
        patch: json!({"status": {"conditions": [condition]}}),
        urgency: Urgency::Now,
        reason: Reason::NothingScales,
        events: Outcome::default(),
    };
    Plan { stages: vec![Stage { actions: vec![action] }], ..Plan::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn view(status: &Value) -> AutoscalerView {
        let json = json!({"metadata": {"namespace": "shop", "name": "web", "uid": "u"}, "spec": {"maxReplicas": 3, "scaleTargetRef": {}}, "status": status});
        AutoscalerView::decode(json.to_string().as_bytes(), Revision(7)).expect("an autoscaler")
    }

    #[test]
    fn an_autoscaler_that_nothing_acts_on_gets_an_inactive_condition_once() {
        let now = "2026-01-01T00:00:00.5Z".parse().expect("a time");
        let made = plan(&view(&json!({"desiredReplicas": 0})), now);
        let [Action::Patch { target, subresource, patch, .. }] = &made.stages[0].actions[..] else { panic!("{made:?}") };
        assert_eq!((target.resource_version, *subresource), (Some(Revision(7)), Some(Subresource::Status)));
        let condition = &patch["status"]["conditions"][0];
        assert_eq!(
            [&condition["type"], &condition["status"], &condition["lastTransitionTime"]],
            ["ScalingActive", "False", "2026-01-01T00:00:00Z"]
        );
        assert!(plan(&view(&json!({"desiredReplicas": 0, "conditions": [condition]})), now).is_idle(), "said, or another acts on it");
        assert!(plan(&AutoscalerView { deleting: true, ..view(&json!({"desiredReplicas": 0})) }, now).is_idle());
    }
}
