mod devices;
mod kept;
mod policies;
mod requests;
mod webhooks;
mod workloads;

use super::{
    api_service, custom_resource_definition, ingress, ingress_class, mutating_webhook_configuration, network_policy, runtime_class,
    validating_admission_policy, volume_attributes_class::volume_attributes_class,
};
use crate::{Cell, Definition, Document, Kind};
use berth_api::{FeatureGates, FieldError, Object, ObjectStrategy, object::FinalizerRule};
use berth_testing::merged;
use serde_json::{Value, json};

fn named(patch: &Value) -> Value {
    merged(json!({"metadata": {"name": "a", "namespace": "b"}}), patch)
}

/// Two objects of one kind, as they are after decoding and defaults.
fn decoded<const N: usize>(definition: fn() -> Definition, objects: [&Value; N]) -> [Document; N] {
    let kind = Kind::new(definition()).expect("it does not contradict itself");
    let version = kind.served().next().expect("it is served");
    objects.map(|object| {
        let (mut document, unknown) = version.decode(object.clone()).expect("the test's JSON is of the kind");
        assert_eq!(unknown, Vec::<String>::new(), "{object}");
        document.set_defaults();
        let once = document.clone();
        document.set_defaults();
        assert!(once.same_as(&document), "defaults are idempotent");
        let stored = version.decode_stored(&document.encode()).expect("what was encoded is read");
        assert!(stored.same_as(&document), "{stored:?}");
        document
    })
}

fn check_stored(definition: fn() -> Definition, object: &Value, wanted: &Value) {
    let [mut document] = decoded(definition, [object]);
    document.prepare_create(&FeatureGates::default());
    assert_eq!(document.content().members(), wanted);
}

/// Creating `object` has the faults `wanted`; where one ends in `…` only its start is compared.
fn check_create(definition: fn() -> Definition, object: &Value, wanted: &[&str]) {
    let [mut document] = decoded(definition, [object]);
    document.prepare_create(&FeatureGates::default());
    compare(&document.validate(&FeatureGates::default()), wanted, object);
}

/// Updating what `old` created with `new` has the faults `wanted`.
fn check_update(definition: fn() -> Definition, old: &Value, new: &Value, wanted: &[&str]) {
    let [mut old, mut document] = decoded(definition, [old, new]);
    old.prepare_create(&FeatureGates::default());
    document.prepare_update(&old, None, &FeatureGates::default());
    compare(&document.validate_update(&old, None, &FeatureGates::default()), wanted, new);
}

fn compare(faults: &[FieldError], wanted: &[&str], object: &Value) {
    let found: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let fits = |(found, wanted): (&String, &&str)| match wanted.strip_suffix('…') {
        Some(start) => found.starts_with(start),
        None => found == wanted,
    };
    let all_fit = found.len() == wanted.len() && found.iter().zip(wanted).all(fits);
    assert!(all_fit, "of {object}\nfound  {found:#?}\nwanted {wanted:#?}");
}

/// The recipe of CONTRIBUTING compiles as it is written there.
#[test]
fn the_example_of_the_recipe_is_this_code() {
    let (recipe, code) = (include_str!("../../../../CONTRIBUTING.md"), include_str!("volume_attributes_class.rs"));
    let begins = recipe.find("### A kind").expect("a recipe");
    let block = recipe[begins..].split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of code");
    assert!(block == code, "CONTRIBUTING and volume_attributes_class.rs differ");
}

#[test]
fn the_kind_of_the_recipe_is_read_printed_and_validated() {
    let class = |driver: &str, speed: &str| json!({"metadata": {"name": "fast"}, "driverName": driver, "parameters": {"speed": speed}});
    check_stored(volume_attributes_class, &json!({"driverName": "a.b", "parameters": {}}), &json!({"driverName": "a.b"}));
    check_create(volume_attributes_class, &class("a.b", "1"), &[]);
    check_create(volume_attributes_class, &class("", "1"), &["driverName: Required value"]);
    check_update(volume_attributes_class, &class("a.b", "1"), &class("a.b", "1"), &[]);
    let faults =
        ["driverName: Forbidden: updates to driverName are forbidden.", "parameters: Forbidden: updates to parameters are forbidden."];
    check_update(volume_attributes_class, &class("a.b", "1"), &class("c.d", "2"), &faults);
    let [document] = decoded(volume_attributes_class, [&class("a.b", "1")]);
    let Cell::Path(driver) = &document.version().version().columns[1].cell else { panic!("the column is a path") };
    assert_eq!(driver.first(document.content().members()), Some(&json!("a.b")));
}

#[test]
fn what_directs_traffic_is_defaulted_and_validated() {
    check_stored(
        network_policy,
        &json!({"spec": {"egress": [{"ports": [{"port": 53}]}]}}),
        &json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}]}}),
    );
    let of_spec = |spec: Value| named(&json!({"spec": spec}));
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    check_create(ingress, &of_spec(json!({"defaultBackend": backend, "tls": [{"hosts": ["*.a.b"], "secretName": "s"}]})), &[]);
    let path = json!({"pathType": "Prefix", "path": "/", "backend": backend});
    check_create(ingress, &of_spec(json!({"rules": [{"host": "a.b", "http": {"paths": [path]}}]})), &[]);
    check_create(ingress, &of_spec(json!({})), &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]);
    let broken = json!([{"pathType": "X", "path": "a", "backend": {}}, {"backend": {"service": {"name": "web"}}, "path": "/"}]);
    check_create(
        ingress,
        &of_spec(json!({"rules": [{"host": "10.0.0.1", "http": {"paths": broken}}, {"http": {"paths": []}}]})),
        &[
            "spec.rules[0].host: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address",
            "spec.rules[0].http.paths[0].pathType: Unsupported value: \"X\": supported values: \"Exact\", \"ImplementationSpecific\", \"Prefix\"",
            "spec.rules[0].http.paths[0].backend: Invalid value: \"\": resource or service backend is required",
            "spec.rules[0].http.paths[1].pathType: Required value: pathType must be specified",
            "spec.rules[1].http.paths: Required value",
        ],
    );
    let class = |controller: &str| named(&json!({"spec": {"controller": controller}}));
    check_create(ingress_class, &class("a.b/c"), &[]);
    check_create(ingress_class, &class(""), &["spec.controller: Required value"]);
    check_update(ingress_class, &class("a.b/c"), &class("a.b/d"), &["spec.controller: Invalid value: \"a.b/d\": field is immutable"]);
    let block = json!({"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "11.0.0.0/16", "10.0.0.0/8", "x"]});
    check_create(
        network_policy,
        &named(&json!({"spec": {"policyTypes": ["X"], "ingress": [{
            "from": [{"ipBlock": block}, {}, {"ipBlock": {"cidr": "y"}, "podSelector": {}}],
            "ports": [{"port": 5, "endPort": 3}, {"port": "web", "endPort": 3}, {"endPort": 3}],
        }]}})),
        &[
            "spec.ingress[0].ports[0].endPort: Invalid value: 5: must be greater than or equal to `port`",
            "spec.ingress[0].ports[1].endPort: Invalid value: 3: may not be specified when `port` is non-numeric",
            "spec.ingress[0].ports[2].endPort: Invalid value: 3: may not be specified when `port` is not specified",
            "spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
            "spec.ingress[0].from[0].ipBlock.except[2]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`",
            "spec.ingress[0].from[0].ipBlock.except[3]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            "spec.ingress[0].from[1]: Required value: must specify a peer",
            "spec.ingress[0].from[2].ipBlock.cidr: Invalid value: \"y\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            "spec.ingress[0].from[2]: Forbidden: may not specify both ipBlock and another peer",
            "spec.policyTypes[0]: Unsupported value: \"X\": supported values: \"Ingress\", \"Egress\"",
        ],
    );
}

#[test]
fn backends_and_ports_of_routes_are_reported_at_upstreams_fields() {
    let of_spec = |service: Value| named(&json!({"spec": {"defaultBackend": {"service": service}}}));
    check_create(ingress, &of_spec(json!({"name": "1a", "port": {"number": 80}})), &[]);
    check_create(ingress, &of_spec(json!({"name": "a"})), &["spec.defaultBackend: Required value: port name or number is required"]);
    check_create(
        ingress_class,
        &json!({"metadata": {"name": "a"}, "spec": {"controller": "e.com/c", "parameters": {"kind": "K", "name": "n", "namespace": "x"}}}),
        &["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"],
    );
    check_create(
        network_policy,
        &named(
            &json!({"spec": {"ingress": [{"ports": [{"port": 80, "endPort": -1}], "from": [{"podSelector": {}, "ipBlock": {"cidr": ""}}]}]}}),
        ),
        &[
            "spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`",
            "spec.ingress[0].ports[0].endPort: Invalid value: -1: must be between 1 and 65535, inclusive",
            "spec.ingress[0].from[0].ipBlock.cidr: Required value",
            "spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer",
        ],
    );
}

#[test]
fn an_ingress_names_its_class_once_and_its_hosts_by_name() {
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let of_spec = |spec: Value| named(&json!({"spec": merged(json!({ "defaultBackend": backend }), &spec)}));
    check_create(ingress, &of_spec(json!({"tls": [{"hosts": ["1.2.3.4", "*.a"]}]})), &[]);
    check_create(
        ingress,
        &of_spec(json!({"tls": [{"hosts": ["a.*"]}]})),
        &["spec.tls[0].hosts[0]: Invalid value: \"a.*\": a wildcard DNS-1123 subdomain must start with '*.'…"],
    );
    check_create(ingress, &of_spec(json!({"ingressClassName": ""})), &["spec.ingressClassName: Invalid value: \"\": a lowercase…"]);
    let both = |class: &str| {
        let annotations = json!({"metadata": {"annotations": {"kubernetes.io/ingress.class": "a"}}});
        merged(of_spec(json!({ "ingressClassName": class })), &annotations)
    };
    check_create(ingress, &both("a"), &[]);
    check_create(
        ingress,
        &both("b"),
        &["annotations.kubernetes.io/ingress.class: Invalid value: \"a\": must match `ingressClassName` when both are specified"],
    );
    check_update(ingress, &both("a"), &both("b"), &[]);
    let path = |path: Value| json!({"rules": [{"http": {"paths": [merged(json!({"backend": {}}), &path)]}}]});
    let paths = "spec.rules[0].http.paths[0]";
    check_create(
        ingress,
        &of_spec(path(json!({"path": "x"}))),
        &[&format!("{paths}.pathType: Required value: pathType must be specified")],
    );
    check_create(
        ingress,
        &of_spec(merged(path(json!({"path": "//", "pathType": "X"})), &json!({"defaultBackend": {"service": null}}))),
        &[
            "spec.defaultBackend: Invalid value: \"\": resource or service backend is required",
            &format!("{paths}.pathType: Unsupported value: \"X\": supported values: \"Exact\", \"ImplementationSpecific\", \"Prefix\""),
            &format!("{paths}.backend: Invalid value: \"\": resource or service backend is required"),
        ],
    );
    let class = |controller: &str| json!({"metadata": {"name": "a"}, "spec": {"controller": controller}});
    check_create(ingress_class, &class("a.b/c/d"), &[]);
    let prefixed = "must be a domain-prefixed path (such as \"acme.io/foo\")";
    check_create(ingress_class, &class("/x"), &[&format!("spec.controller: Invalid value: \"/x\": {prefixed}")]);
    check_create(
        ingress_class,
        &class("A/b c"),
        &[
            "spec.controller: Invalid value: \"A\": a lowercase RFC 1123 subdomain must…",
            "spec.controller: Invalid value: \"b c\": Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
        ],
    );
    check_update(ingress_class, &class("A/x"), &merged(class("A/x"), &json!({"metadata": {"labels": {"a": "b"}}})), &[]);
}

#[test]
fn ranges_that_were_allowed_once_are_kept() {
    let zeros = "must not have leading 0s in IP or prefix length";
    let policy = |cidr: &str| named(&json!({"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": cidr}}]}]}}));
    let path = "spec.ingress[0].from[0].ipBlock.cidr";
    check_create(network_policy, &policy("010.0.0.0/8"), &[&format!("{path}: Invalid value: \"010.0.0.0/8\": {zeros}")]);
    check_update(network_policy, &policy("010.0.0.0/8"), &policy("010.0.0.0/8"), &[]);
}

#[test]
fn an_empty_type_of_a_policy_or_group_of_parameters_is_no_absent_one() {
    check_create(
        network_policy,
        &named(&json!({"spec": {"policyTypes": ["Ingress", ""]}})),
        &["spec.policyTypes[1]: Unsupported value: \"\": supported values: \"Ingress\", \"Egress\""],
    );
    let class = |parameters: Value| {
        let parameters = merged(json!({"kind": "K", "name": "n"}), &parameters);
        json!({"metadata": {"name": "a"}, "spec": {"controller": "e.com/c", "parameters": parameters}})
    };
    check_create(ingress_class, &class(json!({"apiGroup": ""})), &["spec.parameters.apiGroup: Invalid value: \"\": a lowercase…"]);
    let scopes = "supported values: \"Cluster\", \"Namespace\"";
    check_create(ingress_class, &class(json!({"scope": ""})), &[&format!("spec.parameters.scope: Unsupported value: \"\": {scopes}")]);
    let namespace = "spec.parameters.namespace: ";
    check_create(
        ingress_class,
        &class(json!({"scope": "Namespace"})),
        &[&format!("{namespace}Required value: `parameters.scope` is set to 'Namespace'")],
    );
    check_create(
        ingress_class,
        &class(json!({"namespace": ""})),
        &[&format!("{namespace}Forbidden: `parameters.scope` is set to 'Cluster'")],
    );
    let port = json!({"spec": {"ingress": [{"ports": [{"port": ""}]}]}});
    let path = "spec.ingress[0].ports[0].port: Invalid value: \"\": ";
    check_create(
        network_policy,
        &named(&port),
        &[
            &format!("{path}must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
            &format!("{path}must contain at least one letter (a-z)"),
        ],
    );
}

#[test]
fn a_wrong_type_is_refused_as_upstreams_go_types_do() {
    let refused = |definition: fn() -> Definition, object: Value| {
        let kind = Kind::new(definition()).expect("it does not contradict itself");
        let version = kind.served().next().expect("it is served");
        version.decode(object).expect_err("refused").to_string()
    };
    let policy = |spec: Value| refused(network_policy, json!({"metadata": {"name": "a"}, "spec": spec}));
    assert_eq!(policy(json!([])), "spec: invalid type: sequence, expected an object");
    assert_eq!(policy(json!({"ingress": {}})), "spec.ingress: invalid type: map, expected a sequence");
    let port = json!({"ingress": [{"ports": [{"endPort": "x"}]}]});
    assert_eq!(policy(port), "spec.ingress[0].ports[0].endPort: invalid type: string \"x\", expected i32");
    let labels = json!({"podSelector": {"matchLabels": {"a": 1}}});
    assert_eq!(policy(labels), "spec.podSelector.matchLabels.a: invalid type: integer `1`, expected a string");
    let labels = json!({"podSelector": {"matchLabels": []}});
    assert_eq!(policy(labels), "spec.podSelector.matchLabels: invalid type: sequence, expected a map");
    let class = refused(ingress_class, json!({"metadata": {"name": "a"}, "spec": {"controller": true}}));
    assert_eq!(class, "spec.controller: invalid type: boolean `true`, expected a string");
}

#[test]
fn a_null_is_an_empty_value_and_empty_fields_are_left_out() {
    let sent = named(&json!({"spec": {"podSelector": null, "ingress": [{"from": [], "ports": null}], "egress": []}}));
    check_stored(network_policy, &sent, &json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]}}));
    let sent = json!({"metadata": {"name": "a"}, "spec": {"controller": "", "parameters": {"kind": null}}});
    check_stored(ingress_class, &sent, &json!({"spec": {"parameters": {"kind": "", "name": "", "scope": "Cluster"}}}));
    check_stored(
        ingress,
        &named(&json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}})),
        &json!({"spec": {}, "status": {"loadBalancer": {}}}),
    );
}

/// Kubernetes 1.36.2 was asked.
#[test]
fn some_kinds_take_finalizers_without_a_domain() {
    let plain = [api_service, custom_resource_definition, mutating_webhook_configuration, runtime_class, validating_admission_policy];
    assert!(plain.map(|definition| definition().rules.finalizer_rule).iter().all(|rule| *rule == FinalizerRule::Plain));
    let qualified = [ingress, ingress_class, network_policy];
    assert!(qualified.map(|definition| definition().rules.finalizer_rule).iter().all(|rule| *rule == FinalizerRule::Qualified));
}
