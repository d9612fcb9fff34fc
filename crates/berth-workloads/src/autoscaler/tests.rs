//! Vectors of upstream's documented algorithm, sequences of reconciles, and what holds for any metrics.

use super::*;
use crate::{
    plan::{Action, Plan, Severity, Subresource, Wait},
    read_back::read_back,
    second_writer::{SecondWriter, Wrote},
    selector::Labels,
    view::{PodPhase, View},
};
use berth_identity::Revision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

const NOW: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW + seconds).expect("a time")
}

/// A pod of this sort with its CPU usage (negative: no sample) and request in thousandths. A pod is ready for an hour unless its sort differs.
fn pod(index: usize, (sort, usage, request): (&str, i64, i64)) -> PodSample {
    let ready = |status: &str, since: i64| Some(ReadyCondition { status: status.to_owned(), since: Some(at(since)) });
    let amounts = |amount: i64| ContainerSample { name: "main".to_owned(), amounts: [("cpu".to_owned(), amount)].into() };
    let (phase, start, ready) = match sort {
        "pending" => (PodPhase::Pending, None, ready("False", -3600)),
        "failed" => (PodPhase::Failed, Some(-3600), ready("False", -3600)),
        "starting" => (PodPhase::Running, Some(-60), ready("True", -10)),
        "started" => (PodPhase::Running, Some(-60), ready("True", -15)),
        "never ready" => (PodPhase::Running, Some(-3600), ready("False", -3571)),
        "unready" => (PodPhase::Running, Some(-3600), ready("False", -3570)),
        _ => (PodPhase::Running, Some(-3600), ready("True", -3590)),
    };
    PodSample {
        name: format!("web-{index}").into(),
        is_terminating: sort == "terminating",
        phase,
        start_time: start.map(at),
        ready,
        requests: vec![amounts(request)],
        usage: if usage < 0 { Vec::new() } else { vec![amounts(usage)] },
        ..PodSample::default()
    }
}

fn autoscaler(spec: &Value) -> AutoscalerView {
    let mut all =
        json!({"minReplicas": 1, "maxReplicas": 10, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
    all.as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
    let object = json!({"metadata": {"namespace": "shop", "name": "web", "uid": "a"}, "spec": all});
    AutoscalerView::decode(object.to_string().as_bytes(), Revision(3)).expect("an autoscaler")
}

fn target(replicas: i32) -> ScaledView {
    let object = json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": "t"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}}, "status": {"replicas": replicas},
    });
    ScaledView::decode(object.to_string().as_bytes(), Revision(7)).expect("a target")
}

fn state(spec: &Value, replicas: i32, pods: &[(&str, i64, i64)]) -> AutoscalerState {
    AutoscalerState {
        autoscaler: autoscaler(spec),
        target: Target::Found(target(replicas)),
        custom_resource: None,
        pods: pods.iter().enumerate().map(|(index, sort)| pod(index, *sort)).collect(),
        selected_by: vec!["web".into()],
        described: Vec::new(),
        memory: Memory::default(),
        tolerance_is_configurable: true,
        last_error: None,
        now: at(0),
    }
}

fn cpu(percent: i32) -> Value {
    json!({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}}]})
}

/// The size that a plan writes.
fn size(plan: &Plan) -> Option<i64> {
    plan.stages.iter().flat_map(|stage| &stage.actions).find_map(|action| match action {
        Action::Patch { subresource: Some(Subresource::Scale), patch, .. } => patch["spec"]["replicas"].as_i64(),
        _ => None,
    })
}

/// The status that a plan writes, as a merge patch.
fn status(plan: &Plan) -> Value {
    let actions = plan.stages.iter().flat_map(|stage| &stage.actions);
    let mut statuses = actions.filter_map(|action| match action {
        Action::Patch { subresource: Some(Subresource::Status), patch, .. } => Some(patch["status"].clone()),
        _ => None,
    });
    statuses.next().unwrap_or_default()
}

/// A condition of a written status: its status and reason.
fn condition(plan: &Plan, kind: &str) -> String {
    let status = status(plan);
    let all = status["conditions"].as_array().into_iter().flatten();
    let found = all.into_iter().find(|condition| condition["type"] == kind);
    found.map_or_else(String::new, |found| {
        format!("{} {}", found["status"].as_str().unwrap_or_default(), found["reason"].as_str().unwrap_or_default())
    })
}

fn message(plan: &Plan, kind: &str) -> String {
    let status = status(plan);
    let mut all = status["conditions"].as_array().into_iter().flatten();
    all.find(|condition| condition["type"] == kind).and_then(|found| found["message"].as_str()).unwrap_or_default().to_owned()
}

fn events(plan: &Plan) -> Vec<(Severity, String)> {
    plan.events.iter().map(|event| (event.severity, event.reason.to_string())).collect()
}

/// With `spec.replicas` = `replicas`, these pods and this target of utilization require this size.
#[track_caller]
fn check(percent: i32, replicas: i32, pods: &[(&str, i64, i64)], expected: i64) {
    // A long policy period and no window, so that only the metric decides.
    let mut spec = cpu(percent);
    let policy =
        json!({"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}], "stabilizationWindowSeconds": 0, "selectPolicy": "Max"});
    spec["behavior"] = json!({"scaleUp": policy, "scaleDown": policy});
    spec["maxReplicas"] = json!(100);
    let mut state = state(&spec, replicas, pods);
    // The memory of an earlier reconcile, without a recommendation.
    state.memory = Memory { uid: "a".into(), ..Memory::default() };
    let (plan, _) = plan(&state);
    assert_eq!(size(&plan).unwrap_or(replicas.into()), expected, "{pods:?} for {percent}%: {plan}");
}

#[test]
fn a_ratio_within_the_tolerance_changes_nothing() {
    let pods = |usage: i64| [("ready", usage, 100); 3];
    check(50, 3, &pods(50), 3);
    check(50, 3, &pods(55), 3);
    check(50, 3, &pods(56), 4);
    check(50, 3, &pods(45), 3);
    check(50, 3, &pods(33), 2);
    check(50, 3, &pods(100), 6);
    check(200, 3, &pods(400), 6);
    check(50, 3, &pods(0), 1);
}

#[test]
fn a_configured_tolerance_replaces_the_default_of_its_direction() {
    let mut spec = cpu(50);
    spec["behavior"] = json!({"scaleUp": {"tolerance": "0", "policies": [{"type": "Pods", "value": 9, "periodSeconds": 15}]}});
    let mut sampled = state(&spec, 3, &[("ready", 51, 100); 3]);
    assert_eq!(size(&plan(&sampled).0), Some(4));
    sampled.tolerance_is_configurable = false;
    assert_eq!(size(&plan(&sampled).0), None, "the gate is off");
    let low = state(&spec, 3, &[("ready", 46, 100); 3]);
    assert_eq!(size(&plan(&low).0), None, "the default for the other direction");
}

#[test]
fn missing_pods_dampen_a_change_and_never_turn_it_around() {
    let (high, low, none) = (("ready", 100, 100), ("ready", 10, 100), ("ready", -1, 100));
    check(50, 3, &[high, high, high], 6);
    check(50, 3, &[high, high, none], 4);
    check(50, 5, &[low, low, low, low, low], 1);
    check(50, 5, &[low, low, low, low, none], 3);
    check(30, 2, &[("ready", 20, 100), none], 2);
    check(90, 2, &[("ready", 100, 100), none], 2);
    // Above 100%, a missing pod uses the target: 2 pods would be enough otherwise.
    check(150, 3, &[high, high, none], 3);
}

#[test]
fn pods_that_start_do_not_count_for_cpu() {
    let high = ("ready", 100, 100);
    check(50, 3, &[high, high, ("starting", 500, 100)], 4);
    check(50, 3, &[high, high, ("started", 100, 100)], 6);
    check(50, 3, &[high, high, ("pending", -1, 100)], 4);
    check(50, 3, &[high, high, ("never ready", 0, 100)], 4);
    check(50, 3, &[high, high, ("unready", 100, 100)], 6);
    check(50, 3, &[("ready", 10, 100), ("ready", 10, 100), ("starting", 500, 100)], 1);
    check(50, 3, &[high, high, ("terminating", 0, 100)], 4);
    check(50, 3, &[high, high, ("failed", -1, 100)], 4);
}

#[test]
fn a_metric_without_a_base_has_upstreams_texts() {
    for (pods, expected) in [
        (&[][..], "unable to get metrics for resource cpu: no metrics returned from resource metrics API"),
        (&[("ready", -1, 100)], "unable to get metrics for resource cpu: no metrics returned from resource metrics API"),
        (&[("starting", 5, 100)], "did not receive metrics for targeted pods (pods might be unready)"),
        (&[("ready", 5, 0)], "no metrics returned matched known pods"),
    ] {
        let (plan, _) = plan(&state(&cpu(50), 1, pods));
        let wanted = format!("the HPA was unable to compute the replica count: failed to get cpu utilization: {expected}");
        assert_eq!((size(&plan), condition(&plan, "ScalingActive").as_str()), (None, "False FailedGetResourceMetric"));
        assert_eq!(message(&plan, "ScalingActive"), wanted);
        assert_eq!(status(&plan)["currentMetrics"], json!([{"type": ""}]));
        let wanted = [(Severity::Warning, "FailedGetResourceMetric"), (Severity::Warning, "FailedComputeMetricsReplicas")];
        assert_eq!(events(&plan), wanted.map(|(severity, reason)| (severity, reason.to_owned())));
        let last = plan.events.last().expect("an event");
        let wanted = format!(
            "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: failed to get cpu utilization: {expected}"
        );
        assert_eq!(last.message, wanted);
    }
    let mut without_request = state(&cpu(50), 1, &[("ready", 5, 100)]);
    without_request.pods[0].requests[0].amounts.clear();
    let (plan, _) = plan(&without_request);
    assert!(message(&plan, "ScalingActive").ends_with("missing request for cpu in container main of Pod web-0"), "{plan}");
}

#[test]
fn each_sort_of_metric_has_its_value_and_its_name() {
    let sized = |metric: Value, described: Vec<Described>| {
        let mut state = state(&json!({"metrics": [metric]}), 2, &[("ready", 80, 100), ("ready", 80, 100)]);
        for pod in &mut state.pods {
            pod.metrics.insert("conns".to_owned(), 30_500);
        }
        state.autoscaler.metrics = [("queue".to_owned(), 45_000)].into();
        state.described = described;
        let (plan, _) = plan(&state);
        read_back(plan.clone());
        let name = message(&plan, "ScalingActive");
        let name = name.strip_prefix("the HPA was able to successfully calculate a replica count from ").unwrap_or(&name).to_owned();
        (size(&plan), name, status(&plan)["currentMetrics"][0].clone())
    };
    let average = |amount: &str| json!({"type": "AverageValue", "averageValue": amount});
    let (replicas, name, current) = sized(json!({"type": "Resource", "resource": {"name": "cpu", "target": average("40m")}}), Vec::new());
    assert_eq!((replicas, name.as_str()), (Some(4), "cpu resource"));
    assert_eq!(current, json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "80m"}}}));

    let container = json!({"name": "cpu", "container": "main", "target": {"type": "Utilization", "averageUtilization": 20}});
    let (replicas, name, current) = sized(json!({"type": "ContainerResource", "containerResource": container}), Vec::new());
    assert_eq!((replicas, name.as_str()), (Some(4), "cpu container resource utilization (percentage of request)"));
    assert_eq!(current["containerResource"]["current"], json!({"averageUtilization": 80, "averageValue": "80m"}));
    let container = json!({"name": "cpu", "container": "other", "target": {"type": "Utilization", "averageUtilization": 20}});
    let (replicas, name, _) = sized(json!({"type": "ContainerResource", "containerResource": container}), Vec::new());
    assert_eq!(replicas, None);
    assert!(name.ends_with("container other not present in metrics for pod shop/web-0"), "{name}");

    let (replicas, name, current) =
        sized(json!({"type": "Pods", "pods": {"metric": {"name": "conns"}, "target": average("20")}}), Vec::new());
    assert_eq!((replicas, name.as_str()), (Some(4), "pods metric conns"));
    assert_eq!(current["pods"]["current"], json!({"averageValue": "30500m"}));
    let (_, name, _) = sized(json!({"type": "Pods", "pods": {"metric": {"name": "x"}, "target": average("20")}}), Vec::new());
    assert!(name.ends_with("unable to get metric x: no metrics returned from custom metrics API"), "{name}");

    let service = json!({"apiVersion": "v1", "kind": "Service", "name": "front"});
    let object =
        |target: Value| json!({"type": "Object", "object": {"describedObject": service, "metric": {"name": "rps"}, "target": target}});
    let (replicas, name, current) = sized(object(json!({"type": "Value", "value": "100"})), vec![Described::Found(Some(150_000))]);
    assert_eq!((replicas, name.as_str()), (Some(3), "Service metric rps"));
    assert_eq!(current["object"]["current"], json!({"value": "150"}));
    let (replicas, _, current) = sized(object(average("50")), vec![Described::Found(Some(150_000))]);
    assert_eq!((replicas, &current["object"]["current"]), (Some(3), &json!({"averageValue": "75"})));
    for (described, why) in [
        (Described::Found(None), "the object has no annotation metrics.berth.dev/rps with a quantity"),
        (Described::Missing, "Service \"front\" not found"),
        (Described::UnknownKind, "berth reads no metrics of the kind Service"),
    ] {
        let (replicas, name, _) = sized(object(average("50")), vec![described]);
        assert_eq!(replicas, None);
        assert_eq!(name, format!("the HPA was unable to compute the replica count: unable to get metric rps: Service on shop front/{why}"));
    }

    let external = |name: &str| json!({"type": "External", "external": {"metric": {"name": name}, "target": average("10")}});
    let (replicas, name, current) = sized(external("queue"), Vec::new());
    // 5 pods, but an autoscaler without behavior at most doubles a size of 2.
    assert_eq!((replicas, name.as_str()), (Some(4), "external metric queue(nil)"));
    assert_eq!(current["external"]["current"], json!({"averageValue": "22500m"}));
    let (replicas, name, _) = sized(external("other"), Vec::new());
    assert_eq!(replicas, None);
    assert!(name.contains("unable to get external metric shop/other/nil: the autoscaler has no annotation"), "{name}");
}

#[test]
fn the_largest_proposal_counts_and_an_unusable_metric_prevents_a_smaller_size_only() {
    let with = |usage: i64| {
        let mut spec = cpu(50);
        let missing = json!({"type": "External", "external": {"metric": {"name": "x"}, "target": {"type": "Value", "value": "1"}}});
        spec["metrics"].as_array_mut().expect("a list").insert(0, missing);
        plan(&state(&spec, 3, &[("ready", usage, 100); 3])).0
    };
    let high = with(100);
    assert_eq!((size(&high), condition(&high, "ScalingActive").as_str()), (Some(6), "True ValidMetricFound"));
    assert_eq!(events(&high), [(Severity::Warning, "FailedGetExternalMetric".to_owned())]);
    let low = with(1);
    assert_eq!((size(&low), condition(&low, "ScalingActive").as_str()), (None, "False FailedGetExternalMetric"));
}

#[test]
fn sizes_outside_the_range_and_targets_without_pods_need_no_metrics() {
    for (replicas, expected, reason) in [
        (11, Some(10), "New size: 10; reason: Current number of replicas above Spec.MaxReplicas"),
        (1, Some(2), "New size: 2; reason: Current number of replicas below Spec.MinReplicas"),
    ] {
        let (plan, _) = plan(&state(&json!({"minReplicas": 2}), replicas, &[]));
        assert_eq!((size(&plan), condition(&plan, "AbleToScale").as_str()), (expected, "True SucceededRescale"));
        let Some(Action::Patch { target, events, .. }) = plan.stages[1].actions.first() else { panic!("{plan}") };
        assert_eq!(target.resource_version, Some(Revision(7)), "a guarded write");
        let success = events.success.as_ref().expect("an event");
        assert_eq!((success.reason.as_ref(), success.message.as_str()), ("SuccessfulRescale", reason));
        assert_eq!((success.about_kind.api_version(), success.severity), ("autoscaling/v2".to_owned(), Severity::Normal));
        let status = status(&plan);
        assert_eq!((&status["currentReplicas"], &status["desiredReplicas"]), (&json!(replicas), &json!(expected)));
        assert_eq!(status["lastScaleTime"], json!(at(0)));
    }
    let (zero, _) = plan(&state(&cpu(50), 0, &[]));
    assert_eq!((size(&zero), condition(&zero, "ScalingActive").as_str()), (None, "False ScalingDisabled"));
}

#[test]
fn an_autoscaler_without_a_usable_target_reports_why() {
    let mut absent = state(&cpu(50), 3, &[]);
    for (target, why) in [
        (Target::Missing, "deployments.apps \"web\" not found"),
        (Target::WithoutScale, "the server could not find the requested resource"),
        (Target::UnknownKind, "no matches for kind \"Deployment\" in group \"apps\""),
    ] {
        absent.target = target;
        let (plan, _) = plan(&absent);
        assert_eq!(condition(&plan, "AbleToScale"), "False FailedGetScale");
        assert_eq!(message(&plan, "AbleToScale"), format!("the HPA controller was unable to get the target's current scale: {why}"));
        assert_eq!(plan.events.iter().map(|event| event.message.as_str()).collect::<Vec<_>>(), [why]);
    }
    let mut ambiguous = state(&cpu(50), 3, &[("ready", 100, 100); 3]);
    ambiguous.selected_by.push("web2".into());
    let (first, _) = plan(&ambiguous);
    assert_eq!((size(&first), condition(&first, "ScalingActive").as_str()), (None, "False AmbiguousSelector"));
    assert_eq!(message(&first, "ScalingActive"), "pods by selector app=web are controlled by multiple HPAs: [shop/web shop/web2]");
    ambiguous.selected_by = (0..SELECTED_BY_MAX).map(|index| format!("web{index}").into()).collect();
    assert!(message(&plan(&ambiguous).0, "ScalingActive").ends_with(" shop/web6 shop/web7 ...]"), "each has this text in its status");
    let mut unselective = state(&cpu(50), 3, &[]);
    unselective.target = Target::Found(ScaledView { selector: None, ..target(3) });
    assert_eq!(condition(&plan(&unselective).0, "ScalingActive"), "False InvalidSelector");
}

/// Reconciles of one autoscaler whose metric requires any size.
struct Sequence {
    state: AutoscalerState,
    second: i64,
}

impl Sequence {
    fn new(spec: Value, replicas: i32) -> Self {
        let metric =
            json!({"type": "External", "external": {"metric": {"name": "size"}, "target": {"type": "AverageValue", "averageValue": "1"}}});
        let mut all = json!({"metrics": [metric], "maxReplicas": 100});
        all.as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
        Self { state: state(&all, replicas, &[]), second: 0 }
    }

    /// Reconciles after 15 s with a metric that requires `desired` pods, and executes the plan. Returns the new size.
    fn step(&mut self, desired: i32) -> i32 {
        self.state.autoscaler.metrics = [("size".to_owned(), i64::from(desired) * 1000)].into();
        self.state.now = at(self.second);
        self.second += 15;
        let (plan, memory) = plan(&self.state);
        self.state.memory = memory;
        self.execute(&plan);
        self.size()
    }

    fn execute(&mut self, plan: &Plan) {
        let mut status = serde_json::to_value(&self.state.autoscaler.status).expect("JSON");
        for (key, value) in self::status(plan).as_object().into_iter().flatten() {
            status[key] = value.clone();
        }
        self.state.autoscaler.status = serde_json::from_value(status).expect("a status");
        if let (Some(size), Target::Found(target)) = (size(plan), &mut self.state.target) {
            target.replicas = i32::try_from(size).expect("a size");
            target.current = target.replicas;
        }
    }

    fn size(&self) -> i32 {
        let Target::Found(target) = &self.state.target else { return 0 };
        target.replicas
    }

    fn steps(&mut self, desired: i32, count: usize) -> Vec<i32> {
        (0..count).map(|_| self.step(desired)).collect()
    }

    fn restart(&mut self) {
        self.state.memory = Memory::default();
    }
}

#[test]
fn without_behavior_a_size_doubles_and_shrinks_after_five_minutes() {
    let mut sequence = Sequence::new(json!({}), 1);
    assert_eq!(sequence.steps(30, 5), [4, 8, 16, 30, 30]);
    // The last recommendation of 30 is 15 s old at the first step.
    let sizes = sequence.steps(3, 21);
    assert_eq!((&sizes[..19], &sizes[19..]), (&[30; 19][..], &[3, 3][..]));
    assert_eq!(sequence.step(200), 6);
}

#[test]
fn a_memory_has_one_recommendation_of_each_size() {
    let down = json!({"stabilizationWindowSeconds": 3600, "policies": [policy("Pods", 9, 60)]});
    let mut sequence = Sequence::new(json!({"behavior": {"scaleDown": down}}), 5);
    for desired in [4, 5, 4, 5] {
        assert_eq!(sequence.steps(desired, 20), [5; 20]);
    }
    let remembered: Vec<_> = sequence.state.memory.recommendations.iter().map(|one| (one.replicas, one.at)).collect();
    assert_eq!(remembered, [(4, at(59 * 15)), (5, at(79 * 15))]);
    // The last recommendation of 5 outlasts the first one.
    sequence.second = 79 * 15 + 3585;
    assert_eq!([4, 4].map(|desired| sequence.step(desired)), [5, 4]);
}

#[test]
fn a_target_that_is_younger_than_its_autoscaler_keeps_its_first_size_as_long_as_another() {
    let mut sequence = Sequence::new(json!({}), 5);
    let found = std::mem::replace(&mut sequence.state.target, Target::Missing);
    assert_eq!(sequence.step(1), 0);
    sequence.state.target = found;
    let sizes = sequence.steps(1, 21);
    assert_eq!((&sizes[..20], sizes[20]), (&[5; 20][..], 1));
}

#[test]
fn a_last_change_in_the_future_does_not_delay_an_autoscaler() {
    let mut sequence = Sequence::new(json!({}), 2);
    sequence.state.autoscaler.status.last_scale_time = Some(Time(at(3600)));
    assert_eq!(sequence.steps(50, 2), [2, 4]);
}

#[test]
fn an_autoscaler_reports_that_another_controller_acts() {
    let wait = Wait::SecondWriter(SecondWriter { manager: "kube-controller-manager".to_owned(), wrote: Wrote::Status });
    let event = wait_event(&autoscaler(&cpu(50)), &wait).expect("an event");
    assert_eq!((event.severity, &*event.reason, &*event.about_kind.kind), (Severity::Warning, "SecondWriter", "HorizontalPodAutoscaler"));
    let object = json!({"metadata": {"name": "web", "managedFields": [
        {"manager": "kube-controller-manager", "subresource": "status", "time": "2027-01-15T08:00:00Z", "operation": "Update"},
    ]}, "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}});
    let view = AutoscalerView::decode(object.to_string().as_bytes(), Revision(1)).expect("an autoscaler");
    assert_eq!(view.foreign.and_then(|foreign| foreign.status).map(|write| write.at), Some(at(0)));
}

fn policy(kind: &str, value: i32, period: i32) -> Value {
    json!({"type": kind, "value": value, "periodSeconds": period})
}

#[test]
fn policies_limit_the_change_per_period() {
    let up = |rules: Value| Sequence::new(json!({"behavior": {"scaleUp": rules, "scaleDown": {"selectPolicy": "Disabled"}}}), 2);
    let pods = |select: &str| json!({"selectPolicy": select, "policies": [policy("Pods", 3, 60), policy("Percent", 100, 30)]});
    assert_eq!(up(json!({"policies": [policy("Pods", 3, 60)]})).steps(50, 9), [5, 5, 5, 5, 8, 8, 8, 8, 11]);
    assert_eq!(up(json!({"policies": [policy("Percent", 50, 30)]})).steps(50, 7), [3, 3, 5, 5, 8, 8, 12]);
    assert_eq!(up(pods("Max")).steps(50, 5), [5, 5, 10, 10, 20]);
    assert_eq!(up(pods("Min")).steps(50, 5), [4, 4, 5, 5, 7]);
    assert_eq!(up(json!({"selectPolicy": "Disabled", "policies": [policy("Pods", 3, 60)]})).steps(50, 3), [2, 2, 2]);
    let down = |rules: Value| {
        let mut rules = rules;
        rules["stabilizationWindowSeconds"] = json!(0);
        Sequence::new(json!({"behavior": {"scaleDown": rules, "scaleUp": {"selectPolicy": "Disabled"}}}), 20)
    };
    assert_eq!(down(json!({"policies": [policy("Pods", 3, 60)]})).steps(1, 6), [17, 17, 17, 17, 14, 14]);
    assert_eq!(down(json!({"policies": [policy("Percent", 50, 15)]})).steps(1, 6), [10, 5, 2, 1, 1, 1]);
    let both = |select: &str| json!({"selectPolicy": select, "policies": [policy("Pods", 3, 15), policy("Percent", 50, 15)]});
    assert_eq!(down(both("Max")).steps(1, 3), [10, 5, 2]);
    assert_eq!(down(both("Min")).steps(1, 3), [17, 14, 11]);
    let mut held = down(json!({"selectPolicy": "Disabled", "policies": [policy("Pods", 3, 15)]}));
    assert_eq!(held.steps(1, 2), [20, 20]);
    let conditions = held.state.autoscaler.status.conditions.expect("conditions");
    let limited = conditions.iter().find(|condition| condition.type_ == "ScalingLimited").expect("a condition");
    assert_eq!((limited.status.as_str(), limited.reason.as_deref()), ("True", Some("ScaleDownLimit")));
}

#[test]
fn a_stabilization_window_takes_the_smallest_change() {
    let free = json!([policy("Pods", 100, 15)]);
    let behavior = |up: i32, down: i32| json!({"behavior": {"scaleUp": {"stabilizationWindowSeconds": up, "policies": free}, "scaleDown": {"stabilizationWindowSeconds": down, "policies": free}}});
    let mut sequence = Sequence::new(behavior(45, 30), 5);
    // The size at the beginning counts as a recommendation.
    assert_eq!([9, 20, 12, 20, 20].map(|desired| sequence.step(desired)), [5, 5, 5, 12, 12]);
    assert_eq!([20, 3, 3].map(|desired| sequence.step(desired)), [20, 20, 3]);
    assert_eq!(Sequence::new(behavior(0, 0), 5).steps(7, 1), [7]);
}

#[test]
fn a_reconcile_between_two_intervals_does_nothing() {
    let mut sequence = Sequence::new(json!({}), 2);
    assert_eq!(sequence.step(3), 3);
    sequence.state.now = at(14);
    let (idle, memory) = plan(&sequence.state);
    assert!(idle.is_idle() && idle.requeue_at == Some(at(15)), "{idle}");
    assert_eq!(memory.idle_until(&"a".into(), at(14)), Some(at(15)));
    assert_eq!(memory.idle_until(&"b".into(), at(14)), None);
    let terminating = AutoscalerView { is_terminating: true, ..sequence.state.autoscaler.clone() };
    assert!(plan(&AutoscalerState { autoscaler: terminating, now: at(99), ..sequence.state }).0.is_idle());
}

#[test]
fn the_status_precedes_the_size_and_an_unchanged_one_is_not_written() {
    let mut sequence = Sequence::new(json!({}), 2);
    let (first, memory) = plan(&AutoscalerState { now: at(0), ..sequence.state.clone() });
    let subresource = |action: &Action| if let Action::Patch { subresource, .. } = action { *subresource } else { None };
    let order: Vec<_> = first.stages.iter().flat_map(|stage| &stage.actions).map(subresource).collect();
    assert_eq!(order, [Some(Subresource::Status)], "the metric is missing");
    sequence.state.memory = memory;
    sequence.second = 15;
    sequence.step(4);
    assert_eq!(sequence.steps(4, 2), [4, 4]);
    sequence.state.now = at(sequence.second);
    let (quiet, _) = plan(&sequence.state);
    assert!(quiet.is_idle(), "{quiet}");
}

#[test]
fn a_lost_race_is_retried_at_once_and_another_failure_is_reported() {
    let mut sequence = Sequence::new(json!({}), 2);
    sequence.state.autoscaler.metrics = [("size".to_owned(), 4000)].into();
    let (planned, memory) = plan(&sequence.state);
    assert_eq!(size(&planned), Some(4));
    // The status was written, the size was not.
    sequence.state.memory = memory;
    sequence.state.now = at(1);
    let (retried, _) = plan(&sequence.state);
    assert_eq!(size(&retried), Some(4));
    sequence.state.last_error = Some("forbidden".to_owned());
    let (reported, memory) = plan(&sequence.state);
    assert_eq!((size(&reported), condition(&reported, "AbleToScale").as_str()), (None, "False FailedUpdateScale"));
    assert_eq!(reported.requeue_at, Some(at(15)));
    sequence.state.memory = memory;
    sequence.state.last_error = None;
    assert!(plan(&sequence.state).0.is_idle());
}

#[test]
fn after_a_restart_no_policy_allows_more_than_before() {
    let rules = json!({"policies": [policy("Pods", 3, 60)]});
    let mut sequence = Sequence::new(json!({"behavior": {"scaleUp": rules, "scaleDown": {"selectPolicy": "Disabled"}}}), 2);
    assert_eq!(sequence.steps(50, 2), [5, 5]);
    sequence.restart();
    assert_eq!(sequence.steps(50, 3), [5, 5, 8]);
    // At once after a scaling, a new controller waits for the rest of the interval.
    let mut sequence = Sequence::new(json!({}), 2);
    assert_eq!(sequence.step(50), 4);
    sequence.restart();
    sequence.second = 14;
    assert_eq!(sequence.step(50), 4);
    sequence.second = 15;
    assert_eq!(sequence.step(50), 8);
}

#[test]
fn a_decision_that_a_controller_recorded_is_executed_by_the_next_one() {
    let mut sequence = Sequence::new(json!({}), 2);
    sequence.state.autoscaler.metrics = [("size".to_owned(), 4000)].into();
    let (planned, _) = plan(&sequence.state);
    // The controller stops between the two writes.
    let only_status = Plan { stages: vec![planned.stages[0].clone()], ..Plan::default() };
    sequence.execute(&only_status);
    sequence.state.now = at(2);
    let (resumed, memory) = plan(&sequence.state);
    assert_eq!((size(&resumed), status(&resumed)), (Some(4), Value::Null));
    sequence.execute(&resumed);
    sequence.state.memory = memory;
    let (settled, memory) = plan(&sequence.state);
    assert!(settled.is_idle() && settled.requeue_at == Some(at(15)), "{settled}");
    assert_eq!(memory.events, [ScaleEvent { at: at(2), pods: 2 }]);
    // Later, or with another range, the size is computed again.
    let mut late = Sequence::new(json!({}), 2);
    late.state.autoscaler.metrics = [("size".to_owned(), 4000)].into();
    late.execute(&only_status);
    late.state.autoscaler.metrics = [("size".to_owned(), 3000)].into();
    late.state.now = at(15);
    assert_eq!(size(&plan(&late.state).0), Some(3));
    late.state.now = at(2);
    late.state.autoscaler.spec.max_replicas = 3;
    assert_eq!(size(&plan(&late.state).0), None);
}

#[test]
fn a_controllers_map_is_a_selector_and_an_empty_one_is_none() {
    let selector = |selector: Value| {
        let object = json!({"metadata": {"name": "a", "annotations": {"metrics.berth.dev/rps": "1.5", "metrics.berth.dev/x": "many"}}, "spec": {"selector": selector}});
        ScaledView::decode(object.to_string().as_bytes(), Revision(1)).expect("an object")
    };
    let labels: Labels = [("app", "web")].into();
    for value in [json!({"app": "web"}), json!({"matchLabels": {"app": "web"}})] {
        assert!(selector(value).selector.expect("a selector").matches(&labels));
    }
    for value in [json!({}), json!({"matchLabels": {}}), json!(null)] {
        assert_eq!(selector(value).selector, None);
    }
    let read = selector(json!({}));
    assert_eq!((read.metrics, read.replicas), ([("rps".to_owned(), 1500)].into(), 1));
}

#[test]
fn references_name_their_resources() {
    let of = |api_version: &str, kind: &str| {
        let reference =
            CrossVersionObjectReference { api_version: Some(api_version.to_owned()), kind: kind.to_owned(), name: "x".to_owned() };
        (TargetKind::of(&reference), described_resource(&reference))
    };
    assert_eq!(of("apps/v1", "StatefulSet"), (TargetKind::Scaled(STATEFUL_SETS), Some(STATEFUL_SETS)));
    assert_eq!(of("v1", "ReplicationController"), (TargetKind::Scaled(REPLICATION_CONTROLLERS), Some(REPLICATION_CONTROLLERS)));
    assert_eq!(of("v1", "Service"), (TargetKind::Unknown, Some(SERVICES)));
    assert_eq!(of("apps/v1", "DaemonSet"), (TargetKind::WithoutScale, None));
    assert_eq!(of("example.com/v1", "Deployment"), (TargetKind::Unknown, None));
}

prop_compose! {
    fn rules()(select in prop::sample::select(vec!["Max", "Min", "Disabled"]), window in 0..120, value in 1..20, period in 15..120, percent in any::<bool>()) -> Value {
        let kind = if percent { "Percent" } else { "Pods" };
        json!({"selectPolicy": select, "stabilizationWindowSeconds": window, "policies": [policy(kind, value, period)]})
    }
}

proptest! {
    /// Any metrics and restarts leave the size within its range, and it never changes faster than a policy of pods allows.
    #[test]
    fn a_size_stays_in_its_range_and_below_its_rate(
        (min, more) in (1..5, 0..30), up in rules(), down in rules(), has_behavior in any::<bool>(),
        steps in prop::collection::vec((0..60, prop::bool::weighted(0.1)), 1..40),
    ) {
        let behavior = if has_behavior { json!({"scaleUp": up, "scaleDown": down}) } else { json!(null) };
        let max = min + more;
        let mut sequence = Sequence::new(json!({"minReplicas": min, "maxReplicas": max, "behavior": behavior}), min);
        let mut sizes = vec![(0, min)];
        for (desired, restarts) in steps {
            if restarts {
                sequence.restart();
            }
            let size = sequence.step(desired);
            prop_assert!((min..=max).contains(&size), "{size} is outside {min}..={max}");
            sizes.push((sequence.second, size));
        }
        if !has_behavior {
            return Ok(());
        }
        for (rules, sign) in [(&up, 1), (&down, -1)] {
            let policy = &rules["policies"][0];
            if rules["selectPolicy"] == "Disabled" {
                prop_assert!(sizes.windows(2).all(|pair| (pair[1].1 - pair[0].1) * sign <= 0), "{sizes:?}");
            } else if policy["type"] == "Pods" {
                let (value, period) = (policy["value"].as_i64().expect("pods"), policy["periodSeconds"].as_i64().expect("seconds"));
                for (index, (at, _)) in sizes.iter().enumerate().skip(1) {
                    // Changes in the opposite direction within the period give room back.
                    let changes = || sizes[..=index].windows(2).map(|pair| (pair[1].0, i64::from((pair[1].1 - pair[0].1) * sign)));
                    let within: i64 = changes().filter(|(then, _)| at - period < *then).map(|(_, change)| change).sum();
                    let grows = changes().next_back().is_some_and(|(_, change)| 0 < change);
                    prop_assert!(!grows || within <= value, "{within} pods within {period} s: {sizes:?}");
                }
            }
        }
    }

    /// More usage never requires fewer pods.
    #[test]
    fn more_usage_requires_no_fewer_pods(usage in 0i64..300, more in 0i64..300, pods in 1usize..10, percent in 1i32..150) {
        let size = |usage: i64| {
            let replicas = i32::try_from(pods).expect("few");
            let mut state = state(&cpu(percent), replicas, &vec![("ready", usage, 100); pods]);
            state.autoscaler.spec.max_replicas = 1000;
            state.memory = Memory { uid: "a".into(), ..Memory::default() };
            size(&plan(&state).0).unwrap_or(replicas.into())
        };
        prop_assert!(size(usage) <= size(usage + more));
    }

    /// The same state gives the same plan, which another process can read.
    #[test]
    fn a_plan_depends_on_its_state_only(usage in -1i64..300, replicas in 0i32..12) {
        let state = state(&cpu(50), replicas, &[("ready", usage, 100); 3]);
        let read: AutoscalerState = serde_json::from_value(serde_json::to_value(&state).expect("JSON")).expect("a state");
        prop_assert_eq!(&read, &state);
        prop_assert_eq!(plan(&read), plan(&state));
    }
}
