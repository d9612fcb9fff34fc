//! Custom kinds, admission policies and webhooks in forecasts.

use crate::common::{rolling, scenario::deployment, suppositions};
use berth_plan::{
    Change, Forecast, Outcome, PlanError, QueriedObjects, Snapshot, Suppositions, TroubleKind, UnevaluatedRule, forecast,
    needs_definitions, object_queries, text,
};
use serde_json::{Value, json};
use std::error::Error;

const ADMISSION: &str = "admissionregistration.k8s.io/v1";

fn planned(snapshot: Vec<Value>, manifests: Vec<Value>) -> Result<Forecast, PlanError> {
    supposed(snapshot, manifests, &suppositions(5, 20))
}

fn supposed(snapshot: Vec<Value>, manifests: Vec<Value>, suppositions: &Suppositions) -> Result<Forecast, PlanError> {
    forecast(&Snapshot::of_documents(snapshot), &Change { manifests, ..Change::default() }, suppositions)
}

/// The error of a plan, with its causes.
fn refused(snapshot: Vec<Value>, manifests: Vec<Value>) -> String {
    let error = planned(snapshot, manifests).map(|forecast| text(&forecast, None)).expect_err("there is no plan");
    let (mut shown, mut cause) = (error.to_string(), error.source());
    while let Some(source) = cause {
        shown = format!("{shown}: {source}");
        cause = source.source();
    }
    shown
}

fn web(replicas: u32) -> Value {
    deployment(replicas, &rolling(1, 0, "TerminationComplete"))
}

/// As a server returns it.
fn stored(mut object: Value) -> Value {
    let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
    object["metadata"]["uid"] = json!(format!("{}-{name}", object["kind"].as_str().expect("a kind")));
    object["metadata"]["creationTimestamp"] = json!("2026-03-01T10:00:00Z");
    object["metadata"]["generation"] = json!(1);
    object
}

fn definition() -> Value {
    let color = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "color stays"}]});
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer", "maximum": 9}, "color": color},
        "x-kubernetes-validations": [{"rule": "self.size > 0", "message": "size must be positive"}]});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
}

fn widget(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}, "spec": spec})
}

fn policy(kind: &str, name: &str, resources: &[&str], spec: Value) -> Value {
    let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": resources}]);
    let mut policy = json!({"apiVersion": ADMISSION, "kind": format!("{kind}AdmissionPolicy"), "metadata": {"name": name}, "spec": spec});
    policy["spec"]["matchConstraints"] = json!({"resourceRules": rules});
    policy
}

fn binding(kind: &str, name: &str, spec: Value) -> Value {
    let mut binding =
        json!({"apiVersion": ADMISSION, "kind": format!("{kind}AdmissionPolicyBinding"), "metadata": {"name": name}, "spec": spec});
    binding["spec"]["policyName"] = json!(name);
    if kind == "Validating" {
        binding["spec"]["validationActions"] = json!(["Deny"]);
    }
    binding
}

/// A validating policy and its binding.
fn validating(resources: &[&str], spec: Value) -> [Value; 2] {
    [policy("Validating", "p", resources, spec), binding("Validating", "p", json!({}))]
}

fn at_most_three() -> [Value; 2] {
    validating(&["deployments"], json!({"validations": [{"expression": "object.spec.replicas <= 3", "message": "at most 3"}]}))
}

fn mutating(resources: &[&str], expression: &str) -> [Value; 2] {
    let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    let spec = json!({"reinvocationPolicy": "Never", "mutations": [mutation]});
    [policy("Mutating", "m", resources, spec), binding("Mutating", "m", json!({}))]
}

fn webhook(kind: &str, resource: &str) -> Value {
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": [resource]});
    let hook = json!({"name": "hook.example.com", "clientConfig": {"url": "https://example.com/"}, "rules": [rule], "sideEffects": "None",
        "admissionReviewVersions": ["v1"]});
    json!({"apiVersion": ADMISSION, "kind": format!("{kind}WebhookConfiguration"), "metadata": {"name": "hooks"}, "webhooks": [hook]})
}

fn completes(forecast: &Forecast) -> bool {
    matches!(forecast.workloads[0].outcome, Outcome::Complete { .. })
}

#[test]
fn a_custom_object_is_validated_wherever_its_definition_is() {
    let valid = || widget(json!({"size": 3}));
    for invalid in [widget(json!({"size": 10})), widget(json!({"size": 0})), widget(json!({"size": "x"}))] {
        for manifests in [vec![invalid.clone(), definition(), web(1)], vec![web(1), definition(), invalid.clone()]] {
            let why = refused(Vec::new(), manifests);
            assert!(why.starts_with("Widget w would be rejected") && why.contains("spec"), "{why}");
        }
        let why = refused(vec![stored(definition())], vec![web(1), invalid]);
        assert!(why.starts_with("Widget w would be rejected"), "{why}");
    }
    for snapshot in [Vec::new(), vec![definition()], vec![stored(definition())]] {
        let forecast = planned(snapshot, vec![valid(), web(1), definition()]).expect("a forecast");
        assert!(completes(&forecast) && forecast.supposed.missing.is_empty(), "{}", text(&forecast, None));
    }
}

#[test]
fn a_rule_about_a_change_reads_the_existing_object() {
    let red = || widget(json!({"size": 3, "color": "red"}));
    let blue = || widget(json!({"size": 3, "color": "blue"}));
    for existing in [stored(red()), red()] {
        let snapshot = || vec![stored(definition()), existing.clone()];
        assert!(planned(snapshot(), vec![web(1), red()]).is_ok());
        let why = refused(snapshot(), vec![web(1), blue()]);
        assert!(why.contains("color stays"), "{why}");
    }
}

#[test]
fn an_object_of_an_unknown_kind_is_named() {
    let missing = |snapshot: Vec<Value>, object: Value| planned(snapshot, vec![web(1), object]).expect("a forecast").supposed.missing;
    let unknown = "Widget w is not checked, because neither the snapshot nor the change defines kind Widget of example.com/v1";
    assert_eq!(missing(Vec::new(), widget(json!({}))), [unknown]);
    let mut newer = widget(json!({"size": 3}));
    newer["apiVersion"] = json!("example.com/v2");
    let unserved = "Widget w is not checked, because the definition of kind Widget of example.com serves no version v2";
    assert_eq!(missing(vec![stored(definition())], newer), [unserved]);
}

#[test]
fn an_invalid_definition_or_policy_has_no_plan() {
    let mut broken = definition();
    broken["spec"]["scope"] = json!("Everywhere");
    assert!(refused(Vec::new(), vec![web(1), broken]).contains("spec.scope"));
    let [mut policy, binding] = at_most_three();
    policy["spec"]["failurePolicy"] = json!("Maybe");
    assert!(refused(Vec::new(), vec![web(1), policy, binding]).contains("spec.failurePolicy"));
}

#[test]
fn a_policy_rejects_the_change() {
    let existing: Vec<Value> = at_most_three().map(stored).to_vec();
    let wanted = "Deployment web would be rejected: deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: \
                  at most 3";
    assert_eq!(refused(existing.clone(), vec![web(4)]), wanted);
    assert!(planned(existing, vec![web(3)]).is_ok_and(|forecast| completes(&forecast)));
    // Also one that the change applies after it.
    assert_eq!(refused(Vec::new(), [vec![web(4)], at_most_three().to_vec()].concat()), wanted);
    // Other objects of the change too.
    let maps = validating(&["configmaps"], json!({"validations": [{"expression": "false", "message": "no maps"}]})).map(stored).to_vec();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    assert!(refused(maps, vec![web(1), map]).contains("no maps"));
}

#[test]
fn a_policy_rejects_the_pods_that_controllers_create() {
    let rule = json!({"validations": [{"expression": "object.spec.containers.all(c, c.image != 'main:1')", "message": "main:1 is old"}]});
    let forecast = planned(validating(&["pods"], rule).map(stored).to_vec(), vec![web(2)]).expect("a forecast");
    assert!(matches!(forecast.workloads[0].outcome, Outcome::Stuck { .. }), "{}", text(&forecast, None));
    let refused: Vec<&str> =
        forecast.troubles.iter().filter(|trouble| trouble.kind == TroubleKind::Refused).map(|trouble| trouble.text.as_str()).collect();
    assert!(!refused.is_empty() && refused.iter().all(|text| text.contains("main:1 is old")), "{refused:?}");
}

#[test]
fn a_policy_changes_workloads_and_pods() {
    let more = mutating(&["deployments"], "Object{spec: Object.spec{replicas: 5}}").map(stored).to_vec();
    let forecast = planned(more, vec![web(2)]).expect("a forecast");
    assert_eq!((forecast.workloads[0].replicas, forecast.workloads[0].pods.value), (5, 5));
    let requests = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'main', resources: \
                    Object.spec.containers.resources{requests: {'cpu': '500m'}}}]}}";
    let forecast = planned(mutating(&["pods"], requests).map(stored).to_vec(), vec![web(2)]).expect("a forecast");
    assert_eq!(forecast.workloads[0].resources["cpu"].value, 1000, "{}", text(&forecast, None));
}

#[test]
fn a_policy_that_is_not_idempotent_changes_an_object_once() {
    let patch = "[JSONPatch{op: 'add', path: '/spec/template/spec/containers/-', value: Object.spec.template.spec.containers{name: 'c' + \
                 string(object.spec.template.spec.containers.size()), image: 'side'}}]";
    let spec = json!({"reinvocationPolicy": "Never", "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}]});
    let counts = json!({"validations": [{"expression": "object.spec.containers.size() == 2", "message": "not twice"}]});
    let mut creates = policy("Mutating", "m", &["deployments"], spec);
    creates["spec"]["matchConstraints"]["resourceRules"][0]["operations"] = json!(["CREATE"]);
    let policies = [creates, binding("Mutating", "m", json!({}))];
    let snapshot: Vec<Value> = policies.into_iter().chain(validating(&["pods"], counts)).map(stored).collect();
    let forecast = planned(snapshot, vec![web(1)]).expect("a forecast");
    assert!(completes(&forecast) && forecast.troubles.is_empty(), "{}", text(&forecast, None));
}

#[test]
fn parameters_come_from_the_snapshot_or_the_change() {
    let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": "object.spec.replicas <= int(params.data.most)",
        "messageExpression": "'at most ' + params.data.most"}]});
    let params = json!({"paramRef": {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}});
    let policies = [policy("Validating", "p", &["deployments"], spec), binding("Validating", "p", params)];
    let limits =
        || json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits", "namespace": "default"}, "data": {"most": "2"}});
    let with = |more: Vec<Value>| policies.iter().cloned().map(stored).chain(more).collect::<Vec<Value>>();
    assert!(refused(with(vec![stored(limits())]), vec![web(3)]).contains("at most 2"));
    assert!(refused(with(Vec::new()), vec![web(3), limits()]).contains("at most 2"));
    let forecast = planned(with(Vec::new()), vec![web(3)]).expect("a forecast");
    let why = "its parameters are not in the snapshot (ConfigMap default/limits)".to_owned();
    let rule = UnevaluatedRule {
        kind: "ValidatingAdmissionPolicy",
        name: "p".to_owned(),
        part: "p".to_owned(),
        resources: vec!["deployments.apps".to_owned()],
        why,
    };
    assert_eq!(forecast.supposed.unevaluated, [rule]);
    let line = "Assumes that ValidatingAdmissionPolicy p (binding p) accepts deployments.apps: its parameters are not in the snapshot (ConfigMap default/limits).";
    let shown = text(&forecast, None);
    assert!(shown.contains(line), "{shown}");
}

#[test]
fn custom_objects_are_parameters_too() {
    let spec = json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Widget"}, "validations": [{"expression": "object.spec.replicas <= params.spec.size",
        "message": "too many"}]});
    let params = json!({"paramRef": {"name": "w", "namespace": "default", "parameterNotFoundAction": "Deny"}});
    let policies = || [policy("Validating", "p", &["deployments"], spec.clone()), binding("Validating", "p", params.clone())];
    let limit = || widget(json!({"size": 2}));
    assert!(
        refused(policies().map(stored).into_iter().chain([stored(definition()), stored(limit())]).collect(), vec![web(3)])
            .contains("too many")
    );
    assert!(refused(Vec::new(), [vec![web(3), limit()], policies().to_vec(), vec![definition()]].concat()).contains("too many"));
    let unknown = planned(policies().map(stored).to_vec(), vec![web(3)]).expect("a forecast");
    assert_eq!(unknown.supposed.unevaluated[0].why, "the kind of its parameters is not in the snapshot (example.com/v1, Kind=Widget)");
}

#[test]
fn a_policy_about_users_is_named_and_not_evaluated() {
    let spec = json!({"validations": [{"expression": "request.userInfo.username == 'alice'"}]});
    let forecast = planned(validating(&["deployments", "pods"], spec).map(stored).to_vec(), vec![web(1)]).expect("a forecast");
    let [rule] = &forecast.supposed.unevaluated[..] else { panic!("{:?}", forecast.supposed.unevaluated) };
    assert_eq!(
        (rule.resources.clone(), rule.why.as_str()),
        (vec!["deployments.apps".to_owned(), "pods".to_owned()], "it reads the user of the request")
    );
    // One that matches nothing of the change is no reason for doubt.
    let spec = json!({"validations": [{"expression": "request.userInfo.username == 'x'"}]});
    let forecast = planned(validating(&["services"], spec).map(stored).to_vec(), vec![web(1)]).expect("a forecast");
    assert!(forecast.supposed.unevaluated.is_empty());
}

#[test]
fn a_webhook_that_matches_is_named() {
    let named = |kind: &str, resource: &str, are_pods_asked: bool| {
        let suppositions = Suppositions { are_pods_asked, ..suppositions(5, 20) };
        let forecast = supposed(vec![stored(webhook(kind, resource))], vec![web(1)], &suppositions).expect("a forecast");
        forecast.supposed.unevaluated.into_iter().map(|rule| (rule.kind, rule.part, rule.resources)).collect::<Vec<_>>()
    };
    let rule = |kind, resource: &str| vec![(kind, "hook.example.com".to_owned(), vec![resource.to_owned()])];
    assert_eq!(named("Validating", "pods", false), rule("ValidatingWebhookConfiguration", "pods"));
    assert_eq!(named("Mutating", "deployments", false), rule("MutatingWebhookConfiguration", "deployments.apps"));
    assert_eq!(named("Validating", "services", false), []);
    // The server has called it for the pods, but its changes of pods are not known.
    assert_eq!(named("Validating", "pods", true), []);
    assert_eq!(named("Mutating", "pods", true), rule("MutatingWebhookConfiguration", "pods"));
}

#[test]
fn a_selector_of_namespaces_needs_the_namespace() {
    let [policy, mut binding] = at_most_three();
    binding["spec"]["matchResources"] = json!({"namespaceSelector": {"matchLabels": {"team": "a"}}});
    let policies = vec![stored(policy), stored(binding)];
    let forecast = planned(policies.clone(), vec![web(4)]).expect("a forecast");
    let missing = "namespace default is not in the snapshot: the plan assumes that it has no labels by which admission policies or webhooks select it";
    assert_eq!(forecast.supposed.missing, [missing]);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "a"}}});
    assert!(refused([policies, vec![stored(namespace)]].concat(), vec![web(4)]).contains("at most 3"));
}

#[test]
fn a_caller_reads_what_policies_and_custom_objects_need() {
    let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": "true"}]});
    let params = json!({"paramRef": {"selector": {"matchLabels": {"a": "b"}}, "parameterNotFoundAction": "Deny"}});
    let policies = vec![policy("Validating", "p", &["deployments"], spec), binding("Validating", "p", params)];
    let change = Change { manifests: vec![web(1), widget(json!({}))], ..Change::default() };
    assert!(
        needs_definitions(&policies, &change) && !needs_definitions(&policies, &Change { manifests: vec![web(1)], ..Change::default() })
    );
    let queries = object_queries(&[policies, vec![definition()]].concat(), &change);
    let shown: Vec<_> = queries.iter().map(|query| (query.resource.plural.as_str(), query.namespace.as_deref(), &query.which)).collect();
    let (selected, named) = (QueriedObjects::Selected("a=b".to_owned()), QueriedObjects::Named("w".to_owned()));
    assert_eq!(shown, [("configmaps", Some("default"), &selected), ("widgets", Some("default"), &named)]);
}
