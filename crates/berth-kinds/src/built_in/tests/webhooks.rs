//! Configurations of webhooks. Objects, results and texts are those of a real 1.36.2.

use super::{check_create, check_stored, check_update};
use crate::built_in::{mutating_webhook_configuration, validating_webhook_configuration};
use berth_testing::merged;
use serde_json::{Value, json};

fn rule(more: &Value) -> Value {
    merged(json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}), more)
}

fn webhook(more: &Value) -> Value {
    let mut webhook = json!({
        "name": "a.example.com", "clientConfig": {"url": "https://127.0.0.1:1/x"}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [rule(&json!({}))],
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        match value {
            Value::Null => _ = webhook.as_object_mut().and_then(|members| members.remove(name)),
            value => webhook[name] = value.clone(),
        }
    }
    webhook
}

fn configuration(webhooks: &[Value]) -> Value {
    json!({"metadata": {"name": "c"}, "webhooks": webhooks})
}

/// A configuration with one mutating webhook, changed so, has these faults. Their paths begin with `webhooks[0]`.
fn check(more: Value, faults: &[&str]) {
    let faults: Vec<String> = faults.iter().map(|fault| format!("webhooks[0].{fault}")).collect();
    let faults: Vec<&str> = faults.iter().map(String::as_str).collect();
    check_create(mutating_webhook_configuration, &configuration(&[webhook(&more)]), &faults);
}

#[test]
fn what_a_webhook_omits_has_defaults() {
    let defaulted = |more: &Value| {
        let webhook = json!({
            "name": "a.example.com", "clientConfig": {"service": {"namespace": "n", "name": "s", "port": 443}}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "rules": [rule(&json!({"scope": "*"}))], "failurePolicy": "Fail",
            "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, "timeoutSeconds": 10,
        });
        json!({"webhooks": [merged(webhook, more)]})
    };
    let sent = configuration(&[webhook(&json!({"clientConfig": {"service": {"namespace": "n", "name": "s"}}}))]);
    check_stored(mutating_webhook_configuration, &sent, &defaulted(&json!({"reinvocationPolicy": "Never"})));
    check_stored(validating_webhook_configuration, &sent, &defaulted(&json!({})));
    check_stored(mutating_webhook_configuration, &json!({"webhooks": []}), &json!({}));
}

#[test]
fn a_webhook_is_validated_in_upstreams_order() {
    let empty = [
        "name: Required value",
        "sideEffects: Required value: must specify one of None, NoneOnDryRun",
        "clientConfig: Required value: exactly one of url or service is required",
        "admissionReviewVersions: Required value: must specify one of v1, v1beta1",
    ];
    check(json!({"name": null, "clientConfig": null, "sideEffects": null, "admissionReviewVersions": null, "rules": null}), &empty);
    let wrong = json!({
        "name": "A.b", "failurePolicy": "X", "matchPolicy": "X", "sideEffects": "Some", "timeoutSeconds": 99, "reinvocationPolicy": "X",
        "namespaceSelector": {"matchLabels": {"a b": "c"}}, "objectSelector": {"matchLabels": {"a b": "c"}}, "clientConfig": {},
        "admissionReviewVersions": ["v2"], "matchConditions": [{}],
        "rules": [{"operations": ["X"], "apiGroups": [], "apiVersions": ["*", "a"], "resources": ["*", "pods", ""], "scope": "X"}],
    });
    let faults = [
        "name: Invalid value: \"A.b\": a lowercase RFC 1123 subdomain must consist of…",
        "rules[0].operations[0]: Unsupported value: \"X\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"",
        "rules[0].apiGroups: Required value",
        "rules[0].apiVersions: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other API versions",
        "rules[0].resources[2]: Required value",
        "rules[0].resources: Invalid value: [\"*\",\"pods\",\"\"]: if '*' is present, must not specify other resources without subresources",
        "rules[0].scope: Unsupported value: \"X\": supported values: \"*\", \"Cluster\", \"Namespaced\"",
        "failurePolicy: Unsupported value: \"X\": supported values: \"Fail\", \"Ignore\"",
        "matchPolicy: Unsupported value: \"X\": supported values: \"Equivalent\", \"Exact\"",
        "sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
        "timeoutSeconds: Invalid value: 99: the timeout value must be between 1 and 30 seconds",
        "namespaceSelector.matchLabels: Invalid value: \"a b\": name part must consist of…",
        "objectSelector.matchLabels: Invalid value: \"a b\": name part must consist of…",
        "reinvocationPolicy: Unsupported value: \"X\": supported values: \"IfNeeded\", \"Never\"",
        "clientConfig: Required value: exactly one of url or service is required",
        "matchConditions[0].expression: Required value",
        "matchConditions[0].name: Required value",
        "admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
    ];
    check(wrong, &faults);
    let twice = configuration(&[webhook(&json!({})), webhook(&json!({}))]);
    check_create(validating_webhook_configuration, &twice, &["webhooks[1].name: Duplicate value: \"a.example.com\""]);
    check_update(
        validating_webhook_configuration,
        &configuration(&[webhook(&json!({}))]),
        &configuration(&[webhook(&json!({"timeoutSeconds": 0}))]),
        &["webhooks[0].timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds"],
    );
}

#[test]
fn names_versions_and_conditions_have_forms() {
    check(json!({"name": "a.b"}), &["name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots"]);
    check(json!({"admissionReviewVersions": ["v1", "v1"]}), &["admissionReviewVersions[1]: Invalid value: \"v1\": duplicate version"]);
    check(json!({"admissionReviewVersions": ["v2", "v1beta1"]}), &[]);
    let conditions: Vec<Value> = (0..65).map(|index| json!({"name": format!("a{index}"), "expression": "true"})).collect();
    check(json!({"matchConditions": conditions}), &["matchConditions: Too many: 65: must have at most 64 items"]);
    for (expression, fault) in [
        ("object.spec.replicas > 1 && authorizer.requestResource.check('get').allowed()", None),
        ("1", Some("\"1\": must evaluate to bool but got int")),
        ("object.x", Some("\"object.x\": must evaluate to bool but got dyn")),
        ("params == null", Some("\"params == null\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params'…")),
        (" has(request.uid) ", Some("\"has(request.uid)\": compilation failed: ERROR: <input>:1:4: undefined field 'uid'…")),
    ] {
        let fault = fault.map(|fault| format!("matchConditions[0].expression: Invalid value: {fault}"));
        let faults: Vec<&str> = fault.as_deref().into_iter().collect();
        check(json!({"matchConditions": [{"name": "a", "expression": expression}]}), &faults);
    }
    let twice = json!([{"name": "a", "expression": "true"}, {"name": "a", "expression": " "}]);
    check(
        json!({"matchConditions": twice}),
        &["matchConditions[1].expression: Required value", "matchConditions[1].name: Duplicate value: \"a\""],
    );
}

#[test]
fn rules_name_no_resource_twice() {
    let resources = |resources: &[&str], faults: &[&str]| {
        let faults: Vec<String> = faults.iter().map(|fault| format!("rules[0].resources{fault}")).collect();
        let faults: Vec<&str> = faults.iter().map(String::as_str).collect();
        check(json!({"rules": [rule(&json!({"resources": resources}))]}), &faults);
    };
    resources(&["pods", "pods"], &[]);
    resources(&["*", "*/scale"], &[]);
    resources(&["pods/", "a/b/c"], &[]);
    resources(&["pods/*", "pods/status"], &["[1]: Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status"]);
    resources(
        &["*/status", "pods/status"],
        &["[1]: Invalid value: \"pods/status\": if '*/status' is present, must not specify pods/status"],
    );
    let all = "Invalid value: [\"*/*\",\"*/scale\"]: if '*/*' is present, must not specify other resources";
    resources(
        &["*/*", "*/scale"],
        &["[1]: Invalid value: \"*/scale\": if '*/*' is present, must not specify */scale", &format!(": {all}")],
    );
    let operations = json!({"rules": [rule(&json!({"operations": ["*", "CREATE"]}))]});
    let wanted = "rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations";
    check(operations, &[wanted]);
}

#[test]
fn a_url_is_https_and_nothing_but_a_host_and_a_path() {
    let url = |url: &str, faults: &[&str]| {
        let faults: Vec<String> =
            faults.iter().map(|fault| format!("clientConfig.url: {fault}; desired format: https://host[/path]")).collect();
        let faults: Vec<&str> = faults.iter().map(|fault| fault.trim_end_matches("-; desired format: https://host[/path]")).collect();
        check(json!({"clientConfig": {"url": url}}), &faults);
    };
    for right in ["HTTPS://x", "https://x:/", "https://x:99999/", "https://x?", "https://x#", "https://[::1]:443/a"] {
        url(right, &[]);
    }
    url("http://x/", &["Invalid value: \"http\": 'https' is the only allowed URL scheme"]);
    let nothing = ["Invalid value: \"\": 'https' is the only allowed URL scheme", "Invalid value: \"\": host must be specified"];
    for wrong in ["", "x", "a b", "a/b:c"] {
        url(wrong, &nothing);
    }
    for wrong in ["https://", "https:/x", "https:x"] {
        url(wrong, &["Invalid value: \"\": host must be specified"]);
    }
    url("https://u:p@x/", &["Invalid value: \"u:p\": user information is not permitted in the URL-"]);
    url("https://@x", &["Invalid value: \"\": user information is not permitted in the URL-"]);
    url("https://x/?a=b", &["Invalid value: \"a=b\": query parameters are not permitted in the URL-"]);
    url("https://x/#f", &["Invalid value: \"f\": fragments are not permitted in the URL-"]);
    for (wrong, why) in [
        ("https://x:abc", "invalid port \":abc\" after host"),
        ("://", "missing protocol scheme"),
        ("https://x y/", "invalid character \" \" in host name"),
        ("https://[::1/", "missing ']' in host"),
        ("1https://x", "first path segment in URL cannot contain colon"),
        ("a_b:c", "first path segment in URL cannot contain colon"),
        ("https://x/%zz", "invalid URL escape \"%zz\""),
        ("https://x/\n", "net/url: invalid control character in URL"),
    ] {
        url(wrong, &[&format!("Required value: url must be a valid URL: parse {wrong:?}: {why}")]);
    }
}

#[test]
fn a_service_has_a_name_a_port_and_a_path() {
    let service = |more: Value, faults: &[&str]| {
        let faults: Vec<String> = faults.iter().map(|fault| format!("clientConfig.service.{fault}")).collect();
        let faults: Vec<&str> = faults.iter().map(String::as_str).collect();
        check(json!({"clientConfig": {"service": merged(json!({"namespace": "a", "name": "b"}), &more)}}), &faults);
    };
    for right in [json!({}), json!({"path": ""}), json!({"path": "/"}), json!({"path": "/a/b/"}), json!({"namespace": "A b"})] {
        service(right, &[]);
    }
    service(json!({"namespace": "", "name": ""}), &["name: Required value", "namespace: Required value"]);
    service(json!({"port": 0}), &["port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"]);
    let start = |path: &str| format!("path: Invalid value: {path:?}: must start with a '/'");
    let empty = |path: &str, index: usize| format!("path: Invalid value: {path:?}: segment[{index}] may not be empty");
    service(json!({"path": "x"}), &[&start("x"), &empty("x", 0)]);
    service(json!({"path": "a/"}), &[&start("a/"), &empty("a/", 0)]);
    service(json!({"path": "a//b/"}), &[&start("a//b/"), &empty("a//b/", 0), &empty("a//b/", 1)]);
    service(json!({"path": "//"}), &[&empty("//", 0)]);
    service(json!({"path": "/a//b/"}), &[&empty("/a//b/", 1)]);
    service(json!({"path": "/a//"}), &[&empty("/a//", 1)]);
    service(json!({"path": "/a/b?c"}), &["path: Invalid value: \"/a/b?c\": segment[1]: a lowercase RFC 1123 subdomain must consist of…"]);
}
