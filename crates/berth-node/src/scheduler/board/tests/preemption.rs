//! How room is made for pods of a higher priority.

use super::*;

fn ranked(name: &str, priority: i32, cpu: i64) -> PodInfo {
    PodInfo { priority, started: Timestamp::from_second(100).ok(), ..pod(name, cpu) }
}

/// The `victims`, all placed, and what is decided for a pod of 1000 and priority 100.
fn preempted(nodes: &[(&str, i64)], there: Vec<(PodInfo, &str)>, budgets: &[serde_json::Value], expected: &str) -> Board {
    let mut board = Board::default();
    nodes.iter().for_each(|(name, cpu)| {
        board.set_node(Arc::new(NodeView { allocatable: Amounts::from([("cpu", *cpu), ("pods", 9)]), ..node(name, *cpu) }));
    });
    there.into_iter().for_each(|(pod, node)| board.set_pod(Arc::new(placed(pod, node))));
    budgets
        .iter()
        .for_each(|json| board.set_budget(Arc::new(BudgetView::decode(json.to_string().as_bytes(), Revision(1)).expect("a budget"))));
    board.set_pod(Arc::new(ranked("new", 100, 1000)));
    assert_eq!(decided_in_full(&mut board), [expected]);
    board
}

#[test]
fn the_fewest_and_least_important_pods_are_evicted() {
    let there = || vec![(ranked("v-1", 1, 400), "a"), (ranked("v-2", 2, 300), "a"), (ranked("v-3", 3, 300), "a")];
    let room = |victims: &str| format!("new: 0/1 nodes are available: 1 Insufficient cpu. room on a of {victims}");
    preempted(&[("a", 1400)], there(), &[], &room("v-2+v-1"));
    preempted(&[("a", 1600)], there(), &[], &room("v-1"));
    // Of one priority those go that started last.
    let alike = |name: &str, second: i64| PodInfo { started: Timestamp::from_second(second).ok(), ..ranked(name, 1, 500) };
    preempted(&[("a", 1500)], vec![(alike("v-1", 1), "a"), (alike("v-2", 2), "a")], &[], &room("v-2"));
    let unstarted = PodInfo { started: None, ..ranked("v-1", 1, 500) };
    preempted(&[("a", 1500)], vec![(unstarted, "a"), (alike("v-2", 2), "a")], &[], &room("v-1"));
}

#[test]
fn the_node_is_taken_where_the_least_harm_is_done() {
    let on = |name: &str, priority: i32, node: &'static str| (ranked(name, priority, 1000), node);
    let half = |name: &str, priority: i32, node: &'static str| (ranked(name, priority, 500), node);
    let room = |node: &str, victims: &str| format!("new: 0/2 nodes are available: 2 Insufficient cpu. room on {node} of {victims}");
    let two = [("a", 1000), ("b", 1000)];
    let budget = |app: &str, allowed: i32| {
        let spec = json!({"selector": {"matchLabels": {"app": app}}});
        json!({"metadata": {"name": app}, "spec": spec, "status": {"disruptionsAllowed": allowed}})
    };
    // Fewest budgets broken.
    preempted(&two, vec![on("p-1", 1, "a"), on("q-1", 9, "b")], &[budget("p", 0)], &room("b", "q-1"));
    preempted(&two, vec![on("p-1", 1, "a"), on("q-1", 9, "b")], &[budget("p", 1)], &room("a", "p-1"));
    // The lowest highest priority, the lowest sum, the fewest.
    preempted(&two, vec![on("p-1", 5, "a"), on("q-1", 4, "b")], &[], &room("b", "q-1"));
    preempted(&two, vec![half("p-1", 5, "a"), half("p-2", 5, "a"), half("q-1", 5, "b"), half("q-2", 4, "b")], &[], &room("b", "q-1+q-2"));
    preempted(&two, vec![half("p-1", 5, "a"), half("p-2", 5, "a"), on("q-1", 5, "b")], &[], &room("b", "q-1"));
    // The one that runs for the shortest time.
    let later = PodInfo { started: Timestamp::from_second(200).ok(), ..ranked("q-1", 5, 1000) };
    preempted(&two, vec![on("p-1", 5, "a"), (later, "b")], &[], &room("b", "q-1"));
}

#[test]
fn a_pod_that_a_budget_protects_is_kept_before_a_more_important_one() {
    let budget =
        json!({"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "p"}}}, "status": {"disruptionsAllowed": 0}});
    let there = || vec![(ranked("p-1", 1, 500), "a"), (ranked("q-1", 9, 500), "a")];
    preempted(&[("a", 1500)], there(), std::slice::from_ref(&budget), "new: 0/1 nodes are available: 1 Insufficient cpu. room on a of q-1");
    let let_go = |mut budget: serde_json::Value| {
        budget["status"]["disruptedPods"] = json!({"p-1": "2026-01-01T00:00:00Z"});
        budget
    };
    preempted(&[("a", 1500)], there(), &[let_go(budget)], "new: 0/1 nodes are available: 1 Insufficient cpu. room on a of p-1");
}

#[test]
fn no_pod_is_evicted_where_that_would_not_help() {
    let why = |text: &str| format!("new: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: {text}");
    let helpless = why("0/1 nodes are available: 1 Preemption is not helpful for scheduling.");
    preempted(&[("a", 900)], vec![(ranked("v-1", 1, 400), "a")], &[], &helpless);
    let no_victims = why("0/1 nodes are available: 1 No preemption victims found for incoming pod.");
    preempted(&[("a", 1000)], vec![(ranked("v-1", 100, 400), "a")], &[], &no_victims);
    let still = why("0/1 nodes are available: 1 Insufficient cpu.");
    preempted(&[("a", 1000)], vec![(ranked("v-1", 1, 400), "a"), (ranked("v-2", 100, 400), "a")], &[], &still);
    let mut board = Board::default();
    board.set_node(Arc::new(node("a", 1000)));
    board.set_pod(Arc::new(placed(ranked("v-1", 1, 400), "a")));
    board.set_pod(Arc::new(PodInfo { preempts: false, ..ranked("new", 100, 1000) }));
    assert_eq!(decided_in_full(&mut board), [why("not eligible due to preemptionPolicy=Never.")]);
}

#[test]
fn room_is_made_once_and_kept_for_whom_it_is_made() {
    let victim = ranked("v-1", 1, 1000);
    let room = "new: 0/1 nodes are available: 1 Insufficient cpu. room on a of v-1";
    let mut board = preempted(&[("a", 1000)], vec![(victim.clone(), "a")], &[], room);
    assert_eq!(decided_in_full(&mut board), [""; 0]);
    // Before the victim shows its eviction, and while it terminates.
    let waits = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to a terminating pod on the nominated node.";
    board.set_node(Arc::new(NodeView { allocatable: Amounts::from([("cpu", 1001), ("pods", 9)]), ..node("a", 1001) }));
    assert_eq!(decided_in_full(&mut board), [format!("new: {waits}")]);
    board.set_pod(Arc::new(PodInfo { deleting: true, preempted: true, ..placed(victim.clone(), "a") }));
    board.set_pod(Arc::new(PodInfo { nominated_node: Some("a".to_owned()), ..ranked("new", 100, 1000) }));
    board.set_node(Arc::new(NodeView { allocatable: Amounts::from([("cpu", 1002), ("pods", 9)]), ..node("a", 1002) }));
    assert_eq!(decided_in_full(&mut board), [format!("new: {waits}")]);
    // A pod of the same priority, and one of a lower, that would fit as soon as the victim is gone.
    board.set_pod(Arc::new(ranked("a-rival", 100, 500)));
    board.set_pod(Arc::new(ranked("a-small", 0, 500)));
    assert!(decided(&mut board).iter().all(|text| text.contains("Insufficient cpu")));
    board.remove_pod(&victim);
    let full = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(decided(&mut board), [format!("a-rival: {full}"), "new@a".to_owned(), format!("a-small: {full}")]);
}

#[test]
fn a_restarted_scheduler_keeps_the_nominations_of_the_pods() {
    let mut board = Board::default();
    board.set_node(Arc::new(node("a", 1000)));
    board.set_node(Arc::new(node("b", 1000)));
    board.set_pod(Arc::new(PodInfo { deleting: true, preempted: true, ..placed(ranked("v-1", 1, 1000), "a") }));
    board.set_pod(Arc::new(placed(ranked("v-2", 1, 1000), "b")));
    board.set_pod(Arc::new(PodInfo { nominated_node: Some("a".to_owned()), ..ranked("new", 100, 1000) }));
    let waits = "new: 0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to a terminating pod on the nominated node.";
    assert_eq!(decided_in_full(&mut board), [waits]);
}

#[test]
fn room_is_for_others_when_the_pod_that_it_was_made_for_goes_elsewhere() {
    let victim = ranked("v-1", 1, 1000);
    let room = "new: 0/1 nodes are available: 1 Insufficient cpu. room on a of v-1";
    let mut board = preempted(&[("a", 1000)], vec![(victim.clone(), "a")], &[], room);
    board.remove_pod(&victim);
    board.set_node(Arc::new(node("a", 600)));
    board.set_node(Arc::new(node("b", 1000)));
    let only_a = Wishes { node_selector: BTreeMap::from([(HOSTNAME.to_owned(), "a".to_owned())]), ..Wishes::default() };
    board.set_pod(Arc::new(PodInfo { wishes: wishing(only_a), ..ranked("a-rival", 100, 500) }));
    let waits = "a-rival: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector.";
    assert_eq!(decided(&mut board), [waits, "new@b", "a-rival@a"]);
}

#[test]
fn a_higher_priority_takes_the_room_over() {
    let victim = ranked("v-1", 1, 1000);
    let room = "new: 0/1 nodes are available: 1 Insufficient cpu. room on a of v-1";
    let mut board = preempted(&[("a", 1000)], vec![(victim.clone(), "a")], &[], room);
    board.set_pod(Arc::new(ranked("urgent", 200, 1000)));
    let outbid = "urgent: 0/1 nodes are available: 1 Insufficient cpu. room on a of , not of new";
    let none = "new: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(decided_in_full(&mut board), [outbid, none]);
    board.remove_pod(&victim);
    assert_eq!(decided(&mut board), ["urgent@a", "new: 0/1 nodes are available: 1 Insufficient cpu."]);
}

#[test]
fn a_victim_that_could_not_be_evicted_is_tried_again() {
    let room = "new: 0/1 nodes are available: 1 Insufficient cpu. room on a of v-1";
    let victim = ranked("v-1", 1, 1000);
    let mut board = preempted(&[("a", 1000)], vec![(victim.clone(), "a")], &[], room);
    let (new, victim) = (Arc::new(ranked("new", 100, 1000)), Arc::new(placed(victim, "a")));
    board.try_room_again(&new, &[Arc::clone(&victim)]);
    assert_eq!(decided_in_full(&mut board), [room]);
    board.give_room_back(&new, &[victim]);
    assert!(!board.has_room("new"));
    assert_eq!(decided_in_full(&mut board), [room]);
}

#[test]
fn room_can_be_made_for_the_sake_of_a_constraint() {
    let new = with_spread(PodInfo { priority: 100, ..pod("s-9", 10) }, &[spread("s", "zone", json!({}))]);
    let nodes = vec![in_zone("a", 1000, "x"), in_zone("b", 5, "y")];
    let mut board = check(nodes, vec![placed(ranked("s-1", 1, 10), "a")], &[]);
    board.set_pod(Arc::new(new));
    let wanted = format!("s-9: 0/2 nodes are available: 1 Insufficient cpu, 1 {SKEWED}. room on a of s-1");
    assert_eq!(decided_in_full(&mut board), [wanted]);
}
