//! The charts of the documents, as the simulation draws them: the same each time. `cargo xtask pictures` redraws them.

use crate::common::scenario::deployment;
use berth_api::annotations::BERTH_REPAIR;
use berth_chart::{Chart, Pod, Sample};
use berth_plan::{Change, Controllers, Edit, Edits, Snapshot, Suppositions, charts, compare, forecast};
use berth_workloads::{
    pod_state::PodCounts,
    workload::{WorkloadId, WorkloadKind},
};
use serde_json::{Value, json};
use std::time::Duration;

fn check(name: &str, drawn: &str) {
    berth_testing::kept(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pictures"), name, drawn);
}

#[test]
fn three_policies_are_drawn_as_they_were() {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
    let snapshot = Snapshot::of_documents([deployment(6, &json!({"strategy": strategy}))]);
    let edits = Edits { images: vec![("main".to_owned(), "main:2".to_owned())], ..Edits::default() };
    let edit = Edit { workload: WorkloadId::new(WorkloadKind::Deployment, "default", "web"), edits };
    let change = Change { edits: vec![edit], ..Change::default() };
    let suppositions = Suppositions { start: Some(Duration::from_secs(4)), stop: Some(Duration::from_secs(20)), ..Suppositions::default() };
    let draw = || {
        let alternatives = compare(&snapshot, &change, &suppositions).expect("forecasts");
        let charts: Vec<_> = alternatives.iter().flat_map(|alternative| alternative.charts(&change)).collect();
        berth_chart::svg(&charts)
    };
    let drawn = draw();
    assert_eq!(drawn, draw(), "a seed decides all");
    check("three-policies.svg", &drawn);
}

/// The output of `kubectl get statefulsets,pods,controllerrevisions,pvc -o json` after `kubectl set image statefulset/db
/// main=registry.example/db:2-typo`, without managed fields.
const BROKEN: &str = include_str!("../../testdata/broken-db.json");

#[test]
fn how_each_strategy_repairs_a_broken_stateful_set_is_drawn_as_before() {
    let suppositions = Suppositions {
        controllers: Some(Controllers::Berth),
        start: Some(Duration::from_secs(4)),
        stop: Some(Duration::from_secs(8)),
        ..Suppositions::default()
    };
    let draw = |strategy: &str, repair: bool| {
        let mut objects: Vec<Value> = serde_json::from_str(BROKEN).expect("JSON");
        if repair {
            objects[0]["metadata"]["annotations"] = json!({BERTH_REPAIR: "Revision"});
        }
        let images = vec![("main".to_owned(), "registry.example/db:3".to_owned())];
        let edits = Edits { images, strategy: Some(strategy.to_owned()), ..Edits::default() };
        let edit = Edit { workload: WorkloadId::new(WorkloadKind::StatefulSet, "default", "db"), edits };
        let change = Change { edits: vec![edit], ..Change::default() };
        let forecast = forecast(&Snapshot::of_documents(objects), &change, &suppositions).expect("a forecast");
        let repaired = if repair { ", berth.dev/repair: Revision" } else { "" };
        let chart = |chart: Chart| named(Chart { title: format!("{}{repaired}", chart.title), ..chart });
        charts(&forecast, &change).into_iter().map(chart).collect::<Vec<_>>()
    };
    let strategies = [("RollingUpdate", false), ("OnDelete", false), ("RollingUpdate", true), ("Recreate", false)];
    let all = || strategies.map(|(strategy, repair)| draw(strategy, repair)).concat();
    let drawn = berth_chart::svg(&all());
    assert_eq!(drawn, berth_chart::svg(&all()), "a seed decides all");
    check("broken-statefulset.svg", &drawn);
}

/// Replaces the names of revisions, which mean nothing to readers, by their images. All three revisions are present even if the newest has
/// no pods, so that colors have the same meaning in all charts.
fn named(chart: Chart) -> Chart {
    let place = |name: &String| match name.as_str() {
        "db-799c8cdb85" => 0,
        "db-5fd644d97f" => 1,
        _ => 2,
    };
    let places: Vec<usize> = chart.revisions.iter().map(place).collect();
    let sample = |sample: Sample| {
        let mut counts = vec![PodCounts::default(); 3];
        places.iter().zip(sample.counts).for_each(|(place, of)| counts[*place] = of);
        Sample { counts, ..sample }
    };
    Chart {
        revisions: ["db:1", "db:2-typo", "db:3"].map(str::to_owned).to_vec(),
        samples: chart.samples.into_iter().map(sample).collect(),
        pods: chart.pods.into_iter().map(|pod| Pod { revision: places[pod.revision], ..pod }).collect(),
        ..chart
    }
}
