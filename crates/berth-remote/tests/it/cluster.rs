//! The behavior of every [`Cluster`]: one suite for the registry in process, for HTTPS, and for a real Kubernetes.

use crate::common::{self, Changes, CutOff, Subject};
use berth_api::{Kind, Object, Scope, Subresource, apps::Deployment};
use berth_controllers::{
    Change, Cluster, ClusterError, DeleteParams, Propagation, RawObject,
    election::{Candidacy, Leader, RunningTime, Timing},
};
use berth_identity::{GroupResource, GroupVersionKind, ObjectKey, Revision, Uid};
use berth_remote::Vendor;
use berth_store::DEFAULT_HISTORY_BYTES;
use berth_workloads::resources::{DEPLOYMENT, DEPLOYMENTS, EVENTS, NAMESPACES, PODS, QUOTAS};
use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::ControllerRevision,
    core::v1::{ConfigMap, Event, Namespace, Pod, ResourceQuota, ServiceAccount},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const MAPS: GroupResource = GroupResource::from_static("", "configmaps");

/// Checks each claim on each cluster.
macro_rules! of_every_cluster {
    ($($claim:ident)*) => {
        of_every_cluster!(@of local $($claim)*);
        of_every_cluster!(@of remote $($claim)*);
        /// One Kubernetes for all claims, because it takes seconds to start.
        #[tokio::test(flavor = "multi_thread")]
        async fn upstream() {
            let Some(Subject { cluster, .. }) = &common::upstream().await else { return };
            prepare(&**cluster).await;
            $(
                claims::$claim(Arc::clone(cluster)).await;
            )*
        }
    };
    (@of $which:ident $($claim:ident)*) => {
        mod $which {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $claim() {
                    let subject = crate::common::$which().await.expect("it is always at hand");
                    super::claims::$claim(subject.cluster).await;
                }
            )*
        }
    };
}

/// Creates objects that controllers would create: the service account of pods.
async fn prepare(cluster: &dyn Cluster) {
    let account = object::<ServiceAccount>(json!({"metadata": {"name": "default", "namespace": "default"}}));
    let made = cluster.create(account).await;
    assert!(matches!(made, Ok(_) | Err(ClusterError::AlreadyExists(_))), "{made:?}");
}

fn object<K: Kind>(value: Value) -> Box<dyn Object> {
    Box::new(serde_json::from_value::<K>(value).expect("an object of its kind"))
}

fn map(name: &str, value: &str) -> Box<dyn Object> {
    object::<ConfigMap>(json!({"metadata": {"name": name, "namespace": "default"}, "data": {"value": value}}))
}

fn pod(name: &str) -> Box<dyn Object> {
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": false});
    object::<Pod>(json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec}))
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn json_of(object: &RawObject) -> Value {
    serde_json::from_slice(&object.json).expect("JSON")
}

fn uid_of(object: &RawObject) -> Uid {
    json_of(object)["metadata"]["uid"].as_str().expect("a uid").into()
}

/// Formats a change in a few words.
fn text(change: &Change) -> String {
    match change {
        Change::Restarted => "restarted".to_owned(),
        Change::Applied { key, object } => format!("{}={}", key.name, json_of(object)["data"]["value"].as_str().unwrap_or_default()),
        Change::Deleted { key, .. } => format!("{} gone", key.name),
        Change::Synced(_) => "synced".to_owned(),
        Change::Progress(_) => "progress".to_owned(),
    }
}

fn is_about(change: &Change, name: &str) -> bool {
    matches!(change, Change::Applied { key, .. } | Change::Deleted { key, .. } if key.name == *name)
}

of_every_cluster! {
    what_is_written_is_read_and_in_its_version
    a_watch_begins_with_a_list_and_goes_on_with_each_change
    a_list_of_many_pages_is_whole
    each_write_is_guarded
    a_refusal_shows_the_possible_reaction
    a_namespace_that_goes_takes_nothing_new
    a_quota_is_reported_as_such
    a_deletion_reports_whether_the_object_lingers
    a_pod_is_bound_by_its_uid_alone
    a_status_is_written_apart
    events_are_written_and_counted
    what_is_newest_is_not_behind_a_write
    kinds_are_returned_in_order_of_preference
}

mod claims {
    use super::*;

    pub(super) async fn what_is_written_is_read_and_in_its_version(cluster: Arc<dyn Cluster>) {
        let made = cluster.create(map("read", "1")).await.expect("a valid object");
        let read = cluster.get(MAPS, &key("read")).await.expect("it can be read").expect("it is there");
        assert_eq!((read.revision, &json_of(&read)["data"]), (made.revision, &json!({"value": "1"})));
        let patched = cluster.patch(MAPS, &key("read"), None, json!({"data": {"value": "2"}})).await.expect("a valid patch");
        assert!(patched.revision > made.revision);
        let read = cluster.get(MAPS, &key("read")).await.expect("it can be read").expect("it is there");
        assert_eq!((read.revision, &json_of(&read)["data"]), (patched.revision, &json!({"value": "2"})));
        assert!(cluster.get(MAPS, &key("absent")).await.expect("that is an answer").is_none());
    }

    pub(super) async fn a_watch_begins_with_a_list_and_goes_on_with_each_change(cluster: Arc<dyn Cluster>) {
        cluster.create(map("watched-a", "1")).await.expect("a valid object");
        let mut changes = Changes::new(cluster.watch(MAPS));
        let list = changes.about("watched-", |change| matches!(change, Change::Synced(_))).await;
        assert_eq!(list.iter().map(text).collect::<Vec<_>>(), ["restarted", "watched-a=1", "synced"]);
        let patched = cluster.patch(MAPS, &key("watched-a"), None, json!({"data": {"value": "2"}})).await.expect("a valid patch");
        let made = cluster.create(map("watched-b", "1")).await.expect("a valid object");
        cluster.delete(MAPS, &key("watched-a"), DeleteParams::default()).await.expect("it is there");
        let changes = changes.about("watched-", |change| matches!(change, Change::Deleted { .. })).await;
        assert_eq!(changes.iter().map(text).collect::<Vec<_>>(), ["watched-a=2", "watched-b=1", "watched-a gone"]);
        let revisions: Vec<_> = changes
            .iter()
            .map(|change| match change {
                Change::Applied { object, .. } => object.revision,
                Change::Deleted { revision, .. } => *revision,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(revisions[..2], [patched.revision, made.revision]);
        assert!(revisions.is_sorted() && revisions[2] > revisions[1], "{revisions:?}");
    }

    pub(super) async fn a_list_of_many_pages_is_whole(cluster: Arc<dyn Cluster>) {
        const MANY: usize = 1_020;
        let make = |number: usize| {
            let cluster = Arc::clone(&cluster);
            async move { cluster.create(map(&format!("page-{number}"), "1")).await.expect("a valid object") }
        };
        futures::stream::iter(0..MANY).map(make).buffer_unordered(32).collect::<Vec<_>>().await;
        let mut changes = Changes::new(cluster.watch(MAPS));
        let list = changes.about("page-", |change| matches!(change, Change::Synced(_))).await;
        let mut names: Vec<_> = list.iter().filter(|change| matches!(change, Change::Applied { .. })).map(text).collect();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), list.len()), (MANY, MANY + 2), "each once, between a beginning and an end");
    }

    pub(super) async fn each_write_is_guarded(cluster: Arc<dyn Cluster>) {
        let made = cluster.create(map("guarded", "1")).await.expect("a valid object");
        let other: Uid = "00000000-0000-0000-0000-000000000000".into();
        let refused = |result: Result<(), ClusterError>| assert!(matches!(result, Err(ClusterError::Conflict(_))), "{result:?}");
        let patch = async |metadata: Value| {
            let patch = json!({"metadata": metadata, "data": {"value": "2"}});
            cluster.patch(MAPS, &key("guarded"), None, patch).await.map(drop)
        };
        refused(patch(json!({"uid": other})).await);
        patch(json!({"uid": uid_of(&made), "resourceVersion": made.revision.to_string()})).await.expect("it is that version");
        refused(patch(json!({"uid": uid_of(&made), "resourceVersion": made.revision.to_string()})).await);
        let metadata =
            json!({"name": "guarded", "namespace": "default", "uid": uid_of(&made), "resourceVersion": made.revision.to_string()});
        refused(cluster.update(object::<ConfigMap>(json!({"metadata": metadata})), None).await.map(drop));
        let delete = async |params| cluster.delete(MAPS, &key("guarded"), params).await.map(drop);
        refused(delete(DeleteParams { uid: Some(other), ..DeleteParams::default() }).await);
        refused(delete(DeleteParams { resource_version: Some(made.revision), ..DeleteParams::default() }).await);
        delete(DeleteParams { uid: Some(uid_of(&made)), ..DeleteParams::default() }).await.expect("it is that object");
    }

    pub(super) async fn a_refusal_shows_the_possible_reaction(cluster: Arc<dyn Cluster>) {
        cluster.create(map("taken", "1")).await.expect("a valid object");
        let again = cluster.create(map("taken", "2")).await;
        assert!(matches!(again, Err(ClusterError::AlreadyExists(_))), "{again:?}");
        let absent = cluster.patch(MAPS, &key("absent"), None, json!({"data": {}})).await;
        assert!(matches!(absent, Err(ClusterError::NotFound(_))), "{absent:?}");
        let absent = cluster.delete(MAPS, &key("absent"), DeleteParams::default()).await;
        assert!(matches!(absent, Err(ClusterError::NotFound(_))), "{absent:?}");
        let nowhere = object::<ConfigMap>(json!({"metadata": {"name": "a", "namespace": "no-such-namespace"}}));
        let nowhere = cluster.create(nowhere).await;
        assert!(matches!(nowhere, Err(ClusterError::NotFound(_))), "{nowhere:?}");
        let invalid = cluster.create(map("Not A Name", "1")).await;
        assert!(matches!(invalid, Err(ClusterError::Refused(_))), "{invalid:?}");
        let widgets = GroupResource::from_static("example.com", "widgets");
        let unserved = cluster.get(widgets, &key("a")).await;
        assert!(matches!(unserved, Err(ClusterError::Refused(_))), "{unserved:?}");
    }

    pub(super) async fn a_namespace_that_goes_takes_nothing_new(cluster: Arc<dyn Cluster>) {
        cluster.create(object::<Namespace>(json!({"metadata": {"name": "going"}}))).await.expect("a valid object");
        // It has a finalizer of its own, which no client removes here.
        let left = cluster.delete(NAMESPACES, &ObjectKey::new("", "going"), DeleteParams::default()).await.expect("it is there");
        assert!(left.is_some(), "it lingers");
        let late = cluster.create(object::<ConfigMap>(json!({"metadata": {"name": "late", "namespace": "going"}}))).await;
        assert!(matches!(late, Err(ClusterError::NamespaceTerminating(_))), "{late:?}");
    }

    pub(super) async fn a_quota_is_reported_as_such(cluster: Arc<dyn Cluster>) {
        cluster.create(object::<Namespace>(json!({"metadata": {"name": "bounded"}}))).await.expect("a valid object");
        let metadata = json!({"name": "none", "namespace": "bounded"});
        cluster
            .create(object::<ResourceQuota>(json!({"metadata": metadata, "spec": {"hard": {"configmaps": "0"}}})))
            .await
            .expect("a valid object");
        let at = ObjectKey::new("bounded", "none");
        let counted = json!({"status": {"hard": {"configmaps": "0"}, "used": {"configmaps": "0"}}});
        cluster.patch(QUOTAS, &at, Some(Subresource::Status), counted).await.expect("a valid patch");
        // A server that caches quotas takes a moment to see this one.
        let mut number = 0;
        let refused = loop {
            number += 1;
            let metadata = json!({"name": format!("a-{number}"), "namespace": "bounded"});
            if let Err(error) = cluster.create(object::<ConfigMap>(json!({"metadata": metadata}))).await {
                break error;
            }
        };
        let ClusterError::ExceedsQuota(text) = &refused else { panic!("{refused:?}") };
        assert!(text.contains("exceeded quota: none, requested: configmaps=1, used: configmaps="), "{text}");
    }

    pub(super) async fn a_deletion_reports_whether_the_object_lingers(cluster: Arc<dyn Cluster>) {
        cluster.create(map("goes", "1")).await.expect("a valid object");
        assert!(cluster.delete(MAPS, &key("goes"), DeleteParams::default()).await.expect("it is there").is_none());
        let metadata = json!({"name": "held", "namespace": "default", "finalizers": ["example.com/held"]});
        let made = cluster.create(object::<ConfigMap>(json!({"metadata": metadata}))).await.expect("a valid object");
        let left = cluster.delete(MAPS, &key("held"), DeleteParams::default()).await.expect("it is there").expect("it is held");
        assert!(left.revision > made.revision && json_of(&left)["metadata"]["deletionTimestamp"].is_string());
        let foreground = DeleteParams { propagation: Some(Propagation::Foreground), ..DeleteParams::default() };
        cluster.create(map("owner", "1")).await.expect("a valid object");
        let left = cluster.delete(MAPS, &key("owner"), foreground).await.expect("it is there").expect("it waits for its dependents");
        assert_eq!(json_of(&left)["metadata"]["finalizers"], json!(["foregroundDeletion"]));
        // A pod on a node has its grace period. Without one, it is deleted at once.
        let pod_uid = uid_of(&cluster.create(pod("leaves")).await.expect("a valid object"));
        cluster.bind(&key("leaves"), &pod_uid, "node-1").await.expect("it is on no node");
        let marked =
            cluster.delete(PODS, &key("leaves"), DeleteParams::default()).await.expect("it is there").expect("it has thirty seconds");
        let now = DeleteParams { grace_period_seconds: Some(0), uid: Some(pod_uid), ..DeleteParams::default() };
        let left = cluster.delete(PODS, &key("leaves"), now).await.expect("it is there");
        assert!(left.is_none_or(|last| last.revision > marked.revision), "that of the deletion, if any");
        assert!(cluster.get(PODS, &key("leaves")).await.expect("that is an answer").is_none());
    }

    pub(super) async fn a_pod_is_bound_by_its_uid_alone(cluster: Arc<dyn Cluster>) {
        let uid = uid_of(&cluster.create(pod("bound")).await.expect("a valid object"));
        let other: Uid = "00000000-0000-0000-0000-000000000000".into();
        let refused = cluster.bind(&key("bound"), &other, "node-1").await;
        assert!(matches!(refused, Err(ClusterError::Conflict(_))), "{refused:?}");
        cluster.bind(&key("bound"), &uid, "node-1").await.expect("it is on no node");
        let refused = cluster.bind(&key("bound"), &uid, "node-2").await;
        assert!(matches!(refused, Err(ClusterError::Conflict(_))), "{refused:?}");
        let read = cluster.get(PODS, &key("bound")).await.expect("it can be read").expect("it is there");
        assert_eq!(json_of(&read)["spec"]["nodeName"], "node-1");
    }

    pub(super) async fn a_status_is_written_apart(cluster: Arc<dyn Cluster>) {
        cluster.create(pod("reports")).await.expect("a valid object");
        let patch = json!({"status": {"message": "well"}, "spec": {"nodeName": "elsewhere"}});
        let patched = cluster.patch(PODS, &key("reports"), Some(Subresource::Status), patch).await.expect("a valid patch");
        let patched = json_of(&patched);
        assert_eq!((&patched["status"]["message"], &patched["spec"]["nodeName"]), (&json!("well"), &Value::Null));
    }

    pub(super) async fn events_are_written_and_counted(cluster: Arc<dyn Cluster>) {
        let about = json!({"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "changes", "uid": "1"});
        let event = json!({"metadata": {"name": "changes.1", "namespace": "default"}, "involvedObject": about, "reason": "Started",
            "message": "it runs", "type": "Normal", "count": 1, "firstTimestamp": "2026-11-23T00:00:00Z", "lastTimestamp": "2026-11-23T00:00:00Z",
            "source": {"component": "berth"}});
        cluster.create(object::<Event>(event)).await.expect("a valid object");
        let patch = json!({"count": 2, "lastTimestamp": "2026-11-23T00:00:09Z"});
        let counted = cluster.patch(EVENTS, &key("changes.1"), None, patch).await.expect("a valid patch");
        assert_eq!(json_of(&counted)["count"], 2);
    }

    pub(super) async fn what_is_newest_is_not_behind_a_write(cluster: Arc<dyn Cluster>) {
        let metadata = json!({"name": "newest", "namespace": "default"});
        let revisions = GroupResource::from_static("apps", "controllerrevisions");
        let made =
            cluster.create(object::<ControllerRevision>(json!({"metadata": metadata, "revision": 1, "data": {}}))).await.expect("valid");
        let newest = cluster.newest(revisions.clone()).await.expect("a list");
        assert!(newest >= made.revision, "{newest} {}", made.revision);
        let mut changes = Changes::new(cluster.watch(revisions));
        let shown = loop {
            if let Change::Synced(revision) = changes.next().await {
                break revision;
            }
        };
        assert!(shown >= newest, "a list that begins later shows it");
    }

    pub(super) async fn kinds_are_returned_in_order_of_preference(cluster: Arc<dyn Cluster>) {
        let kinds = cluster.kinds().next().await.expect("they are delivered at once");
        let deployments = kinds.iter().find(|kind| kind.resource == DEPLOYMENTS).expect("they are served");
        assert_eq!((&deployments.kind, deployments.scope), (&DEPLOYMENT, Scope::Namespaced));
        let namespaces = kinds.iter().find(|kind| kind.resource == NAMESPACES).expect("they are served");
        assert_eq!((&*namespaces.kind.api_version(), namespaces.scope), ("v1", Scope::Cluster));
        let scalers: Vec<_> = kinds.iter().map(|kind| &kind.kind).filter(|kind| kind.kind == "HorizontalPodAutoscaler").collect();
        assert_eq!(scalers.first(), Some(&&GroupVersionKind::from_static("autoscaling", "v2", "HorizontalPodAutoscaler")));
        assert!(kinds.iter().all(|kind| kind.resource.plural != "bindings"), "what is not stored is not followed");
    }
}

/// Returns everything that a watch over an interrupted connection has delivered, and the revisions.
async fn changes_up_to(changes: &mut Changes, last: &str) -> (Vec<String>, Vec<Revision>) {
    let changes = changes.about("cut-", |change| is_about(change, last)).await;
    let revision = |change: &Change| if let Change::Applied { object, .. } = change { Some(object.revision) } else { None };
    (changes.iter().map(text).collect(), changes.iter().filter_map(revision).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_whose_connection_breaks_goes_on_where_it_was() {
    let server = CutOff::start(DEFAULT_HISTORY_BYTES).await;
    server.local.create(map("cut-1", "1")).await.expect("a valid object");
    let mut changes = Changes::new(server.cluster.watch(MAPS));
    assert_eq!(changes_up_to(&mut changes, "cut-1").await.0, ["restarted", "cut-1=1"]);
    assert!(matches!(changes.next_change().await, Change::Synced(_)));
    let mut revisions = Vec::new();
    for round in 2..6 {
        // Some changes come while the connection works, some while it is cut. An interruption must neither lose nor
        // repeat any.
        let [before, during] = ["a", "b"].map(|part| format!("cut-{round}{part}"));
        server.local.create(map(&before, "1")).await.expect("a valid object");
        server.cut();
        server.local.create(map(&during, "1")).await.expect("a valid object");
        server.restore();
        let (texts, more) = changes_up_to(&mut changes, &during).await;
        assert_eq!(texts, [format!("{before}=1"), format!("{during}=1")], "no new list, each once");
        revisions.extend(more);
    }
    assert!(revisions.is_sorted());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_the_server_no_longer_remembers_relists() {
    let server = CutOff::start(64 << 10).await;
    server.local.create(map("cut-1", "1")).await.expect("a valid object");
    let mut changes = Changes::new(server.cluster.watch(MAPS));
    assert_eq!(changes_up_to(&mut changes, "cut-1").await.0, ["restarted", "cut-1=1"]);
    assert!(matches!(changes.next_change().await, Change::Synced(_)));
    server.cut();
    server.local.delete(MAPS, &key("cut-1"), DeleteParams::default()).await.expect("it is there");
    let long = "x".repeat(8 << 10);
    server.local.create(map("other", "1")).await.expect("a valid object");
    for _ in 0..64 {
        server.local.patch(MAPS, &key("other"), None, json!({"data": {"value": long}})).await.expect("a valid patch");
        server.local.patch(MAPS, &key("other"), None, json!({"data": {"value": "1"}})).await.expect("a valid patch");
    }
    server.local.create(map("cut-2", "1")).await.expect("a valid object");
    server.restore();
    assert_eq!(changes_up_to(&mut changes, "cut-2").await.0, ["restarted", "cut-2=1"], "what is gone is not named");
    assert!(changes.about("cut-", |change| matches!(change, Change::Synced(_))).await.len() == 1);
}

/// For a user with rights in one namespace, the watch delivers only its objects. Cluster-scoped kinds and reads by name
/// work as before.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_namespace_a_watch_delivers_only_its_objects() {
    let (all, _server) = common::remote_itself().await;
    let own = all.clone().in_namespace("own".into());
    all.create(object::<Namespace>(json!({"metadata": {"name": "own"}}))).await.expect("a valid object");
    let inside = |name: &str| object::<ConfigMap>(json!({"metadata": {"name": name, "namespace": "own"}, "data": {"value": "inside"}}));
    for object in [map("in-a", "outside"), inside("in-b")] {
        all.create(object).await.expect("a valid object");
    }
    let mut changes = Changes::new(own.watch(MAPS));
    let mut texts = Vec::new();
    for last in ["in-b", "in-d"] {
        let changes = changes.about("in-", |change| is_about(change, last)).await;
        texts.extend(changes.iter().map(text).filter(|text| text != "synced"));
        for object in [map("in-c", "outside"), inside("in-d")].into_iter().filter(|_| last == "in-b") {
            all.create(object).await.expect("a valid object");
        }
    }
    assert_eq!(texts, ["restarted", "in-b=inside", "in-d=inside"]);
    let namespaces = Changes::new(own.watch(NAMESPACES)).about("", |change| is_about(change, "own")).await;
    assert!(namespaces.iter().any(|change| is_about(change, "default")), "they are in no namespace: {namespaces:?}");
    assert!(own.newest(MAPS).await.is_ok() && own.newest(NAMESPACES).await.is_ok());
    assert!(own.get(MAPS, &key("in-a")).await.expect("asked").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_servers_the_next_is_asked_when_one_is_gone() {
    let server = CutOff::start(DEFAULT_HISTORY_BYTES).await;
    let cluster = server.of_two().await;
    let first = cluster.server().to_owned();
    let mut changes = Changes::new(cluster.watch(MAPS));
    cluster.create(map("moves-a", "1")).await.expect("both run");
    changes.about("moves-", |change| is_about(change, "moves-a")).await;
    server.cut();
    assert!(cluster.get(MAPS, &key("moves-a")).await.expect("the other answers").is_some());
    assert_ne!(cluster.server(), first);
    cluster.create(map("moves-b", "1")).await.expect("the other answers");
    let changes = changes.about("moves-", |change| is_about(change, "moves-b")).await;
    assert!(!changes.iter().any(|change| matches!(change, Change::Restarted)), "the watch goes on where it was: {changes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_names_the_vendor_of_its_server() {
    let (cluster, _server) = common::remote_itself().await;
    assert_eq!(cluster.vendor().await, Ok(Vendor::Berth));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_to_which_no_answer_comes_may_have_been_done() {
    let server = CutOff::start(DEFAULT_HISTORY_BYTES).await;
    server.cut();
    let lost = server.cluster.create(map("cut-1", "1")).await;
    assert!(matches!(lost, Err(ClusterError::Unknown(_))), "{lost:?}");
    let lost = server.cluster.get(MAPS, &key("cut-1")).await;
    assert!(matches!(lost, Err(ClusterError::Unknown(_))), "{lost:?}");
    server.restore();
    let made = server.cluster.create(map("cut-1", "1")).await.expect("it goes on by itself");
    assert_eq!(json_of(&made)["metadata"]["managedFields"][0]["manager"], "berth-controller-manager");
    let (listed, revision) = server.cluster.list(MAPS, Some(&"default".into())).await.expect("a list");
    assert!(listed.iter().any(|(key, object)| *key.name == *"cut-1" && object.revision == made.revision) && revision >= made.revision);
    assert!(server.cluster.list(MAPS, Some(&"elsewhere".into())).await.expect("a list").0.is_empty());
}

/// Two processes both assume that they are the leader. The clock of the first is frozen, as for a process that is
/// stopped after its last read of the clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_former_leader_writes_nothing_and_knows_it_was_refused() {
    let (cluster, _server) = common::remote_itself().await;
    let asked: Arc<dyn Cluster> = Arc::new(cluster.clone());
    let timing = Timing::new(Duration::from_secs(1), Duration::from_millis(900), Duration::from_millis(100)).expect("in order");
    let elect = async |identity: &str, running: RunningTime| {
        let candidacy = Candidacy { lease: key("led"), identity: identity.to_owned(), timing };
        Leader::elect(Arc::clone(&asked), common::env(), running, candidacy).await
    };
    let first = elect("first", Arc::new(|| Duration::from_secs(1))).await;
    let first = cluster.clone().fenced_by(first.gate());
    first.create(map("led", "1")).await.expect("it leads");
    let bound = first.create(pod("led")).await.expect("it leads");

    let began = tokio::time::Instant::now();
    let second = elect("second", Arc::new(move || began.elapsed())).await;
    let second = cluster.clone().fenced_by(second.gate());
    second.create(map("other", "1")).await.expect("it leads");
    let (led, patch) = (key("led"), json!({"data": {"value": "2"}}));
    let refusals = [
        first.create(map("late", "1")).await.map(drop),
        first.patch(MAPS, &led, None, patch.clone()).await.map(drop),
        first.patch(PODS, &led, Some(Subresource::Status), json!({"status": {"phase": "Running"}})).await.map(drop),
        first.update(map("led", "3"), None).await.map(drop),
        first.bind(&led, &uid_of(&bound), "node").await,
        first.delete(MAPS, &led, DeleteParams::default()).await.map(drop),
    ];
    for refusal in refusals {
        let is_it = matches!(&refusal, Err(ClusterError::Conflict(why)) if why.ends_with("another may lead"));
        assert!(is_it, "{refusal:?}");
    }
    assert!(cluster.get(MAPS, &key("late")).await.expect("an answer").is_none());
    second.patch(MAPS, &led, None, patch).await.expect("it leads");
    second.delete(MAPS, &led, DeleteParams::default()).await.expect("it leads");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_is_written_as_the_autoscaler() {
    let (cluster, _server) = common::remote_itself().await;
    let template = json!({"metadata": {"labels": {"app": "sized"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "sized"}}, "template": template});
    let deployment = object::<Deployment>(json!({"metadata": {"name": "sized", "namespace": "default"}, "spec": spec}));
    cluster.create(deployment).await.expect("created");
    let size = json!({"spec": {"replicas": 2}});
    cluster.patch(DEPLOYMENTS, &key("sized"), Some(Subresource::Scale), size).await.expect("scaled");
    let read = json_of(&cluster.get(DEPLOYMENTS, &key("sized")).await.expect("read").expect("it exists"));
    let entries = read["metadata"]["managedFields"].as_array().expect("entries").iter();
    let managers: Vec<_> = entries.map(|entry| (entry["manager"].as_str(), entry["subresource"].as_str())).collect();
    assert!(managers.contains(&(Some("berth-horizontal-pod-autoscaler"), Some("scale"))), "{managers:?}");
    assert!(managers.contains(&(Some("berth-controller-manager"), None)), "{managers:?}");
}
