//! The output of a forecast: its text, line by line, and the format of its JSON.

use crate::common::{
    cluster, edit, forecast_change, new_image, pod, ready, rolling,
    scenario::{deployment, stateful_set},
    suppositions,
};
use berth_plan::{Edits, Forecast, Snapshot, Spread, Suppositions, charts, consequences, forecast, forecast_many, text, victims};
use berth_workloads::workload::WorkloadKind;
use serde_json::{Value, json};
use std::time::Duration;

fn has_line(output: &str, line: &str) {
    assert!(output.lines().any(|found| found == line), "{line:?} is not in\n{output}");
}

fn rolled(policy: &str) -> Forecast {
    forecast_change(vec![deployment(3, &rolling(1, 0, policy))], &edit(WorkloadKind::Deployment, new_image()))
}

#[test]
fn a_text_states_bounds_quotas_nodes_and_what_it_supposes() {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": {"pods": "9"}}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "n1"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}});
    let mut web = deployment(3, &rolling(1, 0, "TerminationComplete"));
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "500m", "memory": "1Gi"}});
    let output = text(&forecast_change(vec![quota, node, web], &edit(WorkloadKind::Deployment, new_image())), None);
    has_line(&output, "Assumes berth's controllers (the server knows podReplacementPolicy); RollingUpdate, TerminationComplete.");
    has_line(&output, "  pods start in 5s (given), stop in 20s (given)");
    has_line(&output, "  pods: at most 4, at 0s, including terminating pods (limit 4; the policy decides if terminating pods count)");
    has_line(&output, "  available: at least 3, at 0s (the strategy requires 3)");
    has_line(&output, "  cpu: at most 2, at 0s");
    has_line(&output, "  memory: at most 4Gi, at 0s");
    has_line(&output, "  quota few: at most 4 of 9 pods, at 0s");
    has_line(&output, "  nodes: at least 2 of 4 cpu free, at 0s");
    assert!(
        !output.lines().any(|line| line.starts_with("  pods: at most") && !line.contains("terminating")),
        "pods are no resource: {output}"
    );
    assert!(!output.contains("Problems:"), "{output}");
    let recreate = Edits { strategy: Some("Recreate".to_owned()), ..new_image() };
    let output = text(&forecast_change(vec![deployment(3, &json!({}))], &edit(WorkloadKind::Deployment, recreate)), None);
    has_line(&output, "  pods: at most 3, at 0s, including terminating pods");
    has_line(&output, "  available: at least 0, at 0s");
}

/// The sentences for a user's confirmation.
#[test]
fn consequences_state_how_many_pods_are_deleted_created_and_stay_and_how_it_ends() {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": {"pods": "4"}}});
    let scaled = Edits { replicas: Some(6), ..Edits::default() };
    let said = consequences(&forecast_change(
        vec![quota, deployment(3, &rolling(1, 0, "TerminationStarted"))],
        &edit(WorkloadKind::Deployment, scaled),
    ));
    assert_eq!(said[0], "1 pod is created, 3 stay.", "{said:?}");
    assert!(said.iter().any(|sentence| sentence.starts_with("It is never complete")), "{said:?}");
    assert!(said.iter().any(|sentence| sentence.contains("exceeded quota: few")), "{said:?}");
    let said = consequences(&rolled("TerminationComplete"));
    assert_eq!(
        said[..2],
        ["3 pods are deleted, 3 created.", "At most 4 pods exist at once, including terminating pods; at least 3 are available."]
    );
    assert!(said[2].starts_with("It is complete after "), "{said:?}");
    let none = Edits { replicas: Some(3), ..Edits::default() };
    let said = consequences(&forecast_change(vec![deployment(3, &json!({}))], &edit(WorkloadKind::Deployment, none)));
    assert_eq!(said[0], "No pod is deleted or created.");
}

#[test]
fn the_timings_of_pods_are_stated_with_their_source() {
    let took = |objects: Vec<Value>, kind: WorkloadKind| {
        let mut snapshot = Snapshot::of_documents(objects);
        snapshot.at = "2026-03-01T11:00:00Z".parse().expect("a time");
        let forecast = forecast(&snapshot, &edit(kind, new_image()), &Suppositions::default()).expect("a forecast");
        text(&forecast, None).lines().find(|line| line.starts_with("  pods start in ")).unwrap_or_default().to_owned()
    };
    let known = vec![pod("web-1-a", ready("2026-03-01T10:00:04Z")), pod("web-1-b", ready("2026-03-01T10:00:09Z"))];
    assert_eq!(
        took(cluster(2, known), WorkloadKind::Deployment),
        "  pods start in 4s (as 2 pods did: 4s to 9s), stop in 10m0s (unknown: their full grace period; --stop)"
    );
    assert_eq!(
        took(vec![stateful_set(1, &json!({}))], WorkloadKind::StatefulSet),
        "  pods start in 10s (unknown; --start), stop in 10m0s (unknown: their full grace period; --stop)"
    );
    let event = |reason: &str, at: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": reason, "namespace": "default"}, "reason": reason, "eventTime": at,
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web-1-x"}})
    };
    let events = [event("Scheduled", "2026-03-01T10:00:00.000000Z"), event("Started", "2026-03-01T10:00:06.000000Z")];
    assert!(
        took([cluster(1, Vec::new()), events.to_vec()].concat(), WorkloadKind::Deployment)
            .starts_with("  pods start in 6s (as 1 pod did according to events: 6s to 6s), ")
    );
    let mut said = deployment(1, &json!({}));
    said["spec"]["template"]["metadata"]["annotations"] =
        json!({"sim.berth.dev/ready-after": "2s", "sim.berth.dev/terminates-after": "3s"});
    assert_eq!(
        took(vec![said], WorkloadKind::Deployment),
        "  pods start in 2s (from their annotation sim.berth.dev), stop in 3s (from their annotation sim.berth.dev)"
    );
}

#[test]
fn a_spread_and_the_victims_are_printed_in_words() {
    let snapshot = Snapshot::of_documents([deployment(3, &rolling(1, 0, "TerminationStarted"))]);
    let change = edit(WorkloadKind::Deployment, new_image());
    let spread = forecast_many(&snapshot, &change, &suppositions(5, 20), 2, |_| ()).expect("forecasts");
    let output =
        text(&rolled("TerminationStarted"), Some(&Spread { p50: Duration::from_secs(35), p95: Duration::from_secs(80), ..spread }));
    has_line(&output, "2 runs with other seeds: 2 complete, 50% within 35s, 95% within 1m20s;");
    has_line(&output, "at most 6 pods, at least 3 available");
    let gone = victims(&rolled("TerminationStarted"));
    let lines: Vec<Vec<&str>> = gone.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.iter().map(|line| line[0]).collect::<Vec<_>>(), ["1", "2", "3"], "{gone}");
    assert!(lines.iter().all(|line| line.len() > 3 && line[2].ends_with('s')), "a name, a time and a rule: {gone}");
}

#[test]
fn a_long_list_shows_twenty_steps_from_either_end() {
    let forecast =
        forecast_change(vec![deployment(20, &rolling(1, 0, "TerminationComplete"))], &edit(WorkloadKind::Deployment, new_image()));
    let output = text(&forecast, None);
    let steps: Vec<&str> = output.lines().skip_while(|line| !line.starts_with("  pods start")).skip(1).take(41).collect();
    let left_out = steps.iter().position(|line| line.contains(" more; -o json prints all")).expect("not all are shown");
    assert_eq!(left_out, 20, "{output}");
    assert!(steps[..20].iter().chain(&steps[21..]).all(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())), "{steps:#?}");
    let few = text(&rolled("TerminationComplete"), None);
    assert!(!few.contains("more; -o json prints all"), "{few}");
}

/// The names that docs/how-to/plan.md documents.
#[test]
fn the_json_has_what_is_documented_and_leaves_out_what_is_not_there() {
    let shown = serde_json::to_value(rolled("TerminationComplete")).expect("string keys");
    let keys = |value: &Value| value.as_object().map(|members| members.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    assert_eq!(keys(&shown), ["nodes", "quotas", "seconds", "supposed", "troubles", "workloads"]);
    assert_eq!(keys(&shown["supposed"]), ["at", "because", "controllers", "missing", "seed"]);
    let web = &shown["workloads"][0];
    let all = [
        "available",
        "kind",
        "lanes",
        "least",
        "lives",
        "most",
        "name",
        "namespace",
        "outcome",
        "pods",
        "policy",
        "replicas",
        "resources",
        "start",
        "steps",
        "stop",
        "terminating",
        "waits",
    ];
    assert_eq!(keys(web), all, "rolledBack is there only where it is so");
    assert_eq!(keys(&web["outcome"]), ["afterSeconds", "is", "settledAfterSeconds"]);
    assert_eq!(keys(&web["start"]), ["fastestSeconds", "samples", "slowestSeconds", "source", "typicalSeconds"]);
    assert_eq!((&web["start"]["source"], &web["most"], &web["least"]), (&json!("given"), &json!(4), &json!(3)));
    let does = |name: &str| web["steps"].as_array().into_iter().flatten().find(|step| step["does"] == name).cloned().unwrap_or_default();
    assert_eq!(keys(&does("createSet")), ["atSeconds", "does", "reason", "replicas", "set"]);
    assert_eq!(keys(&does("resize")), ["atSeconds", "does", "from", "reason", "set", "to"]);
    assert_eq!(keys(&does("createPods")), ["atSeconds", "count", "does", "owner", "reason"]);
    assert_eq!(keys(&does("deletePods")), ["atSeconds", "does", "owner", "pods", "reason"]);
    assert_eq!(keys(&does("deletePods")["pods"][0]), ["pod", "rule"]);
    assert_eq!(keys(&web["waits"][0]), ["fromSeconds", "reason", "text", "untilSeconds"]);
    assert_eq!(keys(&web["pods"]), ["atSeconds", "value"]);
    let gone = web["lives"].as_array().into_iter().flatten().filter(|life| life.get("goneAtSeconds").is_some()).count();
    assert_eq!(gone, 3, "those that stay have no end");
    let lane = web["lanes"][0]["revisions"].as_object().and_then(|revisions| revisions.values().next()).cloned().unwrap_or_default();
    assert_eq!(keys(&lane), ["available", "failed", "pending", "ready", "starting", "terminating"]);
    let full = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": {"pods": "3"}}});
    let stuck =
        forecast_change(vec![full, deployment(3, &rolling(1, 0, "TerminationStarted"))], &edit(WorkloadKind::Deployment, new_image()));
    let stuck = serde_json::to_value(stuck).expect("string keys");
    assert_eq!(keys(&stuck["workloads"][0]["outcome"]), ["afterSeconds", "is", "why"]);
    assert_eq!(keys(&stuck["quotas"][0]), ["atSeconds", "hard", "name", "namespace", "resource", "used"]);
    let trouble =
        stuck["troubles"].as_array().into_iter().flatten().find(|trouble| trouble["kind"] == "never").cloned().unwrap_or_default();
    assert_eq!(
        (keys(&trouble), keys(&trouble["about"])),
        (["about", "atSeconds", "kind", "text"].map(str::to_owned).to_vec(), ["kind", "name", "namespace"].map(str::to_owned).to_vec(),)
    );
}

#[test]
fn a_picture_ends_a_little_behind_the_end_and_marks_no_change_that_has_no_words() {
    let change = edit(WorkloadKind::Deployment, new_image());
    let forecast = rolled("TerminationStarted");
    let end = forecast.workloads[0].outcome.ends();
    let chart = &charts(&forecast, &change)[0];
    assert_eq!(chart.end, end + end / 16 + Duration::from_secs(1));
    let marks: Vec<&str> = chart.marks.iter().map(|mark| mark.text.as_str()).collect();
    assert_eq!(marks, ["image main=main:2", "complete", "the last replaced pod is deleted"]);
    let silent = &charts(&forecast, &edit(WorkloadKind::Deployment, Edits::default()))[0];
    assert_eq!(silent.marks.len(), 2, "{:?}", silent.marks);
}
