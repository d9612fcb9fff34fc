//! `berth rollout history`: the revisions in a Deployment's ReplicaSets, or in the ControllerRevisions of a StatefulSet or a DaemonSet.

use super::{
    cluster::Connection,
    error::Error,
    features,
    options::{History, HistoryOutput},
    report,
    revision_report::{self, By, Cause, Course, Evidence, Promoted, Records, RolloutOutcome, RolloutStatus, Scaled, Source},
    revisions::{self, Owner},
    selector::selector_text,
    target::Found,
};
use crate::progress::{line, warn};
use berth_api::{
    Gate,
    annotations::{BERTH_CHANGED_BY, BERTH_PROMOTED_BY, BERTH_SCALED_BY, CHANGE_CAUSE, DESIRED_REPLICAS, POD_TEMPLATE_HASH},
};
use berth_chart::one_line;
use berth_identity::{Revision, RolloutRevision};
use berth_registry::table::age;
use berth_rollout::{
    daemon_set,
    state::{self, Rollout},
    stateful_set,
    status::RolloutStage,
};
use berth_workloads::{
    deployment::annotations::{self, Annotations},
    resources::{REPLICA_SETS, v1},
    rollback::Record,
    rollout_record::Rollout as RolloutRecord,
    view::{DaemonSetView, DeploymentStrategy, DeploymentView, ReplicaSetView, StatefulSetView, View},
    workload::WorkloadKind,
};
use jiff::Timestamp;
use k8s_openapi::{api::apps::v1::DeploymentCondition, apimachinery::pkg::apis::meta::v1::Time};
use serde::Serialize;
use serde_json::Value;

const COLUMNS: [&str; 8] = ["REVISION", "CHANGE-CAUSE", "IMAGES", "AGE", "TOOK", "ENDED", "CAUSE", "CHANGED-BY"];
/// The maximum width of a cell, in columns of a terminal.
const CELL_COLUMNS_MAX: usize = 60;
/// The maximum width of a note below the table.
const NOTE_COLUMNS_MAX: usize = 1200;

/// A ReplicaSet of a Deployment: its view and its JSON.
pub(super) struct Set {
    pub(super) view: ReplicaSetView,
    json: String,
}

impl Set {
    /// Decodes a ReplicaSet.
    ///
    /// # Errors
    /// It is not a ReplicaSet.
    pub(super) fn decode(json: String) -> Result<Self, Error> {
        let unexpected = |source| Error::Decode { what: "a ReplicaSet".to_owned(), source };
        Ok(Self { view: ReplicaSetView::decode(json.as_bytes(), Revision(0)).map_err(unexpected)?, json })
    }

    /// The pod template as in the Deployment.
    pub(super) fn template(&self) -> Result<Value, Error> {
        let unexpected = |source| Error::Decode { what: format!("replicaset.apps/{}", self.view.meta.name), source };
        let mut object: Value = serde_json::from_str(&self.json).map_err(unexpected)?;
        let mut template = object["spec"]["template"].take();
        if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.remove(POD_TEMPLATE_HASH);
        }
        Ok(template)
    }

    /// When its last pods were scaled down, according to its managed fields. `None` if it has pods, or its Deployment's size was 0.
    fn given_up(&self) -> Option<Timestamp> {
        let object: Value = serde_json::from_str(&self.json).ok()?;
        let is_wanted = self.view.annotations.get(DESIRED_REPLICAS).is_some_and(|desired| desired != "0");
        if object["spec"]["replicas"] != 0 || !is_wanted {
            return None;
        }
        let entries = object["metadata"]["managedFields"].as_array()?;
        let sized = entries.iter().filter(|entry| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null() && entry["subresource"].is_null());
        sized.filter_map(|entry| entry["time"].as_str()?.parse().ok()).max()
    }
}

/// The output for a revision. The format is stable: fields are only ever added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    revision: RolloutRevision,
    change_cause: Option<String>,
    images: Vec<String>,
    /// The ReplicaSet of a Deployment's revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    replica_set: Option<String>,
    /// The ControllerRevision of a StatefulSet's or a DaemonSet's revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    controller_revision: Option<String>,
    /// When that object was created. Its rollout may have been repeated since.
    created: Option<Timestamp>,
    /// The author of the template change.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<By>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
    #[serde(flatten)]
    course: Course,
    /// The authors of promotions, for the newest rollout with promotions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    promoted: Vec<Promoted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listing<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    /// The last recorded change of its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    scaled: Option<Scaled>,
    revisions: Vec<Row>,
}

/// A workload, as far as its history requires it.
struct Workload {
    annotations: Annotations,
    /// The number of its newest rollout.
    newest: Option<RolloutRevision>,
    /// The state of the newest rollout.
    standing: RolloutStatus,
    /// The author according to its managed fields.
    by_fields: Option<By>,
    /// Whether a rollout begins with the deletion of the former pods, as under Recreate.
    ends_first: bool,
}

/// Prints the revisions, oldest first, or one of them.
pub(super) async fn run(options: &History, connection: &Connection, workload: &Found) -> Result<(), Error> {
    let kept = kept(connection, workload).await?;
    if kept.is_empty() {
        return Err(no_history(workload));
    }
    let about = of_workload(workload, &kept)?;
    let records = records(connection, &about, &kept).await;
    let now = Timestamp::now();
    let mut rows = rows(&kept, &about, &records, now);
    if options.revision == RolloutRevision::UNSET {
        rows.iter_mut().for_each(|row| row.template = None);
    } else {
        rows.retain(|row| row.revision == options.revision);
        rows.truncate(1);
        if rows.is_empty() {
            return Err(unknown_revision(workload, options.revision));
        }
    }
    let scaled = Scaled::of(&about.annotations, &records);
    let (kind, namespace) = (workload.kind.name(), connection.namespace());
    let listing = Listing { kind, namespace, name: &workload.name, scaled, revisions: rows };
    match options.output {
        Some(HistoryOutput::Json) => line(&report::json(&listing)),
        Some(HistoryOutput::Yaml) => line(&report::yaml(&listing)?),
        None if options.revision != RolloutRevision::UNSET => show_one(workload, &listing.revisions[0])?,
        None => line(&format!("{}\n{}", workload.title(), show_all(&listing, now))),
    }
    Ok(())
}

/// The error that no controller has created a revision.
pub(super) fn no_history(workload: &Found) -> Error {
    workload.fault("has no rollout history: its controller has not created a revision")
}

/// Whether the records of authors are reliable. If there are no records, the cluster is not queried.
async fn records(connection: &Connection, about: &Workload, kept: &[Kept]) -> Records {
    let has_record = |kept: &Kept| RolloutRecord::of(&kept.annotations, kept.revision).is_some_and(|rollout| rollout.by.is_some());
    let is_told = [BERTH_CHANGED_BY, BERTH_SCALED_BY, BERTH_PROMOTED_BY].iter().any(|key| about.annotations.contains_key(*key));
    if !is_told && !kept.iter().any(has_record) {
        return Records::NotKept;
    }
    let records = features::records(connection).await;
    match &records {
        Records::Kept => (),
        Records::NotKept => warn(&format!(
            "ignoring annotations about users: the server does not write them (feature gate {}), so any client can have set them",
            Gate::RolloutRecords
        )),
        Records::Unknown(why) => warn(&format!("assuming that only the server writes the annotations about users: {why}")),
    }
    records
}

/// What is read of the workload besides its revisions.
fn of_workload(workload: &Found, kept: &[Kept]) -> Result<Workload, Error> {
    let object: Value = workload.decode(|json| serde_json::from_slice(json))?;
    let by_fields = By::of_fields(&object);
    let newest = kept.iter().map(|kept| kept.revision).max();
    Ok(match workload.kind {
        WorkloadKind::Deployment => {
            let view = deployment(workload)?;
            let newest = newest.filter(|newest| annotations::revision(&view.annotations) == Some(*newest));
            let ends_first = matches!(view.choices.strategy, Ok(DeploymentStrategy::Recreate));
            Workload { standing: of_deployment(&view), newest, by_fields, ends_first, annotations: view.annotations }
        }
        WorkloadKind::StatefulSet => {
            let view: StatefulSetView = workload.view()?;
            let standing = as_pending(stateful_set::pending(&view));
            Workload { standing, newest, by_fields, ends_first: false, annotations: view.annotations }
        }
        WorkloadKind::DaemonSet => {
            let view: DaemonSetView = workload.view()?;
            let progress = daemon_set::progress(&view);
            let standing = as_pending((progress.state != RolloutStage::Complete).then_some(progress.message));
            Workload { standing, newest, by_fields, ends_first: false, annotations: view.annotations }
        }
    })
}

/// The status of a rollout for which this is left to do.
fn as_pending(message: Option<String>) -> RolloutStatus {
    let state = if message.is_some() { RolloutOutcome::InProgress } else { RolloutOutcome::Complete };
    RolloutStatus { state, since: None, message }
}

fn of_deployment(view: &DeploymentView) -> RolloutStatus {
    let of_type = |condition: &&DeploymentCondition| condition.type_ == "Progressing";
    let progressing = view.status.conditions.iter().flatten().find(of_type);
    let since = progressing.and_then(|condition| condition.last_update_time.as_ref()).map(|time| time.0);
    let (state, message) = match state::of(view, view.status.terminating_replicas.unwrap_or_default()) {
        Rollout::Waiting(_) if view.spec.paused => (RolloutOutcome::InProgress, Some("paused".to_owned())),
        Rollout::Waiting(pending) => (RolloutOutcome::InProgress, Some(pending.to_string())),
        Rollout::Done => (RolloutOutcome::Complete, None),
        Rollout::Failed(message) => (RolloutOutcome::Failed, Some(message)),
    };
    let message = progressing
        .filter(|condition| condition.reason.as_deref() == Some("StepWaiting"))
        .map_or(message, |condition| condition.message.clone());
    RolloutStatus { state, since, message }
}

/// The Deployment.
pub(super) fn deployment(workload: &Found) -> Result<DeploymentView, Error> {
    workload.view()
}

/// `unable to find specified revision …`.
pub(super) fn unknown_revision(workload: &Found, revision: RolloutRevision) -> Error {
    let list = format!("`berth rollout history {}` lists them", workload.arguments());
    Error::Rollout(format!("unable to find specified revision {revision} in history; {list}"))
}

/// The ReplicaSets that the Deployment controls and selects.
pub(super) async fn sets(connection: &Connection, workload: &Found, deployment: &DeploymentView) -> Result<Vec<Set>, Error> {
    let selector = selector_text(workload, deployment.spec.selector.as_ref())?;
    let items = connection.list(&v1(REPLICA_SETS), Some(&selector)).await?;
    let mut sets = items.into_iter().map(|item| Set::decode(item.json)).collect::<Result<Vec<_>, _>>()?;
    sets.retain(|set| set.view.meta.is_controlled_by(&deployment.meta.uid));
    Ok(sets)
}

/// A revision, from either kind of object.
pub(super) struct Kept {
    pub(super) revision: RolloutRevision,
    name: String,
    kind: WorkloadKind,
    annotations: Annotations,
    created: Option<Timestamp>,
    /// The known former numbers of the template, oldest first.
    former: Vec<RolloutRevision>,
    /// When the last pods of a Deployment's revision were scaled down.
    given_up: Option<Timestamp>,
    pub(super) template: Value,
}

/// The workload's revisions, oldest first. A template that was not rolled out has none.
pub(super) async fn kept(connection: &Connection, workload: &Found) -> Result<Vec<Kept>, Error> {
    let mut kept = match workload.kind {
        WorkloadKind::Deployment => of_sets(sets(connection, workload, &deployment(workload)?).await?)?,
        WorkloadKind::StatefulSet | WorkloadKind::DaemonSet => {
            let all = revisions::list(connection, workload, &Owner::of(workload)?).await?;
            all.into_iter().map(|kept| of_controller_revision(workload.kind, kept)).collect()
        }
    };
    kept.sort_by(|a, b| (a.revision, &a.name).cmp(&(b.revision, &b.name)));
    Ok(kept)
}

fn of_sets(sets: Vec<Set>) -> Result<Vec<Kept>, Error> {
    let numbered = sets.into_iter().filter_map(|set| Some((annotations::revision(&set.view.annotations)?, set)));
    let each = numbered.map(|(revision, set)| {
        let (template, given_up, view) = (set.template()?, set.given_up(), set.view);
        Ok(Kept {
            revision,
            given_up,
            name: view.meta.name.to_string(),
            kind: WorkloadKind::Deployment,
            former: revision_report::former_revisions(&view.annotations),
            annotations: view.annotations,
            created: view.meta.created,
            template,
        })
    });
    each.collect()
}

fn of_controller_revision(kind: WorkloadKind, kept: revisions::Kept) -> Kept {
    let (revision, template, metadata) = (kept.number(), kept.template(), kept.0.metadata);
    let annotations = metadata.annotations.unwrap_or_default();
    Kept {
        revision,
        name: metadata.name.unwrap_or_default(),
        kind,
        former: RolloutRecord::of(&annotations, revision).and_then(|rollout| rollout.former_revision).into_iter().collect(),
        annotations,
        created: metadata.creation_timestamp.map(|time| time.0),
        given_up: None,
        template,
    }
}

fn rows(kept: &[Kept], about: &Workload, records: &Records, now: Timestamp) -> Vec<Row> {
    let had = |kept: &Kept, number: RolloutRevision| kept.revision == number || kept.former.contains(&number);
    // The former rollout's template may have another number by now.
    let before = |revision: RolloutRevision| kept.iter().find(|kept| had(kept, revision.previous()));
    kept.iter().map(|kept| row(kept, before(kept.revision), about, records, now)).collect()
}

fn row(kept: &Kept, before: Option<&Kept>, about: &Workload, records: &Records, now: Timestamp) -> Row {
    let is_newest = about.newest == Some(kept.revision);
    let rollout = RolloutRecord::of(&kept.annotations, kept.revision);
    let recorded = rollout.as_ref().and_then(|rollout| By::recorded(rollout.by.clone()?, records));
    let changed = recorded.or_else(|| about.by_fields.clone().filter(|_| is_newest));
    // Without a record, the object of a repeated revision only has the time of its first rollout.
    let began = if kept.former.is_empty() { kept.created } else { changed.as_ref().map(|by| by.at) };
    let changed_at = changed.as_ref().map(|by| by.at);
    let given_up = before.filter(|_| about.ends_first).and_then(|before| began_by(before.given_up?, changed_at, kept.created?));
    let course = revision_report::course(rollout.as_ref(), is_newest.then(|| about.standing.clone()), began, given_up, now);
    let rollback = Record::of(&kept.annotations);
    let cause = revision_report::cause(&Evidence {
        revision: kept.revision,
        by: changed.as_ref(),
        rollback: rollback.as_ref(),
        former_revision: kept.former.last().copied(),
        is_first: kept.revision == RolloutRevision::FIRST,
        template: &kept.template,
        before: before.map(|before| &before.template),
    });
    let is_in_set = kept.kind == WorkloadKind::Deployment;
    Row {
        revision: kept.revision,
        change_cause: kept.annotations.get(CHANGE_CAUSE).filter(|cause| !cause.is_empty()).cloned(),
        images: images(&kept.template),
        replica_set: is_in_set.then(|| kept.name.clone()),
        controller_revision: (!is_in_set).then(|| kept.name.clone()),
        created: kept.created,
        changed,
        cause,
        course,
        promoted: Promoted::of(&about.annotations, kept.revision, records),
        template: Some(kept.template.clone()),
    }
}

/// When a rollout began that creates its ReplicaSet last: when the former pods were scaled down, or when a newer template was set
/// meanwhile.
fn began_by(given_up: Timestamp, changed: Option<Timestamp>, created: Timestamp) -> Option<Timestamp> {
    let began = changed.filter(|changed| *changed <= created).map_or(given_up, |changed| changed.max(given_up));
    (began <= created).then_some(began)
}

fn images(template: &Value) -> Vec<String> {
    let containers = template.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    containers.map(|container| container["image"].as_str().unwrap_or_default().to_owned()).collect()
}

fn show_all(listing: &Listing<'_>, now: Timestamp) -> String {
    let notes = listing.revisions.iter().flat_map(notes).chain(listing.scaled.iter().map(|scaled| {
        let age = age::since(Some(&Time(scaled.by.at)), now);
        format!("{scaled} {age} ago")
    }));
    let notes: String = notes.map(|note| format!("\n  {}", one_line(&note, NOTE_COLUMNS_MAX))).collect();
    format!("{}{notes}", table(&listing.revisions, now))
}

fn table(rows: &[Row], now: Timestamp) -> String {
    let cells = |row: &Row| {
        let course = &row.course;
        let took = |seconds| match course.state {
            Some(RolloutOutcome::InProgress) => format!("{} so far", age::of_seconds(seconds)),
            _ => age::of_seconds(seconds),
        };
        let text = |text: Option<String>| one_line(text.as_deref().unwrap_or("-"), CELL_COLUMNS_MAX);
        [
            row.revision.to_string(),
            one_line(row.change_cause.as_deref().unwrap_or("<none>"), CELL_COLUMNS_MAX),
            one_line(&row.images.join(","), CELL_COLUMNS_MAX),
            age::since(course.began.or(row.created).map(Time).as_ref(), now),
            course.took_seconds.map_or_else(|| "-".to_owned(), took),
            course.outcome(),
            text(row.cause.as_ref().map(ToString::to_string)),
            text(row.changed.as_ref().map(ToString::to_string)),
        ]
    };
    report::table(COLUMNS, &rows.iter().map(cells).collect::<Vec<_>>())
}

/// Details that do not fit into the table.
fn notes(row: &Row) -> impl Iterator<Item = String> {
    let Row { revision, course, promoted, .. } = row;
    let made = match &row.cause {
        Some(Cause::Rollback { to_revision, from_revision, failed, message }) => Some(format!(
            "{revision}: rolled back automatically to revision {to_revision}, because revision {from_revision} {failed}: {message}"
        )),
        _ => None,
    };
    let outcome = course.message.as_ref().map(|message| format!("{revision}: {}: {message}", course.outcome()));
    let promoted = promoted.iter().map(move |promoted| format!("{revision}: {promoted}"));
    made.into_iter().chain(promoted).chain(outcome)
}

fn show_one(workload: &Found, row: &Row) -> Result<(), Error> {
    line(&format!("{} with revision #{}", workload.title(), row.revision));
    if let Some(cause) = &row.change_cause {
        line(&format!("Change-cause: {}", one_line(cause, NOTE_COLUMNS_MAX)));
    }
    if let Some(by) = row.changed.as_ref().filter(|by| by.source != Source::FieldManager) {
        line(&format!("Changed-by: {}", one_line(&by.to_string(), NOTE_COLUMNS_MAX)));
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

    fn of(sets: Vec<Set>, annotations: &[(&str, &str)], records: &Records) -> Vec<Row> {
        let mut kept = of_sets(sets).expect("templates");
        kept.sort_by_key(|kept| kept.revision);
        let annotations: Annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let standing = RolloutStatus {
            state: RolloutOutcome::InProgress,
            since: None,
            message: Some("1 out of 3 new replicas have been updated".to_owned()),
        };
        let about =
            Workload { newest: kept.iter().map(|kept| kept.revision).max(), standing, by_fields: None, ends_first: false, annotations };
        rows(&kept, &about, records, "2026-01-01T00:05:00Z".parse().expect("a time"))
    }

    fn shown(rows: Vec<Row>, scaled: Option<Scaled>) -> String {
        let listing = Listing { kind: "Deployment", namespace: "default", name: "web", scaled, revisions: rows };
        show_all(&listing, "2026-01-01T00:05:00Z".parse().expect("a time"))
    }

    #[test]
    fn revisions_are_listed_by_number_with_what_is_known_of_them() {
        let record = |revision: u8, user: &str, ended: &str| {
            format!(
                r#"{{"revision":{revision},"began":"2026-01-01T00:00:0{revision}Z","by":{{"at":"2026-01-01T00:00:01Z","user":"{user}","manager":"kubectl-set"}}{ended}}}"#
            )
        };
        let complete = record(1, "alice", r#","ended":{"at":"2026-01-01T00:01:01Z","how":"Complete"}"#);
        let failed =
            record(2, "b\\u001b[2Jb", r#","ended":{"at":"2026-01-01T00:02:02Z","how":"Failed","reason":"crash","message":"it\ncrashes"}"#);
        let sets = || {
            vec![
                set("web-c", &json!({"deployment.kubernetes.io/revision": "3", "kubernetes.io/change-cause": "faster"}), "web:3"),
                set(
                    "web-a",
                    &json!({"deployment.kubernetes.io/revision": "1", "kubernetes.io/change-cause": "", "berth.dev/rollout": complete}),
                    "web:1",
                ),
                set("web-x", &json!({"deployment.kubernetes.io/revision": "none"}), "web:9"),
                set("web-b", &json!({"deployment.kubernetes.io/revision": "2", "berth.dev/rollout": failed}), "web:2"),
            ]
        };
        let text = [
            "REVISION   CHANGE-CAUSE   IMAGES        AGE     TOOK        ENDED         CAUSE     CHANGED-BY",
            "1          <none>         web:1,log:1   4m59s   60s         complete      created   alice (kubectl-set)",
        ];
        let table = shown(of(sets(), &[], &Records::Kept), None);
        let lines: Vec<&str> = table.lines().collect();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!([words(lines[0]), words(lines[1])], text.map(words));
        assert_eq!(words(lines[2]), words(r"2 <none> web:2,log:1 4m58s 2m failed image b\u{1b}[2Jb (kubectl-set)"), "{table}");
        assert_eq!(words(lines[3]), words("3 faster web:3,log:1 5m 5m so far in progress image -"));
        assert_eq!(lines[4..], ["  2: failed: it crashes", "  3: in progress: 1 out of 3 new replicas have been updated"]);
        let rows = of(sets(), &[], &Records::NotKept);
        assert!(rows.iter().all(|row| row.changed.is_none()), "any client can have written it");
        assert_eq!(rows[0].course.state, Some(RolloutOutcome::Complete), "what became of it is the controller's word");
    }

    #[test]
    fn what_a_program_reads_of_a_revision_is_as_promised() {
        let annotations = json!({
            "deployment.kubernetes.io/revision": "5", "deployment.kubernetes.io/revision-history": "1,3",
            "berth.dev/rollback": r#"{"revision":5,"templateHash":"x","fromRevision":4,"toRevision":3,"reason":"crash","message":"no"}"#,
            "berth.dev/rollout": r#"{"revision":5,"began":"2026-01-01T00:00:02Z","by":{"at":"2026-01-01T00:00:01Z","manager":"berth-controller-manager"},"ended":{"at":"2026-01-01T00:00:12Z","how":"Superseded","revision":6}}"#,
        });
        let row = of(vec![set("web-a", &annotations, "web:1")], &[], &Records::Kept).remove(0);
        let json = serde_json::to_value(Row { template: None, ..row.clone() }).expect("JSON");
        assert_eq!(
            json,
            json!({
                "revision": 5, "changeCause": null, "images": ["web:1", "log:1"], "replicaSet": "web-a", "created": "2026-01-01T00:00:00Z",
                "changed": {"at": "2026-01-01T00:00:01Z", "manager": "berth-controller-manager", "source": "Server"},
                "cause": {"kind": "rollback", "toRevision": 3, "fromRevision": 4, "message": "no"},
                "began": "2026-01-01T00:00:02Z", "state": "Superseded", "ended": "2026-01-01T00:00:12Z", "tookSeconds": 10, "nextRevision": 6,
            })
        );
        let text = shown(vec![row], None);
        assert!(
            text.ends_with("\n  5: rolled back automatically to revision 3, because revision 4 missed its progress deadline: no"),
            "{text}"
        );
    }

    /// Under Recreate, the ReplicaSet is created after the former pods are deleted.
    #[test]
    fn a_rollout_of_recreate_begins_with_the_end_of_the_pods_before() {
        let second = |second: u8| format!("2026-01-01T00:00:{second:02}Z");
        let took = |desired: &str, resized: u8, changed: u8, ends_first| {
            let set = |revision: &str, replicas: u8, created, resized| {
                let annotations =
                    json!({"deployment.kubernetes.io/revision": revision, "deployment.kubernetes.io/desired-replicas": desired});
                let managed = json!([{"time": second(resized), "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
                let metadata =
                    json!({"name": revision, "annotations": annotations, "creationTimestamp": second(created), "managedFields": managed});
                let template = json!({"metadata": {}, "spec": {"containers": [{"name": "a", "image": revision}]}});
                Set::decode(json!({"metadata": metadata, "spec": {"replicas": replicas, "template": template}}).to_string()).expect("a set")
            };
            let kept = of_sets(vec![set("1", 0, 1, resized), set("2", 3, 20, 20)]).expect("templates");
            let at = second(changed).parse().expect("a time");
            let by_fields = Some(By { at, user: None, manager: "kubectl".to_owned(), source: Source::FieldManager });
            let standing = RolloutStatus { state: RolloutOutcome::Complete, since: second(25).parse().ok(), message: None };
            let about = Workload { newest: Some(RolloutRevision(2)), standing, by_fields, ends_first, annotations: Annotations::new() };
            rows(&kept, &about, &Records::NotKept, second(30).parse().expect("a time"))[1].course.took_seconds
        };
        assert_eq!(took("3", 14, 14, true), Some(11), "from the scale-down of the set before");
        assert_eq!(took("3", 14, 17, true), Some(8), "another template came while it waited");
        assert_eq!(took("3", 14, 5, true), Some(11), "it was paused at first");
        assert_eq!(took("3", 14, 28, true), Some(11), "changed again later, in something else");
        assert_eq!(took("0", 14, 14, true), Some(5), "its owner had scaled it to 0 before");
        assert_eq!(took("3", 22, 19, true), Some(5), "written later for another reason");
        assert_eq!(took("3", 14, 14, false), Some(5), "a rolling update makes its set first");
    }

    #[test]
    fn a_template_keeps_all_but_the_hash() {
        let template = set("web-a", &json!({}), "web:1").template().expect("a template");
        assert_eq!(template["metadata"]["labels"], json!({"app": "web"}));
        assert_eq!(template["spec"]["ofTomorrow"], true);
    }
}
