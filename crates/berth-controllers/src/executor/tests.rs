use super::*;
use crate::{metrics::Metrics, testing::FakeCluster};
use berth_env::testing::TestEnv;
use berth_identity::{ObjectKey, Revision};
use berth_workloads::{
    Stage,
    plan::{Reason, Urgency},
    replica_set::rank::Rule,
    resources::PODS,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

fn reference(name: &str) -> ObjectRef {
    let uid = format!("uid-of-{name}").into();
    ObjectRef { resource: PODS, key: ObjectKey::new("ns", name), uid, resource_version: None }
}

fn unavailable() -> ClusterError {
    ClusterError::Unknown("no answer".into())
}

fn taken() -> ClusterError {
    ClusterError::AlreadyExists("p is there".into())
}

fn pods(count: usize) -> Action {
    let owner = OwnerReference { uid: "set".into(), controller: Some(true), ..OwnerReference::default() };
    let metadata = ObjectMeta {
        generate_name: Some("web-".into()),
        owner_references: Some(vec![owner]),
        namespace: Some("ns".into()),
        ..ObjectMeta::default()
    };
    let template = Box::new(Pod { metadata, ..Pod::default() });
    Action::CreatePods { template, count, owner: reference("web"), reason: Reason::PodMissing }
}

fn patch(name: &str) -> Action {
    let target = ObjectRef { resource_version: Some(Revision(7)), ..reference(name) };
    Action::Patch {
        target,
        subresource: Some(Subresource::Status),
        patch: json!({"a": 1}),
        urgency: Urgency::Now,
        reason: Reason::PodsChanged,
        events: Outcome::default(),
    }
}

fn plan(stages: Vec<Vec<Action>>) -> Plan {
    Plan { stages: stages.into_iter().map(|actions| Stage { actions }).collect(), ..Plan::default() }
}

fn executor(test_env: &TestEnv, cluster: &Arc<FakeCluster>) -> Executor {
    let metrics = Arc::new(Metrics::new(&prometheus::Registry::new()).expect("an empty registry"));
    let cluster: Arc<dyn Cluster> = Arc::<FakeCluster>::clone(cluster);
    let events = Recorder::new(Arc::clone(&cluster), test_env.env(), metrics, "test");
    Executor::new(cluster, test_env.env().rng, events)
}

/// Executes a plan against a cluster with these answers. Returns the result and the calls, without the random suffixes of pods.
fn run(plan: Plan, answer: impl FnMut(&str) -> Result<Value, ClusterError> + Send + 'static) -> (Execution, Vec<String>) {
    let (test_env, cluster) = (TestEnv::default(), FakeCluster::new(answer));
    let executor = executor(&test_env, &cluster);
    let carried = test_env.block_on(async move { executor.execute("ns/web", plan).await });
    (carried, cluster.calls())
}

#[test]
fn a_stage_that_fails_is_the_last() {
    let fail_b = |call: &str| if call.contains("patch pods b") { Err(ClusterError::Refused("no".into())) } else { Ok(json!({})) };
    let (carried, calls) = run(plan(vec![vec![patch("a")], vec![patch("b"), patch("c")], vec![patch("d")]]), fail_b);
    let names: Vec<_> = calls.iter().map(|call| call.split(' ').nth(2).unwrap_or_default()).collect();
    assert_eq!(names, ["a/status", "b/status", "c/status"]);
    assert!(matches!(carried.error, Some(ExecutionError::Cluster(ClusterError::Refused(_)))));
    assert_eq!((carried.reportable, carried.writes.revisions[&PODS]), (None, Revision(103)));
}

#[test]
fn patches_carry_uid_and_resource_version() {
    let (_, calls) = run(plan(vec![vec![patch("a")]]), |_| Ok(json!({})));
    assert_eq!(calls, [r#"patch pods a/status {"a":1,"metadata":{"resourceVersion":"7","uid":"uid-of-a"}}"#]);
}

#[test]
fn slow_start_stops_after_the_batch_that_failed() {
    for (failing_call, calls_made) in [(1, 1), (2, 3), (3, 3), (4, 7), (8, 9)] {
        let mut call = 0;
        let (carried, calls) = run(plan(vec![vec![pods(9)]]), move |_| {
            call += 1;
            if call == failing_call { Err(ClusterError::Refused("no".into())) } else { Ok(json!({})) }
        });
        assert_eq!((calls.len(), carried.reportable), (calls_made, Some(ClusterError::Refused("no".into()))), "call {failing_call} fails");
    }
    assert_eq!(run(plan(vec![vec![pods(9)]]), |_| Ok(json!({}))).1.len(), 9);
}

#[test]
fn a_pod_of_a_terminating_namespace_is_no_failure() {
    let (carried, _) = run(plan(vec![vec![pods(1)]]), |_| Err(ClusterError::NamespaceTerminating("it is going".into())));
    assert!(carried.error.is_none());
}

#[test]
fn a_name_that_is_taken_by_our_own_pod_is_success_and_by_another_is_retried() {
    for (controller, creates) in [("set", 1), ("other", NAME_TRIES)] {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": controller, "controller": true});
        let (carried, calls) = run(plan(vec![vec![pods(1)]]), move |call| {
            if call.starts_with("get") { Ok(json!({"metadata": {"ownerReferences": [owner]}})) } else { Err(taken()) }
        });
        assert_eq!(calls.iter().filter(|call| call.starts_with("create")).count(), creates, "{controller}");
        assert_eq!(carried.error.is_none(), controller == "set");
    }
}

#[test]
fn a_create_of_unknown_outcome_is_repeated_under_the_same_name() {
    let (carried, first) = run(plan(vec![vec![pods(1)]]), |_| Err(unavailable()));
    let (test_env, cluster) = (TestEnv::default(), FakeCluster::new(|_| Ok(json!({}))));
    let executor = executor(&test_env, &cluster);
    let settled = test_env.block_on(async move { executor.settle(carried.writes.unsettled).await });
    assert_eq!(cluster.calls(), first);
    assert!(settled.error.is_none() && settled.writes.unsettled.is_empty() && settled.writes.revisions.contains_key(&PODS));
}

#[test]
fn a_change_of_unknown_outcome_is_read_and_not_repeated() {
    let (carried, _) = run(plan(vec![vec![patch("a")]]), |_| Err(unavailable()));
    let (test_env, cluster) = (TestEnv::default(), FakeCluster::new(|_| Ok(json!({}))));
    let executor = executor(&test_env, &cluster);
    let settled = test_env.block_on(async move { executor.settle(carried.writes.unsettled).await });
    assert_eq!((cluster.calls(), settled.writes.revisions[&PODS]), (vec!["get pods a".to_owned()], Revision(101)));
}

#[test]
fn a_pod_that_is_already_gone_is_success() {
    let delete = || Action::DeletePods {
        victims: vec![Victims { rule: Rule::AllGo, pods: vec![reference("a")] }],
        owner: reference("web"),
        reason: Reason::Replicas { wanted: 0, active: 1 },
    };
    let not_found = |_: &str| Err(ClusterError::NotFound("a is not there".into()));
    let (carried, calls) = run(plan(vec![vec![delete()]]), not_found);
    assert_eq!((carried.error.is_none(), carried.writes.gone.len(), calls), (true, 1, vec!["delete pods a uid-of-a".to_owned()]));
    let (carried, _) = run(plan(vec![vec![delete()]]), |_| Ok(json!({})));
    assert_eq!((carried.writes.gone.len(), carried.writes.revisions.len()), (0, 1));
}

#[test]
fn what_waits_for_a_node_goes_on_when_one_of_them_is_ready() {
    let ready = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    let lease = |time: &str| json!({"spec": {"renewTime": time}});
    let (early, late) = (lease("2026-01-01T00:00:09.000000Z"), lease("2026-01-01T00:00:10.000000Z"));
    let confirm = || Action::ConfirmNodeReady {
        nodes: vec!["a".to_owned(), "b".to_owned()],
        answered_since: "2026-01-01T00:00:10Z".parse().expect("a time"),
        reason: Reason::Adopts,
        events: Outcome::default(),
    };
    for (a, b, of_a, calls_made) in [
        (ready("True"), Value::Null, Value::Null, 3),
        (ready("True"), Value::Null, late.clone(), 3),
        (ready("True"), Value::Null, early.clone(), 3),
        (ready("True"), ready("True"), early, 5),
        (ready("Unknown"), ready("True"), late, 4),
        (ready("Unknown"), ready("False"), Value::Null, 2),
        (Value::Null, json!({}), Value::Null, 2),
    ] {
        let (carried, calls) = run(plan(vec![vec![confirm()], vec![patch("c")]]), move |call| {
            Ok(if call.starts_with("get nodes a") {
                a.clone()
            } else if call.starts_with("get leases") {
                if call.ends_with("a") { of_a.clone() } else { Value::Null }
            } else if call.starts_with("get") {
                b.clone()
            } else {
                json!({})
            })
        });
        assert_eq!(
            (calls.len(), carried.error.is_none()),
            (calls_made, calls.last().is_some_and(|last| last.starts_with("patch"))),
            "{calls:?}"
        );
    }
}

#[test]
fn no_action_runs_for_an_owner_that_is_terminating_or_deleted() {
    let confirm = || plan(vec![vec![Action::ConfirmAlive { target: reference("web"), reason: Reason::Adopts }], vec![patch("a")]]);
    for (owner, calls_made) in [
        (json!({"metadata": {"uid": "uid-of-web"}}), 2),
        (json!({"metadata": {"uid": "uid-of-web", "deletionTimestamp": "2026-01-01T00:00:00Z"}}), 1),
        (json!({"metadata": {"uid": "another"}}), 1),
        (Value::Null, 1),
    ] {
        let (_, calls) = run(confirm(), move |call| Ok(if call.starts_with("get") { owner.clone() } else { json!({}) }));
        assert_eq!(calls.len(), calls_made, "{calls:?}");
    }
}
