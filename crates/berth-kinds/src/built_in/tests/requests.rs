//! CertificateSigningRequests, and the first version of autoscalers. Objects, results and texts are those of a real 1.36.2.

use super::{check_create, check_update, compare, decoded, named};
use crate::{
    Document,
    built_in::{autoscaler_to_v1, autoscaler_to_v2, certificate_signing_request, horizontal_pod_autoscaler_v1},
};
use berth_api::{FeatureGates, ObjectStrategy, Subresource};
use k8s_openapi::{ByteString, apimachinery::pkg::apis::meta::v1::Time};
use serde_json::{Value, json};

const PEM: &str = include_str!("../../../../berth-api/src/certificates/request.pem");

fn bytes(text: &str) -> Value {
    json!(ByteString(text.as_bytes().to_vec()))
}

fn request(more: &Value) -> Value {
    let spec = json!({"request": bytes(PEM), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]});
    named(&json!({"metadata": {"namespace": null}, "spec": super::merged(spec, more)}))
}

#[test]
fn a_request_for_a_certificate_is_validated() {
    check_create(certificate_signing_request, &request(&json!({"expirationSeconds": 600})), &[]);
    let no_block = "spec.request: Invalid value: null: PEM block type must be CERTIFICATE REQUEST";
    let empty = named(&json!({"metadata": {"namespace": null}}));
    check_create(certificate_signing_request, &empty, &[no_block, "spec.usages: Required value", "spec.signerName: Required value"]);
    check_create(
        certificate_signing_request,
        &request(&json!({"request": bytes("hi"), "usages": ["client auth", "client auth"], "signerName": "x", "expirationSeconds": 5})),
        &[
            "spec.request: Invalid value: \"aGk=\": PEM block type must be CERTIFICATE REQUEST",
            "spec.usages[1]: Duplicate value: \"client auth\"",
            "spec.signerName: Invalid value: \"x\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
            "spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 600 seconds (10 minutes)",
        ],
    );
    check_create(
        certificate_signing_request,
        &request(&json!({"usages": ["foo"]})),
        &["spec.usages[0]: Unsupported value: \"foo\": supported values: \"any\", \"cert sign\", \"client auth\"…"],
    );
    for (signer, wanted) in [
        ("kubernetes.io/legacy-unknown", "\"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via this API version"),
        ("x/y", "\"x\": should be a domain with at least two segments separated by dots"),
        ("Kub.io/x", "\"Kub.io\": validating label \"Kub\": a lowercase RFC 1123 label must…"),
        ("kubernetes.io/", "\"\": validating label \"\": a lowercase RFC 1123 subdomain must…"),
        ("k.io/A", "\"A\": validating label \"A\": a lowercase RFC 1123 subdomain must…"),
    ] {
        check_create(
            certificate_signing_request,
            &request(&json!({"signerName": signer})),
            &[&format!("spec.signerName: Invalid value: {wanted}")],
        );
    }
    check_create(certificate_signing_request, &request(&json!({"signerName": "k.io/a.b"})), &[]);
}

#[test]
fn a_request_keeps_what_it_asks_for() {
    let [old, mut new] = decoded(
        certificate_signing_request,
        [&request(&json!({"username": "jane"})), &request(&json!({"username": "x", "usages": ["any"]}))],
    );
    new.prepare_update(&old, None, &FeatureGates::default());
    assert_eq!(new.content().members(), old.content().members());
    check_update(certificate_signing_request, &request(&json!({})), &request(&json!({"signerName": "x"})), &[]);
}

/// The object after a write to a subresource, with its faults.
fn written(old: &Value, status: &Value, subresource: Subresource, wanted: &[&str]) -> Document {
    let with = |status: &Value| super::merged(request(&json!({})), &json!({ "status": status }));
    let [old, mut new] = decoded(certificate_signing_request, [&with(old), &with(status)]);
    let gates = FeatureGates::default();
    new.prepare_update(&old, Some(subresource), &gates);
    new.stamp(Some(&old), &Time("2026-01-01T00:00:00Z".parse().expect("a time")));
    compare(&new.validate_update(&old, Some(subresource), &gates), wanted, status);
    new
}

fn conditions(all: &[(&str, &str)]) -> Value {
    let all: Vec<Value> = all.iter().map(|(kind, status)| json!({"type": kind, "status": status})).collect();
    json!({ "conditions": all })
}

#[test]
fn a_decision_is_written_once_and_gets_its_times() {
    use Subresource::{Approval, Status};
    let approved = conditions(&[("Approved", "True")]);
    let document = written(&json!({}), &super::merged(approved.clone(), &json!({"certificate": bytes("hi")})), Approval, &[]);
    let now = "2026-01-01T00:00:00Z";
    let wanted = json!({"conditions": [{"type": "Approved", "status": "True", "lastUpdateTime": now, "lastTransitionTime": now}]});
    assert_eq!(document.content().members()["status"], wanted, "/approval writes no certificate");
    written(&json!({}), &conditions(&[("", "True")]), Approval, &["status.conditions[0].type: Required value"]);
    let unsupported = "status.conditions[0].status: Unsupported value:";
    written(
        &json!({}),
        &conditions(&[("Foo", "X")]),
        Status,
        &[&format!("{unsupported} \"X\": supported values: \"False\", \"True\", \"Unknown\"")],
    );
    written(
        &json!({}),
        &conditions(&[("Approved", "False")]),
        Approval,
        &[&format!("{unsupported} \"False\": supported values: \"True\"")],
    );
    let exclusive = "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive";
    written(&json!({}), &conditions(&[("Approved", "True"), ("Denied", "True")]), Approval, &[exclusive]);
    written(
        &json!({}),
        &conditions(&[("Approved", "True"), ("Approved", "True")]),
        Approval,
        &["status.conditions[1].type: Duplicate value: \"Approved\""],
    );
    written(&approved, &json!({}), Approval, &["status.conditions: Forbidden: updates may not remove a condition of type \"Approved\""]);
    written(&json!({}), &approved, Status, &["status.conditions: Forbidden: updates may not add a condition of type \"Approved\""]);
    let failed = conditions(&[("Failed", "True")]);
    written(&json!({}), &failed, Status, &[]);
    written(&failed, &json!({}), Approval, &["status.conditions: Forbidden: updates may not remove a condition of type \"Failed\""]);
}

#[test]
fn a_certificate_is_written_once() {
    let text = |text: &str| json!({"certificate": bytes(text)});
    let status = |status: &Value, wanted: &[&str]| drop(written(&json!({}), status, Subresource::Status, wanted));
    let invalid = "status.certificate: Invalid value: \"<certificate data>\":";
    status(&text("hi"), &[&format!("{invalid} must contain at least one CERTIFICATE PEM block")]);
    status(
        &text("-----BEGIN FOO-----\naGk=\n-----END FOO-----\n"),
        &[&format!("{invalid} only CERTIFICATE PEM blocks are allowed, found \"FOO\"")],
    );
    status(&text("-----BEGIN CERTIFICATE-----\naGk=\n-----END CERTIFICATE-----\n"), &[&format!("{invalid} x509: malformed certificate")]);
    let changed = "status.certificate: Forbidden: updates may not modify existing certificate content";
    written(&text("hi"), &json!({}), Subresource::Status, &[changed]);
}

fn autoscaler(spec: &Value, annotations: &Value) -> Value {
    let spec =
        super::merged(json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3}), spec);
    named(&json!({"metadata": {"annotations": annotations}, "spec": spec}))
}

/// The object of `autoscaling/v1` that is shown after a create.
fn created(sent: &Value) -> Value {
    let [mut document] = decoded(horizontal_pod_autoscaler_v1, [sent]);
    document.prepare_create(&FeatureGates::default());
    assert_eq!(ObjectStrategy::validate(&document, &FeatureGates::default()), Vec::new(), "{sent}");
    berth_api::Object::to_value(&document)
}

#[test]
fn the_first_version_of_an_autoscaler_has_defaults_and_rules_of_the_second() {
    let shown = created(&autoscaler(&json!({}), &json!({})));
    assert_eq!((&shown["spec"]["minReplicas"], &shown["spec"]["targetCPUUtilizationPercentage"]), (&json!(1), &json!(80)));
    assert_eq!(shown["status"], json!({"currentReplicas": 0, "desiredReplicas": 0}));
    check_create(
        horizontal_pod_autoscaler_v1,
        &named(&json!({"spec": {"scaleTargetRef": {}, "maxReplicas": 0, "minReplicas": -1, "targetCPUUtilizationPercentage": 0}})),
        &[
            "spec.minReplicas: Invalid value: -1: must be greater than or equal to 1",
            "spec.maxReplicas: Required value: must be set and greater than 0",
            "spec.scaleTargetRef.kind: Required value",
            "spec.scaleTargetRef.name: Required value",
            "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group",
            "spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
        ],
    );
    for (name, text) in [
        ("metrics", "x"),
        ("metrics", "[]"),
        ("behavior", "x"),
        ("behavior", "{}"),
        ("conditions", "x"),
        ("conditions", "[{\"type\":\"X\",\"status\":\"True\"}]"),
        ("conditions", "[{\"type\":\"X\",\"status\":\"True\",\"lastTransitionTime\":\"no time\"}]"),
    ] {
        let shown = created(&autoscaler(&json!({}), &json!({format!("autoscaling.alpha.kubernetes.io/{name}"): text})));
        assert_eq!(
            (&shown["spec"]["targetCPUUtilizationPercentage"], shown["metadata"].get("annotations")),
            (&json!(80), None),
            "{name} {text}"
        );
    }
    let text = r#"[{"type":"Resource","resource":{"name":"cpu","targetAverageUtilization":5}}]"#;
    let shown = created(&autoscaler(&json!({}), &json!({"autoscaling.alpha.kubernetes.io/metrics": text})));
    assert_eq!(shown["spec"]["targetCPUUtilizationPercentage"], 5);
}

#[test]
fn gates_apply_to_the_first_version_of_an_autoscaler() {
    let behavior = json!({"autoscaling.alpha.kubernetes.io/behavior": r#"{"ScaleUp":{"Tolerance":"50m"}}"#});
    let sent = autoscaler(&json!({}), &behavior);
    let off = FeatureGates::parse("HPAConfigurableTolerance=false").expect("a gate");
    let has_tolerance = |document: &Document| berth_api::Object::to_value(document).to_string().contains("Tolerance\\\":\\\"50m");
    let [mut plain, mut with_old, mut created, mut old] =
        decoded(horizontal_pod_autoscaler_v1, [&sent, &sent, &sent, &autoscaler(&json!({}), &json!({}))]);
    let in_use = created.clone();
    created.prepare_create(&FeatureGates::default());
    assert!(has_tolerance(&created), "{created:?}");
    created.prepare_create(&off);
    assert!(!has_tolerance(&created), "{created:?}");
    old.prepare_create(&off);
    plain.prepare_update(&old, None, &off);
    assert!(!has_tolerance(&plain), "{plain:?}");
    with_old.prepare_update(&in_use, None, &off);
    assert!(has_tolerance(&with_old), "{with_old:?}");
}

/// Recorded from a real 1.36.2, which stored `autoscaling/v2` and showed `autoscaling/v1`.
#[test]
fn versions_of_an_autoscaler_have_the_same_content() {
    let recorded: Value = serde_json::from_str(include_str!("autoscaler.json")).expect("JSON");
    let (v1, v2) = (&recorded["v1"], &recorded["v2"]);
    assert_eq!(autoscaler_to_v1(v2.clone()), *v1);
    let mut wanted = v2.clone();
    // A metric of CPU goes to the end, and of several only the first one has a place.
    let metrics = wanted["spec"]["metrics"].as_array_mut().expect("metrics");
    metrics.pop();
    let cpu = metrics.remove(1);
    metrics.push(cpu);
    assert_eq!(autoscaler_to_v2(v1.clone()), wanted);
}
