//! How volumes bring pods to nodes.

use super::*;

#[test]
fn a_static_volume_brings_its_pod_to_its_node() {
    let mut board = check(zones(), vec![], &[]);
    let mut class = waiting_class("late");
    class.provisioner = "kubernetes.io/no-provisioner".to_owned();
    board.set_class(Arc::new(class));
    board.set_claim(claim("data", json!({"spec": {"storageClassName": "late"}})));
    board.set_pod(using(pod("p-1", 1), &["data"]));
    let why = "p-1: 0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.";
    assert_eq!(decided(&mut board), [why]);
    board.set_volume(local_volume(json!(null)));
    board.set_claim(claim("logs", json!({"spec": {"storageClassName": "late"}})));
    board.set_pod(using(pod("p-2", 1), &["logs"]));
    assert_eq!(decided(&mut board), ["p-1@b with 1 claims", &why.replace("p-1", "p-2")], "one volume is for one claim");
    board.set_volume(local_volume(json!({"namespace": "", "name": "data", "uid": "data"})));
    board.set_claim(bound("data"));
    assert_eq!(decided(&mut board), ["p-1@b"], "the volume of another claim helps no pod");
}

/// A volume `v` on the nodes of the zone `y`, reserved for `claim` if that is not null.
fn local_volume(claim: serde_json::Value) -> Arc<VolumeView> {
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["y"]}]});
    let spec = json!({"storageClassName": "late", "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}, "claimRef": claim});
    let volume = json!({"metadata": {"name": "v", "uid": "v"}, "spec": spec, "status": {"phase": "Available"}});
    Arc::new(VolumeView::decode(volume.to_string().as_bytes(), Revision(1)).expect("a volume"))
}

/// A board with the volume, and with two pods of which one gets it.
fn with_static_volume() -> Board {
    let mut board = check(zones(), vec![], &[]);
    board.set_class(Arc::new(ClassView { provisioner: "kubernetes.io/no-provisioner".to_owned(), ..waiting_class("late") }));
    board.set_volume(local_volume(json!(null)));
    for (pod_name, claim_name) in [("p-1", "data"), ("p-2", "logs")] {
        board.set_claim(claim(claim_name, json!({"spec": {"storageClassName": "late"}})));
        board.set_pod(using(pod(pod_name, 1), &[claim_name]));
    }
    assert_eq!(decided(&mut board), ["p-1@b with 1 claims", NO_VOLUME]);
    board
}

const NO_VOLUME: &str = "p-2: 0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.";

#[test]
fn a_volume_that_was_chosen_for_a_pod_that_is_gone_is_free_again() {
    let mut board = with_static_volume();
    board.remove_pod(&using(pod("p-1", 1), &["data"]));
    assert_eq!(decided(&mut board), ["p-2@b with 1 claims"]);
}

#[test]
fn a_pod_whose_reserved_volume_is_deleted_needs_another_one() {
    let mut board = with_static_volume();
    let reserved = local_volume(json!({"namespace": "", "name": "data", "uid": "data"}));
    board.set_volume(Arc::clone(&reserved));
    board.remove_volume(&reserved);
    let neither = [NO_VOLUME.replace("p-2", "p-1"), NO_VOLUME.to_owned()];
    assert_eq!(decided(&mut board), neither);
    board.set_volume(local_volume(json!(null)));
    assert_eq!(decided(&mut board), ["p-1@b with 1 claims", NO_VOLUME]);
    // The same if it does not show its claim yet.
    board.remove_volume(&local_volume(json!(null)));
    assert_eq!(decided(&mut board), neither);
    board.set_volume(local_volume(json!(null)));
    assert_eq!(decided(&mut board), ["p-1@b with 1 claims", NO_VOLUME]);
    // The same if another client reserves it for another claim, or for none.
    board.set_volume(reserved);
    board.set_volume(local_volume(json!({"namespace": "", "name": "other", "uid": "other"})));
    assert_eq!(decided(&mut board), neither);
    board.set_volume(local_volume(json!({"namespace": "", "name": "data", "uid": "data"})));
    assert_eq!(decided(&mut board), ["p-1@b with 1 claims"]);
    board.set_volume(local_volume(json!(null)));
    assert_eq!(decided(&mut board), ["p-1@b with 1 claims", NO_VOLUME]);
}

#[test]
fn a_pod_that_no_volume_suits_waits_again_when_its_claim_changes() {
    let mut board = with_static_volume();
    board.set_class(Arc::new(waiting_class("fast")));
    assert_eq!(decided(&mut board), [NO_VOLUME]);
    board.set_claim(claim("logs", json!({"spec": {"storageClassName": "fast"}})));
    assert_eq!(decided(&mut board), ["p-2@a with 1 claims"]);
}

#[test]
fn a_pod_is_placed_again_when_no_volume_can_be_made_on_its_node() {
    let mut board = check(vec![node("a", 1000)], vec![], &[]);
    let late = |annotations: serde_json::Value| {
        claim("data", json!({"metadata": {"annotations": annotations}, "spec": {"storageClassName": "late"}}))
    };
    board.set_class(Arc::new(waiting_class("late")));
    board.set_claim(late(json!({})));
    board.set_pod(using(pod("p-1", 500), &["data"]));
    assert_eq!(decided(&mut board), ["p-1@a with 1 claims"]);
    board.set_claim(late(json!({"volume.kubernetes.io/selected-node": "a"})));
    assert_eq!(decided(&mut board), [""; 0]);
    board.set_node(Arc::new(node("b", 9000)));
    board.set_claim(late(json!({})));
    assert_eq!(decided(&mut board), ["p-1@b with 1 claims"]);
}
