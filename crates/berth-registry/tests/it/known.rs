//! The cached versions of a remote store: writes may be based on them, and reads never return them.

use crate::test_cluster::{TestCluster, config_map, json_of, now, pod, target};
use berth_api::Object;
use berth_registry::{
    Actor, AdmissionRequest, ApiError, Body, BoxObject, DeleteOptions, Patch, Reinvocation, Remarks, ResourceTable, Reviewer, WriteOptions,
};
use berth_store::{
    Entry, Key, MemoryStore, MinRevision, Range, RangeRequest, ReadError, Revision, Store, Watch, Write, WriteError, env::Timestamp,
};
use futures::{
    FutureExt,
    future::{BoxFuture, ready},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// A remote store that counts reads of the newest state, and reads of the newest version of a key.
struct Far {
    inner: Arc<MemoryStore>,
    known: Mutex<BTreeMap<Key, Arc<Entry>>>,
    asked: AtomicUsize,
    asked_as_of: AtomicUsize,
}

impl Far {
    /// Caches the current version of the key in this server.
    fn learn(&self, key: &str) {
        let key = Key::new(key);
        let entry = now(self.inner.get(&key)).expect("read").expect("it is there");
        self.known.lock().expect("nothing panics under it").insert(key, entry);
    }

    /// Returns the number of reads since the last call.
    fn questions(&self) -> (usize, usize) {
        (self.asked.swap(0, Ordering::SeqCst), self.asked_as_of.swap(0, Ordering::SeqCst))
    }
}

impl Store for Far {
    fn revision(&self, prefix: &str) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.inner.revision(prefix)
    }

    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.inner.get(key)
    }

    fn get_as_of<'a>(&'a self, key: &Key, _: &'a MinRevision) -> BoxFuture<'a, Result<Option<Arc<Entry>>, ReadError>> {
        self.asked_as_of.fetch_add(1, Ordering::SeqCst);
        self.inner.get(key)
    }

    fn known(&self, key: &Key) -> Option<Arc<Entry>> {
        self.known.lock().expect("nothing panics under it").get(key).cloned()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.inner.range(request)
    }

    fn range_as_of<'a>(&'a self, request: RangeRequest, _: &'a MinRevision) -> BoxFuture<'a, Result<Range, ReadError>> {
        self.asked_as_of.fetch_add(1, Ordering::SeqCst);
        self.inner.range(request)
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, WriteError>> {
        self.inner.commit(writes)
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.inner.watch(prefix, after)
    }

    fn compact(&self, prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.inner.compact(prefix, revision)
    }

    fn pin(&self, _: &str, _: Revision, _: &str, _: Timestamp) {}
}

fn far() -> (TestCluster, Arc<Far>) {
    let mut seen = None;
    let cluster = TestCluster::over(|| {
        let inner = Arc::new(MemoryStore::new(Arc::<ResourceTable>::default(), 1 << 24));
        let (known, asked) = (Mutex::default(), AtomicUsize::new(0));
        let far = Arc::new(Far { inner: Arc::clone(&inner), known, asked, asked_as_of: AtomicUsize::new(0) });
        seen = Some(Arc::clone(&far));
        (inner, far)
    });
    (cluster, seen.expect("just made"))
}

const C: &str = "/registry/configmaps/default/c";
const P: &str = "/registry/pods/default/p";

/// Returns a ConfigMap in the version that this server has cached. Another server has since set `data.theirs` and also
/// `mine: 1`.
fn changed_elsewhere() -> (TestCluster, Arc<Far>) {
    let (cluster, far) = far();
    cluster.made("configmaps", config_map("c"));
    far.learn(C);
    let other = TestCluster::beside(&cluster);
    other.merge("configmaps", "c", json!({"data": {"theirs": "1", "mine": "1"}})).expect("patched");
    far.questions();
    (cluster, far)
}

fn data(object: &Value) -> &Value {
    &object["data"]
}

#[test]
fn a_change_of_what_is_known_asks_nothing() {
    let (cluster, far) = far();
    cluster.made("configmaps", config_map("c"));
    far.learn(C);
    far.questions();
    let patched = cluster.merge("configmaps", "c", json!({"data": {"mine": "1"}})).expect("patched");
    assert_eq!((data(&patched), far.questions()), (&json!({"mine": "1"}), (0, 0)));
    far.learn(C);
    cluster.delete("configmaps", "c", &DeleteOptions::default()).expect("deleted");
    assert_eq!(far.questions(), (0, 0));
    assert!(cluster.get("configmaps", "c").is_err(), "it is gone");
}

#[test]
fn a_change_of_what_is_old_is_tried_again_on_what_is_there() {
    let (cluster, far) = changed_elsewhere();
    let patched = cluster.merge("configmaps", "c", json!({"data": {"ours": "1"}})).expect("patched");
    assert_eq!((data(&patched), far.questions().0), (&json!({"theirs": "1", "mine": "1", "ours": "1"}), 1));
}

/// A reviewer that rejects each write, and counts them.
#[derive(Default)]
struct Rejecting(AtomicUsize);

impl Reviewer for Rejecting {
    fn mutate<'a>(
        &'a self,
        _: &'a AdmissionRequest<'_>,
        _: Option<&'a mut BoxObject>,
        _: &'a mut Reinvocation,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        ready(Err(ApiError::Internal { message: "no".to_owned() })).boxed()
    }

    fn validate<'a>(&'a self, _: &'a AdmissionRequest<'_>, _: Option<&'a dyn Object>) -> BoxFuture<'a, Result<Remarks, ApiError>> {
        ready(Ok(Remarks::default())).boxed()
    }
}

/// A reviewer may take long.
#[test]
fn a_reviewer_is_asked_once_more_only_if_the_known_version_was_old() {
    for (is_old, calls) in [(false, 1), (true, 2)] {
        let (cluster, _) = if is_old {
            changed_elsewhere()
        } else {
            let (cluster, far) = far();
            cluster.made("configmaps", config_map("c"));
            far.learn(C);
            (cluster, far)
        };
        let reviewer = Arc::new(Rejecting::default());
        let registry = cluster.registry.clone().with_reviewers(vec![Arc::clone(&reviewer) as Arc<dyn Reviewer>]);
        let patch = Patch::Merge(json!({"data": {"ours": "1"}}).to_string().into_bytes());
        let patched = now(registry.patch(&Actor::System, &target("configmaps", "c"), patch, &WriteOptions::default()));
        assert_eq!((patched.expect_err("rejected").to_string(), reviewer.0.swap(0, Ordering::SeqCst)), ("no".to_owned(), calls));
        let deleted = now(registry.delete(&Actor::System, &target("configmaps", "c"), &DeleteOptions::default()));
        assert_eq!((deleted.expect_err("rejected").to_string(), reviewer.0.swap(0, Ordering::SeqCst)), ("no".to_owned(), calls));
    }
}

#[test]
fn a_patch_without_effect_is_decided_on_the_current_version() {
    let (cluster, far) = changed_elsewhere();
    let here = cluster.get("configmaps", "c").expect("there");
    // On the cached version, this patch would change nothing.
    let patched = cluster.merge("configmaps", "c", json!({"data": {"theirs": null, "mine": null}})).expect("patched");
    assert_eq!(patched.get("data"), None, "it was not asked what is there");
    assert_ne!(patched["metadata"]["resourceVersion"], here["metadata"]["resourceVersion"]);
    assert_eq!(cluster.get("configmaps", "c").expect("there"), patched);
    // On the current version, this patch changes nothing. On the cached one it changes something, and the store rejects
    // the write.
    far.learn(C);
    let other = TestCluster::beside(&cluster);
    other.merge("configmaps", "c", json!({"data": {"mine": "2"}})).expect("patched");
    let before = cluster.get("configmaps", "c").expect("there");
    assert_eq!(cluster.merge("configmaps", "c", json!({"data": {"mine": "2"}})).expect("patched"), before);
}

#[test]
fn a_refusal_is_of_what_is_there() {
    let (cluster, _) = changed_elsewhere();
    // A client that read the newest version from another server can write it here.
    let mut here = cluster.get("configmaps", "c").expect("there");
    here["data"] = json!({"all": "mine"});
    let written = cluster.update("configmaps", "c", &here).expect("its version is the newest");
    assert_eq!(data(&written), &json!({"all": "mine"}));
    // A client with the version that this server has cached cannot.
    let refused = cluster.update("configmaps", "c", &here).expect_err("its version is old");
    assert!(matches!(refused, ApiError::Conflict { .. }), "{refused:?}");
}

/// Applies to a current cached version too: the error is the invalid field, not a conflict.
#[test]
fn an_invalid_field_is_an_error_on_the_second_try_too() {
    let (cluster, far) = far();
    let mut here = cluster.made("configmaps", config_map("c"));
    far.learn(C);
    here["data"] = json!({"no key": "1"});
    let refused = cluster.update("configmaps", "c", &here).expect_err("no key has spaces");
    assert!(matches!(refused, ApiError::Invalid { .. }), "{refused:?}");
}

#[test]
fn what_another_server_made_immutable_stays_as_it_is() {
    let (cluster, _) = changed_elsewhere();
    let other = TestCluster::beside(&cluster);
    other.merge("configmaps", "c", json!({"immutable": true})).expect("patched");
    let refused = cluster.merge("configmaps", "c", json!({"data": {"ours": "1"}})).expect_err("it is immutable");
    assert!(matches!(refused, ApiError::Invalid { .. }), "{refused:?}");
}

#[test]
fn what_another_server_has_deleted_is_not_found() {
    let (cluster, far) = changed_elsewhere();
    TestCluster::beside(&cluster).delete("configmaps", "c", &DeleteOptions::default()).expect("deleted");
    let refused = cluster.merge("configmaps", "c", json!({"data": {"ours": "1"}})).expect_err("it is gone");
    assert!(matches!(refused, ApiError::NotFound { .. }), "{refused:?}");
    let refused = cluster.delete("configmaps", "c", &DeleteOptions::default()).expect_err("it is gone");
    assert!(matches!(refused, ApiError::NotFound { .. }), "{refused:?}");
    // This includes an object that is known to be terminating, which a deletion does not change.
    cluster.made("configmaps", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "finalizers": ["a/b"]}}));
    cluster.delete("configmaps", "c", &DeleteOptions::default()).expect("marked");
    far.learn(C);
    TestCluster::beside(&cluster).merge("configmaps", "c", json!({"metadata": {"finalizers": null}})).expect("patched");
    let refused = cluster.delete("configmaps", "c", &DeleteOptions::default()).expect_err("it is gone");
    assert!(matches!(refused, ApiError::NotFound { .. }), "{refused:?}");
}

#[test]
fn a_dry_run_shows_what_is_there() {
    let (cluster, far) = changed_elsewhere();
    let options = WriteOptions { dry_run: vec!["All".to_owned()], ..WriteOptions::default() };
    let shown = cluster.patch("configmaps", "c", Patch::Merge(br#"{"data": {"ours": "1"}}"#.to_vec()), &options).expect("tried");
    assert_eq!((data(&shown), far.questions().0), (&json!({"theirs": "1", "mine": "1", "ours": "1"}), 1));
}

#[test]
fn a_pod_is_made_on_one_question_and_bound_on_none() {
    let (cluster, far) = far();
    cluster.made("nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}));
    far.questions();
    cluster.made("pods", pod("p"));
    let (asked, as_of) = far.questions();
    assert_eq!(asked, 0, "all of its reads are of one request");
    assert_eq!(as_of, 5, "namespace, limit ranges, account, class, quotas");
    far.learn(P);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    cluster.post("pods/binding", "p", binding).expect("bound");
    assert_eq!(far.questions(), (0, 0), "nothing: its namespace was looked at when it was made");
    // In the cached version, the pod is unscheduled.
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "m"}});
    let refused = cluster.post("pods/binding", "p", binding).expect_err("it is bound");
    assert!(matches!(refused, ApiError::Conflict { .. }), "{refused:?}");
    // The cached version is of another pod of this name, which was scheduled.
    far.learn(P);
    let other = TestCluster::beside(&cluster);
    other.delete("pods", "p", &DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() }).expect("deleted");
    other.made("pods", pod("p"));
    cluster.post("pods/binding", "p", json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}})).expect("it is on none");
    let bound = now(cluster.registry.get(&target("pods", "p"), &berth_registry::GetOptions::default())).expect("there");
    assert_eq!(json_of(&bound)["spec"]["nodeName"], "n");
}

#[test]
fn a_current_quota_limits_every_create() {
    let (cluster, far) = far();
    cluster.made(
        "resourcequotas",
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "1"}}}),
    );
    far.learn("/registry/resourcequotas/default/q");
    let status = json!({"status": {"hard": {"configmaps": "1"}, "used": {"configmaps": "0"}}});
    cluster.merge("resourcequotas/status", "q", status).expect("counted");
    cluster.made("configmaps", config_map("c"));
    let body = Body::Json(config_map("d").to_string().into_bytes());
    let refused =
        now(cluster.registry.create(&Actor::System, &crate::test_cluster::collection("configmaps"), body, &WriteOptions::default()));
    assert!(matches!(refused, Err(ApiError::Forbidden { .. })), "{refused:?}");
}
