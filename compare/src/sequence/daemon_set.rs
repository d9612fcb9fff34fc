//! A DaemonSet and its changes.

use super::{Operation, image, patch, recreate, template};
use crate::draw::Draw;
use serde_json::{Value, json};

pub(super) fn daemon_set(draw: &mut Draw) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "web"},
        "spec": {
            "revisionHistoryLimit": draw.below(4),
            "updateStrategy": strategy(draw),
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(draw),
        },
    })
}

fn strategy(draw: &mut Draw) -> Value {
    if draw.percent(25) {
        return json!({"type": "OnDelete", "rollingUpdate": null});
    }
    let limits = [(json!(0), json!(1)), (json!(0), json!(3)), (json!(1), json!(0)), (json!("50%"), json!(0))];
    let (surge, unavailable) = draw.pick(&limits);
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

pub(super) fn operation(draw: &mut Draw) -> Operation {
    let of_pods = |spec: Value| patch(json!({"template": {"spec": spec}}));
    match draw.below(16) {
        0..5 => of_pods(json!({"containers": [{"name": "web", "image": image(draw)}]})),
        5 | 6 => Operation::DeletePods(1 + draw.below(3)),
        7 => patch(
            json!({"template": {"metadata": {"annotations": {"sim.berth.dev/fails": draw.pick(&[json!("NeverReady"), json!("Pending"), Value::Null])}}}}),
        ),
        8 => patch(json!({"minReadySeconds": draw.below(2)})),
        9 => patch(json!({"revisionHistoryLimit": draw.below(4)})),
        10 => recreate(draw),
        11 | 12 => patch(json!({"updateStrategy": strategy(draw)})),
        // One node, no node, or all of them.
        13 | 14 => of_pods(json!({"nodeSelector": {"kubernetes.io/hostname": draw.pick(&[json!("node-0"), json!("none"), Value::Null])}})),
        _ => Operation::Patch(json!({"metadata": {"annotations": {"note": image(draw)}}})),
    }
}
