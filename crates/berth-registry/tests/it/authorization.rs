//! Authorization, and the follow-up writes of roles, bindings, namespaces and accounts.

use crate::test_cluster::{TestCluster, now, pod, target};
use berth_rbac::{Attributes, ResourceAttributes, User};
use berth_registry::{Actor, ApiError, Body, DeleteOptions, ListOptions, Patch, Registry, ResourceTable, WriteOptions};
use berth_store::{Entry, Key, MemoryStore, Range, RangeRequest, ReadError, Revision, Store, Watch, Write, WriteError};
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, pending},
    stream,
};
use serde_json::{Value, json};
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

const ROLES: &str = "roles.rbac.authorization.k8s.io";
const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
const CLUSTER_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";

/// Returns a test cluster with the default roles.
fn cluster() -> TestCluster {
    let cluster = TestCluster::new();
    now(cluster.registry.bootstrap_policy()).expect("the first roles are fine");
    cluster
}

fn alice() -> User {
    User::authenticated("alice", &["dev".to_owned()])
}

fn role(name: &str, group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"metadata": {"name": name}, "rules": [{"apiGroups": [group], "resources": resources, "verbs": verbs}]})
}

fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    json!({"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role}, "subjects": [{"kind": "User", "name": user}]})
}

fn may(registry: &Registry, user: &User, verb: &str, resource: &str) -> bool {
    let attributes = ResourceAttributes { verb, resource, namespace: "default", ..ResourceAttributes::default() };
    now(registry.decide(user, &Attributes::from(attributes))).expect("the store answers").is_some()
}

fn as_alice() -> Actor {
    Actor::User(Arc::new(alice()))
}

/// Creates an object as alice.
fn create(cluster: &TestCluster, what: &str, object: &Value) -> Result<(), ApiError> {
    let body = Body::Json(object.to_string().into_bytes());
    now(cluster.registry.create(&as_alice(), &crate::test_cluster::collection(what), body, &WriteOptions::default())).map(drop)
}

/// Updates an object as alice.
fn update(cluster: &TestCluster, what: &str, name: &str, object: &Value) -> Result<(), ApiError> {
    let body = Body::Json(object.to_string().into_bytes());
    now(cluster.registry.update(&as_alice(), &target(what, name), body, &WriteOptions::default())).map(drop)
}

#[test]
fn a_write_of_roles_and_bindings_counts_as_soon_as_it_is_answered() {
    let cluster = cluster();
    let registry = &cluster.registry;
    assert!(!may(registry, &alice(), "get", "pods"));
    cluster.made(BINDINGS, binding("b", "Role", "r", "alice"));
    assert!(!may(registry, &alice(), "get", "pods"));
    cluster.made(ROLES, role("r", "", &["pods"], &["get"]));
    assert!(may(registry, &alice(), "get", "pods") && !may(registry, &alice(), "list", "pods"));
    cluster.merge(ROLES, "r", json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]})).expect("patched");
    assert!(!may(registry, &alice(), "get", "pods") && may(registry, &alice(), "list", "pods"));
    cluster.delete(BINDINGS, "b", &DeleteOptions::default()).expect("deleted");
    assert!(!may(registry, &alice(), "list", "pods"));
    cluster.made(CLUSTER_BINDINGS, binding("c", "ClusterRole", "view", "alice"));
    assert!(may(registry, &alice(), "list", "pods") && !may(registry, &alice(), "list", "secrets"));
}

#[test]
fn a_policy_that_lost_the_changes_is_read_again() {
    let cluster = cluster();
    assert!(!may(&cluster.registry, &alice(), "get", "pods"));
    cluster.made(ROLES, role("r", "", &["pods"], &["get"]));
    cluster.made(BINDINGS, binding("b", "Role", "r", "alice"));
    now(cluster.store.compact("/registry/", Revision(cluster.revision()))).expect("compacted");
    assert!(may(&cluster.registry, &alice(), "get", "pods"));
}

/// A store whose changes reach this server only when the test permits it.
struct Late {
    inner: Arc<MemoryStore>,
    way: Arc<Way>,
}

/// The state of the connection to the store, as the test sets it.
#[derive(Default)]
struct Way {
    /// Watches deliver nothing.
    is_late: AtomicBool,
    /// Lists are not answered either.
    is_silent: AtomicBool,
    /// The number of requested lists.
    lists: AtomicUsize,
}

impl Store for Late {
    fn revision(&self, prefix: &str) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.inner.revision(prefix)
    }

    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>> {
        self.inner.get(key)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
        self.way.lists.fetch_add(1, Ordering::SeqCst);
        if self.way.is_silent.load(Ordering::SeqCst) { pending().boxed() } else { self.inner.range(request) }
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, WriteError>> {
        self.inner.commit(writes)
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        let way = Arc::clone(&self.way);
        let mut changes = self.inner.watch(prefix, after)?;
        let next = move |context: &mut Context<'_>| {
            if way.is_late.load(Ordering::SeqCst) { Poll::Pending } else { changes.poll_next_unpin(context) }
        };
        Ok(stream::poll_fn(next).boxed())
    }

    fn compact(&self, prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.inner.compact(prefix, revision)
    }
}

/// Returns a test cluster that has authorized one request, and the connection to its store.
fn late_cluster() -> (TestCluster, Arc<Way>) {
    let way = Arc::<Way>::default();
    let cluster = TestCluster::over(|| {
        let inner = Arc::new(MemoryStore::new(Arc::<ResourceTable>::default(), 1 << 24));
        (Arc::clone(&inner), Arc::new(Late { inner, way: Arc::clone(&way) }))
    });
    cluster.made(ROLES, role("r", "", &["pods"], &["get"]));
    assert!(!may(&cluster.registry, &alice(), "get", "pods"));
    (cluster, way)
}

#[test]
fn a_decision_waits_for_what_this_server_has_written() {
    let (cluster, way) = late_cluster();
    way.is_late.store(true, Ordering::SeqCst);
    cluster.made(BINDINGS, binding("b", "Role", "r", "alice"));
    let user = alice();
    let attributes = ResourceAttributes { verb: "get", resource: "pods", namespace: "default", ..ResourceAttributes::default() };
    let attributes = Attributes::from(attributes);
    let mut decision = pin!(cluster.registry.decide(&user, &attributes));
    assert!(decision.as_mut().now_or_never().is_none(), "what was answered must count");
    way.is_late.store(false, Ordering::SeqCst);
    assert!(now(decision).expect("the store answers").is_some());
}

#[test]
fn what_other_servers_write_counts_after_a_second_or_nothing_is_decided() {
    let (cluster, way) = late_cluster();
    let other = TestCluster::beside(&cluster);
    way.is_late.store(true, Ordering::SeqCst);
    way.is_silent.store(true, Ordering::SeqCst);
    other.made(BINDINGS, binding("b", "Role", "r", "alice"));
    assert!(!may(&cluster.registry, &alice(), "get", "pods"), "not known here, and not a second ago");
    cluster.clock.advance(1);
    {
        let mut policy = pin!(cluster.registry.policy());
        assert!(policy.as_mut().now_or_never().is_none(), "a second is over: it is waited for");
        cluster.clock.advance(1);
        let refused = now(policy).expect_err("it does not come");
        assert!(matches!(&refused, ApiError::Unavailable { message } if message.contains("more than 1 s old")), "{refused}");
    }
    way.is_late.store(false, Ordering::SeqCst);
    way.is_silent.store(false, Ordering::SeqCst);
    assert!(may(&cluster.registry, &alice(), "get", "pods"), "it has come");
}

#[test]
fn where_watches_do_not_report_their_progress_roles_and_bindings_are_listed_again() {
    let (cluster, way) = late_cluster();
    let other = TestCluster::beside(&cluster);
    way.is_late.store(true, Ordering::SeqCst);
    for (name, is_allowed) in [("other", false), ("r", true)] {
        other.made(BINDINGS, binding(name, "Role", name, "alice"));
        cluster.clock.advance(1);
        let before = way.lists.load(Ordering::SeqCst);
        let mut policy = pin!(cluster.registry.policy());
        assert!(policy.as_mut().now_or_never().is_none(), "it is waited for");
        assert_eq!(way.lists.load(Ordering::SeqCst), before, "a watch that is only late shows it soon");
        cluster.clock.advance(1);
        now(policy).expect("lists are answered");
        assert_eq!(way.lists.load(Ordering::SeqCst), before + 4);
        assert_eq!(may(&cluster.registry, &alice(), "get", "pods"), is_allowed, "{name}");
    }
}

#[test]
fn a_machine_that_was_suspended_during_a_request_to_the_store_still_decides() {
    let (cluster, way) = late_cluster();
    let other = TestCluster::beside(&cluster);
    way.is_late.store(true, Ordering::SeqCst);
    other.made(BINDINGS, binding("b", "Role", "r", "alice"));
    cluster.clock.advance(1);
    let mut policy = pin!(cluster.registry.policy());
    assert!(policy.as_mut().now_or_never().is_none(), "a second is over: it is waited for");
    cluster.clock.advance(60);
    way.is_late.store(false, Ordering::SeqCst);
    now(policy).expect("what was asked for after the call came is not too old for it");
    assert!(may(&cluster.registry, &alice(), "get", "pods"));
}

#[test]
fn who_gives_up_waiting_for_the_policy_leaves_what_was_known_to_others() {
    let (cluster, way) = late_cluster();
    let other = TestCluster::beside(&cluster);
    way.is_late.store(true, Ordering::SeqCst);
    other.made(BINDINGS, binding("b", "Role", "r", "alice"));
    cluster.clock.advance(1);
    let before = way.lists.load(Ordering::SeqCst);
    for _ in 0..3 {
        assert!(cluster.registry.policy().now_or_never().is_none(), "it is waited for");
    }
    way.is_late.store(false, Ordering::SeqCst);
    assert!(may(&cluster.registry, &alice(), "get", "pods"));
    assert_eq!(way.lists.load(Ordering::SeqCst), before, "roles and bindings are not read anew");
}

#[test]
fn no_user_grants_what_the_user_does_not_have() {
    let cluster = cluster();
    cluster.made(ROLES, role("own", "", &["pods"], &["get", "list"]));
    cluster.made(BINDINGS, binding("own", "Role", "own", "alice"));
    let refused = create(&cluster, ROLES, &role("esc", "apps", &["deployments"], &["get", "list"])).expect_err("refused").to_string();
    assert_eq!(
        refused,
        "roles.rbac.authorization.k8s.io \"esc\" is forbidden: user \"alice\" (groups=[\"dev\" \"system:authenticated\"]) is attempting to \
         grant RBAC permissions not currently held:\n{APIGroups:[\"apps\"], Resources:[\"deployments\"], Verbs:[\"get\" \"list\"]}"
    );
    create(&cluster, ROLES, &role("fine", "", &["pods"], &["get"])).expect("alice has it");
    let more = update(&cluster, ROLES, "fine", &role("fine", "", &["pods"], &["get", "delete"])).expect_err("refused").to_string();
    assert!(more.ends_with("{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}"), "{more}");
    let labeled = json!({"metadata": {"name": "own", "labels": {"a": "b"}}, "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]});
    update(&cluster, ROLES, "own", &labeled).expect("the rules stay");
    let refused = create(&cluster, CLUSTER_ROLES, &role("esc", "", &["pods"], &["get"])).expect_err("only held in a namespace");
    assert!(matches!(refused, ApiError::Forbidden { .. }), "{refused}");
    assert_eq!(cluster.get(ROLES, "fine").expect("there")["rules"][0]["verbs"], json!(["get"]));
}

#[test]
fn a_role_is_bound_by_who_has_it_or_may_bind_it() {
    let cluster = cluster();
    cluster.made(ROLES, role("own", "", &["pods"], &["get"]));
    cluster.made(ROLES, role("other", "", &["secrets"], &["get"]));
    cluster.made(BINDINGS, binding("own", "Role", "own", "alice"));
    create(&cluster, BINDINGS, &binding("x", "Role", "own", "bob")).expect("alice has it");
    let refused = create(&cluster, BINDINGS, &binding("y", "Role", "other", "bob")).expect_err("refused").to_string();
    assert!(refused.starts_with("rolebindings.rbac.authorization.k8s.io \"y\" is forbidden: user \"alice\""), "{refused}");
    let missing = create(&cluster, BINDINGS, &binding("z", "Role", "nonexist", "bob")).expect_err("refused").to_string();
    assert_eq!(missing, "rolebindings.rbac.authorization.k8s.io \"nonexist\" not found");
    let binder = json!({"metadata": {"name": "binder"}, "rules": [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"],
        "resourceNames": ["other"], "verbs": ["bind"]}]});
    cluster.made(ROLES, binder);
    cluster.made(BINDINGS, binding("binder", "Role", "binder", "alice"));
    create(&cluster, BINDINGS, &binding("y", "Role", "other", "bob")).expect("alice may bind it");
    let more = json!({"metadata": {"name": "y"}, "roleRef": {"kind": "Role", "name": "other"}, "subjects": [
        {"kind": "User", "name": "bob"}, {"kind": "User", "name": "carol"}]});
    update(&cluster, BINDINGS, "y", &more).expect("alice may bind it");
    let escalator = role("escalator", "rbac.authorization.k8s.io", &["roles"], &["escalate"]);
    cluster.made(ROLES, escalator);
    cluster.made(BINDINGS, binding("escalator", "Role", "escalator", "alice"));
    create(&cluster, ROLES, &role("all", "*", &["*"], &["*"])).expect("alice may escalate");
}

#[test]
fn a_put_or_an_apply_that_creates_needs_the_right_to_create() {
    let cluster = cluster();
    let registry = &cluster.registry;
    let options = WriteOptions { field_manager: "m".to_owned(), ..WriteOptions::default() };
    let document = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}).to_string().into_bytes();
    let apply = || now(registry.patch(&as_alice(), &target("configmaps", "c"), Patch::Apply(document.clone()), &options));
    let refused = apply().expect_err("refused").to_string();
    let wanted = "configmaps \"c\" is forbidden: User \"alice\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\"";
    assert_eq!(refused, wanted);
    cluster.made("configmaps", json!({"metadata": {"name": "c"}}));
    apply().expect("it is there");
    let refused =
        update(&cluster, "leases.coordination.k8s.io", "l", &json!({"metadata": {"name": "l"}})).expect_err("refused").to_string();
    assert_eq!(
        refused,
        "leases.coordination.k8s.io \"l\" is forbidden: User \"alice\" cannot create resource \"leases\" in API group \
         \"coordination.k8s.io\" in the namespace \"default\""
    );
    cluster.made(BINDINGS, binding("edit", "ClusterRole", "edit", "alice"));
    update(&cluster, "leases.coordination.k8s.io", "l", &json!({"metadata": {"name": "l"}})).expect("alice may");
}

#[test]
fn aggregated_roles_follow_their_parts() {
    let cluster = cluster();
    let part = json!({"metadata": {"name": "part", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["get"]}]});
    let has_things = |name: &str| {
        let rules = cluster.get(CLUSTER_ROLES, name).expect("there")["rules"].clone();
        rules.as_array().into_iter().flatten().any(|rule| rule["resources"] == json!(["things"]))
    };
    cluster.made(CLUSTER_ROLES, part);
    assert!(has_things("view") && has_things("edit") && has_things("admin"));
    // The owners of an object record the aggregation.
    let applied =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "view", "labels": {"x": "y"}}});
    let options = WriteOptions { field_manager: "me".to_owned(), ..WriteOptions::default() };
    cluster.patch(CLUSTER_ROLES, "view", Patch::Apply(applied.to_string().into_bytes()), &options).expect("applied");
    cluster
        .merge(CLUSTER_ROLES, "part", json!({"rules": [{"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["list"]}]}))
        .expect("patched");
    let managers = cluster.get(CLUSTER_ROLES, "view").expect("there")["metadata"]["managedFields"].clone();
    let gatherer = json!("clusterrole-aggregation-controller");
    assert!(managers.as_array().into_iter().flatten().any(|entry| entry["manager"] == gatherer), "{managers}");
    cluster.delete(CLUSTER_ROLES, "part", &DeleteOptions::default()).expect("deleted");
    assert!(!has_things("view") && !has_things("edit") && !has_things("admin"));
    cluster.made(CLUSTER_BINDINGS, binding("a", "ClusterRole", "admin", "alice"));
    let gathers = json!({"metadata": {"name": "g"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}});
    let refused = create(&cluster, CLUSTER_ROLES, &gathers).expect_err("refused").to_string();
    assert!(refused.ends_with("is forbidden: must have cluster-admin privileges to use the aggregationRule"), "{refused}");
}

#[test]
fn the_first_roles_are_brought_up_to_date_and_changes_of_others_stay() {
    let cluster = TestCluster::new();
    let before = cluster.revision();
    now(cluster.registry.bootstrap_policy()).expect("the first roles are fine");
    let all = cluster.names(CLUSTER_ROLES, &ListOptions::default()).len() + cluster.names(CLUSTER_BINDINGS, &ListOptions::default()).len();
    assert_eq!(cluster.revision(), before + u64::try_from(all).expect("not many"), "one write each");
    let before = cluster.revision();
    now(cluster.registry.bootstrap_policy()).expect("again");
    assert_eq!(cluster.revision(), before);
    cluster.merge(CLUSTER_ROLES, "system:basic-user", json!({"rules": []})).expect("patched");
    cluster.delete(CLUSTER_BINDINGS, "system:discovery", &DeleteOptions::default()).expect("deleted");
    let mut own = cluster.get(CLUSTER_BINDINGS, "system:basic-user").expect("there");
    own["subjects"] = json!([{"kind": "User", "name": "bob"}]);
    cluster.update(CLUSTER_BINDINGS, "system:basic-user", &own).expect("updated");
    now(cluster.registry.bootstrap_policy()).expect("again");
    assert_eq!(cluster.get(CLUSTER_ROLES, "system:basic-user").expect("there")["rules"].as_array().map(Vec::len), Some(3));
    cluster.get(CLUSTER_BINDINGS, "system:discovery").expect("made again");
    let subjects = cluster.get(CLUSTER_BINDINGS, "system:basic-user").expect("there")["subjects"].clone();
    assert_eq!((&subjects[0]["name"], &subjects[1]["name"]), (&json!("bob"), &json!("system:authenticated")));
}

#[test]
fn every_namespace_has_its_default_account() {
    let cluster = cluster();
    cluster.made("namespaces", json!({"metadata": {"name": "n"}}));
    assert_eq!(cluster.names("serviceaccounts@n", &ListOptions::default()), ["default"]);
    let first = cluster.get("serviceaccounts@n", "default").expect("there")["metadata"]["uid"].clone();
    cluster.delete("serviceaccounts@n", "default", &DeleteOptions::default()).expect("deleted");
    assert_ne!(cluster.get("serviceaccounts@n", "default").expect("made again")["metadata"]["uid"], first);
    cluster.delete("namespaces", "n", &DeleteOptions::default()).expect("deleted");
    cluster.delete("serviceaccounts@n", "default", &DeleteOptions::default()).expect("deleted");
    assert!(cluster.names("serviceaccounts@n", &ListOptions::default()).is_empty());
}

#[test]
fn a_pod_runs_as_an_account_that_is_there() {
    let cluster = cluster();
    let made = cluster.made("pods", pod("p"));
    assert_eq!((&made["spec"]["serviceAccountName"], &made["spec"]["serviceAccount"]), (&json!("default"), &json!("default")));
    let mut own = pod("q");
    own["spec"]["serviceAccountName"] = json!("own");
    let refused = cluster.create("pods", own.clone()).expect_err("refused").to_string();
    let wanted = "pods \"q\" is forbidden: error looking up service account default/own: serviceaccount \"own\" not found";
    assert_eq!(refused, wanted);
    cluster.made("serviceaccounts", json!({"metadata": {"name": "own"}}));
    assert_eq!(cluster.made("pods", own)["spec"]["serviceAccountName"], "own");
}

#[test]
fn a_binding_whose_role_and_subjects_stay_is_changed_by_who_has_not_what_it_grants() {
    let cluster = cluster();
    cluster.made(ROLES, role("other", "", &["secrets"], &["get"]));
    let all = json!([{"kind": "User", "name": "bob"}, {"kind": "User", "name": "carol"}]);
    for (what, kind, name) in [(BINDINGS, "Role", "other"), (CLUSTER_BINDINGS, "ClusterRole", "edit")] {
        let mut object = cluster.made(what, binding("x", kind, name, "bob"));
        object["metadata"] = json!({"name": "x", "labels": {"a": "b"}});
        update(&cluster, what, "x", &object).expect("only a label");
        let mut more = object.clone();
        more["subjects"] = all.clone();
        let refused = update(&cluster, what, "x", &more).expect_err("another subject").to_string();
        assert!(refused.contains("is attempting to grant RBAC permissions not currently held"), "{refused}");
        let stored = cluster.get(what, "x").expect("there");
        assert_eq!((&stored["subjects"][1], &stored["metadata"]["labels"]["a"]), (&Value::Null, &json!("b")));
        // The role of a binding is immutable for every user. A user without the granted rights gets that error first.
        let mut another = object;
        another["roleRef"]["name"] = json!("admin");
        another["roleRef"]["kind"] = json!("ClusterRole");
        let refused = update(&cluster, what, "x", &another).expect_err("another role").to_string();
        assert!(refused.contains("is attempting to grant RBAC permissions not currently held"), "{refused}");
    }
}

#[test]
fn a_cluster_role_is_made_by_who_has_it_and_gathers_others_where_its_author_may_escalate() {
    let cluster = cluster();
    cluster.made(CLUSTER_ROLES, role("own", "", &["pods"], &["get", "list"]));
    cluster.made(CLUSTER_BINDINGS, binding("own", "ClusterRole", "own", "alice"));
    create(&cluster, CLUSTER_ROLES, &role("fine", "", &["pods"], &["get"])).expect("alice has it");
    let gathers =
        |name: &str| json!({"metadata": {"name": name}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}});
    let refused = create(&cluster, CLUSTER_ROLES, &gathers("g")).expect_err("refused").to_string();
    assert!(refused.ends_with("must have cluster-admin privileges to use the aggregationRule"), "{refused}");
    cluster.made(CLUSTER_ROLES, role("escalator", "rbac.authorization.k8s.io", &["clusterroles"], &["escalate"]));
    cluster.made(CLUSTER_BINDINGS, binding("escalator", "ClusterRole", "escalator", "alice"));
    create(&cluster, CLUSTER_ROLES, &gathers("g")).expect("alice may escalate");
}

#[test]
fn rules_of_more_combinations_than_are_compared_are_refused_with_their_number() {
    let cluster = cluster();
    cluster.made(CLUSTER_ROLES, role("everything", "g", &["*"], &["*"]));
    cluster.made(CLUSTER_BINDINGS, binding("everything", "ClusterRole", "everything", "alice"));
    let texts = |count: usize, letter: char| (0..count).map(|number| format!("{letter}{number}")).collect::<Vec<_>>();
    let of = |name: &str, verbs: usize, resources: usize| json!({"metadata": {"name": name}, "rules": [{"apiGroups": ["g"], "resources": texts(resources, 'r'), "verbs": texts(verbs, 'v')}]});
    create(&cluster, ROLES, &of("most", 100, 100)).expect("alice has all of it");
    for (verbs, resources) in [(73, 137), (200, 100)] {
        let count = verbs * resources;
        let refused = create(&cluster, ROLES, &of("more", verbs, resources)).expect_err("refused").to_string();
        let wanted = format!(
            "roles.rbac.authorization.k8s.io \"more\" is forbidden: the rules name {count} combinations of verbs, groups, resources and names, more than the \
             10000 that are compared with what their author holds"
        );
        assert_eq!(refused, wanted);
    }
}

#[test]
fn who_writes_neither_role_nor_binding_or_deletes_one_does_not_wait_for_them() {
    let (cluster, way) = late_cluster();
    cluster.made(BINDINGS, binding("b", "Role", "r", "alice"));
    way.is_late.store(true, Ordering::SeqCst);
    let (registry, alice) = (&cluster.registry, as_alice());
    assert!(registry.policy().now_or_never().is_none(), "it is waited for");
    let body = || Body::Json(json!({"metadata": {"name": "x"}}).to_string().into_bytes());
    let made = registry.create(&alice, &crate::test_cluster::collection("configmaps"), body(), &WriteOptions::default()).now_or_never();
    made.expect("at once").expect("made");
    let mut grants =
        pin!(async { registry.create(&alice, &crate::test_cluster::collection(ROLES), body(), &WriteOptions::default()).await.map(drop) });
    assert!(grants.as_mut().now_or_never().is_none(), "a role is held against what its author has");
    let gone = registry.delete(&alice, &target(ROLES, "r"), &DeleteOptions::default()).now_or_never();
    gone.expect("at once").expect("deleted");
}

#[test]
fn a_pod_gets_the_default_account_where_that_is_missing() {
    let cluster = cluster();
    let key = Key::new("/registry/serviceaccounts/default/default");
    let account = now(cluster.store.get(&key)).expect("readable").expect("every namespace has it");
    now(cluster.store.delete(key, account.mod_revision)).expect("deleted");
    assert!(cluster.get("serviceaccounts", "default").is_err());
    assert_eq!(cluster.made("pods", pod("p"))["spec"]["serviceAccountName"], "default");
    cluster.get("serviceaccounts", "default").expect("made for the pod");
}
