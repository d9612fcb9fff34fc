//! Errors for which a comparison with a real Kubernetes 1.36.2 (`cargo xtask compare`) found differences, with the
//! messages of the real server.

use crate::{
    FeatureGates, Kind,
    check::{check_create, check_update, created, merged},
};
use k8s_openapi::api::{
    autoscaling::v2::HorizontalPodAutoscaler,
    coordination::v1::Lease,
    core::v1::{
        Endpoints, Event as CoreEvent, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota, Service,
        ServiceAccount,
    },
    discovery::v1::EndpointSlice,
    events::v1::Event,
    networking::v1::IPAddress,
    storage::v1::StorageClass,
};
use serde_json::{Value, json};

pub(super) const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                         character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

pub(super) fn named(patch: &Value) -> Value {
    merged(json!({"metadata": {"name": "a", "namespace": "n"}}), patch)
}

fn event(patch: &Value) -> Value {
    let minimal = json!({"regarding": {"kind": "Pod", "namespace": "n", "name": "p"}, "reason": "Started", "action": "Start", "type": "Normal",
        "note": "started", "eventTime": "2024-01-01T00:00:00.000000Z", "reportingController": "example.com/c", "reportingInstance": "c-1"});
    named(&merged(minimal, patch))
}

#[test]
fn the_content_of_an_event_does_not_change() {
    check_create::<Event>(&event(&json!({"regarding": {"namespace": "other"}})), &[]);
    check_create::<Event>(&event(&json!({"deprecatedCount": 2})), &["count: Invalid value: \"\": needs to be unset"]);
    check_create::<Event>(
        &event(&json!({"regarding": {"namespace": null}})),
        &["involvedObject.namespace: Invalid value: \"\": does not match event.namespace"],
    );
    check_update::<Event>(
        &event(&json!({})),
        &event(&json!({"series": {"count": 2, "lastObservedTime": "2024-01-01T00:00:00.000000Z"}})),
        &[],
    );
    check_update::<Event>(
        &event(&json!({})),
        &event(&json!({"note": "x", "action": "y", "series": {"count": 1, "lastObservedTime": "2024-01-01T00:00:00.000000Z"}})),
        &[
            "series.count: Invalid value: \"\": should be at least 2",
            "message: Invalid value: \"x\": field is immutable",
            "action: Invalid value: \"y\": field is immutable",
        ],
    );
}

#[test]
fn a_core_event_with_an_event_time_requires_its_reporting_component() {
    let core = json!({"involvedObject": {"kind": "Pod", "namespace": "n"}, "reason": "r", "action": "a", "reportingInstance": "i"});
    check_create::<CoreEvent>(&named(&core), &[]);
    check_create::<CoreEvent>(
        &named(&merged(core, &json!({"eventTime": "2024-01-01T00:00:00.000000Z"}))),
        &[
            "reportingComponent: Required value",
            "reportingComponent: Invalid value: \"\": name part must be non-empty",
            &format!("reportingComponent: Invalid value: \"\": {NAME_PART}"),
        ],
    );
}

#[test]
fn addresses_of_endpoints_are_of_one_form_unless_they_are_stored() {
    let address = |address: Value| named(&json!({"subsets": [{"addresses": [address]}]}));
    let ip = "subsets[0].addresses[0].ip: Invalid value";
    check_create::<Endpoints>(&address(json!({"ip": "01.2.3.4"})), &[&format!("{ip}: \"01.2.3.4\": must not have leading 0s")]);
    check_update::<Endpoints>(&address(json!({"ip": "01.2.3.4"})), &address(json!({"ip": "01.2.3.4", "hostname": "a"})), &[]);
    check_create::<Endpoints>(&address(json!({"ip": "0.0.0.0"})), &[&format!("{ip}: \"0.0.0.0\": may not be unspecified (0.0.0.0)")]);
    check_create::<Endpoints>(
        &address(json!({"ip": "http", "hostname": "a.b"})),
        &[
            &format!("{ip}: \"http\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            "subsets[0].addresses[0].hostname: Invalid value: \"a.b\": must not contain dots",
            &format!("{ip}: \"http\": must be a valid IP address"),
        ],
    );
    check_create::<Endpoints>(
        &named(&json!({"subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80, "appProtocol": "a b"}]}]})),
        &[&format!("subsets[0].ports[0].appProtocol: Invalid value: \"a b\": {NAME_PART}")],
    );
    check_create::<EndpointSlice>(
        &named(&json!({"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"], "hostname": "a.b"}]})),
        &["endpoints[0].hostname: Invalid value: \"a.b\": must not contain dots"],
    );
}

#[test]
fn the_source_of_a_metric_is_checked_also_beside_another_type() {
    let metric = |metric: Value| {
        named(
            &json!({"spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "metrics": [metric]}}),
        )
    };
    let unknown = "spec.metrics[0].type: Unsupported value: \"x\": supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"";
    check_create::<HorizontalPodAutoscaler>(
        &metric(json!({"type": "x", "pods": {"metric": {"name": "m"}, "target": {"type": "y", "averageValue": "0"}}})),
        &[
            unknown,
            unknown,
            "spec.metrics[0].pods.target.type: Invalid value: \"y\": must be either Utilization, Value, or AverageValue",
            "spec.metrics[0].pods.target.averageValue: Invalid value: \"0\": must be positive",
        ],
    );
    check_create::<HorizontalPodAutoscaler>(
        &metric(json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}}})),
        &["spec.metrics[0].pods.target.averageValue: Required value: must specify a positive target averageValue"],
    );
    check_create::<HorizontalPodAutoscaler>(
        &metric(json!({"type": "Resource", "resource": {"name": "", "target": {"type": "Utilization"}}})),
        &[
            "spec.metrics[0].resource.name: Required value: must specify a resource name",
            "spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization",
        ],
    );
    check_create::<HorizontalPodAutoscaler>(
        &metric(
            json!({"type": "Object", "object": {"describedObject": {"apiVersion": "v1", "kind": "K", "name": ""}, "metric": {"name": ""},
            "target": {"type": "Value"}}}),
        ),
        &[
            "spec.metrics[0].object.describedObject.name: Required value",
            "spec.metrics[0].object.metric.name: Required value: must specify a metric name",
            "spec.metrics[0].object.target.averageValue: Required value: must set either a target value or averageValue",
        ],
    );
    let target = |version: &str, kind: &str| {
        named(&json!({"spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": version, "kind": kind, "name": "d"}}}))
    };
    check_create::<HorizontalPodAutoscaler>(&target("v1", "ReplicationController"), &[]);
    check_create::<HorizontalPodAutoscaler>(
        &target("v1", "Pod"),
        &["spec.scaleTargetRef.apiVersion: Invalid value: \"v1\": apiVersion must specify API group"],
    );
}

#[test]
fn an_address_whose_parent_changes_is_checked_as_a_new_one() {
    let address = |parent: Value| json!({"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": parent}});
    check_update::<IPAddress>(
        &address(json!({"resource": "services", "name": "a"})),
        &address(json!({"resource": "a/b", "name": "a"})),
        &[
            "spec.parentRef.resource: Invalid value: \"a/b\": may not contain '/'",
            "spec.parentRef: Invalid value: {\"Group\":\"\",\"Name\":\"a\",\"Namespace\":\"\",\"Resource\":\"a/b\"}: field is immutable",
        ],
    );
}

#[test]
fn a_fault_in_a_namespace_finalizer_is_reported_without_its_index() {
    check_create::<Namespace>(
        &json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["1"]}}),
        &["spec.finalizers: Invalid value: \"1\": name is neither a standard finalizer name nor is it fully qualified"],
    );
}

#[test]
fn what_only_closed_gates_have_is_dropped() {
    let lease = created::<Lease>(&named(&json!({"spec": {"strategy": "OldestEmulationVersion", "preferredHolder": "b"}})));
    assert_eq!(lease.spec, Some(Default::default()));
    let node = json!({"metadata": {"name": "a"}, "spec": {"configSource": {"configMap": {"kubeletConfigKey": "k", "name": "n", "namespace": "m"}}}});
    assert_eq!(created::<Node>(&node).spec.and_then(|spec| spec.config_source), None);
}

#[test]
fn the_range_of_a_node_is_the_first_of_its_ranges() {
    let ranges = |spec: Value| {
        let spec = created::<Node>(&json!({"metadata": {"name": "a"}, "spec": spec})).spec.unwrap_or_default();
        (spec.pod_cidr.unwrap_or_default(), spec.pod_cidrs.unwrap_or_default())
    };
    let both = || ("10.0.0.0/24".to_owned(), vec!["10.0.0.0/24".to_owned()]);
    assert_eq!(ranges(json!({"podCIDR": "10.0.0.0/24"})), both());
    assert_eq!(ranges(json!({"podCIDRs": ["10.0.0.0/24"]})), both());
    assert_eq!(ranges(json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.1.0.0/24"]})), both());
    assert_eq!(ranges(json!({})), (String::new(), Vec::new()));
}

#[test]
fn a_volume_stays_where_it_can_be_reached_from() {
    let volume = |key: &str| {
        let terms = json!([{"matchExpressions": [{"key": key, "operator": "Exists"}]}]);
        json!({"metadata": {"name": "a"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}})
    };
    let bad = volume("a").to_string().replace(r#""operator":"Exists""#, r#""operator":"In","values":["a/b"]"#);
    let values = "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values[0]";
    check_create::<PersistentVolume>(
        &serde_json::from_str(&bad).expect("JSON"),
        &[&format!("{values}: Invalid value: \"a/b\": a valid label must be an empty string…")],
    );
    check_update::<PersistentVolume>(&volume("beta.kubernetes.io/os"), &volume("kubernetes.io/os"), &[]);
    let shown = "{\"required\":{\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":\"b\",\"operator\":\"Exists\"}]}]}}";
    let detail = "field is immutable, except for updating from beta label to GA";
    check_update::<PersistentVolume>(&volume("a"), &volume("b"), &[&format!("nodeAffinity: Invalid value: {shown}: {detail}")]);
}

#[test]
fn the_two_sources_of_a_claim_are_the_same() {
    let claim = |spec: Value| {
        let minimal = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        named(&json!({"spec": merged(minimal, &spec)}))
    };
    let source = json!({"kind": "PersistentVolumeClaim", "name": "b"});
    let spec = created::<PersistentVolumeClaim>(&claim(json!({"dataSource": source}))).spec.unwrap_or_default();
    assert_eq!(spec.data_source_ref.map(|source| (source.kind, source.name)), Some(("PersistentVolumeClaim".to_owned(), "b".to_owned())));
    let spec = created::<PersistentVolumeClaim>(&claim(json!({"dataSourceRef": source}))).spec.unwrap_or_default();
    assert_eq!(spec.data_source.map(|source| source.name), Some("b".to_owned()));
    let group = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
    check_create::<PersistentVolumeClaim>(
        &claim(json!({"dataSourceRef": {"kind": "1", "name": "b"}})),
        &[&format!("spec.dataSource: Invalid value: \"1\": {group}"), &format!("spec.dataSourceRef: Invalid value: \"1\": {group}")],
    );
    // The older of the two is dropped if it is neither a claim nor a snapshot, and so is a reference into another
    // namespace.
    for dropped in [
        json!({"dataSource": {"kind": "1", "name": "b"}}),
        json!({"dataSource": {"apiGroup": "a.b", "kind": "X", "name": "b"}}),
        json!({"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "b", "namespace": "m"}}),
    ] {
        let spec = created::<PersistentVolumeClaim>(&claim(dropped)).spec.unwrap_or_default();
        assert_eq!((spec.data_source, spec.data_source_ref), (None, None));
    }
    let snapshot = json!({"dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": ""}});
    check_create::<PersistentVolumeClaim>(
        &claim(snapshot),
        &["spec.dataSource.name: Required value", "spec.dataSourceRef.name: Required value"],
    );
    let immutable =
        "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    check_update::<PersistentVolumeClaim>(
        &claim(json!({ "dataSource": source })),
        &claim(json!({"dataSource": {"kind": "1", "name": "b"}, "dataSourceRef": source})),
        &[&format!("spec.dataSource: Invalid value: \"1\": {group}"), "spec: Invalid value: {}: must match dataSourceRef", immutable],
    );
    check_update::<PersistentVolumeClaim>(&claim(json!({})), &claim(json!({"dataSource": {"kind": "1", "name": "b"}})), &[]);
}

#[test]
fn a_storage_class_is_checked_and_then_kept() {
    let class = |patch: &Value| merged(json!({"metadata": {"name": "a"}, "provisioner": "e.com/p", "parameters": {"a": "b"}}), patch);
    check_update::<StorageClass>(
        &class(&json!({})),
        &class(&json!({"provisioner": "", "parameters": {"a": "c"}, "reclaimPolicy": "Retain"})),
        &[
            "provisioner: Required value",
            "parameters: Invalid value: {\"a\":\"c\"}: field is immutable",
            "provisioner: Invalid value: \"\": field is immutable",
            "reclaimPolicy: Invalid value: \"Retain\": field is immutable",
        ],
    );
    check_create::<StorageClass>(
        &class(
            &json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "a"]}, {"key": "zone", "values": []}]}]}),
        ),
        &[
            "allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: \"a\"",
            "allowedTopologies[0].matchLabelExpressions[1].values: Required value",
            "allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: \"zone\"",
        ],
    );
    let term = |values: Value| json!({"matchLabelExpressions": [{"key": "zone", "values": values}]});
    check_create::<StorageClass>(
        &class(&json!({"allowedTopologies": [term(json!(["a", "b"])), {}, term(json!(["b", "a"]))]})),
        &[
            "allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\"",
            "allowedTopologies[2].matchLabelExpressions: Duplicate value: \"\"",
        ],
    );
    check_create::<StorageClass>(
        &class(&json!({"reclaimPolicy": "", "volumeBindingMode": ""})),
        &["volumeBindingMode: Unsupported value: \"\": supported values: \"Immediate\", \"WaitForFirstConsumer\""],
    );
}

#[test]
fn names_of_resources_are_checked_for_all_and_then_for_what_they_bound() {
    let limits = |item: Value| named(&json!({"spec": {"limits": [item]}}));
    check_create::<LimitRange>(&limits(json!({"type": "PersistentVolumeClaim", "min": {"storage": "1Mi", "kubernetes.io/x": "-1"}})), &[]);
    check_create::<LimitRange>(
        &limits(json!({"type": "Container", "maxLimitRequestRatio": {"x": "2"}})),
        &[
            "spec.limits[0].maxLimitRequestRatio[x]: Invalid value: \"x\": must be a standard resource type or fully qualified",
            "spec.limits[0].maxLimitRequestRatio[x]: Invalid value: \"x\": must be a standard resource for containers",
        ],
    );
    check_create::<LimitRange>(
        &limits(json!({"type": ""})),
        &[
            "spec.limits[0].type: Invalid value: \"\": name part must be non-empty",
            &format!("spec.limits[0].type: Invalid value: \"\": {NAME_PART}"),
        ],
    );
    let selector = json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]});
    check_create::<ResourceQuota>(
        &named(&json!({"spec": {"hard": {"x": "1"}, "scopeSelector": selector}})),
        &[
            "spec.hard[x]: Invalid value: \"x\": must be a standard resource type or fully qualified",
            "spec.hard[x]: Invalid value: \"x\": must be a standard resource for quota",
        ],
    );
}

#[test]
fn an_account_keeps_the_names_of_its_secrets_alone() {
    let account = created::<ServiceAccount>(&named(&json!({"secrets": [{"kind": "Secret", "namespace": "n", "name": "s"}]})));
    assert_eq!(json!(account.secrets), json!([{"name": "s"}]));
}

#[test]
fn a_balancers_addresses_belong_to_a_balancer() {
    let service = |type_: &str, ingress: Value| -> Service {
        let spec = json!({"type": type_, "ports": [{"port": 80}]});
        serde_json::from_value(json!({"spec": spec, "status": {"loadBalancer": {"ingress": [ingress]}}})).expect("a service")
    };
    let check = |service: &Service, wanted: &[&str]| {
        let faults = service.validate_status_update(service, &FeatureGates::default());
        assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), wanted);
    };
    check(&service("LoadBalancer", json!({"ip": "1.2.3.4", "ipMode": "VIP"})), &[]);
    check(
        &service("ClusterIP", json!({"ip": "x"})),
        &["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"],
    );
    check(
        &service("LoadBalancer", json!({"hostname": "1.2.3.4", "ipMode": "VIP"})),
        &[
            "status.loadBalancer.ingress[0].ipMode: Forbidden: may not be specified when `ip` is not set",
            "status.loadBalancer.ingress[0].hostname: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address",
        ],
    );
}

#[test]
fn profiles_and_parameters_of_the_kernel_are_checked() {
    let pod = |context: Value| named(&json!({"spec": {"containers": [{"name": "c", "image": "i"}], "securityContext": context}}));
    let path = "spec.securityContext";
    check_create::<Pod>(
        &pod(json!({"seccompProfile": {"type": "Localhost"}, "appArmorProfile": {"type": "x"}})),
        &[
            &format!("{path}.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost"),
            &format!(
                "{path}.appArmorProfile.type: Unsupported value: \"x\": supported values: \"Localhost\", \"RuntimeDefault\", \"Unconfined\""
            ),
        ],
    );
    let sysctl = |name: &str| json!({"name": name, "value": "1"});
    check_create::<Pod>(
        &pod(json!({"sysctls": [sysctl("kernel.shm_rmid_forced"), sysctl("kernel.shm_rmid_forced"), sysctl("a b")]})),
        &[
            &format!("{path}.sysctls[1].name: Duplicate value: \"kernel.shm_rmid_forced\""),
            &format!(
                "{path}.sysctls[2].name: Invalid value: \"a b\": must have at most 253 characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
            ),
        ],
    );
}

#[test]
fn what_a_variable_takes_from_elsewhere_is_named_well() {
    let pod =
        |from: Value| named(&json!({"spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "E", "valueFrom": from}]}]}}));
    let path = "spec.containers[0].env[0].valueFrom";
    check_create::<Pod>(
        &pod(json!({"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}})),
        &[&format!("{path}.fieldRef.fieldPath: Invalid value: \"metadata.name\": error converting fieldPath: unsupported pod version: v2")],
    );
    check_create::<Pod>(
        &pod(json!({"configMapKeyRef": {"key": "k"}})),
        &[&format!("{path}.configMapKeyRef.name: Invalid value: \"\": a lowercase…")],
    );
}

#[test]
fn a_persistent_volume_has_one_source_with_the_fields_that_its_driver_requires() {
    let volume = |source: &Value| {
        let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]});
        json!({"metadata": {"name": "a"}, "spec": merged(spec, source)})
    };
    let check = |source: Value, wanted: &[&str]| check_create::<PersistentVolume>(&volume(&source), wanted);
    check(
        json!({"gcePersistentDisk": {"pdName": ""}, "hostPath": {"path": "/a", "type": "x"}, "cephfs": {"monitors": []}}),
        &[
            "spec.hostPath.type: Unsupported value: \"x\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \
             \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
            "spec.gcePersistentDisk: Forbidden: may not specify more than 1 volume type",
            "spec.cephFS: Forbidden: may not specify more than 1 volume type",
        ],
    );
    check(
        json!({"csi": {"driver": "a", "volumeHandle": "", "nodePublishSecretRef": {"name": "a"}}}),
        &["spec.csi.volumeHandle: Required value", "spec.csi.nodePublishSecretRef.namespace: Required value"],
    );
    check(
        json!({"cinder": {"volumeID": "a", "secretRef": {}}}),
        &["spec.cinder.secretRef.name: Required value", "spec.cinder.secretRef.namespace: Required value"],
    );
    check(
        json!({"glusterfs": {"endpoints": "a", "path": "a", "endpointsNamespace": ""}}),
        &["spec.glusterfs.endpointsNamespace: Invalid value: \"\": if the endpointnamespace is set, it must be a valid namespace name"],
    );
    check(
        json!({"iscsi": {"targetPortal": "a", "iqn": "x", "lun": 0, "secretRef": {}}}),
        &["spec.iscsi.iqn: Invalid value: \"x\": must be valid format", "spec.iscsi.secretRef.name: Required value"],
    );
    // A source that was stored before a rule existed is kept.
    let old = volume(&json!({"iscsi": {"targetPortal": "a", "iqn": "x", "lun": 0}}));
    check_update::<PersistentVolume>(&old, &merged(old.clone(), &json!({"metadata": {"labels": {"a": "b"}}})), &[]);
}

#[test]
fn new_addresses_are_those_that_all_read_alike() {
    let service = |spec: Value| named(&json!({"spec": merged(json!({"ports": [{"port": 80}]}), &spec)}));
    let mapped = "must not be an IPv4-mapped IPv6 address";
    let old = service(json!({"clusterIP": "::ffff:10.0.0.9"}));
    check_create::<Service>(&old, &[&format!("spec.clusterIPs[0]: Invalid value: \"::ffff:10.0.0.9\": {mapped}")]);
    check_update::<Service>(&old, &merged(old.clone(), &json!({"spec": {"selector": {"a": "b"}}})), &[]);
    let zeros = "must not have leading 0s in IP or prefix length";

    let annotation = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let ranges = |type_: &str| {
        merged(service(json!({ "type": type_ })), &json!({"metadata": {"annotations": {annotation: "10.0.0.0/8, 010.0.0.0/8"}}}))
    };
    let path = format!("metadata.annotations[{annotation}]");
    let invalid = format!("{path}: Invalid value: \"010.0.0.0/8\": {zeros}");
    check_create::<Service>(&ranges("LoadBalancer"), &[&invalid]);
    check_create::<Service>(
        &ranges("ClusterIP"),
        &[&format!("{path}: Forbidden: may only be used when `type` is 'LoadBalancer'"), &invalid],
    );
}

#[test]
fn how_an_autoscaler_tolerates_is_not_negative() {
    let rules = json!({"spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        "behavior": {"scaleUp": {"tolerance": "-1"}, "scaleDown": {"tolerance": "100m"}}}});
    check_create::<HorizontalPodAutoscaler>(
        &named(&rules),
        &["spec.behavior.scaleUp.tolerance: Invalid value: \"-1\": must be greater than or equal to 0"],
    );
}
