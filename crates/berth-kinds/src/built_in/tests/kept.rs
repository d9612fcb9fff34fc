//! Kinds that berth keeps for others. Objects, results and texts are those of a real 1.36.2.

use super::{check_create, check_stored, check_update, named};
use crate::built_in::{
    csi_driver, csi_node, csi_storage_capacity, flow_schema, priority_level_configuration, runtime_class, volume_attachment,
    volume_attributes_class,
};
use serde_json::{Value, json};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of…";

#[test]
fn a_driver_of_volumes_is_defaulted_and_validated() {
    let defaults = json!({"spec": {
        "attachRequired": true, "podInfoOnMount": false, "volumeLifecycleModes": ["Persistent"], "storageCapacity": false,
        "fsGroupPolicy": "ReadWriteOnceWithFSType", "requiresRepublish": false, "seLinuxMount": false,
    }});
    check_stored(csi_driver, &json!({}), &defaults);
    check_stored(csi_driver, &json!({"spec": {"volumeLifecycleModes": []}}), &defaults);
    let driver = |spec: Value| named(&json!({ "spec": spec }));
    let tokens = json!([{"audience": ""}, {"audience": "a", "expirationSeconds": 5}, {"audience": "a"}, {"audience": "b", "expirationSeconds": 5_000_000_000_i64}]);
    check_create(
        csi_driver,
        &driver(json!({"fsGroupPolicy": "X", "volumeLifecycleModes": ["Persistent", "Ephemeral", "X", "X"], "tokenRequests": tokens})),
        &[
            "spec.fsGroupPolicy: Unsupported value: \"X\": supported values: \"File\", \"None\", \"ReadWriteOnceWithFSType\"",
            "spec.tokenRequests[1].expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
            "spec.tokenRequests[2].audience: Duplicate value: \"a\"",
            "spec.tokenRequests[3].expirationSeconds: Invalid value: 5000000000: may not specify a duration larger than 2^32 seconds",
            "spec.volumeLifecycleModes: Unsupported value: \"X\": supported values: \"Persistent\", \"Ephemeral\"",
            "spec.volumeLifecycleModes: Unsupported value: \"X\": supported values: \"Persistent\", \"Ephemeral\"",
        ],
    );
    let too_often = "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 5: must be greater than or equal to 10 seconds";
    check_create(csi_driver, &driver(json!({"nodeAllocatableUpdatePeriodSeconds": 5})), &[too_often]);
    let no_tokens =
        "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified";
    check_create(csi_driver, &driver(json!({"serviceAccountTokenInSecrets": true})), &[no_tokens]);
    check_update(csi_driver, &driver(json!({})), &driver(json!({"podInfoOnMount": true, "fsGroupPolicy": "File"})), &[]);
    check_update(
        csi_driver,
        &driver(json!({})),
        &driver(json!({"attachRequired": false, "volumeLifecycleModes": ["Ephemeral"]})),
        &[
            "spec.attachedRequired: Invalid value: false: field is immutable",
            "spec.volumeLifecycleModes: Invalid value: [\"Ephemeral\"]: field is immutable",
        ],
    );
}

#[test]
fn drivers_of_a_node_stay_as_they_are() {
    let node = |drivers: Value| named(&json!({"spec": {"drivers": drivers}}));
    let driver = json!({"name": "a.b", "nodeID": "n"});
    check_create(csi_node, &node(json!([driver])), &[]);
    let broken = json!([{"name": "", "nodeID": ""}, {"name": "A_", "nodeID": "x".repeat(300), "topologyKeys": ["a", "a", "", "/b"], "allocatable": {"count": -1}}, driver, driver]);
    check_create(
        csi_node,
        &node(broken),
        &[
            "spec.drivers[0].name: Required value",
            "spec.drivers[0].nodeID: Required value",
            "spec.drivers[1].name: Invalid value: \"A_\": a lowercase RFC 1123 subdomain…",
            &format!("spec.drivers[1].nodeID: Invalid value: \"{}\": must be 256 characters or less", "x".repeat(300)),
            "spec.drivers[1].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
            "spec.drivers[1]: Duplicate value: \"a\"",
            "spec.drivers[1]: Required value",
            "spec.drivers[1]: Invalid value: \"\": name part must be non-empty",
            "spec.drivers[1]: Invalid value: \"\": name part must consist of…",
            "spec.drivers[1]: Invalid value: \"/b\": prefix part must be non-empty",
            "spec.drivers[3].name: Duplicate value: \"a.b\"",
        ],
    );
    check_create(
        csi_node,
        &node(json!([{"name": "x".repeat(64), "nodeID": "n"}])),
        &["spec.drivers[0].name: Too long: may not be more than 63 bytes"],
    );
    check_update(csi_node, &node(json!([driver])), &node(json!([])), &[]);
    check_update(csi_node, &node(json!([driver])), &node(json!([{"name": "a.b", "nodeID": "n", "allocatable": {"count": 3}}])), &[]);
    for changed in [json!({"name": "a.b", "nodeID": "m"}), json!({"name": "a.b", "nodeID": "n", "topologyKeys": ["z"]})] {
        check_update(csi_node, &node(json!([driver])), &node(json!([changed])), &["spec.drivers: Invalid value: {…"]);
    }
}

#[test]
fn capacities_are_amounts_in_their_shortest_form() {
    let capacity = |more: Value| super::merged(named(&json!({"storageClassName": "a"})), &more);
    check_stored(
        csi_storage_capacity,
        &json!({"storageClassName": "a", "capacity": "1.5Gi", "maximumVolumeSize": "1000m", "nodeTopology": {}}),
        &json!({"storageClassName": "a", "capacity": "1536Mi", "maximumVolumeSize": "1", "nodeTopology": {}}),
    );
    check_create(csi_storage_capacity, &named(&json!({})), &[&format!("storageClassName: Invalid value: \"\": {SUBDOMAIN}")]);
    let negative = "must be greater than or equal to 0";
    check_create(
        csi_storage_capacity,
        &capacity(
            json!({"capacity": "-1", "maximumVolumeSize": "-2Gi", "nodeTopology": {"matchExpressions": [{"key": "a", "operator": "X"}]}}),
        ),
        &[
            "nodeTopology.matchExpressions[0].operator: Invalid value: \"X\": not a valid selector operator",
            &format!("capacity: Invalid value: \"-1\": {negative}"),
            &format!("maximumVolumeSize: Invalid value: \"-2Gi\": {negative}"),
        ],
    );
    check_update(csi_storage_capacity, &capacity(json!({"capacity": "1"})), &capacity(json!({"capacity": "0"})), &[]);
    check_update(
        csi_storage_capacity,
        &capacity(json!({"nodeTopology": {"matchLabels": {"a": "b"}}})),
        &capacity(json!({"storageClassName": "b"})),
        &["nodeTopology: Invalid value: null: field is immutable", "storageClassName: Invalid value: \"b\": field is immutable"],
    );
}

#[test]
fn a_class_of_attributes_keeps_its_driver_and_parameters() {
    let class = |driver: &str, parameters: Value| named(&json!({"driverName": driver, "parameters": parameters}));
    let some = json!({"a": "b"});
    check_create(volume_attributes_class, &class("a.b", some.clone()), &[]);
    let none = "parameters: Required value: must contain at least one key/value pair";
    check_create(volume_attributes_class, &named(&json!({})), &["driverName: Required value", none]);
    check_create(
        volume_attributes_class,
        &class("A_b!", json!({"": "x"})),
        &["driverName: Invalid value: \"a_b!\": name part must consist of…", "parameters: Invalid value: \"\": field can not be empty."],
    );
    let many: serde_json::Map<String, Value> = (0..513).map(|index| (format!("k{index}"), json!("v"))).collect();
    check_create(volume_attributes_class, &class("a.b", json!(many)), &["parameters: Too long: may not be more than 512 bytes"]);
    let large = json!({"k": "v".repeat(256 << 10)});
    check_create(volume_attributes_class, &class("a.b", large), &["parameters: Too long: may not be more than 262144 bytes"]);
    check_update(
        volume_attributes_class,
        &class("a.b", some),
        &class("c.d", json!({})),
        &[
            "driverName: Forbidden: updates to driverName are forbidden.",
            "parameters: Forbidden: updates to parameters are forbidden.",
            none,
        ],
    );
}

#[test]
fn an_attachment_names_one_volume_and_never_another() {
    let attachment = |source: Value| named(&json!({"spec": {"attacher": "a", "nodeName": "n", "source": source}}));
    check_stored(
        volume_attachment,
        &json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}, "status": {"attached": true}}),
        &json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}, "status": {"attached": false}}),
    );
    let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    check_create(
        volume_attachment,
        &named(&json!({})),
        &[
            "spec.attacher: Required value",
            &format!("spec.source: Required value: {one}"),
            &format!("spec.nodeName: Invalid value: \"\": {SUBDOMAIN}"),
        ],
    );
    let inline = json!({"accessModes": ["ReadWriteOnce"], "csi": {"driver": "a", "volumeHandle": "b"}});
    check_create(volume_attachment, &attachment(json!({"inlineVolumeSpec": inline})), &[]);
    let both = json!({"persistentVolumeName": "v", "inlineVolumeSpec": inline});
    check_create(volume_attachment, &attachment(both), &[&format!("spec.source: Forbidden: {one}")]);
    let named_badly = json!({"persistentVolumeName": "a_b", "inlineVolumeSpec": inline});
    let name = format!("spec.source.persistentVolumeName: Invalid value: \"a_b\": {SUBDOMAIN}");
    check_create(volume_attachment, &attachment(named_badly), &[&format!("spec.source: Forbidden: {one}"), &name]);
    check_create(
        volume_attachment,
        &attachment(json!({"inlineVolumeSpec": {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/"}}})),
        &[
            "spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes",
            "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
            "spec.source.inlineVolumeSpec.accessModes: Required value",
        ],
    );
    check_create(
        volume_attachment,
        &attachment(json!({"persistentVolumeName": ""})),
        &[
            "spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName",
            &format!("spec.source.persistentVolumeName: Invalid value: \"\": {SUBDOMAIN}"),
        ],
    );
    let (old, new) = (attachment(json!({"persistentVolumeName": "v"})), attachment(json!({"persistentVolumeName": "w"})));
    check_update(volume_attachment, &old, &new, &["spec: Invalid value: {…"]);
}

#[test]
fn a_runtime_class_is_validated_and_keeps_its_handler() {
    check_stored(
        runtime_class,
        &json!({"handler": "h", "overhead": {"podFixed": {"cpu": "1000m", "memory": "1.5Gi"}}}),
        &json!({"handler": "h", "overhead": {"podFixed": {"cpu": "1", "memory": "1536Mi"}}}),
    );
    check_stored(runtime_class, &json!({"handler": "h", "overhead": {"podFixed": {}}}), &json!({"handler": "h", "overhead": {}}));
    check_create(runtime_class, &named(&json!({})), &["handler: Required value"]);
    let toleration = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 4});
    check_create(
        runtime_class,
        &named(&json!({
            "handler": "A_",
            "overhead": {"podFixed": {"cpu": "-1", "a": "1"}},
            "scheduling": {"nodeSelector": {"a b": "c"}, "tolerations": [{"operator": "X"}, toleration, toleration]},
        })),
        &[
            "handler: Invalid value: \"A_\": a lowercase RFC 1123 label must consist of…",
            "overhead.limits[a]: Invalid value: \"a\": must be a standard resource type or fully qualified",
            "overhead.limits[a]: Invalid value: \"a\": must be a standard resource for containers",
            "overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            "scheduling.nodeSelector: Invalid value: \"a b\": name part must consist of…",
            "scheduling.tolerations[0].operator: Invalid value: \"X\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            "scheduling.tolerations[0].operator: Unsupported value: \"X\": supported values: \"Equal\", \"Exists\"",
            "scheduling.tolerations[2]: Duplicate value: {…",
        ],
    );
    let class = |handler: &str| named(&json!({ "handler": handler }));
    check_update(runtime_class, &class("h"), &class("i"), &["handler: Invalid value: \"i\": field is immutable"]);
    check_update(runtime_class, &class("h"), &class(""), &["handler: Required value", "handler: Invalid value: \"\": field is immutable"]);
}

#[test]
fn a_priority_level_is_defaulted_and_validated() {
    let limited = |response: Value| json!({"spec": {"type": "Limited", "limited": {"limitResponse": response}}});
    check_stored(
        priority_level_configuration,
        &limited(json!({"type": "Queue", "queuing": {"handSize": 0}})),
        &json!({"spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 30,
            "lendablePercent": 0,
            "limitResponse": {"type": "Queue", "queuing": {"handSize": 8, "queues": 64, "queueLengthLimit": 50}},
        }}, "status": {}}),
    );
    let check = |spec: Value, wanted: &[&str]| check_create(priority_level_configuration, &named(&json!({ "spec": spec })), wanted);
    check(json!({}), &["spec.type: Unsupported value: \"\": supported values: \"Exempt\", \"Limited\""]);
    check(json!({"type": "Limited"}), &["spec.limited: Required value: must not be empty when type is Limited"]);
    let only = "spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'";
    check(json!({"type": "Exempt", "limited": {}}), &[only, "spec.limited: Forbidden: must be nil if the type is not Limited"]);
    check(
        json!({"type": "Exempt", "exempt": {"lendablePercent": 200}}),
        &[only, "spec.exempt.lendablePercent: Invalid value: 200: must be between 0 and 100, inclusive"],
    );
    check(
        json!({"type": "Limited", "exempt": {}, "limited": {"limitResponse": {"type": "Reject"}}}),
        &["spec.exempt: Forbidden: must be nil if the type is Limited"],
    );
    let of_response = |response: Value, wanted: &[&str]| {
        check_create(priority_level_configuration, &super::merged(named(&json!({})), &limited(response)), wanted);
    };
    of_response(
        json!({"type": "Z"}),
        &["spec.limited.limitResponse.type: Unsupported value: \"Z\": supported values: \"Queue\", \"Reject\""],
    );
    let queuing = "spec.limited.limitResponse.queuing";
    of_response(
        json!({"type": "Queue"}),
        &[&format!("{queuing}: Required value: must not be empty if limited.limitResponse.type is Limited")],
    );
    of_response(
        json!({"type": "Reject", "queuing": {}}),
        &[&format!("{queuing}: Forbidden: must be nil if limited.limitResponse.type is not Limited")],
    );
    let queues = |queues: i64, hand: i64| json!({"type": "Queue", "queuing": {"queues": queues, "handSize": hand}});
    of_response(queues(4, 9), &[&format!("{queuing}.handSize: Invalid value: 9: should not be greater than queues (4)")]);
    let entropy = |queues: i64| {
        format!(
            "{queuing}.handSize: Invalid value: 9: required entropy bits of deckSize {queues} and handSize 9 should not be greater than 60"
        )
    };
    of_response(queues(1_000_000, 9), &[&entropy(1_000_000)]);
    let too_many = format!("{queuing}.queues: Invalid value: 10000001: must not be greater than 10000000");
    of_response(queues(10_000_001, 9), &[&too_many, &entropy(10_000_001)]);
    of_response(queues(128, 6), &[]);
    let named_exempt = json!({"metadata": {"name": "exempt"}, "spec": {"type": "Exempt"}});
    check_create(priority_level_configuration, &named_exempt, &[]);
}

#[test]
fn a_flow_schema_is_defaulted_and_validated() {
    let schema =
        |spec: &Value| super::merged(named(&json!({"spec": {"priorityLevelConfiguration": {"name": "x"}}})), &json!({ "spec": spec }));
    check_stored(
        flow_schema,
        &json!({"spec": {"priorityLevelConfiguration": {"name": "x"}}}),
        &json!({"spec": {"priorityLevelConfiguration": {"name": "x"}, "matchingPrecedence": 1000}, "status": {}}),
    );
    check_create(
        flow_schema,
        &named(&json!({})),
        &["spec.priorityLevelConfiguration.name: Required value: must reference a priority level"],
    );
    let method = "spec.distinguisherMethod.type: Unsupported value: {\"type\":\"X\"}: supported values: \"ByNamespace\", \"ByUser\"";
    check_create(flow_schema, &schema(&json!({"distinguisherMethod": {"type": "X"}})), &[method]);
    let precedence = "spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000";
    check_create(flow_schema, &schema(&json!({"matchingPrecedence": 10001})), &[precedence]);
    let check = |rule: Value, wanted: &[&str]| check_create(flow_schema, &schema(&json!({"rules": [rule]})), wanted);
    let at = "spec.rules[0]";
    check(
        json!({}),
        &[
            &format!("{at}.subjects: Required value: subjects must contain at least one value"),
            &format!("{at}: Required value: at least one of resourceRules and nonResourceRules has to be non-empty"),
        ],
    );
    let anything = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}]);
    check(
        json!({"subjects": [
            {"kind": "User"}, {"kind": "User", "user": {"name": ""}, "group": {"name": "a"}}, {"kind": "ServiceAccount", "serviceAccount": {"name": "", "namespace": ""}},
            {"kind": "ServiceAccount", "serviceAccount": {"name": "A_", "namespace": "n"}, "user": {"name": "a"}}, {"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "n"}}, {"kind": ""},
        ], "resourceRules": anything}),
        &[
            &format!("{at}.subjects[0].user: Required value: user is required when subject kind is 'User'"),
            &format!("{at}.subjects[1].user.name: Required value"),
            &format!("{at}.subjects[1].group: Forbidden: group is forbidden when subject kind is not 'Group'"),
            &format!("{at}.subjects[2].serviceAccount.name: Required value"),
            &format!("{at}.subjects[2].serviceAccount.namespace: Required value: must specify namespace for service account"),
            &format!("{at}.subjects[3].serviceAccount.name: Invalid value: \"A_\": {SUBDOMAIN}"),
            &format!("{at}.subjects[3].user: Forbidden: user is forbidden when subject kind is not 'User'"),
            &format!("{at}.subjects[5].kind: Unsupported value: \"\": supported values: \"Group\", \"ServiceAccount\", \"User\""),
        ],
    );
    let with = |resources: Value, others: Value| json!({"subjects": [{"kind": "User", "user": {"name": "*"}}], "resourceRules": resources, "nonResourceRules": others});
    let verbs =
        "supported values: \"create\", \"delete\", \"deletecollection\", \"get\", \"list\", \"patch\", \"proxy\", \"update\", \"watch\"";
    check(
        with(json!([{"verbs": ["x"]}]), json!([])),
        &[
            &format!("{at}.resourceRules[0].verbs: Unsupported value: [\"x\"]: {verbs}"),
            &format!("{at}.resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group"),
            &format!("{at}.resourceRules[0].resources: Required value: resource rules must supply at least one resource"),
            &format!(
                "{at}.resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace"
            ),
        ],
    );
    check(
        with(json!([]), json!([{}, {"verbs": ["get"], "nonResourceURLs": ["*", "/a"]}, {"verbs": ["*"], "nonResourceURLs": ["/", " "]}])),
        &[
            &format!("{at}.nonResourceRules[0].verbs: Required value: verbs must contain at least one value"),
            &format!("{at}.nonResourceRules[0].nonResourceURLs: Required value: nonResourceURLs must contain at least one value"),
            &format!(
                "{at}.nonResourceRules[1].nonResourceURLs: Invalid value: [\"*\",\"/a\"]: if '*' is present, must not specify other non-resource URLs"
            ),
            &format!("{at}.nonResourceRules[2].nonResourceURLs[1]: Invalid value: \" \": must start with slash"),
        ],
    );
    let fixed = json!({"metadata": {"name": "exempt"}, "spec": {"priorityLevelConfiguration": {"name": "x"}}});
    check_create(flow_schema, &fixed, &["spec: Invalid value: {…"]);
}
