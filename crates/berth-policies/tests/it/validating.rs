//! ValidatingAdmissionPolicy.

use crate::cluster::{Cluster, DEPLOYMENTS, config_map, deployment};
use serde_json::{Value, json};

/// A cluster with one policy `p`, bound by `p`.
fn with_policy(spec: &Value, binding: &Value) -> Cluster {
    let cluster = Cluster::new();
    cluster.install("Validating", "p", spec, binding);
    cluster
}

fn deny() -> Value {
    json!({"validationActions": ["Deny"]})
}

#[test]
fn a_validation_that_is_false_rejects_the_request_in_upstreams_words() {
    let cluster = with_policy(&json!({"validations": [{"expression": "object.spec.replicas <= 5"}]}), &deny());
    cluster.create(DEPLOYMENTS, &deployment("small", 5));
    let message = "deployments.apps \"d\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed expression: object.spec.replicas <= 5";
    assert_eq!(cluster.denied(DEPLOYMENTS, &deployment("d", 6)), (422, "Invalid".to_owned(), message.to_owned()));
    assert!(cluster.merge(DEPLOYMENTS, "small", &json!({"spec": {"replicas": 6}})).is_err());
    cluster.merge(DEPLOYMENTS, "small", &json!({"spec": {"replicas": 4}})).expect("it is valid");
}

#[test]
fn the_reason_of_a_validation_decides_the_code() {
    for (reason, code) in [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413)] {
        let cluster = with_policy(&json!({"validations": [{"expression": "false", "reason": reason}]}), &deny());
        let (found, shown, _) = cluster.denied(DEPLOYMENTS, &deployment("d", 1));
        assert_eq!((found, shown.as_str()), (code, reason));
    }
}

#[test]
fn a_policy_applies_from_its_write_to_its_deletion() {
    let cluster = with_policy(&json!({"validations": [{"expression": "false"}]}), &deny());
    let group = "admissionregistration.k8s.io/v1";
    cluster.denied(DEPLOYMENTS, &deployment("d", 1));
    let policies = format!("{group}/validatingadmissionpolicies");
    cluster.merge(&policies, "p", &json!({"spec": {"validations": [{"expression": "true"}]}})).expect("a valid policy");
    cluster.create(DEPLOYMENTS, &deployment("d", 1));
    cluster.merge(&policies, "p", &json!({"spec": {"validations": [{"expression": "false"}]}})).expect("policies do not review policies");
    cluster.denied(DEPLOYMENTS, &deployment("e", 1));
    cluster.delete(&format!("{group}/validatingadmissionpolicybindings"), "p").expect("it exists");
    cluster.create(DEPLOYMENTS, &deployment("e", 1));
}

#[test]
fn a_binding_can_warn_and_audit_instead() {
    let rules = json!({"validations": [{"expression": "false", "message": "m"}, {"expression": "false", "message": "n"}]});
    let spec =
        crate::cluster::with(rules, &json!({"auditAnnotations": [{"key": "k", "valueExpression": "'v' + string(object.spec.replicas)"}]}));
    let cluster = with_policy(&spec, &json!({"validationActions": ["Warn", "Audit"]}));
    let written = cluster.written(DEPLOYMENTS, &deployment("d", 1)).expect("nothing is denied");
    let warning = |message: &str| format!("Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': {message}");
    assert_eq!(written.warnings, [warning("m"), warning("n")]);
    let failure = r#"[{"message":"m","policy":"p","binding":"p","expressionIndex":0,"validationActions":["Warn","Audit"]}]"#;
    let audit: Vec<(&str, &str)> = written.audit.iter().map(|(name, value)| (&**name, value.as_str())).collect();
    assert_eq!(audit, [("validation.policy.admission.k8s.io/validation_failure", failure), ("p/k", "v1")]);
}

#[test]
fn parameters_come_from_the_object_that_the_binding_names() {
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "object.kind != 'Deployment' || object.spec.replicas <= int(params.data.max)"}],
    });
    let named =
        |name: &str, action: &str| json!({"validationActions": ["Deny"], "paramRef": {"name": name, "parameterNotFoundAction": action}});
    let prefix = "deployments.apps \"d\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: ";

    let cluster = with_policy(&spec, &named("limits", "Deny"));
    let missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert_eq!(cluster.denied(DEPLOYMENTS, &deployment("d", 1)).2, format!("{prefix}{missing}"));

    let cluster = with_policy(&spec, &named("limits", "Allow"));
    cluster.create("configmaps", &config_map("limits", &json!({"max": "2"})));
    cluster.create(DEPLOYMENTS, &deployment("ok", 2));
    cluster.denied(DEPLOYMENTS, &deployment("d", 3));
    cluster.merge("configmaps", "limits", &json!({"data": {"max": "3"}})).expect("it is valid");
    cluster.create(DEPLOYMENTS, &deployment("d", 3));

    let selected = json!({"selector": {"matchLabels": {"of": "params"}}, "parameterNotFoundAction": "Allow"});
    let cluster = with_policy(&spec, &json!({"validationActions": ["Deny"], "paramRef": selected}));
    cluster.create(DEPLOYMENTS, &deployment("without", 9));
    for (name, max) in [("a", "5"), ("b", "2")] {
        cluster.create("configmaps", &config_map(name, &json!({"max": max})));
    }
    cluster.create(DEPLOYMENTS, &deployment("ok", 2));
    cluster.denied(DEPLOYMENTS, &deployment("d", 3));
}

#[test]
fn an_unknown_kind_of_parameters_rejects_unless_the_policy_ignores_failures() {
    let spec = |failure: &str| {
        json!({
            "failurePolicy": failure,
            "paramKind": {"apiVersion": "a.example.com/v1", "kind": "Foo"},
            "validations": [{"expression": "true"}],
        })
    };
    let binding = json!({"validationActions": ["Deny"], "paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}});
    let message = "deployments.apps \"d\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find \
                   resource referenced by paramKind: 'a.example.com/v1, Kind=Foo'";
    let cluster = with_policy(&spec("Fail"), &binding);
    assert_eq!(cluster.denied(DEPLOYMENTS, &deployment("d", 1)), (422, "Invalid".to_owned(), message.to_owned()));
    with_policy(&spec("Ignore"), &binding).create(DEPLOYMENTS, &deployment("d", 1));
}

#[test]
fn a_policy_reads_the_old_object_the_request_and_the_namespace() {
    let expression = "request.operation == 'DELETE' ? oldObject.metadata.name != 'kept' && object == null : \
                      request.userInfo.username == 'alice' && namespaceObject.metadata.name == request.namespace";
    let cluster = with_policy(&json!({"validations": [{"expression": expression, "message": "no"}]}), &deny());
    for name in ["kept", "removed"] {
        cluster.create("configmaps", &config_map(name, &json!({})));
    }
    cluster.delete("configmaps", "removed").expect("it is allowed");
    let denied = cluster.delete("configmaps", "kept").expect_err("it is denied").to_string();
    assert_eq!(denied, "configmaps \"kept\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no");
}

#[test]
fn a_binding_narrows_what_its_policy_matches() {
    let narrowed = json!({"validationActions": ["Deny"], "matchResources": {"objectSelector": {"matchLabels": {"of": "params"}}}});
    let cluster = with_policy(&json!({"validations": [{"expression": "false"}]}), &narrowed);
    cluster.create(DEPLOYMENTS, &deployment("d", 1));
    cluster.denied("configmaps", &config_map("c", &json!({})));
}

#[test]
fn a_binding_selects_a_bounded_number_of_parameters() {
    let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": "true"}]});
    let selected = json!({"selector": {"matchLabels": {"of": "params"}}, "parameterNotFoundAction": "Deny"});
    let cluster = Cluster::new();
    for place in 0..1_000 {
        cluster.create("configmaps", &config_map(&format!("c{place}"), &json!({})));
    }
    cluster.install("Validating", "p", &spec, &json!({"validationActions": ["Deny"], "paramRef": selected}));
    cluster.create(DEPLOYMENTS, &deployment("d", 1));
    cluster.create("configmaps", &config_map("more", &json!({})));
    let message = cluster.denied(DEPLOYMENTS, &deployment("e", 1)).2;
    assert!(message.ends_with("failed to configure binding: the selector of the binding matches more than 1000 params"), "{message}");
}

#[test]
fn a_policy_without_a_binding_and_a_binding_without_its_policy_have_no_effect() {
    let (group, spec) = ("admissionregistration.k8s.io/v1", json!({"validations": [{"expression": "false"}]}));
    let cluster = with_policy(&spec, &deny());
    cluster.denied(DEPLOYMENTS, &deployment("d", 1));
    cluster.delete(&format!("{group}/validatingadmissionpolicies"), "p").expect("it exists");
    cluster.create(DEPLOYMENTS, &deployment("d", 1));
    cluster.delete(&format!("{group}/validatingadmissionpolicybindings"), "p").expect("it exists");
    cluster.install("Validating", "p", &spec, &deny());
    cluster.denied(DEPLOYMENTS, &deployment("e", 1));
    cluster.delete(&format!("{group}/validatingadmissionpolicybindings"), "p").expect("it exists");
    cluster.create(DEPLOYMENTS, &deployment("e", 1));
}
