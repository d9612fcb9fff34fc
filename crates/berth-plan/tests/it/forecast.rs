//! The content of forecasts.

use crate::common::{
    cluster, edit, forecast_change, new_image, pod, ready, rolling,
    scenario::{daemon_set, deployment, stateful_set},
    suppositions,
};
use berth_plan::{
    Change, Controllers, Edit, Edits, Failure, Forecast, OtherOutcome, Outcome, Snapshot, StepKind, Suppositions, TroubleKind, WriteBody,
    charts, compare, forecast, forecast_many, text, victims, writes,
};
use berth_workloads::{
    pod_state::PodCounts,
    workload::{WorkloadId, WorkloadKind},
};
use serde_json::{Value, json};
use std::time::Duration;

fn complete(forecast: &Forecast) -> (u64, u64) {
    match &forecast.workloads[0].outcome {
        Outcome::Complete { after, settled_after } => (after.as_secs(), settled_after.as_secs()),
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn termination_complete_waits_for_each_pod_and_never_has_more_than_its_bound() {
    let objects = || vec![deployment(3, &rolling(1, 0, "TerminationComplete"))];
    let complete_policy = forecast_change(objects(), &edit(WorkloadKind::Deployment, new_image()));
    let web = &complete_policy.workloads[0];
    assert_eq!((web.pods.value, web.available.value, web.most, web.least), (4, 3, Some(4), Some(3)));
    assert_eq!(complete(&complete_policy), (75, 75), "each of three pods: 5 s until the new one is ready, 20 s until the old one is gone");
    assert!(web.waits.iter().any(|wait| wait.reason == "pods_terminating" && wait.text.contains("1 terminating pod")), "{:?}", web.waits);
    assert!(complete_policy.troubles.is_empty() && complete_policy.failures(&[Failure::Bound]).is_empty());

    let started = Edits { policy: Some("TerminationStarted".to_owned()), ..new_image() };
    let started = forecast_change(objects(), &edit(WorkloadKind::Deployment, started));
    assert_eq!(complete(&started), (15, 35));
    assert_eq!((started.workloads[0].pods.value, started.workloads[0].terminating.value), (6, 3));
    assert_eq!(started.failures(&[Failure::Bound]).len(), 1, "{:?}", started.failures(&[Failure::Bound]));
}

#[test]
fn a_forecast_reports_a_full_quota_and_that_the_rollout_continues_when_there_is_room() {
    let quota = |pods: u32| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": {"pods": pods.to_string()}}});
    let tight =
        forecast_change(vec![quota(4), deployment(3, &rolling(3, 0, "TerminationStarted"))], &edit(WorkloadKind::Deployment, new_image()));
    let kinds: Vec<TroubleKind> = tight.troubles.iter().map(|trouble| trouble.kind).collect();
    assert_eq!(kinds, [TroubleKind::Quota], "{:?}", tight.troubles);
    assert!(tight.troubles[0].text.contains("exceeded quota: few"), "{}", tight.troubles[0].text);
    assert_eq!((tight.quotas[0].used.as_str(), tight.quotas[0].hard.as_str()), ("4", "4"));
    complete(&tight);

    let full =
        forecast_change(vec![quota(3), deployment(3, &rolling(1, 0, "TerminationStarted"))], &edit(WorkloadKind::Deployment, new_image()));
    let Outcome::Stuck { why, .. } = &full.workloads[0].outcome else { panic!("{:?}", full.workloads[0].outcome) };
    assert!(why[0].contains("because of a quota"), "{why:?}");
    let kinds: Vec<TroubleKind> = full.troubles.iter().map(|trouble| trouble.kind).collect();
    assert!(
        kinds.contains(&TroubleKind::Quota) && kinds.contains(&TroubleKind::Deadline) && kinds.contains(&TroubleKind::Never),
        "{kinds:?}"
    );
    assert!(text(&full, None).contains("NEVER COMPLETE"), "{}", text(&full, None));
}

#[test]
fn a_forecast_reports_pods_that_no_node_fits() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "n1"},
        "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}});
    let mut web = deployment(2, &rolling(0, 1, "TerminationComplete"));
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "900m", "memory": "1Gi"}});
    let fits = forecast_change(vec![node.clone(), web.clone()], &edit(WorkloadKind::Deployment, new_image()));
    assert_eq!(complete(&fits).0, 50, "{}", text(&fits, None));
    let cpu = fits.nodes.iter().find(|room| room.resource == "cpu").expect("pods ask for it");
    assert_eq!((cpu.allocatable, cpu.least_free.value), (2000, 200));
    let more = forecast_change(vec![node, web], &edit(WorkloadKind::Deployment, Edits { replicas: Some(3), ..Edits::default() }));
    assert!(matches!(more.workloads[0].outcome, Outcome::Stuck { .. }));
    assert_eq!(more.failures(&[Failure::Unschedulable]).len(), 1, "{:?}", more.troubles);
}

/// There are three pods before and after, but different ones.
#[test]
fn numbers_that_move_are_complete_when_just_the_wanted_pods_are_there() {
    for (strategy, management) in
        [("RollingUpdate", "OrderedReady"), ("RollingUpdate", "Parallel"), ("Recreate", "OrderedReady"), ("OnDelete", "OrderedReady")]
    {
        let mut set = stateful_set(3, &json!({"updateStrategy": {"type": strategy}}));
        set["spec"]["podManagementPolicy"] = json!(management);
        let mut manifest = set.clone();
        manifest["spec"]["ordinals"] = json!({"start": 2});
        let change = Change { manifests: vec![manifest], namespace: "default".to_owned(), ..Change::default() };
        let forecast = forecast_change(vec![set], &change);
        let (mut created, mut deleted) = (Vec::new(), Vec::new());
        for step in &forecast.workloads[0].steps {
            match &step.kind {
                StepKind::CreatePods { names, .. } => created.extend(names.iter().map(String::as_str)),
                StepKind::DeletePods { pods, .. } => deleted.extend(pods.iter().map(|victim| victim.pod.as_str())),
                _ => (),
            }
        }
        created.sort_unstable();
        deleted.sort_unstable();
        let what = format!("{strategy} {management}: {}", text(&forecast, None));
        assert_eq!((created.as_slice(), deleted.as_slice()), (&["web-3", "web-4"][..], &["web-0", "web-1"][..]), "{what}");
        // Parallel: 5 s for a pod to start beside 20 s for one to stop. Otherwise one after the other.
        let least = if management == "Parallel" { 20 } else { 25 };
        assert!(complete(&forecast).0 >= least, "{what}");
    }
}

#[test]
fn a_stateful_set_rolls_from_its_highest_number() {
    let set = stateful_set(3, &json!({"updateStrategy": {"type": "RollingUpdate"}}));
    let forecast = forecast_change(vec![set], &edit(WorkloadKind::StatefulSet, new_image()));
    let gone: Vec<&str> = forecast.workloads[0]
        .steps
        .iter()
        .filter_map(|step| match &step.kind {
            StepKind::DeletePods { pods, .. } => Some(pods[0].pod.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!((gone, complete(&forecast).0), (vec!["web-2", "web-1", "web-0"], 75));
    assert!(victims(&forecast).contains("web-2"), "{}", victims(&forecast));
}

fn node(name: &str) -> Value {
    let status = json!({"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}, "status": status})
}

#[test]
fn a_daemon_set_replaces_its_pods_node_by_node_within_its_limits() {
    let of = |rolling: Value, edits: Edits| {
        let strategy = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}});
        let objects = vec![node("n1"), node("n2"), node("n3"), daemon_set(&strategy)];
        forecast_change(objects, &edit(WorkloadKind::DaemonSet, edits))
    };
    let one = of(json!({"maxUnavailable": 1}), new_image());
    let web = &one.workloads[0];
    // 20 s for a pod to stop and 5 s for its successor to start, three times.
    assert_eq!((complete(&one).0, web.replicas, web.pods.value, web.available.value), (75, 3, 3, 2), "{}", text(&one, None));
    assert_eq!((web.most, web.least, &*web.policy), (Some(3), Some(2), "RollingUpdate, a pod on each node"));
    assert_eq!(victims(&one).lines().count(), 3, "{}", victims(&one));
    assert!(web.newest.as_ref().is_some_and(|newest| newest.starts_with("web-")), "{:?}", web.newest);
    let surge = of(json!({"maxUnavailable": 0, "maxSurge": 3}), new_image());
    let web = &surge.workloads[0];
    assert_eq!(
        (complete(&surge), web.pods.value, web.available.value),
        ((25, 25), 6, 3),
        "the status counts the old pods: {}",
        text(&surge, None)
    );
}

#[test]
fn a_daemon_set_has_no_size_and_waits_for_deletions_by_hand() {
    let change = edit(WorkloadKind::DaemonSet, Edits { replicas: Some(3), ..Edits::default() });
    let snapshot = Snapshot::of_documents([daemon_set(&json!({}))]);
    let error = forecast(&snapshot, &change, &suppositions(5, 20)).expect_err("it cannot be scaled").to_string();
    assert_eq!(error, "a DaemonSet has no replicas: it has a pod on each of its nodes");
    let by_hand = daemon_set(&json!({"updateStrategy": {"type": "OnDelete"}}));
    let forecast = forecast_change(vec![node("n1"), node("n2"), by_hand], &edit(WorkloadKind::DaemonSet, new_image()));
    let Outcome::Held { why, .. } = &forecast.workloads[0].outcome else { panic!("{}", text(&forecast, None)) };
    assert!(why[0].contains("2 pods") && why[0].contains("deleted manually"), "{why:?}");
}

#[test]
fn a_pod_without_a_controller_belongs_to_no_new_workload() {
    let mut lone = pod("lone", ready("2026-03-01T10:00:05Z"));
    lone["metadata"]["labels"] = json!({"app": "lone"});
    lone["metadata"].as_object_mut().expect("a map").remove("ownerReferences");
    for (set, pods) in [(stateful_set(2, &json!({})), 2), (daemon_set(&json!({})), 1)] {
        let forecast = applied(vec![set], vec![node("n1"), lone.clone()]);
        assert_eq!(forecast.workloads[0].pods.value, pods, "{}", text(&forecast, None));
    }
}

fn job(annotations: &Value, spec: &Value) -> Value {
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work", "namespace": "default"}, "spec": spec});
    job["spec"]["template"] = json!({
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work:1"}]},
    });
    job
}

fn applied(manifests: Vec<Value>, objects: Vec<Value>) -> Forecast {
    forecast_change(objects, &Change { manifests, ..Change::default() })
}

#[test]
fn a_job_runs_its_pods_to_completion_where_it_is_known_how_long_they_run() {
    let spec = json!({"completions": 3, "parallelism": 2});
    let forecast = applied(vec![job(&json!({"sim.berth.dev/completes-after": "30s"}), &spec)], Vec::new());
    let work = &forecast.others[0];
    assert_eq!((work.kind, &*work.name, work.created, work.pods.value), ("Job", "work", 3, 2), "{}", text(&forecast, None));
    let OtherOutcome::Complete { after } = work.outcome else { panic!("{}", text(&forecast, None)) };
    assert!((60..80).contains(&after.as_secs()) && forecast.total == after, "two generations of pods, not {after:?}");
    let forecast = applied(vec![job(&json!({}), &spec)], Vec::new());
    let work = &forecast.others[0];
    assert!(matches!(work.outcome, OtherOutcome::Runs { .. }) && work.created == 2, "{}", text(&forecast, None));
    assert!(text(&forecast, None).contains("how long they run is unknown"), "{}", text(&forecast, None));
    for spec in [json!({"suspend": true}), json!({"parallelism": 0})] {
        let held = applied(vec![job(&json!({}), &spec)], Vec::new());
        assert!(matches!(held.others[0].outcome, OtherOutcome::Held { .. }), "{}", text(&held, None));
    }
}

#[test]
fn a_job_that_fails_and_one_that_a_quota_keeps_from_its_pods_are_problems() {
    let fails = json!({"sim.berth.dev/completes-after": "2s", "sim.berth.dev/exit-code": "3"});
    let forecast = applied(vec![job(&fails, &json!({"backoffLimit": 0}))], Vec::new());
    assert!(
        matches!(&forecast.others[0].outcome, OtherOutcome::Failed { why, .. } if why.starts_with("BackoffLimitExceeded")),
        "{forecast:?}"
    );
    assert!(forecast.failures(&[Failure::Deadline])[0].starts_with("Job work fails: "), "{:?}", forecast.troubles);
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "2"}}});
    let forecast = applied(vec![job(&json!({}), &json!({}))], vec![quota, deployment(2, &json!({}))]);
    assert!(matches!(forecast.others[0].outcome, OtherOutcome::Stuck { .. }), "{}", text(&forecast, None));
    assert!(forecast.failures(&[Failure::Quota])[0].starts_with("Job work: "), "{:?}", forecast.troubles);
    assert_eq!(forecast.failures(&[Failure::Quota]).len(), 1, "its controller retries, with other figures each time");
    let mut small = node("n1");
    small["status"]["allocatable"]["pods"] = json!("1");
    let forecast = applied(vec![job(&json!({}), &json!({"parallelism": 3}))], vec![small]);
    let failures = forecast.failures(&[Failure::Unschedulable]);
    assert!(failures.len() == 1 && failures[0].starts_with("no node fits a pod of Job work: "), "{failures:?}");
}

#[test]
fn the_pods_of_a_replication_controller_take_room_from_others() {
    let controller = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old", "namespace": "default"},
        "spec": {"replicas": 2, "template": {"metadata": {"labels": {"app": "old"}}, "spec": {"containers": [{"name": "main", "image": "old:1"}]}}}});
    let forecast = applied(vec![controller.clone()], Vec::new());
    let old = &forecast.others[0];
    assert_eq!((old.kind, old.created, old.pods.value), ("ReplicationController", 2, 2), "{}", text(&forecast, None));
    assert!(matches!(old.outcome, OtherOutcome::Available { after } if after.as_secs() == 5), "{}", text(&forecast, None));
    let mut small = node("n1");
    small["status"]["allocatable"]["pods"] = json!("3");
    let both = applied(vec![controller, deployment(2, &json!({}))], vec![small]);
    assert!(!both.failures(&[Failure::Unschedulable]).is_empty(), "{}", text(&both, None));
}

#[test]
fn a_partition_keeps_pods_below_it() {
    let set = stateful_set(3, &json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}));
    let forecast = forecast_change(vec![set], &edit(WorkloadKind::StatefulSet, new_image()));
    assert_eq!((victims(&forecast).lines().count(), complete(&forecast).0), (1, 25), "{}", victims(&forecast));
    assert!(victims(&forecast).contains("web-2"));
}

#[test]
fn a_pod_counts_as_available_after_min_ready_seconds_and_each_goes_by_a_rule() {
    let mut web = deployment(3, &rolling(1, 0, "TerminationStarted"));
    web["spec"]["minReadySeconds"] = json!(7);
    let forecast = forecast_change(vec![web], &edit(WorkloadKind::Deployment, new_image()));
    assert_eq!(complete(&forecast), (36, 56), "three times 5 s to start and 7 s more, then 20 s to stop");
    let workload = &forecast.workloads[0];
    let ready: u32 = workload.lanes.iter().flat_map(|lane| lane.revisions.values().map(|counts| counts.ready)).max().unwrap_or(0);
    assert_eq!((ready, workload.available.value), (1, 3));
    let gone = workload.steps.iter().filter_map(|step| match &step.kind {
        StepKind::DeletePods { pods, .. } => Some(pods),
        _ => None,
    });
    let rules: Vec<&str> = gone.flatten().map(|victim| victim.rule.as_str()).collect();
    assert!(rules.len() == 3 && rules.iter().all(|rule| !rule.is_empty()), "{rules:?}");
}

#[test]
fn a_forecast_reports_a_budget_that_a_rollout_ignores() {
    let budget = |least: u32| {
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all", "namespace": "default"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}}})
    };
    let forecast_change = |least| {
        forecast_change(
            vec![budget(least), deployment(3, &rolling(0, 1, "TerminationStarted"))],
            &edit(WorkloadKind::Deployment, new_image()),
        )
    };
    let failures = forecast_change(3).failures(&[Failure::Unavailable]);
    assert_eq!(failures, ["budget all has 2 healthy pods instead of 3: rollouts ignore budgets"]);
    assert_eq!(forecast_change(2).failures(&[Failure::Unavailable]), [] as [&str; 0]);
}

#[test]
fn a_forecast_names_what_its_files_lack() {
    let forecast = |objects: Vec<Value>| {
        let suppositions = Suppositions { controllers: Some(Controllers::Berth), ..suppositions(5, 20) };
        forecast(&Snapshot::of_documents(objects), &edit(WorkloadKind::Deployment, new_image()), &suppositions).expect("a forecast")
    };
    let objects = cluster(1, vec![pod("a", ready("2026-03-01T10:00:04Z"))]);
    let partial = forecast(objects.clone());
    assert!(partial.is_partial() && partial.nodes.is_empty());
    assert!(text(&partial, None).contains("PARTIAL: the file contains no nodes: assuming nodes with room for all pods."));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "n1"},
        "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}});
    let whole = forecast([objects, vec![node]].concat());
    assert!(!whole.is_partial() && !whole.nodes.is_empty(), "{:?}", whole.supposed.missing);
}

#[test]
fn a_change_of_nothing_does_nothing() {
    let forecast =
        forecast_change(vec![deployment(3, &json!({}))], &edit(WorkloadKind::Deployment, Edits { replicas: Some(3), ..Edits::default() }));
    assert_eq!((complete(&forecast), forecast.workloads[0].steps.len()), ((0, 0), 0));
}

#[test]
fn a_manifest_is_applied_and_a_new_workload_is_made() {
    let mut manifest = deployment(2, &json!({}));
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = json!("main:7");
    let change = Change { manifests: vec![manifest.clone()], ..Change::default() };
    let rolled = forecast_change(vec![deployment(2, &json!({}))], &change);
    assert!(rolled.workloads[0].steps.iter().any(|step| matches!(step.kind, StepKind::CreateSet { .. })));
    let new = forecast_change(Vec::new(), &change);
    assert_eq!((complete(&new), new.workloads[0].available.value, new.workloads[0].pods.value), ((5, 5), 0, 2));
    let change =
        Change { manifests: vec![json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}})], ..Change::default() };
    let error = forecast(&Snapshot::default(), &change, &Suppositions::default()).expect_err("nothing rolls out");
    assert_eq!(error.to_string(), "the change contains no Deployment, StatefulSet, DaemonSet, Job or ReplicationController");
}

#[test]
fn what_would_be_refused_or_is_not_there_is_an_error() {
    let forecast_change = |edits: Edits| {
        let snapshot = Snapshot::of_documents([deployment(2, &json!({}))]);
        forecast(&snapshot, &edit(WorkloadKind::Deployment, edits), &Suppositions::default()).expect_err("it cannot be").to_string()
    };
    assert_eq!(forecast_change(Edits { policy: Some("Whenever".to_owned()), ..Edits::default() }), "Deployment web would be rejected");
    let snapshot = Snapshot::of_documents([deployment(2, &json!({}))]);
    let error = forecast(&snapshot, &edit(WorkloadKind::StatefulSet, new_image()), &Suppositions::default()).expect_err("it is no set");
    assert_eq!(error.to_string(), "there is no StatefulSet web in namespace default");
}

#[test]
fn a_seed_decides_all_and_pods_take_as_long_as_others_did() {
    let snapshot = Snapshot::of_documents([deployment(6, &rolling(2, 1, "TerminationStarted"))]);
    let change = edit(WorkloadKind::Deployment, new_image());
    let json = |seed: u64| {
        let forecast = forecast(&snapshot, &change, &Suppositions { seed, ..suppositions(5, 20) }).expect("a forecast");
        serde_json::to_string(&forecast).expect("string keys")
    };
    assert_eq!(json(3), json(3));
    assert_ne!(json(3), json(4));
    let mut told = 0;
    let spread = forecast_many(&snapshot, &change, &suppositions(5, 20), 5, |_| told += 1).expect("forecasts");
    assert_eq!((spread.runs, spread.complete, told), (5, 5, 5));
    assert!(spread.p50 <= spread.p95 && Duration::from_secs(10) < spread.p50, "{spread:?}");
}

#[test]
fn policies_are_compared_side_by_side() {
    let snapshot = Snapshot::of_documents([deployment(4, &rolling(1, 1, "TerminationStarted"))]);
    let alternatives = compare(&snapshot, &edit(WorkloadKind::Deployment, new_image()), &suppositions(5, 20)).expect("forecasts");
    let told: Vec<(&str, u32)> = alternatives.iter().map(|one| (one.policy, one.forecast.workloads[0].pods.value)).collect();
    assert_eq!(told.iter().map(|(policy, _)| *policy).collect::<Vec<_>>(), ["TerminationStarted", "TerminationComplete", "Recreate"]);
    assert!(told[1].1 <= 5 && 5 < told[0].1, "{told:?}");
    let table = berth_plan::compared(&alternatives);
    assert_eq!(table.lines().count(), 4, "{table}");
}

#[test]
fn only_what_the_controllers_know_is_compared_and_each_kind_with_its_own() {
    let mut set = stateful_set(2, &json!({}));
    set["metadata"]["name"] = json!("db");
    let snapshot = Snapshot::of_documents([deployment(2, &json!({})), set]);
    let edit = |kind, name: &str| Edit { workload: WorkloadId::new(kind, "default", name), edits: new_image() };
    let change = Change { edits: vec![edit(WorkloadKind::Deployment, "web"), edit(WorkloadKind::StatefulSet, "db")], ..Change::default() };
    let rows = |controllers| -> Vec<String> {
        let suppositions = Suppositions { controllers: Some(controllers), ..suppositions(5, 20) };
        let alternatives = compare(&snapshot, &change, &suppositions).expect("forecasts");
        let charts = alternatives.iter().map(|alternative| alternative.charts(&change).len()).sum::<usize>();
        assert_eq!(charts, alternatives.len(), "a chart each");
        // Strategy and image are one write: under Recreate, no new pod is created before all old ones are deleted.
        let recreate =
            alternatives.iter().find(|one| (one.kind, one.policy) == (WorkloadKind::Deployment, "Recreate")).expect("it is known to both");
        let web = recreate.forecast.workloads.iter().find(|workload| *workload.workload.name == *"web").expect("it is changed");
        assert_eq!((web.pods.value, web.available.value), (2, 0), "{controllers:?}");
        berth_plan::compared(&alternatives)
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
            .collect()
    };
    let of_berth = [
        "deployment/web TerminationStarted",
        "deployment/web TerminationComplete",
        "deployment/web Recreate",
        "statefulset/db RollingUpdate",
    ];
    assert_eq!(rows(Controllers::Berth), [&of_berth[..], &["statefulset/db Recreate"]].concat());
    assert_eq!(rows(Controllers::Kubernetes), ["deployment/web RollingUpdate", "deployment/web Recreate", "statefulset/db RollingUpdate"]);
}

#[test]
fn what_a_server_answers_counts_in_place_of_the_change() {
    let objects = cluster(2, vec![pod("a", ready("2026-03-01T10:00:04Z")), pod("b", ready("2026-03-01T10:00:06Z"))]);
    let snapshot = Snapshot::of_documents(objects);
    let mut manifest = deployment(2, &rolling(1, 0, "TerminationComplete"));
    manifest["metadata"]["name"] = json!("new");
    let change = Change {
        manifests: vec![manifest],
        deployments: Edits { replicas: Some(3), ..Edits::default() },
        ..edit(WorkloadKind::Deployment, new_image())
    };
    let asked = writes(&snapshot, &change).expect("writes");
    let [made, changed] = &asked[..] else { panic!("{asked:?}") };
    let WriteBody::Create(object) = &made.what else { panic!("{made:?}") };
    assert_eq!((made.name.as_str(), &*made.resource.plural, &object["spec"]["replicas"]), ("new", "deployments", &json!(3)));
    assert!(object["metadata"]["uid"].is_null() && object["status"].is_null(), "{object}");
    let WriteBody::Patch(patch) = &changed.what else { panic!("{changed:?}") };
    assert_eq!((changed.namespace.as_deref(), &patch["spec"]["replicas"]), (Some("default"), &json!(3)));
    assert_eq!(patch["spec"]["template"]["spec"]["containers"][0]["image"], "main:2");

    // Admission of the server changes the size and adds a container.
    let mut answers = vec![snapshot.objects[0].clone(), object.clone()];
    answers[0]["spec"]["replicas"] = json!(5);
    answers[0]["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "main", "image": "main:2"}, {"name": "side", "image": "side:1"}]);
    let suppositions = Suppositions { controllers: Some(Controllers::Berth), ..suppositions(5, 20) };
    let forecast = forecast(&snapshot, &change.answered(answers), &suppositions).expect("a forecast");
    let sizes: Vec<(&str, i64)> = forecast.workloads.iter().map(|workload| (&*workload.workload.name, workload.replicas)).collect();
    assert_eq!(sizes, [("new", 3), ("web", 5)]);
}

#[test]
fn a_chart_shows_what_the_forecast_contains() {
    let change = edit(WorkloadKind::Deployment, new_image());
    let forecast = forecast_change(vec![deployment(3, &rolling(1, 0, "TerminationComplete"))], &change);
    let charts = charts(&forecast, &change);
    let [chart] = &charts[..] else { panic!("{charts:?}") };
    assert_eq!(chart.title, "Deployment default/web, 3 pods, RollingUpdate, TerminationComplete");
    assert_eq!(chart.note, "complete after 1m15.2s; at most 4 pods, including terminating pods, at least 3 available");
    assert_eq!((chart.wanted[0].pods, chart.bound[0].pods, chart.revisions.len()), (3, 4, 2));
    let marks: Vec<(u64, &str)> = chart.marks.iter().map(|mark| (mark.at.as_secs(), mark.text.as_str())).collect();
    assert_eq!(marks, [(0, "image main=main:2"), (75, "complete")]);
    // Three deleted pods and three new ones. The old revision is the first.
    let (old, new): (Vec<_>, Vec<_>) = chart.pods.iter().partition(|pod| pod.revision == 0);
    assert_eq!((old.len(), new.len()), (3, 3));
    assert!(
        old.iter().all(|pod| matches!(pod.states.last(), Some((_, None))))
            && new.iter().all(|pod| matches!(pod.states.last(), Some((_, Some(_)))))
    );
    let total = |sample: &berth_chart::Sample| {
        sample.counts.iter().map(|counts| counts.available + counts.starting + counts.pending + counts.terminating).sum::<u32>()
    };
    assert_eq!(chart.samples.iter().map(total).max(), Some(4));
    assert!(chart.samples.last().is_some_and(|last| last.counts[1].available == 3 && last.counts[0] == PodCounts::default()));
}

#[test]
fn pods_of_a_snapshot_keep_their_state() {
    let mut going = pod("going", ready("2026-03-01T10:00:04Z"));
    // Deleted at 10:10:00, 15 s before the snapshot, with a grace period of 45 s.
    going["metadata"]["deletionTimestamp"] = json!("2026-03-01T10:10:45Z");
    going["metadata"]["deletionGracePeriodSeconds"] = json!(45);
    let pods = vec![pod("a", ready("2026-03-01T10:00:04Z")), pod("b", ready("2026-03-01T10:00:06Z")), going];
    let mut snapshot = Snapshot::of_documents(cluster(2, pods));
    snapshot.at = "2026-03-01T10:10:15Z".parse().expect("a time");
    let suppositions =
        Suppositions { controllers: Some(Controllers::Berth), stop: Some(Duration::from_secs(40)), ..Suppositions::default() };
    let forecast = forecast(&snapshot, &edit(WorkloadKind::Deployment, new_image()), &suppositions).expect("a forecast");
    let web = &forecast.workloads[0];
    assert_eq!((web.start.typical.as_secs(), web.start.samples), (4, 3));
    assert_eq!((web.pods.value, web.available.value), (3, 2), "{}", text(&forecast, None));
    let first = web.steps.iter().find(|step| matches!(step.kind, StepKind::CreatePods { .. })).expect("pods come");
    assert!(
        first.at.abs_diff(Duration::from_secs(25)) < Duration::from_secs(1),
        "its place is free 40 s after it was told to go: {:?}",
        first.at
    );
}

#[test]
fn what_fails_in_a_snapshot_goes_on_failing() {
    let stuck = json!({"phase": "Pending", "startTime": "2026-03-01T10:00:00Z",
        "containerStatuses": [{"name": "main", "image": "main:1", "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]});
    let mut snapshot = Snapshot::of_documents(cluster(2, vec![pod("a", ready("2026-03-01T10:00:04Z")), pod("b", stuck)]));
    snapshot.at = "2026-03-01T10:10:00Z".parse().expect("a time");
    let suppositions = Suppositions { controllers: Some(Controllers::Berth), ..suppositions(5, 20) };
    let scaled = edit(WorkloadKind::Deployment, Edits { replicas: Some(3), ..Edits::default() });
    let forecast = forecast(&snapshot, &scaled, &suppositions).expect("a forecast");
    let Outcome::Stuck { why, .. } = &forecast.workloads[0].outcome else { panic!("{:?}", forecast.workloads[0].outcome) };
    assert!(why[0].contains("cannot pull"), "{why:?}");
}

/// The new template fails, because of its annotation.
#[test]
fn a_forecast_includes_an_automatic_rollback() {
    let mut old = deployment(3, &rolling(1, 0, "TerminationStarted"));
    old["metadata"]["annotations"] = json!({"berth.dev/auto-rollback": "OnDeadline"});
    old["spec"]["progressDeadlineSeconds"] = json!(60);
    let mut new = old.clone();
    new["spec"]["template"]["metadata"]["annotations"] = json!({"sim.berth.dev/fails": "ImagePullBackOff"});
    let change = Change { manifests: vec![new], ..Change::default() };
    let forecast = forecast_change(vec![old], &change);
    let told: Vec<&str> =
        forecast.troubles.iter().filter(|trouble| trouble.kind == TroubleKind::RolledBack).map(|trouble| trouble.text.as_str()).collect();
    assert!(told.len() == 1 && told[0].starts_with("web: Rolled back from revision 2,"), "{:?}", forecast.troubles);
    assert!(complete(&forecast).0 > 60, "{:?}", forecast.workloads[0].outcome);
    assert_eq!(forecast.failures(&[Failure::Deadline]).len(), 2, "{:?}", forecast.failures(&[Failure::Deadline]));
}
