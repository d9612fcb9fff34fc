//! The basis of a forecast: pod times from the cluster, assumptions for unknown facts, and ignored objects.

use crate::common::{
    cluster, edit, forecast_change, new_image, pod, ready, rolling,
    scenario::{deployment, stateful_set},
    suppositions,
};
use berth_identity::ObjectKey;
use berth_node::kubelet::KnownObject;
use berth_plan::{
    Change, Controllers, Edit, Edits, Forecast, Outcome, PlanError, Snapshot, Source, StepKind, Suppositions, TroubleKind, WriteBody,
    forecast, forecast_many, text, victims, writes,
};
use berth_store::env::Timestamp;
use berth_workloads::{
    resources::CONFIG_MAPS,
    workload::{WorkloadId, WorkloadKind},
};
use serde_json::{Value, json};
use std::time::Duration;

fn scaled(replicas: i32) -> Edits {
    Edits { replicas: Some(replicas), ..Edits::default() }
}

fn applied(manifests: Vec<Value>) -> Change {
    Change { manifests, ..Change::default() }
}

fn at(time: &str) -> Timestamp {
    time.parse().expect("a time")
}

/// A forecast of a cluster with berth's controllers at that time, without given pod times.
fn of_cluster(objects: Vec<Value>, time: &str, edits: Edits) -> Forecast {
    let mut snapshot = Snapshot::of_documents(objects);
    snapshot.at = at(time);
    let suppositions = Suppositions { controllers: Some(Controllers::Berth), ..Suppositions::default() };
    forecast(&snapshot, &edit(WorkloadKind::Deployment, edits), &suppositions).expect("a forecast")
}

/// A container's status with this state.
fn container(state: &Value) -> Value {
    json!({"name": "main", "image": "main:1", "imageID": "", "ready": false, "restartCount": 0, "state": state})
}

#[test]
fn without_evidence_pods_start_in_ten_seconds_and_take_their_grace_period() {
    let mut web = deployment(2, &rolling(1, 0, "TerminationStarted"));
    web["spec"].as_object_mut().expect("a spec").remove("podReplacementPolicy");
    web["spec"]["template"]["spec"].as_object_mut().expect("a spec").remove("terminationGracePeriodSeconds");
    let snapshot = Snapshot::of_documents([web]);
    let forecast = forecast(&snapshot, &edit(WorkloadKind::Deployment, new_image()), &Suppositions::default()).expect("a forecast");
    let web = &forecast.workloads[0];
    assert_eq!((web.start.typical.as_secs(), web.start.source, web.start.samples), (10, Source::Supposed, 0));
    assert_eq!((web.stop.typical.as_secs(), web.stop.source), (30, Source::GracePeriod));
    let Outcome::Complete { after, settled_after } = web.outcome else { panic!("{}", text(&forecast, None)) };
    assert_eq!((after.as_secs(), settled_after.as_secs()), (20, 50));
    assert_eq!((forecast.supposed.controllers, forecast.supposed.because.as_str()), ("berth", "there is no cluster, only manifests"));
}

#[test]
fn a_forecast_ends_where_it_has_made_as_many_writes_as_it_may() {
    let snapshot = Snapshot::of_documents([deployment(20, &rolling(1, 0, "TerminationStarted"))]);
    let of =
        |writes_max| forecast(&snapshot, &edit(WorkloadKind::Deployment, new_image()), &Suppositions { writes_max, ..suppositions(5, 20) });
    assert!(of(None).is_ok() && of(Some(10_000)).is_ok());
    let error = of(Some(100)).expect_err("20 pods take more");
    assert!(matches!(error, PlanError::TooLong { writes: 100 }), "{error}");
}

#[test]
fn the_start_time_is_learned_from_pods_that_were_never_restarted() {
    let started = |status: Value| {
        let forecast = of_cluster(cluster(1, vec![pod("web-1-a", status)]), "2026-03-01T11:00:00Z", scaled(2));
        (forecast.workloads[0].start.typical.as_secs(), forecast.workloads[0].start.source)
    };
    assert_eq!(started(ready("2026-03-01T10:00:07Z")), (7, Source::Pods));
    let mut restarted = ready("2026-03-01T10:40:00Z");
    restarted["containerStatuses"][0]["restartCount"] = json!(1);
    assert_eq!(started(restarted), (10, Source::Supposed));
    // Without a start time, the time counts from binding.
    let mut placed = ready("2026-03-01T10:00:09Z");
    placed.as_object_mut().expect("a status").remove("startTime");
    placed["conditions"]
        .as_array_mut()
        .expect("a list")
        .push(json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T10:00:03Z"}));
    assert_eq!(started(placed), (6, Source::Pods));
    // The median of two is the faster one.
    let two = vec![pod("web-1-a", ready("2026-03-01T10:00:04Z")), pod("web-1-b", ready("2026-03-01T10:00:09Z"))];
    let start = of_cluster(cluster(2, two), "2026-03-01T11:00:00Z", scaled(3)).workloads[0].start.clone();
    assert_eq!([start.typical, start.fastest, start.slowest].map(|time| time.as_secs()), [4, 4, 9]);
}

#[test]
fn a_pod_that_takes_longer_to_stop_than_others_has_its_whole_grace_period() {
    let mut going = pod("web-1-x", ready("2026-03-01T10:00:04Z"));
    going["spec"]["terminationGracePeriodSeconds"] = json!(200);
    // Deleted at 10:10:00, with a grace period of 200 s.
    going["metadata"]["deletionTimestamp"] = json!("2026-03-01T10:13:20Z");
    going["metadata"]["deletionGracePeriodSeconds"] = json!(200);
    let room_after = |time: &str, going: &Value| {
        let pods = vec![pod("web-1-a", ready("2026-03-01T10:00:04Z")), going.clone()];
        let mut snapshot = Snapshot::of_documents(cluster(1, pods));
        snapshot.at = at(time);
        let suppositions = Suppositions { controllers: Some(Controllers::Berth), ..suppositions(5, 40) };
        let forecast = forecast(&snapshot, &edit(WorkloadKind::Deployment, new_image()), &suppositions).expect("a forecast");
        let created = forecast.workloads[0].steps.iter().find(|step| matches!(step.kind, StepKind::CreatePods { .. }));
        created.expect("a pod comes").at.as_secs_f64().round()
    };
    assert_eq!(room_after("2026-03-01T10:00:10Z", &pod("web-1-y", json!({"phase": "Failed"}))), 0.0, "nothing is in its way");
    assert_eq!(room_after("2026-03-01T10:10:10Z", &going), 30.0, "40 s after it was told to go, as others");
    assert_eq!(room_after("2026-03-01T10:11:00Z", &going), 140.0, "200 s after it was told to go");
    // Its annotation has precedence over other pods' times.
    going["metadata"]["annotations"] = json!({"sim.berth.dev/terminates-after": "90s"});
    assert_eq!(room_after("2026-03-01T10:11:00Z", &going), 30.0);
}

#[test]
fn what_cannot_be_started_never_starts_and_what_is_only_slow_does() {
    // How many of two pods are available at the end: the existing one and the new one.
    let available = |status: Value, time: &str| {
        let mut snapshot = Snapshot::of_documents(cluster(1, vec![pod("web-1-b", status)]));
        snapshot.at = at(time);
        let suppositions = Suppositions { controllers: Some(Controllers::Berth), ..suppositions(5, 20) };
        let forecast = forecast(&snapshot, &edit(WorkloadKind::Deployment, scaled(2)), &suppositions).expect("a forecast");
        forecast.workloads[0].lanes.last().map_or(0, |lane| lane.revisions.values().map(|counts| counts.available).sum::<u32>())
    };
    let waiting = |reason: &str| json!({"phase": "Pending", "startTime": "2026-03-01T10:00:00Z", "containerStatuses": [container(&json!({"waiting": {"reason": reason}}))]});
    for reason in ["CreateContainerConfigError", "CreateContainerError", "InvalidImageName", "ErrImagePull", "ImagePullBackOff"] {
        assert_eq!(available(waiting(reason), "2026-03-01T10:00:10Z"), 0, "{reason}");
    }
    assert_eq!(available(waiting("ContainerCreating"), "2026-03-01T10:00:10Z"), 2);
    let mut init = waiting("PodInitializing");
    init["initContainerStatuses"] = json!([container(&json!({"waiting": {"reason": "CreateContainerError"}}))]);
    assert_eq!(available(init, "2026-03-01T10:00:10Z"), 0, "what an init container waits for counts too");
    // Others take 5 s. After three times that and a minute, it is not only slow.
    let running = || json!({"phase": "Running", "startTime": "2026-03-01T10:00:00Z", "containerStatuses": [container(&json!({"running": {"startedAt": "2026-03-01T10:00:01Z"}}))]});
    assert_eq!(available(running(), "2026-03-01T10:01:15Z"), 2);
    assert_eq!(available(running(), "2026-03-01T10:01:16Z"), 0);
    assert_eq!(available(waiting("ContainerCreating"), "2026-03-01T10:30:00Z"), 2, "nothing of it runs that could fail");
}

#[test]
fn a_ready_pod_clears_the_template_whatever_its_position() {
    let stuck = json!({"phase": "Pending", "startTime": "2026-03-01T10:00:00Z", "containerStatuses": [container(&json!({"waiting": {"reason": "CreateContainerError"}}))]});
    let set_pod = |name: &str, status: &Value| {
        let mut pod = pod(name, status.clone());
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "web", "controller": true}]);
        pod
    };
    let pods = vec![pod("web-1-a", stuck.clone()), pod("web-1-b", ready("2026-03-01T10:00:04Z"))];
    let forecast = of_cluster(cluster(2, pods), "2026-03-01T10:30:00Z", scaled(3));
    assert_eq!(forecast.workloads[0].lanes.last().expect("some").revisions["web-1"].available, 2, "{}", text(&forecast, None));
    // Pods of a StatefulSet are not assumed to share a failure.
    let mut set = stateful_set(1, &json!({}));
    set["metadata"]["uid"] = json!("web");
    set["metadata"]["creationTimestamp"] = json!("2026-03-01T09:00:00Z");
    set["spec"]["podManagementPolicy"] = json!("Parallel");
    set["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let mut snapshot = Snapshot::of_documents([set, set_pod("web-0", &stuck)]);
    snapshot.at = at("2026-03-01T10:30:00Z");
    let suppositions = Suppositions { controllers: Some(Controllers::Berth), ..suppositions(5, 20) };
    let forecast = berth_plan::forecast(&snapshot, &edit(WorkloadKind::StatefulSet, scaled(2)), &suppositions).expect("a forecast");
    let last = forecast.workloads[0].lanes.last().expect("some");
    assert_eq!(last.revisions.values().map(|counts| counts.available).sum::<u32>(), 1, "{}", text(&forecast, None));
}

#[test]
fn a_priority_is_that_of_pods_that_have_it_and_a_node_that_is_not_ready_takes_none() {
    let node = |name: &str, ready: &str| {
        let taints = if ready == "True" { json!([]) } else { json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]) };
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}, "spec": {"taints": taints},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}, "conditions": [{"type": "Ready", "status": ready}]}})
    };
    let mut web = deployment(2, &rolling(1, 0, "TerminationStarted"));
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    let forecast = forecast_change(vec![node("n1", "True"), node("n2", "Unknown"), web], &edit(WorkloadKind::Deployment, scaled(3)));
    let cpu = forecast.nodes.iter().find(|room| room.resource == "cpu").expect("pods ask for it");
    assert_eq!((cpu.allocatable, cpu.least_free.value), (4000, 1000));
    // The class is not in the file, but the pod contains its priority. New pods are accepted and get it.
    let mut objects = cluster(1, vec![pod("web-1-a", ready("2026-03-01T10:00:04Z"))]);
    for spec in ["/0/spec/template/spec", "/1/spec/template/spec"] {
        let (index, pointer) = spec[1..].split_once('/').expect("two parts");
        objects[index.parse::<usize>().expect("a number")].pointer_mut(&format!("/{pointer}")).expect("a spec")["priorityClassName"] =
            json!("high");
    }
    objects[2]["spec"]["priorityClassName"] = json!("high");
    objects[2]["spec"]["priority"] = json!(7);
    let forecast = of_cluster(objects, "2026-03-01T10:30:00Z", scaled(2));
    assert!(matches!(forecast.workloads[0].outcome, Outcome::Complete { .. }), "{}", text(&forecast, None));
}

#[test]
fn the_writer_of_the_status_counts_more_than_nodes_and_fields_do() {
    let workload = |by: &[&str], policy: Value| {
        let entries: Vec<Value> = by.iter().map(|manager| json!({"manager": manager})).collect();
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "uid": "web", "managedFields": entries}, "spec": {"podReplacementPolicy": policy}})
    };
    let node =
        |version: &str| json!({"kind": "Node", "metadata": {"name": "n", "uid": "n"}, "status": {"nodeInfo": {"kubeletVersion": version}}});
    let found = |objects: Vec<Value>| Snapshot::of_documents(objects).controllers();
    let check = |objects: Vec<Value>, controllers: Controllers, because: &str| {
        assert_eq!(found(objects), (controllers, because.to_owned()));
    };
    let both = workload(&["kube-controller-manager", "berth-controller-manager"], Value::Null);
    check(vec![both], Controllers::Berth, "they write the workloads");
    let upstream = || workload(&["kube-controller-manager"], json!("TerminationComplete"));
    check(vec![upstream(), node("v1.36.2-berth")], Controllers::Kubernetes, "they write the workloads' status");
    check(vec![workload(&[], Value::Null), node("v1.36.2-berth")], Controllers::Berth, "the nodes are berth's");
    let (controllers, because) = found(vec![workload(&[], Value::Null), node("v1.36.2")]);
    assert_eq!((controllers, because.contains("add --controllers berth")), (Controllers::Kubernetes, true));
    check(vec![workload(&[], json!("TerminationStarted"))], Controllers::Berth, "the server knows podReplacementPolicy");
}

#[test]
fn a_manifest_without_a_namespace_is_of_the_changes_own_and_other_api_versions_are_passed_over() {
    let manifest = |namespace: Value| {
        let mut web = deployment(1, &json!({}));
        web["metadata"]["namespace"] = namespace;
        web
    };
    let of = |manifests: Vec<Value>, own: &str| {
        let change = Change { manifests, namespace: own.to_owned(), ..Change::default() };
        let forecast = forecast(&Snapshot::default(), &change, &suppositions(5, 20)).expect("a forecast");
        forecast.workloads.iter().map(|workload| workload.workload.namespace.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(of(vec![manifest(Value::Null)], "shop"), ["shop"]);
    assert_eq!(of(vec![manifest(json!(""))], ""), ["default"]);
    assert_eq!(of(vec![manifest(json!("till"))], "shop"), ["till"]);
    let mut other = manifest(json!("till"));
    other["apiVersion"] = json!("apps/v1beta1");
    assert_eq!(of(vec![other.clone(), manifest(json!("shop"))], ""), ["shop"]);
    let error = forecast(&Snapshot::default(), &applied(vec![other]), &suppositions(5, 20)).expect_err("it is another kind");
    assert_eq!(error.to_string(), "the change contains no Deployment, StatefulSet, DaemonSet, Job or ReplicationController");
}

#[test]
fn what_a_server_is_asked_about_is_what_changes() {
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7});
    let thing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let objects = cluster(2, Vec::new());
    let former = json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "x", "namespace": "default"}});
    let change = Change { manifests: vec![class, thing, former], ..edit(WorkloadKind::Deployment, scaled(2)) };
    let asked = writes(&Snapshot::of_documents(objects), &change).expect("writes");
    let about: Vec<(&str, Option<&str>, bool)> = asked
        .iter()
        .map(|write| (&*write.resource.plural, write.namespace.as_deref(), matches!(write.what, WriteBody::Create(_))))
        .collect();
    assert_eq!(about, [("priorityclasses", None, true)], "{asked:?}");
}

#[test]
fn a_stateful_sets_pods_are_named_and_deleted_by_a_rule_and_a_recreation_is_forecast() {
    let set = stateful_set(2, &json!({"updateStrategy": {"type": "Recreate"}, "podManagementPolicy": "Parallel"}));
    let forecast = forecast_change(vec![set], &edit(WorkloadKind::StatefulSet, new_image()));
    let web = &forecast.workloads[0];
    assert_eq!((web.policy.as_str(), web.available.value, web.most), ("Recreate, Parallel", 0, None));
    let Outcome::Complete { after, .. } = web.outcome else { panic!("{}", text(&forecast, None)) };
    assert_eq!(after.as_secs(), 25, "all go, then all come");
    let created: Vec<&str> = web
        .steps
        .iter()
        .filter_map(|step| if let StepKind::CreatePods { names, .. } = &step.kind { Some(names) } else { None })
        .flatten()
        .map(String::as_str)
        .collect();
    assert_eq!(created, ["web-0", "web-1"], "{:?}", web.steps);
    let gone = web.steps.iter().filter_map(|step| if let StepKind::DeletePods { pods, .. } = &step.kind { Some(pods) } else { None });
    assert!(gone.flatten().all(|victim| !victim.rule.is_empty()), "{:?}", web.steps);
    let mut revisions: Vec<&str> = web.lives.iter().map(|life| life.revision.as_str()).collect();
    revisions.sort_unstable();
    revisions.dedup();
    assert!(revisions.len() == 2 && revisions.iter().all(|revision| revision.starts_with("web-")), "{revisions:?}");
    // A set without a policy has OrderedReady.
    let ordered = forecast_change(vec![stateful_set(1, &json!({}))], &edit(WorkloadKind::StatefulSet, scaled(2)));
    assert_eq!(ordered.workloads[0].policy, "RollingUpdate, OrderedReady");
    assert_eq!(victims(&ordered), "No pod is deleted.\n");
}

#[test]
fn a_new_template_that_crashes_takes_what_the_strategy_promises() {
    let mut broken = deployment(3, &rolling(1, 0, "TerminationStarted"));
    broken["spec"]["template"]["metadata"]["annotations"] = json!({"sim.berth.dev/fails": "CrashLoopBackOff"});
    let forecast = forecast_change(vec![deployment(3, &rolling(1, 0, "TerminationStarted"))], &applied(vec![broken]));
    let lowest = forecast.workloads[0].available;
    let told: Vec<(&str, Duration)> = forecast
        .troubles
        .iter()
        .filter(|trouble| trouble.kind == TroubleKind::Unavailable)
        .map(|trouble| (trouble.text.as_str(), trouble.at))
        .collect();
    let wanted = format!("Deployment web has {} available pods, but its strategy requires 3", lowest.value);
    assert_eq!(told, [(wanted.as_str(), lowest.at)], "{}", text(&forecast, None));
}

#[test]
fn a_spread_of_no_runs_is_empty() {
    let snapshot = Snapshot::of_documents([deployment(2, &json!({}))]);
    let spread = forecast_many(&snapshot, &edit(WorkloadKind::Deployment, new_image()), &suppositions(5, 20), 0, |_| ()).expect("no run");
    assert_eq!((spread.runs, spread.complete, spread.pods, spread.available, spread.p95), (0, 0, 0, 0, Duration::ZERO));
}

#[test]
fn a_quota_of_the_change_counts_and_its_peak_is_reported_with_its_time() {
    let quota = |pods: u32| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": {"pods": pods.to_string()}}});
    let web = |image: &str| {
        let mut web = deployment(2, &rolling(1, 0, "TerminationComplete"));
        web["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        web
    };
    let forecast = forecast_change(vec![quota(9), web("main:1")], &applied(vec![quota(4), web("main:2")]));
    let [quota] = &forecast.quotas[..] else { panic!("{:?}", forecast.quotas) };
    assert_eq!((quota.used.as_str(), quota.hard.as_str()), ("3", "4"), "{:?}", forecast.troubles);
    assert!(quota.at < Duration::from_secs(1), "when it is first reached: {:?}", quota.at);
}

#[test]
fn both_kinds_are_changed_at_once_each_by_what_it_knows() {
    let mut set = stateful_set(1, &json!({}));
    set["metadata"]["name"] = json!("db");
    let edit = |kind, name: &str| Edit { workload: WorkloadId::new(kind, "default", name), edits: Edits::default() };
    let change = Change {
        edits: vec![edit(WorkloadKind::Deployment, "web"), edit(WorkloadKind::StatefulSet, "db")],
        deployments: Edits { policy: Some("TerminationComplete".to_owned()), ..scaled(2) },
        stateful_sets: scaled(3),
        ..Change::default()
    };
    let forecast = forecast_change(vec![deployment(1, &json!({})), set], &change);
    let sizes: Vec<(&str, i64)> = forecast.workloads.iter().map(|workload| (workload.policy.as_str(), workload.replicas)).collect();
    assert_eq!(sizes, [("RollingUpdate, TerminationComplete", 2), ("RollingUpdate, OrderedReady", 3)]);
}

/// Eighteen MiB of pods: the store of a forecast keeps the last sixteen MiB of changes.
#[test]
fn a_cluster_of_more_bytes_than_the_store_keeps_of_changes_is_forecast() {
    let padding = "x".repeat(200 << 10);
    let of_others = (0..90).map(|n| {
        let mut other = pod(&format!("other-{n}"), ready("2026-03-01T10:00:04Z"));
        other["metadata"] = json!({"name": other["metadata"]["name"], "namespace": "default", "uid": other["metadata"]["uid"], "labels": {"app": "other"},
            "creationTimestamp": "2026-03-01T10:00:00Z", "annotations": {"example.com/padding": padding}});
        other
    });
    let own = [pod("web-1-a", ready("2026-03-01T10:00:04Z")), pod("web-1-b", ready("2026-03-01T10:00:09Z"))];
    let objects = cluster(2, own.into_iter().chain(of_others).collect());
    let forecast = forecast_change(objects, &edit(WorkloadKind::Deployment, new_image()));
    assert!(matches!(forecast.workloads[0].outcome, Outcome::Complete { .. }), "{:?}", forecast.workloads[0].outcome);
    assert_eq!((forecast.workloads[0].pods.value, forecast.workloads[0].available.value), (3, 2));
}

#[test]
fn pods_wait_for_a_config_map_that_does_not_exist_and_that_the_change_does_not_apply() {
    let mut web = deployment(2, &rolling(1, 0, "TerminationStarted"));
    web["spec"]["template"]["spec"]["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"level": "info"}});
    let forecast_with = |known: Option<KnownObject>, manifests: &[&Value]| {
        let key = (CONFIG_MAPS, ObjectKey::new("default", "settings"));
        let objects = known.map(|known| (key, known)).into_iter().collect();
        let snapshot = Snapshot::of_documents([deployment(2, &rolling(1, 0, "TerminationStarted"))]);
        let change = applied(manifests.iter().map(|manifest| (*manifest).clone()).collect());
        forecast(&snapshot, &change, &Suppositions { objects, ..suppositions(5, 20) }).expect("a forecast")
    };
    let is_complete = |forecast: &Forecast| matches!(forecast.workloads[0].outcome, Outcome::Complete { .. });
    for found in [None, Some(KnownObject::Exists), Some(KnownObject::Keys(["level".to_owned()].into()))] {
        assert!(is_complete(&forecast_with(found.clone(), &[&web])), "{found:?}");
    }
    let stuck = forecast_with(Some(KnownObject::Missing), &[&web]);
    let told = text(&stuck, None);
    assert!(!is_complete(&stuck) && told.contains("configmap \"settings\" not found"), "{told}");
    assert!(is_complete(&forecast_with(Some(KnownObject::Missing), &[&config_map, &web])));
}
