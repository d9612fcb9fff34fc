//! Concurrent writers between a read and the write that follows it.

use crate::test_cluster::{TestCluster, collection, config_map, json_of, now, target};
use berth_registry::{
    Actor, ApiError, Body, DeleteOptions, ListOptions, Patch, Registry, ResourceTable, WriteOptions, options::Precondition,
};
use berth_store::{Entry, Expected, Key, MemoryStore, Purpose, Range, RangeRequest, ReadError, Revision, Store, Watch, Write, WriteError};
use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

/// A store in which another writer is first, this many times.
struct Contended {
    inner: Arc<MemoryStore>,
    left: AtomicU32,
    /// The other writer's action before a write. Returns `false` for an irrelevant write.
    other: fn(&MemoryStore, &Write) -> bool,
}

impl Contended {
    fn write_first(&self, write: &Write) {
        if self.left.load(Ordering::SeqCst) != 0 && (self.other)(&self.inner, write) {
            self.left.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Increments a counter in the object that is about to be written.
fn counting(store: &MemoryStore, Write { key, expected, .. }: &Write) -> bool {
    let Expected::At(at) = *expected else { return false };
    let entry = now(store.get(key)).expect("read").expect("it exists");
    let mut object: Value = serde_json::from_slice(&entry.value).expect("JSON");
    let count = object["data"]["others"].as_str().map_or(0, |count| count.parse::<u32>().expect("a number"));
    object["data"]["others"] = (count + 1).to_string().into();
    now(store.put(key.clone(), object.to_string().into(), Expected::At(at), Purpose::Growth)).expect("first");
    true
}

/// Returns a claim of another server.
fn claim_for(name: &str, of: &str) -> Bytes {
    let parent = json!({"resource": "services", "namespace": "default", "name": name});
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": of}, "spec": {"parentRef": parent}})
        .to_string()
        .into()
}

/// Claims the address or port that is about to be claimed.
fn grabbing(store: &MemoryStore, Write { key, expected, .. }: &Write) -> bool {
    let is_claim = key.as_str().contains("/ipaddresses/") || key.as_str().contains("/servicenodeports/");
    if !is_claim || *expected != Expected::Absent {
        return false;
    }
    now(store.put(key.clone(), claim_for("other", "grabbed"), Expected::Absent, Purpose::Growth)).expect("first");
    true
}

/// Changes a Service's claim before the Service is stored.
fn meddling(store: &MemoryStore, write: &Write, other: impl FnOnce(Arc<Entry>)) -> bool {
    let Some(value) = write.value.as_ref().filter(|_| write.key.as_str().contains("/services/")) else { return false };
    let object: Value = serde_json::from_slice(value).expect("JSON");
    let address = object["spec"]["clusterIP"].as_str().expect("claimed");
    let claim = Key::new(&format!("/registry/ipaddresses/{address}"));
    other(now(store.get(&claim)).expect("read").expect("claimed"));
    true
}

/// Releases the claim, as a repair does after a long time, and claims it for another Service.
fn stealing(store: &MemoryStore, write: &Write) -> bool {
    meddling(store, write, |claim| {
        now(store.delete(claim.key.clone(), claim.mod_revision)).expect("taken away");
        now(store.put(claim.key.clone(), claim_for("other", "stolen"), Expected::Absent, Purpose::Growth)).expect("another's");
    })
}

/// Annotates the claim, as a repair does that finds no Service yet.
fn marking(store: &MemoryStore, write: &Write) -> bool {
    meddling(store, write, |claim| {
        let mut marked: Value = serde_json::from_slice(&claim.value).expect("JSON");
        marked["metadata"]["annotations"] = json!({"berth.dev/unused": "true"});
        now(store.put(claim.key.clone(), marked.to_string().into(), Expected::At(claim.mod_revision), Purpose::Growth)).expect("marked");
    })
}

impl Store for Contended {
    fn revision(&self, prefix: &str) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.inner.revision(prefix)
    }

    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>> {
        self.inner.get(key)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
        self.inner.range(request)
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, WriteError>> {
        writes.iter().for_each(|write| self.write_first(write));
        self.inner.commit(writes)
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.inner.watch(prefix, after)
    }

    fn compact(&self, prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.inner.compact(prefix, revision)
    }
}

/// Returns a test cluster in which `other` is first as soon as `times` is set.
fn cluster_with(other: fn(&MemoryStore, &Write) -> bool) -> (TestCluster, Arc<Contended>) {
    let mut seen = None;
    let cluster = TestCluster::over(|| {
        let inner = Arc::new(MemoryStore::new(Arc::<ResourceTable>::default(), 1 << 24));
        let store = Arc::new(Contended { inner: Arc::clone(&inner), left: AtomicU32::new(0), other });
        seen = Some(Arc::clone(&store));
        (inner, store)
    });
    (cluster, seen.expect("just made"))
}

/// Returns a registry with a ConfigMap `c`, for whose next `times` writes another writer is first.
fn contended(times: u32) -> Registry {
    let (cluster, store) = cluster_with(counting);
    cluster.made("configmaps", config_map("c"));
    store.left.store(times, Ordering::SeqCst);
    cluster.registry
}

fn patch(registry: &Registry, patch: Value) -> Result<Value, ApiError> {
    let patched = now(registry.patch(&Actor::System, &target("configmaps", "c"), Patch::MergeValue(patch), &WriteOptions::default()));
    patched.map(|written| json_of(&written.object))
}

fn put(registry: &Registry, object: &Value) -> Result<Value, ApiError> {
    let body = Body::Json(object.to_string().into_bytes());
    now(registry.update(&Actor::System, &target("configmaps", "c"), body, &WriteOptions::default())).map(|written| json_of(&written.object))
}

#[test]
fn a_patch_without_version_is_tried_five_times() {
    let mine = json!({"data": {"mine": "1"}});
    assert_eq!(patch(&contended(4), mine.clone()).expect("the fifth try")["data"], json!({"mine": "1", "others": "4"}));
    let error = patch(&contended(5), mine).expect_err("no sixth try");
    let wanted = "Operation cannot be fulfilled on configmaps \"c\": the object has been modified; please apply your changes to the latest \
                  version and try again";
    assert_eq!(error.to_string(), wanted);
}

#[test]
fn a_write_with_version_loses_at_once() {
    let version = |registry: &Registry| {
        let got = now(registry.get(&target("configmaps", "c"), &Default::default())).expect("there");
        json_of(&got)["metadata"]["resourceVersion"].clone()
    };
    let registry = contended(1);
    let conditional = json!({"metadata": {"resourceVersion": version(&registry)}, "data": {"mine": "1"}});
    assert!(matches!(patch(&registry, conditional), Err(ApiError::Conflict { .. })));
    let registry = contended(1);
    let mut object = config_map("c");
    object["metadata"]["resourceVersion"] = version(&registry);
    object["data"] = json!({"mine": "1"});
    assert!(matches!(put(&registry, &object), Err(ApiError::Conflict { .. })));
}

#[test]
fn an_unconditional_update_wins_in_the_end() {
    let mut object = config_map("c");
    object["data"] = json!({"mine": "1"});
    assert_eq!(put(&contended(2), &object).expect("tried again")["data"], json!({"mine": "1"}));
}

#[test]
fn a_deletion_is_retried_on_what_has_changed() {
    let registry = contended(2);
    now(registry.delete(&Actor::System, &target("configmaps", "c"), &DeleteOptions::default())).expect("deleted");
    assert!(matches!(now(registry.get(&target("configmaps", "c"), &Default::default())), Err(ApiError::NotFound { .. })));
}

#[test]
fn of_two_servers_that_want_one_address_or_port_one_gets_it() {
    let (cluster, store) = cluster_with(grabbing);
    let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
    store.left.store(2, Ordering::SeqCst);
    let made = cluster.made("services", json!({"metadata": {"name": "mine"}, "spec": spec}));
    assert_eq!(store.left.load(Ordering::SeqCst), 0, "the other was first twice");
    let address = made["spec"]["clusterIP"].as_str().expect("an address");
    let claim = cluster.get("ipaddresses.networking.k8s.io", address).expect("claimed");
    assert_eq!(claim["spec"]["parentRef"]["name"], "mine");

    store.left.store(1, Ordering::SeqCst);
    let wanting = json!({"metadata": {"name": "wanting"}, "spec": {"ports": [{"port": 80}], "clusterIP": "10.96.7.7"}});
    let text = cluster.create("services", wanting).expect_err("the other has it").to_string();
    assert!(text.contains("provided IP is already allocated"), "{text}");
    assert!(cluster.get("services", "wanting").is_err());
}

#[test]
fn a_service_whose_claim_is_lost_meanwhile_is_not_made() {
    let (cluster, store) = cluster_with(stealing);
    store.left.store(1, Ordering::SeqCst);
    let error = cluster.create("services", json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})).expect_err("lost");
    assert!(error.to_string().contains("was given to another Service meanwhile"), "{error}");
    assert!(cluster.get("services", "s").is_err(), "undone");
    let made = cluster.made("services", json!({"metadata": {"name": "s"}, "spec": {"type": "ExternalName", "externalName": "x.y"}}));
    store.left.store(1, Ordering::SeqCst);
    let real = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}});
    cluster.merge("services", "s", real).expect_err("lost");
    assert_eq!(cluster.get("services", "s").expect("there")["spec"], made["spec"], "as it was");
}

#[test]
fn a_repair_in_the_middle_of_a_create_takes_nothing_away() {
    let (cluster, store) = cluster_with(marking);
    store.left.store(1, Ordering::SeqCst);
    let made = cluster.made("services", json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}));
    assert_eq!(store.left.load(Ordering::SeqCst), 0, "it was marked");
    let claim = cluster.get("ipaddresses.networking.k8s.io", made["spec"]["clusterIP"].as_str().expect("an address")).expect("there");
    assert_eq!(claim["metadata"].get("annotations").filter(|annotations| **annotations != json!({})), None, "the mark is gone");
    assert_eq!(now(cluster.registry.repair_allocations()).expect("repaired"), []);
}

/// Charges one pod to the quota that is about to be charged.
fn charging(store: &MemoryStore, Write { key, expected, .. }: &Write) -> bool {
    let (true, Expected::At(at)) = (key.as_str().contains("/resourcequotas/"), *expected) else { return false };
    let entry = now(store.get(key)).expect("read").expect("it exists");
    let mut object: Value = serde_json::from_slice(&entry.value).expect("JSON");
    let used: u32 = object["status"]["used"]["pods"].as_str().expect("charged").parse().expect("a number");
    object["status"]["used"]["pods"] = (used + 1).to_string().into();
    now(store.put(key.clone(), object.to_string().into(), Expected::At(at), Purpose::Growth)).expect("first");
    true
}

#[test]
fn two_creates_never_get_the_same_room() {
    let (cluster, store) = cluster_with(charging);
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}});
    cluster.made("resourcequotas", quota);
    let status = json!({"status": {"hard": {"pods": "2"}, "used": {"pods": "0"}}});
    cluster.merge("resourcequotas/status", "q", status).expect("a status");
    for (name, is_let_in) in [("a", true), ("b", false)] {
        store.left.store(u32::from(name == "a"), Ordering::SeqCst);
        assert_eq!(cluster.create("pods", crate::test_cluster::pod(name)).is_ok(), is_let_in, "{name}");
    }
    assert_eq!(cluster.get("resourcequotas", "q").expect("there")["status"]["used"]["pods"], "2");
}

fn part(name: &str) -> Value {
    let rules = json!([{"apiGroups": ["example.com"], "resources": [name], "verbs": ["get"]}]);
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "uid": name, "labels": {"part-of": "g"}}, "rules": rules})
}

/// Creates another part of the role that is about to be aggregated, and aggregates it.
fn gathering(store: &MemoryStore, Write { key, expected, .. }: &Write) -> bool {
    let (true, Expected::At(at)) = (key.as_str().ends_with("/clusterroles/g"), *expected) else { return false };
    let name = format!("other-{at}");
    let other = part(&name);
    let roles = key.as_str().trim_end_matches('g');
    now(store.put(Key::new(&format!("{roles}{name}")), other.to_string().into(), Expected::Absent, Purpose::Growth)).expect("made");
    let entry = now(store.get(key)).expect("read").expect("it exists");
    let mut object: Value = serde_json::from_slice(&entry.value).expect("JSON");
    object["rules"] = other["rules"].clone();
    now(store.put(key.clone(), object.to_string().into(), Expected::At(at), Purpose::Growth)).expect("first");
    true
}

#[test]
fn an_aggregated_role_has_all_parts_however_often_another_fills_it_first() {
    const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
    for times in [1, 20] {
        let (cluster, store) = cluster_with(gathering);
        let rule = json!({"clusterRoleSelectors": [{"matchLabels": {"part-of": "g"}}]});
        cluster.made(ROLES, json!({"metadata": {"name": "g"}, "aggregationRule": rule}));
        store.left.store(times, Ordering::SeqCst);
        cluster.made(ROLES, part("mine"));
        assert_eq!(store.left.load(Ordering::SeqCst), 0, "the other was first each time");
        let rules = cluster.get(ROLES, "g").expect("there")["rules"].as_array().expect("filled").clone();
        assert_eq!(rules.len(), 1 + usize::try_from(times).expect("few"), "{rules:?}");
    }
}

/// Returns the stored pod before this write, if the write changes an existing pod.
fn pod_before(store: &MemoryStore, Write { key, expected, .. }: &Write) -> Option<Arc<Entry>> {
    let is_change = key.as_str().contains("/pods/") && matches!(expected, Expected::At(_));
    now(store.get(key)).expect("read").filter(|_| is_change)
}

/// The node removes a terminating pod before the deletion that marked it does.
fn removing(store: &MemoryStore, write: &Write) -> bool {
    let Some(entry) = pod_before(store, write).filter(|_| write.value.is_none()) else { return false };
    now(store.delete(entry.key.clone(), entry.mod_revision)).expect("the node is first");
    true
}

/// The node removes the pod, and its controller creates another one of the same name.
fn replacing(store: &MemoryStore, write: &Write) -> bool {
    let Some(entry) = pod_before(store, write).filter(|_| write.value.is_none()) else { return false };
    replace(store, &entry);
    true
}

fn replace(store: &MemoryStore, entry: &Entry) {
    now(store.delete(entry.key.clone(), entry.mod_revision)).expect("the node is first");
    let mut another: Value = serde_json::from_slice(&entry.value).expect("JSON");
    another["metadata"]["uid"] = json!("another");
    now(store.put(entry.key.clone(), another.to_string().into(), Expected::Absent, Purpose::Growth)).expect("the name is free");
}

/// The pod is deleted before its eviction marks it: as disrupted, or for deletion.
fn vanishing_before(store: &MemoryStore, write: &Write, is_deletion: bool) -> Option<Arc<Entry>> {
    let value: Value = serde_json::from_slice(write.value.as_ref()?).expect("JSON");
    pod_before(store, write).filter(|_| value["metadata"]["deletionTimestamp"].is_string() == is_deletion)
}

fn vanishing_disrupted(store: &MemoryStore, write: &Write) -> bool {
    let Some(entry) = vanishing_before(store, write, false) else { return false };
    now(store.delete(entry.key.clone(), entry.mod_revision)).expect("gone");
    true
}

fn vanishing_marked(store: &MemoryStore, write: &Write) -> bool {
    let Some(entry) = vanishing_before(store, write, true) else { return false };
    replace(store, &entry);
    true
}

/// Returns a test cluster with a running pod `p`, in which the other writer is first once.
fn with_a_running_pod(other: fn(&MemoryStore, &Write) -> bool) -> TestCluster {
    let (cluster, store) = cluster_with(other);
    let made =
        cluster.made("pods", json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}}));
    assert_eq!(made["spec"]["nodeName"], "n1");
    let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    cluster.patch("pods/status", "p", Patch::MergeValue(running), &WriteOptions::default()).expect("it runs");
    store.left.store(1, Ordering::SeqCst);
    cluster
}

/// A deletion with grace period 0 writes twice: the deletion timestamp, and the removal. If the pod's node is first
/// with the second write, the deletion succeeds.
#[test]
fn a_force_deletion_that_a_node_completes_is_answered_as_done() {
    for other in [removing, replacing] {
        let cluster = with_a_running_pod(other);
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        let deleted = cluster.delete("pods", "p", &options).expect("it is gone").expect("pods are shown");
        assert_eq!((&deleted["metadata"]["deletionGracePeriodSeconds"], &deleted["metadata"]["name"]), (&json!(0), &json!("p")));
        assert!(deleted["metadata"]["resourceVersion"].is_string());
        let uid = cluster.get("pods", "p").map(|pod| pod["metadata"]["uid"].clone());
        assert!(uid.as_ref().map_or(true, |uid| uid == "another"), "the pod that came after it stays: {uid:?}");
    }
}

#[test]
fn a_force_deletion_of_all_that_nodes_complete_is_answered_as_done() {
    for other in [removing, replacing] {
        let cluster = with_a_running_pod(other);
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        let deleted =
            now(cluster.registry.delete_collection(&Actor::System, &collection("pods"), &ListOptions::default(), &options)).expect("gone");
        assert_eq!(deleted.items.len(), 1);
    }
}

/// An eviction writes to the pod before it deletes it.
#[test]
fn an_eviction_of_a_pod_that_is_gone_meanwhile_is_answered_as_done() {
    for other in [vanishing_disrupted, vanishing_marked] {
        let cluster = with_a_running_pod(other);
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
        assert_eq!(cluster.post("pods/eviction", "p", eviction).expect("it is gone")["code"], 201);
    }
}

#[test]
fn a_deletion_of_what_was_gone_before_it_began_is_still_not_found() {
    let cluster = with_a_running_pod(removing);
    assert!(matches!(cluster.delete("pods", "q", &DeleteOptions::default()), Err(ApiError::NotFound { .. })));
    let uid = Precondition { uid: Some("another".to_owned()), resource_version: None };
    let options = DeleteOptions { grace_period_seconds: Some(0), precondition: uid, ..DeleteOptions::default() };
    assert!(matches!(cluster.delete("pods", "p", &options), Err(ApiError::Conflict { .. })), "the client's own precondition");
}
