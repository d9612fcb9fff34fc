//! What the board decides.

use super::{
    super::{
        HOSTNAME,
        spread_constraint::SpreadConstraint,
        view::{Nominal, PodTerm, PodTerms, Wishes},
    },
    search::enough_choices,
    *,
};
use crate::resources::Amounts;
use berth_api::k8s_openapi::api::core::v1::{NodeSelectorTerm, Taint, Toleration};
use berth_identity::{Namespace, Revision};
use berth_workloads::{
    selector::Labels,
    view::View,
    volume_binding::{ClaimView, ClassView, VolumeView},
};
use serde_json::json;

mod preemption;
mod reference;
mod volumes;

fn node(name: &str, cpu: i64) -> NodeView {
    let labels = [(HOSTNAME, name), ("zone", "z")].into();
    NodeView {
        name: name.into(),
        labels,
        allocatable: Amounts::from([("cpu", cpu), ("memory", 1 << 30), ("pods", 3)]),
        ..NodeView::default()
    }
}

fn pod(name: &str, cpu: i64) -> PodInfo {
    PodInfo {
        name: name.into(),
        uid: name.into(),
        labels: [("app", name.split('-').next().unwrap_or_default())].into(),
        requests: Amounts::from([("cpu", cpu), ("pods", 1)]),
        nominal: Nominal { cpu, memory: 200 << 20 },
        preempts: true,
        ..PodInfo::default()
    }
}

fn wishing(wishes: Wishes) -> Option<Box<Wishes>> {
    Some(Box::new(wishes))
}

/// A term about the pods of an app, in the pod's own namespace unless `more` names others.
fn about(app: &str, topology_key: &str, more: serde_json::Value) -> PodTerm {
    let mut term = json!({"topologyKey": topology_key, "labelSelector": {"matchLabels": {"app": app}}});
    more.as_object().into_iter().flatten().for_each(|(member, value)| term[member] = value.clone());
    let term = serde_json::from_value(term).expect("a term");
    PodTerm { topology_key: topology_key.to_owned(), pods: PodSet::of_term(&term, &Namespace::default(), &Labels::default()) }
}

fn with_terms(mut pod: PodInfo, change: impl FnOnce(&mut PodTerms)) -> PodInfo {
    change(pod.terms.get_or_insert_default());
    pod
}

fn shunning(pod: PodInfo, app: &str, topology_key: &str) -> PodInfo {
    with_terms(pod, |terms| terms.anti_affinity.push(about(app, topology_key, json!({}))))
}

fn requiring(pod: PodInfo, app: &str, topology_key: &str) -> PodInfo {
    with_terms(pod, |terms| terms.affinity.push(about(app, topology_key, json!({}))))
}

fn preferring(pod: PodInfo, weight: i64, app: &str, topology_key: &str) -> PodInfo {
    with_terms(pod, |terms| terms.preferred.push((weight, about(app, topology_key, json!({})))))
}

/// Places `pods` in order on `nodes`; gives `pod@node` or `pod: why not`.
fn check(nodes: Vec<NodeView>, pods: Vec<PodInfo>, expected: &[&str]) -> Board {
    let mut board = Board::default();
    nodes.into_iter().for_each(|node| board.set_node(Arc::new(node)));
    pods.into_iter().for_each(|pod| board.set_pod(Arc::new(pod)));
    assert_eq!(decided(&mut board), expected);
    board
}

/// The decisions, without the texts about preemption.
fn decided(board: &mut Board) -> Vec<String> {
    let without = |text: String| text.split(" no new claims").next().unwrap_or_default().to_owned();
    decided_in_full(board).into_iter().map(without).collect()
}

fn decided_in_full(board: &mut Board) -> Vec<String> {
    let placements = board.decide(usize::MAX);
    board.check().expect("the board is consistent");
    placements
        .into_iter()
        .map(|placement| match placement {
            Placement::Node(pod, node) => format!("{}@{node}", pod.name),
            Placement::Volumes(pod, node, claims) => format!("{}@{node} with {} claims", pod.name, claims.len()),
            Placement::Nowhere(pod, why) => format!("{}: {why}", pod.name),
            Placement::Room(room) => {
                let names = |pods: &[Arc<PodInfo>]| pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>().join("+");
                let outbid = if room.outbid.is_empty() { String::new() } else { format!(", not of {}", names(&room.outbid)) };
                format!("{}: {} room on {} of {}{outbid}", room.pod.name, room.why, room.node, names(&room.victims))
            }
        })
        .collect()
}

#[test]
fn the_least_allocated_node_is_taken() {
    check(vec![node("a", 1000), node("b", 2000)], vec![pod("p-1", 500), pod("p-2", 500), pod("p-3", 500)], &["p-1@b", "p-2@a", "p-3@b"]);
}

/// The node counts the new version of a pod, whatever changed.
#[test]
fn a_new_version_of_a_pod_that_stays_counts_as_it_is_now() {
    let on_a = |pod: PodInfo| PodInfo { node_name: "a".into(), ..pod };
    let full = "db: 0/1 nodes are available: 1 Insufficient cpu.";
    let shunned = "db: 0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.";
    let versions = [
        (pod("web", 500), "db@a"),
        (pod("web", 900), full),
        (shunning(pod("web", 500), "db", HOSTNAME), shunned),
        (PodInfo { priority: 7, ..pod("web", 500) }, "db@a"),
        (PodInfo { deleting: true, ..pod("web", 500) }, "db@a"),
        (PodInfo { finished: true, ..pod("web", 900) }, "db@a"),
    ];
    for (old, _) in &versions {
        for (new, wanted) in &versions {
            let mut board = Board::default();
            board.set_node(Arc::new(node("a", 1000)));
            [old, new].into_iter().for_each(|version| board.set_pod(Arc::new(on_a(version.clone()))));
            let state = &board.nodes.by_name["a"];
            let priorities: Vec<i32> = state.priorities.keys().copied().collect();
            let kept: Vec<String> = state.pods.values().map(|pod| format!("{pod:?}")).collect();
            let on_node = format!("{:?}", on_a(new.clone()));
            let expected = if new.finished { (vec![], vec![]) } else { (vec![new.priority], vec![on_node]) };
            assert_eq!((priorities, kept), expected, "{old:?} to {new:?}");
            board.set_pod(Arc::new(pod("db", 500)));
            assert_eq!(decided(&mut board), [*wanted], "{old:?} to {new:?}");
        }
    }
}

#[test]
fn a_pod_that_fits_nowhere_shows_the_reason() {
    check(vec![], vec![pod("p", 1)], &["p: no nodes available to schedule pods"]);
    check(vec![node("a", 100), node("b", 100)], vec![pod("p", 200)], &["p: 0/2 nodes are available: 2 Insufficient cpu."]);
    let cordoned = NodeView { unschedulable: true, ..node("b", 100) };
    check(
        vec![node("a", 100), cordoned],
        vec![pod("p", 200)],
        &["p: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."],
    );
}

#[test]
fn a_node_takes_no_more_pods_than_it_has_room_for() {
    let pods = (0..4).map(|number| pod(&format!("p-{number}"), 0)).collect();
    check(vec![node("a", 1000)], pods, &["p-0@a", "p-1@a", "p-2@a", "p-3: 0/1 nodes are available: 1 Too many pods."]);
}

#[test]
fn taints_and_selectors_are_obeyed() {
    let taint = Taint { key: "gpu".to_owned(), value: Some("yes".to_owned()), effect: "NoSchedule".to_owned(), ..Taint::default() };
    let tainted = NodeView { taints: vec![taint], ..node("a", 1000) };
    let tolerant = PodInfo {
        wishes: wishing(Wishes {
            tolerations: vec![Toleration { key: Some("gpu".to_owned()), operator: Some("Exists".to_owned()), ..Toleration::default() }],
            ..Wishes::default()
        }),
        ..pod("p-2", 1)
    };
    check(vec![tainted], vec![pod("p-1", 1), tolerant], &["p-1: 0/1 nodes are available: 1 node(s) had untolerated taint(s).", "p-2@a"]);
    let choosy = PodInfo {
        wishes: wishing(Wishes { node_selector: BTreeMap::from([(HOSTNAME.to_owned(), "b".to_owned())]), ..Wishes::default() }),
        ..pod("p-1", 1)
    };
    check(vec![node("a", 9000), node("b", 1000)], vec![choosy], &["p-1@b"]);
}

#[test]
fn pods_that_shun_each_other_are_kept_apart_both_ways() {
    let pods = vec![shunning(pod("p-1", 1), "p", HOSTNAME), shunning(pod("p-2", 1), "p", HOSTNAME), pod("p-3", 1)];
    let why = "p-3: 0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules.";
    check(vec![node("a", 1000), node("b", 1000)], pods, &["p-1@a", "p-2@b", why]);
    let wide = vec![shunning(pod("p-1", 1), "p", "zone"), pod("p-2", 1)];
    check(
        vec![node("a", 1000), node("b", 1000)],
        wide,
        &["p-1@a", "p-2: 0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."],
    );
}

#[test]
fn a_parked_pod_waits_again_when_room_is_made() {
    let mut board = check(
        vec![node("a", 100)],
        vec![pod("p-1", 100), pod("p-2", 100)],
        &["p-1@a", "p-2: 0/1 nodes are available: 1 Insufficient cpu."],
    );
    assert!(!board.has_waiting());
    board.remove_pod(&pod("p-1", 100));
    assert_eq!(decided(&mut board), ["p-2@a"]);
}

#[test]
fn a_failed_binding_gives_the_room_back() {
    let mut board = check(vec![node("a", 100)], vec![pod("p-1", 100)], &["p-1@a"]);
    board.give_back(&Arc::new(pod("p-1", 100)));
    assert_eq!(decided(&mut board), ["p-1@a"]);
}

#[test]
fn a_place_that_was_given_back_is_for_others_if_its_pod_is_deleted() {
    let full = "p-2: 0/1 nodes are available: 1 Insufficient cpu.";
    let mut board = check(vec![node("a", 100)], vec![pod("p-1", 100), pod("p-2", 100)], &["p-1@a", full]);
    board.give_back(&Arc::new(pod("p-1", 100)));
    board.remove_pod(&pod("p-1", 100));
    assert_eq!(decided(&mut board), ["p-2@a"]);
}

#[test]
fn a_node_seen_after_its_pods_counts_them() {
    let mut board = Board::default();
    board.set_pod(Arc::new(PodInfo { node_name: "a".into(), ..pod("p-1", 100) }));
    board.set_node(Arc::new(node("a", 100)));
    board.set_pod(Arc::new(pod("p-2", 100)));
    assert_eq!(decided(&mut board), ["p-2: 0/1 nodes are available: 1 Insufficient cpu."]);
}

#[test]
fn higher_priority_is_placed_first() {
    let urgent = PodInfo { priority: 10, ..pod("p-2", 100) };
    check(vec![node("a", 100)], vec![pod("p-1", 100), urgent], &["p-2@a", "p-1: 0/1 nodes are available: 1 Insufficient cpu."]);
}

fn claim(name: &str, json: serde_json::Value) -> Arc<ClaimView> {
    let mut claim = json!({"metadata": {"name": name, "uid": name, "annotations": {}}, "spec": {}, "status": {"phase": "Pending"}});
    for (member, values) in json.as_object().into_iter().flatten() {
        values.as_object().into_iter().flatten().for_each(|(key, value)| claim[member][key] = value.clone());
    }
    Arc::new(ClaimView::decode(claim.to_string().as_bytes(), Revision(1)).expect("a claim"))
}

fn bound(name: &str) -> Arc<ClaimView> {
    claim(
        name,
        json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}),
    )
}

fn using(mut pod: PodInfo, claims: &[&str]) -> Arc<PodInfo> {
    pod.claims = claims.iter().map(|claim| (*claim).to_owned()).collect();
    Arc::new(pod)
}

fn waiting_class(name: &str) -> ClassView {
    let class = json!({"metadata": {"name": name}, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"});
    ClassView::decode(class.to_string().as_bytes(), Revision(1)).expect("a class")
}

#[test]
fn a_pod_that_claims_devices_waits_with_a_reason() {
    let mut board = check(vec![node("a", 1000)], vec![], &[]);
    let mut claiming = pod("p-1", 100);
    claiming.wishes = Some(Box::new(Wishes { device_claim: Some("resource claim \"gpu\"".to_owned()), ..Wishes::default() }));
    board.set_pod(Arc::new(claiming));
    let wanted = "p-1: 0/1 nodes are available: cannot allocate all claims: berth allocates no devices (resource claim \"gpu\").";
    let decisions = decided(&mut board);
    assert!(matches!(&decisions[..], [waiting] if waiting.starts_with(wanted)), "{decisions:?}");
    board.set_pod(Arc::new(pod("p-2", 100)));
    assert_eq!(decided(&mut board), ["p-2@a"], "it holds up no other");
}

#[test]
fn a_pod_waits_for_its_claims_and_only_for_them() {
    let mut board = check(vec![node("a", 1000)], vec![], &[]);
    board.set_pod(using(pod("p-1", 100), &["data", "logs"]));
    assert_eq!(decided(&mut board), [r#"p-1: 0/1 nodes are available: persistentvolumeclaim "data" not found. not found"#]);
    board.set_claim(claim("data", json!({})));
    assert_eq!(decided(&mut board), ["p-1: 0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"]);
    board.set_node(Arc::new(node("b", 1000)));
    board.set_claim(bound("other"));
    assert_eq!(decided(&mut board), Vec::<String>::new(), "neither nodes nor other claims help");
    board.set_claim(bound("data"));
    assert_eq!(decided(&mut board), [r#"p-1: 0/2 nodes are available: persistentvolumeclaim "logs" not found. not found"#]);
    board.set_claim(bound("logs"));
    assert_eq!(decided(&mut board), ["p-1@a"]);
    board.set_claim(claim("gone", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})));
    board.set_claim(claim("lost", json!({"spec": {"volumeName": "v"}, "status": {"phase": "Lost"}})));
    board.set_pod(using(pod("p-2", 100), &["gone"]));
    board.set_pod(using(pod("p-3", 100), &["lost"]));
    let expected = [
        r#"p-2: 0/2 nodes are available: persistentvolumeclaim "gone" is being deleted. not found"#,
        r#"p-3: 0/2 nodes are available: persistentvolumeclaim "lost" bound to non-existent persistentvolume "v". not found"#,
    ];
    assert_eq!(decided(&mut board), expected);
}

#[test]
fn a_claim_that_waits_for_a_node_receives_it_before_its_pod_is_bound() {
    let mut board = check(vec![node("a", 1000), node("b", 500)], vec![], &[]);
    let late = |annotations: serde_json::Value| {
        claim("data", json!({"metadata": {"annotations": annotations}, "spec": {"storageClassName": "late"}}))
    };
    board.set_claim(late(json!({})));
    board.set_pod(using(pod("p-1", 900), &["data"]));
    assert_eq!(decided(&mut board), ["p-1: 0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"]);
    board.set_class(Arc::new(waiting_class("late")));
    assert_eq!(decided(&mut board), ["p-1@a with 1 claims"]);
    board.set_claim(late(json!({"volume.kubernetes.io/selected-node": "a"})));
    board.set_pod(Arc::new(pod("p-2", 900)));
    let full = "p-2: 0/2 nodes are available: 2 Insufficient cpu.";
    assert_eq!(decided(&mut board), [full], "the place is kept while the volume is made");
    board.remove_node("a");
    board.set_node(Arc::new(node("c", 2000)));
    assert_eq!(decided(&mut board), ["p-1@c with 1 claims", "p-2@c"], "a node that goes gives its pods back");
    board.set_claim(bound("data"));
    assert_eq!(decided(&mut board), ["p-1@c"]);
    assert_eq!(decided(&mut board), Vec::<String>::new());
}

#[test]
fn a_pod_that_is_deleted_while_its_volume_is_made_gives_its_place_up() {
    let mut board = check(vec![node("a", 1000)], vec![], &[]);
    board.set_class(Arc::new(waiting_class("late")));
    board.set_claim(claim("data", json!({"spec": {"storageClassName": "late"}})));
    board.set_pod(using(pod("p-1", 900), &["data"]));
    board.set_pod(Arc::new(pod("p-2", 900)));
    assert_eq!(decided(&mut board), ["p-1@a with 1 claims", "p-2: 0/1 nodes are available: 1 Insufficient cpu."]);
    board.set_pod(using(PodInfo { deleting: true, ..pod("p-1", 900) }, &["data"]));
    assert_eq!(decided(&mut board), ["p-2@a"]);
    board.set_claim(bound("data"));
    assert_eq!(decided(&mut board), Vec::<String>::new());
}

/// `app` pods are spread over the label `key`.
fn spread(app: &str, key: &str, more: serde_json::Value) -> serde_json::Value {
    let selector = json!({"matchLabels": {"app": app}});
    let mut constraint = json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector});
    more.as_object().into_iter().flatten().for_each(|(member, value)| constraint[member] = value.clone());
    constraint
}

fn with_spread(mut pod: PodInfo, constraints: &[serde_json::Value]) -> PodInfo {
    let of = |constraint: &serde_json::Value| serde_json::from_value(constraint.clone()).expect("a constraint");
    let constraints =
        constraints.iter().map(|constraint| SpreadConstraint::of(&of(constraint), &pod.namespace, &pod.labels).expect("valid"));
    pod.wishes.get_or_insert_default().spread = constraints.collect();
    pod
}

fn in_zone(name: &str, cpu: i64, zone: &str) -> NodeView {
    let mut node = node(name, cpu);
    node.allocatable.add(&Amounts::from([("pods", 100)]));
    node.labels = node.labels.with("zone", zone);
    node
}

fn placed(pod: PodInfo, node: &str) -> PodInfo {
    PodInfo { node_name: node.into(), ..pod }
}

const SKEWED: &str = "node(s) didn't match pod topology spread constraints";

#[test]
fn required_constraints_hold_whatever_room_there_is() {
    // By room alone all would go to the first: the issue saw 5/4/0.
    let nodes = || vec![in_zone("a", 9000, "x"), in_zone("b", 5000, "y"), in_zone("c", 100, "z")];
    let pods =
        |more: serde_json::Value| (0..7).map(|n| with_spread(pod(&format!("s-{n}"), 10), &[spread("s", "zone", more.clone())])).collect();
    check(nodes(), pods(json!({})), &["s-0@a", "s-1@b", "s-2@c", "s-3@a", "s-4@b", "s-5@c", "s-6@a"]);
    check(nodes(), pods(json!({"maxSkew": 2})), &["s-0@a", "s-1@b", "s-2@c", "s-3@a", "s-4@b", "s-5@a", "s-6@b"]);
}

#[test]
fn each_field_of_a_constraint_counts() {
    let full = |name: &str, cpu: i64, zone: &str| NodeView { allocatable: Amounts::from([("cpu", cpu)]), ..in_zone(name, cpu, zone) };
    let nodes = || vec![in_zone("a", 9000, "x"), in_zone("b", 9000, "y"), full("c", 9000, "z")];
    let there = || vec![placed(pod("s-1", 1), "a"), placed(pod("s-2", 1), "b")];
    let try_one = |more: serde_json::Value, change: fn(&mut PodInfo), expected: &str| {
        let mut new = pod("s-9", 1);
        change(&mut new);
        let new = with_spread(new, &[spread("s", "zone", more)]);
        let pods = there().into_iter().chain([new]).collect();
        check(nodes(), pods, &[&format!("s-9{expected}")]);
    };
    let unchanged = |_: &mut PodInfo| ();
    let why = format!(": 0/3 nodes are available: 1 Too many pods, 2 {SKEWED}.");
    try_one(json!({}), unchanged, &why);
    try_one(json!({"maxSkew": 2}), unchanged, "@a");
    // Neither an empty selector nor none at all counts any pod.
    try_one(json!({"labelSelector": {}}), unchanged, "@a");
    try_one(json!({"labelSelector": null}), unchanged, "@a");
    try_one(json!({}), |pod| pod.namespace = "other".into(), "@a");
    // Only pods with the same value of these labels count.
    try_one(json!({"matchLabelKeys": ["hash"]}), |pod| pod.labels = pod.labels.with("hash", "2"), "@a");
    try_one(json!({"matchLabelKeys": ["missing"]}), unchanged, &why);
    // Nodes that the pod's node selector excludes do not count, unless the policy requires it.
    let choosy =
        |pod: &mut PodInfo| pod.wishes = wishing(Wishes { node_terms: Some(vec![term("zone", "NotIn", "z")]), ..Wishes::default() });
    try_one(json!({}), choosy, "@a");
    let why_not = format!(": 0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 {SKEWED}.");
    try_one(json!({"nodeAffinityPolicy": "Ignore"}), choosy, &why_not);
    // Two zones are too few: the fewest counts as 0.
    try_one(json!({"minDomains": 3}), choosy, &why_not);
    try_one(json!({"minDomains": 2}), choosy, "@a");
    try_one(
        json!({"topologyKey": "rack"}),
        unchanged,
        &format!(": 0/3 nodes are available: 1 Too many pods, 2 {SKEWED} (missing required label)."),
    );
}

fn term(key: &str, operator: &str, value: &str) -> NodeSelectorTerm {
    serde_json::from_value(json!({"matchExpressions": [{"key": key, "operator": operator, "values": [value]}]})).expect("a term")
}

#[test]
fn taints_exclude_nodes_from_the_count_only_where_they_shall() {
    let taint = Taint { key: "gpu".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    let nodes = || vec![in_zone("a", 9000, "x"), NodeView { taints: vec![taint.clone()], ..in_zone("b", 9000, "y") }];
    let pods = |more| vec![placed(pod("s-1", 1), "a"), with_spread(pod("s-2", 1), &[spread("s", "zone", more)])];
    check(nodes(), pods(json!({"nodeTaintsPolicy": "Honor"})), &["s-2@a"]);
    let why = format!("s-2: 0/2 nodes are available: 1 {SKEWED}, 1 node(s) had untolerated taint(s).");
    check(nodes(), pods(json!({})), &[&why]);
}

#[test]
fn wishes_are_followed_where_they_can_be() {
    let wish = |pod: PodInfo| with_spread(pod, &[spread("s", "zone", json!({"whenUnsatisfiable": "ScheduleAnyway"}))]);
    let nodes = || vec![in_zone("a", 90_000, "x"), in_zone("b", 1000, "y")];
    let pods = (0..4).map(|n| wish(pod(&format!("s-{n}"), 10))).collect();
    check(nodes(), pods, &["s-0@a", "s-1@b", "s-2@a", "s-3@b"]);
    let large = (0..3).map(|n| wish(pod(&format!("s-{n}"), 2000))).collect();
    check(nodes(), large, &["s-0@a", "s-1@a", "s-2@a"]);
}

#[test]
fn a_pod_that_could_not_be_spread_waits_for_others_to_come_or_go() {
    let spread_pod = |name: &str| with_spread(pod(name, 1), &[spread("s", "zone", json!({}))]);
    let nodes = vec![in_zone("a", 100, "x"), NodeView { unschedulable: true, ..in_zone("b", 100, "y") }];
    let why = format!("s-2: 0/2 nodes are available: 1 {SKEWED}, 1 node(s) were unschedulable.");
    let mut board = check(nodes, vec![spread_pod("s-1"), spread_pod("s-2")], &["s-1@a", &why]);
    assert_eq!(decided(&mut board), [""; 0], "what was placed before it cannot help");
    let other = PodInfo { labels: [("app", "other")].into(), ..spread_pod("s-3") };
    board.set_pod(Arc::new(placed(other, "b")));
    assert_eq!(decided(&mut board), [""; 0], "a pod that does not count");
    board.set_pod(Arc::new(placed(spread_pod("s-4"), "b")));
    assert_eq!(decided(&mut board), ["s-2@a"], "a pod in the other zone");
    board.set_pod(Arc::new(spread_pod("s-5")));
    assert_eq!(decided(&mut board).len(), 1, "skewed again");
    board.set_pod(Arc::new(PodInfo { deleting: true, ..placed(spread_pod("s-1"), "a") }));
    assert_eq!(decided(&mut board), ["s-5@a"], "a pod that goes counts no more");
    ["s-1", "s-2", "s-3", "s-4", "s-5"].iter().for_each(|name| board.remove_pod(&spread_pod(name)));
    assert_eq!(board.watches.count(), 0, "no pod waits for other pods");
}

#[test]
fn many_pods_are_spread_evenly() {
    let mut board = Board::default();
    for index in 0..30 {
        let zone = ["x", "y", "z"][index % 3];
        board.set_node(Arc::new(in_zone(&format!("n-{index:02}"), 1_000_000, zone)));
    }
    let constraints = [spread("s", "zone", json!({})), spread("s", HOSTNAME, json!({}))];
    (0..600).for_each(|n| board.set_pod(Arc::new(with_spread(pod(&format!("s-{n:04}"), 10), &constraints))));
    let placements = board.decide(usize::MAX);
    board.check().expect("consistent");
    let mut nodes: BTreeMap<String, usize> = BTreeMap::new();
    for placement in placements {
        let Placement::Node(_, node) = placement else { panic!("{placement:?}") };
        *nodes.entry(node).or_default() += 1;
    }
    assert!(nodes.len() == 30 && nodes.values().all(|count| *count == 20), "{nodes:?}");
}

const APART: &str = "node(s) didn't match pod anti-affinity rules";
const FORBIDDEN: &str = "node(s) didn't satisfy existing pods anti-affinity rules";
const TOGETHER: &str = "node(s) didn't match pod affinity rules";

fn zones() -> Vec<NodeView> {
    vec![in_zone("a", 1000, "x"), in_zone("b", 1000, "y"), in_zone("c", 1000, "z")]
}

#[test]
fn a_pod_is_placed_beside_the_pods_that_it_requires() {
    let why = format!("q: 0/3 nodes are available: 3 {TOGETHER}.");
    check(zones(), vec![requiring(pod("q", 1), "p", "zone")], &[&why]);
    check(zones(), vec![placed(pod("p-1", 1), "b"), requiring(pod("q", 1), "p", "zone")], &["q@b"]);
    // One pod must meet all terms.
    let both = |pod: PodInfo| requiring(requiring(pod, "p", "zone"), "r", HOSTNAME);
    check(zones(), vec![placed(pod("p-1", 1), "b"), placed(pod("r-1", 1), "b"), both(pod("q", 1))], &[&why]);
    // The first pod of a group that requires itself goes anywhere, the others go to it.
    let group = (0..3).map(|n| requiring(pod(&format!("p-{n}"), 1), "p", "zone")).collect();
    check(zones(), group, &["p-0@a", "p-1@a", "p-2@a"]);
    let nowhere = format!("p-0: 0/3 nodes are available: 3 {TOGETHER}.");
    check(zones(), vec![requiring(pod("p-0", 1), "p", "rack")], &[&nowhere]);
    let elsewhere = PodInfo { namespace: "other".into(), ..placed(pod("p-1", 1), "b") };
    check(zones(), vec![elsewhere.clone(), requiring(pod("q", 1), "p", "zone")], &[&why]);
    let named = with_terms(pod("q", 1), |terms| terms.affinity.push(about("p", "zone", json!({"namespaces": ["other"]}))));
    check(zones(), vec![elsewhere, named], &["q@b"]);
}

#[test]
fn a_pod_that_waits_for_another_is_placed_after_it() {
    let why = format!("q: 0/3 nodes are available: 3 {TOGETHER}.");
    let mut board = check(zones(), vec![requiring(pod("q", 1), "p", "zone")], &[&why]);
    board.set_pod(Arc::new(placed(pod("r-1", 1), "a")));
    assert_eq!(decided(&mut board), [""; 0], "a pod that it does not require");
    board.set_pod(Arc::new(placed(pod("p-1", 1), "c")));
    assert_eq!(decided(&mut board), ["q@c"]);
    assert_eq!(board.watches.count(), 0);
}

#[test]
fn namespaces_are_selected_by_their_labels() {
    let namespace = |name: &str, labels: serde_json::Value| {
        let json = json!({"metadata": {"name": name, "labels": labels}}).to_string();
        NamespaceView::decode(json.as_bytes(), Revision(1)).expect("a namespace")
    };
    let selector = json!({"namespaceSelector": {"matchLabels": {"team": "t"}}});
    let there = PodInfo { namespace: "other".into(), ..placed(pod("p-1", 1), "b") };
    let new = with_terms(pod("q", 1), |terms| terms.affinity.push(about("p", "zone", selector)));
    let why = format!("q: 0/3 nodes are available: 3 {TOGETHER}.");
    let mut board = check(zones(), vec![there, new], &[&why]);
    board.set_namespace(&namespace("other", json!({"team": "u"})));
    assert_eq!(decided(&mut board), [&*why]);
    board.set_namespace(&namespace("other", json!({"team": "t"})));
    assert_eq!(decided(&mut board), ["q@b"]);
}

#[test]
fn a_pod_keeps_away_from_the_pods_that_it_or_they_avoid() {
    let shy = |name: &str| shunning(pod(name, 1), "p", "zone");
    check(zones(), vec![placed(pod("p-1", 1), "a"), placed(pod("p-2", 1), "b"), shy("q")], &["q@c"]);
    let all = ["a", "b", "c"].iter().enumerate().map(|(n, node)| placed(pod(&format!("p-{n}"), 1), node));
    check(zones(), all.chain([shy("q")]).collect(), &[&format!("q: 0/3 nodes are available: 3 {APART}.")]);
    // A node without the label is in no zone.
    let bare = NodeView { labels: [(HOSTNAME, "d")].into(), ..node("d", 10) };
    check(vec![in_zone("a", 1000, "x"), bare], vec![placed(pod("p-1", 1), "a"), shy("q")], &["q@d"]);
    let forbid = |node: &'static str| placed(shunning(pod(&format!("r-{node}"), 1), "q", "zone"), node);
    check(zones(), vec![forbid("a"), forbid("b"), pod("q", 1)], &["q@c"]);
    let mut board =
        check(zones(), vec![forbid("a"), forbid("b"), forbid("c"), pod("q", 1)], &[&format!("q: 0/3 nodes are available: 3 {FORBIDDEN}.")]);
    board.remove_pod(&forbid("b"));
    assert_eq!(decided(&mut board), ["q@b"]);
    // A node that moves to another zone takes its pods with it.
    let mut board = check(vec![in_zone("a", 10, "x"), in_zone("b", 1000, "y")], vec![forbid("a")], &[]);
    board.set_node(Arc::new(in_zone("a", 10, "y")));
    board.set_pod(Arc::new(pod("q", 1)));
    assert_eq!(decided(&mut board), [format!("q: 0/2 nodes are available: 2 {FORBIDDEN}.")]);
}

#[test]
fn each_of_many_rules_about_the_same_pods_holds() {
    let shy = (0..20).fold(shunning(pod("q", 1), "p", "zone"), |new, n| shunning(new, "p", &format!("rack-{n}")));
    let apart = format!("q: 0/1 nodes are available: 1 {APART}.");
    check(vec![in_zone("a", 1000, "x")], vec![placed(pod("p-1", 1), "a"), shy], &[&apart]);
    let wish = |n: i32| spread("s", &format!("rack-{n}"), json!({"whenUnsatisfiable": "ScheduleAnyway"}));
    let constraints: Vec<serde_json::Value> = [spread("s", "zone", json!({}))].into_iter().chain((0..20).map(wish)).collect();
    let skewed = format!("s-2: 0/2 nodes are available: 1 Insufficient cpu, 1 {SKEWED}.");
    let pods = vec![placed(pod("s-1", 1), "a"), with_spread(pod("s-2", 1), &constraints)];
    check(vec![in_zone("a", 1000, "x"), in_zone("b", 0, "y")], pods, &[&skewed]);
}

#[test]
fn preferred_terms_of_both_sides_decide_among_nodes() {
    let there = || vec![placed(pod("p-1", 1), "b"), placed(pod("p-2", 1), "c"), placed(pod("p-3", 1), "c")];
    let with = |new: PodInfo| there().into_iter().chain([new]).collect();
    check(zones(), with(preferring(pod("q", 1), 10, "p", "zone")), &["q@c"]);
    check(zones(), with(preferring(pod("q", 1), -10, "p", "zone")), &["q@a"]);
    let other = |node: &str, weight: i64| placed(preferring(pod(&format!("r-{node}"), 1), weight, "q", "zone"), node);
    check(zones(), vec![other("b", 100), pod("q", 1)], &["q@b"]);
    check(zones(), vec![other("a", -100), other("b", -100), pod("q", 1)], &["q@c"]);
    check(zones(), vec![placed(pod("q-0", 1), "b"), placed(requiring(pod("r-1", 1), "q", "zone"), "b"), pod("q-1", 1)], &["q-1@b"]);
}

#[test]
fn preferred_nodes_and_taints_decide_among_nodes() {
    let prefer = |weights: &[(i32, &str)]| {
        let term = |(weight, zone): &(i32, &str)| {
            serde_json::from_value(json!({"weight": weight, "preference": term("zone", "In", zone)})).expect("a preference")
        };
        PodInfo { wishes: wishing(Wishes { preferred_nodes: weights.iter().map(term).collect(), ..Wishes::default() }), ..pod("p", 1) }
    };
    check(zones(), vec![prefer(&[(10, "y"), (20, "z")])], &["p@c"]);
    check(zones(), vec![prefer(&[(10, "y"), (5, "z")])], &["p@b"]);
    check(zones(), vec![prefer(&[(10, "w")])], &["p@a"]);
    let avoided = |name: &str| {
        let taint = Taint { key: "k".to_owned(), effect: "PreferNoSchedule".to_owned(), ..Taint::default() };
        NodeView { taints: vec![taint], ..in_zone(name, 100_000, "x") }
    };
    check(vec![avoided("a"), in_zone("b", 1000, "y")], vec![pod("p", 10)], &["p@b"]);
    check(vec![avoided("a"), in_zone("b", 1, "y")], vec![pod("p", 10)], &["p@a"]);
}

#[test]
fn pods_of_a_service_are_spread_without_constraints_of_their_own() {
    let zoned = |name: &str, cpu: i64, zone: &str| {
        let node = in_zone(name, cpu, zone);
        let allocatable = Amounts::from([("cpu", cpu), ("memory", cpu * (2 << 20)), ("pods", 10)]);
        NodeView { labels: node.labels.with("topology.kubernetes.io/zone", zone), allocatable, ..node }
    };
    let nodes = || vec![zoned("a", 32_768, "x"), zoned("b", 4096, "y"), zoned("c", 4096, "y")];
    let small = |name: &str| PodInfo {
        requests: Amounts::from([("cpu", 100), ("memory", 64 << 20), ("pods", 1)]),
        nominal: Nominal { cpu: 100, memory: 64 << 20 },
        ..pod(name, 100)
    };
    let pods = || (0..6).map(|n| small(&format!("s-{n}"))).collect::<Vec<_>>();
    check(nodes(), pods(), &["s-0@a", "s-1@a", "s-2@a", "s-3@a", "s-4@a", "s-5@a"]);
    let mut board = check(nodes(), vec![], &[]);
    let service = json!({"metadata": {"name": "s", "namespace": ""}, "spec": {"selector": {"app": "s"}}}).to_string();
    board.set_selector(SelectingKind::Service, &SelectorView::decode_map(service.as_bytes()).expect("a Service"));
    pods().into_iter().for_each(|pod| board.set_pod(Arc::new(pod)));
    assert_eq!(decided(&mut board), ["s-0@a", "s-1@b", "s-2@c", "s-3@a", "s-4@b", "s-5@a"]);
}

#[test]
fn ports_of_a_node_are_taken_by_address_and_protocol() {
    let with_port = |name: &str, port: i32, protocol: &str, address: &str| {
        let port = super::super::view::HostPort { port, protocol: protocol.to_owned(), address: address.to_owned() };
        PodInfo { host_ports: vec![port], ..pod(name, 1) }
    };
    let busy = |name: &str| format!("{name}: 0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.");
    let pods = vec![
        with_port("p-1", 80, "TCP", "10.0.0.1"),
        with_port("p-2", 80, "TCP", "10.0.0.2"),
        with_port("p-3", 80, "TCP", ""),
        with_port("p-4", 80, "TCP", "10.0.0.2"),
        with_port("p-5", 80, "UDP", "0.0.0.0"),
        with_port("p-6", 80, "UDP", "10.0.0.1"),
        with_port("p-7", 81, "TCP", ""),
    ];
    let expected = ["p-1@a".to_owned(), "p-2@a".to_owned(), busy("p-3"), busy("p-4"), "p-5@a".to_owned(), busy("p-6"), "p-7@a".to_owned()];
    check(vec![in_zone("a", 1000, "x")], pods, &expected.each_ref().map(String::as_str));
}

#[test]
fn only_named_nodes_are_read_for_a_pod_that_names_its_nodes() {
    let named = |names: &[&str]| {
        let term = |name: &&str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        let terms = names.iter().map(|name| serde_json::from_value(term(name)).expect("a term")).collect();
        PodInfo { wishes: wishing(Wishes { node_terms: Some(terms), ..Wishes::default() }), ..pod("p", 500) }
    };
    check(zones(), vec![named(&["b"])], &["p@b"]);
    let why = "node(s) didn't satisfy plugin(s) [NodeAffinity]";
    check(zones(), vec![named(&["other"])], &[&format!("p: 0/3 nodes are available: 3 {why}.")]);
    let both =
        json!([{"key": "metadata.name", "operator": "In", "values": ["a"]}, {"key": "metadata.name", "operator": "In", "values": ["b"]}]);
    let terms = vec![serde_json::from_value(json!({"matchFields": both})).expect("a term")];
    let torn = PodInfo { wishes: wishing(Wishes { node_terms: Some(terms), ..Wishes::default() }), ..pod("p", 500) };
    check(zones(), vec![torn], &["p: 0/3 nodes are available: pod affinity terms conflict. not found"]);
    let full = vec![placed(pod("q", 900), "b"), named(&["b", "other"])];
    check(zones(), full, &[&format!("p: 0/3 nodes are available: 1 Insufficient cpu, 2 {why}.")]);
}

#[test]
fn a_pod_that_is_deleted_before_it_is_bound_is_not_placed_again() {
    let mut board = check(vec![node("a", 100)], vec![pod("p-1", 100)], &["p-1@a"]);
    board.set_pod(Arc::new(PodInfo { deleting: true, ..pod("p-1", 100) }));
    board.give_back(&Arc::new(pod("p-1", 100)));
    board.set_pod(Arc::new(pod("p-2", 100)));
    assert_eq!(decided(&mut board), ["p-2@a"]);
}

#[test]
fn a_parked_pod_waits_again_when_a_placed_pod_or_the_nodes_change() {
    let full = "p-2: 0/1 nodes are available: 1 Insufficient cpu.";
    let mut board = check(vec![node("a", 100)], vec![placed(pod("p-1", 100), "a"), pod("p-2", 100)], &[full]);
    board.set_pod(Arc::new(placed(pod("p-1", 0), "a")));
    assert_eq!(decided(&mut board), ["p-2@a"], "a placed pod requests less");
    let shy = format!("q: 0/1 nodes are available: 1 {APART}.");
    let mut board = check(vec![node("a", 100)], vec![placed(pod("p-1", 1), "a"), shunning(pod("q", 1), "p", HOSTNAME)], &[&shy]);
    board.set_pod(Arc::new(placed(PodInfo { labels: [("app", "r")].into(), ..pod("p-1", 1) }, "a")));
    assert_eq!(decided(&mut board), ["q@a"], "a placed pod has other labels");
    let skewed = format!("s-2: 0/2 nodes are available: 1 {SKEWED}, 1 node(s) were unschedulable.");
    let cordoned = NodeView { unschedulable: true, ..in_zone("b", 1000, "y") };
    let spread_pod = |name: &str| with_spread(pod(name, 1), &[spread("s", "zone", json!({}))]);
    let mut board = check(vec![in_zone("a", 1000, "x"), cordoned], vec![spread_pod("s-1"), spread_pod("s-2")], &["s-1@a", &skewed]);
    board.remove_node("b");
    assert_eq!(decided(&mut board), ["s-2@a"], "pods are no longer spread over the node");
}

/// Pods that fit nowhere, all different, wait again with each change: new pods are placed beside them.
#[test]
fn pods_that_fit_nowhere_hold_up_no_others() {
    let mut board = Board::default();
    board.set_node(Arc::new(node("a", 1000)));
    (0..100).for_each(|n| board.set_pod(Arc::new(pod(&format!("large-{n:03}"), 2000 + n))));
    assert_eq!(decided(&mut board).len(), 100);
    let mut placed = Vec::new();
    for n in 0..3 {
        board.set_node(Arc::new(node("a", 1001 + n)));
        board.set_pod(Arc::new(pod(&format!("small-{n}"), 1)));
        let placements = board.decide(RETRIES_MAX + 1);
        placed.extend(
            placements
                .iter()
                .filter(|placement| matches!(placement, Placement::Node(..)))
                .map(|placement| placement.pod().name.to_string()),
        );
    }
    assert_eq!(placed, ["small-0", "small-1", "small-2"]);
    let urgent = PodInfo { priority: 1, ..pod("urgent", 1) };
    board.set_node(Arc::new(node("a", 1500)));
    board.set_pod(Arc::new(urgent));
    assert_eq!(board.decide(1)[0].pod().name, "urgent", "a higher priority still comes first");
}

#[test]
fn parked_pods_like_each_other_are_searched_for_once() {
    let mut board = check(vec![node("a", 100)], vec![pod("p-1", 100)], &["p-1@a"]);
    (2..6).for_each(|n| board.set_pod(Arc::new(pod(&format!("p-{n}"), 200))));
    board.set_pod(Arc::new(pod("p-7", 300)));
    let expected: Vec<String> = [2, 3, 4, 5, 7].iter().map(|n| format!("p-{n}: 0/1 nodes are available: 1 Insufficient cpu.")).collect();
    assert_eq!(decided(&mut board), expected);
    assert_eq!(board.failures.len(), 2);
    board.set_node(Arc::new(node("a", 300)));
    assert_eq!(decided(&mut board)[0], "p-2@a", "what was known before a change does not count");
}

/// In a large cluster a part of the nodes is read for each pod, a different part each time.
#[test]
fn all_nodes_of_a_large_cluster_are_used_in_turn() {
    assert_eq!([1, 99, 100, 1000, 5000, 10_000].map(enough_choices), [1, 99, 100, 420, 500, 500]);
    let mut board = Board::default();
    (0..1000).for_each(|n| board.set_node(Arc::new(in_zone(&format!("n-{n:04}"), 1000, "x"))));
    (0..1000).for_each(|n| board.set_pod(Arc::new(pod(&format!("p-{n:04}"), 600))));
    let placements = board.decide(usize::MAX);
    assert!(placements.iter().all(|placement| matches!(placement, Placement::Node(..))), "each node has room for one");
    board.set_pod(Arc::new(pod("last", 600)));
    assert_eq!(decided(&mut board), ["last: 0/1000 nodes are available: 1000 Insufficient cpu."]);
}
