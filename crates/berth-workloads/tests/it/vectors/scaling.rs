//! Vectors of scaling several ReplicaSets: carried through the whole plan of a paused Deployment, which only scales.

use super::{Check, case, check};
use crate::cluster_model::{ClusterModel, Stored, template};
use berth_identity::Revision;
use berth_workloads::deployment::{limits::Size, scale::Scale};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("partial_scaling_computed", partial),
    ("partial_scaling_seed_tables", partial),
    ("proportional_scaling", proportional),
    ("replicaset_fraction", fraction),
];

case! {
    FractionCase {
        name: String, replicas: i64, max_surge: i64, deployment_status_replicas: i64, replica_set_replicas: i64,
        max_replicas_annotation: Option<String>, expected: i64,
    }
    ProportionalCase {
        name: String, strategy: String, replicas: i64, max_surge: i64, replica_sets: Vec<SizedSet>, expected: BTreeMap<String, i64>,
        note: Option<String>,
    }
    SizedSet {
        name: String, role: String, replicas: i64, created: i64, available_replicas: i64, annotations: BTreeMap<String, String>,
    }
    PartialCase {
        name: String, strategy: String, pod_replacement_policy: String, created: BTreeMap<String, i64>, rows: Vec<Row>,
        note: Option<String>,
    }
    Row { time: String, terminating_replicas: i64, replicas: i64, max_replicas: i64, replica_sets: BTreeMap<String, RowSet> }
}

#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RowSet {
    replicas: i64,
    annotations: BTreeMap<String, String>,
}

fn fraction(text: &str) -> Vec<String> {
    check(text, |case: FractionCase| {
        let max = berth_workloads::deployment::annotations::pod_count(case.max_replicas_annotation.as_deref());
        let set = Scale { size: case.replica_set_replicas, max, ..Scale::default() };
        let size = Size { desired: case.replicas, surge: case.max_surge, unavailable: 0, min_available: 0 };
        (case.expected, set.share(size, case.deployment_status_replicas) - set.size)
    })
}

/// A paused Deployment.
fn model(strategy: &str, policy: Option<&str>, replicas: i64, surge: i64) -> ClusterModel {
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": 1}});
    let strategy = if strategy == "Recreate" { json!({"type": "Recreate"}) } else { rolling };
    ClusterModel::new(json!({"replicas": replicas, "strategy": strategy, "paused": true, "podReplacementPolicy": policy}))
}

fn add_set(
    model: &mut ClusterModel,
    name: &str,
    number: u32,
    created: i64,
    spec: i64,
    annotations: &BTreeMap<String, String>,
    status: &Value,
) {
    let created = super::at(created).to_string();
    let metadata = json!({
        "name": name, "namespace": "shop", "uid": name, "generation": 1, "creationTimestamp": created, "annotations": annotations,
        "labels": {"app": "web"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web", "controller": true}],
    });
    let spec = json!({"replicas": spec, "selector": {"matchLabels": {"app": "web"}}, "template": template(number)});
    model.sets.insert(name.to_owned(), Stored::new(json!({"metadata": metadata, "spec": spec, "status": status}), Revision(1)));
}

fn proportional(text: &str) -> Vec<String> {
    check(text, |case: ProportionalCase| {
        let mut model = model(&case.strategy, None, case.replicas, case.max_surge);
        for (number, set) in (10..).zip(&case.replica_sets) {
            let number = if set.role == "new" { 1 } else { number };
            let status = json!({"replicas": set.replicas, "availableReplicas": set.available_replicas, "observedGeneration": 1});
            add_set(&mut model, &set.name, number, set.created, set.replicas, &set.annotations, &status);
        }
        let plan = model.plan_deployment();
        model.execute(plan, usize::MAX);
        (case.expected, model.sizes())
    })
}

/// Every row follows from the one before.
fn partial(text: &str) -> Vec<String> {
    check(text, |case: PartialCase| {
        let newest = case.created.iter().max_by_key(|(_, created)| **created).expect("a set").0;
        let rows = case.rows.windows(2).map(|rows| (rows[1].replica_sets.clone(), next_row(&case, newest, &rows[0], &rows[1])));
        rows.unzip::<_, _, Vec<_>, Vec<_>>()
    })
}

fn next_row(case: &PartialCase, newest: &str, before: &Row, row: &Row) -> BTreeMap<String, RowSet> {
    let mut model = model(&case.strategy, Some(&case.pod_replacement_policy), row.replicas, row.max_replicas - row.replicas);
    for (number, (name, set)) in (10..).zip(&before.replica_sets) {
        let number = if name == newest { 1 } else { number };
        let terminating = if name == newest { row.terminating_replicas } else { 0 };
        let status = json!({"replicas": set.replicas, "observedGeneration": 1, "terminatingReplicas": terminating});
        add_set(&mut model, name, number, case.created[name], set.replicas, &set.annotations, &status);
    }
    let plan = model.plan_deployment();
    model.execute(plan, usize::MAX);
    let scaling = |annotations: &Value| {
        let mut annotations: BTreeMap<String, String> = serde_json::from_value(annotations.clone()).expect("annotations");
        annotations.remove("deployment.kubernetes.io/revision");
        annotations
    };
    let result = |set: &Stored| RowSet {
        replicas: set.json["spec"]["replicas"].as_i64().expect("a size"),
        annotations: scaling(&set.json["metadata"]["annotations"]),
    };
    model.sets.iter().map(|(name, set)| (name.clone(), result(set))).collect()
}
