//! Server-side apply, and the recorded owners.

use crate::test_cluster::{TestCluster, collection, config_map, deployment, json_of, now, pod, target};
use berth_identity::GroupResource;
use berth_registry::{Actor, ApiError, Body, Patch, WriteOptions, Written};
use serde_json::{Value, json};

/// Returns options with this field manager.
fn by(manager: &str) -> WriteOptions {
    WriteOptions { field_manager: manager.to_owned(), ..WriteOptions::default() }
}

fn forced(manager: &str) -> WriteOptions {
    WriteOptions { force: Some(true), ..by(manager) }
}

fn write(cluster: &TestCluster, what: &str, name: &str, config: &Value, options: &WriteOptions) -> Result<Written, ApiError> {
    now(cluster.registry.patch(&Actor::System, &target(what, name), Patch::Apply(config.to_string().into_bytes()), options))
}

fn apply(cluster: &TestCluster, what: &str, config: &Value, options: &WriteOptions) -> Result<Value, ApiError> {
    let name = config["metadata"]["name"].as_str().unwrap_or("d").to_owned();
    write(cluster, what, &name, config, options).map(|written| json_of(&written.object))
}

fn applied(cluster: &TestCluster, what: &str, config: Value, manager: &str) -> Value {
    apply(cluster, what, &config, &by(manager)).expect("applied")
}

/// Returns `manager operation [subresource] fieldsV1` of every entry, in order.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, member: &str| entry[member].as_str().unwrap_or_default().to_owned();
    entries
        .iter()
        .map(|entry| {
            assert_eq!(entry["fieldsType"], "FieldsV1");
            let words = ["manager", "operation", "subresource"].map(|member| text(entry, member));
            let lead: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
            format!("{} {}", lead.join(" "), entry["fieldsV1"])
        })
        .collect()
}

fn partial(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}

const D: &str = "deployments.apps";

#[test]
fn the_creator_owns_what_it_sent_and_what_was_defaulted() {
    let cluster = TestCluster::new();
    let body = Body::Json(deployment("d").to_string().into_bytes());
    let made = now(cluster.registry.create(&Actor::System, &collection(D), body, &by("kubectl-create"))).expect("created");
    let made = json_of(&made.object);
    let container = r#"{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}"#;
    let spec = format!(
        "{}{container}{}",
        r#"{"f:containers":{"k:{\"name\":\"c\"}":"#,
        r#"},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}"#
    );
    let fields = format!(
        "{}{spec}{}",
        r#"{"f:spec":{"f:progressDeadlineSeconds":{},"f:replicas":{},"f:revisionHistoryLimit":{},"f:selector":{},"f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{},"f:maxUnavailable":{}},"f:type":{}},"f:template":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":"#,
        "}}}"
    );
    assert_eq!(owners(&made), [format!("kubectl-create Update {fields}")]);
    let entry = &made["metadata"]["managedFields"][0];
    assert_eq!((&entry["apiVersion"], &entry["time"]), (&json!("apps/v1"), &json!("2026-01-01T00:00:00Z")));
}

#[test]
fn an_apply_makes_the_object_and_owns_what_it_named() {
    let cluster = TestCluster::new();
    let written = write(&cluster, D, "d", &deployment("d"), &by("a")).expect("applied");
    assert!(written.created);
    let made = json_of(&written.object);
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["spec"]["strategy"]["type"], "RollingUpdate");
    let template =
        r#"{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{}}}}}"#;
    assert_eq!(owners(&made), [format!(r#"a Apply {{"f:spec":{{"f:replicas":{{}},"f:selector":{{}},"f:template":{template}}}}}"#)]);

    let written = write(&cluster, D, "d", &deployment("d"), &by("a")).expect("applied");
    assert!(!written.created);
}

#[test]
fn an_apply_that_changes_nothing_writes_nothing() {
    let cluster = TestCluster::new();
    let made = applied(&cluster, D, deployment("d"), "a");
    cluster.clock.advance(60);
    let before = cluster.revision();
    assert_eq!(applied(&cluster, D, deployment("d"), "a"), made);
    assert_eq!(cluster.revision(), before);
    // A second owner changes the object, but not the first owner's entry.
    let shared = applied(&cluster, D, partial(json!({"replicas": 3})), "b");
    assert_eq!(shared["metadata"]["generation"], 1);
    // As upstream, an entry has no time until the manager changes a value.
    let times = |object: &Value| {
        let entries = object["metadata"]["managedFields"].as_array().expect("a list").iter();
        entries.map(|entry| (entry["manager"].clone(), entry["time"].clone())).collect::<Vec<_>>()
    };
    let first = (json!("a"), json!("2026-01-01T00:00:00Z"));
    assert_eq!(times(&shared), [(json!("b"), Value::Null), first.clone()]);
    let changed = applied(&cluster, D, partial(json!({"replicas": 3, "minReadySeconds": 1})), "b");
    assert_eq!(times(&changed), [first, (json!("b"), json!("2026-01-01T00:01:00Z"))]);
}

#[test]
fn what_has_one_owner_upstream_has_one_owner() {
    let cluster = TestCluster::new();
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"}, "roleRef": role});
    let made = write(&cluster, "rolebindings.rbac.authorization.k8s.io", "b", &binding, &by("a")).expect("applied");
    assert_eq!(owners(&json_of(&made.object)), [r#"a Apply {"f:roleRef":{}}"#]);
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}, "claimRef": {"name": "c", "namespace": "n"}}});
    let made = write(&cluster, "persistentvolumes", "v", &volume, &by("a")).expect("applied");
    let owned = owners(&json_of(&made.object)).join("");
    assert!(owned.contains(r#""f:claimRef":{"f:name":{},"f:namespace":{}}"#), "{owned}");
}

#[test]
fn what_is_given_up_goes_or_falls_back_to_its_default() {
    let cluster = TestCluster::new();
    let mut config = deployment("d");
    config["spec"]["minReadySeconds"] = json!(5);
    config["metadata"]["labels"] = json!({"x": "y"});
    applied(&cluster, D, config.clone(), "a");
    config["spec"].as_object_mut().expect("a spec").remove("replicas");
    config["spec"].as_object_mut().expect("a spec").remove("minReadySeconds");
    config["metadata"] = json!({"name": "d"});
    let left = applied(&cluster, D, config, "a");
    assert_eq!((&left["spec"]["replicas"], &left["spec"]["minReadySeconds"]), (&json!(1), &Value::Null));
    assert_eq!(left["metadata"].get("labels"), None);
    assert_eq!(left["metadata"]["generation"], 2);
    assert!(!owners(&left)[0].contains("replicas"));
}

#[test]
fn conflicts_name_who_owns_what() {
    let cluster = TestCluster::new();
    now(cluster.registry.create(
        &Actor::System,
        &collection(D),
        Body::Json(deployment("d").to_string().into_bytes()),
        &by("kubectl-client-side-apply"),
    ))
    .expect("created");
    let check = |config: Value, wanted: &str, wanted_causes: &[(&str, &str)]| {
        let before = cluster.get(D, "d").expect("there");
        let error = apply(&cluster, D, &config, &by("a")).expect_err(wanted);
        let ApiError::ApplyConflict { message, causes } = error else { panic!("{error}") };
        assert_eq!(message, wanted);
        assert!(causes.iter().all(|cause| cause.reason == "FieldManagerConflict"));
        let found: Vec<(&str, &str)> = causes.iter().map(|cause| (cause.message.as_str(), cause.field.as_str())).collect();
        assert_eq!(found, wanted_causes);
        assert_eq!(cluster.get(D, "d").expect("there"), before);
    };
    let csa = "conflict with \"kubectl-client-side-apply\" using apps/v1";
    let one = "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas";
    check(partial(json!({"replicas": 7})), one, &[(csa, ".spec.replicas")]);
    let image = ".spec.template.spec.containers[name=\"c\"].image";
    let config = partial(json!({"replicas": 7, "template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}));
    let two =
        format!("Apply failed with 2 conflicts: conflicts with \"kubectl-client-side-apply\" using apps/v1:\n- .spec.replicas\n- {image}");
    check(config.clone(), &two, &[(csa, ".spec.replicas"), (csa, image)]);
    // Conflicts are reported before errors of the result.
    check(partial(json!({"replicas": -7})), one, &[(csa, ".spec.replicas")]);

    let taken = apply(&cluster, D, &config, &forced("a")).expect("forced");
    assert_eq!(taken["spec"]["replicas"], 7);
    let [applier, updater] = owners(&taken).try_into().expect("two owners");
    assert!(applier.starts_with("a Apply ") && applier.contains("f:replicas"), "{applier}");
    assert!(!updater.contains("f:replicas") && !updater.contains("f:image\""), "{updater}");
}

#[test]
fn an_update_takes_the_fields_that_it_changes() {
    let cluster = TestCluster::new();
    applied(&cluster, D, deployment("d"), "a");
    cluster.clock.advance(60);
    let patch = Patch::Merge(br#"{"spec":{"replicas":9}}"#.to_vec());
    let patched = cluster.patch(D, "d", patch, &by("hpa")).expect("patched");
    assert_eq!(owners(&patched)[1], r#"hpa Update {"f:spec":{"f:replicas":{}}}"#);
    assert!(!owners(&patched)[0].contains("replicas"));
    let error = apply(&cluster, D, &deployment("d"), &by("a")).expect_err("the applier does not get it back unasked");
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"hpa\" using apps/v1: .spec.replicas");
    // A writer without a name is `unknown`. A manager that writes the same value again does not become an owner.
    let patched = cluster.merge(D, "d", json!({"spec": {"replicas": 9, "paused": true}})).expect("patched");
    assert_eq!(owners(&patched)[2], r#"unknown Update {"f:spec":{"f:paused":{}}}"#);
    // A removed field has no owner.
    let patched = cluster.merge(D, "d", json!({"spec": {"paused": null}})).expect("patched");
    assert_eq!(owners(&patched).len(), 2);
}

#[test]
fn status_and_scale_have_entries_of_their_own() {
    let cluster = TestCluster::new();
    applied(&cluster, D, deployment("d"), "a");
    let patch =
        Patch::Merge(br#"{"spec":{"replicas":1},"status":{"replicas":3,"conditions":[{"type":"Available","status":"True"}]}}"#.to_vec());
    let patched = cluster.patch(&format!("{D}/status"), "d", patch, &by("controller")).expect("patched");
    let condition = r#"{".":{},"f:lastTransitionTime":{},"f:lastUpdateTime":{},"f:status":{},"f:type":{}}"#;
    let found = &owners(&patched)[1];
    assert!(
        found.starts_with(r#"controller Update status {"f:status":{"f:conditions":{".":{},"k:{\"type\":\"Available\"}":{"#),
        "{found}\n{condition}"
    );
    assert!(found.ends_with(r#""f:replicas":{}}}"#), "{found}");

    let patch = Patch::Merge(br#"{"spec":{"replicas":5}}"#.to_vec());
    cluster.patch(&format!("{D}/scale"), "d", patch, &by("scaler")).expect("scaled");
    let scaled = cluster.get(D, "d").expect("there");
    let entry = &scaled["metadata"]["managedFields"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|entry| entry["manager"] == "scaler")
        .expect("an owner");
    assert_eq!(
        **entry,
        json!({"manager": "scaler", "operation": "Update", "apiVersion": "apps/v1", "subresource": "scale", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:replicas": {}}}})
    );
    let error = apply(&cluster, D, &deployment("d"), &by("a")).expect_err("a conflict");
    let wanted = "Apply failed with 1 conflict: conflict with \"scaler\" with subresource \"scale\" using apps/v1: .spec.replicas";
    assert_eq!(error.to_string(), wanted);
}

#[test]
fn subresources_can_be_applied() {
    let cluster = TestCluster::new();
    applied(&cluster, D, deployment("d"), "a");
    let mut config = partial(json!({"replicas": 99}));
    config["status"] = json!({"observedGeneration": 1, "replicas": 2});
    let status = apply(&cluster, &format!("{D}/status"), &config, &by("s")).expect("applied");
    assert_eq!((&status["status"]["replicas"], &status["spec"]["replicas"]), (&json!(2), &json!(3)));
    assert_eq!(owners(&status)[1], r#"s Apply status {"f:status":{"f:observedGeneration":{},"f:replicas":{}}}"#);
    // The main endpoint owns no status.
    let main = apply(
        &cluster,
        D,
        &{
            let mut c = deployment("d");
            c["status"] = json!({"replicas": 77});
            c
        },
        &by("a"),
    )
    .expect("applied");
    assert_eq!(main["status"]["replicas"], 2);
    assert!(!owners(&main)[0].contains("f:status"));

    let scale =
        |replicas: i32| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": replicas}});
    let scales = format!("{D}/scale");
    let error = apply(&cluster, &scales, &scale(6), &by("h")).expect_err("a conflict");
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas");
    let shown = apply(&cluster, &scales, &scale(6), &forced("h")).expect("forced");
    assert_eq!((&shown["kind"], &shown["spec"]["replicas"]), (&json!("Scale"), &json!(6)));
    assert!(owners(&cluster.get(D, "d").expect("there")).contains(&r#"h Apply scale {"f:spec":{"f:replicas":{}}}"#.to_owned()));
    let wrong = apply(&cluster, &scales, &deployment("d"), &by("h")).expect_err("no Scale");
    assert_eq!(wrong.to_string(), "invalid object type: apps/v1, Kind=Deployment");
    for what in [format!("{D}/status"), scales] {
        let mut config = if what.ends_with("scale") { scale(1) } else { deployment("e") };
        config["metadata"]["name"] = json!("e");
        let error = write(&cluster, &what, "e", &config, &by("a")).expect_err("a subresource makes no object");
        assert_eq!(error.to_string(), "deployments.apps \"e\" not found");
    }
}

#[test]
fn bad_applies_are_refused_with_upstreams_words() {
    let cluster = TestCluster::new();
    applied(&cluster, D, deployment("d"), "a");
    let check = |config: Value, options: &WriteOptions, wanted: &str| {
        let error = write(&cluster, D, "d", &config, options).expect_err(wanted);
        assert_eq!(error.to_string(), wanted);
        error
    };
    let fine = deployment("d");
    let options = "PatchOptions.meta.k8s.io \"\" is invalid: ";
    check(fine.clone(), &by(""), &format!("{options}fieldManager: Required value: is required for apply patch"));
    let with = |pointer: &str, value: Value| {
        let mut config = fine.clone();
        let (lead, last) = pointer.rsplit_once('/').expect("a pointer");
        config.pointer_mut(lead).expect("there")[last] = value;
        config
    };
    check(json!({"spec": {}}), &by("a"), "invalid object type: /, Kind=");
    check(with("/kind", json!("Pod")), &by("a"), "invalid object type: apps/v1, Kind=Pod");
    check(with("/apiVersion", json!("apps/v1beta1")), &by("a"), "invalid object type: apps/v1beta1, Kind=Deployment");
    check(with("/metadata/managedFields", json!([])), &by("a"), "metadata.managedFields must be nil");
    let typed = "failed to create typed patch object (default/d; apps/v1, Kind=Deployment): ";
    let unknown = check(with("/spec/bogus", json!(1)), &by("a"), &format!("{typed}.spec.bogus: field not declared in schema"));
    assert!(matches!(unknown, ApiError::BadRequest { .. }));
    check(with("/spec/replicas", json!("x")), &by("a"), &format!("{typed}.spec.replicas: expected numeric (int or float), got string"));
    let twice = json!([{"name": "c", "image": "a"}, {"name": "c", "image": "b"}]);
    let text = ".spec.template.spec.containers: duplicate entries for key [name=\"c\"]";
    check(with("/spec/template/spec/containers", twice), &by("a"), &format!("{typed}{text}"));
    check(with("/metadata/name", json!("e")), &by("a"), "the name of the object (e) does not match the name on the URL (d)");
    let text = "the namespace of the provided object does not match the namespace sent on the request";
    check(with("/metadata/namespace", json!("e")), &by("a"), text);
    let text = "Operation cannot be fulfilled on deployments.apps \"d\": the object has been modified; please apply your changes to the latest \
                version and try again";
    check(with("/metadata/resourceVersion", json!("1")), &by("a"), text);
    let faulty = check(
        with("/spec/replicas", json!(-1)),
        &by("a"),
        "Deployment.apps \"d\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    );
    assert!(matches!(faulty, ApiError::Invalid { .. }));

    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, "data": {"a": "YQ"}});
    let unread = apply(&cluster, "secrets", &secret, &by("a")).expect_err("no base64");
    let text = "failed to convert new object (default/s; /v1, Kind=Secret) to proper version: unable to convert unstructured object to /v1, \
                Kind=Secret: error decoding from json: illegal base64 data at input byte 0";
    assert_eq!(unread.to_string(), text);

    let refused =
        now(cluster.registry.patch(&Actor::System, &target(D, "d"), Patch::Apply(b"[1]".to_vec()), &by("a"))).expect_err("no object");
    assert!(refused.to_string().starts_with("error decoding YAML: "), "{refused}");
    let force = Patch::Merge(b"{}".to_vec());
    let text = format!("{options}force: Forbidden: may not be specified for non-apply patch");
    assert_eq!(cluster.patch(D, "d", force, &forced("a")).expect_err("forbidden").to_string(), text);
    let mut absent = deployment("e");
    absent["metadata"]["uid"] = json!("u");
    let error = apply(&cluster, D, &absent, &by("a")).expect_err("no such object");
    assert!(error.to_string().ends_with("uid mismatch: the provided object specified uid u, and no existing object was found"), "{error}");
}

#[test]
fn duplicate_members_are_warned_about_or_refused() {
    let cluster = TestCluster::new();
    let bytes = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1","a":"2"}}"#;
    let send = |options: &WriteOptions| {
        now(cluster.registry.patch(&Actor::System, &target("configmaps", "c"), Patch::Apply(bytes.to_vec()), options))
    };
    let strict = WriteOptions { field_validation: "Strict".to_owned(), ..by("a") };
    assert_eq!(send(&strict).expect_err("refused").to_string(), "error strict decoding YAML: duplicate field \"data.a\"");
    assert_eq!(send(&by("a")).expect("applied").warnings, ["duplicate field \"data.a\""]);
}

#[test]
fn dry_runs_apply_and_keep_nothing() {
    let cluster = TestCluster::new();
    let dry = WriteOptions { dry_run: vec!["All".to_owned()], ..by("a") };
    let written = write(&cluster, D, "d", &deployment("d"), &dry).expect("tried");
    assert!(written.created);
    assert_eq!(owners(&json_of(&written.object)).len(), 1);
    assert!(cluster.get(D, "d").is_err());
    applied(&cluster, D, deployment("d"), "a");
    let before = cluster.get(D, "d").expect("there");
    let tried = apply(
        &cluster,
        D,
        &{
            let mut c = deployment("d");
            c["spec"]["replicas"] = json!(8);
            c
        },
        &dry,
    )
    .expect("tried");
    assert_eq!(tried["spec"]["replicas"], 8);
    assert_eq!(cluster.get(D, "d").expect("there"), before);
}

#[test]
fn records_can_be_reset_and_rewritten_but_not_through_a_subresource() {
    let cluster = TestCluster::new();
    let made = cluster.made(D, deployment("d"));
    let entries = |object: &Value| object["metadata"]["managedFields"].as_array().map_or(0, Vec::len);
    // A client that omits managed fields does not remove them, and neither does one that sends invalid ones.
    let mut object = made.clone();
    object["metadata"].as_object_mut().expect("metadata").remove("managedFields");
    assert_eq!(cluster.update(D, "d", &object).expect("updated"), made);
    object["metadata"]["managedFields"] = json!([{"manager": "x", "operation": "Nonsense"}]);
    assert_eq!(cluster.update(D, "d", &object).expect("updated"), made);
    let patch = json!({"metadata": {"managedFields": []}, "status": {"replicas": 1}});
    assert_eq!(entries(&cluster.merge(&format!("{D}/status"), "d", patch).expect("patched")), 2);

    let rewritten =
        br#"[{"op":"replace","path":"/metadata/managedFields","value":[{"manager":"m","operation":"Apply","apiVersion":"apps/v1",
        "fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]}]"#;
    let patched = cluster.patch(D, "d", Patch::Json(rewritten.to_vec()), &by("kubectl")).expect("patched");
    assert_eq!(owners(&patched), [r#"m Apply {"f:spec":{"f:replicas":{}}}"#]);

    for reset in [json!([]), json!([{}])] {
        let patch = json!([{"op": "replace", "path": "/metadata/managedFields", "value": reset}]);
        let patched = cluster.patch(D, "d", Patch::Json(patch.to_string().into_bytes()), &by("kubectl")).expect("patched");
        assert_eq!(entries(&patched), 0);
        // The owners are unknown now, and an update does not record new ones.
        let patched = cluster.merge(D, "d", json!({"spec": {"paused": true}})).expect("patched");
        assert_eq!(entries(&patched), 0);
        let applied = apply(&cluster, D, &partial(json!({"replicas": 3})), &by("a")).expect("applied");
        let found = owners(&applied);
        assert_eq!(found[0], r#"a Apply {"f:spec":{"f:replicas":{}}}"#);
        assert!(found[1].starts_with("before-first-apply Update {") && found[1].contains("f:paused"), "{found:?}");
        assert_eq!(found.len(), 2);
    }
}

#[test]
fn client_side_apply_is_taken_over() {
    let cluster = TestCluster::new();
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut object = deployment("d");
    object["metadata"]["annotations"] = json!({annotation: format!("{}\n", deployment("d"))});
    now(cluster.registry.create(
        &Actor::System,
        &collection(D),
        Body::Json(object.to_string().into_bytes()),
        &by("kubectl-client-side-apply"),
    ))
    .expect("created");
    let mut wanted = deployment("d");
    wanted["spec"]["replicas"] = json!(5);
    apply(&cluster, D, &wanted, &by("other")).expect_err("only kubectl takes over");
    let taken = applied(&cluster, D, wanted.clone(), "kubectl");
    assert_eq!(taken["spec"]["replicas"], 5);
    assert_eq!(taken["metadata"]["annotations"][annotation], format!("{wanted}\n"));
    let before = cluster.revision();
    assert_eq!(applied(&cluster, D, wanted, "kubectl"), taken);
    assert_eq!(cluster.revision(), before);
}

#[test]
fn pods_that_controllers_make_are_recorded_when_they_are_first_applied() {
    let cluster = TestCluster::new();
    let resource = berth_registry::resource::built_in().by_name(&GroupResource::from_static("", "pods")).expect("served");
    let object = resource.rules.decode(pod("p")).expect("a pod").object;
    let made = now(cluster.registry.create(&Actor::System, &collection("pods"), Body::Object(object), &by("berth"))).expect("created");
    assert_eq!(owners(&json_of(&made.object)), Vec::<String>::new());
    let status = Patch::Merge(br#"{"status":{"phase":"Running"}}"#.to_vec());
    assert_eq!(owners(&cluster.patch("pods/status", "p", status, &by("berth")).expect("patched")), Vec::<String>::new());
    let config = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "b"}}});
    let error = apply(&cluster, "pods", &config, &by("a")).expect_err("a conflict");
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .metadata.labels.app");
    let found = owners(&apply(&cluster, "pods", &config, &forced("a")).expect("forced"));
    assert_eq!(found[0], r#"a Apply {"f:metadata":{"f:labels":{"f:app":{}}}}"#);
    assert!(found[1].starts_with("before-first-apply Update {"), "{found:?}");
    assert!(!owners(&cluster.made("pods", pod("q"))).is_empty());
}

#[test]
fn every_kind_can_be_applied_twice() {
    for resource in berth_registry::resource::built_in().stored() {
        let cluster = TestCluster::new();
        let what = resource.group_resource().to_string();
        let config = match resource.kind().as_str() {
            "Deployment" => deployment("x"),
            "Pod" => pod("x"),
            "ConfigMap" => config_map("x"),
            "Namespace" | "Node" | "Secret" | "ServiceAccount" | "Lease" | "Endpoints" => {
                json!({"apiVersion": resource.api_version(), "kind": resource.kind(), "metadata": {"name": "x", "labels": {"a": "b"}}})
            }
            "Service" => {
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}})
            }
            _ => continue,
        };
        let first = applied(&cluster, &what, config.clone(), "a");
        let before = cluster.revision();
        assert_eq!(applied(&cluster, &what, config, "a"), first, "{}", resource.kind());
        assert_eq!(cluster.revision(), before, "{}", resource.kind());
    }
}

#[test]
fn ports_are_distinguished_by_number_and_protocol() {
    let cluster = TestCluster::new();
    let service = |ports: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}});
    applied(&cluster, "services", service(json!([{"port": 53, "name": "tcp"}])), "a");
    let both = applied(&cluster, "services", service(json!([{"port": 53, "protocol": "UDP", "name": "udp"}])), "b");
    let names: Vec<&Value> = both["spec"]["ports"].as_array().expect("a list").iter().map(|port| &port["name"]).collect();
    assert_eq!(names, ["tcp", "udp"]);
    let port = r#"{"k:{\"port\":53,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{}}}"#;
    assert_eq!(owners(&both)[0], format!(r#"a Apply {{"f:spec":{{"f:ports":{port}}}}}"#));
    let left = applied(&cluster, "services", service(json!([])), "a");
    assert_eq!(left["spec"]["ports"].as_array().map(Vec::len), Some(1));
}

#[test]
fn who_may_not_create_makes_nothing_by_applying() {
    let cluster = TestCluster::new();
    let ann = Actor::User(std::sync::Arc::new(berth_rbac::User::authenticated("ann", &[])));
    let patch = || Patch::Apply(deployment("d").to_string().into_bytes());
    let error = now(cluster.registry.patch(&ann, &target(D, "d"), patch(), &by("a"))).expect_err("forbidden");
    assert!(matches!(error, ApiError::Forbidden { .. }), "{error}");
    assert!(cluster.get(D, "d").is_err());
    // The right to patch was checked before.
    applied(&cluster, D, deployment("d"), "a");
    now(cluster.registry.patch(&ann, &target(D, "d"), patch(), &by("a"))).expect("applied");
}

const S: &str = "statefulsets.apps";

fn stateful_set(strategy: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": {
        "selector": {"matchLabels": {"app": "s"}}, "updateStrategy": strategy,
        "template": {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}})
}

/// Returns a set whose update strategy the server has defaulted. Its creator owns the block of defaults.
fn with_defaults() -> (TestCluster, Value) {
    let cluster = TestCluster::new();
    let made = cluster.create_with(S, stateful_set(&json!({})), &by("kubectl-create")).expect("created");
    let made = json_of(&made.object);
    assert_eq!(made["spec"]["updateStrategy"], json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}));
    assert!(owners(&made)[0].contains("f:rollingUpdate"), "{made}");
    (cluster, made)
}

/// One way to change the update strategy of the set `s`, as last read.
type Way = fn(&TestCluster, &Value, &Value) -> Result<Value, ApiError>;

const WAYS: [(&str, Way); 5] = [
    ("merge patch", |cluster, _, strategy| cluster.merge(S, "s", json!({"spec": {"updateStrategy": strategy}}))),
    ("strategic merge patch", |cluster, _, strategy| {
        let patch = json!({"spec": {"updateStrategy": strategy}}).to_string().into_bytes();
        cluster.patch(S, "s", Patch::Strategic(patch), &by("kubectl"))
    }),
    ("JSON patch", |cluster, _, strategy| {
        let members = strategy.as_object().expect("an object").iter();
        let operations = members.map(|(name, value)| json!({"op": "add", "path": format!("/spec/updateStrategy/{name}"), "value": value}));
        let patch = json!(operations.collect::<Vec<_>>()).to_string().into_bytes();
        cluster.patch(S, "s", Patch::Json(patch), &by("kubectl"))
    }),
    ("PUT", |cluster, stored, strategy| {
        let mut object = stored.clone();
        let into = object["spec"]["updateStrategy"].as_object_mut().expect("an object");
        into.extend(strategy.as_object().expect("an object").clone());
        cluster.update(S, "s", &object)
    }),
    ("apply", |cluster, _, strategy| apply(cluster, S, &stateful_set(strategy), &forced("a"))),
];

#[test]
fn a_block_of_defaults_goes_when_the_type_leaves_rolling_update() {
    for (way, change) in WAYS {
        for other in ["Recreate", "OnDelete"] {
            let (cluster, made) = with_defaults();
            let wanted = json!({"type": other});
            let changed = change(&cluster, &made, &wanted).unwrap_or_else(|error| panic!("{way} to {other}: {error}"));
            assert_eq!((&changed["spec"]["updateStrategy"], &changed["metadata"]["generation"]), (&wanted, &json!(2)), "{way} to {other}");
            let owners = owners(&changed);
            assert!(!owners.iter().any(|owner| owner.contains("f:rollingUpdate")), "{way} to {other}: {owners:?}");
            let again = change(&cluster, &changed, &wanted).unwrap_or_else(|error| panic!("{way} to {other} again: {error}"));
            assert_eq!(again, changed, "{way} to {other} again");
            let back = change(&cluster, &changed, &json!({"type": "RollingUpdate"})).unwrap_or_else(|error| panic!("{way} back: {error}"));
            assert_eq!(back["spec"]["updateStrategy"], json!({"type": "RollingUpdate"}), "{way} back from {other}");
        }
    }
}

#[test]
fn a_block_with_other_than_default_values_is_refused_beside_another_type() {
    for (way, change) in WAYS {
        for (sent, shown) in [(json!({"partition": 2}), r#"{"partition":2}"#), (json!({"partition": -1}), r#"{"partition":-1}"#)] {
            let (cluster, made) = with_defaults();
            let error = change(&cluster, &made, &json!({"type": "Recreate", "rollingUpdate": sent})).expect_err(way).to_string();
            let fault =
                format!("spec.updateStrategy.rollingUpdate: Invalid value: {shown}: only allowed for updateStrategy 'RollingUpdate'");
            assert_eq!(error, format!("StatefulSet.apps \"s\" is invalid: {fault}"), "{way}");
            assert_eq!(cluster.get(S, "s").expect("there"), made, "{way} changed nothing");
        }
    }
}

/// An applier that combines the block of defaults with another type gets the same result each time.
#[test]
fn a_block_of_defaults_that_is_applied_beside_another_type_is_nobodys() {
    let (cluster, _) = with_defaults();
    let config = stateful_set(&json!({"type": "Recreate", "rollingUpdate": {"partition": 0}}));
    let first = apply(&cluster, S, &config, &forced("a")).expect("applied");
    assert!(!owners(&first).iter().any(|owner| owner.contains("f:rollingUpdate")), "{:?}", owners(&first));
    assert_eq!(apply(&cluster, S, &config, &forced("a")).expect("applied"), first);
}

#[test]
fn no_manager_owns_what_the_server_adds() {
    let cluster = TestCluster::new();
    let made = |what: &str, object: Value| {
        let body = Body::Json(object.to_string().into_bytes());
        json_of(&now(cluster.registry.create(&Actor::System, &collection(what), body, &by("kubectl-create"))).expect("created").object)
    };
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    for (what, object, added) in [
        ("pods", pod("p"), &["f:priority", "f:preemptionPolicy", "f:serviceAccount", "f:tolerations"][..]),
        ("persistentvolumeclaims", claim, &["f:finalizers", "f:storageClassName"]),
        ("services", service, &["f:ipFamilies", "f:ipFamilyPolicy", "f:clusterIP"]),
        ("namespaces", namespace, &["f:spec"]),
    ] {
        let owners = owners(&made(what, object)).join("\n");
        assert!(owners.contains("f:"), "{what}: {owners}");
        added.iter().for_each(|field| assert!(!owners.contains(field), "{what}: {field} in {owners}"));
    }
}

#[test]
fn a_pod_is_applied_server_side_after_it_was_applied_client_side() {
    let cluster = TestCluster::new();
    let body = Body::Json(pod("p").to_string().into_bytes());
    now(cluster.registry.create(&Actor::System, &collection("pods"), body, &by("kubectl-client-side-apply"))).expect("created");
    apply(&cluster, "pods", &pod("p"), &forced("kubectl")).expect("applied");
    apply(&cluster, "pods", &pod("p"), &by("kubectl")).expect("applied again");
}

#[test]
fn a_key_of_a_list_that_is_left_out_is_its_default() {
    let cluster = TestCluster::new();
    let spec = json!({"imagePullSecrets": [{}], "containers": [{"name": "c", "image": "i"}]});
    let template = json!({"metadata": {"labels": {"app": "d"}}, "spec": spec});
    let made = applied(&cluster, D, partial(json!({"selector": {"matchLabels": {"app": "d"}}, "template": template})), "helm");
    assert!(owners(&made)[0].contains(r#"k:{\"name\":\"\"}"#), "{:?}", owners(&made));
}

/// As upstream, `stringData` is owned under that name, and read as `data`.
#[test]
fn texts_of_a_secret_belong_to_their_applier_by_the_name_under_which_they_are_sent() {
    let cluster = TestCluster::new();
    let secret = |texts: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": texts});
    let made = applied(&cluster, "secrets", secret(json!({"k": "v", "l": "w"})), "a");
    assert_eq!(owners(&made), [r#"a Apply {"f:stringData":{"f:k":{},"f:l":{}}}"#]);
    let changed = applied(&cluster, "secrets", secret(json!({"k": "w"})), "a");
    assert_eq!(owners(&changed), [r#"a Apply {"f:stringData":{"f:k":{}}}"#]);
    assert_eq!(changed["data"], json!({"k": "dw==", "l": "dw=="}));
    assert_eq!(applied(&cluster, "secrets", secret(json!({"k": "w"})), "a"), changed, "the same again writes nothing");
    let conflict = apply(&cluster, "secrets", &secret(json!({"k": "x"})), &by("b")).expect_err("it is another's");
    assert!(conflict.to_string().contains(".stringData.k"), "{conflict}");
}
