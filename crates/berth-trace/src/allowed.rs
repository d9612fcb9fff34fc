//! The recorded fields of each kind: those that planners, the scheduler and the API rules read. Everything else is
//! omitted: environments, commands, arguments, images, volumes, probes, messages, annotations, managed fields, and
//! whole kinds (Secrets, ConfigMaps, events).

use crate::shape::{Member, Shape};
use Shape::{Amount, Amounts, Flag, Key, Labels, List, Mark, Members, Name, Number, OneOf, Pairs, Share, Template, Time, Version, Word};
use berth_api::annotations::{
    BERTH_DELETED_POD_REPLACEMENT_POLICY, BERTH_POD_REPLACEMENT_POLICY, BERTH_PROMOTED, BERTH_REPAIR, BERTH_STEP, BERTH_STEPS,
    BERTH_UPDATE_STRATEGY, DESIRED_REPLICAS, MAX_REPLICAS, POD_DELETION_COST, REPLICA_SET_REPLICAS_BEFORE_SCALE, REVISION,
};

/// A kind that is recorded.
pub struct TracedKind {
    /// `apps/v1`.
    pub api_version: &'static str,
    /// `Deployment`.
    pub kind: &'static str,
    /// `deployments`.
    pub plural: &'static str,
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
    /// Whether a recording is useless without this kind.
    pub is_needed: bool,
    /// The JSON pointer of the pod template.
    pub(crate) template: Option<&'static str>,
    /// The JSON pointers of selectors and of other fields that name label keys.
    pub(crate) selects: &'static [&'static str],
    pub(crate) shape: Shape,
}

/// The maximum of a workload's cpu, in millicores, and of its memory, in bytes.
pub(crate) const USAGE_MAX: i64 = 1 << 50;
/// The kinds of workloads with usage.
pub(crate) const WORKLOADS: [&str; 3] = ["Deployment", "ReplicaSet", "StatefulSet"];
/// The maximum number of replicas of a workload.
const REPLICAS_MAX: i64 = 200_000;
/// A little more than a year, in seconds.
const SECONDS_MAX: i64 = 400 * 86_400;
const I32_MAX: i64 = 2_147_483_647;

const fn may(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, is_needed: false }
}

const fn must(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, is_needed: true }
}

const COUNT: Shape = Number(0, REPLICAS_MAX);
const SECONDS: Shape = Number(0, SECONDS_MAX);
const GENERATION: Shape = Number(0, i64::MAX);

const OWNERS: Shape =
    List(&Members(&[must("apiVersion", Version), must("kind", Word), must("name", Name), must("uid", Name), may("controller", Flag)]), 8);

/// `metadata` with these annotations.
macro_rules! metadata {
    ($($annotation:expr),*) => {
        Members(&[
            must("name", Name),
            may("namespace", Name),
            must("uid", Name),
            may("generation", GENERATION),
            may("creationTimestamp", Time),
            may("deletionTimestamp", Time),
            may("deletionGracePeriodSeconds", SECONDS),
            may("labels", Labels),
            may("ownerReferences", OWNERS),
            may("annotations", Members(&[$(may($annotation, Mark)),*])),
        ])
    };
}

const DEPLOYMENT_METADATA: Shape =
    metadata!(REVISION, BERTH_POD_REPLACEMENT_POLICY, BERTH_DELETED_POD_REPLACEMENT_POLICY, BERTH_STEPS, BERTH_PROMOTED);
const SET_METADATA: Shape = metadata!(
    REVISION,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    REPLICA_SET_REPLICAS_BEFORE_SCALE,
    BERTH_DELETED_POD_REPLACEMENT_POLICY,
    BERTH_STEP
);
const STATEFUL_SET_METADATA: Shape = metadata!(BERTH_UPDATE_STRATEGY, BERTH_REPAIR);
const POD_METADATA: Shape = metadata!(POD_DELETION_COST);
const METADATA: Shape = metadata!();

const EXPRESSIONS: Shape = List(&Members(&[must("key", Key), must("operator", Word), may("values", List(&Name, 256))]), 64);
const SELECTOR: Shape = Members(&[may("matchLabels", Pairs), may("matchExpressions", EXPRESSIONS)]);

const CONDITIONS: Shape = List(
    &Members(&[
        must("type", Word),
        must("status", Word),
        may("reason", Word),
        may("lastTransitionTime", Time),
        may("lastUpdateTime", Time),
    ]),
    32,
);

const RESOURCES: Shape = Members(&[may("requests", Amounts), may("limits", Amounts)]);

/// Container names are replaced by numbers. In a template, the image is replaced by the identity of the template.
const CONTAINERS: Shape = List(
    &Members(&[
        must("name", Word),
        may("image", Template),
        may("resources", RESOURCES),
        may("restartPolicy", Word),
        may(
            "ports",
            List(
                &Members(&[
                    must("containerPort", Number(1, 65_535)),
                    may("hostPort", Number(0, 65_535)),
                    may("hostIP", Name),
                    may("protocol", Word),
                ]),
                256,
            ),
        ),
    ]),
    256,
);

const NODE_TERM: Shape = Members(&[may("matchExpressions", EXPRESSIONS), may("matchFields", FIELDS)]);
const NODE_TERMS: Shape = List(&NODE_TERM, 64);
/// A node selector over fields: its keys are not label keys.
const FIELDS: Shape =
    List(&Members(&[must("key", OneOf(&["metadata.name"])), must("operator", Word), may("values", List(&Name, 256))]), 16);

const AFFINITY: Shape = Members(&[
    may(
        "nodeAffinity",
        Members(&[
            may("requiredDuringSchedulingIgnoredDuringExecution", Members(&[must("nodeSelectorTerms", NODE_TERMS)])),
            may(
                "preferredDuringSchedulingIgnoredDuringExecution",
                List(&Members(&[must("weight", Number(1, 100)), must("preference", NODE_TERM)]), 64),
            ),
        ]),
    ),
    may("podAffinity", POD_TERMS),
    may("podAntiAffinity", POD_TERMS),
]);

const POD_TERM: Shape = Members(&[
    may("labelSelector", SELECTOR),
    must("topologyKey", Key),
    may("namespaces", List(&Name, 256)),
    may("namespaceSelector", SELECTOR),
    may("matchLabelKeys", List(&Key, 64)),
    may("mismatchLabelKeys", List(&Key, 64)),
]);

const POD_TERMS: Shape = Members(&[
    may("requiredDuringSchedulingIgnoredDuringExecution", List(&POD_TERM, 64)),
    may(
        "preferredDuringSchedulingIgnoredDuringExecution",
        List(&Members(&[must("weight", Number(1, 100)), must("podAffinityTerm", POD_TERM)]), 64),
    ),
]);

const TOLERATIONS: Shape = List(
    &Members(&[
        may("key", Key),
        may("operator", Word),
        may("value", Name),
        may("effect", Word),
        may("tolerationSeconds", Number(i64::MIN, i64::MAX)),
    ]),
    256,
);

const SPREAD: Shape = List(
    &Members(&[
        must("maxSkew", Number(1, I32_MAX)),
        must("topologyKey", Key),
        must("whenUnsatisfiable", Word),
        may("labelSelector", SELECTOR),
        may("minDomains", Number(1, I32_MAX)),
        may("nodeAffinityPolicy", Word),
        may("nodeTaintsPolicy", Word),
        may("matchLabelKeys", List(&Key, 64)),
    ]),
    64,
);

const POD_SPEC: Shape = Members(&[
    must("containers", CONTAINERS),
    may("initContainers", CONTAINERS),
    may("restartPolicy", Word),
    may("terminationGracePeriodSeconds", SECONDS),
    may("nodeSelector", Pairs),
    may("affinity", AFFINITY),
    may("tolerations", TOLERATIONS),
    may("topologySpreadConstraints", SPREAD),
    may("overhead", Amounts),
    may("priorityClassName", Name),
    may("priority", Number(-2_147_483_648, I32_MAX)),
    may("preemptionPolicy", Word),
    may("schedulerName", Name),
    may("nodeName", Name),
]);

const TEMPLATE: Shape = Members(&[may("metadata", Members(&[may("labels", Labels)])), must("spec", POD_SPEC)]);
/// The template in a ControllerRevision.
const PATCHED_TEMPLATE: Shape =
    Members(&[may("$patch", OneOf(&["replace"])), may("metadata", Members(&[may("labels", Labels)])), must("spec", POD_SPEC)]);

const CONTAINER_STATUSES: Shape = List(
    &Members(&[
        must("name", Word),
        may("ready", Flag),
        may("restartCount", Number(0, I32_MAX)),
        may(
            "state",
            Members(&[
                may("running", Members(&[may("startedAt", Time)])),
                may("waiting", Members(&[may("reason", Word)])),
                may("terminated", Members(&[may("exitCode", Number(-I32_MAX, I32_MAX)), may("reason", Word)])),
            ]),
        ),
    ]),
    256,
);

/// An object of a kind.
macro_rules! object {
    ($version:literal, $kind:literal, $metadata:expr $(, $member:literal: $shape:expr)*) => {
        Members(&[
            must("apiVersion", OneOf(&[$version])),
            must("kind", OneOf(&[$kind])),
            must("metadata", $metadata),
            $(may($member, $shape),)*
        ])
    };
}

const fn traced(api_version: &'static str, kind: &'static str, plural: &'static str, shape: Shape) -> TracedKind {
    TracedKind { api_version, kind, plural, is_namespaced: true, is_needed: false, template: None, selects: &[], shape }
}

/// The fields of a workload that name label keys.
const SELECTS: &[&str] = &[
    "/spec/selector",
    "/spec/template/spec/nodeSelector",
    "/spec/template/spec/affinity",
    "/spec/template/spec/topologySpreadConstraints",
];

/// The target of a metric.
const METRIC_TARGET: Shape =
    Members(&[must("type", Word), may("averageUtilization", Number(1, I32_MAX)), may("averageValue", Amount), may("value", Amount)]);
/// The metrics of an autoscaler. Only those of pods' cpu and memory are recorded whole. Of the others, names and selectors are omitted.
const METRICS: Shape = List(
    &Members(&[must("type", Word), may("resource", Members(&[must("name", OneOf(&["cpu", "memory"])), must("target", METRIC_TARGET)]))]),
    64,
);
const CURRENT_METRICS: Shape = List(
    &Members(&[
        must("type", Word),
        may(
            "resource",
            Members(&[
                must("name", OneOf(&["cpu", "memory"])),
                must(
                    "current",
                    Members(&[may("averageUtilization", Number(0, I32_MAX)), may("averageValue", Amount), may("value", Amount)]),
                ),
            ]),
        ),
    ]),
    64,
);
const SCALING_RULES: Shape = Members(&[
    may("stabilizationWindowSeconds", SECONDS),
    may("selectPolicy", Word),
    may("tolerance", Amount),
    may(
        "policies",
        List(&Members(&[must("type", Word), must("value", Number(1, I32_MAX)), must("periodSeconds", Number(1, SECONDS_MAX))]), 64),
    ),
]);

/// A line of usage.
pub(crate) const USAGE: Shape = Members(&[
    must("kind", OneOf(&WORKLOADS)),
    must("namespace", Name),
    must("name", Name),
    must("pods", COUNT),
    must("cpuMillis", Number(0, USAGE_MAX)),
    must("memoryBytes", Number(0, USAGE_MAX)),
]);

/// All recorded kinds. Kinds whose fields select labels come before the kinds that have the labels.
pub const KINDS: &[TracedKind] = &[
    TracedKind {
        is_needed: true,
        template: Some("/spec/template"),
        selects: SELECTS,
        ..traced(
            "apps/v1",
            "Deployment",
            "deployments",
            object!("apps/v1", "Deployment", DEPLOYMENT_METADATA,
            "spec": Members(&[
                may("replicas", COUNT),
                may("minReadySeconds", SECONDS),
                may("progressDeadlineSeconds", Number(0, I32_MAX)),
                may("revisionHistoryLimit", Number(0, I32_MAX)),
                may("paused", Flag),
                may("podReplacementPolicy", Word),
                may("strategy", Members(&[
                    may("type", Word),
                    may("rollingUpdate", Members(&[may("maxSurge", Share), may("maxUnavailable", Share)])),
                ])),
                must("selector", SELECTOR),
                must("template", TEMPLATE),
            ]),
            "status": Members(&[
                may("observedGeneration", GENERATION),
                may("replicas", COUNT),
                may("updatedReplicas", COUNT),
                may("readyReplicas", COUNT),
                may("availableReplicas", COUNT),
                may("unavailableReplicas", COUNT),
                may("terminatingReplicas", COUNT),
                may("collisionCount", Number(0, I32_MAX)),
                may("conditions", CONDITIONS),
            ])),
        )
    },
    TracedKind {
        is_needed: true,
        template: Some("/spec/template"),
        selects: SELECTS,
        ..traced(
            "apps/v1",
            "StatefulSet",
            "statefulsets",
            object!("apps/v1", "StatefulSet", STATEFUL_SET_METADATA,
            "spec": Members(&[
                may("replicas", COUNT),
                may("minReadySeconds", SECONDS),
                may("revisionHistoryLimit", Number(0, I32_MAX)),
                may("podManagementPolicy", Word),
                may("serviceName", Name),
                may("ordinals", Members(&[may("start", COUNT)])),
                may("updateStrategy", Members(&[
                    may("type", Word),
                    may("rollingUpdate", Members(&[may("partition", COUNT), may("maxUnavailable", Share)])),
                ])),
                must("selector", SELECTOR),
                must("template", TEMPLATE),
            ]),
            "status": Members(&[
                may("observedGeneration", GENERATION),
                may("replicas", COUNT),
                may("readyReplicas", COUNT),
                may("availableReplicas", COUNT),
                may("currentReplicas", COUNT),
                may("updatedReplicas", COUNT),
                may("currentRevision", Name),
                may("updateRevision", Name),
                may("collisionCount", Number(0, I32_MAX)),
            ])),
        )
    },
    TracedKind {
        is_needed: true,
        template: Some("/spec/template"),
        selects: &["/spec/selector"],
        ..traced(
            "apps/v1",
            "ReplicaSet",
            "replicasets",
            object!("apps/v1", "ReplicaSet", SET_METADATA,
            "spec": Members(&[
                may("replicas", COUNT),
                may("minReadySeconds", SECONDS),
                must("selector", SELECTOR),
                must("template", TEMPLATE),
            ]),
            "status": Members(&[
                may("observedGeneration", GENERATION),
                may("replicas", COUNT),
                may("fullyLabeledReplicas", COUNT),
                may("readyReplicas", COUNT),
                may("availableReplicas", COUNT),
                may("terminatingReplicas", COUNT),
            ])),
        )
    },
    TracedKind {
        template: Some("/data/spec/template"),
        ..traced(
            "apps/v1",
            "ControllerRevision",
            "controllerrevisions",
            object!("apps/v1", "ControllerRevision", METADATA,
                "revision": Number(0, i64::MAX),
                "data": Members(&[may("spec", Members(&[may("template", PATCHED_TEMPLATE)]))])),
        )
    },
    TracedKind {
        selects: &["/spec/selector"],
        ..traced(
            "policy/v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            object!("policy/v1", "PodDisruptionBudget", METADATA,
            "spec": Members(&[
                may("minAvailable", Share),
                may("maxUnavailable", Share),
                may("unhealthyPodEvictionPolicy", Word),
                may("selector", SELECTOR),
            ]),
            "status": Members(&[
                may("observedGeneration", GENERATION),
                may("disruptionsAllowed", COUNT),
                may("currentHealthy", COUNT),
                may("desiredHealthy", COUNT),
                may("expectedPods", COUNT),
            ])),
        )
    },
    traced(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        object!("autoscaling/v2", "HorizontalPodAutoscaler", METADATA,
        "spec": Members(&[
            must("scaleTargetRef", Members(&[may("apiVersion", Version), must("kind", Word), must("name", Name)])),
            may("minReplicas", COUNT),
            may("maxReplicas", Number(0, I32_MAX)),
            may("metrics", METRICS),
            may("behavior", Members(&[may("scaleUp", SCALING_RULES), may("scaleDown", SCALING_RULES)])),
        ]),
        "status": Members(&[
            may("observedGeneration", GENERATION),
            may("lastScaleTime", Time),
            may("currentReplicas", COUNT),
            may("desiredReplicas", COUNT),
            may("currentMetrics", CURRENT_METRICS),
            may("conditions", CONDITIONS),
        ])),
    ),
    traced(
        "v1",
        "ResourceQuota",
        "resourcequotas",
        object!("v1", "ResourceQuota", METADATA,
            "spec": Members(&[may("hard", Amounts), may("scopes", List(&Word, 8))]),
            "status": Members(&[may("hard", Amounts), may("used", Amounts)])),
    ),
    traced(
        "v1",
        "LimitRange",
        "limitranges",
        object!("v1", "LimitRange", METADATA,
            "spec": Members(&[must("limits", List(&Members(&[
                must("type", Word),
                may("max", Amounts),
                may("min", Amounts),
                may("default", Amounts),
                may("defaultRequest", Amounts),
                may("maxLimitRequestRatio", Amounts),
            ]), 16))])),
    ),
    TracedKind {
        is_namespaced: false,
        ..traced(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            "priorityclasses",
            object!("scheduling.k8s.io/v1", "PriorityClass", METADATA,
                "value": Number(-2_147_483_648, I32_MAX),
                "globalDefault": Flag,
                "preemptionPolicy": Word),
        )
    },
    TracedKind {
        is_namespaced: false,
        ..traced(
            "v1",
            "Node",
            "nodes",
            object!("v1", "Node", METADATA,
                "spec": Members(&[
                    may("unschedulable", Flag),
                    may("taints", List(&Members(&[must("key", Key), may("value", Name), must("effect", Word)]), 64)),
                ]),
                "status": Members(&[may("allocatable", Amounts), may("capacity", Amounts), may("conditions", CONDITIONS)])),
        )
    },
    TracedKind {
        is_needed: true,
        ..traced(
            "v1",
            "Pod",
            "pods",
            object!("v1", "Pod", POD_METADATA,
            "spec": POD_SPEC,
            "status": Members(&[
                may("phase", Word),
                may("startTime", Time),
                may("conditions", CONDITIONS),
                may("containerStatuses", CONTAINER_STATUSES),
                may("initContainerStatuses", CONTAINER_STATUSES),
            ])),
        )
    },
];

/// Returns the kind of this name.
pub(crate) fn kind(name: &str) -> Option<&'static TracedKind> {
    KINDS.iter().find(|kind| kind.kind == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects the paths of all recorded members.
    fn paths(shape: &Shape, at: &str, found: &mut Vec<String>) {
        match shape {
            Members(members) => members.iter().for_each(|member| paths(&member.shape, &format!("{at}.{}", member.name), found)),
            List(of, _) => paths(of, &format!("{at}[]"), found),
            _ => found.push(at.to_owned()),
        }
    }

    #[test]
    fn nothing_is_kept_that_may_hold_what_is_secret() {
        let mut found = Vec::new();
        KINDS.iter().for_each(|kind| paths(&kind.shape, kind.kind, &mut found));
        let secret = ["env", "envFrom", "command", "args", "volumes", "message", "managedFields", "volumeMounts", "imagePullSecrets"];
        let is_secret = |path: &&String| path.split(['.', '[']).any(|part| secret.contains(&part));
        assert_eq!(found.iter().filter(is_secret).collect::<Vec<_>>(), [] as [&String; 0]);
        assert!(!KINDS.iter().any(|kind| ["Secret", "ConfigMap", "Event"].contains(&kind.kind)));
        assert!(found.contains(&"Deployment.spec.template.spec.containers[].resources.requests".to_owned()), "{found:#?}");
    }
}
