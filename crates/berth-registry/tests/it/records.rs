//! `RolloutRecords`: the server records the author of changes to a workload, through every write path.

use crate::test_cluster::{TestCluster, collection, deployment, json_of, now, target};
use berth_api::{FeatureGates, Gate};
use berth_rbac::{MASTERS, User};
use berth_registry::{Actor, ApiError, Body, Patch, Registry, WriteOptions};
use serde_json::{Value, json};
use std::sync::Arc;

const D: &str = "deployments.apps";
const CHANGED_BY: &str = "berth.dev/changed-by";
const SCALED_BY: &str = "berth.dev/scaled-by";
const PROMOTED: &str = "berth.dev/promoted";
const PROMOTED_BY: &str = "berth.dev/promoted-by";
const ROLLOUT: &str = "berth.dev/rollout";

fn on() -> FeatureGates {
    let mut gates = FeatureGates::default();
    gates.set(Gate::RolloutRecords, true);
    gates
}

/// Returns a test cluster with the gate on. The system created its Deployment `d` an hour ago.
fn made() -> TestCluster {
    let mut cluster = TestCluster::new();
    cluster.set_gates(on());
    cluster.made(D, deployment("d"));
    cluster.clock.advance(3600);
    cluster
}

fn user(name: &str, groups: &[&str]) -> Arc<User> {
    Arc::new(User { name: name.to_owned(), groups: groups.iter().map(|group| (*group).to_owned()).collect(), ..User::default() })
}

/// The API as one actor uses it.
struct Client<'a> {
    api: &'a Registry,
    actor: Actor,
}

fn as_user<'a>(cluster: &'a TestCluster, name: &str, groups: &[&str]) -> Client<'a> {
    Client { api: &cluster.registry, actor: Actor::User(user(name, groups)) }
}

fn as_alice(cluster: &TestCluster) -> Client<'_> {
    as_user(cluster, "alice", &[])
}

fn as_system(cluster: &TestCluster) -> Client<'_> {
    Client { api: &cluster.registry, actor: Actor::System }
}

fn options() -> WriteOptions {
    WriteOptions { field_manager: "tool".to_owned(), ..WriteOptions::default() }
}

fn stored(cluster: &TestCluster) -> Value {
    cluster.get(D, "d").expect("it is there")
}

fn annotation(object: &Value, key: &str) -> Value {
    object["metadata"]["annotations"][key].as_str().map_or(Value::Null, |text| serde_json::from_str(text).expect("JSON"))
}

fn changed_by(cluster: &TestCluster) -> Value {
    annotation(&stored(cluster), CHANGED_BY)
}

/// A way for alice to send a change. The function gets the current object and changes it to the wanted one.
type Way = (&'static str, fn(&Client<'_>, &Value, &dyn Fn(&mut Value)) -> Result<(), ApiError>);

fn patch(client: &Client<'_>, what: &str, patch: Patch) -> Result<(), ApiError> {
    now(client.api.patch(&client.actor, &target(what, "d"), patch, &options())).map(drop)
}

fn json_patch(client: &Client<'_>, operations: &Value) -> Result<(), ApiError> {
    patch(client, D, Patch::Json(operations.to_string().into_bytes()))
}

/// Returns the wanted object with only its metadata and template.
fn sparse(wanted: &Value) -> Value {
    json!({"metadata": {"annotations": wanted["metadata"]["annotations"]}, "spec": {"template": wanted["spec"]["template"]}})
}

fn wanted(there: &Value, change: &dyn Fn(&mut Value)) -> Value {
    let mut wanted = there.clone();
    if !wanted["metadata"]["annotations"].is_object() {
        wanted["metadata"]["annotations"] = json!({});
    }
    change(&mut wanted);
    wanted
}

/// Every way to change a template.
const WAYS: [Way; 7] = [
    ("put", |client, there, change| {
        let body = Body::Json(wanted(there, change).to_string().into_bytes());
        now(client.api.update(&client.actor, &target(D, "d"), body, &options())).map(drop)
    }),
    ("put of a typed object", |client, there, change| {
        let object: berth_api::apps::Deployment = serde_json::from_value(wanted(there, change)).expect("a Deployment");
        now(client.api.update(&client.actor, &target(D, "d"), Body::Object(Box::new(object)), &options())).map(drop)
    }),
    ("merge patch", |client, there, change| patch(client, D, Patch::Merge(sparse(&wanted(there, change)).to_string().into_bytes()))),
    ("merge patch of the process's own form", |client, there, change| patch(client, D, Patch::MergeValue(sparse(&wanted(there, change))))),
    ("strategic merge patch", |client, there, change| {
        patch(client, D, Patch::Strategic(sparse(&wanted(there, change)).to_string().into_bytes()))
    }),
    // The request of `kubectl rollout undo`.
    ("json patch", |client, there, change| {
        let wanted = wanted(there, change);
        json_patch(
            client,
            &json!([
                {"op": "replace", "path": "/spec/template", "value": wanted["spec"]["template"]},
                {"op": "add", "path": "/metadata/annotations", "value": wanted["metadata"]["annotations"]},
            ]),
        )
    }),
    ("apply", |client, there, change| {
        let wanted = wanted(there, change);
        let config = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "annotations": wanted["metadata"]["annotations"]},
            "spec": {"selector": wanted["spec"]["selector"], "template": wanted["spec"]["template"]},
        });
        let options = WriteOptions { force: Some(true), ..options() };
        now(client.api.patch(&client.actor, &target(D, "d"), Patch::Apply(config.to_string().into_bytes()), &options)).map(drop)
    }),
];

const ALICE: &str = r#"{"at":"2026-01-01T01:00:00Z","user":"alice","manager":"tool"}"#;

fn alice() -> Value {
    serde_json::from_str(ALICE).expect("JSON")
}

#[test]
fn who_makes_a_workload_and_who_changes_its_template_is_noted_by_every_way() {
    let own = json!({"at": "2026-01-01T00:00:00Z"});
    for (way, send) in WAYS {
        let cluster = made();
        assert_eq!(changed_by(&cluster), own, "the process itself");
        send(&as_alice(&cluster), &stored(&cluster), &|d| d["metadata"]["annotations"]["note"] = json!("x")).expect(way);
        assert_eq!(changed_by(&cluster), own, "{way}: the template is as it was");
        assert_eq!(stored(&cluster)["metadata"]["annotations"]["note"], "x", "{way}");
        send(&as_alice(&cluster), &stored(&cluster), &|d| d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2"))
            .expect(way);
        assert_eq!(changed_by(&cluster), alice(), "{way}");
        assert_eq!(annotation(&stored(&cluster), SCALED_BY), Value::Null, "{way}: it has the size that it had");
    }
}

#[test]
fn what_a_client_sends_is_neither_taken_over_nor_refused_nor_takes_anything_away() {
    for (way, send) in WAYS {
        let cluster = made();
        let before = stored(&cluster);
        let forged = |d: &mut Value| {
            for key in [CHANGED_BY, SCALED_BY, PROMOTED_BY, ROLLOUT] {
                d["metadata"]["annotations"][key] = json!("forged");
            }
        };
        send(&as_alice(&cluster), &before, &forged).expect(way);
        assert_eq!(stored(&cluster)["metadata"]["annotations"], before["metadata"]["annotations"], "{way}");
        let taken_away = |d: &mut Value| d["metadata"]["annotations"] = json!({CHANGED_BY: null});
        if !way.starts_with("put") && way != "json patch" && way != "apply" {
            send(&as_alice(&cluster), &before, &taken_away).expect(way);
        }
        // As a client that writes a manifest without these annotations.
        send(&as_alice(&cluster), &stored(&cluster), &|d| d["metadata"]["annotations"] = json!({})).expect(way);
        assert_eq!(stored(&cluster)["metadata"]["annotations"], before["metadata"]["annotations"], "{way}");
        let with_change = |d: &mut Value| {
            forged(d);
            d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2");
        };
        send(&as_alice(&cluster), &stored(&cluster), &with_change).expect(way);
        assert_eq!(changed_by(&cluster), alice(), "{way}");
        assert_eq!([SCALED_BY, PROMOTED_BY, ROLLOUT].map(|key| annotation(&stored(&cluster), key)), [const { Value::Null }; 3], "{way}");
    }
}

#[test]
fn a_write_that_changes_nothing_but_what_is_not_taken_over_changes_nothing() {
    for (way, send) in WAYS.into_iter().filter(|(way, _)| *way != "apply") {
        let cluster = made();
        let before = stored(&cluster);
        send(&as_alice(&cluster), &before, &|d| d["metadata"]["annotations"][CHANGED_BY] = json!("forged")).expect(way);
        assert_eq!(stored(&cluster)["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"], "{way}");
    }
}

#[test]
fn who_creates_sends_none_of_it_either() {
    let mut forged = deployment("d");
    forged["metadata"]["annotations"] = json!({CHANGED_BY: "forged", SCALED_BY: "forged", ROLLOUT: "forged"});
    let mut cluster = TestCluster::new();
    cluster.set_gates(on());
    let client = as_alice(&cluster);
    let body = Body::Json(forged.to_string().into_bytes());
    let dry = WriteOptions { dry_run: vec!["All".to_owned()], ..options() };
    for options in [&dry, &options()] {
        let made =
            now(client.api.create(&client.actor, &collection(D), Body::Json(forged.to_string().into_bytes()), options)).expect("created");
        let expected = json!({CHANGED_BY: ALICE.replace("01:00", "00:00")});
        assert_eq!(json_of(&made.object)["metadata"]["annotations"], expected);
    }
    assert!(now(client.api.create(&client.actor, &collection(D), body, &options())).is_err(), "the dry run made nothing, the other did");
    let mut set = deployment("s");
    set["kind"] = json!("StatefulSet");
    set["metadata"]["annotations"] = json!({CHANGED_BY: "forged"});
    let config = Patch::Apply(set.to_string().into_bytes());
    let client = as_user(&cluster, "alice", &[MASTERS]);
    let applied = now(client.api.patch(&client.actor, &target("statefulsets.apps", "s"), config, &options())).expect("applied");
    assert_eq!(annotation(&json_of(&applied.object), CHANGED_BY)["user"], "alice");
}

#[test]
fn no_manager_owns_the_records() {
    for (way, send) in WAYS {
        let cluster = made();
        let change = |d: &mut Value| {
            d["metadata"]["annotations"][CHANGED_BY] = json!("forged");
            d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2");
        };
        send(&as_alice(&cluster), &stored(&cluster), &change).expect(way);
        let owners = stored(&cluster)["metadata"]["managedFields"].to_string();
        assert!(!owners.contains("berth.dev/"), "{way}: {owners}");
    }
}

/// Annotations can be written through `/status` too, and a Scale is an object of its own.
#[test]
fn no_other_door_leads_around_it() {
    let cluster = made();
    let (client, before) = (as_alice(&cluster), stored(&cluster));
    let forged = json!({"metadata": {"annotations": {CHANGED_BY: "forged", "note": "x"}}, "status": {"replicas": 1}});
    patch(&client, "deployments.apps/status", Patch::Merge(forged.to_string().into_bytes())).expect("patched");
    let mut wanted = stored(&cluster);
    assert_eq!((&wanted["metadata"]["annotations"]["note"], changed_by(&cluster)), (&json!("x"), annotation(&before, CHANGED_BY)));
    wanted["metadata"]["annotations"] = json!({});
    let body = Body::Json(wanted.to_string().into_bytes());
    now(client.api.update(&client.actor, &target("deployments.apps/status", "d"), body, &options())).expect("put");
    assert_eq!(stored(&cluster)["metadata"]["annotations"], before["metadata"]["annotations"]);
}

#[test]
fn who_sizes_a_workload_is_noted_by_every_way() {
    let scale = |cluster: &TestCluster, replicas: i32| {
        let mut scale = cluster.get("deployments.apps/scale", "d").expect("a Scale");
        scale["spec"]["replicas"] = json!(replicas);
        scale
    };
    type Sizing = (&'static str, Box<dyn Fn(&TestCluster, &Client<'_>) -> Result<(), ApiError>>);
    let to_five = || json!({"spec": {"replicas": 5}}).to_string().into_bytes();
    let ways: [Sizing; 6] = [
        (
            "put of the Scale",
            Box::new(move |cluster, client| {
                let body = Body::Json(scale(cluster, 5).to_string().into_bytes());
                now(client.api.update(&client.actor, &target("deployments.apps/scale", "d"), body, &options())).map(drop)
            }),
        ),
        ("merge patch of the Scale", Box::new(move |_, client| patch(client, "deployments.apps/scale", Patch::Merge(to_five())))),
        ("strategic patch of the Scale", Box::new(move |_, client| patch(client, "deployments.apps/scale", Patch::Strategic(to_five())))),
        (
            "json patch of the Scale",
            Box::new(move |_, client| {
                let operations = json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]);
                patch(client, "deployments.apps/scale", Patch::Json(operations.to_string().into_bytes()))
            }),
        ),
        (
            "apply of the Scale",
            Box::new(move |_, client| {
                let config = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 5}});
                let options = WriteOptions { force: Some(true), ..options() };
                let config = Patch::Apply(config.to_string().into_bytes());
                now(client.api.patch(&client.actor, &target("deployments.apps/scale", "d"), config, &options)).map(drop)
            }),
        ),
        ("merge patch", Box::new(move |_, client| patch(client, D, Patch::Merge(to_five())))),
    ];
    for (way, send) in ways {
        let cluster = made();
        let changed = changed_by(&cluster);
        send(&cluster, &as_alice(&cluster)).expect(way);
        let expected = json!({"at": "2026-01-01T01:00:00Z", "user": "alice", "manager": "tool", "from": 3, "to": 5});
        assert_eq!((annotation(&stored(&cluster), SCALED_BY), changed_by(&cluster)), (expected, changed), "{way}");
    }
}

/// Alice ends two waits, and another user tries to forge the author.
#[test]
fn who_promotes_a_step_is_noted_by_every_way() {
    for (way, send) in WAYS {
        let cluster = made();
        let revision = json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "3"}}});
        patch(&as_system(&cluster), D, Patch::MergeValue(revision)).expect("as its controller does");
        let promote = |named: &'static str| {
            let client = as_alice(&cluster);
            send(&client, &stored(&cluster), &|d| {
                d["metadata"]["annotations"][PROMOTED] = json!(named);
                d["metadata"]["annotations"][PROMOTED_BY] = json!("forged");
            })
            .expect(way);
            annotation(&stored(&cluster), PROMOTED_BY)
        };
        let noted = |step: u32| json!({"step": step, "at": "2026-01-01T01:00:00Z", "user": "alice", "manager": "tool"});
        assert_eq!(promote("7/1/5d4"), Value::Null, "{way}: no rollout has that number");
        assert_eq!(promote("3/2/5d4"), json!({"revision": 3, "steps": [noted(2)]}), "{way}");
        assert_eq!(promote("3/2/5d4"), json!({"revision": 3, "steps": [noted(2)]}), "{way}: nothing is new");
        assert_eq!(promote("3/4/5d4"), json!({"revision": 3, "steps": [noted(2), noted(4)]}), "{way}");
        assert_eq!(promote("no step"), json!({"revision": 3, "steps": [noted(2), noted(4)]}), "{way}");
        assert_eq!(changed_by(&cluster), json!({"at": "2026-01-01T00:00:00Z"}), "{way}: the template is as it was");
    }
}

#[test]
fn with_the_gate_off_they_are_annotations_like_any_other() {
    for (way, send) in WAYS {
        let cluster = TestCluster::new();
        cluster.made(D, deployment("d"));
        assert_eq!(stored(&cluster)["metadata"]["annotations"], Value::Null);
        let change = |d: &mut Value| {
            d["metadata"]["annotations"] = json!({CHANGED_BY: "mine", PROMOTED: "1/2"});
            d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2");
            d["spec"]["replicas"] = json!(3);
        };
        send(&as_alice(&cluster), &stored(&cluster), &change).expect(way);
        assert_eq!(stored(&cluster)["metadata"]["annotations"], json!({CHANGED_BY: "mine", PROMOTED: "1/2"}), "{way}");
    }
}

/// Only controllers write the objects of revisions: parts of the process, users with all rights, and upstream's
/// controllers by their user name.
#[test]
fn only_controllers_write_what_became_of_a_rollout() {
    for (what, kind) in [("replicasets.apps", "ReplicaSet"), ("controllerrevisions.apps", "ControllerRevision")] {
        let mut cluster = TestCluster::new();
        cluster.set_gates(on());
        let mut object = deployment("r");
        object["kind"] = json!(kind);
        if kind == "ControllerRevision" {
            object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "r"}, "data": {}, "revision": 1});
        }
        cluster.made(what, object);
        let say = |client: &Client<'_>, text: &str| {
            let said = json!({"metadata": {"annotations": {ROLLOUT: text, "note": text}}});
            now(client.api.patch(&client.actor, &target(what, "r"), Patch::MergeValue(said), &options())).expect("patched");
            cluster.get(what, "r").expect("there")["metadata"]["annotations"][ROLLOUT].clone()
        };
        assert_eq!(say(&as_alice(&cluster), "forged"), Value::Null, "{what}");
        assert_eq!(say(&as_system(&cluster), "own"), "own", "{what}");
        assert_eq!(say(&as_alice(&cluster), "forged"), "own", "{what}");
        assert_eq!(say(&as_user(&cluster, "root", &[MASTERS]), "apart"), "apart", "{what}");
        assert_eq!(say(&as_user(&cluster, "system:kube-controller-manager", &[]), "upstream"), "upstream", "{what}");
    }
}

/// The progress of a rollout in steps, the results of analyses and the completion of a rollout are protected too, with
/// any gates. A user cannot skip a step or end all steps by writing that they passed.
#[test]
fn only_controllers_write_the_progress_of_a_rollout() {
    for gates in [on(), FeatureGates::default()] {
        for key in ["berth.dev/step", "berth.dev/analysis", "berth.dev/completed-revision", "berth.dev/completed-at", "berth.dev/progress"]
        {
            let mut cluster = TestCluster::new();
            cluster.set_gates(gates.clone());
            let mut object = deployment("r");
            object["kind"] = json!("ReplicaSet");
            object["metadata"]["annotations"] = json!({key: "forged", "note": "mine"});
            let made = now(cluster.registry.create(
                &as_alice(&cluster).actor,
                &collection("replicasets.apps"),
                Body::Json(object.to_string().into_bytes()),
                &options(),
            ));
            made.expect("a good set");
            let there = |cluster: &TestCluster| cluster.get("replicasets.apps", "r").expect("there")["metadata"]["annotations"].clone();
            assert_eq!(there(&cluster), json!({"note": "mine"}), "{key}");
            let say = |client: &Client<'_>, text: &str| {
                let said = json!({"metadata": {"annotations": {key: text}}});
                now(client.api.patch(&client.actor, &target("replicasets.apps", "r"), Patch::MergeValue(said), &options()))
                    .expect("patched");
                there(&cluster)[key].clone()
            };
            assert_eq!(say(&as_alice(&cluster), "forged"), Value::Null, "{key}");
            assert_eq!(say(&as_system(&cluster), "own"), "own", "{key}");
            assert_eq!(say(&as_alice(&cluster), "forged"), "own", "{key}");
            assert_eq!(say(&as_user(&cluster, "system:kube-controller-manager", &[]), "upstream"), "upstream", "{key}");
        }
    }
}

/// A record must not make an object too large for further changes.
#[test]
fn where_there_is_no_room_for_a_record_there_is_none() {
    let cluster = made();
    let client = as_alice(&cluster);
    let size = |bytes: usize| json!({"metadata": {"annotations": {"a": "x".repeat(bytes)}}}).to_string().into_bytes();
    let kept: usize = CHANGED_BY.len() + stored(&cluster)["metadata"]["annotations"][CHANGED_BY].as_str().expect("a record").len();
    patch(&client, D, Patch::Merge(size(256 * 1024 - kept - 1))).expect("there is room for just that");
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}});
    patch(&client, D, Patch::Merge(image.to_string().into_bytes())).expect("changed all the same");
    assert_eq!(changed_by(&cluster), Value::Null, "that of another change would be wrong");
    patch(&client, D, Patch::Merge(size(1))).expect("changed");
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:3"}]}}}});
    patch(&client, D, Patch::Merge(image.to_string().into_bytes())).expect("changed");
    assert_eq!(changed_by(&cluster), alice());
}

/// User names are untrusted texts.
#[test]
fn names_are_kept_up_to_a_length() {
    let cluster = made();
    let client = as_user(&cluster, &"é\u{1b}".repeat(5000), &[]);
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}});
    patch(&client, D, Patch::Merge(image.to_string().into_bytes())).expect("changed");
    assert_eq!(changed_by(&cluster)["user"].as_str().expect("a name").chars().count(), 256);
    assert!(!stored(&cluster)["metadata"]["annotations"][CHANGED_BY].as_str().expect("text").contains('\u{1b}'), "in JSON's own way");
}

#[test]
fn what_is_taken_out_of_an_apply_leaves_nothing_that_its_sender_owns() {
    let mut cluster = TestCluster::new();
    cluster.set_gates(on());
    let owned = |annotations: Value| {
        let mut config = deployment("d");
        config["metadata"]["annotations"] = annotations;
        patch(&as_system(&cluster), D, Patch::Apply(config.to_string().into_bytes())).expect("applied");
        let managers = stored(&cluster)["metadata"]["managedFields"].clone();
        let entry = managers.as_array().into_iter().flatten().find(|entry| entry["manager"] == "tool").expect("who applied").clone();
        entry["fieldsV1"]["f:metadata"]["f:annotations"].clone()
    };
    assert_eq!(owned(json!({CHANGED_BY: "{}"})), Value::Null);
    assert_eq!(owned(json!({CHANGED_BY: "{}", "a": "b"})), json!({"f:a": {}}));
    assert_eq!(owned(json!({})), json!({}), "as upstream has it");
}

#[test]
fn without_the_gate_only_places_are_the_controllers_alone() {
    let cluster = TestCluster::new();
    let (step, place) = ("berth.dev/step", "1");
    let mut set = deployment("r");
    set["kind"] = "ReplicaSet".into();
    set["metadata"]["annotations"] = json!({CHANGED_BY: "mine", ROLLOUT: "mine", step: place});
    let body = Body::Json(set.to_string().into_bytes());
    let made = now(cluster.registry.create(&as_alice(&cluster).actor, &collection("replicasets.apps"), body, &options())).expect("made");
    assert_eq!(json_of(&made.object)["metadata"]["annotations"], json!({CHANGED_BY: "mine", ROLLOUT: "mine"}));
}
