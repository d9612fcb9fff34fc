//! StatefulSets, and the test plan of KEP-3541.

use super::{Running, key, quota};
use berth_api::{FeatureGates, Subresource};
use berth_controllers::cluster::{Cluster, DeleteParams};
use berth_identity::GroupResource;
use berth_registry::{Actor, Body, Collection, WriteOptions, resource};
use berth_workloads::{
    plan::Propagation,
    resources::{CLAIMS, PODS, QUOTAS, REVISIONS},
};
use serde_json::{Value, json};
use std::sync::Arc;

const STATEFUL_SETS: GroupResource = GroupResource::from_static("apps", "statefulsets");
/// Only a StatefulSet's own controllers, without nodes.
const CONTROLLERS: &str = "statefulset,garbagecollector,resourcequota";

fn set(spec: Value) -> Value {
    let mut full = json!({
        "replicas": 3, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": template("1"),
    });
    full.as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": full})
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}})
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl Running {
    fn with_set(spec: Value) -> Self {
        let running = Self::start(CONTROLLERS);
        running.create(Some("default"), &set(spec));
        running.settle();
        running
    }

    fn set(&self) -> Value {
        self.list(STATEFUL_SETS).remove(0)
    }

    fn update(&self, image: &str) {
        self.patch(STATEFUL_SETS, "web", json!({"spec": {"template": template(image)}}));
        self.settle();
    }

    /// Names with images. `~` marks terminating pods.
    fn pods(&self) -> String {
        let mark = |pod: &Value| if pod["metadata"]["deletionTimestamp"].is_null() { "" } else { "~" };
        let show = |pod: &Value| format!("{}={}{}", text(pod, "/metadata/name"), text(pod, "/spec/containers/0/image"), mark(pod));
        self.list(PODS).iter().map(show).collect::<Vec<_>>().join(" ")
    }

    /// Acts as a kubelet while there is work: starts pods, which become ready unless their image specifies a failure.
    fn run_pods(&self) {
        for _ in 0..10 {
            let before = self.pods();
            self.list(PODS).iter().filter(|pod| text(pod, "/spec/nodeName").is_empty()).for_each(|pod| self.run_pod(pod));
            self.settle();
            if self.pods() == before {
                return;
            }
        }
    }

    fn run_pod(&self, pod: &Value) {
        let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid").into());
        let image = text(pod, "/spec/containers/0/image");
        if image == "Pending" {
            return;
        }
        let (cluster, key) = (Arc::clone(&self.cluster), key(PODS, name));
        self.test_env.block_on(async move { cluster.bind(&key, &uid, "node").await }).expect("an unbound pod");
        let fails = ["ImagePullBackOff", "CrashLoopBackOff"].contains(&image);
        let waiting = json!([{"name": "web", "image": image, "imageID": "", "restartCount": 0, "ready": false, "state": {"waiting": {"reason": image}}}]);
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": self.test_env.env().clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()}]);
        let status = if fails {
            json!({"phase": "Pending", "containerStatuses": waiting})
        } else {
            json!({"phase": "Running", "conditions": ready})
        };
        self.patch_status(name, status);
    }

    fn patch_status(&self, pod: &str, status: Value) {
        let (cluster, key) = (Arc::clone(&self.cluster), key(PODS, pod));
        let patch = json!({"status": status});
        self.test_env.block_on(async move { cluster.patch(PODS, &key, Some(Subresource::Status), patch).await }).expect("a valid patch");
    }

    /// The containers of this pod have stopped.
    fn stop_pod(&self, name: &str) {
        let (cluster, key) = (Arc::clone(&self.cluster), key(PODS, name));
        let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.test_env.block_on(async move { cluster.delete(PODS, &key, params).await }).expect("it is there");
        self.settle();
    }

    fn stop_all(&self) {
        let going = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
        for pod in self.list(PODS).iter().filter(|pod| going(pod)) {
            self.stop_pod(text(pod, "/metadata/name"));
        }
    }

    fn progressing(&self) -> (String, String) {
        let set = self.set();
        let conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition = conditions.into_iter().find(|condition| condition["type"] == "Progressing").unwrap_or_default();
        (text(&condition, "/status").to_owned(), text(&condition, "/reason").to_owned())
    }

    /// The recorded reasons of Recreate events.
    fn recreate_events(&self) -> Vec<String> {
        let mut recreate_events: Vec<_> =
            self.events().into_iter().map(|(reason, _)| reason).filter(|reason| reason.starts_with("Recreate")).collect();
        recreate_events.sort();
        recreate_events
    }
}

const ALL_EVENTS: [&str; 3] = ["RecreateCompleted", "RecreateStarted", "RecreateWaitingForTermination"];

#[test]
fn a_set_rolls_out_scales_and_goes() {
    let running = Running::with_set(json!({}));
    assert_eq!(running.pods(), "web-0=1");
    running.run_pods();
    assert_eq!(running.pods(), "web-0=1 web-1=1 web-2=1");
    let status = running.set()["status"].clone();
    assert_eq!((&status["readyReplicas"], &status["currentRevision"]), (&json!(3), &status["updateRevision"]));
    running.update("2");
    assert_eq!(running.pods(), "web-0=1 web-1=1 web-2=1~");
    for _ in 0..3 {
        running.stop_all();
        running.run_pods();
    }
    assert_eq!((running.pods().as_str(), running.count(REVISIONS)), ("web-0=2 web-1=2 web-2=2", 2));
    running.patch(STATEFUL_SETS, "web", json!({"spec": {"replicas": 1}}));
    running.settle();
    (0..2).for_each(|_| running.stop_all());
    assert_eq!(running.pods(), "web-0=2");
    running.delete(STATEFUL_SETS, "web", Some(Propagation::Background));
    running.settle();
    running.stop_all();
    assert_eq!((running.pods().as_str(), running.count(REVISIONS)), ("", 0));
}

#[test]
fn on_delete_is_as_it_was() {
    let running = Running::with_set(json!({"updateStrategy": {"type": "OnDelete"}}));
    running.run_pods();
    running.update("2");
    assert_eq!(running.pods(), "web-0=1 web-1=1 web-2=1");
    running.stop_pod("web-1");
    running.run_pods();
    assert_eq!((running.pods().as_str(), running.progressing().1.as_str()), ("web-0=1 web-1=2 web-2=1", "WaitingForPodDeletion"));
}

#[test]
fn recreate_deletes_all_waits_for_the_last_and_creates_in_order() {
    for (policy, first) in [("OrderedReady", "web-0=2"), ("Parallel", "web-0=2 web-1=2 web-2=2")] {
        let running = Running::with_set(json!({"updateStrategy": {"type": "Recreate"}, "podManagementPolicy": policy}));
        running.run_pods();
        assert_eq!((running.progressing().1.as_str(), running.recreate_events().len()), ("RecreateComplete", 0));
        running.update("2");
        assert_eq!(running.pods(), "web-0=1~ web-1=1~ web-2=1~", "{policy}");
        assert_eq!(running.progressing(), ("True".to_owned(), "RecreateInProgress".to_owned()));
        running.stop_pod("web-0");
        running.stop_pod("web-2");
        assert_eq!(running.pods(), "web-1=1~", "one that terminates slowly holds all up");
        running.stop_pod("web-1");
        assert_eq!(running.pods(), first, "{policy}");
        running.run_pods();
        assert_eq!((running.pods().as_str(), running.progressing().1.as_str()), ("web-0=2 web-1=2 web-2=2", "RecreateComplete"));
        assert_eq!(running.recreate_events(), ALL_EVENTS, "{policy}");
    }
}

#[test]
fn recreate_clears_pods_stuck_in_any_state() {
    for state in ["ImagePullBackOff", "CrashLoopBackOff", "Pending"] {
        let running = Running::with_set(json!({"updateStrategy": {"type": "Recreate"}}));
        running.run_pods();
        running.update(state);
        running.stop_all();
        running.run_pods();
        assert_eq!(running.pods(), format!("web-0={state}"));
        running.update("3");
        running.stop_all();
        running.run_pods();
        assert_eq!(running.pods(), "web-0=3 web-1=3 web-2=3", "{state}");
    }
}

#[test]
fn a_rolling_update_stays_stuck_unless_it_is_to_be_repaired() {
    let running = Running::with_set(json!({}));
    running.run_pods();
    running.update("ImagePullBackOff");
    running.stop_all();
    running.run_pods();
    running.update("3");
    assert_eq!(running.pods(), "web-0=1 web-1=1 web-2=ImagePullBackOff");
    running.patch(STATEFUL_SETS, "web", json!({"metadata": {"annotations": {"berth.dev/repair": "Revision"}}}));
    running.settle();
    for _ in 0..3 {
        running.stop_all();
        running.run_pods();
    }
    assert_eq!(running.pods(), "web-0=3 web-1=3 web-2=3");
    assert_eq!(running.events().iter().filter(|(reason, _)| reason == "RepairedPod").count(), 1);
}

#[test]
fn claims_outlive_the_pods() {
    let claims =
        json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let running = Running::with_set(json!({"updateStrategy": {"type": "Recreate"}, "volumeClaimTemplates": claims}));
    running.run_pods();
    let uids = || running.list(CLAIMS).iter().map(|claim| text(claim, "/metadata/uid").to_owned()).collect::<Vec<_>>();
    let before = uids();
    assert_eq!(before.len(), 3);
    running.update("2");
    running.stop_all();
    running.run_pods();
    assert_eq!((running.pods().as_str(), uids()), ("web-0=2 web-1=2 web-2=2", before));
}

#[test]
fn a_claim_that_a_pending_pod_lost_comes_back_at_once() {
    let claims =
        json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let running = Running::with_set(json!({"volumeClaimTemplates": claims}));
    running.delete(CLAIMS, "data-web-0", None);
    running.settle();
    assert_eq!(running.count(CLAIMS), 1);
}

#[test]
fn claims_follow_the_retention_policy_and_are_put_right_again() {
    let claims =
        json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let running = Running::with_set(json!({"volumeClaimTemplates": claims}));
    running.run_pods();
    let owners = || {
        let kinds = |claim: &Value| text(claim, "/metadata/ownerReferences/0/kind").to_owned();
        running.list(CLAIMS).iter().map(kinds).collect::<Vec<_>>()
    };
    assert_eq!(owners(), ["", "", ""]);
    let policy = |scaled: &str, deleted: &str| {
        let policy = json!({"whenScaled": scaled, "whenDeleted": deleted});
        running.patch(STATEFUL_SETS, "web", json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy}}));
        running.settle();
    };
    policy("Delete", "Delete");
    assert_eq!(owners(), ["StatefulSet"; 3]);
    running.patch(CLAIMS, "data-web-1", json!({"metadata": {"ownerReferences": null}}));
    running.settle();
    assert_eq!(owners(), ["StatefulSet"; 3]);
    running.patch(STATEFUL_SETS, "web", json!({"spec": {"replicas": 2}}));
    running.settle();
    assert_eq!(owners(), ["StatefulSet", "StatefulSet", "Pod"]);
    running.patch(STATEFUL_SETS, "web", json!({"spec": {"replicas": 3}}));
    running.settle();
    assert_eq!((owners(), running.pods().as_str()), (vec!["StatefulSet".to_owned(); 3], "web-0=1 web-1=1 web-2=1~"));
    policy("Retain", "Retain");
    assert_eq!(owners(), ["", "", ""]);
}

#[test]
fn where_only_the_api_knows_recreate_it_is_a_rolling_update() {
    let running = Running::start_with(CONTROLLERS, "", "StatefulSetRecreateStrategy=false");
    running.create(Some("default"), &set(json!({"updateStrategy": {"type": "Recreate"}})));
    running.settle();
    running.run_pods();
    running.update("2");
    assert_eq!((running.pods().as_str(), running.set()["status"]["conditions"].is_null()), ("web-0=1 web-1=1 web-2=1~", true));
}

#[test]
fn where_only_the_controllers_know_recreate_it_is_refused() {
    let running = Running::start_with(CONTROLLERS, "StatefulSetRecreateStrategy=false", "");
    let registry = running.registry.clone();
    let sets = resource::built_in().by_name(&GroupResource::from_static("apps", "statefulsets")).expect("served");
    let at = Collection { resource: Arc::clone(sets), namespace: Some("default".into()) };
    let body = Body::Json(set(json!({"updateStrategy": {"type": "Recreate"}})).to_string().into_bytes());
    let answer = running.test_env.block_on(async move { registry.create(&Actor::System, &at, body, &WriteOptions::default()).await });
    let error = answer.expect_err("refused").to_string();
    assert!(error.contains(r#"spec.updateStrategy.type: Unsupported value: "Recreate""#), "{error}");
}

#[test]
fn a_controller_that_starts_in_the_middle_goes_on_from_there() {
    let running = Running::start("garbagecollector");
    running.create(Some("default"), &set(json!({"updateStrategy": {"type": "Recreate"}})));
    // The state after a controller deleted the pods and then crashed.
    for name in ["web-0", "web-1"] {
        let set = running.set();
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": set["metadata"]["uid"], "controller": true});
        let labels = json!({"app": "web", "controller-revision-hash": "web-old", "statefulset.kubernetes.io/pod-name": name});
        let metadata = json!({"name": name, "labels": labels, "ownerReferences": [owner]});
        let spec = json!({"containers": [{"name": "web", "image": "0"}]});
        running.create(Some("default"), &json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}));
        running.run_pod(&running.list(PODS).into_iter().find(|pod| text(pod, "/metadata/name") == name).expect("it"));
        running.delete(PODS, name, None);
    }
    running.run_controllers("statefulset", Arc::new(FeatureGates::default()));
    assert_eq!((running.pods().as_str(), running.progressing().1.as_str()), ("web-0=0~ web-1=0~", "RecreateInProgress"));
    running.stop_all();
    running.run_pods();
    assert_eq!((running.pods().as_str(), running.progressing().1.as_str()), ("web-0=1 web-1=1 web-2=1", "RecreateComplete"));
    assert_eq!(running.recreate_events(), ["RecreateCompleted", "RecreateWaitingForTermination"]);
}

#[test]
fn another_controller_on_a_set_at_rest_writes_nothing() {
    let running = Running::with_set(json!({}));
    running.run_pods();
    running.update("2");
    for _ in 0..3 {
        running.stop_all();
        running.run_pods();
    }
    let all = || [STATEFUL_SETS, PODS, REVISIONS].map(|resource| running.list(resource));
    let (before, events) = (all(), running.events().len());
    running.run_controllers("statefulset", Arc::new(FeatureGates::default()));
    assert_eq!((all(), running.events().len()), (before, events));
}

#[test]
fn orphaned_pods_are_taken_over_by_a_successor() {
    let running = Running::with_set(json!({}));
    running.run_pods();
    let uids = || running.list(PODS).iter().map(|pod| text(pod, "/metadata/uid").to_owned()).collect::<Vec<_>>();
    let before = uids();
    running.delete(STATEFUL_SETS, "web", Some(Propagation::Orphan));
    running.settle();
    assert!(running.list(PODS).iter().all(|pod| pod["metadata"]["ownerReferences"].is_null()));
    running.create(Some("default"), &set(json!({})));
    running.settle();
    assert_eq!((uids(), running.count(REVISIONS)), (before, 1));
    assert!(running.list(PODS).iter().all(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == running.set()["metadata"]["uid"]));
}

/// As upstream does. Otherwise the set would wait for its name indefinitely.
#[test]
fn an_orphaned_pod_that_has_ended_is_taken_over_and_replaced() {
    let running = Running::with_set(json!({}));
    running.run_pods();
    running.delete(STATEFUL_SETS, "web", Some(Propagation::Orphan));
    running.settle();
    let (cluster, key) = (Arc::clone(&running.cluster), key(PODS, "web-1"));
    let failed = json!({"status": {"phase": "Failed"}});
    running.test_env.block_on(async move { cluster.patch(PODS, &key, Some(Subresource::Status), failed).await }).expect("it is there");
    let uid = |name: &str| {
        let pod = running.list(PODS).into_iter().find(|pod| text(pod, "/metadata/name") == name).expect("it is there");
        text(&pod, "/metadata/uid").to_owned()
    };
    let before = ["web-0", "web-1"].map(uid);
    running.create(Some("default"), &set(json!({})));
    running.settle();
    let after = ["web-0", "web-1"].map(uid);
    assert!(before[0] == after[0] && before[1] != after[1], "{before:?} {after:?}");
    assert!(running.list(PODS).iter().all(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == running.set()["metadata"]["uid"]));
}

#[test]
fn a_name_that_another_holds_is_waited_for() {
    let running = Running::start(CONTROLLERS);
    let stranger =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"}, "spec": {"containers": [{"name": "web", "image": "x"}]}});
    running.create(Some("default"), &stranger);
    running.create(Some("default"), &set(json!({})));
    running.settle();
    assert_eq!(running.pods(), "web-0=x");
    running.delete(PODS, "web-0", None);
    assert_eq!(super::a_second_later(&running), 1);
    assert_eq!(running.pods(), "web-0=1");
}

#[test]
fn a_set_that_a_quota_refused_goes_on_when_there_is_room() {
    let running = Running::start(CONTROLLERS);
    running.create(Some("default"), &quota("1"));
    running.settle();
    running.create(Some("default"), &set(json!({"podManagementPolicy": "Parallel"})));
    running.settle();
    running.settle();
    assert_eq!(running.pods(), "web-0=1");
    let error = "Create Pod web-1 in StatefulSet web failed error: pods \"web-1\" is forbidden: exceeded quota: q";
    assert!(
        running.events().iter().any(|(reason, message)| reason == "FailedCreate" && message.starts_with(error)),
        "{:?}",
        running.events()
    );
    running.patch(QUOTAS, "q", json!({"spec": {"hard": {"pods": "3"}}}));
    assert_eq!(super::a_second_later(&running), 3);
}
