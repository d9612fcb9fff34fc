//! Further errors of a real Kubernetes 1.36.2 for these kinds, mainly for updates. Each row was recorded.

use super::as_upstream::{NAME_PART, named};
use crate::{
    Kind,
    check::{check_create, check_update, created, merged},
};
use k8s_openapi::api::{
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{LimitRange, Node, PersistentVolume, PersistentVolumeClaim, Service},
    discovery::v1::EndpointSlice,
    networking::v1::ServiceCIDR,
};
use serde_json::{Value, json};

#[test]
fn the_capacity_of_a_volume_is_its_storage_alone() {
    let volume = |spec: Value| {
        let base = json!({"accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}});
        json!({"metadata": {"name": "a"}, "spec": merged(base, &spec)})
    };
    let check = |spec: Value, wanted: &[&str]| check_create::<PersistentVolume>(&volume(spec), wanted);
    let unsupported = |shown: &str| format!("spec.capacity: Unsupported value: {shown}: supported values: \"storage\"");
    check(json!({}), &["spec.capacity: Required value", &unsupported("null")]);
    check(json!({"capacity": {"cpu": "1", "storage": "1"}}), &[&unsupported("{\"cpu\":\"1\",\"storage\":\"1\"}")]);
    check(
        json!({"capacity": {"storage": "-500m"}}),
        &[
            "spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
            "spec.capacity[storage]: Invalid value: \"-500m\": must be greater than zero",
        ],
    );
    let good = |spec: Value| volume(merged(json!({"capacity": {"storage": "1"}}), &spec));
    check_update::<PersistentVolume>(
        &good(json!({})),
        &good(json!({"volumeMode": "Block"})),
        &["volumeMode: Invalid value: \"Block\": field is immutable"],
    );
    check_create::<PersistentVolume>(
        &good(json!({"volumeAttributesClassName": ""})),
        &[
            "spec.volumeAttributesClassName: Required value: an empty string is disallowed",
            "spec.csi: Required value: has to be specified when using volumeAttributesClassName",
        ],
    );
    check_create::<PersistentVolume>(
        &volume(
            json!({"capacity": {"storage": "1"}, "hostPath": null, "glusterfs": {"endpoints": "", "path": "a"}, "flexVolume": {}, "scaleIO": null, "storageos": {}}),
        ),
        &[
            "spec.glusterfs.endpoints: Required value",
            "spec.flexVolume.driver: Required value",
            "spec.storageos: Forbidden: may not specify more than 1 volume type",
        ],
    );
    check_create::<PersistentVolume>(&good(json!({"accessModes": ["ReadWriteOncePod", "ReadWriteOncePod"]})), &[]);
    check_create::<PersistentVolume>(
        &good(json!({"accessModes": ["ReadWriteOncePod", "x"]})),
        &["spec.accessModes: Unsupported value: \"x\"…"],
    );
}

#[test]
fn a_claim_does_not_become_smaller_than_what_it_has() {
    let claim = |size: Value| named(&json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}}}));
    let immutable =
        "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    let smaller = "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity";
    let check =
        |size: Value, wanted: &[&str]| check_update::<PersistentVolumeClaim>(&claim(json!({"storage": "5Gi"})), &claim(size), wanted);
    check(json!({"storage": "3Gi"}), &[immutable]);
    check(json!({"storage": "-1"}), &["spec.resources[storage]: Invalid value: \"-1\": must be greater than zero", immutable, smaller]);
    check(Value::Null, &["spec.resources[storage]: Required value", immutable, smaller]);
}

#[test]
fn what_a_node_is_known_by_elsewhere_is_kept() {
    let node = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
    check_update::<Node>(
        &node(json!({"externalID": "a", "providerID": "p"})),
        &node(json!({})),
        &[
            "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
            "spec.externalID: Forbidden: may not be updated",
        ],
    );
    let form = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    check_create::<Node>(&node(json!({"podCIDRs": ["x"]})), &[&format!("spec.podCIDRs[0]: Invalid value: \"x\": {form}")]);
    check_create::<Node>(
        &node(json!({"podCIDRs": ["::/0", "x"]})),
        &[
            &format!("spec.podCIDRs[1]: Invalid value: \"x\": {form}"),
            "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[1]: <nil> (invalid CIDR \
             address: x)",
            "spec.podCIDRs: Invalid value: [\"::/0\",\"x\"]: may specify no more than one CIDR for each IP family",
        ],
    );
    let taint = json!({"key": "a", "effect": "NoSchedule"});
    check_create::<Node>(
        &node(json!({"taints": [taint, taint]})),
        &["metadata.taints[1]: Duplicate value: {\"effect\":\"NoSchedule\",\"key\":\"a\"}: taints must be unique by key and effect pair"],
    );
}

#[test]
fn ranges_of_services_are_kept_and_one_of_the_other_family_is_added() {
    let range = |cidrs: Value| json!({"metadata": {"name": "a"}, "spec": {"cidrs": cidrs}});
    let families = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
    check_create::<ServiceCIDR>(
        &range(json!(["10.98.0.0/24", "10.0.0.1/8"])),
        &[
            "spec.cidrs[1]: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length",
            &format!("spec.cidrs: Invalid value: [\"10.98.0.0/24\",\"10.0.0.1/8\"]: {families}"),
        ],
    );
    let old = range(json!(["10.98.0.0/24"]));
    let check = |cidrs: Value, wanted: &[&str]| check_update::<ServiceCIDR>(&old, &range(cidrs), wanted);
    check(json!(["10.98.0.0/24", "fd00::/64"]), &[]);
    check(
        json!(["10.98.0.0/24", "fd00::/64", "x"]),
        &["spec.cidrs: Invalid value: [\"10.98.0.0/24\",\"fd00::/64\",\"x\"]: field is immutable"],
    );
    check(Value::Null, &["spec.cidrs: Invalid value: null: field is immutable"]);
    check(
        json!(["x", "fd00::/64"]),
        &[
            "spec.cidrs[0]: Invalid value: \"x\": field is immutable",
            "spec.cidrs[0]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        ],
    );
}

#[test]
fn endpoints_of_a_slice_are_of_its_type_and_written_in_one_form() {
    let slice = |type_: &str, endpoint: Value| named(&json!({"addressType": type_, "endpoints": [endpoint]}));
    let addresses = |type_: &str, addresses: Value| slice(type_, json!({ "addresses": addresses }));
    let path = "endpoints[0].addresses";
    check_create::<EndpointSlice>(
        &addresses("IPv6", json!(["::", "fd00:0::1", "1.2.3.4", "x"])),
        &[
            &format!("{path}[0]: Invalid value: \"::\": may not be unspecified (::)"),
            &format!("{path}[1]: Invalid value: \"fd00:0::1\": must be in canonical form (\"fd00::1\")"),
            &format!("{path}: Invalid value: \"1.2.3.4\": must be an IPv6 address"),
            &format!("{path}[3]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ],
    );
    check_create::<EndpointSlice>(
        &addresses("IPv4", json!(["::1"])),
        &[
            &format!("{path}: Invalid value: \"::1\": must be an IPv4 address"),
            &format!("{path}[0]: Invalid value: \"::1\": may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ],
    );
    check_create::<EndpointSlice>(
        &addresses("FQDN", json!(["a.b.", "a.", ""])),
        &[
            &format!("{path}[1]: Invalid value: \"a\": should be a domain with at least two segments separated by dots"),
            &format!("{path}[2]: Required value"),
        ],
    );
    check_create::<EndpointSlice>(&addresses("", json!(["x"])), &["addressType: Required value"]);
    let immutable = "addressType: Invalid value: \"IPv6\": field is immutable";
    check_update::<EndpointSlice>(&addresses("IPv4", json!(["1.2.3.4"])), &addresses("IPv6", json!(["1.2.3.4"])), &[immutable]);
    let hint = |name: &str| json!({ "name": name });
    check_create::<EndpointSlice>(
        &merged(
            slice("IPv4", json!({"addresses": ["1.2.3.4"], "hints": {"forZones": [hint("a"), hint("a")], "forNodes": [hint("-x")]}})),
            &json!({"ports": [{"appProtocol": ""}]}),
        ),
        &[
            "ports[0].appProtocol: Invalid value: \"\": name part must be non-empty",
            &format!("ports[0].appProtocol: Invalid value: \"\": {NAME_PART}"),
            "endpoints[0].hints.forZones[1].name: Duplicate value: \"a\"",
            "endpoints[0].hints.forNodes[0].name: Invalid value: \"-x\": a lowercase…",
        ],
    );
    let zones: Vec<Value> = (0..9).map(|number| hint(&format!("z{number}"))).collect();
    check_create::<EndpointSlice>(
        &slice("IPv4", json!({"addresses": ["1.2.3.4"], "hints": {"forZones": zones, "forNodes": [hint("-x")]}})),
        &["endpoints[0].hints.forZones: Too many: 9: must have at most 8 items"],
    );
    let by_name = created::<EndpointSlice>(&addresses("FQDN", json!(["a.b"])));
    assert_eq!((by_name.warnings(None).len(), by_name.warnings(Some(&by_name)).len()), (1, 0));
}

#[test]
fn an_autoscaler_has_a_size_and_a_reason_to_be_at_zero() {
    let scaler = |spec: Value| {
        let minimal = json!({"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}});
        named(&json!({"spec": merged(minimal, &spec)}))
    };
    check_create::<HorizontalPodAutoscaler>(
        &scaler(json!({"maxReplicas": 0})),
        &[
            "spec.maxReplicas: Required value: must be set and greater than 0",
            "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
        ],
    );
    check_create::<HorizontalPodAutoscaler>(
        &scaler(json!({"minReplicas": 0})),
        &[
            "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
            "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
        ],
    );
    let external = json!([{"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}}}]);
    check_create::<HorizontalPodAutoscaler>(
        &scaler(json!({"minReplicas": 0, "metrics": external})),
        &["spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"],
    );
}

#[test]
fn a_default_beyond_a_bound_shows_the_bound_and_pods_have_none() {
    let limits = |item: Value| named(&json!({"spec": {"limits": [item]}}));
    check_create::<LimitRange>(
        &limits(
            json!({"type": "Container", "min": {"cpu": "3"}, "max": {"cpu": "2"}, "default": {"cpu": "5"}, "defaultRequest": {"cpu": "6"}}),
        ),
        &[
            "spec.limits[0].min[cpu]: Invalid value: \"3\": min value 3 is greater than max value 2",
            "spec.limits[0].defaultRequest[cpu]: Invalid value: \"6\": default request value 6 is greater than max value 2",
            "spec.limits[0].defaultRequest[cpu]: Invalid value: \"6\": default request value 6 is greater than default limit value 5",
            "spec.limits[0].default[cpu]: Invalid value: \"2\": default value 5 is greater than max value 2",
        ],
    );
    check_create::<LimitRange>(
        &limits(json!({"type": "Pod", "default": {"x": "1"}})),
        &["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
    );
}

#[test]
fn faults_of_a_services_addresses_are_reported_alone() {
    let service = |spec: Value| named(&json!({"spec": merged(json!({"ports": [{"port": 0}], "sessionAffinity": "x"}), &spec)}));
    let form = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    for (spec, wanted) in [
        (json!({"ipFamilies": [""]}), vec!["spec.ipFamilies[0]: Unsupported value: \"\": supported values: \"IPv4\", \"IPv6\"".to_owned()]),
        (json!({"ipFamilies": ["IPv4", "IPv4"]}), vec!["spec.ipFamilies[1]: Duplicate value: \"IPv4\"".to_owned()]),
        (
            json!({"clusterIP": "None", "clusterIPs": ["None", "db"]}),
            vec![
                "spec.clusterIPs: Invalid value: [\"None\",\"db\"]: 'None' must be the first and only value".to_owned(),
                format!("spec.clusterIPs[1]: Invalid value: \"db\": {form}"),
            ],
        ),
        (
            json!({"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7", "fd00::1", "x"]}),
            vec![
                format!("spec.clusterIPs[2]: Invalid value: \"x\": {form}"),
                "spec.clusterIPs: Invalid value: [\"10.0.0.7\",\"fd00::1\",\"x\"]: may only hold up to 2 values".to_owned(),
            ],
        ),
    ] {
        check_create::<Service>(&service(spec), &wanted.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let good = named(&json!({"spec": {"ports": [{"port": 80}], "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"]}}));
    check_update::<Service>(
        &good,
        &service(json!({"clusterIP": "x", "clusterIPs": ["x"]})),
        &[&format!("spec.clusterIPs[0]: Invalid value: \"x\": {form}")],
    );
}
