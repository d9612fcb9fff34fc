//! A store that becomes full while controllers create more objects.

use super::*;
use berth_workloads::plan::Propagation;

#[test]
fn a_deployment_of_the_most_pods_that_can_be_fills_its_bound_reports_that_and_can_be_deleted() {
    let running = Running::start_within(Some(2 << 20), "*", "", "");
    running.create(Some("default"), &deployment("all", 3));
    running.settle();
    running.patch(DEPLOYMENTS, "all", json!({"spec": {"replicas": i32::MAX}}));
    running.settle();
    let filled = running.count(PODS);
    assert!((200..1000).contains(&filled), "{filled} pods in half of the bound");
    running.settle();
    assert_eq!(running.count(PODS), filled, "it stops there");

    let words =
        "mvcc: database space exceeded: namespace \"default\" uses half of what the other namespaces leave of the store's 2097152 bytes";
    let failure = |resource| {
        let conditions = running.list(resource)[0]["status"]["conditions"].clone();
        let all = conditions.as_array().cloned().unwrap_or_default();
        all.into_iter().find(|condition| condition["type"] == "ReplicaFailure").unwrap_or_else(|| panic!("{conditions}"))
    };
    for resource in [SETS, DEPLOYMENTS] {
        let failure = failure(resource);
        assert_eq!((&failure["status"], &failure["reason"], &failure["message"]), (&json!("True"), &json!("FailedCreate"), &json!(words)));
    }
    let told = (String::from("FailedCreate"), format!("Error creating: {words}"));
    assert!(running.events().contains(&told), "{:?}", running.events());

    // Other namespaces continue.
    running.create(None, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}));
    running.settle();
    running.create(Some("other"), &deployment("web", 4));
    running.settle();
    assert_eq!(running.count(PODS), filled + 4);

    // The size is reduced, then 0.
    running.patch(DEPLOYMENTS, "all", json!({"spec": {"replicas": 2}}));
    running.settle();
    assert_eq!(running.count(PODS), 2 + 4);
    running.patch(DEPLOYMENTS, "all", json!({"spec": {"replicas": i32::MAX}}));
    running.settle();
    assert!(running.count(PODS) > 200);
    running.delete(DEPLOYMENTS, "all", Some(Propagation::Foreground));
    running.settle();
    assert_eq!((running.count(PODS), running.count(DEPLOYMENTS)), (4, 1));
}
