//! A store that fills up: which writes it rejects, and that every object can be deleted.

use crate::test_cluster::{TestCluster, collection, config_map, deployment, now, pod};
use berth_rbac::User;
use berth_registry::{Actor, ApiError, Body, DeleteOptions, Pressure, WatchOptions, WriteOptions};
use berth_store::MemoryStore;
use futures::FutureExt;
use serde_json::{Value, json};
use std::sync::Arc;

const QUOTA: u64 = 1 << 20;

/// Returns a test cluster whose store has a quota of [`QUOTA`] bytes.
fn small() -> TestCluster {
    TestCluster::over(|| {
        let store = Arc::new(MemoryStore::new(Arc::<berth_registry::ResourceTable>::default(), 1 << 24).with_quota(Some(QUOTA)));
        (Arc::clone(&store), store)
    })
}

fn no_space(result: Result<Value, ApiError>) -> String {
    match result.expect_err("refused") {
        ApiError::NoSpace { message } => message,
        other => panic!("{other:?}"),
    }
}

fn user(name: &str) -> Actor {
    Actor::User(Arc::new(User { name: name.to_owned(), ..User::default() }))
}

fn large(name: &str) -> Value {
    let mut object = config_map(name);
    object["data"] = json!({"text": "x".repeat(10_000)});
    object["metadata"]["finalizers"] = json!(["example.com/wait"]);
    object
}

/// Fills `default` to the last kilobyte, or beyond the limit. Returns the number of large config maps.
fn fill(cluster: &TestCluster) -> usize {
    cluster.made("configmaps", config_map("small-0"));
    let large = (0..200).take_while(|number| cluster.create("configmaps", large(&format!("large-{number}"))).is_ok()).count();
    (1..200).take_while(|number| cluster.create("configmaps", config_map(&format!("small-{number}"))).is_ok()).for_each(drop);
    large
}

#[test]
fn a_namespace_takes_half_of_what_the_others_leave_and_then_no_more() {
    let cluster = small();
    let stored = fill(&cluster);
    assert!((40..50).contains(&stored), "half of {QUOTA} bytes, not {stored} times 10,000");
    let refusal = no_space(cluster.create("configmaps", large("another")));
    let words =
        "mvcc: database space exceeded: namespace \"default\" uses half of what the other namespaces leave of the store's 1048576 bytes";
    assert_eq!(refusal, words);
    assert_eq!(no_space(cluster.create("pods", pod("p"))), words, "whatever the resource");
    assert_eq!(no_space(cluster.merge("configmaps", "small-0", json!({"data": {"text": "x".repeat(2000)}}))), words, "growth");
    cluster.merge("configmaps", "large-0", json!({"data": null})).expect("what gets smaller");
    assert!(cluster.registry.usage().is_some_and(|usage| usage.lacks.is_none() && usage.refused >= 4), "others find room");
    cluster.made("configmaps@kube-system", large("elsewhere"));
}

#[test]
fn a_full_namespace_goes_on_and_can_be_emptied() {
    let cluster = small();
    cluster.made("deployments.apps", deployment("d"));
    cluster.made("pods", pod("p"));
    let stored = fill(&cluster);
    // Writes that keep the cluster working.
    cluster.merge("deployments.apps/status", "d", json!({"status": {"replicas": 3, "observedGeneration": 1}})).expect("a status");
    cluster.merge("deployments.apps/scale", "d", json!({"spec": {"replicas": 0}})).expect("a scale");
    cluster.made("leases.coordination.k8s.io", json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}));
    // The space was reserved when the pod was created, so not even the reserve is used.
    let used = || cluster.registry.usage().expect("counted").bytes;
    let before = used();
    cluster.post("pods/binding", "p", json!({"target": {"name": "n"}})).expect("a binding");
    assert!(used() <= before, "{} bytes, {before} when it was made", used());
    let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}});
    cluster.merge("pods/status", "p", status).expect("a status");
    assert!(used() <= before, "{} bytes, {before} when it was made", used());
    // First deletion timestamps, then the removal of finalizers.
    let foreground = || DeleteOptions { propagation_policy: Some("Foreground".to_owned()), ..DeleteOptions::default() };
    for number in 0..stored {
        cluster.delete("configmaps", &format!("large-{number}"), &foreground()).expect("marked");
    }
    let at = |number: usize| format!("large-{number}");
    let only_one = json!({"metadata": {"finalizers": ["foregroundDeletion"]}});
    for number in 0..stored {
        cluster.merge("configmaps", &at(number), only_one.clone()).expect("a finalizer less");
        cluster.merge("configmaps", &at(number), json!({"metadata": {"finalizers": null}})).expect("the last");
    }
    cluster.delete("pods", "p", &DeleteOptions { grace_period_seconds: Some(30), ..DeleteOptions::default() }).expect("marked");
    cluster.made("configmaps", large("room-again"));
}

#[test]
fn the_reserve_is_not_for_users() {
    let cluster = small();
    fill(&cluster);
    let user = user("u");
    let made = |actor: &Actor, what: &str, object: Value| {
        let body = Body::Json(object.to_string().into_bytes());
        now(cluster.registry.create(actor, &collection(what), body, &WriteOptions::default())).map(drop)
    };
    let event = |name: &str, kind: &str| json!({"apiVersion": "v1", "kind": "Event", "type": kind, "metadata": {"name": name}, "involvedObject": {"namespace": "default"}, "message": "x".repeat(1000)});
    assert!(matches!(made(&user, "events", event("a", "Warning")), Err(ApiError::NoSpace { .. })));
    assert!(matches!(made(&Actor::System, "events", event("b", "Normal")), Err(ApiError::NoSpace { .. })), "nor for all that is told of");
    made(&Actor::System, "events", event("c", "Warning")).expect("one of the server's");
}

#[test]
fn writes_wait_and_are_refused_before_memory_ends() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", config_map("before"));
    let pressure = Pressure::default();
    let registry = cluster.registry.clone().with_pressure(pressure.clone());
    let create = |name: &str| {
        let body = Body::Json(config_map(name).to_string().into_bytes());
        let (registry, at) = (registry.clone(), collection("configmaps"));
        async move { registry.create(&Actor::System, &at, body, &WriteOptions::default()).await.map(drop) }
    };
    pressure.set(999, 1000);
    let mut slow = Box::pin(create("slow"));
    assert!((&mut slow).now_or_never().is_none(), "it waits");
    cluster.clock.advance(1);
    slow.now_or_never().expect("a second is over").expect("then it is stored");
    pressure.set(1000, 1000);
    let refused = now(create("more"));
    assert!(matches!(refused, Err(ApiError::TooManyRequests { retry_after_seconds: 2, .. })), "{refused:?}");
    cluster.delete("configmaps", "before", &DeleteOptions::default()).expect("what makes room");
    now(registry.delete(&Actor::System, &crate::test_cluster::target("configmaps", "slow"), &DeleteOptions::default()))
        .expect("what makes room");
    pressure.set(0, 1000);
    now(create("more")).expect("there is memory again");
}

#[test]
fn what_leads_to_a_deletion_goes_on_when_there_is_no_memory() {
    let cluster = TestCluster::new();
    cluster.made("namespaces", json!({"metadata": {"name": "n"}}));
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    cluster.made("configmaps", held);
    let pressure = Pressure::default();
    let registry = cluster.registry.clone().with_pressure(pressure.clone());
    let user = user("u");
    pressure.set(1000, 1000);
    let merge = |patch: Value| {
        let patch = berth_registry::Patch::Merge(patch.to_string().into_bytes());
        now(registry.patch(&user, &crate::test_cluster::target("configmaps", "held"), patch, &WriteOptions::default())).map(drop)
    };
    let refused = |what: Result<(), ApiError>| assert!(matches!(what, Err(ApiError::TooManyRequests { .. })), "{what:?}");
    refused(merge(json!({"metadata": {"finalizers": ["example.com/a", "example.com/b", "example.com/c"]}})));
    refused(merge(json!({"metadata": {"finalizers": ["example.com/a", "example.com/c"]}})));
    refused(merge(json!({"metadata": {"finalizers": ["example.com/a"]}, "data": {"a": "b"}})));
    merge(json!({"metadata": {"finalizers": ["example.com/a"]}})).expect("one less");
    merge(json!({"metadata": {"finalizers": null}})).expect("the last");
    now(registry.delete(&user, &crate::test_cluster::target("namespaces", "n"), &DeleteOptions::default())).expect("marked");
    let finalized = json!({"metadata": {"name": "n"}, "spec": {"finalizers": []}});
    let body = Body::Json(finalized.to_string().into_bytes());
    now(registry.update(&user, &crate::test_cluster::target("namespaces/finalize", "n"), body, &WriteOptions::default())).expect("gone");
    assert!(matches!(cluster.get("namespaces", "n"), Err(ApiError::NotFound { .. })));
}

#[test]
fn a_user_who_writes_more_than_his_share_of_a_history_that_others_watch_is_slowed() {
    let cluster = TestCluster::new();
    let registry = cluster.registry.clone().with_history_shares(400_000);
    let create = |actor: Actor, name: String| {
        let body = Body::Json(large(&name).to_string().into_bytes());
        let registry = &registry;
        async move { registry.create(&actor, &collection("configmaps"), body, &WriteOptions::default()).await.map(drop) }
    };
    // Writes to resources that no other user watches are not delayed and do not count.
    for number in 0..10 {
        now(create(user("busy"), format!("before{number}"))).expect("at once");
    }
    let _watch = now(registry.watch(&user("watcher"), &collection("configmaps"), &WatchOptions::default())).expect("a watch");
    for number in 0..10 {
        now(create(user("busy"), format!("c{number}"))).expect("within the share");
    }
    let mut waiting: Vec<_> = (10..20).map(|number| Box::pin(create(user("busy"), format!("c{number}")))).collect();
    assert!(waiting.iter_mut().all(|write| write.now_or_never().is_none()), "they wait");
    now(create(user("other"), "other".to_owned())).expect("another user does not");
    now(create(Actor::System, "administrator".to_owned())).expect("nor an administrator");
    cluster.clock.advance(5);
    for write in waiting {
        write.now_or_never().expect("its time has come").expect("stored");
    }
    let refused = now(create(user("busy"), "late".to_owned()));
    let Err(ApiError::TooManyRequests { retry_after_seconds, .. }) = refused else { panic!("{refused:?}") };
    cluster.clock.advance(i64::from(retry_after_seconds) + 1);
    now(create(user("busy"), "late".to_owned())).expect("at once");
}

#[test]
fn service_accounts_of_a_namespace_share_their_history() {
    let cluster = TestCluster::new();
    let registry = cluster.registry.clone().with_history_shares(400_000);
    let account = |namespace: &str, name: &str| Actor::User(Arc::new(User::service_account(namespace, name, "u")));
    let create = |actor: Actor, name: &str| {
        let body = Body::Json(large(name).to_string().into_bytes());
        let registry = &registry;
        async move { registry.create(&actor, &collection("configmaps"), body, &WriteOptions::default()).await.map(drop) }
    };
    let _own = now(registry.watch(&account("n", "watcher"), &collection("configmaps"), &WatchOptions::default())).expect("a watch");
    let _other = now(registry.watch(&account("m", "watcher"), &collection("configmaps"), &WatchOptions::default())).expect("a watch");
    for number in 0..10 {
        now(create(account("n", &format!("s{number}")), &format!("c{number}"))).expect("within the share");
    }
    let mut late = Box::pin(create(account("n", "fresh"), "late"));
    assert!((&mut late).now_or_never().is_none(), "one that has written nothing waits as well");
    now(create(account("m", "s"), "other")).expect("those of another namespace do not");
}
