//! `berth rollout history`: the revisions that a Deployment's ReplicaSets, or a StatefulSet's ControllerRevisions, keep.

use super::{
    cluster::Connection,
    error::Error,
    options::{History, HistoryOutput},
    report,
    revisions::{self, Kept},
    target::{Found, Kind},
};
use crate::progress::line;
use berth_api::annotations::{CHANGE_CAUSE, POD_TEMPLATE_HASH};
use berth_identity::Revision;
use berth_registry::table::age;
use berth_workloads::{
    deployment::annotations,
    view::{APPS_V1, DeploymentView, ReplicaSetView, View},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::core::Selector;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A ReplicaSet of a Deployment: what is read of it, and all of it.
pub(super) struct Set {
    pub(super) view: ReplicaSetView,
    json: String,
}

impl Set {
    /// Reads a ReplicaSet's JSON.
    ///
    /// # Errors
    /// It is not one's.
    pub(super) fn decode(json: String) -> Result<Self, Error> {
        let unexpected = |source| Error::Decode { what: "a ReplicaSet".to_owned(), source };
        Ok(Self { view: ReplicaSetView::decode(json.as_bytes(), Revision(0)).map_err(unexpected)?, json })
    }

    /// The pod template as it was given to the Deployment.
    pub(super) fn template(&self) -> Result<Value, Error> {
        let unexpected = |source| Error::Decode { what: format!("replicaset.apps/{}", self.view.meta.name), source };
        let mut object: Value = serde_json::from_str(&self.json).map_err(unexpected)?;
        let mut template = object["spec"]["template"].take();
        if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.remove(POD_TEMPLATE_HASH);
        }
        Ok(template)
    }
}

/// What is shown of a revision. The form is stable: fields are only ever added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    revision: i64,
    change_cause: Option<String>,
    images: Vec<String>,
    /// What keeps a Deployment's revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    replica_set: Option<String>,
    /// What keeps a StatefulSet's revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    controller_revision: Option<String>,
    /// Of the object that keeps it: what it was made for may have come and gone since.
    created: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listing<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    revisions: Vec<Row>,
}

/// Prints the revisions, oldest first, or one of them.
pub(super) async fn run(options: &History, connection: &Connection, workload: &Found) -> Result<(), Error> {
    let mut rows = match workload.kind {
        Kind::Deployment => rows(&sets(connection, workload, &deployment(workload)?).await?)?,
        Kind::StatefulSet => {
            let kept = revisions::list(connection, workload, &revisions::stateful_set(workload)?).await?;
            kept.iter().map(kept_row).collect()
        }
    };
    if rows.is_empty() {
        return Err(workload.fault("has no rollout history: its controller has made no revision of it"));
    }
    if options.revision == 0 {
        rows.iter_mut().for_each(|row| row.template = None);
    } else {
        rows.retain(|row| row.revision == options.revision);
        rows.truncate(1);
        if rows.is_empty() {
            return Err(unknown_revision(workload, options.revision));
        }
    }
    let listing = Listing { kind: workload.kind.name(), namespace: connection.namespace(), name: &workload.name, revisions: rows };
    match options.output {
        Some(HistoryOutput::Json) => line(&report::json(&listing)),
        Some(HistoryOutput::Yaml) => line(&report::yaml(&listing)?),
        None if options.revision != 0 => show_one(workload, &listing.revisions[0])?,
        None => line(&format!("{}\n{}", workload.title(), table(&listing.revisions, Timestamp::now()))),
    }
    Ok(())
}

/// The Deployment.
pub(super) fn deployment(workload: &Found) -> Result<DeploymentView, Error> {
    workload.view()
}

/// `unable to find specified revision …`.
pub(super) fn unknown_revision(workload: &Found, revision: i64) -> Error {
    let list = format!("`berth rollout history {}` lists them", workload.title());
    Error::Rollout(format!("unable to find specified revision {revision} in history; {list}"))
}

/// The ReplicaSets that the Deployment controls and selects.
pub(super) async fn sets(connection: &Connection, workload: &Found, deployment: &DeploymentView) -> Result<Vec<Set>, Error> {
    let selector = selector_text(workload, deployment.spec.selector.as_ref())?;
    let items = connection.list(APPS_V1, "replicasets", Some(&selector)).await?;
    let mut sets = items.into_iter().map(|item| Set::decode(item.json)).collect::<Result<Vec<_>, _>>()?;
    sets.retain(|set| set.view.meta.is_controlled_by(&deployment.meta.uid));
    Ok(sets)
}

/// A workload's selector as a list request takes it.
pub(super) fn selector_text(workload: &Found, selector: Option<&LabelSelector>) -> Result<String, Error> {
    let parsed = Selector::try_from(selector.cloned().unwrap_or_default());
    parsed.map(|selector| selector.to_string()).map_err(|error| workload.fault(format!("has a selector that is not valid: {error}")))
}

/// Oldest revision first; sets without a revision have not been rolled out.
fn rows(sets: &[Set]) -> Result<Vec<Row>, Error> {
    let numbered = sets.iter().filter_map(|set| Some((set, annotations::revision(&set.view.annotations)?)));
    let mut rows = numbered.map(|(set, revision)| row(set, revision)).collect::<Result<Vec<_>, _>>()?;
    rows.sort_by(|a, b| (a.revision, &a.replica_set).cmp(&(b.revision, &b.replica_set)));
    Ok(rows)
}

fn row(set: &Set, revision: i64) -> Result<Row, Error> {
    let template = set.template()?;
    Ok(Row {
        revision,
        change_cause: cause(Some(&set.view.annotations)),
        images: images(&template),
        replica_set: Some(set.view.meta.name.to_string()),
        controller_revision: None,
        created: set.view.meta.created,
        template: Some(template),
    })
}

fn kept_row(kept: &Kept) -> Row {
    let (meta, template) = (&kept.0.metadata, kept.template());
    Row {
        revision: kept.number(),
        change_cause: cause(meta.annotations.as_ref()),
        images: images(&template),
        replica_set: None,
        controller_revision: meta.name.clone(),
        created: meta.creation_timestamp.as_ref().map(|time| time.0),
        template: Some(template),
    }
}

fn cause(annotations: Option<&BTreeMap<String, String>>) -> Option<String> {
    annotations?.get(CHANGE_CAUSE).filter(|cause| !cause.is_empty()).cloned()
}

fn images(template: &Value) -> Vec<String> {
    let containers = template.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    containers.map(|container| container["image"].as_str().unwrap_or_default().to_owned()).collect()
}

fn table(rows: &[Row], now: Timestamp) -> String {
    let cells = |row: &Row| {
        let cause = row.change_cause.clone().unwrap_or_else(|| "<none>".to_owned());
        [row.revision.to_string(), cause, row.images.join(","), age::since(row.created.map(Time).as_ref(), now)]
    };
    report::table(["REVISION", "CHANGE-CAUSE", "IMAGES", "AGE"], &rows.iter().map(cells).collect::<Vec<_>>())
}

fn show_one(workload: &Found, row: &Row) -> Result<(), Error> {
    line(&format!("{} with revision #{}", workload.title(), row.revision));
    if let Some(cause) = &row.change_cause {
        line(&format!("Change-cause: {cause}"));
    }
    line(&format!("Pod Template:\n{}", report::yaml(&row.template)?));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(name: &str, annotations: &Value, image: &str) -> Set {
        let json = json!({
            "metadata": {"name": name, "annotations": annotations, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"template": {
                "metadata": {"labels": {"app": "web", "pod-template-hash": "x"}},
                "spec": {"containers": [{"name": "a", "image": image}, {"name": "b", "image": "log:1"}], "ofTomorrow": true},
            }},
        })
        .to_string();
        Set::decode(json).expect("a ReplicaSet")
    }

    #[test]
    fn revisions_are_listed_by_number_with_cause_images_and_age() {
        let sets = [
            set("web-c", &json!({"deployment.kubernetes.io/revision": "10", "kubernetes.io/change-cause": "faster"}), "web:3"),
            set("web-a", &json!({"deployment.kubernetes.io/revision": "9", "kubernetes.io/change-cause": ""}), "web:1"),
            set("web-b", &json!({"deployment.kubernetes.io/revision": "none"}), "web:2"),
        ];
        let text = table(&rows(&sets).expect("templates"), "2026-01-01T00:05:00Z".parse().expect("a time"));
        assert_eq!(
            text,
            "REVISION   CHANGE-CAUSE   IMAGES        AGE\n9          <none>         web:1,log:1   5m\n10         faster         web:3,log:1   5m"
        );
    }

    #[test]
    fn a_template_keeps_all_but_the_hash() {
        let template = set("web-a", &json!({}), "web:1").template().expect("a template");
        assert_eq!(template["metadata"]["labels"], json!({"app": "web"}));
        assert_eq!(template["spec"]["ofTomorrow"], true);
    }
}
