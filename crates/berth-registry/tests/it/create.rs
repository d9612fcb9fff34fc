use crate::test_cluster::{Constant, TestCluster, config_map, deployment, names, pod, target};
use berth_api::k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use berth_registry::{Actor, ApiError, DeleteOptions, ListOptions, WriteOptions};
use serde_json::{Value, json};
use std::sync::Arc;

fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&Value::Null)
}

#[test]
fn the_server_sets_uid_time_generation_and_version_whatever_the_client_sends() {
    let cluster = TestCluster::new();
    let mut object = deployment("d");
    object["metadata"]["uid"] = "mine".into();
    object["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    object["metadata"]["deletionTimestamp"] = "2001-01-01T00:00:00Z".into();
    object["metadata"]["deletionGracePeriodSeconds"] = 5.into();
    object["metadata"]["selfLink"] = "/x".into();
    object["metadata"]["generation"] = 9.into();
    let made = cluster.made("deployments.apps", object);
    let uid = at(&made, "/metadata/uid").as_str().expect("a uid");
    assert_eq!((uid.len(), uid.as_bytes()[14]), (36, b'4'), "{uid}");
    assert_eq!(at(&made, "/metadata/creationTimestamp"), "2026-01-01T00:00:00Z");
    assert_eq!(at(&made, "/metadata/generation"), 1);
    assert_eq!(at(&made, "/metadata/namespace"), "default");
    assert!(at(&made, "/metadata/resourceVersion").is_string());
    for gone in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        assert_eq!(made["metadata"][gone], Value::Null, "{gone}");
    }
    assert_eq!(cluster.get("deployments.apps", "d").expect("there"), made);
}

#[test]
fn creates_are_refused_with_upstreams_words() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", config_map("c"));
    cluster.made("deployments.apps", deployment("d"));
    let check = |what: &str, object: Value, wanted: &str| {
        let text = cluster.create(what, object).expect_err("refused").to_string();
        assert!(text.starts_with(wanted), "{text}\n  is not\n{wanted}");
    };
    check("configmaps", config_map("c"), "configmaps \"c\" already exists");
    check("deployments.apps", deployment("d"), "deployments.apps \"d\" already exists");
    check("configmaps@nowhere", config_map("c"), "namespaces \"nowhere\" not found");
    let mut elsewhere = config_map("e");
    elsewhere["metadata"]["namespace"] = "other".into();
    check("configmaps", elsewhere, "the namespace of the provided object does not match the namespace sent on the request");
    let mut versioned = config_map("v");
    versioned["metadata"]["resourceVersion"] = "1".into();
    check("configmaps", versioned, "resourceVersion should not be set on objects to be created");
    check("configmaps", pod("p"), "Pod in version \"v1\" cannot be handled as a ConfigMap: ");
    let old = json!({"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "x"}});
    check("deployments.apps", old, "Deployment in version \"v1\" cannot be handled as a Deployment: ");
    check(
        "configmaps",
        json!([1]),
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: ",
    );
    check("configmaps", json!({"data": 1}), "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: ");
    check("configmaps", json!({"metadata": {}}), "ConfigMap \"\" is invalid: ");
}

#[test]
fn names_are_generated_from_a_base() {
    let cluster = TestCluster::new();
    let generated = |base: &str| {
        let made = cluster.made("configmaps", json!({"metadata": {"generateName": base}}));
        assert_eq!(at(&made, "/metadata/generateName"), base);
        at(&made, "/metadata/name").as_str().expect("a name").to_owned()
    };
    let name = generated("abc-");
    let suffix = name.strip_prefix("abc-").expect("the base is kept");
    assert_eq!(suffix.len(), 5);
    assert!(suffix.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{name}");
    assert_eq!(generated(&"a".repeat(80)).len(), 63);
}

#[test]
fn a_generated_name_that_stays_taken_is_a_conflict() {
    let cluster = TestCluster::with(Arc::new(Constant));
    let object = json!({"metadata": {"generateName": "abc-"}});
    cluster.made("configmaps", object.clone());
    let error = cluster.create("configmaps", object).expect_err("the same name eight times");
    assert_eq!(error.to_string(), "configmaps \"abc-bbbbb\" already exists");
}

#[test]
fn a_dry_run_answers_without_version_and_stores_nothing() {
    let cluster = TestCluster::new();
    let before = cluster.revision();
    let dry = WriteOptions { dry_run: vec!["All".to_owned()], ..WriteOptions::default() };
    let written = cluster.create_with("deployments.apps", deployment("d"), &dry).expect("tried");
    assert!(written.created);
    let object = crate::test_cluster::json_of(&written.object);
    assert_eq!(at(&object, "/spec/replicas"), 3);
    assert!(at(&object, "/metadata/uid").is_string());
    assert_eq!(at(&object, "/metadata/resourceVersion"), &Value::Null);
    assert!(matches!(cluster.get("deployments.apps", "d"), Err(ApiError::NotFound { .. })));
    cluster.create_with("services", json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}), &dry).expect("tried");
    assert_eq!(cluster.revision(), before);
    cluster.made("configmaps", config_map("c"));
    let error = cluster.create_with("configmaps", config_map("c"), &dry).expect_err("taken");
    assert_eq!(error.to_string(), "configmaps \"c\" already exists");
}

#[test]
fn unknown_fields_are_dropped_reported_or_refused() {
    let cluster = TestCluster::new();
    let create = |validation: &str| {
        let options = WriteOptions { field_validation: validation.to_owned(), ..WriteOptions::default() };
        let object = json!({"metadata": {"generateName": "c"}, "bogus": 1});
        cluster.create_with("configmaps", object, &options).map(|written| written.warnings)
    };
    assert_eq!(create("").expect("created"), ["unknown field \"bogus\""]);
    assert_eq!(create("Warn").expect("created"), ["unknown field \"bogus\""]);
    assert_eq!(create("Ignore").expect("created"), Vec::<String>::new());
    let text = create("Strict").expect_err("refused").to_string();
    assert_eq!(text, "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"bogus\"");
    assert!(create("Other").expect_err("refused").to_string().starts_with("CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: "));
}

#[test]
fn a_namespace_is_labeled_active_and_held_by_its_finalizer() {
    let cluster = TestCluster::new();
    let made = cluster.made("namespaces", json!({"metadata": {"name": "ns"}}));
    assert_eq!(at(&made, "/metadata/labels"), &json!({"kubernetes.io/metadata.name": "ns"}));
    assert_eq!(at(&made, "/spec/finalizers"), &json!(["kubernetes"]));
    assert_eq!(at(&made, "/status/phase"), "Active");
}

#[test]
fn nothing_new_comes_into_a_terminating_namespace() {
    let cluster = TestCluster::new();
    cluster.made("namespaces", json!({"metadata": {"name": "ns"}}));
    cluster.delete("namespaces", "ns", &DeleteOptions::default()).expect("begins to terminate");
    let error = cluster.create("configmaps@ns", config_map("c")).expect_err("refused");
    let ApiError::Forbidden { message, causes, .. } = error else { panic!("{error}") };
    let wanted = "configmaps \"c\" is forbidden: unable to create new content in namespace ns because it is being terminated";
    assert_eq!(message, wanted);
    assert_eq!(causes[0].reason, "NamespaceTerminating");
    assert_eq!(causes[0].field, "metadata.namespace");
}

#[test]
fn bootstrap_is_idempotent() {
    let cluster = TestCluster::new();
    let before = cluster.revision();
    crate::test_cluster::now(cluster.registry.bootstrap()).expect("again");
    assert_eq!(cluster.revision(), before);
    let namespaces = cluster.list("namespaces", &ListOptions::default()).expect("listed");
    assert_eq!(names(&namespaces), ["default", "kube-node-lease", "kube-public", "kube-system"]);
    cluster.get("storageclasses.storage.k8s.io", "standard").expect("there");
    cluster.get("priorityclasses.scheduling.k8s.io", "system-node-critical").expect("there");
}

#[test]
fn pods_get_tolerations_and_a_priority() {
    let cluster = TestCluster::new();
    let made = cluster.made("pods", pod("p"));
    assert_eq!(at(&made, "/spec/priority"), 0);
    assert_eq!(at(&made, "/spec/preemptionPolicy"), "PreemptLowerPriority");
    let tolerated = |made: &Value, index: usize| at(made, &format!("/spec/tolerations/{index}/key")).clone();
    assert_eq!(tolerated(&made, 0), "node.kubernetes.io/not-ready");
    assert_eq!(tolerated(&made, 1), "node.kubernetes.io/unreachable");
    assert_eq!(at(&made, "/spec/tolerations/1/tolerationSeconds"), 300);

    let mut tolerant = pod("q");
    tolerant["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    tolerant["spec"]["priorityClassName"] = "system-node-critical".into();
    let made = cluster.made("pods", tolerant);
    assert_eq!(at(&made, "/spec/tolerations"), &json!([{"operator": "Exists"}]));
    assert_eq!(at(&made, "/spec/priority"), 2_000_001_000);

    let mut unknown = pod("r");
    unknown["spec"]["priorityClassName"] = "nope".into();
    let text = cluster.create("pods", unknown).expect_err("refused").to_string();
    assert_eq!(text, "pods \"r\" is forbidden: no PriorityClass with name nope was found");
    let mut given = pod("r");
    given["spec"]["priority"] = 5.into();
    let text = cluster.create("pods", given).expect_err("refused").to_string();
    assert!(text.starts_with("pods \"r\" is forbidden: the integer value of priority (5) must not be provided"), "{text}");

    let class = json!({"metadata": {"name": "usual"}, "value": 7, "globalDefault": true, "preemptionPolicy": "Never"});
    cluster.made("priorityclasses.scheduling.k8s.io", class);
    let made = cluster.made("pods", pod("s"));
    assert_eq!(at(&made, "/spec/priority"), 7);
    assert_eq!(at(&made, "/spec/priorityClassName"), "usual");
    assert_eq!(at(&made, "/spec/preemptionPolicy"), "Never");
}

#[test]
fn pods_take_overhead_and_nodes_from_their_runtime_class() {
    let cluster = TestCluster::new();
    let of_class = |name: &str| {
        let mut pod = pod(name);
        pod["spec"]["runtimeClassName"] = "small".into();
        pod
    };
    let text = cluster.create("pods", of_class("p")).expect_err("there is no such class").to_string();
    assert_eq!(text, "pods \"p\" is forbidden: pod rejected: RuntimeClass \"small\" not found");
    let class = json!({"metadata": {"name": "small"}, "handler": "h", "overhead": {"podFixed": {"cpu": "250m"}}, "scheduling": {"nodeSelector": {"a": "b"}}});
    cluster.made("runtimeclasses.node.k8s.io", class);
    let made = cluster.made("pods", of_class("p"));
    assert_eq!((at(&made, "/spec/overhead"), at(&made, "/spec/nodeSelector")), (&json!({"cpu": "250m"}), &json!({"a": "b"})));
    // An existing pod is not validated again.
    cluster.delete("runtimeclasses.node.k8s.io", "small", &DeleteOptions::default()).expect("deleted");
    cluster.merge("pods", "p", json!({"metadata": {"labels": {"a": "b"}}})).expect("patched");
    let mut alone = pod("q");
    alone["spec"]["overhead"] = json!({"cpu": "1"});
    let text = cluster.create("pods", alone).expect_err("no class has it").to_string();
    assert_eq!(text, "pods \"q\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead");
}

/// As upstream: a create does not set it, and each change of the spec increments it.
#[test]
fn the_generation_of_a_driver_counts_its_changes() {
    let cluster = TestCluster::new();
    let drivers = "csidrivers.storage.k8s.io";
    let generation = |object: &Value| object["metadata"]["generation"].clone();
    assert_eq!(generation(&cluster.made(drivers, json!({"metadata": {"name": "x"}}))), Value::Null);
    assert_eq!(generation(&cluster.merge(drivers, "x", json!({"metadata": {"labels": {"a": "b"}}})).expect("patched")), Value::Null);
    assert_eq!(generation(&cluster.merge(drivers, "x", json!({"spec": {"podInfoOnMount": true}})).expect("patched")), 1);
    assert_eq!(generation(&cluster.merge(drivers, "x", json!({"spec": {"storageCapacity": true}})).expect("patched")), 2);
    assert_eq!(generation(&cluster.merge(drivers, "x", json!({"metadata": {"labels": {"a": "c"}}})).expect("patched")), 2);
}

#[test]
fn claims_get_the_default_storage_class() {
    let cluster = TestCluster::new();
    let claim = |name: &str, class: Value| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}}}})
    };
    assert_eq!(at(&cluster.made("persistentvolumeclaims", claim("a", Value::Null)), "/spec/storageClassName"), "standard");
    assert_eq!(at(&cluster.made("persistentvolumeclaims", claim("b", "".into())), "/spec/storageClassName"), "");
    assert_eq!(at(&cluster.made("persistentvolumeclaims", claim("c", "mine".into())), "/spec/storageClassName"), "mine");
}

#[test]
fn every_service_has_an_address_of_its_own() {
    let cluster = TestCluster::with(Arc::new(Constant));
    let service = |name: &str, spec: Value| {
        let mut spec = spec;
        spec["ports"] = json!([{"port": 80}]);
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let address = |object: &Value| at(object, "/spec/clusterIP").clone();
    let first = cluster.made("services", service("a", json!({})));
    assert_eq!(address(&first), "10.96.1.1");
    assert_eq!(at(&first, "/spec/clusterIPs"), &json!(["10.96.1.1"]));
    assert_eq!(address(&cluster.made("services", service("b", json!({})))), "10.96.1.2");
    assert_eq!(address(&cluster.made("services", service("c", json!({"clusterIP": "None"})))), "None");
    assert_eq!(address(&cluster.made("services", service("d", json!({"clusterIP": "10.96.3.4"})))), "10.96.3.4");
    let external = json!({"type": "ExternalName", "externalName": "example.org"});
    assert_eq!(address(&cluster.made("services", service("e", external))), Value::Null);
    let text = cluster.create("services", service("f", json!({"clusterIP": "10.96.1.1"}))).expect_err("taken").to_string();
    assert!(text.contains("provided IP is already allocated"), "{text}");
    let text = cluster.create("services", service("f", json!({"clusterIP": "10.0.0.1"}))).expect_err("outside").to_string();
    assert!(text.ends_with("failed to allocate IP 10.0.0.1: the provided network does not match the current range"), "{text}");

    let mut updated = first.clone();
    updated["spec"].as_object_mut().expect("a spec").remove("clusterIP");
    updated["metadata"]["labels"] = json!({"x": "y"});
    assert_eq!(address(&cluster.update("services", "a", &updated).expect("updated")), "10.96.1.1");
    updated["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    updated["spec"]["clusterIP"] = "10.96.9.9".into();
    let text = cluster.update("services", "a", &updated).expect_err("refused").to_string();
    assert!(text.contains("may not change once set"), "{text}");

    cluster.delete("services", "a", &DeleteOptions::default()).expect("deleted");
    assert_eq!(address(&cluster.made("services", service("g", json!({})))), "10.96.1.1");
}

#[test]
fn an_object_from_inside_the_process_is_stored_without_being_sent() {
    let cluster = TestCluster::new();
    let map = ConfigMap { metadata: ObjectMeta { name: Some("c".to_owned()), ..ObjectMeta::default() }, ..ConfigMap::default() };
    let at = target("configmaps", "c");
    let at = berth_registry::Collection { resource: at.resource, namespace: at.namespace };
    let body = berth_registry::Body::Object(Box::new(map));
    let written = crate::test_cluster::now(cluster.registry.create(&Actor::System, &at, body, &WriteOptions::default())).expect("created");
    assert_eq!(crate::test_cluster::json_of(&written.object)["metadata"]["name"], "c");
}
