//! A HorizontalPodAutoscaler, the Deployment that it scales, and their changes.
//!
//! Only memory is used: what counts of a pod's CPU depends on how long the pod has been ready.

use super::{Operation, patch};
use crate::draw::Draw;
use serde_json::{Value, json};

pub(super) fn autoscaler(draw: &mut Draw) -> Value {
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1 + draw.below(2),
            "maxReplicas": 2 + draw.below(5),
            "metrics": [metric(draw)],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    })
}

fn metric(draw: &mut Draw) -> Value {
    let targets = [
        json!({"type": "Utilization", "averageUtilization": 50}),
        json!({"type": "Utilization", "averageUtilization": 80}),
        json!({"type": "AverageValue", "averageValue": "64Mi"}),
    ];
    let target = draw.pick(&targets);
    if draw.percent(30) {
        return json!({"type": "ContainerResource", "containerResource": {"name": "memory", "container": "web", "target": target}});
    }
    json!({"type": "Resource", "resource": {"name": "memory", "target": target}})
}

/// The Deployment.
pub(super) fn target(draw: &mut Draw) -> Value {
    let requests = if draw.percent(90) { json!({"memory": "100Mi"}) } else { json!({}) };
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": draw.below(4),
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"sim.berth.dev/memory": usage(draw)}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "web", "image": "web:1", "resources": {"requests": requests}}],
                },
            },
        },
    })
}

fn usage(draw: &mut Draw) -> Value {
    draw.pick(&[json!("20Mi"), json!("50Mi"), json!("60Mi"), json!("95Mi")]).clone()
}

pub(super) fn operation(draw: &mut Draw) -> Operation {
    let of_target = |spec: Value| Operation::PatchTarget(json!({ "spec": spec }));
    match draw.below(10) {
        0..4 => of_target(json!({"template": {"metadata": {"annotations": {"sim.berth.dev/memory": usage(draw)}}}})),
        4 | 5 => of_target(json!({"replicas": draw.below(6)})),
        6 => patch(json!({"minReplicas": 1 + draw.below(2), "maxReplicas": 2 + draw.below(5)})),
        7 => patch(json!({"metrics": [metric(draw)]})),
        8 => patch(json!({"behavior": {"scaleUp": {"selectPolicy": draw.pick(&["Disabled", "Max", "Min"])}}})),
        _ => patch(
            json!({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0, "selectPolicy": draw.pick(&["Disabled", "Max", "Min"])}}}),
        ),
    }
}
