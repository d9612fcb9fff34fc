//! The kinds of `resource.k8s.io`. Objects, results and texts are those of a real 1.36.2.

use super::{check_create, check_stored, check_update, compare, decoded, named};
use crate::built_in::{device_class, resource_claim, resource_claim_template, resource_slice};
use berth_api::{FeatureGates, ObjectStrategy, Subresource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

const LABEL: &str = "a lowercase RFC 1123 label must…";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must…";
const UNKNOWN: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
const ONE: &str = "exactly one of `exactly` or `firstAvailable` is required";

fn opaque() -> Value {
    json!({"opaque": {"driver": "a.b", "parameters": {"x": 1}}})
}

#[test]
fn a_class_of_devices_is_validated() {
    let class = |spec: Value| named(&json!({ "spec": spec }));
    check_stored(device_class, &json!({}), &json!({"spec": {}}));
    check_create(device_class, &class(json!({"config": [opaque()], "extendedResourceName": "example.com/gpu"})), &[]);
    let spec = json!({
        "selectors": [{}, {"cel": {}}, {"cel": {"expression": "x".repeat(10_241)}}, {"cel": {"expression": "device.driver == \"a\""}}],
        "config": [
            {}, opaque(), {"opaque": {}}, {"opaque": {"driver": "A_", "parameters": 5}},
            {"opaque": {"driver": "a".repeat(64), "parameters": {"a": "x".repeat(10_241)}}}, {"opaque": {"driver": "a", "parameters": []}},
        ],
        "extendedResourceName": "X",
    });
    check_create(
        device_class,
        &class(spec),
        &[
            "spec.selectors[0].cel: Required value",
            // A real server compiles the expression. It is empty here, so it is missing.
            "spec.selectors[1].cel.expression: Required value",
            "spec.selectors[2].cel.expression: Too long: may not be more than 10240 bytes",
            "spec.config[0].opaque: Required value",
            "spec.config[2].opaque.driver: Required value",
            "spec.config[2].opaque.parameters: Required value",
            &format!("spec.config[3].opaque.driver: Invalid value: \"A_\": {SUBDOMAIN}"),
            "spec.config[3].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object",
            "spec.config[4].opaque.driver: Too long: may not be more than 63 bytes",
            "spec.config[4].opaque.parameters: Too long: may not be more than 10240 bytes",
            "spec.config[5].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object",
            "spec.extendedResourceName: Invalid value: \"X\": must be a valid extended resource name",
        ],
    );
    for name in ["cpu", "", "requests.foo.io/x", "deviceclass.resource.kubernetes.io/x"] {
        let wanted = format!("spec.extendedResourceName: Invalid value: {name:?}: must be a valid extended resource name");
        check_create(device_class, &class(json!({"extendedResourceName": name})), &[&wanted]);
    }
    let many = json!({"selectors": vec![json!({"cel": {"expression": "true"}}); 33], "config": vec![opaque(); 33]});
    let too_many = ["spec.selectors: Too many: 33: must have at most 32 items", "spec.config: Too many: 33: must have at most 32 items"];
    check_create(device_class, &class(many), &too_many);
    check_update(device_class, &class(json!({})), &class(json!({"config": [opaque()]})), &[]);
}

fn claim(devices: Value) -> Value {
    named(&json!({"spec": {"devices": devices}}))
}

fn request(request: Value) -> Value {
    claim(json!({"requests": [super::merged(json!({"name": "r"}), &request)]}))
}

fn exactly(more: Value) -> Value {
    request(json!({"exactly": super::merged(json!({"deviceClassName": "gpu"}), &more)}))
}

#[test]
fn requests_for_devices_get_defaults() {
    check_stored(resource_claim, &json!({}), &json!({"spec": {"devices": {"requests": null}}, "status": {}}));
    let sent = json!({"spec": {"devices": {"requests": [
        {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 0, "tolerations": [{"key": "a"}]}},
        {"name": "f", "firstAvailable": [{"name": "s", "deviceClassName": "gpu", "allocationMode": "All"}]},
    ]}}});
    let stored = json!({"spec": {"devices": {"requests": [
        {"name": "r", "exactly": {
            "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, "tolerations": [{"key": "a", "operator": "Equal"}],
        }},
        {"name": "f", "firstAvailable": [{"name": "s", "deviceClassName": "gpu", "allocationMode": "All"}]},
    ]}}, "status": {}});
    check_stored(resource_claim, &sent, &stored);
    let template = json!({"spec": {"metadata": {}, "spec": {"devices": {"requests": null}}}});
    check_stored(resource_claim_template, &json!({}), &template);
}

#[test]
fn a_request_wants_one_sort_of_devices() {
    let at = "spec.devices.requests[0]";
    check_create(resource_claim, &request(json!({})), &[&format!("{at}: Required value: {ONE}")]);
    check_create(resource_claim, &request(json!({"firstAvailable": []})), &[&format!("{at}: Required value: {ONE}")]);
    let both = json!({"exactly": {"deviceClassName": "A_"}, "firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]});
    check_create(resource_claim, &request(both), &[&format!("{at}: Invalid value: null: {ONE}, but multiple fields are set")]);
    check_create(resource_claim, &request(json!({"exactly": {}})), &[&format!("{at}.exactly.deviceClassName: Required value")]);
    for (more, wanted) in [
        (json!({"count": -1}), "count: Invalid value: -1: must be greater than zero"),
        (json!({"allocationMode": "All", "count": 2}), "count: Invalid value: 2: must not be specified when allocationMode is 'All'"),
        (json!({"allocationMode": "X"}), "allocationMode: Unsupported value: \"X\": supported values: \"All\", \"ExactCount\""),
        (json!({"selectors": [{}]}), "selectors[0].cel: Required value"),
        (
            json!({"tolerations": [{"operator": "X"}]}),
            "tolerations[0].operator: Unsupported value: \"X\": supported values: \"Equal\", \"Exists\"",
        ),
        (
            json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "v"}]}),
            "tolerations[0].value: Invalid value: \"v\": must be empty for operator `Exists`",
        ),
        (
            json!({"tolerations": [{"key": "a", "effect": "X"}]}),
            "tolerations[0].effect: Unsupported value: \"X\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"",
        ),
    ] {
        check_create(resource_claim, &exactly(more), &[&format!("{at}.exactly.{wanted}")]);
    }
    for good in [
        json!({}),
        json!({"allocationMode": "All"}),
        json!({"tolerations": [{}, {"operator": "Exists"}]}),
        json!({"capacity": {"requests": {"a": "1"}}}),
    ] {
        check_create(resource_claim, &exactly(good), &[]);
    }
    let named = ["A", "", "a", "a", "a.b"].map(|name| json!({"name": name, "exactly": {"deviceClassName": "gpu"}}));
    check_create(
        resource_claim,
        &claim(json!({ "requests": named })),
        &[
            &format!("spec.devices.requests[0].name: Invalid value: \"A\": {LABEL}"),
            &format!("spec.devices.requests[1].name: Invalid value: \"\": {LABEL}"),
            "spec.devices.requests[4].name: Invalid value: \"a.b\": must not contain dots",
            "spec.devices.requests[3]: Duplicate value: \"a\"",
        ],
    );
}

#[test]
fn constraints_and_configurations_name_requests_of_the_claim() {
    let requests = json!([{"name": "r", "exactly": {"deviceClassName": "gpu"}}, {"name": "f", "firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]}]);
    let with = |field: &str, value: Value| {
        let mut devices = json!({ "requests": requests });
        devices[field] = value;
        claim(devices)
    };
    let constraints = json!([
        {}, {"requests": ["x", "r", "r", "f/s", "f/x", "f", "r/s"], "matchAttribute": "a"}, {"matchAttribute": "a.b/c"},
        {"matchAttribute": "a.b/C_", "distinctAttribute": "x/y"}, {"distinctAttribute": "A_/b"}, {"matchAttribute": "/"},
    ]);
    let at = "spec.devices.constraints";
    check_create(
        resource_claim,
        &with("constraints", constraints),
        &[
            &format!(
                "{at}[0]: Required value: exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set"
            ),
            &format!("{at}[1].requests[0]: Invalid value: \"x\": {UNKNOWN}"),
            &format!("{at}[1].requests[4]: Invalid value: \"f/x\": {UNKNOWN}"),
            &format!("{at}[1].requests[6]: Invalid value: \"r/s\": {UNKNOWN}"),
            &format!("{at}[1].requests[2]: Duplicate value: \"r\""),
            &format!(
                "{at}[1].matchAttribute: Invalid value: \"a\": a fully qualified name must be a domain and a name separated by a slash"
            ),
            &format!("{at}[4].distinctAttribute: Invalid value: \"A_\": {SUBDOMAIN}"),
            &format!("{at}[5].matchAttribute: Invalid value: \"\": the domain must not be empty"),
            &format!("{at}[5].matchAttribute: Invalid value: \"\": the name must not be empty"),
        ],
    );
    let config =
        json!([{}, {"requests": ["x", "", "r", "r"], "opaque": {"driver": "a.b", "parameters": {}}}, {"requests": ["f/s"], "opaque": {}}]);
    let at = "spec.devices.config";
    check_create(
        resource_claim,
        &with("config", config),
        &[
            &format!("{at}[0].opaque: Required value"),
            &format!("{at}[1].requests[0]: Invalid value: \"x\": {UNKNOWN}"),
            &format!("{at}[1].requests[1]: Invalid value: \"\": {LABEL}"),
            &format!("{at}[1].requests[1]: Invalid value: \"\": {UNKNOWN}"),
            &format!("{at}[1].requests[3]: Duplicate value: \"r\""),
            &format!("{at}[2].opaque.driver: Required value"),
            &format!("{at}[2].opaque.parameters: Required value"),
        ],
    );
}

#[test]
fn a_claim_and_its_template_keep_their_spec() {
    check_update(resource_claim, &exactly(json!({})), &exactly(json!({})), &[]);
    check_update(resource_claim, &exactly(json!({})), &exactly(json!({"count": 2})), &["spec: Invalid value: {…"]);
    let template = |metadata: Value| named(&json!({"spec": {"metadata": metadata, "spec": {"devices": {}}}}));
    check_update(resource_claim_template, &template(json!({})), &template(json!({"labels": {"a": "b"}})), &["spec: Invalid value: {…"]);
    check_create(
        resource_claim_template,
        &template(json!({"name": "x", "finalizers": ["a.b/c"], "labels": {"a": "b c"}})),
        &[
            "spec.metadata.labels: Invalid value: \"b c\": a valid label must…",
            "spec.metadata.name: Forbidden: cannot be set",
            "spec.metadata.finalizers: Forbidden: cannot be set",
        ],
    );
}

/// The status that `/status` stores, or the faults.
fn check_status(old: &Value, status: &Value, wanted: &[&str]) {
    let claim = |status: &Value| super::merged(exactly(json!({})), &json!({ "status": status }));
    let [old, mut new] = decoded(resource_claim, [&claim(old), &claim(status)]);
    new.prepare_update(&old, Some(Subresource::Status), &FeatureGates::default());
    compare(&new.validate_update(&old, Some(Subresource::Status), &FeatureGates::default()), wanted, status);
}

/// Recorded from a real 1.36.2.
#[test]
fn a_deleted_claim_gets_no_more_users() {
    let user = |name: &str| json!({"resource": "pods", "name": name, "uid": name});
    let claim = |users: Value| {
        let result = json!({"request": "r", "driver": "a.b", "pool": "p", "device": "d"});
        let status = json!({"allocation": {"devices": {"results": [result]}}, "reservedFor": users});
        super::merged(exactly(json!({})), &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": status}))
    };
    let faults = |old: Value, new: Value, wanted: &[&str]| {
        let [old, mut new] = decoded(resource_claim, [&claim(old), &claim(new)]);
        new.prepare_update(&old, Some(Subresource::Status), &FeatureGates::default());
        compare(&new.validate_update(&old, Some(Subresource::Status), &FeatureGates::default()), wanted, &json!({}));
    };
    let forbidden =
        "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
    faults(json!([user("a")]), json!([user("a"), user("b")]), &[forbidden]);
    faults(json!([user("a")]), json!([{"resource": "pods", "name": "z", "uid": "a"}]), &[forbidden]);
    faults(json!([user("a"), user("b")]), json!([user("b")]), &[]);
    faults(json!([user("a")]), json!([]), &[]);
}

#[test]
fn an_allocation_is_validated_and_stays() {
    let result = |more: Value| super::merged(json!({"request": "r", "driver": "a.b", "pool": "p", "device": "d"}), &more);
    let allocated = |results: Value| json!({"allocation": {"devices": {"results": results}}});
    let user = json!({"resource": "pods", "name": "a", "uid": "u"});
    let good = super::merged(allocated(json!([result(json!({}))])), &json!({"reservedFor": [user]}));
    check_status(&json!({}), &good, &[]);
    check_status(&good, &good, &[]);
    check_status(
        &json!({}),
        &json!({"reservedFor": [user]}),
        &["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"],
    );
    check_status(&good, &allocated(json!([result(json!({"device": "e"}))])), &["status.allocation: Invalid value: {…"]);
    let at = "status.allocation.devices";
    check_status(
        &json!({}),
        &allocated(json!([{}, result(json!({"request": "x", "driver": "A_", "pool": "A_/", "device": "A_"}))])),
        &[
            &format!("{at}.results[0].request: Invalid value: \"\": {LABEL}"),
            &format!("{at}.results[0].request: Invalid value: \"\": {UNKNOWN}"),
            &format!("{at}.results[0].driver: Required value"),
            &format!("{at}.results[0].pool: Required value"),
            &format!("{at}.results[0].device: Invalid value: \"\": {LABEL}"),
            &format!("{at}.results[1].request: Invalid value: \"x\": {UNKNOWN}"),
            &format!("{at}.results[1].driver: Invalid value: \"A_\": {SUBDOMAIN}"),
            &format!("{at}.results[1].pool: Invalid value: \"A_\": {SUBDOMAIN}"),
            &format!("{at}.results[1].pool: Invalid value: \"\": {SUBDOMAIN}"),
            &format!("{at}.results[1].device: Invalid value: \"A_\": {LABEL}"),
        ],
    );
    let config = json!({"allocation": {"devices": {"config": [{}, super::merged(opaque(), &json!({"source": "X"}))]}}});
    check_status(
        &json!({}),
        &config,
        &[
            &format!("{at}.config[0].source: Required value"),
            &format!("{at}.config[0].opaque: Required value"),
            &format!("{at}.config[1].source: Unsupported value: \"X\": supported values: \"FromClaim\", \"FromClass\""),
        ],
    );
    check_status(
        &json!({}),
        &json!({"allocation": {"nodeSelector": {}}}),
        &["status.allocation.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term"],
    );
    let users = json!([user, {}, {"resource": "pods", "name": "b", "uid": "u"}]);
    check_status(
        &json!({}),
        &super::merged(allocated(json!([])), &json!({"reservedFor": users})),
        &[
            "status.reservedFor[1].resource: Required value",
            "status.reservedFor[1].name: Required value",
            "status.reservedFor[1].uid: Required value",
            "status.reservedFor[2]: Duplicate value: \"u\"",
        ],
    );
    let device = |more: Value| super::merged(json!({"driver": "a.b", "pool": "p", "device": "d"}), &more);
    let with_devices = |devices: Value| super::merged(allocated(json!([result(json!({}))])), &json!({"devices": devices}));
    let data = json!({"data": {"a": 1}, "networkData": {"interfaceName": "e", "ips": ["1.2.3.4/24"], "hardwareAddress": "a"}});
    check_status(&json!({}), &with_devices(json!([device(data)])), &[]);
    let id = r#"{"Device":"d","Driver":"a.b","Pool":"p","ShareID":""}"#;
    let network = json!({"networkData": {"ips": ["x", "1.2.3.4/24", "1.2.3.4/24", "::0001/64"]}, "data": 5, "conditions": [{"type": "R", "status": "X", "reason": "A b"}]});
    check_status(
        &json!({}),
        &with_devices(json!([device(json!({"device": "q"})), device(network), device(json!({}))])),
        &[
            "status.devices[0]: Invalid value: {\"Device\":\"q\",\"Driver\":\"a.b\",\"Pool\":\"p\",\"ShareID\":\"\"}: must be an allocated device in the claim",
            "status.devices[1].conditions[0].status: Unsupported value: \"X\": supported values: \"False\", \"True\", \"Unknown\"",
            "status.devices[1].conditions[0].lastTransitionTime: Required value",
            "status.devices[1].conditions[0].reason: Invalid value: \"A b\": a condition reason must start with…",
            "status.devices[1].data: Invalid value: \"<value omitted>\": must be a valid JSON object",
            "status.devices[1].networkData.ips[0]: Invalid value: \"x\": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",
            "status.devices[1].networkData.ips[3]: Invalid value: \"::0001/64\": must be in canonical form (\"::1/64\")",
            "status.devices[1].networkData.ips[2]: Duplicate value: \"1.2.3.4/24\"",
            &format!("status.devices[2]: Duplicate value: {id}"),
        ],
    );
}

fn slice(more: Value) -> Value {
    let spec = json!({"driver": "a.b", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "allNodes": true});
    named(&json!({"spec": super::merged(spec, &more)}))
}

#[test]
fn a_slice_is_on_one_choice_of_nodes() {
    let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    check_create(
        resource_slice,
        &named(&json!({})),
        &[
            "spec.driver: Required value",
            "spec.pool.name: Required value",
            "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
            &format!("spec: Required value: {one}"),
        ],
    );
    check_create(resource_slice, &slice(json!({})), &[]);
    let nowhere = format!("spec: Required value: {one}");
    let unset = "must be either unset or set to true";
    for (more, wanted) in [
        (json!({"allNodes": false}), vec![format!("spec.allNodes: Invalid value: false: {unset}"), nowhere.clone()]),
        (json!({"allNodes": null}), vec![nowhere.clone()]),
        (
            json!({"nodeName": "n"}),
            vec![format!("spec: Invalid value: \"{{`nodeName`, `allNodes`}}\": {one}, but multiple fields are set")],
        ),
        (
            json!({"allNodes": null, "nodeName": ""}),
            vec!["spec.nodeName: Invalid value: \"\": must be either unset or set to a non-empty string".to_owned(), nowhere],
        ),
        (json!({"allNodes": null, "nodeName": "A_"}), vec![format!("spec.nodeName: Invalid value: \"A_\": {SUBDOMAIN}")]),
        (json!({"allNodes": null, "perDeviceNodeSelection": true}), vec![]),
        (
            json!({"allNodes": null, "nodeSelector": {}}),
            vec![
                "spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term".to_owned(),
                "spec.nodeSelector.nodeSelectorTerms: Invalid value: null: must have exactly one node selector term".to_owned(),
            ],
        ),
    ] {
        check_create(resource_slice, &slice(more), &wanted.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let of_device = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let devices = json!([{"name": "a"}, {"name": "b", "nodeName": "n", "allNodes": true}, {"name": "c", "nodeName": "n"}]);
    check_create(
        resource_slice,
        &slice(json!({"allNodes": null, "perDeviceNodeSelection": true, "devices": devices})),
        &[
            &format!("spec.devices[0]: Required value: {of_device}"),
            &format!("spec.devices[1]: Invalid value: \"{{`nodeName`, `allNodes`}}\": {of_device}"),
        ],
    );
    check_update(resource_slice, &slice(json!({})), &slice(json!({"pool": {"generation": 2}, "devices": [{"name": "d"}]})), &[]);
    check_update(
        resource_slice,
        &slice(json!({})),
        &slice(json!({"driver": "c.d", "pool": {"name": "q"}})),
        &["spec.driver: Invalid value: \"c.d\": field is immutable", "spec.pool.name: Invalid value: \"q\": field is immutable"],
    );
}

#[test]
fn devices_of_a_slice_are_validated() {
    let device = |more: Value| slice(json!({"devices": [super::merged(json!({"name": "d"}), &more)]}));
    let at = "spec.devices[0]";
    for (more, wanted) in [
        (json!({"attributes": {"a": {}}}), vec!["attributes[a]: Invalid value: \"\": exactly one value must be specified"]),
        (json!({"attributes": {"a": {"int": 1, "bool": true}}}), vec!["attributes[a]: Invalid value: {…"]),
        (
            json!({"attributes": {"a": {"version": "x"}}}),
            vec!["attributes[a].version: Invalid value: \"x\": must be a string compatible with semver.org spec 2.0.0"],
        ),
        (json!({"attributes": {"a": {"string": "x".repeat(65)}}}), vec!["attributes[a].string: Too long: may not be more than 64 bytes"]),
        (json!({"attributes": {"A b": {"int": 1}}}), vec!["attributes: Invalid value: \"A b\": a valid C identifier must…"]),
        (json!({"attributes": {"a.b/c": {"int": -1}, "v": {"version": "1.2.3-a.1+b"}}}), vec![]),
        (
            json!({"capacity": {"e": {"value": "1", "requestPolicy": {"default": "1"}}}}),
            vec!["capacity[e].requestPolicy: Forbidden: allowMultipleAllocations must be true"],
        ),
        (
            json!({"allowMultipleAllocations": true, "capacity": {"g": {"value": "10", "requestPolicy": {"default": "1", "validRange": {"min": "2", "max": "1", "step": "3"}}}}}),
            vec![
                "capacity[g].requestPolicy.validRange.min: Invalid value: \"1\": default is less than min: 2",
                "capacity[g].requestPolicy.validRange.max: Invalid value: \"2\": min is larger than max: 1",
                "capacity[g].requestPolicy.validRange.step: Invalid value: \"1\": value is not a multiple of a given step (3) from (2)",
                "capacity[g].requestPolicy.validRange.step: Invalid value: \"1\": value is not a multiple of a given step (3) from (2)",
            ],
        ),
        (
            json!({"taints": [{"key": "a", "effect": "X"}]}),
            vec!["taints[0].effect: Unsupported value: \"X\": supported values: \"NoExecute\", \"NoSchedule\", \"None\""],
        ),
        (json!({"taints": [{"key": "a"}]}), vec!["taints[0].effect: Required value"]),
        (
            json!({"bindingConditions": ["A"]}),
            vec!["bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions"],
        ),
        (json!({"bindingConditions": ["A"], "bindingFailureConditions": ["B"]}), vec![]),
        (json!({"consumesCounters": [{}, {}, {}]}), vec!["consumesCounters: Too many: 3: must have at most 2 items"]),
    ] {
        let wanted: Vec<String> = wanted.into_iter().map(|wanted| format!("{at}.{wanted}")).collect();
        check_create(resource_slice, &device(more), &wanted.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let many: Value = (0..33).map(|index| (format!("a{index}"), json!({"int": 1}))).collect();
    check_create(
        resource_slice,
        &device(json!({"attributes": many})),
        &["spec.devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32"],
    );
    let tainted: Vec<Value> =
        (0..65).map(|index| json!({"name": format!("a{index}"), "taints": [{"key": "a", "effect": "None"}]})).collect();
    check_create(resource_slice, &slice(json!({"devices": tainted})), &["spec.devices: Too many: 65: must have at most 64 items"]);
    check_create(
        resource_slice,
        &slice(
            json!({"sharedCounters": [{}, {"name": "A_", "counters": {"A": {"value": "1"}}}, {"name": "c", "counters": {"m": {"value": "1"}}}, {"name": "c", "counters": {"m": {}}}], "devices": [{"name": "d"}]}),
        ),
        &[
            "spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed",
            "spec.sharedCounters[0].name: Required value",
            "spec.sharedCounters[0].counters: Required value",
            &format!("spec.sharedCounters[1].name: Invalid value: \"A_\": {LABEL}"),
            &format!("spec.sharedCounters[1].counters: Invalid value: \"A\": {LABEL}"),
            "spec.sharedCounters[3]: Duplicate value: \"c\"",
        ],
    );
}

#[test]
fn fields_of_gates_that_are_off_are_dropped_and_taints_get_a_time() {
    let sent = slice(json!({"devices": [{
        "name": "d", "nodeAllocatableResourceMappings": {"cpu": {}}, "attributes": {"a": {"int": 1, "ints": [1]}}, "taints": [{"key": "a", "effect": "None"}],
    }]}));
    let [mut document] = decoded(resource_slice, [&sent]);
    document.prepare_create(&FeatureGates::default());
    document.stamp(None, &Time("2026-01-01T00:00:00Z".parse().expect("a time")));
    let device = &document.content().members()["spec"]["devices"][0];
    let wanted = json!({"name": "d", "attributes": {"a": {"int": 1}}, "taints": [{"key": "a", "effect": "None", "timeAdded": "2026-01-01T00:00:00Z"}]});
    assert_eq!(*device, wanted);
}
