//! The families of the kinds that keep a number of pods.

use super::{
    ANNOTATIONS, CREATED, Family, GENERATION, LABELS, OBSERVED, OWNER_LABELS, OWNERS, Seen, Series, TERMINATING, created, generation,
    number, observed_generation, one, owners, seen::Condition, truth,
};
use berth_api::int_or_string::{Rounding, resolve};

pub(super) static DEPLOYMENT: &[Family] = &[
    Family::one("kube_deployment_created", CREATED, created),
    Family::one("kube_deployment_status_replicas", "Pods, terminating ones not counted.", |seen| number(seen.status.replicas)),
    Family::one("kube_deployment_status_replicas_ready", "Ready pods.", |seen| number(seen.status.ready_replicas)),
    Family::one("kube_deployment_status_replicas_available", "Available pods.", |seen| number(seen.status.available_replicas)),
    Family::one("kube_deployment_status_replicas_unavailable", "Pods that are missing or not available.", |seen| {
        number(seen.status.unavailable_replicas)
    }),
    Family::one("kube_deployment_status_replicas_updated", "Pods of the newest template.", |seen| number(seen.status.updated_replicas)),
    Family::one("kube_deployment_status_replicas_terminating", TERMINATING, terminating),
    // The name in some releases of kube-state-metrics.
    Family::one("kube_deployment_status_terminating_replicas", TERMINATING, terminating),
    Family::one("kube_deployment_status_observed_generation", OBSERVED, observed_generation),
    Family::many("kube_deployment_status_condition", "Whether a condition has a status.", &["reason", "condition", "status"], conditions),
    Family::one("kube_deployment_metadata_generation", GENERATION, generation),
    Family::one("kube_deployment_spec_replicas", "Pods wanted.", replicas),
    Family::one("kube_deployment_spec_paused", "Whether rollouts are paused.", |seen| number(i32::from(seen.spec.paused))),
    Family::one(
        "kube_deployment_spec_strategy_rollingupdate_max_unavailable",
        "Pods that may be missing during a rolling update.",
        |seen| {
            let value = seen.spec.strategy.rolling_update.as_ref()?.max_unavailable.as_ref()?;
            number(resolve(value, seen.spec.replicas?, Rounding::Down)?)
        },
    ),
    Family::one(
        "kube_deployment_spec_strategy_rollingupdate_max_surge",
        "Pods that there may be above the wanted number during a rolling update.",
        |seen| {
            let value = seen.spec.strategy.rolling_update.as_ref()?.max_surge.as_ref()?;
            number(resolve(value, seen.spec.replicas?, Rounding::Up)?)
        },
    ),
    Family::one("kube_deployment_labels", LABELS, one),
    Family::one("kube_deployment_annotations", ANNOTATIONS, one),
];

pub(super) static REPLICA_SET: &[Family] = &[
    Family::one("kube_replicaset_created", CREATED, created),
    Family::one("kube_replicaset_status_replicas", "Pods, terminating ones not counted.", |seen| number(seen.status.replicas)),
    Family::one("kube_replicaset_status_fully_labeled_replicas", "Pods with all labels of the template.", |seen| {
        number(seen.status.fully_labeled_replicas)
    }),
    Family::one("kube_replicaset_status_ready_replicas", "Ready pods.", |seen| number(seen.status.ready_replicas)),
    Family::one("kube_replicaset_status_terminating_replicas", TERMINATING, terminating),
    Family::one("kube_replicaset_status_observed_generation", OBSERVED, observed_generation),
    Family::one("kube_replicaset_spec_replicas", "Pods wanted.", replicas),
    Family::one("kube_replicaset_metadata_generation", GENERATION, generation),
    Family::many("kube_replicaset_owner", OWNERS, OWNER_LABELS, owners),
    Family::one("kube_replicaset_labels", LABELS, one),
    Family::one("kube_replicaset_annotations", ANNOTATIONS, one),
];

pub(super) static STATEFUL_SET: &[Family] = &[
    Family::one("kube_statefulset_created", CREATED, created),
    Family::one("kube_statefulset_status_replicas", "Pods.", |seen| number(seen.status.replicas)),
    Family::one("kube_statefulset_status_replicas_available", "Available pods.", |seen| number(seen.status.available_replicas)),
    Family::one("kube_statefulset_status_replicas_current", "Pods of the current revision.", |seen| number(seen.status.current_replicas)),
    Family::one("kube_statefulset_status_replicas_ready", "Ready pods.", |seen| number(seen.status.ready_replicas)),
    Family::one("kube_statefulset_status_replicas_updated", "Pods of the update revision.", |seen| number(seen.status.updated_replicas)),
    Family::one("kube_statefulset_status_observed_generation", OBSERVED, observed_generation),
    Family::one("kube_statefulset_replicas", "Pods wanted.", replicas),
    Family::one("kube_statefulset_ordinals_start", "The first pod's number.", |seen| {
        number(seen.spec.ordinals.as_ref()?.start.unwrap_or(0))
    }),
    Family::one("kube_statefulset_metadata_generation", GENERATION, generation),
    Family::many("kube_statefulset_status_current_revision", "The revision of pods not yet updated.", &["revision"], |seen| {
        vec![(vec![seen.status.current_revision.clone()], 1.0)]
    }),
    Family::many("kube_statefulset_status_update_revision", "The revision of updated pods.", &["revision"], |seen| {
        vec![(vec![seen.status.update_revision.clone()], 1.0)]
    }),
    Family::many(
        "kube_statefulset_persistentvolumeclaim_retention_policy",
        "What becomes of claims.",
        &["when_deleted", "when_scaled"],
        retention,
    ),
    Family::one("kube_statefulset_labels", LABELS, one),
    Family::one("kube_statefulset_annotations", ANNOTATIONS, one),
];

pub(super) static DAEMON_SET: &[Family] = &[
    Family::one("kube_daemonset_created", CREATED, created),
    Family::one("kube_daemonset_status_current_number_scheduled", "Nodes that should run the pod and do.", |seen| {
        number(seen.status.current_number_scheduled)
    }),
    Family::one("kube_daemonset_status_desired_number_scheduled", "Nodes that should run the pod.", |seen| {
        number(seen.status.desired_number_scheduled)
    }),
    Family::one("kube_daemonset_status_number_available", "Nodes with an available pod.", |seen| number(seen.status.number_available)),
    Family::one("kube_daemonset_status_number_misscheduled", "Nodes that should not run the pod and do.", |seen| {
        number(seen.status.number_misscheduled)
    }),
    Family::one("kube_daemonset_status_number_ready", "Nodes with a ready pod.", |seen| number(seen.status.number_ready)),
    Family::one("kube_daemonset_status_number_unavailable", "Nodes without an available pod.", |seen| {
        number(seen.status.number_unavailable)
    }),
    Family::one("kube_daemonset_status_observed_generation", OBSERVED, observed_generation),
    Family::one("kube_daemonset_status_updated_number_scheduled", "Nodes with a pod of the newest template.", |seen| {
        number(seen.status.updated_number_scheduled)
    }),
    Family::one("kube_daemonset_metadata_generation", GENERATION, generation),
    Family::one("kube_daemonset_labels", LABELS, one),
    Family::one("kube_daemonset_annotations", ANNOTATIONS, one),
];

pub(super) static REPLICATION_CONTROLLER: &[Family] = &[
    Family::one("kube_replicationcontroller_created", CREATED, created),
    Family::one("kube_replicationcontroller_status_replicas", "Pods, terminating ones not counted.", |seen| number(seen.status.replicas)),
    Family::one("kube_replicationcontroller_status_fully_labeled_replicas", "Pods with all labels of the template.", |seen| {
        number(seen.status.fully_labeled_replicas)
    }),
    Family::one("kube_replicationcontroller_status_ready_replicas", "Ready pods.", |seen| number(seen.status.ready_replicas)),
    Family::one("kube_replicationcontroller_status_available_replicas", "Available pods.", |seen| number(seen.status.available_replicas)),
    Family::one("kube_replicationcontroller_status_observed_generation", OBSERVED, observed_generation),
    Family::one("kube_replicationcontroller_spec_replicas", "Pods wanted.", replicas),
    Family::one("kube_replicationcontroller_metadata_generation", GENERATION, generation),
    Family::many("kube_replicationcontroller_owner", OWNERS, OWNER_LABELS, owners),
];

fn replicas(seen: &Seen) -> Option<f64> {
    number(seen.spec.replicas?)
}

/// Missing if the gate is off.
fn terminating(seen: &Seen) -> Option<f64> {
    number(seen.status.terminating_replicas?)
}

fn conditions(seen: &Seen) -> Series {
    let series = |condition: &Condition| {
        truth(&condition.status).map(|(status, value)| (vec![condition.reason.clone(), condition.kind.clone(), status], value))
    };
    seen.status.conditions.iter().flat_map(series).collect()
}

fn retention(seen: &Seen) -> Series {
    let Some(policy) = &seen.spec.persistent_volume_claim_retention_policy else { return Vec::new() };
    let [deleted, scaled] = [&policy.when_deleted, &policy.when_scaled].map(|when| when.clone().unwrap_or_default());
    vec![(vec![deleted, scaled], 1.0)]
}
