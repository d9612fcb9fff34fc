//! Forecasts of workloads that their owners hold: going as far as permitted is the end, and no failure.

use crate::common::{
    cluster, edit, forecast_change, new_image, pod, ready, rolling,
    scenario::{deployment, stateful_set},
    suppositions,
};
use berth_plan::Snapshot;
use berth_plan::{
    Analyses, Change, Edits, Failure, Forecast, Outcome, StepKind, Suppositions, TroubleKind, charts, compare, compared, forecast,
    forecast_many, text,
};
use berth_workloads::workload::WorkloadKind;
use serde_json::{Value, json};

const PAUSED: &str = "paused: the template does not roll out until you resume it";

/// The end: `complete` or what holds it, and the seconds until then and until the last surplus pod is deleted.
fn end(forecast: &Forecast) -> (&str, u64, u64) {
    match &forecast.workloads[0].outcome {
        Outcome::Complete { after, settled_after } => ("complete", after.as_secs(), settled_after.as_secs()),
        Outcome::Held { after, settled_after, why } => (why[0].as_str(), after.as_secs(), settled_after.as_secs()),
        outcome @ Outcome::Stuck { .. } => panic!("{outcome:?}"),
    }
}

fn check(forecast: &Forecast, expected: (&str, u64, u64)) {
    assert_eq!(end(forecast), expected, "{}", text(forecast, None));
    assert_eq!(forecast.failures(&[Failure::Deadline]), [] as [&str; 0]);
}

fn makes_sets(forecast: &Forecast) -> bool {
    forecast.workloads[0].steps.iter().any(|step| matches!(step.kind, StepKind::CreateSet { .. }))
}

/// A cluster with a paused Deployment of three pods. Its set has the image `main:1`.
fn paused(image: &str) -> Vec<Value> {
    let pods = ["a", "b", "c"].map(|name| pod(name, ready("2026-03-01T10:00:04Z")));
    let mut objects = cluster(3, pods.to_vec());
    objects[0]["spec"]["paused"] = json!(true);
    objects[0]["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    let annotations = objects[1]["metadata"].as_object_mut().expect("a ReplicaSet").entry("annotations").or_insert_with(|| json!({}));
    annotations["deployment.kubernetes.io/desired-replicas"] = json!("3");
    objects
}

fn scaled(replicas: i32) -> Edits {
    Edits { replicas: Some(replicas), ..Edits::default() }
}

fn applied(manifest: Value) -> Change {
    Change { manifests: vec![manifest], ..Change::default() }
}

#[test]
fn a_paused_deployment_scales_and_that_is_its_end() {
    let of = |edits: Edits| forecast_change(paused("main:1"), &edit(WorkloadKind::Deployment, edits));
    let up = of(scaled(5));
    check(&up, ("complete", 5, 5));
    assert_eq!((up.workloads[0].pods.value, makes_sets(&up)), (5, false));
    check(&of(scaled(1)), ("complete", 20, 20));
    check(&of(scaled(0)), ("complete", 20, 20));
    // With the change that also pauses it.
    let mut manifest = deployment(5, &json!({"paused": true}));
    check(&forecast_change(vec![deployment(3, &json!({}))], &applied(manifest.clone())), ("complete", 5, 5));
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = json!("main:2");
    check(&forecast_change(vec![deployment(3, &json!({}))], &applied(manifest)), (PAUSED, 5, 5));
}

#[test]
fn a_paused_deployment_keeps_its_pods_whatever_its_template() {
    let of = |edits: Edits| forecast_change(paused("main:1"), &edit(WorkloadKind::Deployment, edits));
    check(&of(new_image()), (PAUSED, 0, 0));
    let both = of(Edits { replicas: Some(5), ..new_image() });
    check(&both, (PAUSED, 5, 5));
    assert_eq!((both.workloads[0].pods.value, makes_sets(&both)), (5, false));
    // Under TerminationComplete, a pod counts until its deletion.
    check(&of(Edits { replicas: Some(1), ..new_image() }), (PAUSED, 20, 20));
    let started = Edits { policy: Some("TerminationStarted".to_owned()), replicas: Some(1), ..new_image() };
    check(&of(started), (PAUSED, 0, 20));
    // No pod has the new template, although the counts are those of a complete rollout.
    check(&of(Edits { replicas: Some(0), ..new_image() }), (PAUSED, 20, 20));
    assert!(both.troubles.iter().all(|trouble| trouble.kind != TroubleKind::Never), "{:?}", both.troubles);
}

#[test]
fn what_is_held_already_stays_so_where_nothing_is_changed() {
    check(&forecast_change(paused("main:2"), &edit(WorkloadKind::Deployment, scaled(3))), (PAUSED, 0, 0));
    check(&forecast_change(paused("main:1"), &edit(WorkloadKind::Deployment, scaled(3))), ("complete", 0, 0));
}

#[test]
fn a_deployment_that_is_paused_from_the_beginning_has_no_pods_and_resumed_it_rolls_out() {
    let manifest = |paused: bool| {
        let mut manifest = deployment(2, &rolling(1, 0, "TerminationComplete"));
        manifest["spec"]["paused"] = json!(paused);
        manifest
    };
    let made = forecast_change(Vec::new(), &applied(manifest(true)));
    check(&made, (PAUSED, 0, 0));
    assert_eq!((made.workloads[0].pods.value, makes_sets(&made)), (0, false));
    check(&forecast_change(vec![manifest(true)], &applied(manifest(false))), ("complete", 5, 5));
    let mut resumed = manifest(false);
    resumed["spec"]["replicas"] = json!(3);
    resumed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("main:2");
    let forecast = forecast_change(paused("main:2"), &applied(resumed));
    check(&forecast, ("complete", 75, 75));
    let wait = forecast.workloads[0].waits.iter().find(|wait| wait.reason == "paused");
    assert!(wait.is_none_or(|wait| wait.until.is_some()), "{wait:?}");
}

#[test]
fn a_paused_deployment_whose_pods_do_not_come_never_completes() {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": {"pods": "4"}}});
    let forecast = forecast_change([vec![quota], paused("main:2")].concat(), &edit(WorkloadKind::Deployment, scaled(5)));
    let Outcome::Stuck { why, .. } = &forecast.workloads[0].outcome else { panic!("{}", text(&forecast, None)) };
    assert!(why[0].contains("because of a quota") && why.iter().any(|why| why == PAUSED), "{why:?}");
    assert_eq!(forecast.failures(&[Failure::Deadline]).len(), 1, "{:?}", forecast.troubles);
}

#[test]
fn a_forecast_ends_at_a_step_that_waits_for_a_user() {
    let with_steps = |image: &str| {
        let mut web = deployment(4, &rolling(1, 0, "TerminationStarted"));
        web["metadata"]["annotations"] = json!({"berth.dev/steps": "50%, 30s, 75%, pause, 100%"});
        web["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        web
    };
    let forecast = forecast_change(vec![with_steps("main:1")], &applied(with_steps("main:2")));
    let (why, after, settled_after) = end(&forecast);
    assert_eq!(why, "step 4 of 5, at 75%: waiting for `berth rollout promote deployment/web`");
    // Two pods start in 5 s each and stay available for 10 s, then half a minute, then a third pod does the same. Its predecessor takes 20
    // s to stop.
    assert!((65..68).contains(&after) && (75..78).contains(&settled_after), "{after} {settled_after}");
    check(&forecast, (why, after, settled_after));
    let last = forecast.workloads[0].lanes.last().expect("some");
    let mut available: Vec<u32> = last.revisions.values().map(|counts| counts.available).collect();
    available.sort_unstable();
    assert_eq!(available, [1, 3]);
}

#[test]
fn pods_that_are_deleted_by_hand_hold_a_stateful_set() {
    let set = || stateful_set(3, &json!({"updateStrategy": {"type": "OnDelete"}}));
    let of = |edits: Edits| forecast_change(vec![set()], &edit(WorkloadKind::StatefulSet, edits));
    let why = "waiting for 3 pods of older templates to be deleted manually (OnDelete)";
    check(&of(new_image()), (why, 0, 0));
    check(&of(Edits { replicas: Some(5), ..new_image() }), (why, 10, 10));
    check(&of(scaled(5)), ("complete", 10, 10));
    check(&of(Edits { replicas: Some(0), ..new_image() }), ("complete", 60, 60));
    // An update with a partition is complete when all pods above it have the new template.
    let partition =
        |from: u32| stateful_set(3, &json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": from}}}));
    let of = |from: u32, edits: Edits| forecast_change(vec![partition(from)], &edit(WorkloadKind::StatefulSet, edits));
    check(&of(7, new_image()), ("complete", 0, 0));
    check(&of(2, Edits { replicas: Some(4), ..new_image() }), ("complete", 30, 30));
}

#[test]
fn what_is_held_is_shown_as_such() {
    let started = Some("TerminationStarted".to_owned());
    let change = edit(WorkloadKind::Deployment, Edits { policy: started, replicas: Some(1), ..new_image() });
    let snapshot = Snapshot::of_documents(paused("main:1"));
    let forecast = forecast_change(paused("main:1"), &change);
    let output = text(&forecast, None);
    assert!(output.contains(", 1 pod: held after 0"), "{output}");
    assert!(output.contains(", the last surplus pod deleted after 20s\n") && output.contains(&format!("  because {PAUSED}\n")), "{output}");
    let shown = serde_json::to_value(&forecast).expect("string keys");
    let outcome = &shown["workloads"][0]["outcome"];
    assert_eq!((&outcome["is"], &outcome["why"]), (&json!("held"), &json!([PAUSED])));
    assert!(shown["seconds"].as_f64().is_some_and(|seconds| seconds >= 20.0), "{}", shown["seconds"]);
    let chart = &charts(&forecast, &change)[0];
    let marks: Vec<&str> = chart.marks.iter().map(|mark| mark.text.as_str()).collect();
    assert_eq!(marks, ["image main=main:2, replicas 1, TerminationStarted", "held", "the last surplus pod is deleted"]);
    assert!(chart.end.as_secs() > 20, "{:?}", chart.end);
    let table = compared(&compare(&snapshot, &change, &suppositions(5, 20)).expect("forecasts"));
    assert_eq!((table.matches("held, 0s").count(), table.matches("held, 20").count()), (2, 1), "{table}");
    let spread = forecast_many(&snapshot, &change, &suppositions(5, 20), 2, |_| ()).expect("forecasts");
    assert_eq!(spread.complete, 2, "they are as far as they go");
}

/// A forecast sends no requests to a provider, and its output contains the assumption.
#[test]
fn an_analysis_passes_or_fails_as_is_supposed() {
    let mut old = deployment(4, &json!({}));
    old["metadata"]["annotations"] =
        json!({"berth.dev/steps": "50%, analysis, 100%", "berth.dev/analysis-provider": "prod", "berth.dev/analysis-query": "up"});
    let mut new = old.clone();
    new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("main:2");
    let of = |analyses: Analyses| {
        let supposed = Suppositions { analyses, ..suppositions(5, 20) };
        forecast(&Snapshot::of_documents(vec![old.clone()]), &applied(new.clone()), &supposed).expect("a forecast")
    };
    let (passes, fails) = (of(Analyses::Pass), of(Analyses::Fail));
    assert_eq!([end(&passes).0, end(&fails).0], ["complete", "complete"]);
    assert_eq!([&passes, &fails].map(|forecast| forecast.workloads[0].rolled_back), [false, true], "{}", text(&fails, None));
    assert_eq!([&passes, &fails].map(|forecast| forecast.supposed.analysis), [Some("pass"), Some("fail")]);
    assert!(
        text(&passes, None).contains("Assumes that each analysis passes at once. --analysis fail forecasts"),
        "{}",
        text(&passes, None)
    );
    assert!(text(&fails, None).contains("which failed its analysis, to revision 1"), "{}", text(&fails, None));
    let without = forecast_change(vec![deployment(4, &json!({}))], &applied(deployment(5, &json!({}))));
    assert!(without.supposed.analysis.is_none() && !text(&without, None).contains("analysis"));
}
