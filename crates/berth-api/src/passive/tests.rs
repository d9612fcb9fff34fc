use crate::{
    FeatureGates, Kind,
    check::{check_create, check_update, created, decoded, merged},
};
use k8s_openapi::api::{
    autoscaling::v2::HorizontalPodAutoscaler,
    coordination::v1::Lease,
    core::v1::{
        ConfigMap, Event as CoreEvent, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, ResourceQuota, Secret, Service,
    },
    discovery::v1::EndpointSlice,
    events::v1::Event,
    policy::v1::PodDisruptionBudget,
    scheduling::v1::PriorityClass,
    storage::v1::StorageClass,
};
use serde_json::{Value, json};

fn named(patch: &Value) -> Value {
    merged(json!({"metadata": {"name": "a"}}), patch)
}

fn stored<K: Kind>(json: &Value) -> Value {
    serde_json::to_value(created::<K>(json)).expect("it is JSON")
}

/// Checks that creating `json` stores at least the members of `wanted`.
fn check_stored<K: Kind>(json: &Value, wanted: &Value) {
    let found = stored::<K>(&named(json));
    assert_eq!(merged(found.clone(), wanted), found, "{json}");
}

#[test]
fn clients_find_the_defaults_they_rely_on() {
    check_stored::<Namespace>(
        &json!({"status": {"phase": "X"}}),
        &json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "a"}}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}),
    );
    check_stored::<Service>(
        &json!({"spec": {"ports": [{"port": 80}]}}),
        &json!({"spec": {
            "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        }, "status": {"loadBalancer": {}}}),
    );
    check_stored::<Service>(&json!({"spec": {"clusterIP": "None"}}), &json!({"spec": {"clusterIPs": ["None"]}}));
    check_stored::<Secret>(
        &json!({"data": {"a": "YQ=="}, "stringData": {"b": "b"}}),
        &json!({"type": "Opaque", "data": {"a": "YQ==", "b": "Yg=="}}),
    );
    assert!(stored::<Secret>(&named(&json!({"stringData": {"b": "b"}}))).get("stringData").is_none());
    check_stored::<PersistentVolumeClaim>(
        &json!({"status": {"phase": "Bound"}}),
        &json!({"spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}),
    );
    check_stored::<PersistentVolume>(
        &json!({}),
        &json!({"spec": {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"}, "status": {"phase": "Pending"}}),
    );
    check_stored::<StorageClass>(&json!({"provisioner": "p"}), &json!({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}));
    check_stored::<PriorityClass>(&json!({}), &json!({"preemptionPolicy": "PreemptLowerPriority", "value": 0}));
    check_stored::<PodDisruptionBudget>(
        &json!({"status": {"disruptionsAllowed": 7}}),
        &json!({"status": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}}),
    );
    check_stored::<LimitRange>(
        &json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}]}}),
        &json!({"spec": {"limits": [{
            "type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}, "default": {"cpu": "2"},
            "defaultRequest": {"cpu": "2", "memory": "1Mi"},
        }]}}),
    );
    check_stored::<Node>(&json!({"status": {"capacity": {"cpu": "4"}}}), &json!({"status": {"allocatable": {"cpu": "4"}}}));
}

#[test]
fn config_is_validated() {
    check_create::<ConfigMap>(&named(&json!({"data": {"a/b": "c"}})), &["data[a/b]: Invalid value: \"a/b\": a valid config key…"]);
    check_create::<ConfigMap>(
        &named(&json!({"data": {"a": "b"}, "binaryData": {"a": "YQ=="}})),
        &["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"],
    );
    let large = "x".repeat(1024 * 1024 + 1);
    check_create::<ConfigMap>(&named(&json!({"data": {"a": large}})), &["[]: Too long: may not be more than 1048576 bytes"]);
    check_create::<Secret>(&named(&json!({"stringData": {"a": large}})), &["data: Too long: may not be more than 1048576 bytes"]);
    check_create::<Secret>(
        &named(&json!({"type": "kubernetes.io/tls"})),
        &["data[tls.crt]: Required value", "data[tls.key]: Required value"],
    );
    let frozen = named(&json!({"immutable": true, "data": {"a": "YQ=="}}));
    for changed in [json!({"data": {"a": "Yg=="}}), json!({"data": {"b": "YQ=="}})] {
        let wanted = ["data: Forbidden: field is immutable when `immutable` is set"];
        check_update::<ConfigMap>(&frozen, &merged(frozen.clone(), &changed), &wanted);
        check_update::<Secret>(&frozen, &merged(frozen.clone(), &changed), &wanted);
    }
    check_update::<Secret>(
        &frozen,
        &merged(frozen.clone(), &json!({"type": "x", "immutable": false})),
        &["type: Invalid value: \"x\": field is immutable", "immutable: Forbidden: field is immutable when `immutable` is set"],
    );
}

#[test]
fn budgets_have_one_bound_of_at_most_all_pods() {
    let budget = |spec: Value| named(&json!({ "spec": spec }));
    check_create::<PodDisruptionBudget>(&budget(json!({"minAvailable": "50%"})), &[]);
    check_create::<PodDisruptionBudget>(
        &budget(json!({"minAvailable": 1, "maxUnavailable": 1})),
        &["spec: Invalid value: {\"maxUnavailable\":1,\"minAvailable\":1}: minAvailable and maxUnavailable cannot be both set"],
    );
    check_create::<PodDisruptionBudget>(
        &budget(json!({"minAvailable": "101%"})),
        &["spec.minAvailable: Invalid value: \"101%\": must not be greater than 100%"],
    );
    check_create::<PodDisruptionBudget>(
        &budget(json!({"maxUnavailable": -1})),
        &["spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"],
    );
    check_create::<PodDisruptionBudget>(
        &budget(json!({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}})),
        &["spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"],
    );
}

#[test]
fn services_are_validated_and_keep_what_was_allocated() {
    let service = |spec: Value| named(&json!({ "spec": spec }));
    check_create::<Service>(&service(json!({})), &["spec.ports: Required value"]);
    check_create::<Service>(&service(json!({"clusterIP": "None"})), &[]);
    check_create::<Service>(&service(json!({"type": "ExternalName", "externalName": "a.b"})), &[]);
    check_create::<Service>(&service(json!({"type": "ExternalName"})), &["spec.externalName: Required value"]);
    check_create::<Service>(
        &service(json!({"ports": [{"port": 0}, {"port": 1, "name": "a", "protocol": "X", "targetPort": 1, "nodePort": 30000}]})),
        &[
            "spec.ports[0].name: Required value",
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
            "spec.ports[1].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            "spec.ports[1].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ],
    );
    check_create::<Service>(
        &service(json!({"type": "X", "ports": [{"port": 1}]})),
        &["spec.type: Unsupported value: \"X\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\""],
    );
    let old = service(json!({"type": "NodePort", "clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 30080}]}));
    let new = service(json!({"type": "NodePort", "ports": [{"port": 80}]}));
    check_update::<Service>(&old, &new, &[]);
    let mut kept: Service = decoded(&new);
    kept.prepare_update(&created(&old), &FeatureGates::default());
    assert_eq!(kept.spec, created::<Service>(&old).spec);
    check_update::<Service>(
        &old,
        &merged(old.clone(), &json!({"spec": {"clusterIP": "10.0.0.2"}})),
        &["spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"],
    );
}

#[test]
fn slices_are_validated() {
    let slice = |patch: Value| named(&merged(json!({"addressType": "IPv4", "endpoints": []}), &patch));
    check_create::<EndpointSlice>(&slice(json!({"endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]})), &[]);
    check_create::<EndpointSlice>(
        &slice(json!({"endpoints": [{"addresses": []}, {"addresses": ["x"]}]})),
        &[
            "endpoints[0].addresses: Required value: must contain at least 1 address",
            "endpoints[1].addresses[0]: Invalid value: \"x\": must be a valid IP address…",
        ],
    );
    check_update::<EndpointSlice>(
        &slice(json!({})),
        &slice(json!({"addressType": "IPv6"})),
        &["addressType: Invalid value: \"IPv6\": field is immutable"],
    );
}

#[test]
fn storage_is_validated() {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let claim = |patch: Value| named(&json!({"spec": merged(spec.clone(), &patch)}));
    check_create::<PersistentVolumeClaim>(&claim(json!({})), &[]);
    check_create::<PersistentVolumeClaim>(
        &claim(json!({"accessModes": null, "resources": null})),
        &["spec.accessModes: Required value: at least 1 access mode is required", "spec.resources[storage]: Required value"],
    );
    check_create::<PersistentVolumeClaim>(
        &claim(json!({"resources": {"requests": {"storage": "0"}}, "volumeMode": "X"})),
        &[
            "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
            "spec.volumeMode: Unsupported value: \"X\": supported values: \"Block\", \"Filesystem\"",
        ],
    );
    let frozen =
        "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    check_update::<PersistentVolumeClaim>(&claim(json!({})), &claim(json!({"volumeName": "v"})), &[]);
    check_update::<PersistentVolumeClaim>(&claim(json!({})), &claim(json!({"accessModes": ["ReadOnlyMany"]})), &[frozen]);
    check_update::<PersistentVolumeClaim>(&claim(json!({})), &claim(json!({"resources": {"requests": {"storage": "2Gi"}}})), &[frozen]);

    let source = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/"}});
    let volume = |patch: Value| named(&json!({"spec": merged(source.clone(), &patch)}));
    check_create::<PersistentVolume>(&volume(json!({})), &[]);
    check_create::<PersistentVolume>(&volume(json!({"hostPath": null})), &["spec: Required value: must specify a volume type"]);
    let csi = |driver: &str| volume(json!({"hostPath": null, "csi": {"driver": driver, "volumeHandle": "h"}}));
    check_create::<PersistentVolume>(&csi("Simulated.berth.dev"), &[]);
    check_create::<PersistentVolume>(&csi(""), &["spec.csi.driver: Required value"]);
    check_create::<PersistentVolume>(&csi(&"a".repeat(64)), &["spec.csi.driver: Too long: may not be more than 63 bytes"]);
    let odd = "spec.csi.driver: Invalid value: \"a/b\": a lowercase RFC 1123 subdomain must…";
    check_create::<PersistentVolume>(&csi("a/b"), &[odd]);
    check_update::<PersistentVolume>(&csi("a/b"), &merged(csi("a/b"), &json!({"metadata": {"labels": {"a": "b"}}})), &[]);
    let handleless = volume(json!({"hostPath": null, "csi": {"driver": "d", "volumeHandle": ""}}));
    check_create::<PersistentVolume>(&handleless, &["spec.csi.volumeHandle: Required value"]);
    check_create::<PersistentVolume>(
        &volume(json!({"capacity": null})),
        &["spec.capacity: Required value", "spec.capacity: Unsupported value: null: supported values: \"storage\""],
    );
    check_update::<PersistentVolume>(
        &volume(json!({})),
        &volume(json!({"hostPath": {"path": "/x"}})),
        &["spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"],
    );

    check_create::<StorageClass>(&named(&json!({"provisioner": ""})), &["provisioner: Required value"]);
    check_update::<StorageClass>(
        &named(&json!({"provisioner": "p"})),
        &named(&json!({"provisioner": "p", "parameters": {"a": "b"}})),
        &["parameters: Invalid value: {\"a\":\"b\"}: field is immutable"],
    );
}

/// A bound claim may grow, but not below its current size.
#[test]
fn bound_claims_grow() {
    let claim = |size: &str| -> PersistentVolumeClaim {
        decoded(&named(&json!({
            "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "v", "resources": {"requests": {"storage": size}}},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
        })))
    };
    let faults = |old: &str, new: &str| claim(new).validate_update(&claim(old), &FeatureGates::default());
    assert!(faults("1Gi", "2Gi").is_empty());
    assert!(faults("3Gi", "2Gi").is_empty());
    let shrunk: Vec<String> = faults("2Gi", "1Gi").iter().map(ToString::to_string).collect();
    assert_eq!(shrunk, ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]);
}

#[test]
fn limits_are_validated() {
    check_create::<ResourceQuota>(
        &named(&json!({"spec": {"hard": {"pods": "4", "count/deployments.apps": "1", "requests.cpu": "1"}}})),
        &[],
    );
    check_create::<ResourceQuota>(
        &named(&json!({"spec": {"hard": {"cpu": "-1", "pods": "500m", "x": "1"}}})),
        &[
            "spec.hard[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            "spec.hard[pods]: Invalid value: \"500m\": must be an integer",
            "spec.hard[x]: Invalid value: \"x\": must be a standard resource type or fully qualified",
            "spec.hard[x]: Invalid value: \"x\": must be a standard resource for quota",
        ],
    );
    check_create::<LimitRange>(
        &named(
            &json!({"spec": {"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}, "default": {"cpu": "3"}, "defaultRequest": {"cpu": "4"}}]}}),
        ),
        &[
            "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1",
            "spec.limits[0].defaultRequest[cpu]: Invalid value: \"4\": default request value 4 is greater than max value 1",
            "spec.limits[0].defaultRequest[cpu]: Invalid value: \"4\": default request value 4 is greater than default limit value 3",
            "spec.limits[0].default[cpu]: Invalid value: \"1\": default value 3 is greater than max value 1",
        ],
    );
    let limits = |items: Value| named(&json!({"spec": {"limits": items}}));
    check_create::<LimitRange>(
        &limits(json!([{"type": "Node"}, {"type": "a.b/Disk"}, {"type": "PersistentVolumeClaim"}, {"type": "Pod"}, {"type": "Pod"}])),
        &[
            "spec.limits[0].type: Invalid value: \"Node\": must be a standard limit type or fully qualified",
            "spec.limits[2].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
            "spec.limits[4].type: Duplicate value: \"Pod\"",
        ],
    );
    check_create::<LimitRange>(
        &limits(json!([{"type": "Pod", "default": {"cpu": "1"}, "max": {"storage": "1"}, "maxLimitRequestRatio": {"cpu": "500m"}}])),
        &[
            "spec.limits[0].max[storage]: Invalid value: \"storage\": must be a standard resource for containers",
            "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
            "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1",
        ],
    );
    let item = json!({"type": "Container", "min": {"memory": "512Mi"}, "max": {"memory": "2Gi"}, "maxLimitRequestRatio": {"memory": "10"},
        "default": {"hugepages-2Mi": "4Mi"}, "defaultRequest": {"hugepages-2Mi": "2Mi"}});
    check_create::<LimitRange>(
        &limits(json!([item])),
        &[
            "spec.limits[0].maxLimitRequestRatio[memory]: Invalid value: \"10\": ratio 10 is greater than max/min = 4.000000",
            "spec.limits[0].defaultRequest[hugepages-2Mi]: Invalid value: \"2Mi\": default value 4Mi must equal to defaultRequest value 2Mi in \
             hugepages-2Mi",
        ],
    );
}

#[test]
fn scope_selectors_are_validated() {
    let selecting = |expressions: Value| named(&json!({"spec": {"scopeSelector": {"matchExpressions": expressions}}}));
    let scope = |name: &str, operator: &str, values: Value| json!({"scopeName": name, "operator": operator, "values": values});
    let good = json!([scope("PriorityClass", "In", json!(["a"])), scope("BestEffort", "Exists", json!([]))]);
    check_create::<ResourceQuota>(&selecting(good), &[]);
    let at = "spec.scopeSelector.matchExpressions";
    let bad = json!([
        scope("Other", "Exists", json!([])),
        scope("Terminating", "In", json!(["a"])),
        scope("PriorityClass", "NotIn", json!([])),
        scope("PriorityClass", "DoesNotExist", json!(["a"])),
        scope("PriorityClass", "Near", json!([])),
    ]);
    let wanted = [
        format!("{at}.scopeName: Invalid value: \"Other\": unsupported scope"),
        format!("{at}.operator: Invalid value: \"In\": must be 'Exists' when scope is any of …"),
        format!("{at}.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"),
        format!("{at}.values: Invalid value: [\"a\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"),
        format!("{at}.operator: Invalid value: \"Near\": not a valid selector operator"),
    ];
    check_create::<ResourceQuota>(&selecting(bad), &wanted.each_ref().map(String::as_str));
}

#[test]
fn labels_of_pod_security_are_validated_when_they_change() {
    let labeled = |labels: Value| named(&json!({"metadata": {"labels": labels}}));
    let good = labeled(json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn-version": "v1.30"}));
    check_create::<Namespace>(&good, &[]);
    let bad = labeled(json!({"pod-security.kubernetes.io/enforce": "strict", "pod-security.kubernetes.io/audit-version": "v1.030"}));
    let faults = [
        "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted",
        "metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: \"v1.030\": must be \"latest\" or \"v1.x\"",
    ];
    check_create::<Namespace>(&bad, &faults);
    check_update::<Namespace>(&good, &bad, &faults);
    check_update::<Namespace>(&bad, &bad, &[]);
    check_update::<Namespace>(&bad, &good, &[]);
}

#[test]
fn cluster_kinds_are_validated() {
    check_create::<Node>(
        &named(&json!({"spec": {"taints": [{"key": "a", "effect": "X"}, {"key": "a", "effect": "NoSchedule"}]}})),
        &["metadata.taints[0].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\""],
    );
    check_create::<PriorityClass>(
        &json!({"metadata": {"name": "system-x"}, "value": 1}),
        &[
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class",
        ],
    );
    check_create::<PriorityClass>(&json!({"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000}), &[]);
    check_create::<PriorityClass>(
        &named(&json!({"value": 1_000_000_001})),
        &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
    );
    check_update::<PriorityClass>(
        &named(&json!({})),
        &named(&json!({"value": 1})),
        &["value: Forbidden: may not be changed in an update."],
    );
    check_create::<Lease>(
        &named(&json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}})),
        &[
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
        ],
    );
    let phase: Namespace = decoded(&named(&json!({"status": {"phase": "Terminating"}})));
    let found = phase.validate_status_update(&phase, &FeatureGates::default());
    assert_eq!(found.len(), 1, "it is not being deleted");
}

#[test]
fn events_are_in_the_namespace_of_their_object() {
    let event = |namespace: &str| json!({"metadata": {"name": "e", "namespace": namespace}, "involvedObject": {"namespace": "n"}});
    check_create::<CoreEvent>(&event("n"), &[]);
    check_create::<CoreEvent>(&event("default"), &["involvedObject.namespace: Invalid value: \"n\": does not match event.namespace"]);
    let of_node = |namespace: &str| json!({"metadata": {"name": "e", "namespace": namespace}, "involvedObject": {"kind": "Node"}});
    check_create::<CoreEvent>(&of_node("default"), &[]);
    check_create::<CoreEvent>(&of_node("kube-system"), &["involvedObject.namespace: Invalid value: \"\": does not match event.namespace"]);
    let timed = json!({"eventTime": "2026-01-01T00:00:00.000000Z"});
    let missing = ["reportingInstance: Required value", "action: Required value", "reason: Required value"];
    check_create::<CoreEvent>(&merged(of_node("kube-system"), &merged(timed, &json!({"reportingComponent": "c"}))), &missing);
}

fn new_event(patch: &Value) -> Value {
    let event = json!({
        "metadata": {"name": "e", "namespace": "n"}, "regarding": {"namespace": "n"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "c", "reportingInstance": "i", "action": "a", "reason": "r", "type": "Normal",
    });
    merged(event, patch)
}

#[test]
fn events_of_the_newer_form_are_about_any_object_and_have_all_texts() {
    check_create::<Event>(&new_event(&json!({})), &[]);
    check_create::<Event>(&new_event(&json!({"regarding": {"namespace": "another"}})), &[]);
    check_create::<Event>(
        &new_event(&json!({"regarding": {"namespace": null}})),
        &["involvedObject.namespace: Invalid value: \"\": does not match event.namespace"],
    );
    check_create::<Event>(
        &new_event(&json!({"eventTime": null, "action": null, "type": "X"})),
        &["eventTime: Required value", "type: Invalid value: \"\": has invalid value: X"],
    );
    check_create::<Event>(
        &new_event(
            &json!({"action": null, "deprecatedCount": 3, "series": {"count": 1, "lastObservedTime": "2026-01-01T00:00:05.000000Z"}}),
        ),
        &[
            "action: Required value",
            "series.count: Invalid value: \"\": should be at least 2",
            "count: Invalid value: \"\": needs to be unset",
        ],
    );
}

#[test]
fn of_an_event_of_the_newer_form_only_the_series_changes() {
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:05.000000Z"}});
    check_update::<Event>(&new_event(&json!({})), &new_event(&series), &[]);
    for (patch, fault) in [
        (json!({"reason": "other"}), "reason: Invalid value: \"other\": field is immutable"),
        (json!({"note": "n"}), "message: Invalid value: \"n\": field is immutable"),
        (json!({"deprecatedCount": 5}), "count: Invalid value: 5: field is immutable"),
        (json!({"type": "Warning"}), "type: Invalid value: \"Warning\": field is immutable"),
        (json!({"regarding": {"namespace": "m"}}), "involvedObject: Invalid value: {\"namespace\":\"m\"}: field is immutable"),
        (
            json!({"eventTime": "2026-01-01T00:00:07.000000Z"}),
            "eventTime: Invalid value: \"2026-01-01T00:00:07.000000Z\": field is immutable",
        ),
    ] {
        check_update::<Event>(&new_event(&json!({})), &new_event(&patch), &[fault]);
    }
}

#[test]
fn autoscalers_are_defaulted_and_validated() {
    let autoscaler = |spec: Value| {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        named(&json!({"spec": merged(json!({"maxReplicas": 3, "scaleTargetRef": target}), &spec)}))
    };
    check_stored::<HorizontalPodAutoscaler>(
        &autoscaler(json!({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}})),
        &json!({"spec": {
            "minReplicas": 1,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}],
            "behavior": {
                "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
                    {"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]},
                "scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max", "policies": [
                    {"type": "Percent", "value": 100, "periodSeconds": 15}]},
            },
        }, "status": {"desiredReplicas": 0}}),
    );
    let rules =
        json!({"selectPolicy": "X", "stabilizationWindowSeconds": 3601, "policies": [{"type": "Pods", "value": 0, "periodSeconds": 1801}]});
    let metrics = json!([{"type": "Resource"}, {"type": "Pods", "resource": {"name": "cpu", "target": {"type": "X"}}}, {}]);
    check_create::<HorizontalPodAutoscaler>(
        &autoscaler(
            json!({"minReplicas": 0, "maxReplicas": -1, "scaleTargetRef": {"kind": ""}, "metrics": metrics, "behavior": {"scaleUp": rules}}),
        ),
        &[
            "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
            "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
            "spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
            "spec.scaleTargetRef.kind: Required value",
            "spec.metrics[0].resource: Required value: must populate information for the given metric source",
            "spec.metrics[1].resource.target.type: Invalid value: \"X\": must be either Utilization, Value, or AverageValue",
            "spec.metrics[1].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization",
            "spec.metrics[1].pods: Required value: must populate information for the given metric source",
            "spec.metrics[2].type: Required value: must specify a metric source type",
            "spec.metrics[2].type: Unsupported value: \"\": supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"",
            "spec.metrics[2].type: Unsupported value: \"\": supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"",
            "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
            "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
            "spec.behavior.scaleUp.selectPolicy: Unsupported value: \"X\": supported values: \"Disabled\", \"Max\", \"Min\"",
            "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
            "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
        ],
    );
}

#[test]
fn a_quota_bounds_only_what_its_scopes_are_about() {
    let quota = |hard: Value, scopes: Value| named(&json!({"spec": {"hard": hard, "scopes": scopes}}));
    let fault = |scopes: &str| format!("spec.scopes: Invalid value: {scopes}: unsupported scope applied to resource");
    check_create::<ResourceQuota>(&quota(json!({"pods": "1", "requests.cpu": "1", "count/services": "1"}), json!(["Terminating"])), &[]);
    check_create::<ResourceQuota>(&quota(json!({"persistentvolumeclaims": "1"}), json!(["VolumeAttributesClass"])), &[]);
    check_create::<ResourceQuota>(&quota(json!({"services": "1"}), json!(["Terminating"])), &[&fault("[\"Terminating\"]")]);
    check_create::<ResourceQuota>(&quota(json!({"pods": "1", "cpu": "1"}), json!(["BestEffort"])), &[&fault("[\"BestEffort\"]")]);
    let two = fault("[\"Terminating\",\"PriorityClass\"]");
    check_create::<ResourceQuota>(&quota(json!({"configmaps": "1"}), json!(["Terminating", "PriorityClass"])), &[&two, &two]);
    let selector = json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]});
    let selecting = named(&json!({"spec": {"hard": {"configmaps": "1"}, "scopeSelector": selector}}));
    check_create::<ResourceQuota>(&selecting, &["spec.scopeSelector.matchExpressions: Invalid value: {…"]);
}

#[test]
fn the_source_of_a_volume_has_the_fields_that_its_driver_requires() {
    let volume = |source: Value| {
        let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]});
        named(&json!({"spec": merged(spec, &source)}))
    };
    for (source, faults) in [
        (json!({"gcePersistentDisk": {"pdName": ""}}), &["spec.persistentDisk.pdName: Required value"][..]),
        (json!({"flexVolume": {"driver": ""}}), &["spec.flexVolume.driver: Required value"]),
        (json!({"rbd": {"monitors": ["a"], "image": ""}}), &["spec.rbd.image: Required value"]),
        (
            json!({"glusterfs": {"endpoints": "", "path": ""}}),
            &["spec.glusterfs.endpoints: Required value", "spec.glusterfs.path: Required value"],
        ),
        (json!({"cephfs": {"monitors": []}}), &["spec.cephfs.monitors: Required value"]),
        (json!({"fc": {}}), &["spec.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"]),
        (
            json!({"quobyte": {"registry": "", "volume": ""}}),
            &[
                "spec.quobyte.registry: Required value: must be a host:port pair or multiple pairs separated by commas",
                "spec.quobyte.volume: Required value",
            ],
        ),
    ] {
        check_create::<PersistentVolume>(&volume(source), faults);
    }
}
