use crate::world::{World, now};
use berth_registry::{ListOptions, WatchEvent, WatchOptions};
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
    let world = World::new();
    let core = world.made("events", event("e"));
    let new = world.get("events.events.k8s.io", "e").expect("there");
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
    world.merge("events.events.k8s.io", "e", json!({"note": "n"})).expect("patched");
    assert_eq!(world.get("events", "e").expect("there")["message"], "n");
}

#[test]
fn lists_and_watches_of_either_group_select_by_their_own_names() {
    let world = World::new();
    world.made("events", event("e"));
    let list = |what: &str, field: &str| world.names(what, &ListOptions { field_selector: format!("{field}=p"), ..ListOptions::default() });
    assert_eq!(list("events", "involvedObject.name"), ["e"]);
    assert_eq!(list("events.events.k8s.io", "regarding.name"), ["e"]);
    let mut watch = world.watch("events.events.k8s.io", &WatchOptions::default());
    let Some(Some(WatchEvent::Added(entry))) = watch.next().now_or_never() else { panic!("added") };
    assert!(String::from_utf8_lossy(&entry.value).contains("\"regarding\""));
    world.merge("events", "e", json!({"count": 3})).expect("patched");
    let Some(Some(WatchEvent::Modified(change))) = watch.next().now_or_never() else { panic!("modified") };
    assert!(String::from_utf8_lossy(&change.entry.value).contains("\"deprecatedCount\":3"));
}

#[test]
fn events_are_forgotten_an_hour_after_they_last_happened() {
    let world = World::new();
    world.made("events", event("old"));
    world.clock.advance(1800);
    let mut again = event("again");
    again["lastTimestamp"] = "2026-01-01T00:30:00Z".into();
    world.made("events", again);
    world.clock.advance(1801);
    assert_eq!(now(world.registry.expire_events()).expect("expired"), 1);
    assert_eq!(world.names("events", &ListOptions::default()), ["again"]);
    assert_eq!(now(world.registry.expire_events()).expect("nothing to do"), 0);
}
