//! The answers are those of Kubernetes 1.36.2.

mod real;

use super::*;
use crate::{Cell, Conversion, Document, FAULTS_MAX, Kind, KindVersion, Names, built_in::custom_resource_definition};
use berth_api::{FeatureGates, FieldError, Object as _, ObjectStrategy as _, Scope, Subresource, metadata};
use berth_testing::merged;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{ByteString, apimachinery::pkg::apis::meta::v1::Time};
use serde_json::{Value, json};
use std::sync::LazyLock;

/// A case per line: `metadata` and `spec` of a definition, and the answer to its create.
const RECORDED: &str = include_str!("../../testdata/definitions.jsonl");

fn kind() -> KindVersion {
    static KIND: LazyLock<KindVersion> = LazyLock::new(|| {
        let kind = Kind::new(custom_resource_definition()).expect("it does not contradict itself");
        kind.served().next().expect("it is served")
    });
    KIND.clone()
}

/// A definition with one version.
fn ships(patch: &Value) -> Value {
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "string"}, "size": {"type": "integer"}}},
    }}}});
    let names = json!({"kind": "Ship", "plural": "ships"});
    let spec = json!({"group": "e.com", "scope": "Namespaced", "names": names, "versions": [version]});
    let base = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "ships.e.com"}, "spec": spec,
    });
    merged(base, patch)
}

/// What a create stores, before validation.
fn created(definition: Value) -> Document {
    let (mut document, _) = kind().decode(definition).expect("the test's JSON is of the kind");
    document.set_defaults();
    document.prepare_create(&FeatureGates::default());
    document
}

fn shown(faults: &[FieldError]) -> Vec<String> {
    let mut shown: Vec<String> = faults.iter().map(ToString::to_string).map(without_internal_values).collect();
    shown.sort();
    shown
}

/// Of a schema and of versions, upstream shows its internal type.
fn without_internal_values(fault: String) -> String {
    let begins = [": Invalid value: {\"type\"", ": Invalid value: {\"", ": Invalid value: [{\""];
    let Some(begin) = begins.iter().find_map(|begin| fault.find(begin)) else { return fault };
    match fault.rfind("}: ").or_else(|| fault.rfind("}]: ").map(|at| at + 1)) {
        Some(end) if !fault.contains(".default") => format!("{}: Invalid value: …: {}", &fault[..begin], &fault[end + 3..]),
        _ => fault,
    }
}

#[test]
fn definitions_are_judged_as_upstream_judges_them() {
    let mut differences = Vec::new();
    for line in RECORDED.lines() {
        let case: Value = serde_json::from_str(line).expect("a case is JSON");
        let sent = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": case["metadata"], "spec": case["spec"],
        });
        let decoded = kind().decode(sent);
        let found = match decoded {
            Err(_) => json!({"status": 400, "faults": [], "warnings": []}),
            Ok((mut document, unknown)) => {
                document.set_defaults();
                document.prepare_create(&FeatureGates::default());
                let mut faults = metadata::validate_new(document.meta(), document.rules().name_rule, Scope::Cluster);
                faults.extend(document.validate(&FeatureGates::default()));
                let faults = shown(&faults);
                let mut warnings: Vec<String> = unknown.iter().map(|field| format!("unknown field \"{field}\"")).collect();
                // Only an author of a valid object gets the kind's.
                warnings.extend(document.warnings(None).into_iter().filter(|_| faults.is_empty()));
                warnings.sort();
                json!({"status": if faults.is_empty() { 201 } else { 422 }, "faults": faults, "warnings": warnings})
            }
        };
        let mut wanted: Vec<String> = case["faults"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .map(without_internal_values)
            .collect();
        wanted.sort();
        let wanted = json!({"status": case["status"], "faults": wanted, "warnings": case["warnings"]});
        if found != wanted {
            differences.push(format!("{}: {}\n  upstream {wanted}\n  berth    {found}", case["name"], case["spec"]));
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn a_created_definition_has_its_defaults() {
    let document = created(ships(&json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true, "deprecated": false,
    "additionalPrinterColumns": [], "schema": {"openAPIV3Schema": {"type": "object", "description": "", "properties": {
        "a": {"type": "array", "items": {"type": "object", "foo": 1, "properties": {"b": null}}, "maxItems": 0},
        "n": {"type": "number", "minimum": 1, "multipleOf": 0.5, "x-kubernetes-preserve-unknown-fields": false},
    }}}}]}})));
    let wanted = json!({
        "spec": {
            "conversion": {"strategy": "None"}, "group": "e.com", "scope": "Namespaced",
            "names": {"kind": "Ship", "listKind": "ShipList", "plural": "ships", "singular": "ship"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "a": {"type": "array", "items": {"type": "object", "properties": {"b": {}}}, "maxItems": 0},
                "n": {"type": "number", "minimum": 1, "multipleOf": 0.5, "x-kubernetes-preserve-unknown-fields": false},
            }}}}],
        },
        "status": {"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": ["v1"]},
    });
    assert_eq!(document.content().members(), &wanted);
}

fn update(old: &Value, change: &Value, subresource: Option<Subresource>) -> Vec<String> {
    let old = {
        let (mut document, _) = kind().decode(old.clone()).expect("a definition");
        document.set_defaults();
        document
    };
    let (mut new, _) = kind().decode(merged(old.to_value(), change)).expect("a definition");
    new.set_defaults();
    new.prepare_update(&old, subresource, &FeatureGates::default());
    shown(&new.validate_update(&old, subresource, &FeatureGates::default()))
}

#[test]
fn what_is_immutable_and_what_was_stored_stays() {
    let established = json!({"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"]});
    let (fresh, old) = (created(ships(&json!({}))).to_value(), created(ships(&json!({}))).to_value());
    let old = merged(old, &json!({"status": established}));
    let check = |change: Value, wanted: &[&str]| assert_eq!(update(&old, &change, None), wanted, "{change}");
    check(json!({}), &[]);
    for (change, fault) in [
        (json!({"spec": {"scope": "Cluster"}}), "spec.scope: Invalid value: \"Cluster\": field is immutable"),
        (json!({"spec": {"group": "x.com"}}), "spec.group: Invalid value: \"x.com\": field is immutable"),
        (json!({"spec": {"names": {"kind": "Sheep"}}}), "spec.names.kind: Invalid value: \"Sheep\": field is immutable"),
        (json!({"spec": {"names": {"plural": "sheep"}}}), "spec.names.plural: Invalid value: \"sheep\": field is immutable"),
    ] {
        check(change.clone(), &[fault]);
        assert_eq!(update(&fresh, &change, None), Vec::<String>::new(), "before its names are accepted: {change}");
    }
    check(json!({"spec": {"names": {"singular": "sheep", "shortNames": ["sh"]}}}), &[]);
    let version = |name: &str| merged(old["spec"]["versions"][0].clone(), &json!({ "name": name }));
    check(
        json!({"spec": {"versions": [version("v2")]}}),
        &[&format!(
            "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; {}",
            "v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and \
         removes v1 from status.storedVersions"
        )],
    );
    // The status is its endpoint's.
    let names = json!({"status": {"acceptedNames": {"kind": "_", "plural": "x"}}});
    assert_eq!(update(&old, &names, None), Vec::<String>::new());
    assert!(
        update(&old, &names, Some(Subresource::Status))[0]
            .starts_with("status.acceptedNames.kind: Invalid value: \"_\": may have mixed case")
    );
    assert_eq!(
        update(&old, &json!({"spec": {"scope": "Cluster"}, "status": {"storedVersions": []}}), Some(Subresource::Status)),
        Vec::<String>::new()
    );
}

#[test]
fn a_new_storage_version_is_noted() {
    let old = created(ships(&json!({})));
    let v1 = merged(old.content().members()["spec"]["versions"][0].clone(), &json!({"storage": false}));
    let v2 = merged(v1.clone(), &json!({"name": "v2", "storage": true}));
    let (mut new, _) = kind().decode(merged(old.to_value(), &json!({"spec": {"versions": [v1, v2]}}))).expect("a definition");
    new.set_defaults();
    new.prepare_update(&old, None, &FeatureGates::default());
    assert_eq!(new.content().members()["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(new.validate_update(&old, None, &FeatureGates::default()), []);
}

#[test]
fn an_approval_is_required_of_the_groups_of_kubernetes() {
    let of = |annotation: Value| {
        let metadata = json!({"name": "ships.e.k8s.io", "annotations": {"api-approved.kubernetes.io": annotation}});
        ships(&json!({"metadata": metadata, "spec": {"group": "e.k8s.io"}}))
    };
    let condition = |definition: &Value| {
        let status = plan_status(definition, &TakenNames::default(), &now()).expect("a status");
        status["conditions"]
            .as_array()
            .and_then(|all| all.iter().find(|one| one["type"] == "KubernetesAPIApprovalPolicyConformant").cloned())
    };
    let wanted = |status: &str, reason: &str, message: &str| json!({"type": "KubernetesAPIApprovalPolicyConformant", "status": status, "reason": reason, "message": message, "lastTransitionTime": now()});
    let approved = created(of(json!("https://x/y"))).to_value();
    assert_eq!(condition(&approved), Some(wanted("True", "ApprovedAnnotation", "approved in https://x/y")));
    let bypassed = created(of(json!("unapproved, x"))).to_value();
    assert_eq!(condition(&bypassed), Some(wanted("False", "UnapprovedAnnotation", "not approved: \"unapproved, x\"")));
    assert_eq!(condition(&created(ships(&json!({}))).to_value()), None);
    // A client that does not know the rule can change the rest.
    let missing = created(merged(of(json!("")), &json!({"metadata": {"annotations": null}}))).to_value();
    assert_eq!(update(&missing, &json!({"metadata": {"labels": {"a": "b"}}}), None), Vec::<String>::new());
    assert_eq!(update(&approved, &json!({"metadata": {"annotations": {"api-approved.kubernetes.io": "x"}}}), None).len(), 1);
}

fn now() -> Time {
    Time(Timestamp::UNIX_EPOCH)
}

fn with_status(definition: &Value) -> Value {
    let status = plan_status(definition, &TakenNames::default(), &now()).expect("a status");
    merged(definition.clone(), &json!({ "status": status }))
}

#[test]
fn names_are_accepted_unless_another_definition_has_them() {
    let first = with_status(&created(ships(&json!({"spec": {"names": {"shortNames": ["sh"], "categories": ["all"]}}}))).to_value());
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now()});
    assert_eq!(
        first["status"],
        json!({
            "acceptedNames": {"categories": ["all"], "kind": "Ship", "listKind": "ShipList", "plural": "ships", "shortNames": ["sh"], "singular": "ship"},
            "conditions": [
                condition("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
                condition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"),
            ],
            "storedVersions": ["v1"],
        })
    );
    assert!(is_established(&first) && !is_terminating(&first));
    assert_eq!(plan_status(&first, &TakenNames::of([&first], "e.com"), &now()), None, "an accepted definition stays as it is");
    let second =
        created(ships(&json!({"metadata": {"name": "boats.e.com"}, "spec": {"names": {"plural": "boats", "shortNames": ["sh", "x"]}}})))
            .to_value();
    let status = plan_status(&second, &TakenNames::of([&first, &second], "e.com"), &now()).expect("a status");
    assert_eq!(status["acceptedNames"], json!({"kind": "", "plural": "boats"}));
    assert_eq!(
        status["conditions"],
        json!([
            condition("NamesAccepted", "False", "ListKindConflict", "\"ShipList\" is already in use"),
            condition("Established", "False", "NotAccepted", "not all names are accepted"),
        ])
    );
    let elsewhere = merged(second.clone(), &json!({"spec": {"group": "other.com"}}));
    assert!(is_established(&merged(
        elsewhere.clone(),
        &json!({"status": plan_status(&elsewhere, &TakenNames::of([&first], "other.com"), &now())})
    )));
    // An established definition that asks for another's name keeps its own.
    let taken = TakenNames::of([&first], "e.com");
    let (requested, accepted) = (Names { short_names: vec!["sh".to_owned()], ..Names::of("Boat", "boats") }, Names::of("Boat", "boats"));
    let plan = plan_names(&requested, &accepted, &taken, "boats.e.com");
    assert_eq!((plan.accepted, plan.condition.reason.as_str()), (accepted, "ShortNamesConflict"));
    let mut taken = taken;
    taken.remove(&first);
    assert_eq!(plan_names(&requested, &Names::default(), &taken, "boats.e.com").condition.reason, "NoConflicts");
    taken.add(&first);
    assert_eq!(plan_names(&requested, &Names::default(), &taken, "boats.e.com").condition.reason, "ShortNamesConflict");
}

/// Kubernetes 1.36.2 was asked.
#[test]
fn a_definition_with_invalid_certificates_is_not_established() {
    let pem = |name: &str, base64: &str| format!("-----BEGIN {name}-----\n{base64}\n-----END {name}-----\n");
    let encoded = |text: String| serde_json::to_value(ByteString(text.into_bytes())).expect("base64");
    let with = |bundle: Value| {
        let config = json!({"url": "https://a", "caBundle": bundle});
        let conversion = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config}});
        json!({"spec": {"conversion": conversion}})
    };
    // A sequence with one integer.
    let (good, bad) = (with(encoded(pem("CERTIFICATE", "MAMCAQE="))), with(json!("YQ==")));
    let wrong = [
        (bad.clone(), "unable to parse bytes as PEM block"),
        (with(encoded(pem("CERTIFICATE", "YQ=="))), "failed to parse certificate: x509: malformed certificate"),
        (with(encoded(pem("PRIVATE KEY", "MAMCAQE="))), "no valid certificate authority data seen"),
    ];
    let definition = created(ships(&bad));
    assert_eq!(definition.validate(&FeatureGates::default()), []);
    let stored = with_status(&definition.to_value());
    let condition = |stored: &Value| stored["status"]["conditions"][1].clone();
    assert_eq!((&condition(&stored)["status"], &condition(&stored)["reason"]), (&json!("False"), &json!("InvalidCABundle")));
    assert_eq!(update(&stored, &wrong[1].0, None), [""; 0]);
    let established = with_status(&created(ships(&good)).to_value());
    assert!(is_established(&established));
    for (change, why) in wrong {
        let fault = format!(
            "spec.conversion.webhookClientConfig.caBundle: Invalid value: {}: unable to load root certificates: {why}",
            change["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]
        );
        assert_eq!(update(&established, &change, None), [fault]);
    }
    for change in [good, with(json!("")), json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}})] {
        assert_eq!(update(&established, &change, None), [""; 0], "{change}");
    }
}

#[test]
fn the_time_of_a_condition_is_that_of_its_last_change() {
    let first = with_status(&created(ships(&json!({}))).to_value());
    let later = Time(Timestamp::UNIX_EPOCH + SignedDuration::from_secs(60));
    let requested = with_condition(&first, &Termination::Requested.condition(), &later).expect("a new condition");
    let terminating = merged(first.clone(), &json!({ "status": requested }));
    assert!(is_terminating(&terminating));
    let progress = with_condition(&terminating, &Termination::InProgress.condition(), &now()).expect("a new reason");
    assert_eq!(progress["conditions"][2]["lastTransitionTime"], json!(later));
    assert_eq!(progress["conditions"][2]["reason"], "InstanceDeletionInProgress");
    assert_eq!(with_condition(&terminating, &Termination::Requested.condition(), &now()), None);
}

#[test]
fn a_definition_is_read_with_all_its_versions() {
    let schema = json!({"openAPIV3Schema": {"type": "object", "description": "A ship.", "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "string", "description": "An a."}, "size": {"type": "integer", "default": 3}}}}}});
    let version = |name: &str, more: Value| merged(json!({"name": name, "served": true, "storage": name == "v1", "schema": schema}), &more);
    let columns = json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}]);
    let scale = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"});
    let definition = created(ships(&json!({"spec": {
        "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://a/b"}, "conversionReviewVersions": ["v1"]}},
        "versions": [
            version("v1beta1", json!({"deprecated": true})),
            version("v1alpha1", json!({"served": false})),
            version("v1", json!({"additionalPrinterColumns": columns, "subresources": {"status": {}, "scale": scale}})),
            version("v2", json!({"additionalPrinterColumns": [{"name": "X", "type": "string", "jsonPath": ".spec[.x"}]})),
        ],
    }})));
    assert_eq!(definition.validate(&FeatureGates::default()), []);
    let read = definition_of(&definition.to_value()).expect("it is valid");
    assert_eq!(read.versions.iter().map(|version| version.name.as_str()).collect::<Vec<_>>(), ["v2", "v1", "v1beta1", "v1alpha1"]);
    let [v2, v1, v1beta1, v1alpha1] = &read.versions[..] else { panic!("four versions") };
    assert_eq!(v1beta1.deprecation_warning.as_deref(), Some("e.com/v1beta1 Ship is deprecated; use e.com/v2 Ship"));
    assert!(v1.storage && v1.status && v1.scale.is_some() && !v2.status && !v1alpha1.served);
    assert_eq!((v1.columns[0].name.as_str(), v1.columns[0].priority), ("Size", 1));
    // Without columns the age is shown, and nothing but the name where a path cannot be read.
    assert_eq!((v1beta1.columns.len(), v2.columns.len()), (1, 0));
    assert!(matches!(&v1beta1.columns[0].cell, Cell::Path(path) if path.to_string() == ".metadata.creationTimestamp"));
    let Conversion::Webhook(webhook) = &read.conversion else { panic!("a webhook") };
    assert_eq!((&webhook.client_config, webhook.review_versions.as_slice()), (&json!({"url": "https://a/b"}), &["v1".to_owned()][..]));
    let kind = Kind::new(read).expect("it does not contradict itself");
    let published = kind.served().next().expect("served").published(&json!({"type": "object"}));
    assert_eq!(published.schemas["com.e.v2.Ship"]["properties"]["spec"]["properties"]["a"]["description"], "An a.");
}

#[test]
fn embedded_objects_have_the_metadata_of_every_object() {
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let properties =
        json!({"e": embedded, "l": {"type": "array", "items": embedded}, "m": {"type": "object", "additionalProperties": embedded}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let definition = created(ships(&json!({"spec": {"versions": [version]}}))).to_value();
    let kind = Kind::new(definition_of(&definition).expect("valid")).expect("valid");
    let version = kind.served().next().expect("served");
    let answer = |spec: Value| -> Result<(Value, Vec<String>, Vec<String>), String> {
        let object = json!({"apiVersion": "e.com/v1", "kind": "Ship", "metadata": {"name": "a"}, "spec": spec});
        let (mut object, unknown) = version.decode(object).map_err(|error| error.to_string())?;
        object.set_defaults();
        let faults = object.validate(&FeatureGates::default()).iter().map(ToString::to_string).collect();
        Ok((object.content().members()["spec"].clone(), unknown, faults))
    };
    let pod = |metadata: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "x": 1});
    let (stored, unknown, faults) =
        answer(json!({"e": pod(json!({"name": "a", "foo": 1, "labels": {"a": "b"}, "creationTimestamp": null}))})).expect("read");
    assert_eq!(stored, json!({"e": pod(json!({"name": "a", "labels": {"a": "b"}}))}));
    assert_eq!((unknown, faults), (vec!["spec.e.metadata.foo".to_owned()], Vec::new()));
    let (stored, ..) = answer(json!({"e": pod(Value::Null)})).expect("read");
    assert_eq!(stored, json!({"e": pod(json!({}))}));
    let (_, unknown, faults) = answer(json!({"l": [{}], "m": {"y.z": pod(json!({"foo": 1, "labels": {"_": "b"}}))}})).expect("read");
    assert_eq!(unknown, ["spec.m[y.z].metadata.foo"]);
    assert_eq!(faults[..2], ["spec.l[0].apiVersion: Required value", "spec.l[0].kind: Required value"]);
    assert!(faults[2].starts_with("spec.m[y.z].metadata.labels: Invalid value: \"_\": "), "{faults:?}");
    assert!(
        answer(json!({"e": {"apiVersion": 1, "kind": "Pod"}}))
            .expect_err("a bad request")
            .contains("spec.e.apiVersion: Invalid value: 1: must be a string")
    );
    assert!(answer(json!({"e": pod(json!("x"))})).is_err());
}

#[test]
fn the_number_of_faults_is_bounded() {
    let properties: serde_json::Map<String, Value> = (0..3 * FAULTS_MAX).map(|number| (format!("p{number}"), json!({}))).collect();
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}});
    let document = created(ships(&json!({"spec": {"versions": [version]}})));
    assert!(document.validate(&FeatureGates::default()).len() <= 2 * FAULTS_MAX);
}
