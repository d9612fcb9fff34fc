use crate::test_cluster::{TestCluster, config_map, now};
use berth_registry::{ListOptions, WatchEvent, WatchOptions};
use berth_store::expiry::Expire;
use futures::{FutureExt, StreamExt};
use serde_json::json;

fn event(name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"}, "type": "Normal", "reason": "R",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "message": "m", "count": 2,
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "source": {"component": "c"},
        "reportingComponent": "c", "reportingInstance": "i"})
}

#[test]
fn both_groups_show_the_same_events_under_their_own_names() {
    let cluster = TestCluster::new();
    let core = cluster.made("events", event("e"));
    let new = cluster.get("events.events.k8s.io", "e").expect("there");
    assert_eq!((&new["apiVersion"], &new["kind"]), (&json!("events.k8s.io/v1"), &json!("Event")));
    assert_eq!(new["metadata"], core["metadata"]);
    for (old, name) in [
        ("involvedObject", "regarding"),
        ("message", "note"),
        ("reportingComponent", "reportingController"),
        ("count", "deprecatedCount"),
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
        ("source", "deprecatedSource"),
        ("reason", "reason"),
        ("type", "type"),
    ] {
        assert_eq!(new[name], core[old], "{old}");
        assert!(!core[old].is_null(), "{old}");
    }
    cluster.merge("events", "e", json!({"message": "n"})).expect("patched");
    assert_eq!(cluster.get("events.events.k8s.io", "e").expect("there")["note"], "n");
}

#[test]
fn lists_and_watches_of_either_group_select_by_their_own_names() {
    let cluster = TestCluster::new();
    cluster.made("events", event("e"));
    let list =
        |what: &str, field: &str| cluster.names(what, &ListOptions { field_selector: format!("{field}=p"), ..ListOptions::default() });
    assert_eq!(list("events", "involvedObject.name"), ["e"]);
    assert_eq!(list("events.events.k8s.io", "regarding.name"), ["e"]);
    let mut watch = cluster.watch("events.events.k8s.io", &WatchOptions::default());
    let Some(Some(WatchEvent::Added(entry))) = watch.next().now_or_never() else { panic!("added") };
    assert!(String::from_utf8_lossy(&entry.value).contains("\"regarding\""));
    cluster.merge("events", "e", json!({"count": 3})).expect("patched");
    let Some(Some(WatchEvent::Modified(change))) = watch.next().now_or_never() else { panic!("modified") };
    assert!(String::from_utf8_lossy(&change.entry.value).contains("\"deprecatedCount\":3"));
}

#[test]
fn events_are_forgotten_an_hour_after_they_were_last_written() {
    let cluster = TestCluster::new();
    for name in ["old", "again", "viewed"] {
        cluster.made("events", event(name));
    }
    cluster.made("configmaps", config_map("stays"));
    cluster.clock.advance(1800);
    cluster.merge("events", "again", json!({"count": 3})).expect("patched");
    cluster.merge("events.events.k8s.io", "viewed", json!({"metadata": {"labels": {"a": "b"}}})).expect("patched");
    cluster.made(
        "events.events.k8s.io",
        json!({"metadata": {"name": "new"}, "eventTime": "2026-01-01T00:30:00.000000Z", "action": "a",
        "reason": "R", "type": "Normal", "reportingController": "c/c", "reportingInstance": "i"}),
    );
    let expired = || now(cluster.store.expire(cluster.clock.time())).expect("expired");
    cluster.clock.advance(1799);
    assert_eq!(expired(), 0);
    cluster.clock.advance(1);
    assert_eq!(expired(), 1);
    assert_eq!(cluster.names("events", &ListOptions::default()), ["again", "new", "viewed"]);
    cluster.clock.advance(1800);
    assert_eq!(expired(), 3);
    cluster.get("configmaps", "stays").expect("it has no expiry");
}
