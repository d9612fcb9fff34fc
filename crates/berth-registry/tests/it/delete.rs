use crate::test_cluster::{TestCluster, config_map, deployment, json_of, labeled, names, now, pod, target};
use berth_registry::{Actor, ApiError, DeleteOptions, Deleted, ListOptions, options::Precondition};
use serde_json::{Value, json};

fn policy(policy: &str) -> DeleteOptions {
    DeleteOptions { propagation_policy: Some(policy.to_owned()), ..DeleteOptions::default() }
}

fn grace(seconds: i64) -> DeleteOptions {
    DeleteOptions { grace_period_seconds: Some(seconds), ..DeleteOptions::default() }
}

fn bound(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = "n1".into();
    pod
}

fn finalized(name: &str, finalizers: &[&str]) -> Value {
    json!({"metadata": {"name": name, "finalizers": finalizers}})
}

#[test]
fn an_object_that_nothing_holds_is_gone_at_once() {
    let cluster = TestCluster::new();
    let made = cluster.made("configmaps", config_map("c"));
    let deleted = now(cluster.registry.delete(&Actor::System, &target("configmaps", "c"), &DeleteOptions::default())).expect("deleted");
    let Deleted::Gone { uid, revision } = deleted else { panic!("it is gone") };
    assert_eq!(made["metadata"]["uid"], uid);
    assert_eq!(revision.map(|revision| revision.0), Some(cluster.revision()));
    let error = cluster.delete("configmaps", "c", &DeleteOptions::default()).expect_err("gone");
    assert_eq!(error.to_string(), "configmaps \"c\" not found");
}

#[test]
fn preconditions_are_conflicts_about_the_kind() {
    let cluster = TestCluster::new();
    let made = cluster.made("deployments.apps", deployment("d"));
    let uid = made["metadata"]["uid"].as_str().expect("a uid").to_owned();
    let version = made["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    let delete = |uid: Option<&str>, version: Option<&str>| {
        let precondition = Precondition { uid: uid.map(str::to_owned), resource_version: version.map(str::to_owned) };
        cluster.delete("deployments.apps", "d", &DeleteOptions { precondition, ..DeleteOptions::default() })
    };
    let error = delete(Some("bad"), None).expect_err("refused");
    assert_eq!(
        error.to_string(),
        format!(
            "Operation cannot be fulfilled on Deployment.apps \"d\": the UID in the precondition (bad) does not match the UID in record \
             ({uid}). The object might have been deleted and then recreated"
        )
    );
    assert!(matches!(error, ApiError::Conflict { resource, .. } if resource.plural == "Deployment"));
    let text = delete(None, Some("1")).expect_err("refused").to_string();
    let wanted =
        format!("the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). The object");
    assert!(text.contains(&wanted), "{text}");
    assert_eq!(delete(Some(&uid), Some(&version)).expect("deleted"), None);
}

#[test]
fn policies_become_finalizers() {
    let check = |before: &[&str], options: &DeleteOptions, wanted: Option<&[&str]>| {
        let cluster = TestCluster::new();
        cluster.made("configmaps", finalized("c", before));
        let after = cluster.delete("configmaps", "c", options).expect("deleted");
        let found = after.map(|object| {
            assert_eq!(object["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
            assert_eq!(object["metadata"]["deletionGracePeriodSeconds"], 0);
            object["metadata"]["finalizers"].clone()
        });
        assert_eq!(found, wanted.map(|finalizers| json!(finalizers)), "{before:?} {options:?}");
    };
    let legacy = |orphan| DeleteOptions { orphan_dependents: Some(orphan), ..DeleteOptions::default() };
    check(&[], &policy("Background"), None);
    check(&[], &policy("Foreground"), Some(&["foregroundDeletion"]));
    check(&[], &policy("Orphan"), Some(&["orphan"]));
    check(&[], &legacy(true), Some(&["orphan"]));
    check(&[], &legacy(false), None);
    check(&["orphan"], &DeleteOptions::default(), Some(&["orphan"]));
    check(&["foregroundDeletion"], &DeleteOptions::default(), Some(&["foregroundDeletion"]));
    check(&["foregroundDeletion"], &policy("Background"), None);
    check(&["foregroundDeletion"], &policy("Orphan"), Some(&["orphan"]));
    check(&["orphan", "a/b"], &policy("Foreground"), Some(&["a/b", "foregroundDeletion"]));
    check(&["a/b"], &DeleteOptions::default(), Some(&["a/b"]));
}

#[test]
fn a_held_object_lingers_until_its_last_finalizer_goes() {
    let cluster = TestCluster::new();
    let mut held = deployment("d");
    held["metadata"]["finalizers"] = json!(["a/b"]);
    cluster.made("deployments.apps", held);
    let marked = cluster.delete("deployments.apps", "d", &DeleteOptions::default()).expect("marked").expect("it lingers");
    assert_eq!(marked["metadata"]["generation"], 2);
    let again = cluster.delete("deployments.apps", "d", &DeleteOptions::default()).expect("marked").expect("it lingers");
    assert_eq!(again, marked, "the second request changes nothing");
    let text =
        cluster.merge("deployments.apps", "d", json!({"metadata": {"finalizers": ["a/b", "c/d"]}})).expect_err("refused").to_string();
    assert!(text.contains("no new finalizers can be added if the object is being deleted, found new finalizers"), "{text}");
    let kept =
        cluster.merge("deployments.apps", "d", json!({"metadata": {"deletionTimestamp": null, "labels": {"x": "y"}}})).expect("changed");
    assert_eq!(kept["metadata"]["deletionTimestamp"], marked["metadata"]["deletionTimestamp"]);
    let last = cluster.merge("deployments.apps", "d", json!({"metadata": {"finalizers": null}})).expect("changed");
    assert_eq!(last["metadata"]["name"], "d");
    assert!(matches!(cluster.get("deployments.apps", "d"), Err(ApiError::NotFound { .. })));
}

#[test]
fn a_dry_run_deletes_nothing() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", config_map("c"));
    cluster.made("pods", bound("p"));
    let before = cluster.revision();
    let dry = DeleteOptions { dry_run: vec!["All".to_owned()], ..DeleteOptions::default() };
    assert_eq!(cluster.delete("configmaps", "c", &dry).expect("tried"), None);
    assert!(cluster.delete("pods", "p", &dry).expect("tried").is_some());
    assert!(cluster.delete("configmaps", "c", &DeleteOptions { dry_run: vec!["x".to_owned()], ..DeleteOptions::default() }).is_err());
    assert_eq!(cluster.revision(), before);
}

/// Returns a pod's deletion timestamp and its grace period.
fn end(pod: &Value) -> (&str, i64) {
    let meta = &pod["metadata"];
    (meta["deletionTimestamp"].as_str().expect("a time"), meta["deletionGracePeriodSeconds"].as_i64().expect("a number"))
}

#[test]
fn pods_are_deleted_gracefully() {
    // The pod, the requested grace period, and the resulting one. `None`: the pod is removed at once.
    let check = |what: &str, asked: Option<i64>, wanted: Option<(&str, i64)>| {
        let cluster = TestCluster::new();
        let mut object = if what == "unscheduled" { pod("p") } else { bound("p") };
        if what == "negative" {
            object["spec"]["terminationGracePeriodSeconds"] = (-5).into();
        } else if what == "patient" {
            object["spec"]["terminationGracePeriodSeconds"] = 90.into();
        }
        cluster.made("pods", object);
        if matches!(what, "Succeeded" | "Failed") {
            cluster.merge("pods/status", "p", json!({"status": {"phase": what}})).expect("changed");
        }
        let options = DeleteOptions { grace_period_seconds: asked, ..DeleteOptions::default() };
        let answer = cluster.delete("pods", "p", &options).expect("deleted").expect("always the pod");
        assert_eq!(answer["metadata"]["name"], "p");
        let found = cluster.get("pods", "p").ok();
        assert_eq!(found.as_ref().map(end), wanted, "{what} {asked:?}");
        // A pod that is removed at once has the current time as its deletion timestamp.
        assert_eq!(end(&answer), wanted.unwrap_or(("2026-01-01T00:00:00Z", 0)), "{what} {asked:?}");
        assert_eq!(answer["metadata"]["generation"], 2, "{what} {asked:?}");
    };
    check("bound", None, Some(("2026-01-01T00:00:30Z", 30)));
    check("patient", None, Some(("2026-01-01T00:01:30Z", 90)));
    check("bound", Some(5), Some(("2026-01-01T00:00:05Z", 5)));
    check("bound", Some(-1), Some(("2026-01-01T00:00:01Z", 1)));
    check("bound", Some(0), None);
    check("negative", None, Some(("2026-01-01T00:00:01Z", 1)));
    check("unscheduled", None, None);
    check("unscheduled", Some(60), None);
    check("Succeeded", None, None);
    check("Failed", None, None);
}

#[test]
fn a_deleted_object_is_returned_unless_the_caller_does_not_need_it_and_a_terminating_one_always() {
    let check = |grace_period_seconds: i64, is_last_unseen: bool, is_shown: bool| {
        let cluster = TestCluster::new();
        cluster.made("pods", bound("p"));
        let options = DeleteOptions { grace_period_seconds: Some(grace_period_seconds), is_last_unseen, ..DeleteOptions::default() };
        let shown = cluster.delete("pods", "p", &options).expect("deleted");
        assert_eq!(shown.is_some(), is_shown, "{grace_period_seconds} {is_last_unseen}");
        assert_eq!(cluster.get("pods", "p").is_ok(), grace_period_seconds > 0);
    };
    check(0, true, false);
    check(0, false, true);
    check(30, true, true);
}

#[test]
fn a_grace_period_can_only_be_shortened() {
    let cluster = TestCluster::new();
    cluster.made("pods", bound("p"));
    let delete = |options: &DeleteOptions| cluster.delete("pods", "p", options).expect("deleted").expect("the pod");
    let times = |pod: &Value| (pod["metadata"]["deletionTimestamp"].clone(), pod["metadata"]["deletionGracePeriodSeconds"].clone());
    let first = delete(&DeleteOptions::default());
    assert_eq!(times(&first), (json!("2026-01-01T00:00:30Z"), json!(30)));
    assert_eq!(first["metadata"]["generation"], 2);
    assert_eq!(delete(&DeleteOptions::default()), first);
    assert_eq!(delete(&grace(60)), first);
    cluster.clock.advance(5);
    assert_eq!(times(&delete(&grace(10))), (json!("2026-01-01T00:00:10Z"), json!(10)));
    cluster.clock.advance(4);
    assert_eq!(times(&delete(&grace(3))), (json!("2026-01-01T00:00:10Z"), json!(1)), "not into the past: a second from now");
    assert_eq!(times(&delete(&grace(0))), (json!("2026-01-01T00:00:09Z"), json!(0)), "it ends now");
    assert!(matches!(cluster.get("pods", "p"), Err(ApiError::NotFound { .. })));
}

#[test]
fn a_finalizer_holds_a_pod_beyond_its_grace() {
    let cluster = TestCluster::new();
    let mut held = bound("p");
    held["metadata"]["finalizers"] = json!(["a/b"]);
    cluster.made("pods", held);
    cluster.delete("pods", "p", &DeleteOptions::default()).expect("marked");
    let over = cluster.delete("pods", "p", &grace(0)).expect("marked").expect("the pod");
    assert_eq!(over["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(over["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(over["metadata"]["generation"], 2);
    cluster.merge("pods", "p", json!({"metadata": {"finalizers": []}})).expect("released");
    assert!(cluster.get("pods", "p").is_err());
}

#[test]
fn a_pod_keeps_its_grace_when_its_finalizer_goes_early() {
    let cluster = TestCluster::new();
    let mut held = bound("p");
    held["metadata"]["finalizers"] = json!(["a/b"]);
    cluster.made("pods", held);
    cluster.delete("pods", "p", &DeleteOptions::default()).expect("marked");
    cluster.merge("pods", "p", json!({"metadata": {"finalizers": []}})).expect("released");
    assert_eq!(cluster.get("pods", "p").expect("still there")["metadata"]["deletionGracePeriodSeconds"], 30);
}

#[test]
fn namespaces_terminate_until_they_are_finalized() {
    let cluster = TestCluster::new();
    cluster.made("namespaces", json!({"metadata": {"name": "ns"}}));
    let marked = cluster.delete("namespaces", "ns", &DeleteOptions::default()).expect("marked").expect("the namespace");
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(cluster.delete("namespaces", "ns", &DeleteOptions::default()).expect("again"), Some(marked.clone()));
    let mut done = marked;
    done["spec"]["finalizers"] = json!([]);
    cluster.update("namespaces", "ns", &done).expect("the main endpoint keeps the finalizers");
    done["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    cluster.get("namespaces", "ns").expect("still there");
    let last = cluster.update("namespaces/finalize", "ns", &done).expect("finalized");
    assert_eq!(last["metadata"]["name"], "ns");
    assert!(cluster.get("namespaces", "ns").is_err());
}

/// The messages are those of 1.36.2.
#[test]
fn finalizers_that_are_no_names_are_refused_through_finalize_too() {
    let cluster = TestCluster::new();
    cluster.made("namespaces", json!({"metadata": {"name": "ns"}}));
    let refused = |finalizer: &str| {
        let object = json!({"metadata": {"name": "ns"}, "spec": {"finalizers": ["kubernetes", finalizer]}});
        cluster.update("namespaces/finalize", "ns", &object).expect_err("refused").to_string()
    };
    assert_eq!(
        refused("bad name/x y"),
        "Namespace \"ns\" is invalid: [spec.finalizers[1]: Invalid value: \"bad name/x y\": prefix part a lowercase RFC 1123 subdomain must \
         consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', \
         regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'), spec.finalizers[1]: Invalid value: \
         \"bad name/x y\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
         character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')]"
    );
    let plain = "Namespace \"ns\" is invalid: spec.finalizers[1]: Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully qualified";
    assert_eq!(refused("mine"), plain);
    assert_eq!(cluster.get("namespaces", "ns").expect("there")["spec"]["finalizers"], json!(["kubernetes"]));
}

#[test]
fn some_namespaces_are_immortal() {
    let cluster = TestCluster::new();
    for name in ["default", "kube-system", "kube-public"] {
        let text = cluster.delete("namespaces", name, &DeleteOptions::default()).expect_err("refused").to_string();
        assert_eq!(text, format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted"));
    }
    cluster.delete("namespaces", "kube-node-lease", &DeleteOptions::default()).expect("mortal");
}

#[test]
fn a_collection_is_deleted_as_selected() {
    let cluster = TestCluster::new();
    for (name, value) in [("a", "1"), ("b", "2"), ("c", "1")] {
        cluster.made("configmaps", labeled(name, "x", value));
    }
    let list = ListOptions { label_selector: "x=1".to_owned(), ..ListOptions::default() };
    let at = crate::test_cluster::collection("configmaps");
    let dry = DeleteOptions { dry_run: vec!["All".to_owned()], ..DeleteOptions::default() };
    let tried = now(cluster.registry.delete_collection(&Actor::System, &at, &list, &dry)).expect("tried");
    assert_eq!(names(&tried), ["a", "c"]);
    assert_eq!(cluster.names("configmaps", &ListOptions::default()), ["a", "b", "c"]);
    let deleted = now(cluster.registry.delete_collection(&Actor::System, &at, &list, &DeleteOptions::default())).expect("deleted");
    assert_eq!(names(&deleted), ["a", "c"]);
    assert_eq!(cluster.names("configmaps", &ListOptions::default()), ["b"]);
    let everywhere = crate::test_cluster::collection("configmaps@*");
    let error =
        now(cluster.registry.delete_collection(&Actor::System, &everywhere, &list, &DeleteOptions::default())).expect_err("refused");
    assert!(matches!(error, ApiError::MethodNotAllowed));
}

#[test]
fn a_collection_that_is_large_is_deleted_whole_and_returned_in_part() {
    let cluster = TestCluster::new();
    for number in 0..6 {
        let mut object = labeled(&format!("c{number}"), "x", "1");
        object["data"] = json!({"a": "x".repeat(1 << 19)});
        object["binaryData"] = json!({"b": "eHh4".repeat(1 << 16)});
        cluster.made("configmaps", object);
    }
    let at = crate::test_cluster::collection("configmaps");
    let deleted =
        now(cluster.registry.delete_collection(&Actor::System, &at, &ListOptions::default(), &DeleteOptions::default())).expect("deleted");
    assert_eq!(names(&deleted), ["c0", "c1", "c2", "c3", "c4"]);
    assert_eq!((deleted.remaining, deleted.continue_token.as_str()), (Some(1), ""), "as many as were not told");
    assert_eq!(cluster.names("configmaps", &ListOptions::default()), Vec::<String>::new());
}

#[test]
fn the_answer_to_a_deletion_shows_its_revision() {
    let cluster = TestCluster::new();
    cluster.made("pods", pod("p"));
    let deleted = now(cluster.registry.delete(&Actor::System, &target("pods", "p"), &DeleteOptions::default())).expect("deleted");
    let Deleted::Object(current) = deleted else { panic!("pods are always shown") };
    assert_eq!(json_of(&current)["metadata"]["resourceVersion"], cluster.revision().to_string());
}
