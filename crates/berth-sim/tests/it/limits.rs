//! The checks see what they are there to see.

use berth_sim::check::{Changed, Checker, Presence, Violation};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Takes objects in one after another, each named by its kind; gives what the last one passed.
fn check(changes: &[(&str, Value)]) -> Option<String> {
    let changes: Vec<(i64, (&str, Value))> = changes.iter().map(|change| (0, change.clone())).collect();
    check_in_time(&changes)
}

/// The same, each at its second.
fn check_in_time(changes: &[(i64, (&str, Value))]) -> Option<String> {
    let mut checker = Checker::default();
    let (last, before) = changes.split_last().expect("some change");
    for change in before {
        take_in(&mut checker, change).expect("only the last change passes a limit");
    }
    take_in(&mut checker, last).err().map(|Violation(text)| text)
}

fn take_in(checker: &mut Checker, (second, (kind, object)): &(i64, (&str, Value))) -> Result<String, Violation> {
    let json = object.to_string();
    checker.take_in(&Changed { kind, json: json.as_bytes(), presence: Presence::There }, at(*second))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
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
    let complete = json!({"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"});
    let complete_with_leaving = json!({"observedGeneration": 1, "terminatingReplicas": 1, "conditions": [complete]});
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
        (
            vec![deployment(2, ""), set("old", 2), with(deployment(2, ""), "/spec", "paused", json!(true)), set("new", 0)],
            "ReplicaSet new is made while Deployment web is paused",
        ),
        (
            vec![deployment(2, "TerminationComplete"), with(deployment(2, "TerminationComplete"), "", "status", complete_with_leaving)],
            "Deployment web is said to be complete while 1 pods go",
        ),
    ];
    for (changes, wanted) in cases {
        let found = check(&changes).unwrap_or_default();
        assert!(found.contains(wanted), "{found:?} instead of {wanted:?}");
    }
}

fn costing((kind, object): (&'static str, Value), cost: &str) -> (&'static str, Value) {
    with((kind, object), "/metadata", "annotations", json!({"controller.kubernetes.io/pod-deletion-cost": cost}))
}

/// KEP-2255: of pods that are alike otherwise, the one with the lower cost goes first, if its controller can know by now.
#[test]
fn a_pod_that_goes_before_a_cheaper_one_is_seen() {
    let (dear, cheap) = (costing(pod("a", "rs"), "5"), costing(pod("b", "rs"), "-1"));
    let before = |second: i64| vec![(0, set("rs", 2)), (0, dear.clone()), (0, pod("b", "rs")), (second, cheap.clone()), (30, set("rs", 1))];
    let goes = |pod: &(&'static str, Value), second: i64| {
        check_in_time(&[before(second), vec![(30, terminating(pod.clone())), (31, set("rs", 1))]].concat())
    };
    assert_eq!(goes(&cheap, 0), None);
    assert_eq!(goes(&dear, 25), None, "so new a cost need not be known");
    let found = check_in_time(&[before(0), vec![(30, terminating(dear.clone()))]].concat()).unwrap_or_default();
    assert!(found.starts_with("pod a went, and pod b stays, which should have gone before it"), "{found}");
    // Both were to go, and one of them was late.
    let both = [before(0), vec![(30, set("rs", 0)), (30, terminating(dear.clone())), (31, terminating(cheap.clone()))]].concat();
    assert_eq!(check_in_time(&both), None);
    // One that is not ready goes first, whatever it costs.
    let unready = with(dear.clone(), "/status", "conditions", json!([]));
    let changes = [vec![(0, set("rs", 2)), (0, unready.clone()), (0, cheap.clone()), (30, set("rs", 1))], vec![(30, terminating(unready))]];
    assert_eq!(check_in_time(&changes.concat()), None);
}

/// Who made the set smaller has counted on the one that was not ready.
#[test]
fn an_available_pod_may_go_by_its_cost_where_another_has_just_become_ready() {
    let ready_since = |second: i64| {
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": at(second).to_string()});
        costing(with(pod("c", "old"), "/status", "conditions", json!([ready])), "5")
    };
    let goes = |second: i64| {
        let slow = with(deployment(2, ""), "/spec", "minReadySeconds", json!(100));
        let made = [slow, set("old", 3), pod("a", "old"), pod("b", "old"), with(ready_since(0), "/status", "conditions", json!([]))];
        let made = made.into_iter().map(|made| (150, made));
        let gone = ["a", "b"].map(|name| (200, terminating(pod(name, "old"))));
        check_in_time(&made.chain([(second, ready_since(second))]).chain(gone).collect::<Vec<_>>())
    };
    assert_eq!(goes(199), None);
    let found = goes(180).unwrap_or_default();
    assert!(found.ends_with("available pods went from 1 to 0, at least 1 must stay"), "{found}");
}

#[test]
fn a_status_without_a_lost_pod_promises_nothing() {
    let goes = |is_lost: bool| {
        let mut checker = Checker::default();
        for change in [deployment(3, ""), set("old", 3), pod("a", "old"), pod("b", "old"), pod("c", "old"), deployment(3, "")] {
            take_in(&mut checker, &(0, change)).expect("no limit is passed");
        }
        if is_lost {
            checker.delete_by_hand("a");
        }
        for change in [terminating(pod("a", "old")), deployment(3, "")] {
            take_in(&mut checker, &(1, change)).expect("no limit is passed");
        }
        take_in(&mut checker, &(1, terminating(pod("b", "old")))).err().map(|Violation(text)| text)
    };
    assert_eq!(goes(false).as_deref(), Some("Deployment web: available pods went from 2 to 1, at least 2 must stay"));
    assert_eq!(goes(true), None);
}

/// A Deployment of two pods at rest, with these changes to its objects.
fn at_rest(changes: &[(&'static str, Value)]) -> Result<(), Violation> {
    let counts = json!({
        "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2, "terminatingReplicas": 0,
        "conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}],
    });
    let ours = [with(deployment(2, ""), "", "status", counts.clone()), with(set("rs", 2), "", "status", counts)];
    let mut checker = Checker::default();
    for change in ours.iter().chain(&[pod("a", "rs"), pod("b", "rs")]).chain(changes) {
        take_in(&mut checker, &(0, change.clone())).expect("no limit is passed");
    }
    checker.check_rest(at(60))
}

#[test]
fn a_status_that_differs_from_the_objects_is_not_stable() {
    assert_eq!(at_rest(&[]), Ok(()));
    let unready = with(pod("a", "rs"), "/status", "conditions", json!([]));
    let cases = [
        (vec![unready], "ReplicaSet rs: readyReplicas is said to be 2, and it is 1"),
        (vec![terminating(pod("a", "rs"))], "ReplicaSet rs: its size is said to be 2, and it is 1"),
        (vec![terminating(pod("c", "rs"))], "ReplicaSet rs: terminatingReplicas is said to be 0, and it is 1"),
        (vec![set("old", 0)], "ReplicaSet old: terminatingReplicas is said to be -1, and it is 0"),
    ];
    for (changes, wanted) in cases {
        assert_eq!(at_rest(&changes), Err(Violation(wanted.to_owned())));
    }
    let annotations = json!({"deployment.kubernetes.io/replicaset-replicas-before-scale": "1"});
    let pending = with(set("rs", 2), "/metadata", "annotations", annotations);
    assert_eq!(at_rest(&[pending]), Err(Violation("ReplicaSet rs has not got its due of a scale".to_owned())));
    // With `revisionHistoryLimit` 0, which is what is missing here.
    let old = with(set("old", 0), "/status", "terminatingReplicas", json!(0));
    assert_eq!(at_rest(&[old]), Err(Violation("Deployment web keeps 1 old sets, and 0 are enough".to_owned())));
}

#[test]
fn a_stateful_set_is_not_stable_while_pods_terminate_or_have_an_older_template() {
    let at_rest = |strategy: &str, replicas: i64, pod: &(&'static str, Value)| {
        let spec = json!({"replicas": replicas, "updateStrategy": {"type": strategy}});
        let status = json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "availableReplicas": replicas,
            "currentReplicas": replicas, "currentRevision": "db-1", "updateRevision": "db-2"});
        let set = json!({"metadata": {"name": "db", "uid": "db", "generation": 1}, "spec": spec, "status": status});
        let mut checker = Checker::default();
        for change in [pod.clone(), ("StatefulSet", set)] {
            take_in(&mut checker, &(0, change)).expect("no limit is passed");
        }
        checker.check_rest(at(60)).err().map(|Violation(text)| text)
    };
    let old = with(pod("db-0", "db"), "/metadata", "labels", json!({"controller-revision-hash": "db-1"}));
    assert_eq!(at_rest("OnDelete", 1, &old), None);
    assert_eq!(at_rest("RollingUpdate", 1, &old).as_deref(), Some("StatefulSet db is at rest with 0 of 1 pods updated"));
    let going = at_rest("RollingUpdate", 0, &terminating(old));
    assert_eq!(going.as_deref(), Some("StatefulSet db: pods that go is said to be 0, and it is 1"));
}

/// Terminating pods count under this policy, and without their set they would not be counted.
#[test]
fn a_set_that_is_cleaned_up_while_its_pods_terminate_is_detected() {
    let cleaned_up = |policy: &str, by_hand: bool| {
        let mut checker = Checker::default();
        for change in [deployment(1, policy), set("new", 1), set("old", 1), pod("a", "old"), set("old", 0), terminating(pod("a", "old"))] {
            take_in(&mut checker, &(0, change)).expect("no limit is passed");
        }
        if by_hand {
            checker.delete_set_by_hand("old");
        }
        let json = set("old", 0).1.to_string();
        checker.take_in(&Changed { kind: "ReplicaSet", json: json.as_bytes(), presence: Presence::Gone }, at(1)).err()
    };
    let found = cleaned_up("TerminationComplete", false).map(|Violation(text)| text);
    assert_eq!(found.as_deref(), Some("ReplicaSet old is cleaned up while 1 of its pods go"));
    assert_eq!((cleaned_up("TerminationComplete", true), cleaned_up("TerminationStarted", false)), (None, None));
}

/// What a Deployment adopts may be more than it would have made; more than that it may not make.
#[test]
fn adopted_sets_widen_the_bounds_until_they_have_shrunk() {
    let orphan = with(set("old", 5), "/metadata", "ownerReferences", json!([]));
    let changes = vec![orphan, deployment(2, ""), set("old", 5)];
    assert_eq!(check(&changes), None);
    let found = check(&[changes, vec![set("old", 6)]].concat()).unwrap_or_default();
    assert!(found.contains("the sizes of all ReplicaSets went from 5 to 6, at most 5 are allowed"), "{found}");
}

/// Pods of a deleted Deployment: one that selects them counts all that stayed when its controller read them, including those deleted since.
#[test]
fn a_status_may_count_pods_that_a_former_deployment_left() {
    let left = with(set("left", 3), "/metadata", "ownerReferences", json!([{"uid": "former", "controller": true}]));
    let pods = ["a", "b", "c"].map(|name| pod(name, "left"));
    let told = |replicas: i64| {
        let status = with(deployment(1, ""), "/status", "replicas", json!(replicas));
        check(&[&[deployment(1, ""), left.clone()], &pods[..], &[terminating(pod("a", "left")), status]].concat())
    };
    assert_eq!(told(3), None);
    assert_eq!(told(4).as_deref(), Some("Deployment web: pods that its status tells of went from 1 to 4, at most 3 are allowed"));
}

#[test]
fn a_pod_on_a_claim_that_goes_with_another_is_seen() {
    let templates = json!([{"metadata": {"name": "data"}}]);
    let spec = json!({"replicas": 1, "volumeClaimTemplates": templates, "updateStrategy": {"type": "OnDelete"}});
    let db = ("StatefulSet", json!({"metadata": {"name": "db", "uid": "db", "generation": 1}, "spec": spec}));
    let made = |kind: &str, uid: &str| {
        let owners = json!([{"kind": kind, "uid": uid, "controller": true}]);
        let claim = ("PersistentVolumeClaim", json!({"metadata": {"name": "data-db-0", "uid": "data", "ownerReferences": owners}}));
        check(&[db.clone(), claim, with(pod("a", "db"), "/metadata", "name", json!("db-0"))])
    };
    for kind in ["Pod", "StatefulSet"] {
        let wanted = format!("pod db-0 is created, and claim data-db-0 goes with the {kind} before it");
        assert_eq!(made(kind, "former"), Some(wanted));
    }
    assert_eq!((made("StatefulSet", "db"), made("Backup", "b")), (None, None));
}

#[test]
fn a_pod_of_a_number_that_is_there_is_seen() {
    let set =
        json!({"metadata": {"name": "db", "uid": "db", "generation": 1}, "spec": {"replicas": 1, "updateStrategy": {"type": "OnDelete"}}});
    let of = |uid: &str, name: &str| with(pod(uid, "db"), "/metadata", "name", json!(name));
    let found = check(&[("StatefulSet", set), of("a", "db-0"), of("b", "db-0")]).unwrap_or_default();
    assert_eq!(found, "pod db-0 is created while db-0 is there");
}
