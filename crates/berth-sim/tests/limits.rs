//! The checks see what they are there to see.

use berth_sim::check::{Changed, Checker, Presence, Violation};
use serde_json::{Value, json};

/// Takes objects in one after another, each named by its kind; gives what the last one passed.
fn check(changes: &[(&str, Value)]) -> Option<String> {
    let mut checker = Checker::default();
    let (last, before) = changes.split_last().expect("some change");
    let mut take_in = |(kind, object): &(&str, Value)| {
        let json = object.to_string();
        checker.take_in(&Changed { kind, json: json.as_bytes(), presence: Presence::There }, jiff::Timestamp::UNIX_EPOCH)
    };
    for change in before {
        take_in(change).expect("only the last change passes a limit");
    }
    take_in(last).err().map(|Violation(text)| text)
}

fn deployment(replicas: i64, policy: &str) -> (&'static str, Value) {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
    let spec = json!({"replicas": replicas, "strategy": strategy, "podReplacementPolicy": policy});
    let status = json!({"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas});
    ("Deployment", json!({"metadata": {"name": "web", "uid": "web", "generation": 1}, "spec": spec, "status": status}))
}

fn set(uid: &str, replicas: i64) -> (&'static str, Value) {
    let metadata = json!({"name": uid, "uid": uid, "generation": 1, "ownerReferences": [{"uid": "web", "controller": true}]});
    ("ReplicaSet", json!({"metadata": metadata, "spec": {"replicas": replicas}, "status": {"observedGeneration": 1}}))
}

fn pod(uid: &str, set: &str) -> (&'static str, Value) {
    let metadata = json!({"name": uid, "uid": uid, "ownerReferences": [{"uid": set, "controller": true}]});
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"});
    let status = json!({"phase": "Running", "podIP": format!("ip of {uid}"), "conditions": [ready]});
    ("Pod", json!({"metadata": metadata, "spec": {"nodeName": "node-0"}, "status": status}))
}

fn with((kind, mut object): (&'static str, Value), pointer: &str, field: &str, value: Value) -> (&'static str, Value) {
    object.pointer_mut(pointer).expect("there")[field] = value;
    (kind, object)
}

fn terminating(pod: (&'static str, Value)) -> (&'static str, Value) {
    with(pod, "/metadata", "deletionTimestamp", json!("1970-01-01T00:00:30Z"))
}

#[test]
fn what_is_within_the_limits_passes() {
    let pods = [pod("a", "old"), pod("b", "old"), terminating(pod("a", "old")), pod("c", "new")];
    assert_eq!(check(&[&[deployment(2, ""), set("old", 2), set("new", 1)], &pods[..]].concat()), None);
}

#[test]
fn each_limit_is_seen_to_be_passed() {
    let cases = [
        (vec![deployment(2, ""), set("old", 2), set("new", 2)], "the sizes of all ReplicaSets went from 2 to 4, at most 3 are allowed"),
        (vec![deployment(2, ""), set("old", 1), pod("a", "old"), pod("b", "old")], "has 2 pods that stay, and never wanted more than 1"),
        (
            vec![deployment(1, ""), set("old", 2), pod("a", "old"), pod("b", "old"), set("old", 1), set("new", 1), pod("c", "new")],
            "pods that stay went from 2 to 3, at most 2 are allowed",
        ),
        (
            vec![deployment(1, ""), with(deployment(1, ""), "/status", "replicas", json!(3))],
            "pods that its status tells of went from 1 to 3, at most 2 are allowed",
        ),
        (
            vec![
                deployment(2, ""),
                set("old", 2),
                pod("a", "old"),
                pod("b", "old"),
                terminating(pod("a", "old")),
                terminating(pod("b", "old")),
            ],
            "available pods went from 1 to 0, at least 1 must stay",
        ),
        (
            vec![
                deployment(1, "TerminationComplete"),
                set("old", 2),
                pod("a", "old"),
                pod("b", "old"),
                set("old", 1),
                terminating(pod("a", "old")),
                set("new", 1),
            ],
            "what pods may come to with those that leave went from 2 to 3, at most 2 are allowed",
        ),
        (
            vec![deployment(2, ""), set("old", 2), pod("a", "old"), with(pod("a", "old"), "/spec", "nodeName", json!("node-1"))],
            "pod a was bound to node-0 and is bound to \"node-1\" now",
        ),
        (
            vec![deployment(2, ""), set("old", 2), pod("a", "old"), with(pod("b", "old"), "/status", "podIP", json!("ip of a"))],
            "pods b and a both have the address ip of a",
        ),
    ];
    for (changes, wanted) in cases {
        let found = check(&changes).unwrap_or_default();
        assert!(found.contains(wanted), "{found:?} instead of {wanted:?}");
    }
}
