use super::*;
use crate::check::{check_create, check_update, created, decoded, merged};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Value, json};

fn with_spec(patch: &Value) -> Value {
    let base = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    merged(base, &json!({ "spec": patch }))
}

/// Returns a pod whose container has these additional fields.
fn with_container(patch: &Value) -> Value {
    with_spec(&json!({ "containers": [merged(json!({"name": "c", "image": "i"}), patch)] }))
}

fn template(json: &Value) -> PodTemplateSpec {
    let mut template: PodTemplateSpec = serde_json::from_value(json.clone()).expect("the test's JSON is a template");
    set_template_defaults(&mut template);
    template
}

fn template_faults(json: &Value, claims: &[String]) -> Vec<String> {
    validate_template_with_claims(&template(json), &Path::new("spec.template"), claims).iter().map(ToString::to_string).collect()
}

fn pod_warnings(json: &Value) -> Vec<String> {
    created::<Pod>(json).warnings(None)
}

#[test]
fn a_pod_gets_upstreams_defaults() {
    let pod: Pod = created(&with_spec(&json!({
        "hostNetwork": true,
        "serviceAccount": "s",
        "containers": [{
            "name": "c", "image": "i", "stdin": false, "args": [],
            "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "0.0001", "memory": "1024Ki"}},
            "env": [{"name": "A", "value": "", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "readinessProbe": {"httpGet": {"port": 80}},
            "livenessProbe": {"grpc": {"port": 80}, "initialDelaySeconds": 0},
            "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
        }],
        "volumes": [
            {"name": "e"},
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "h", "hostPath": {"path": "/"}},
            {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ],
    })));
    let http = json!({"path": "/", "port": 80, "scheme": "HTTP"});
    let rule = json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
    let wanted = json!({
        "enableServiceLinks": true, "hostNetwork": true, "serviceAccount": "s", "serviceAccountName": "s",
        "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30, "securityContext": {},
        "containers": [{
            "name": "c", "image": "i", "imagePullPolicy": "Always",
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "1m", "memory": "1Mi"}, "requests": {"cpu": "1m", "memory": "1Mi"}},
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
            "readinessProbe": merged(rule.clone(), &json!({ "httpGet": http })),
            "livenessProbe": merged(rule, &json!({"grpc": {"port": 80, "service": ""}})),
            "lifecycle": {"preStop": {"httpGet": http}},
        }],
        "volumes": [
            {"name": "e", "emptyDir": {}},
            {"name": "s", "secret": {"secretName": "s", "defaultMode": 420}},
            {"name": "h", "hostPath": {"path": "/", "type": ""}},
            {"name": "p", "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}},
        ],
    });
    assert_eq!(serde_json::to_value(&pod.spec).expect("it is JSON"), wanted);
    let status = serde_json::to_value(&pod.status).expect("it is JSON");
    assert_eq!(status, json!({"phase": "Pending", "qosClass": "Guaranteed"}));
}

#[test]
fn a_pod_with_scheduling_gates_has_the_condition_from_its_creation() {
    let conditions = |gates: Value| {
        let object = json!({"spec": {"containers": [{"name": "c", "image": "i"}], "schedulingGates": gates}});
        let mut pod: Pod = serde_json::from_value(object).expect("a pod");
        pod.prepare_create(&FeatureGates::default());
        serde_json::to_value(&pod.status).expect("it is JSON")["conditions"].clone()
    };
    let message = "Scheduling is blocked due to non-empty scheduling gates";
    let gated = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": message}]);
    assert_eq!(conditions(json!([{"name": "x.example/g"}])), gated);
    assert_eq!([json!([]), Value::Null].map(conditions), [Value::Null, Value::Null]);
}

#[test]
fn a_template_gets_no_defaults_that_are_a_pods_own() {
    let found = serde_json::to_value(template(&json!({
        "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": 1}}}]}
    })));
    let wanted = json!({
        "metadata": {},
        "spec": {
            "hostNetwork": true, "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30, "securityContext": {},
            "containers": [{
                "name": "c", "image": "i", "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "1"}},
            }],
        },
    });
    assert_eq!(found.expect("it is JSON"), wanted);
}

#[test]
fn images_whose_tag_can_move_are_always_pulled() {
    let cases = [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("host:5000/nginx", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("host:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:0123", "IfNotPresent"),
        ("nginx:latest@sha256:0123", "Always"),
    ];
    for (image, policy) in cases {
        let pod: Pod = decoded(&with_container(&json!({ "image": image })));
        let found = pod.spec.expect("it has a spec").containers[0].image_pull_policy.clone();
        assert_eq!(found.as_deref(), Some(policy), "{image}");
    }
}

#[test]
fn quality_of_service_follows_cpu_and_memory() {
    let cases = [
        (json!({}), "BestEffort"),
        (json!({"requests": {"cpu": "0"}}), "BestEffort"),
        (json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}), "BestEffort"),
        (json!({"requests": {"cpu": "1"}}), "Burstable"),
        (json!({"limits": {"cpu": "1"}}), "Burstable"),
        (json!({"limits": {"cpu": "1", "memory": "1Mi"}}), "Guaranteed"),
        (json!({"requests": {"cpu": "1000m", "memory": "1Mi"}, "limits": {"cpu": "1", "memory": "1Mi"}}), "Guaranteed"),
        (json!({"requests": {"cpu": "1", "memory": "1Mi"}, "limits": {"cpu": "2", "memory": "1Mi"}}), "Burstable"),
    ];
    for (resources, class) in cases {
        let pod: Pod = created(&with_container(&json!({ "resources": resources })));
        assert_eq!(pod.status.expect("it has a status").qos_class.as_deref(), Some(class), "{resources}");
    }
}

#[test]
fn requests_are_the_containers_or_the_worst_of_the_init_containers() {
    let cpu = |requests: &str| json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": requests}}});
    let sidecar = merged(cpu("200m"), &json!({"restartPolicy": "Always"}));
    let cases = [
        (json!({"containers": [cpu("1"), cpu("500m")]}), "1500m"),
        (json!({"containers": [cpu("1")], "initContainers": [cpu("3"), cpu("2")]}), "3"),
        (json!({"containers": [cpu("1")], "initContainers": [sidecar, cpu("500m")]}), "1200m"),
        (json!({"containers": [cpu("100m")], "initContainers": [sidecar, cpu("500m")]}), "700m"),
        (json!({"containers": [cpu("1")], "overhead": {"cpu": "10m"}}), "1010m"),
        (json!({"containers": [cpu("1")], "resources": {"requests": {"cpu": "3"}}}), "3"),
    ];
    for (spec, wanted) in cases {
        let pod: Pod = decoded(&with_spec(&spec));
        let total = total_requests(&pod.spec.expect("it has a spec"));
        assert_eq!(total["cpu"].to_string(), wanted, "{spec}");
    }
}

#[test]
fn readiness_is_the_condition() {
    let pod = |status: &str| -> Pod {
        let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        decoded(&json!({"metadata": {"name": "p"}, "status": {"phase": "Running", "conditions": [condition]}}))
    };
    assert!(is_ready(&pod("True")) && ready_since(&pod("True")).is_some());
    assert!(!is_ready(&pod("False")) && ready_since(&pod("False")).is_none());
    assert!(is_terminal("Failed") && is_terminal("Succeeded") && !is_terminal("Running"));
}

#[test]
fn containers_are_validated() {
    let cases = [
        (with_spec(&json!({"containers": []})), vec!["spec.containers: Required value"]),
        (
            with_spec(&json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]})),
            vec!["spec.containers[1].name: Duplicate value: \"c\""],
        ),
        (with_spec(&json!({"initContainers": [{"name": "c", "image": "i"}]})), vec!["spec.initContainers[0].name: Duplicate value: \"c\""]),
        (
            with_spec(&json!({"ephemeralContainers": [{"name": "e", "image": "i"}]})),
            vec!["spec.ephemeralContainers: Forbidden: cannot be set on create"],
        ),
        (
            with_container(&json!({"name": "", "image": ""})),
            vec!["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"],
        ),
        (with_container(&json!({"name": "A"})), vec!["spec.containers[0].name: Invalid value: \"A\": a lowercase RFC 1123 label…"]),
        (
            with_container(&json!({"image": " i", "imagePullPolicy": "X"})),
            vec![
                "spec.containers[0].imagePullPolicy: Unsupported value: \"X\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
                "spec.containers[0].image: Invalid value: \" i\": must not have leading or trailing whitespace",
            ],
        ),
        (
            with_container(&json!({"ports": [{"containerPort": 0}, {"containerPort": 70000, "protocol": "X"}]})),
            vec![
                "spec.containers[0].ports[0].containerPort: Required value",
                "spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "spec.containers[0].ports[1].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ],
        ),
        (
            with_container(&json!({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]})),
            vec!["spec.containers[0].ports[1].name: Duplicate value: \"a\""],
        ),
        (
            with_container(&json!({"ports": [{"containerPort": 1, "name": "a-long-port-name"}]})),
            vec!["spec.containers[0].ports[0].name: Invalid value: \"a-long-port-name\": must be no more than 15 characters"],
        ),
        (
            with_container(&json!({"ports": [{"containerPort": 1, "hostPort": 1}, {"containerPort": 2, "hostPort": 1}]})),
            vec!["spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//1\""],
        ),
        (
            with_container(
                &json!({"env": [{"name": ""}, {"name": "a=b"}, {"name": "A", "value": "v", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
            ),
            vec![
                "spec.containers[0].env[0].name: Required value",
                "spec.containers[0].env[1].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
                "spec.containers[0].env[2].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
            ],
        ),
        (
            with_container(&json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]})),
            vec!["spec.containers[0].volumeMounts[0].name: Not found: \"v\""],
        ),
        (
            merged(
                with_container(
                    &json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}, {"name": "v"}]}),
                ),
                &json!({"spec": {"volumes": [{"name": "v"}]}}),
            ),
            vec![
                "spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique",
                "spec.containers[0].volumeMounts[2].mountPath: Required value",
            ],
        ),
    ];
    for (json, wanted) in cases {
        check_create::<Pod>(&json, &wanted);
    }
}

#[test]
fn resources_are_validated() {
    let cases = [
        (
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            vec!["spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"],
        ),
        (
            json!({"requests": {"cpu": "-1"}}),
            vec!["spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"],
        ),
        (
            json!({"limits": {"example.com/gpu": "500m"}}),
            vec![
                "spec.containers[0].resources.limits[example.com/gpu]: Invalid value: \"500m\": must be an integer",
                "spec.containers[0].resources.requests[example.com/gpu]: Invalid value: \"500m\": must be an integer",
            ],
        ),
        (
            json!({"requests": {"example.com/gpu": "1"}}),
            vec!["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"],
        ),
        (
            json!({"requests": {"gpu": "1"}}),
            vec![
                "spec.containers[0].resources.requests[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified",
                "spec.containers[0].resources.requests[gpu]: Invalid value: \"gpu\": must be a standard resource for containers",
            ],
        ),
        (
            json!({"requests": {"cpu": "x"}}),
            vec!["spec.containers[0].resources.requests[cpu]: Invalid value: \"x\": quantities must match…"],
        ),
    ];
    for (resources, wanted) in cases {
        check_create::<Pod>(&with_container(&json!({ "resources": resources })), &wanted);
    }
}

#[test]
fn probes_are_validated() {
    let exec = json!({"exec": {"command": ["true"]}});
    let cases = [
        (json!({"livenessProbe": {}}), vec!["spec.containers[0].livenessProbe: Required value: must specify a handler type"]),
        (
            json!({"livenessProbe": merged(exec.clone(), &json!({"successThreshold": 2, "periodSeconds": -1}))}),
            vec![
                "spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ],
        ),
        (json!({"readinessProbe": merged(exec.clone(), &json!({"successThreshold": 2}))}), vec![]),
        (
            json!({"startupProbe": merged(exec.clone(), &json!({"tcpSocket": {"port": 1}}))}),
            vec!["spec.containers[0].startupProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"],
        ),
        (
            json!({"readinessProbe": {"httpGet": {"port": "", "scheme": "x"}}}),
            vec![
                "spec.containers[0].readinessProbe.httpGet.port: Invalid value: \"\": must contain only alpha-numeric characters (a-z, 0-9), and \
                 hyphens (-)",
                "spec.containers[0].readinessProbe.httpGet.port: Invalid value: \"\": must contain at least one letter (a-z)",
                "spec.containers[0].readinessProbe.httpGet.scheme: Unsupported value: \"x\": supported values: \"HTTP\", \"HTTPS\"",
            ],
        ),
    ];
    for (container, wanted) in cases {
        check_create::<Pod>(&with_container(&container), &wanted);
    }
}

#[test]
fn volumes_are_validated() {
    let cases = [
        (json!([{"name": ""}]), vec!["spec.volumes[0].name: Required value"]),
        (json!([{"name": "a"}, {"name": "a"}]), vec!["spec.volumes[1].name: Duplicate value: \"a\""]),
        (
            json!([{"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}}]),
            vec!["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            json!([{"name": "a", "secret": {"defaultMode": 512}}]),
            vec![
                "spec.volumes[0].secret.secretName: Required value",
                "spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
            ],
        ),
        (
            json!([{"name": "a", "configMap": {"name": "m", "items": [{"key": "k", "path": "/../k"}]}}]),
            vec![
                "spec.volumes[0].configMap.items[0].path: Invalid value: \"/../k\": must be a relative path",
                "spec.volumes[0].configMap.items[0].path: Invalid value: \"/../k\": must not contain '..'",
            ],
        ),
    ];
    for (volumes, wanted) in cases {
        check_create::<Pod>(&with_spec(&json!({ "volumes": volumes })), &wanted);
    }
}

#[test]
fn fields_of_the_pod_are_validated() {
    let requirement = |operator: &str, values: Value| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}
        ]}}}})
    };
    let terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]";
    let no_values = format!("{terms}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'");
    let unknown = format!("{terms}.operator: Invalid value: \"X\": not a valid selector operator");
    let cases = [
        (
            json!({"restartPolicy": "X", "dnsPolicy": "Y"}),
            vec![
                "spec.restartPolicy: Unsupported value: \"X\": supported values: \"Always\", \"OnFailure\", \"Never\"",
                "spec.dnsPolicy: Unsupported value: \"Y\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \"Default\", \"None\"",
            ],
        ),
        (
            json!({"activeDeadlineSeconds": 0}),
            vec!["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (json!({"hostname": "A.b"}), vec!["spec.hostname: Invalid value: \"A.b\": a lowercase RFC 1123 label…"]),
        (json!({"nodeSelector": {"a": "b c"}}), vec!["spec.nodeSelector: Invalid value: \"b c\": a valid label…"]),
        (
            json!({"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1}, {"effect": "X"}]}),
            vec![
                "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
                "spec.tolerations[1].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
                "spec.tolerations[1].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            ],
        ),
        (
            json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "X"}]}),
            vec![
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than 0",
                "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"X\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
            ],
        ),
        (requirement("In", json!([])), vec![&no_values]),
        (requirement("X", json!(["a"])), vec![&unknown]),
        (requirement("Gt", json!(["1"])), vec![]),
        (json!({"schedulingGates": [{"name": "a"}, {"name": "a"}]}), vec!["spec.schedulingGates[1]: Duplicate value: \"a\""]),
    ];
    for (spec, wanted) in cases {
        check_create::<Pod>(&with_spec(&spec), &wanted);
    }
}

#[test]
fn templates_are_validated_at_their_own_paths() {
    let base = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    let cost = "controller.kubernetes.io/pod-deletion-cost";
    let cases = [
        (json!({"metadata": {"labels": {"a": "-"}}}), "spec.template.labels: Invalid value: \"-\": a valid label"),
        (
            json!({"metadata": {"annotations": {"/": "b"}}}),
            "spec.template.annotations: Invalid value: \"/\": prefix part must be non-empty",
        ),
        (
            json!({"metadata": {"annotations": {cost: "05"}}}),
            "spec.template.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"05\": must be a 32bit integer",
        ),
        (json!({"spec": {"containers": [{"name": "c"}]}}), "spec.template.spec.containers[0].image: Required value"),
        (
            json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}),
            "spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template",
        ),
    ];
    for (patch, wanted) in cases {
        let found = template_faults(&merged(base.clone(), &patch), &[]);
        assert!(found.first().is_some_and(|found| found.starts_with(wanted)), "{patch}: {found:?}");
    }
    assert_eq!(template_faults(&json!({}), &[]), ["spec.template.spec.containers: Required value"]);
}

#[test]
fn claims_of_the_set_count_as_volumes() {
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}});
    assert_eq!(template_faults(&template, &[]), ["spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\""]);
    assert!(template_faults(&template, &["data".to_owned()]).is_empty());
}

#[test]
fn updates_change_only_what_may_change() {
    let old = with_spec(&json!({"activeDeadlineSeconds": 10, "tolerations": [{"key": "a", "operator": "Exists"}]}));
    let tolerations = json!([{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]);
    let immutable = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
                     `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
                     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n…";
    let cases = [
        (json!({"metadata": {"labels": {"a": "b"}}}), vec![]),
        (json!({"spec": {"containers": [{"name": "c", "image": "j", "imagePullPolicy": "Always"}]}}), vec![]),
        (json!({"spec": {"activeDeadlineSeconds": 5}}), vec![]),
        (json!({"spec": {"tolerations": tolerations}}), vec![]),
        (
            json!({"spec": {"activeDeadlineSeconds": 20}}),
            vec!["spec.activeDeadlineSeconds: Invalid value: 20: must be less than or equal to previous value"],
        ),
        (
            json!({"spec": {"activeDeadlineSeconds": null}}),
            vec!["spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"],
        ),
        (
            json!({"spec": {"tolerations": null}}),
            vec!["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"],
        ),
        (
            json!({"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}}),
            vec!["spec.containers: Forbidden: pod updates may not add or remove containers"],
        ),
        (
            json!({"spec": {"schedulingGates": [{"name": "g"}]}}),
            vec!["spec.schedulingGates: Forbidden: only deletion is allowed, but found new scheduling gate 'g'"],
        ),
        (json!({"spec": {"nodeName": "n"}}), vec![immutable]),
        (json!({"spec": {"containers": [{"name": "c", "image": "i", "command": ["x"]}]}}), vec![immutable]),
        (json!({"spec": {"nodeSelector": {"a": "b"}}}), vec![immutable]),
    ];
    for (patch, wanted) in cases {
        check_update::<Pod>(&old, &merged(old.clone(), &patch), &wanted);
    }
}

#[test]
fn gated_pods_may_narrow_their_nodes() {
    let node_affinity = |expressions: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}});
    let one = json!({"key": "k", "operator": "Exists"});
    let two = json!({"key": "l", "operator": "Exists"});
    let old = with_spec(&json!({"schedulingGates": [{"name": "g"}], "nodeSelector": {"a": "b"}, "affinity": node_affinity(json!([one]))}));
    let narrowed = json!({"nodeSelector": {"a": "b", "c": "d"}, "affinity": node_affinity(json!([one, two])), "schedulingGates": null});
    check_update::<Pod>(&old, &merged(old.clone(), &json!({ "spec": narrowed })), &[]);
    let widened = json!({"nodeSelector": {"a": "c"}});
    let wanted =
        "spec.nodeSelector: Invalid value: {\"a\":\"c\"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)";
    check_update::<Pod>(&old, &merged(old.clone(), &json!({ "spec": widened })), &[wanted]);
    let other = json!({"affinity": node_affinity(json!([two]))});
    let found = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]: Invalid value: …";
    check_update::<Pod>(&old, &merged(old.clone(), &json!({ "spec": other })), &[found, "spec: Forbidden: …"]);
}

#[test]
fn an_invalid_cost_stays_where_it_was_stored() {
    let cost = |value: &str| json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": value}}});
    let refusal = "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"abc\": must be a 32bit integer";
    let bare = with_spec(&json!({}));
    let invalid = merged(bare.clone(), &cost("abc"));
    check_create::<Pod>(&invalid, &[refusal]);
    check_update::<Pod>(&bare, &invalid, &[refusal]);
    check_update::<Pod>(&merged(bare, &cost("x")), &invalid, &[]);
}

#[test]
fn status_is_written_alone() {
    let gates = FeatureGates::default();
    let mut old: Pod = created(&with_spec(&json!({"terminationGracePeriodSeconds": -5})));
    assert_eq!(old.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds), Some(1));
    old.status.get_or_insert_default().phase = Some("Running".to_owned());

    let mut update: Pod = decoded(&merged(with_spec(&json!({})), &json!({"status": {"phase": "Failed"}})));
    update.prepare_update(&old, &gates);
    assert_eq!(update.status, old.status);

    let sent = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"}]}, "status": {"phase": "Failed"}});
    let mut status: Pod = decoded(&merged(with_spec(&json!({"nodeName": "n"})), &sent));
    status.prepare_status_update(&old, &gates);
    assert_eq!((&status.spec, &status.metadata.owner_references), (&old.spec, &None));
    assert_eq!(serde_json::to_value(&status.status).expect("it is JSON"), json!({"phase": "Failed", "qosClass": "BestEffort"}));
}

#[test]
fn an_ended_container_stays_so_unless_it_may_restart() {
    let pod = |policy: &str, state: Value| -> Pod {
        let status = json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        decoded(&merged(with_spec(&json!({ "restartPolicy": policy })), &json!({"status": {"containerStatuses": [status]}})))
    };
    let ended = |code: i32| json!({"terminated": {"exitCode": code}});
    for (policy, code, allowed) in [("Always", 0, true), ("OnFailure", 1, true), ("OnFailure", 0, false), ("Never", 1, false)] {
        let (old, new) = (pod(policy, ended(code)), pod(policy, json!({"running": {}})));
        let found: Vec<String> = new.validate_status_update(&old, &FeatureGates::default()).iter().map(ToString::to_string).collect();
        let refusal = "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state";
        assert_eq!(found, if allowed { vec![] } else { vec![refusal] }, "{policy} {code}");
    }
}

#[test]
fn surprises_are_warned_about() {
    let two_ports = json!({"ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 80, "name": "b"}]});
    let cases = [
        (
            with_container(&json!({"env": [{"name": "A"}, {"name": "A"}]})),
            "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
        ),
        (with_container(&two_ports), "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"),
        (
            with_spec(&json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}})),
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        ),
        (
            with_spec(&json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "ScheduleAnyway"}]})),
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        ),
        (
            with_container(&json!({"resources": {"limits": {"memory": "128m"}, "requests": {"memory": "0"}}})),
            "spec.containers[0].resources.limits[memory]: fractional byte value \"128m\" is invalid, must be an integer",
        ),
    ];
    for (json, wanted) in cases {
        assert_eq!(pod_warnings(&json), [wanted]);
    }
    let template = template(&json!({"spec": {"terminationGracePeriodSeconds": -1, "containers": []}}));
    let wanted = "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1";
    assert_eq!(template_warnings(&template, &Path::new("spec.template")), [wanted]);
}
