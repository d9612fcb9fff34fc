//! Subtle rules of a forecast: which workload a problem belongs to, what counts when, and what is merged.

use crate::common::{
    cluster, edit, forecast_change, new_image, pod, ready, rolling,
    scenario::{deployment, stateful_set},
    suppositions,
};
use berth_api::FeatureGates;
use berth_plan::{
    Change, Controllers, Edit, Edits, Failure, Forecast, KnownGates, Outcome, RefusedPod, Snapshot, StepKind, Suppositions, TroubleKind,
    WriteBody, asked_pods, charts, compare, forecast, forecast_many, text, victims,
};
use berth_workloads::{
    pod_state::PodState,
    workload::{WorkloadId, WorkloadKind},
};
use serde_json::{Value, json};
use std::time::Duration;

fn applied(manifests: Vec<Value>) -> Change {
    Change { manifests, ..Change::default() }
}

fn named(name: &str, mut object: Value) -> Value {
    object["metadata"]["name"] = json!(name);
    object["spec"]["selector"]["matchLabels"] = json!({"app": name});
    object["spec"]["template"]["metadata"]["labels"] = json!({"app": name});
    object
}

fn with_image(image: &str, mut object: Value) -> Value {
    object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    object
}

fn asking(requests: &Value, mut object: Value) -> Value {
    object["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": requests});
    object
}

fn node(name: &str, cpu: &str, cordoned: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}, "spec": {"unschedulable": cordoned},
        "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "100"}, "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn quota(namespace: &str, name: &str, hard: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": namespace}, "spec": {"hard": hard}})
}

fn scaled(replicas: i32) -> Edits {
    Edits { replicas: Some(replicas), ..Edits::default() }
}

fn texts(forecast: &Forecast, kind: TroubleKind) -> Vec<&str> {
    forecast.troubles.iter().filter(|trouble| trouble.kind == kind).map(|trouble| trouble.text.as_str()).collect()
}

fn workload<'a>(forecast: &'a Forecast, name: &str) -> &'a berth_plan::WorkloadForecast {
    forecast.workloads.iter().find(|workload| *workload.workload.name == *name).expect("it is changed")
}

/// One template fails and is rolled back. The other Deployment is not affected.
#[test]
fn who_goes_back_is_the_one_whose_template_fails() {
    let deployments = |broken: bool, image: &str| {
        let mut web = named("web", deployment(2, &rolling(1, 0, "TerminationStarted")));
        web["metadata"]["annotations"] = json!({"berth.dev/auto-rollback": "OnDeadline"});
        web["spec"]["progressDeadlineSeconds"] = json!(60);
        if broken {
            web["spec"]["template"]["metadata"]["annotations"] = json!({"sim.berth.dev/fails": "ImagePullBackOff"});
        }
        vec![web, with_image(image, named("till", deployment(2, &rolling(1, 0, "TerminationStarted"))))]
    };
    let change = applied(deployments(true, "main:2"));
    let forecast = forecast_change(deployments(false, "main:1"), &change);
    let went_back: Vec<(&str, bool)> = forecast.workloads.iter().map(|workload| (&*workload.workload.name, workload.rolled_back)).collect();
    assert_eq!(went_back, [("web", true), ("till", false)]);
    let about: Vec<Option<&str>> = forecast.troubles.iter().map(|trouble| trouble.about.as_ref().map(|about| &*about.name)).collect();
    assert!(about.len() >= 2 && about.iter().all(|name| *name == Some("web")), "{:?}", forecast.troubles);
    assert_eq!(texts(&forecast, TroubleKind::Deadline), ["Deployment web exceeds its progress deadline of 60 s"]);
    assert!(
        text(&forecast, None).contains("default/web, 2 pods: rolls back to its previous template, complete after"),
        "{}",
        text(&forecast, None)
    );
    // The total ends with the last workload.
    let Outcome::Complete { settled_after, .. } = workload(&forecast, "web").outcome else { panic!("{}", text(&forecast, None)) };
    assert!(forecast.total == settled_after && workload(&forecast, "till").outcome.ends() < settled_after);
    // Its problems are only on its own chart.
    let marked = |name: &str| {
        let charts = charts(&forecast, &change);
        let chart = charts.iter().find(|chart| chart.title.contains(&format!("/{name},"))).expect("one each");
        chart.marks.iter().filter(|mark| mark.kind == berth_chart::MarkKind::Trouble).count()
    };
    assert_eq!((marked("web"), marked("till")), (forecast.troubles.len(), 0));
}

#[test]
fn a_failed_rollout_without_a_former_revision_is_not_rolled_back() {
    let mut web = deployment(2, &rolling(1, 0, "TerminationStarted"));
    web["metadata"]["annotations"] = json!({"berth.dev/auto-rollback": "OnDeadline"});
    web["spec"]["progressDeadlineSeconds"] = json!(60);
    web["spec"]["template"]["metadata"]["annotations"] = json!({"sim.berth.dev/fails": "ImagePullBackOff"});
    let forecast = forecast_change(Vec::new(), &applied(vec![web]));
    assert!(!forecast.workloads[0].rolled_back && matches!(forecast.workloads[0].outcome, Outcome::Stuck { .. }));
    let never = texts(&forecast, TroubleKind::Never);
    assert!(never.iter().any(|text| text.starts_with("web: ")) && never.iter().any(|text| text.contains("never completes")), "{never:?}");
    let order: Vec<Duration> = forecast.troubles.iter().map(|trouble| trouble.at).collect();
    assert!(order.is_sorted(), "{:?}", forecast.troubles);
    assert!(forecast.troubles.iter().all(|trouble| trouble.about.is_some()), "{:?}", forecast.troubles);
}

#[test]
fn fewer_pods_than_the_strategy_promises_are_no_trouble_where_there_were_no_more_before() {
    let forecast = forecast_change(vec![deployment(3, &rolling(1, 0, "TerminationStarted"))], &edit(WorkloadKind::Deployment, scaled(5)));
    assert_eq!((forecast.workloads[0].available.value, forecast.workloads[0].least), (3, Some(5)));
    assert!(forecast.troubles.is_empty() && forecast.failures(&[Failure::Unavailable]).is_empty(), "{:?}", forecast.troubles);
}

#[test]
fn each_refusal_has_its_kind_and_no_generated_name() {
    // The pods request no resources, so a quota that was created later rejects further ones.
    let pods = || vec![pod("a", ready("2026-03-01T10:00:04Z"))];
    let objects = [vec![quota("default", "cpus", &json!({"requests.cpu": "9"}))], cluster(1, pods())].concat();
    let nothing_asked = forecast_change(objects, &edit(WorkloadKind::Deployment, scaled(2)));
    let [trouble] = &texts(&nothing_asked, TroubleKind::Quota)[..] else { panic!("{:?}", nothing_asked.troubles) };
    assert!(trouble.contains(": a pod is forbidden: failed quota: cpus: must specify requests.cpu"), "{trouble}");

    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "uid": "ns",
        "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}, "status": {"phase": "Active"}, "spec": {"finalizers": ["kubernetes"]}});
    let objects = [vec![namespace], cluster(1, pods())].concat();
    let refused = forecast_change(objects, &edit(WorkloadKind::Deployment, scaled(3)));
    let [trouble] = &texts(&refused, TroubleKind::Refused)[..] else { panic!("{:?}", refused.troubles) };
    assert!(trouble.contains("a pod is forbidden: violates PodSecurity"), "{trouble}");
    assert_eq!((refused.failures(&[Failure::Quota]).len(), refused.failures(&[Failure::Refused]).len()), (0, 1), "{:?}", refused.troubles);
    assert_eq!(refused.failures(&[Failure::Deadline]).len(), 1, "it never completes; a new size has no deadline: {:?}", refused.troubles);
}

#[test]
fn a_trouble_is_reported_once_for_each_workload_whatever_its_figures() {
    let tight = quota("default", "few", &json!({"pods": "5"}));
    let both = |image: &str| {
        ["web", "till"].map(|name| with_image(image, named(name, deployment(2, &rolling(2, 0, "TerminationStarted"))))).to_vec()
    };
    let change = applied(both("main:2"));
    let forecast = forecast_change([vec![tight], both("main:1")].concat(), &change);
    let refused = texts(&forecast, TroubleKind::Quota);
    assert_eq!(refused.len(), 2, "{refused:?}");
    let about: Vec<&str> =
        forecast.troubles.iter().filter(|t| t.kind == TroubleKind::Quota).filter_map(|t| Some(&*t.about.as_ref()?.name)).collect();
    assert!(about.contains(&"web") && about.contains(&"till"), "{about:?}");
    // A problem with a quota is marked for all workloads that share it.
    let marked = |at: usize| charts(&forecast, &change)[at].marks.iter().filter(|mark| mark.text.contains("exceeded quota")).count();
    assert_eq!([marked(0), marked(1)], [2, 2]);
}

#[test]
fn quotas_and_budgets_of_other_namespaces_are_not_reported() {
    let elsewhere = |object: Value| {
        let mut object = named("other", object);
        object["metadata"]["namespace"] = json!("elsewhere");
        object
    };
    let budget = |namespace: &str, name: &str, least: u32| {
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": namespace},
            "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}}})
    };
    let objects = vec![
        quota("default", "own", &json!({"pods": "50"})),
        quota("elsewhere", "others", &json!({"pods": "50"})),
        // It has fewer pods than it requires from the beginning.
        budget("default", "wishes", 9),
        budget("elsewhere", "others", 9),
        deployment(3, &rolling(0, 1, "TerminationStarted")),
        elsewhere(deployment(1, &json!({}))),
    ];
    let forecast = forecast_change(objects, &edit(WorkloadKind::Deployment, new_image()));
    let quotas: Vec<(&str, &str, &str)> =
        forecast.quotas.iter().map(|quota| (quota.name.as_str(), quota.used.as_str(), quota.hard.as_str())).collect();
    assert_eq!(quotas, [("own", "6", "50")], "all three that go and all three that come");
    assert!(forecast.troubles.is_empty(), "{:?}", forecast.troubles);
}

#[test]
fn a_budget_is_reported_when_it_first_has_fewer_pods_than_before() {
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all", "namespace": "default"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}});
    let forecast =
        forecast_change(vec![budget, deployment(3, &rolling(0, 1, "TerminationComplete"))], &edit(WorkloadKind::Deployment, new_image()));
    let [trouble] = &forecast.troubles[..] else { panic!("{:?}", forecast.troubles) };
    assert!(trouble.at < Duration::from_secs(1) && trouble.about.is_none(), "when it first has fewer: {trouble:?}");
}

#[test]
fn only_nodes_that_take_pods_have_room() {
    let web = || asking(&json!({"cpu": "500m"}), deployment(2, &rolling(1, 0, "TerminationStarted")));
    let room = |nodes: Vec<Value>| {
        let forecast = forecast_change([nodes, vec![web()]].concat(), &edit(WorkloadKind::Deployment, new_image()));
        forecast.nodes.iter().find(|room| room.resource == "cpu").map(|room| (room.allocatable, room.least_free.value))
    };
    // Both rollouts at their maximum: two terminating and two new pods.
    assert_eq!(room(vec![node("n1", "4", false), node("n2", "8", true)]), Some((4000, 2000)));
    assert_eq!(room(vec![node("n1", "4", false), node("n2", "8", false)]), Some((12_000, 10_000)));
    assert_eq!(room(Vec::new()), None, "where nodes are supposed nothing is known of their room");
}

/// An evicted pod still exists as an object, but uses no resources.
#[test]
fn what_has_ended_holds_nothing() {
    let mut objects =
        cluster(1, vec![pod("a", ready("2026-03-01T10:00:04Z")), pod("evicted", json!({"phase": "Failed", "reason": "Evicted"}))]);
    for object in objects.iter_mut().filter(|object| object["kind"] == "Pod") {
        object["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    }
    let objects = [
        vec![node("n1", "4", false)],
        objects.into_iter().map(|object| if object["kind"] == "Pod" { object } else { asking(&json!({"cpu": "1"}), object) }).collect(),
    ]
    .concat();
    let forecast = forecast_change(objects, &edit(WorkloadKind::Deployment, scaled(2)));
    let cpu = forecast.nodes.iter().find(|room| room.resource == "cpu").expect("pods ask for it");
    assert_eq!((cpu.allocatable, cpu.least_free.value), (4000, 2000), "two of four are held");
    let held = forecast.workloads[0].resources["cpu"];
    assert_eq!((held.value, forecast.workloads[0].pods.value), (2000, 2));
}

#[test]
fn what_happens_together_and_is_of_one_owner_is_one_step() {
    let both = |image: &str| with_image(image, deployment(8, &rolling(2, 2, "TerminationStarted")));
    let forecast = forecast_change(vec![both("main:1")], &applied(vec![both("main:2")]));
    let first: Vec<(&StepKind, bool)> = forecast.workloads[0]
        .steps
        .iter()
        .map(|step| (&step.kind, step.at < Duration::from_millis(500)))
        .take_while(|(_, early)| *early)
        .collect();
    let created: Vec<u32> =
        first.iter().filter_map(|(kind, _)| if let StepKind::CreatePods { count, .. } = kind { Some(*count) } else { None }).collect();
    let gone: Vec<usize> =
        first.iter().filter_map(|(kind, _)| if let StepKind::DeletePods { pods, .. } = kind { Some(pods.len()) } else { None }).collect();
    assert_eq!((created, gone), (vec![4], vec![2]), "{first:?}");
    assert!(forecast.workloads[0].steps.iter().all(|step| !matches!(&step.kind, StepKind::CreatePods { names, .. } if !names.is_empty())));
}

#[test]
fn creations_and_deletions_of_two_sets_are_two_steps() {
    // Two sets in the middle of a rollout: a smaller size shrinks both, and a larger one grows both.
    let mut objects = cluster(4, (0..4).map(|number| pod(&format!("a{number}"), ready("2026-03-01T10:00:04Z"))).collect());
    let mut second = objects[1].clone();
    second["metadata"]["name"] = json!("web-2");
    second["metadata"]["uid"] = json!("set-2");
    second["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "2", "deployment.kubernetes.io/desired-replicas": "8", "deployment.kubernetes.io/max-replicas": "9"});
    for labels in ["/metadata/labels", "/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        *second.pointer_mut(labels).expect("it has them") = json!({"app": "web", "pod-template-hash": "2"});
    }
    second["spec"]["template"]["spec"]["containers"][0]["image"] = json!("main:2");
    objects[1]["metadata"]["annotations"] = second["metadata"]["annotations"].clone();
    let pods = (0..4).map(|number| {
        let mut pod = pod(&format!("b{number}"), ready("2026-03-01T10:00:05Z"));
        pod["metadata"]["labels"] = json!({"app": "web", "pod-template-hash": "2"});
        pod["metadata"]["ownerReferences"][0]["name"] = json!("web-2");
        pod["metadata"]["ownerReferences"][0]["uid"] = json!("set-2");
        pod["spec"]["containers"][0]["image"] = json!("main:2");
        pod
    });
    objects[0]["spec"]["replicas"] = json!(8);
    objects[0]["spec"]["paused"] = json!(true);
    objects[0]["spec"]["template"]["spec"]["containers"][0]["image"] = json!("main:2");
    let objects = [objects, vec![second], pods.collect()].concat();
    let owners = |replicas: i32| {
        let forecast = forecast_change(objects.clone(), &edit(WorkloadKind::Deployment, scaled(replicas)));
        let owner = |kind: &StepKind| match kind {
            StepKind::CreatePods { owner, .. } | StepKind::DeletePods { owner, .. } => Some(owner.clone()),
            _ => None,
        };
        let mut owners: Vec<String> = forecast.workloads[0].steps.iter().filter_map(|step| owner(&step.kind)).collect();
        owners.sort();
        assert!(matches!(forecast.workloads[0].outcome, Outcome::Held { .. }), "{}", text(&forecast, None));
        owners
    };
    assert_eq!(owners(4), ["web-1", "web-2"]);
    assert_eq!(owners(20), ["web-1", "web-2"]);
}

#[test]
fn a_set_that_is_cleaned_away_is_a_step() {
    let web = |image: &str| with_image(image, deployment(1, &json!({"revisionHistoryLimit": 0})));
    let forecast = forecast_change(vec![web("main:1")], &applied(vec![web("main:2")]));
    let last = forecast.workloads[0].steps.last().expect("some");
    assert!(matches!(last.kind, StepKind::DeleteSet { .. }), "{:?}", forecast.workloads[0].steps);
    let output = text(&forecast, None);
    assert!(output.contains("  delete ReplicaSet web-") && output.contains(": revision 1 is beyond revisionHistoryLimit"), "{output}");
}

#[test]
fn a_pod_is_available_at_the_moment_when_its_time_is_over() {
    let mut web = deployment(1, &rolling(1, 0, "TerminationStarted"));
    web["spec"]["minReadySeconds"] = json!(1200);
    web["spec"]["progressDeadlineSeconds"] = json!(1201);
    let forecast = forecast_change(vec![web], &edit(WorkloadKind::Deployment, new_image()));
    let workload = &forecast.workloads[0];
    let ready = workload.lives.iter().flat_map(|life| &life.states).filter(|state| state.is == PodState::Ready).map(|state| state.at).max();
    let available =
        workload.lives.iter().flat_map(|life| &life.states).filter(|state| state.is == PodState::Available).map(|state| state.at).max();
    let apart = available.expect("it is") - ready.expect("it is");
    assert!(apart.abs_diff(Duration::from_secs(1200)) <= Duration::from_secs(1), "{apart:?}: the times of conditions are whole seconds");
    assert!(
        matches!(workload.outcome, Outcome::Complete { .. }),
        "it is longer than anything may stand still else: {}",
        text(&forecast, None)
    );
}

#[test]
fn a_rollout_may_pause_as_long_as_its_step_lasts_or_its_pods_take() {
    let mut old = deployment(2, &rolling(1, 0, "TerminationStarted"));
    old["metadata"]["annotations"] = json!({"berth.dev/steps": "50%, 3h, 100%"});
    let new = with_image("main:2", old.clone());
    let forecast = forecast_change(vec![old], &applied(vec![new]));
    let Outcome::Complete { after, .. } = forecast.workloads[0].outcome else { panic!("{}", text(&forecast, None)) };
    assert!((10_800..10_830).contains(&after.as_secs()), "{after:?}");
    let slow = Suppositions { start: Some(Duration::from_secs(5)), stop: Some(Duration::from_secs(9000)), ..Suppositions::default() };
    let mut web = deployment(1, &rolling(0, 1, "TerminationComplete"));
    web["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(9000);
    let forecast = forecast_of(vec![web], &edit(WorkloadKind::Deployment, new_image()), &slow);
    assert!(matches!(forecast.workloads[0].outcome, Outcome::Complete { .. }), "{}", text(&forecast, None));
    // A deadline of days is not awaited.
    let mut web = deployment(1, &rolling(1, 0, "TerminationStarted"));
    web["spec"]["progressDeadlineSeconds"] = json!(5 * 86_400);
    let mut broken = web.clone();
    broken["spec"]["template"]["metadata"]["annotations"] = json!({"sim.berth.dev/fails": "ImagePullBackOff"});
    let forecast = forecast_change(vec![web], &applied(vec![broken]));
    assert!(matches!(forecast.workloads[0].outcome, Outcome::Stuck { .. }));
    assert_eq!(texts(&forecast, TroubleKind::Deadline), [] as [&str; 0]);
}

fn forecast_of(objects: Vec<Value>, change: &Change, suppositions: &Suppositions) -> Forecast {
    forecast(&Snapshot::of_documents(objects), change, suppositions).expect("a forecast")
}

#[test]
fn the_reason_of_a_size_counts_terminating_pods_as_the_policy_does() {
    let reasons = |policy: &str, controllers: Controllers| {
        let suppositions = Suppositions { controllers: Some(controllers), ..suppositions(5, 20) };
        let forecast =
            forecast_of(vec![deployment(3, &rolling(1, 0, policy))], &edit(WorkloadKind::Deployment, new_image()), &suppositions);
        let grown = forecast.workloads[0].steps.iter().find(|step| matches!(step.kind, StepKind::Resize { from, to, .. } if from < to));
        (grown.expect("it grows").reason.clone(), forecast.workloads[0].policy.clone())
    };
    let (reason, policy) = reasons("TerminationComplete", Controllers::Berth);
    assert_eq!(
        (reason.as_str(), policy.as_str()),
        ("3 pods count, including terminating pods; limit 4", "RollingUpdate, TerminationComplete")
    );
    let (reason, policy) = reasons("TerminationStarted", Controllers::Berth);
    assert_eq!(
        (reason.as_str(), policy.as_str()),
        ("3 pods count, without terminating pods; limit 4", "RollingUpdate, TerminationStarted")
    );
    let (reason, policy) = reasons("TerminationComplete", Controllers::Kubernetes);
    assert_eq!(
        (reason.as_str(), policy.as_str()),
        ("3 pods count, without terminating pods; limit 4", "RollingUpdate, its podReplacementPolicy has no effect")
    );
}

#[test]
fn a_strategy_without_bounds_promises_none() {
    let web = deployment(2, &json!({"strategy": {"type": "Recreate"}}));
    let forecast = forecast_change(vec![web], &edit(WorkloadKind::Deployment, new_image()));
    assert_eq!((forecast.workloads[0].most, forecast.workloads[0].least), (None, None));
    assert_eq!(forecast.failures(&[Failure::Bound, Failure::Unavailable]), [] as [&str; 0]);
}

#[test]
fn all_containers_of_a_name_get_the_image_and_a_star_is_each() {
    let mut web = deployment(1, &json!({}));
    web["spec"]["template"]["spec"]["initContainers"] = json!([{"name": "prepare", "image": "prepare:1"}]);
    let of = |container: &str| {
        let edits = Edits { images: vec![(container.to_owned(), "x:2".to_owned())], ..Edits::default() };
        berth_plan::writes(&Snapshot::of_documents([web.clone()]), &edit(WorkloadKind::Deployment, edits)).map(|writes| writes.len())
    };
    // The snapshot contains only manifests, so an edit finds no workload.
    assert!(of("prepare").is_err());
    let mut objects = cluster(1, vec![pod("a", ready("2026-03-01T10:00:04Z"))]);
    objects[0]["spec"]["template"]["spec"]["initContainers"] = json!([{"name": "prepare", "image": "prepare:1"}]);
    let images = |container: &str| -> Vec<String> {
        let edits = Edits { images: vec![(container.to_owned(), "x:2".to_owned())], ..Edits::default() };
        let writes = berth_plan::writes(&Snapshot::of_documents(objects.clone()), &edit(WorkloadKind::Deployment, edits)).expect("a write");
        let WriteBody::Patch(patch) = &writes[0].what else { panic!("{writes:?}") };
        let spec = &patch["spec"]["template"]["spec"];
        ["initContainers", "containers"].iter().filter_map(|list| Some(spec[*list][0]["image"].as_str()?.to_owned())).collect()
    };
    assert_eq!(
        (images("prepare"), images("main"), images("*")),
        (vec!["x:2".to_owned()], vec!["x:2".to_owned()], vec!["x:2".to_owned(); 2])
    );
}

#[test]
fn runs_are_summed_up_over_all() {
    // Each pod of the snapshot took another time. A new pod takes the time of a random one.
    let pods: Vec<Value> =
        (1..=6).map(|number| pod(&format!("p{number}"), ready(&format!("2026-03-01T10:00:{:02}Z", number * 9)))).collect();
    let mut objects = cluster(6, pods);
    objects[0]["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 3, "maxUnavailable": 3});
    objects[0]["spec"]["podReplacementPolicy"] = json!("TerminationStarted");
    let snapshot = Snapshot::of_documents(objects);
    let change = edit(WorkloadKind::Deployment, new_image());
    let supposed = |seed: u64| Suppositions {
        seed,
        controllers: Some(Controllers::Berth),
        stop: Some(Duration::from_secs(20)),
        ..Suppositions::default()
    };
    let runs: Vec<Forecast> = (1..=8).map(|seed| forecast(&snapshot, &change, &supposed(seed)).expect("a forecast")).collect();
    let spread = forecast_many(&snapshot, &change, &supposed(0), 8, |_| ()).expect("forecasts");
    let mut took: Vec<Duration> = runs.iter().map(|run| run.total).collect();
    took.sort();
    assert_eq!((spread.p50, spread.p95, spread.complete), (took[3], took[7], 8));
    assert_eq!(Some(spread.pods), runs.iter().map(|run| run.workloads[0].pods.value).max());
    assert_eq!(Some(spread.available), runs.iter().map(|run| run.workloads[0].available.value).min());
}

#[test]
fn a_run_that_never_completes_is_none_of_the_complete_ones() {
    let mut broken = deployment(1, &json!({}));
    broken["spec"]["template"]["metadata"]["annotations"] = json!({"sim.berth.dev/fails": "ImagePullBackOff"});
    let snapshot = Snapshot::of_documents([deployment(1, &json!({}))]);
    let spread = forecast_many(&snapshot, &applied(vec![broken]), &suppositions(5, 20), 2, |_| ()).expect("forecasts");
    assert_eq!((spread.runs, spread.complete, spread.p95), (2, 0, Duration::ZERO));
}

#[test]
fn pods_that_no_node_fits_are_reported_and_claims_without_a_known_volume_are_supposed_to_get_one() {
    // A node that only pods refer to accepts no more pods. A claim of the set gets a volume.
    let mut objects = cluster(1, vec![pod("a", ready("2026-03-01T10:00:04Z"))]);
    objects.push(node("n2", "1", false));
    objects[0] = asking(&json!({"cpu": "600m"}), objects[0].clone());
    let forecast = forecast_change(objects, &edit(WorkloadKind::Deployment, scaled(3)));
    let unplaced = texts(&forecast, TroubleKind::Unschedulable);
    assert!(
        unplaced.len() == 1 && unplaced[0].starts_with("no node fits a pod of web-"),
        "n1 is on no list of nodes: {:?}",
        forecast.troubles
    );
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}});
    let set = |class: Option<Value>| {
        let set = stateful_set(1, &json!({"volumeClaimTemplates": [claim]}));
        forecast_change(class.into_iter().chain([set]).collect(), &edit(WorkloadKind::StatefulSet, scaled(2)))
    };
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast", "uid": "fast"}, "provisioner": "ebs.example.com", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"});
    for class in [None, Some(class)] {
        let forecast = set(class);
        assert!(matches!(forecast.workloads[0].outcome, Outcome::Complete { .. }), "{}", text(&forecast, None));
    }
}

#[test]
fn pods_continue_to_fail_as_they_did_and_so_do_those_of_their_set() {
    let of = |status: Value| {
        let mut snapshot = Snapshot::of_documents(cluster(1, vec![pod("web-1-b", status)]));
        snapshot.at = "2026-03-01T10:30:00Z".parse().expect("a time");
        let suppositions = Suppositions { controllers: Some(Controllers::Berth), ..suppositions(5, 20) };
        let forecast = forecast(&snapshot, &edit(WorkloadKind::Deployment, scaled(2)), &suppositions).expect("a forecast");
        matches!(forecast.workloads[0].outcome, Outcome::Stuck { .. }).then(|| {
            forecast.workloads[0]
                .lanes
                .last()
                .map_or(0, |lane| lane.revisions.values().map(|counts| counts.starting + counts.failed).sum::<u32>())
        })
    };
    let waiting = |reason: &str| {
        json!({"phase": "Running", "startTime": "2026-03-01T10:00:00Z",
            "containerStatuses": [{"name": "main", "image": "main:1", "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": reason}}}]})
    };
    let unready = json!({"phase": "Running", "startTime": "2026-03-01T10:00:00Z",
        "containerStatuses": [{"name": "main", "image": "main:1", "imageID": "", "ready": false, "restartCount": 0, "state": {"running": {"startedAt": "2026-03-01T10:00:01Z"}}}]});
    // Neither it nor the new pod is ever ready for long. Their restarts are not progress.
    assert_eq!(of(waiting("CrashLoopBackOff")), Some(2));
    assert_eq!(of(waiting("CreateContainerConfigError")), Some(2));
    assert_eq!(of(unready), Some(2), "half an hour, where others take 5 s");
    assert_eq!(of(ready("2026-03-01T10:00:04Z")), None);
}

#[test]
fn one_pod_that_is_ready_shows_that_the_template_is_not_at_fault() {
    let stuck = json!({"phase": "Pending", "startTime": "2026-03-01T10:00:00Z",
        "containerStatuses": [{"name": "main", "image": "main:1", "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "CreateContainerConfigError"}}}]});
    let mut snapshot = Snapshot::of_documents(cluster(2, vec![pod("web-1-a", ready("2026-03-01T10:00:04Z")), pod("web-1-b", stuck)]));
    snapshot.at = "2026-03-01T10:30:00Z".parse().expect("a time");
    let suppositions = Suppositions { controllers: Some(Controllers::Berth), ..suppositions(5, 20) };
    let forecast = forecast(&snapshot, &edit(WorkloadKind::Deployment, scaled(3)), &suppositions).expect("a forecast");
    let last = forecast.workloads[0].lanes.last().expect("some").revisions["web-1"];
    assert_eq!((last.available, last.starting), (2, 1), "the one that comes is well, the other stays as it is");
}

#[test]
fn waits_end_and_short_ones_and_long_lists_are_not_all_shown() {
    let forecast =
        forecast_change(vec![deployment(20, &rolling(1, 0, "TerminationComplete"))], &edit(WorkloadKind::Deployment, new_image()));
    let web = &forecast.workloads[0];
    assert!(web.waits.iter().all(|wait| wait.until.is_some_and(|until| wait.from <= until)), "{:?}", web.waits);
    assert!(web.waits.iter().all(|wait| wait.reason != "child_not_observed"), "{:?}", web.waits);
    let output = text(&forecast, None);
    let lines = output.lines().filter(|line| line.starts_with("   ") && line.contains("s  ")).count();
    assert!(output.contains(" more; -o json prints all\n") && lines <= 45, "{lines} {output}");
    let short = web.waits.iter().filter(|wait| wait.until.is_some_and(|until| until <= wait.from + Duration::from_millis(100))).count();
    let shown = forecast_change(vec![deployment(3, &rolling(1, 1, "TerminationComplete"))], &edit(WorkloadKind::Deployment, new_image()));
    let output = text(&shown, None);
    assert!(!output.contains("(0s)") && !output.contains("(0.1s)"), "{short} {output}");
}

#[test]
fn policies_other_than_rolling_have_no_figures_left() {
    let snapshot = Snapshot::of_documents([deployment(2, &rolling(1, 1, "TerminationStarted"))]);
    let alternatives =
        compare(&snapshot, &edit(WorkloadKind::Deployment, new_image()), &suppositions(5, 20)).expect("Recreate has no rollingUpdate");
    assert_eq!(alternatives.last().map(|last| (last.policy, last.forecast.workloads[0].most)), Some(("Recreate", None)));
}

#[test]
fn two_edits_of_one_object_are_one_change() {
    let first = Edit { workload: WorkloadId::new(WorkloadKind::Deployment, "default", "web"), edits: scaled(4) };
    let second = Edit { edits: new_image(), ..first.clone() };
    let change = Change {
        edits: vec![first, second],
        manifests: vec![json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}})],
        ..Change::default()
    };
    let forecast = forecast_change(vec![deployment(2, &rolling(1, 0, "TerminationComplete"))], &change);
    assert_eq!((forecast.workloads.len(), forecast.workloads[0].replicas), (1, 4));
    let writes = berth_plan::writes(&Snapshot::of_documents(cluster(2, Vec::new())), &change).expect("writes");
    assert_eq!(writes.len(), 1, "{writes:?}");
}

/// They do not support berth's annotations, so no step holds them.
#[test]
fn kubernetes_controllers_honor_none_of_berths_annotations() {
    let is_complete = |controllers: Controllers| {
        let mut web = deployment(4, &rolling(1, 0, "TerminationStarted"));
        web["metadata"]["annotations"]["berth.dev/steps"] = json!("25%, pause, 100%");
        let suppositions = Suppositions { controllers: Some(controllers), ..suppositions(5, 20) };
        let forecast = forecast_of(vec![web], &edit(WorkloadKind::Deployment, new_image()), &suppositions);
        matches!(forecast.workloads[0].outcome, Outcome::Complete { .. })
    };
    assert_eq!([Controllers::Kubernetes, Controllers::Berth].map(is_complete), [true, false]);
}

/// With the policy's gate off, new pods do not wait for terminating ones. With the gate of deletion costs off, the cost of a pod does not
/// matter.
#[test]
fn the_gates_of_the_controllers_count() {
    let most_pods = |gates: &str| {
        let gates = KnownGates { controllers: FeatureGates::parse(gates).expect("gates"), ..KnownGates::default() };
        let suppositions = Suppositions { controllers: Some(Controllers::Berth), gates, ..suppositions(5, 20) };
        let web = deployment(4, &rolling(0, 4, "TerminationComplete"));
        let forecast = forecast_of(vec![web], &edit(WorkloadKind::Deployment, new_image()), &suppositions);
        (
            forecast.workloads[0].pods.value,
            text(&forecast, None).contains("feature gates DeploymentPodReplacementPolicy=false of the controllers"),
        )
    };
    assert_eq!([most_pods(""), most_pods("DeploymentPodReplacementPolicy=false")], [(4, false), (8, true)]);
    let rules = |gates: &str| {
        let gates = KnownGates { controllers: FeatureGates::parse(gates).expect("gates"), ..KnownGates::default() };
        let suppositions = Suppositions { controllers: Some(Controllers::Berth), gates, ..suppositions(5, 20) };
        let status = || json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T10:00:05Z"}]});
        let mut costly = pod("web-1-a", status());
        costly["metadata"]["annotations"] = json!({"controller.kubernetes.io/pod-deletion-cost": "5"});
        let edits = Edits { replicas: Some(1), ..Edits::default() };
        let objects = cluster(2, vec![costly, pod("web-1-b", status())]);
        victims(&forecast_of(objects, &edit(WorkloadKind::Deployment, edits), &suppositions))
    };
    assert!(rules("").contains("cost") && !rules("PodDeletionCost=false").contains("cost"), "{}", rules("PodDeletionCost=false"));
}

/// The server's answer about one pod of the new template applies to all of them, and to no pod of the former template.
#[test]
fn pods_that_the_server_refuses_are_refused() {
    let status =
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T10:00:05Z"}]});
    let objects = || cluster(2, vec![pod("web-1-a", status.clone()), pod("web-1-b", status.clone())]);
    let change = edit(WorkloadKind::Deployment, new_image());
    let message = "pods \"web-x\" is forbidden: ValidatingAdmissionPolicy 'tags' with binding 'tags' denied request: no";
    let asked = asked_pods(&Snapshot::of_documents(objects()), &change).expect("pods");
    let WriteBody::Create(asked_for) = &asked[0].write.what else { panic!("{asked:?}") };
    assert_eq!((asked.len(), &asked_for["spec"]["containers"][0]["image"]), (1, &json!("main:2")));
    let refused = asked.into_iter().map(|pod| RefusedPod { pod, message: message.to_owned() }).collect();
    let supposed = Suppositions { controllers: Some(Controllers::Berth), refused, ..suppositions(5, 20) };
    let forecast = forecast_of(objects(), &change, &supposed);
    let Outcome::Stuck { why, .. } = &forecast.workloads[0].outcome else { panic!("{}", text(&forecast, None)) };
    assert!(why[0].contains("denied request: no"), "{why:?}");
    assert!(forecast.troubles.iter().any(|trouble| trouble.kind == TroubleKind::Refused), "{:?}", forecast.troubles);
    let scaled = edit(WorkloadKind::Deployment, Edits { replicas: Some(3), ..Edits::default() });
    let is_complete = |change: &Change| matches!(forecast_of(objects(), change, &supposed).workloads[0].outcome, Outcome::Complete { .. });
    assert!(is_complete(&scaled), "the template before was not asked about");
}

/// Every outcome other than success has a reason.
#[test]
fn nothing_is_stuck_without_a_reason() {
    let mut objects = cluster(2, Vec::new());
    objects[0]["metadata"]["deletionTimestamp"] = json!("2026-03-01T10:10:00Z");
    objects[0]["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    let forecast = forecast_change(objects, &edit(WorkloadKind::Deployment, new_image()));
    let Outcome::Stuck { why, .. } = &forecast.workloads[0].outcome else { panic!("{}", text(&forecast, None)) };
    assert!(why.iter().any(|why| why.contains("is being deleted")), "{why:?}");
}

/// A quota can reject the ReplicaSet itself.
#[test]
fn a_replica_set_that_a_quota_refuses_is_a_trouble_of_the_quota() {
    let hard = json!({"count/replicasets.apps": "1"});
    let quota =
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": hard}});
    let forecast = forecast_change(vec![quota, deployment(2, &json!({}))], &edit(WorkloadKind::Deployment, new_image()));
    let Outcome::Stuck { why, .. } = &forecast.workloads[0].outcome else { panic!("{}", text(&forecast, None)) };
    assert!(why[0].contains("exceeded quota: few"), "{why:?}");
    assert_eq!(forecast.failures(&[Failure::Quota]).len(), 1, "{:?}", forecast.troubles);
}
