//! The pictures of the documents, as the simulation draws them: the same each time. `cargo xtask pictures` draws them anew.

mod common;

use berth_plan::{Change, Edit, Edits, Snapshot, Suppositions, WorkloadKind, compare};
use common::deployment;
use serde_json::json;
use std::time::Duration;

#[expect(clippy::disallowed_methods, reason = "what is kept lies in files")]
fn check(name: &str, drawn: &str) {
    let path = format!("{}/../../docs/pictures/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BERTH_PICTURES").is_some_and(|wanted| wanted == "write") {
        std::fs::write(&path, drawn).expect("a file that is tracked");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let difference = kept.lines().zip(drawn.lines()).find(|(kept, drawn)| kept != drawn);
    assert!(kept == drawn, "{name} is drawn otherwise: look at it, then `cargo xtask pictures`. The first difference: {difference:?}");
}

#[test]
fn three_policies_are_drawn_as_they_were() {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
    let snapshot = Snapshot::of_documents([deployment(6, &json!({"strategy": strategy}))]);
    let edits = Edits { images: vec![("main".to_owned(), "main:2".to_owned())], ..Edits::default() };
    let edit = Edit { kind: WorkloadKind::Deployment, namespace: "default".to_owned(), name: "web".to_owned(), edits };
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
