//! Fenced writes by the holder of a Lease.

use crate::test_cluster::{TestCluster, config_map, now, pod};
use berth_registry::{ApiError, DeleteOptions, Patch, WriteOptions};
use berth_store::Key;
use serde_json::{Value, json};
use std::sync::Arc;

const LEASES: &str = "leases.coordination.k8s.io";

/// Returns the same test cluster with writes of this holder.
fn fenced(cluster: &TestCluster, fencing_token: &str) -> TestCluster {
    let mut fenced = TestCluster::beside(cluster);
    fenced.registry = fenced.registry.with_fencing(Arc::new(fencing_token.parse().expect("a fencing token")));
    fenced
}

fn hold(cluster: &TestCluster, holder: &str, transitions: i32) {
    cluster.merge(LEASES, "l", json!({"spec": {"holderIdentity": holder, "leaseTransitions": transitions}})).expect("held");
}

fn refused<T: std::fmt::Debug>(result: Result<T, ApiError>, object: &str) {
    let told = result.expect_err("another leads").to_string();
    let why = "the lease default/l is not held by \"a\" after 1 transitions: another may lead";
    assert_eq!(told, format!("Operation cannot be fulfilled on {object}: {why}"));
}

#[test]
fn who_leads_no_longer_writes_nothing() {
    let cluster = TestCluster::new();
    cluster.made(LEASES, json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a", "leaseTransitions": 1}}));
    let first = fenced(&cluster, "default/l;a;1");
    for name in ["c", "d"] {
        first.made("configmaps", config_map(name));
    }
    first.made("pods", pod("p"));
    // The next write detects that.
    let renewed = json!({"spec": {"renewTime": "2026-01-01T00:00:02.000000Z"}});
    cluster.merge(LEASES, "l", renewed).expect("renewed");
    first.merge("configmaps", "c", json!({"data": {"k": "1"}})).expect("it leads");
    first.delete("configmaps", "d", &DeleteOptions::default()).expect("it leads");

    hold(&cluster, "b", 2);
    let revision = cluster.revision();
    refused(first.create("configmaps", config_map("e")), "configmaps \"e\"");
    refused(first.merge("configmaps", "c", json!({"data": {"k": "2"}})), "configmaps \"c\"");
    refused(first.update("configmaps", "c", &config_map("c")), "configmaps \"c\"");
    refused(first.delete("configmaps", "c", &DeleteOptions::default()), "configmaps \"c\"");
    refused(first.delete("pods", "p", &DeleteOptions::default()), "pods \"p\"");
    refused(first.merge("pods/status", "p", json!({"status": {"phase": "Running"}})), "pods \"p\"");
    refused(first.post("pods/binding", "p", json!({"target": {"name": "n"}})), "pods \"p\"");
    refused(first.post("pods/eviction", "p", json!({"metadata": {"name": "p"}})), "pods \"p\"");
    let event = json!({"metadata": {"name": "v"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}});
    refused(first.create("events", event), "events \"v\"");
    assert_eq!(cluster.revision(), revision, "nothing has changed");

    let second = fenced(&cluster, "default/l;b;2");
    second.merge("configmaps", "c", json!({"data": {"k": "3"}})).expect("it leads");
    // Neither the same holder with another count of transitions, nor a deleted Lease.
    hold(&cluster, "a", 3);
    refused(first.create("configmaps", config_map("e")), "configmaps \"e\"");
    cluster.delete(LEASES, "l", &DeleteOptions::default()).expect("deleted");
    refused(first.create("configmaps", config_map("e")), "configmaps \"e\"");
}

#[test]
fn what_a_refused_write_has_taken_is_given_back() {
    let cluster = TestCluster::new();
    cluster.made(LEASES, json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "b", "leaseTransitions": 2}}));
    cluster.made("resourcequotas", json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "5"}}}));
    cluster
        .merge("resourcequotas/status", "q", json!({"status": {"hard": {"configmaps": "5"}, "used": {"configmaps": "1"}}}))
        .expect("counted");
    let first = fenced(&cluster, "default/l;a;1");
    refused(first.create("configmaps", config_map("e")), "configmaps \"e\"");
    let service = json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "10.96.7.7", "ports": [{"port": 80}]}});
    refused(first.create("services", service), "services \"s\"");
    assert_eq!(cluster.get("resourcequotas", "q").expect("there")["status"]["used"], json!({"configmaps": "1"}));
    let claim = now(berth_store::Store::get(&*cluster.store, &Key::new("/registry/ipaddresses/10.96.7.7"))).expect("read");
    assert!(claim.is_none(), "{claim:?}");
}

#[test]
fn a_dry_run_and_a_patch_without_effect_are_answered_as_before() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", config_map("c"));
    let first = fenced(&cluster, "default/none;a;1");
    let dry = WriteOptions { dry_run: vec!["All".to_owned()], ..WriteOptions::default() };
    first.create_with("configmaps", config_map("e"), &dry).expect("nothing is written");
    let same: Value = first.patch("configmaps", "c", Patch::MergeValue(json!({})), &WriteOptions::default()).expect("nothing is written");
    assert_eq!(same["metadata"]["name"], "c");
}
