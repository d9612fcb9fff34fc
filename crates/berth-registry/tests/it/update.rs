use crate::test_cluster::{TestCluster, config_map, deployment, json_of, now, pod, target};
use berth_api::{
    StatusPart,
    k8s_openapi::{
        ByteString,
        api::core::v1::{Pod, PodStatus},
    },
};
use berth_registry::{Actor, ApiError, Body, Patch, WriteOptions, options::Precondition, resource};
use serde_json::{Value, json};

const MODIFIED: &str = "the object has been modified; please apply your changes to the latest version and try again";

#[test]
fn updates_are_refused_with_upstreams_words() {
    let cluster = TestCluster::new();
    let made = cluster.made("deployments.apps", deployment("d"));
    let check = |change: fn(&mut Value), wanted: &str| {
        let mut object = made.clone();
        change(&mut object);
        let text = cluster.update("deployments.apps", "d", &object).expect_err("refused").to_string();
        assert!(text.starts_with(wanted), "{text}\n  is not\n{wanted}");
    };
    check(|d| d["metadata"]["name"] = "x".into(), "the name of the object (x) does not match the name on the URL (d)");
    let text = "the name of the object (d based on URL) was undeterminable: name must be provided";
    check(|d| d["metadata"]["name"] = "".into(), text);
    let text = "the namespace of the provided object does not match the namespace sent on the request";
    check(|d| d["metadata"]["namespace"] = "x".into(), text);
    let text = "Operation cannot be fulfilled on deployments.apps \"d\": ";
    check(|d| d["metadata"]["resourceVersion"] = "1".into(), &format!("{text}{MODIFIED}"));
    check(|d| d["metadata"]["uid"] = "x".into(), &format!("{text}Precondition failed: UID in precondition: x, UID in object meta: "));
    check(|d| d["metadata"]["resourceVersion"] = "x".into(), "invalid resource version: ");
    check(|d| d["kind"] = "Pod".into(), "Pod in version \"v1\" cannot be handled as a Deployment: ");
    let missing = cluster.update("deployments.apps", "e", &deployment("e")).expect_err("PUT does not create");
    assert_eq!(missing.to_string(), "deployments.apps \"e\" not found");
    assert_eq!(cluster.get("deployments.apps", "d").expect("there"), made);
}

/// Charts set a namespace on their `ClusterRoles`, and upstream drops it on each way in.
#[test]
fn the_namespace_of_a_cluster_scoped_object_is_dropped() {
    let cluster = TestCluster::new();
    let mut role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r", "namespace": "shop"}, "rules": []});
    const WHAT: &str = "clusterroles.rbac.authorization.k8s.io";
    let check = |written: Value| {
        assert_eq!(written["metadata"]["namespace"], Value::Null, "{written}");
        assert_eq!(cluster.get(WHAT, "r").expect("stored"), written);
    };
    check(cluster.made(WHAT, role.clone()));
    role["metadata"]["labels"] = json!({"a": "1"});
    check(cluster.update(WHAT, "r", &role).expect("updated"));
    let patch = json!({"metadata": {"namespace": "shop", "labels": {"a": "2"}}}).to_string().into_bytes();
    check(cluster.patch(WHAT, "r", Patch::Merge(patch.clone()), &WriteOptions::default()).expect("merged"));
    check(cluster.patch(WHAT, "r", Patch::Strategic(patch), &WriteOptions::default()).expect("merged"));
    role["metadata"]["labels"] = json!({"b": "3"});
    let apply = WriteOptions { field_manager: "a".to_owned(), ..WriteOptions::default() };
    check(cluster.patch(WHAT, "r", Patch::Apply(role.to_string().into_bytes()), &apply).expect("applied"));
}

#[test]
fn nothing_is_written_where_nothing_changes() {
    let cluster = TestCluster::new();
    let made = cluster.made("deployments.apps", deployment("d"));
    let before = cluster.revision();
    assert_eq!(cluster.update("deployments.apps", "d", &made).expect("updated"), made);
    assert_eq!(cluster.merge("deployments.apps", "d", json!({"spec": {"replicas": 3}})).expect("patched"), made);
    assert_eq!(cluster.merge("deployments.apps/status", "d", json!({"spec": {"replicas": 9}})).expect("patched"), made);
    assert_eq!(cluster.revision(), before);
}

/// Otherwise a node that has not observed the failure of its pod would revert it.
#[test]
fn a_part_of_a_status_is_written_over_the_version_that_it_names_and_over_no_other() {
    let cluster = TestCluster::new();
    let bound = cluster.made("pods", pod("p"));
    let part = |version: Option<&str>, phase: &str| {
        let mut object = Pod::default();
        (object.metadata.name, object.metadata.namespace) = (Some("p".to_owned()), Some("default".to_owned()));
        object.metadata.uid = bound["metadata"]["uid"].as_str().map(str::to_owned);
        object.metadata.resource_version = version.map(str::to_owned);
        object.status = Some(PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() });
        StatusPart { object: Box::new(object), members: &["phase"] }
    };
    let put = |part: &StatusPart| {
        now(cluster.registry.put_status(&Actor::System, &target("pods/status", "p"), part, &WriteOptions::default())).map(drop)
    };
    let phase = || cluster.get("pods", "p").expect("there")["status"]["phase"].clone();

    let seen = bound["metadata"]["resourceVersion"].as_str().expect("a version");
    put(&part(Some(seen), "Failed")).expect("it is that version");
    let refused = put(&part(Some(seen), "Running")).expect_err("it is another by now");
    assert_eq!(refused.to_string(), format!("Operation cannot be fulfilled on pods \"p\": {MODIFIED}"));
    assert_eq!(phase(), "Failed");
    put(&part(None, "Succeeded")).expect("whichever version it is");
    assert_eq!(phase(), "Succeeded");
}

#[test]
fn an_update_without_version_is_unconditional() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", config_map("c"));
    let mut object = config_map("c");
    object["data"] = json!({"k": "v"});
    assert_eq!(cluster.update("configmaps", "c", &object).expect("updated")["data"], json!({"k": "v"}));
    cluster.made("leases.coordination.k8s.io", json!({"metadata": {"name": "l"}}));
    let text = cluster.update("leases.coordination.k8s.io", "l", &json!({"metadata": {"name": "l"}})).expect_err("refused").to_string();
    let wanted = "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    assert_eq!(text, wanted);
}

#[test]
fn some_kinds_are_created_by_an_update() {
    let cluster = TestCluster::new();
    let body = Body::Json(json!({"metadata": {"name": "l"}}).to_string().into_bytes());
    let written = now(cluster.registry.update(&Actor::System, &target("leases.coordination.k8s.io", "l"), body, &WriteOptions::default()))
        .expect("created");
    assert!(written.created);
    cluster.get("leases.coordination.k8s.io", "l").expect("there");
    let limits = Body::Json(json!({"metadata": {"name": "l"}, "spec": {"limits": []}}).to_string().into_bytes());
    assert!(
        now(cluster.registry.update(&Actor::System, &target("limitranges", "l"), limits, &WriteOptions::default()))
            .expect("created")
            .created
    );
    // An update that requires a resource version fails first because the object is missing.
    let budget = json!({"metadata": {"name": "b"}, "spec": {}});
    let missing = cluster.update("poddisruptionbudgets.policy", "b", &budget).expect_err("it is not there").to_string();
    assert_eq!(missing, "poddisruptionbudgets.policy \"b\" not found");
    assert!(cluster.update("configmaps", "c", &config_map("c")).is_err());
}

#[test]
fn what_is_the_servers_is_restored() {
    let cluster = TestCluster::new();
    let made = cluster.made("deployments.apps", deployment("d"));
    let mut object = made.clone();
    object["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    object["metadata"]["generation"] = 77.into();
    object["metadata"]["labels"] = json!({"x": "y"});
    let updated = cluster.update("deployments.apps", "d", &object).expect("updated");
    for member in ["creationTimestamp", "generation", "deletionTimestamp", "uid"] {
        assert_eq!(updated["metadata"][member], made["metadata"][member], "{member}");
    }
    assert_eq!(updated["metadata"]["labels"], json!({"x": "y"}));
}

#[test]
fn the_generation_follows_the_spec() {
    let cluster = TestCluster::new();
    cluster.made("deployments.apps", deployment("d"));
    let generation = |what: &str, patch: Value| cluster.merge(what, "d", patch).expect("patched")["metadata"]["generation"].clone();
    assert_eq!(generation("deployments.apps", json!({"metadata": {"labels": {"x": "y"}}})), 1);
    assert_eq!(generation("deployments.apps", json!({"spec": {"replicas": 5}})), 2);
    assert_eq!(generation("deployments.apps", json!({"metadata": {"annotations": {"x": "y"}}})), 3);
    assert_eq!(generation("deployments.apps/status", json!({"status": {"replicas": 5}})), 3);
    assert_eq!(generation("deployments.apps/status", json!({"metadata": {"annotations": {"z": "y"}}})), 3);
    cluster.made("configmaps", config_map("c"));
    assert_eq!(cluster.merge("configmaps", "c", json!({"data": {"k": "v"}})).expect("patched")["metadata"]["generation"], Value::Null);
}

#[test]
fn the_main_endpoint_keeps_the_status_and_the_status_keeps_the_rest() {
    let cluster = TestCluster::new();
    cluster.made("deployments.apps", deployment("d"));
    let patch = json!({"spec": {"replicas": 7}, "status": {"replicas": 2, "observedGeneration": 1}});
    let status = cluster.merge("deployments.apps/status", "d", patch.clone()).expect("patched");
    assert_eq!((&status["spec"]["replicas"], &status["status"]["replicas"]), (&json!(3), &json!(2)));
    let main = cluster.merge("deployments.apps", "d", json!({"spec": {"replicas": 7}, "status": {"replicas": 9}})).expect("patched");
    assert_eq!((&main["spec"]["replicas"], &main["status"]["replicas"]), (&json!(7), &json!(2)));
    let mut put = main.clone();
    put["status"]["replicas"] = 4.into();
    put["spec"]["replicas"] = 1.into();
    let put = cluster.update("deployments.apps/status", "d", &put).expect("updated");
    assert_eq!((&put["spec"]["replicas"], &put["status"]["replicas"]), (&json!(7), &json!(4)));
}

/// A merge patch of a status does not decode the rest of the object. No kind may lose fields by that.
#[test]
fn a_status_patch_loses_nothing_of_any_kind() {
    let containers = json!([{"name": "c", "image": "i"}]);
    let ending = || json!({"template": {"spec": {"restartPolicy": "Never", "containers": containers}}});
    let with_labels = || json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}});
    let specs = [
        ("deployments.apps", deployment("x")),
        ("replicasets.apps", {
            let mut set = deployment("x");
            set["kind"] = "ReplicaSet".into();
            set
        }),
        ("statefulsets.apps", {
            let mut set = deployment("x");
            set["kind"] = "StatefulSet".into();
            set
        }),
        ("pods", pod("x")),
        ("services", json!({"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}})),
        ("namespaces", json!({"metadata": {"name": "x"}})),
        ("nodes", json!({"metadata": {"name": "x"}, "spec": {"unschedulable": true}})),
        ("persistentvolumeclaims", {
            json!({"metadata": {"name": "x"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
        }),
        ("persistentvolumes", {
            json!({"metadata": {"name": "x"}, "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                "hostPath": {"path": "/x"}}})
        }),
        ("resourcequotas", json!({"metadata": {"name": "x"}, "spec": {"hard": {"pods": "5"}}})),
        (
            "poddisruptionbudgets.policy",
            json!({"metadata": {"name": "x"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}),
        ),
        (
            "horizontalpodautoscalers.autoscaling",
            json!({"metadata": {"name": "x"}, "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}}),
        ),
        ("servicecidrs.networking.k8s.io", json!({"metadata": {"name": "x"}, "spec": {"cidrs": ["10.1.2.0/24"]}})),
        ("ingresses.networking.k8s.io", {
            json!({"metadata": {"name": "x"}, "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}})
        }),
        ("jobs.batch", json!({"metadata": {"name": "x"}, "spec": ending()})),
        ("cronjobs.batch", json!({"metadata": {"name": "x"}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": ending()}}})),
        ("daemonsets.apps", {
            json!({"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": with_labels()}})
        }),
        ("replicationcontrollers", json!({"metadata": {"name": "x"}, "spec": {"template": with_labels()}})),
        ("volumeattachments.storage.k8s.io", {
            json!({"metadata": {"name": "x"}, "spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}})
        }),
        ("validatingadmissionpolicies.admissionregistration.k8s.io", {
            let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]});
            json!({"metadata": {"name": "x"}, "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}})
        }),
        ("customresourcedefinitions.apiextensions.k8s.io", {
            let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
            json!({"metadata": {"name": "xs.e.com"}, "spec": {"group": "e.com", "scope": "Cluster", "names": {"plural": "xs", "kind": "X"},
                "versions": [version]}})
        }),
        ("apiservices.apiregistration.k8s.io", {
            json!({"metadata": {"name": "v1.x"}, "spec": {"group": "x", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}})
        }),
        ("flowschemas.flowcontrol.apiserver.k8s.io", {
            json!({"metadata": {"name": "x"}, "spec": {"priorityLevelConfiguration": {"name": "catch-all"}}})
        }),
        ("certificatesigningrequests.certificates.k8s.io", {
            let request = include_bytes!("../../../berth-api/src/certificates/request.pem").to_vec();
            json!({"metadata": {"name": "x"}, "spec": {"request": ByteString(request), "signerName": "example.com/x", "usages": ["any"]}})
        }),
        ("resourceclaims.resource.k8s.io", json!({"metadata": {"name": "x"}, "spec": {"devices": {}}})),
        ("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", {
            json!({"metadata": {"name": "x"}, "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}})
        }),
    ];
    // Another version of a kind has the same objects.
    let of_stored_version = resource::built_in().stored().filter(|resource| resource.stored_api_version() == resource.api_version());
    let with_status = of_stored_version.filter(|resource| resource.subresources.contains(&berth_registry::Subresource::Status));
    assert_eq!(with_status.count(), specs.len(), "every kind with a status is tried");
    for (what, object) in specs {
        let cluster = TestCluster::new();
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let made = cluster.made(what, object);
        let patch = json!({"metadata": {"annotations": {"k": "v"}}, "status": {"conditions": [{"type": "T", "status": "True",
            "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        let patched = cluster.merge(&format!("{what}/status"), &name, patch).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(patched["spec"], made["spec"], "{what}");
    }
}

/// A patch of only the status has the same result as one that also contains the current metadata.
#[test]
fn a_patch_of_a_status_alone_leaves_all_else_as_it_is() {
    let metadata = json!({
        "name": "x", "labels": {"a": "b"}, "annotations": {"k": "v"}, "finalizers": ["example.com/f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}],
    });
    let condition = json!({"type": "T", "status": "True", "reason": "R", "message": "M", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"conditions": [condition]}});
    for (what, mut object) in [("deployments.apps", deployment("x")), ("pods", pod("x"))] {
        object["metadata"] = metadata.clone();
        let patched = |metadata: Option<&Value>| {
            let cluster = TestCluster::new();
            let made = cluster.made(what, object.clone());
            let mut patch = status.clone();
            if let Some(metadata) = metadata {
                patch["metadata"] = metadata.clone();
            }
            (cluster.merge(&format!("{what}/status"), "x", patch).expect("patched"), made)
        };
        let (alone, made) = patched(None);
        assert_eq!(alone, patched(Some(&metadata)).0, "{what}");
        for member in ["labels", "annotations", "finalizers", "ownerReferences", "uid", "creationTimestamp"] {
            assert_eq!(alone["metadata"][member], made["metadata"][member], "{what}: {member}");
        }
        assert_eq!(alone["status"]["conditions"], status["status"]["conditions"]);
    }
}

#[test]
fn uid_and_version_in_a_patch_of_a_status_are_preconditions() {
    let cluster = TestCluster::new();
    let made = cluster.made("deployments.apps", deployment("d"));
    let patch =
        |metadata: Value| cluster.merge("deployments.apps/status", "d", json!({"metadata": metadata, "status": {"observedGeneration": 7}}));
    let refused = |metadata: Value| matches!(patch(metadata), Err(ApiError::Conflict { .. }));
    assert!(refused(json!({"uid": "x"})) && refused(json!({"resourceVersion": "1"})));
    let right = json!({"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]});
    assert_eq!(patch(right.clone()).expect("as expected")["status"]["observedGeneration"], 7);
    assert!(refused(right), "it has changed since");
    let nameless = patch(Value::Null).expect_err("no metadata, no name").to_string();
    assert!(nameless.starts_with("the name of the object (d based on URL) was undeterminable"), "{nameless}");
}

#[test]
fn uid_and_version_in_a_patch_are_preconditions() {
    let cluster = TestCluster::new();
    let made = cluster.made("deployments.apps", deployment("d"));
    let patch = |uid: &str, version: &str| {
        let meta = json!({"uid": uid, "resourceVersion": version, "labels": {"x": "y"}});
        cluster.merge("deployments.apps", "d", json!({"metadata": meta}))
    };
    let text = |member: &str| made["metadata"][member].as_str().expect("text").to_owned();
    let (uid, version) = (text("uid"), text("resourceVersion"));
    for (uid, version) in [("x", version.as_str()), (uid.as_str(), "1")] {
        assert!(matches!(patch(uid, version), Err(ApiError::Conflict { .. })), "{uid} {version}");
    }
    patch(&uid, &version).expect("as expected");
    assert!(matches!(patch(&uid, &version), Err(ApiError::Conflict { .. })), "it has changed since");

    let precondition = Precondition { uid: Some("x".to_owned()), resource_version: None };
    let options = WriteOptions { precondition, ..WriteOptions::default() };
    let patched = cluster.patch("deployments.apps", "d", Patch::MergeValue(json!({"spec": {"replicas": 1}})), &options);
    assert!(matches!(patched, Err(ApiError::Conflict { .. })));
}

#[test]
fn patches_that_cannot_be_read_are_refused() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", config_map("c"));
    let check = |patch: Patch, validation: &str, wanted: &str| {
        let options = WriteOptions { field_validation: validation.to_owned(), ..WriteOptions::default() };
        let text = cluster.patch("configmaps", "c", patch, &options).expect_err("refused").to_string();
        assert!(text.starts_with(wanted), "{text}\n  is not\n{wanted}");
    };
    let merge = |value: Value| Patch::Merge(value.to_string().into_bytes());
    check(Patch::Merge(b"{".to_vec()), "", "error decoding patch: ");
    check(Patch::Strategic(b"[]".to_vec()), "", "error decoding patch: ");
    let unknown = merge(json!({"bogus": 1}));
    let text = "\"\" is invalid: patch: Invalid value: \"{\\\"bogus\\\":1}\": strict decoding error: unknown field \"bogus\"";
    check(unknown.clone(), "Strict", &format!(" {text}"));
    check(merge(json!({"data": 5})), "", " \"\" is invalid: patch: Invalid value: ");
    check(merge(json!({"metadata": {"name": "d"}})), "", "the name of the object (d) does not match the name on the URL (c)");
    let text = "the namespace of the provided object does not match the namespace sent on the request";
    check(merge(json!({"metadata": {"namespace": "d"}})), "", text);
    let forced = WriteOptions { force: Some(true), ..WriteOptions::default() };
    let text = cluster.patch("configmaps", "c", unknown, &forced).expect_err("refused").to_string();
    let wanted = "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch";
    assert_eq!(text, wanted);
}

#[test]
fn a_null_in_a_merge_patch_removes_and_defaults_come_again() {
    let cluster = TestCluster::new();
    cluster.made("deployments.apps", deployment("d"));
    cluster.merge("deployments.apps", "d", json!({"metadata": {"labels": {"a": "1", "b": "2"}}})).expect("patched");
    let patched = cluster.merge("deployments.apps", "d", json!({"metadata": {"labels": {"a": null}}, "spec": {"replicas": null}}));
    let patched = patched.expect("patched");
    assert_eq!(patched["metadata"]["labels"], json!({"b": "2"}));
    assert_eq!(patched["spec"]["replicas"], 1);
}

#[test]
fn a_dry_run_changes_nothing_and_shows_the_version_it_was_tried_on() {
    let cluster = TestCluster::new();
    let made = cluster.made("deployments.apps", deployment("d"));
    let options = WriteOptions { dry_run: vec!["All".to_owned()], ..WriteOptions::default() };
    let tried = cluster.patch("deployments.apps", "d", Patch::MergeValue(json!({"spec": {"replicas": 9}})), &options).expect("tried");
    assert_eq!((&tried["spec"]["replicas"], &tried["metadata"]["generation"]), (&json!(9), &json!(2)));
    assert_eq!(tried["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(cluster.get("deployments.apps", "d").expect("there"), made);
}

#[test]
fn an_invalid_result_lists_its_faults() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", config_map("c"));
    let error = cluster.merge("configmaps", "c", json!({"metadata": {"labels": {"-": "x"}}})).expect_err("refused");
    let ApiError::Invalid { kind, name, errors, .. } = error else { panic!("{error}") };
    assert_eq!((kind.kind.as_str(), name.as_str()), ("ConfigMap", "c"));
    assert_eq!(errors[0].field.to_string(), "metadata.labels");
}

#[test]
fn a_bad_deletion_cost_alone_is_a_bad_request() {
    let cluster = TestCluster::new();
    let mut costly = pod("p");
    costly["metadata"]["annotations"] = json!({"controller.kubernetes.io/pod-deletion-cost": "abc"});
    let error = cluster.create("pods", costly.clone()).expect_err("refused");
    assert!(matches!(&error, ApiError::BadRequestFields { errors, .. } if errors.len() == 1), "{error}");
    costly["metadata"]["labels"] = json!({"-": "x"});
    assert!(matches!(cluster.create("pods", costly), Err(ApiError::Invalid { .. })));
}

#[test]
fn a_kind_has_only_its_own_subresources() {
    let cluster = TestCluster::new();
    let made = cluster.made("configmaps", config_map("c"));
    let status = berth_registry::Target { subresource: Some(berth_registry::Subresource::Status), ..target("configmaps", "c") };
    let patched = now(cluster.registry.patch(&Actor::System, &status, Patch::MergeValue(json!({"status": {}})), &WriteOptions::default()));
    assert!(matches!(patched, Err(ApiError::UnknownResource)));
    let body = Body::Json(made.to_string().into_bytes());
    assert!(matches!(
        now(cluster.registry.update(&Actor::System, &status, body, &WriteOptions::default())),
        Err(ApiError::UnknownResource)
    ));
    assert!(matches!(now(cluster.registry.get(&status, &Default::default())), Err(ApiError::UnknownResource)));
    assert_eq!(cluster.get("configmaps", "c").expect("there"), made);
}

#[test]
fn every_kind_of_patch_reaches_the_object() {
    let cluster = TestCluster::new();
    cluster.made("deployments.apps", deployment("d"));
    let patch = |patch: Patch| cluster.patch("deployments.apps", "d", patch, &WriteOptions::default());
    let operations = json!([{"op": "replace", "path": "/spec/replicas", "value": 4}]).to_string().into_bytes();
    assert_eq!(patch(Patch::Json(operations)).expect("patched")["spec"]["replicas"], 4);
    let failing = json!([{"op": "test", "path": "/spec/replicas", "value": 3}]).to_string().into_bytes();
    assert!(matches!(patch(Patch::Json(failing)), Err(ApiError::Unprocessable)));
    let container = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}});
    let patched = patch(Patch::Strategic(container.to_string().into_bytes())).expect("patched");
    assert_eq!(patched["spec"]["template"]["spec"]["containers"][0]["image"], "i:2");
    assert_eq!(patched["metadata"]["generation"], 3);
}

#[test]
fn a_replaced_pod_keeps_what_admission_gave_it() {
    let cluster = TestCluster::new();
    let made = cluster.made("pods", pod("p"));
    assert_eq!((&made["spec"]["priority"], &made["spec"]["preemptionPolicy"]), (&json!(0), &json!("PreemptLowerPriority")));
    let mut manifest = pod("p");
    manifest["metadata"]["labels"]["more"] = json!("1");
    manifest["spec"]["serviceAccountName"] = json!("default");
    let replaced = cluster.update("pods", "p", &manifest).expect("replaced");
    assert_eq!(replaced["spec"], made["spec"]);
}

#[test]
fn owners_that_are_listed_twice_are_kept_once() {
    let cluster = TestCluster::new();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"});
    let mut object = config_map("c");
    object["metadata"]["ownerReferences"] = json!([owner, owner]);
    let written = cluster.create_with("configmaps", object, &WriteOptions::default()).expect("created");
    assert_eq!(json_of(&written.object)["metadata"]["ownerReferences"], json!([owner]));
    assert!(written.warnings[0].ends_with("duplicate UID(s) observed: u"), "{:?}", written.warnings);
}

#[test]
fn a_volume_has_the_time_of_its_phase_transition_and_a_class_starts_at_generation_one() {
    let cluster = TestCluster::new();
    let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}});
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": spec});
    let made = cluster.made("persistentvolumes", volume);
    assert_eq!(made["status"]["lastPhaseTransitionTime"], made["metadata"]["creationTimestamp"]);
    let told = json!({"status": {"phase": "Bound", "lastPhaseTransitionTime": "2025-05-05T00:00:00Z"}});
    let bound = cluster.merge("persistentvolumes/status", "v", told).expect("patched");
    assert_eq!(bound["status"]["lastPhaseTransitionTime"], "2025-05-05T00:00:00Z", "who changes the phase may say since when");
    let released = cluster.merge("persistentvolumes/status", "v", json!({"status": {"phase": "Released"}})).expect("patched");
    assert_ne!(released["status"]["lastPhaseTransitionTime"], "2025-05-05T00:00:00Z");
    let same = cluster.merge("persistentvolumes/status", "v", json!({"status": {"message": "m"}})).expect("patched");
    assert_eq!(same["status"]["lastPhaseTransitionTime"], released["status"]["lastPhaseTransitionTime"]);

    let class =
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high", "generation": 7}, "value": 5});
    assert_eq!(cluster.made("priorityclasses.scheduling.k8s.io", class)["metadata"]["generation"], 1);
    let changed = cluster.merge("priorityclasses.scheduling.k8s.io", "high", json!({"description": "d"})).expect("patched");
    assert_eq!(changed["metadata"]["generation"], 1);
}

#[test]
fn the_name_of_a_service_may_begin_with_a_digit() {
    let cluster = TestCluster::new();
    let service =
        |name: &str| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    cluster.made("services", service("1web"));
    let error = cluster.create("services", service("web-")).expect_err("refused").to_string();
    assert!(error.contains("metadata.name: Invalid value: \"web-\": a lowercase RFC 1123 label must consist of"), "{error}");
}

#[test]
fn a_new_base_of_names_is_checked_where_upstream_validates_the_whole_object() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", json!({"metadata": {"name": "c"}}));
    cluster.made("deployments.apps", deployment("d"));
    let base = |base: &str| json!({"metadata": {"generateName": base}});
    let refused = cluster.merge("configmaps", "c", base("UPPER")).expect_err("no name begins so").to_string();
    assert!(
        refused.starts_with("ConfigMap \"c\" is invalid: metadata.generateName: Invalid value: \"UPPER\": a lowercase RFC 1123"),
        "{refused}"
    );
    cluster.merge("configmaps", "c", base("c-")).expect("names may begin so");
    cluster.merge("deployments.apps", "d", base("UPPER")).expect("it is not checked");
}

#[test]
fn a_strategic_patch_that_does_not_fit_is_shown_as_go_prints_it() {
    let cluster = TestCluster::new();
    cluster.made("deployments.apps", deployment("d"));
    let patch = Patch::Strategic(br#"{"spec": {"paused": [null, "x"]}}"#.to_vec());
    let refused = cluster.patch("deployments.apps", "d", patch, &WriteOptions::default()).expect_err("it does not fit").to_string();
    let wanted = "patch: Invalid value: \"map[spec:map[paused:[<nil> x]]]\": unrecognized type: bool";
    assert!(refused.ends_with(wanted), "{refused}");
}
