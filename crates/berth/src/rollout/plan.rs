//! `berth plan` and `berth rollout victims`: forecast a change, from a snapshot of any cluster or of files. `berth-plan` has the texts.

use super::{
    cluster::{Connection, Item, NOT_FOUND, Part},
    error::Error,
    features,
    options::{PlanOptions, PlanOutput, Target, Victims},
    picture, report,
    target::Selection,
    usage,
};
use crate::{
    cluster_options::ClusterOptions,
    manifests::{self, Depth, Document},
    progress::{self, warn},
};
use berth_identity::{GroupResource, GroupVersionKind, ObjectKey};
use berth_node::kubelet::{KnownObject, KnownObjects};
use berth_plan::{
    ADMISSION_KINDS, Change, DEFINITIONS, Edit, Edits, Failure, Forecast, KINDS, KnownGates, KnownUsage, ObjectQuery, QueriedObjects,
    RefusedPod, Snapshot, SnapshotKind, SnapshotScope, Suppositions,
};
use berth_remote::Refusal;
use berth_workloads::{
    resources::{EVENT, EVENTS, SECRETS, v1},
    workload::{WorkloadId, WorkloadKind},
};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::PathBuf, process::ExitCode};

/// The exit code if a `--fail-on` event happens. Exit code 1 means that there is no plan.
const FAILED: u8 = 3;

/// Prints the forecast of a change.
///
/// # Errors
/// Input that cannot be read, and errors of the API server.
pub(crate) fn run(options: &PlanOptions) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (snapshot, change, of_cluster) = runtime.block_on(prepare(options))?;
    let suppositions = Suppositions {
        controllers: options.controllers.map(Into::into),
        start: options.start,
        stop: options.stop,
        analyses: options.analysis.into(),
        ..of_cluster
    };
    let forecast = berth_plan::forecast(&snapshot, &change, &suppositions)?;
    let alternatives = if options.compare { berth_plan::compare(&snapshot, &change, &suppositions)? } else { Vec::new() };
    let spread = match options.runs {
        0 | 1 => None,
        runs => {
            let style = ProgressStyle::with_template("  {bar:24} {pos} of {len} runs").expect("the template is a constant");
            let bar = ProgressBar::new(runs).with_style(style);
            let spread = berth_plan::forecast_many(&snapshot, &change, &suppositions, runs, |done| bar.set_position(done))?;
            bar.finish_and_clear();
            Some(spread)
        }
    };
    let charts: Vec<_> = if options.compare {
        alternatives.iter().flat_map(|alternative| alternative.charts(&change)).collect()
    } else {
        berth_plan::charts(&forecast, &change)
    };
    let mut text = berth_plan::text(&forecast, spread.as_ref()).trim_end().to_owned();
    if options.compare {
        text = format!("{text}\n\n{}", berth_plan::compared(&alternatives).trim_end());
    }
    match options.output {
        Some(PlanOutput::Json) => {
            let mut plan = json!({"forecast": forecast});
            spread.iter().for_each(|spread| plan["spread"] = json!(spread));
            if options.compare {
                plan["alternatives"] = json!(alternatives);
            }
            progress::line(&report::json(&plan));
        }
        None => progress::line(&text),
    }
    if options.chart {
        picture::show(&charts);
    }
    if let Some(file) = &options.output_file {
        picture::write(file, "What the change will do", &charts, &text)?;
    }
    Ok(judged(&forecast, options))
}

fn judged(forecast: &Forecast, options: &PlanOptions) -> ExitCode {
    let on: Vec<Failure> = options.fail_on.iter().map(|failure| (*failure).into()).collect();
    let failures = forecast.failures(&on);
    failures.iter().for_each(|failure| warn(&format!("--fail-on: {failure}")));
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

/// Prints the pods that would be deleted.
pub(super) async fn victims(options: &Victims, cluster: &ClusterOptions) -> Result<(), Error> {
    let edits = Edits { replicas: Some(options.replicas), ..Edits::default() };
    let mut source = SnapshotSource::open(&options.from, cluster).await?;
    let change = Change { edits: edits_of(&options.target.resources, &edits, &source)?, ..Change::default() };
    let snapshot = source.snapshot(&change).await?;
    let gates = source.gates().await;
    let suppositions = Suppositions { controllers: options.controllers.map(Into::into), gates, ..Suppositions::default() };
    let forecast = berth_plan::forecast(&snapshot, &change, &suppositions).map_err(|error| Error::Usage(progress::chain(&error)))?;
    match options.output {
        Some(PlanOutput::Json) => progress::line(&report::json(&json!({"victims": gone(&forecast)}))),
        None => progress::line(berth_plan::victims(&forecast).trim_end()),
    }
    Ok(())
}

/// The deleted pods, in order.
fn gone(forecast: &Forecast) -> Vec<Value> {
    let steps = forecast.workloads.iter().flat_map(|workload| &workload.steps);
    steps.filter_map(|step| serde_json::to_value(step).ok()).filter(|step| step["does"] == "deletePods").collect()
}

/// The server's answers about the pods of the change.
#[derive(Default)]
struct Asked {
    refused: Vec<RefusedPod>,
    unasked: Option<String>,
}

/// Reads the input of a plan.
async fn prepare(options: &PlanOptions) -> Result<(Snapshot, Change, Suppositions), Error> {
    let mut source = SnapshotSource::open(&options.from, &options.cluster).await?;
    let images = options.image.clone();
    let edits = Edits { images, replicas: options.replicas, policy: options.policy.clone(), strategy: options.strategy.clone() };
    let mut change = Change { namespace: source.namespace().to_owned(), ..Change::default() };
    if options.filename.is_empty() {
        if edits == Edits::default() {
            return Err(Error::Usage("no change given: add -f, --image, --replicas, --policy or --strategy".to_owned()));
        }
        change.edits = edits_of(&options.resources, &edits, &source)?;
    } else {
        let documents = manifests::read(&options.filename, Depth::of(options.recursive)).await?;
        let others: Vec<String> = documents.iter().filter_map(Document::without_forecast).collect();
        if !others.is_empty() {
            warn(&format!("warning: the plan has no pods of {}", others.join(", ")));
        }
        change.manifests = documents.into_iter().map(|document| document.object).collect();
        // Options that a kind does not have are those of other kinds among the manifests.
        change.daemon_sets = Edits { policy: None, replicas: None, ..edits.clone() };
        (change.deployments, change.stateful_sets) = (edits.clone(), Edits { policy: None, ..edits });
    }
    let mut snapshot = source.snapshot(&change).await?;
    if let Some(connection) = source.cluster().filter(|_| options.server_dry_run) {
        change = answered(connection, &snapshot, change).await?;
    }
    let suppositions = match source.cluster() {
        Some(connection) => suppositions(connection, &mut snapshot, &change).await?,
        None => Suppositions::default(),
    };
    Ok((snapshot, change, suppositions))
}

/// The assumptions of a forecast about a cluster: its feature gates, which of the referenced objects exist, which pods its API server
/// rejects, and what pods with autoscalers use. The snapshot lists what could not be read.
///
/// # Errors
/// The cluster does not answer.
pub(super) async fn suppositions(connection: &Connection, snapshot: &mut Snapshot, change: &Change) -> Result<Suppositions, Error> {
    let (objects, unread) = objects(connection, change.references(snapshot)).await?;
    snapshot.missing.extend(unread);
    let gates = features::gates(connection).await;
    let Asked { refused, unasked } = ask_about_pods(connection, snapshot, change).await?;
    let usage = measured(connection, snapshot, change).await;
    let are_pods_asked = unasked.is_none();
    Ok(Suppositions { gates, refused, are_pods_asked, unasked, objects, usage, ..Suppositions::default() })
}

/// The usage of the pods that autoscalers of the changed workloads need. Without such autoscalers, nothing is read.
async fn measured(connection: &Connection, snapshot: &Snapshot, change: &Change) -> KnownUsage {
    let mut all = Vec::new();
    for namespace in berth_plan::measured_namespaces(snapshot, change) {
        match usage::of_pods(connection, Some(&namespace)).await {
            Ok(items) => all.extend(items),
            Err(error) => return KnownUsage::Unknown(progress::chain(&error).trim_end_matches('.').to_owned()),
        }
    }
    KnownUsage::Measured(all)
}

/// The known ConfigMaps and Secrets, and a sentence about unreadable ones, which count as existing. Only the metadata of a Secret is read.
async fn objects(connection: &Connection, named: BTreeSet<(GroupResource, ObjectKey)>) -> Result<(KnownObjects, Option<String>), Error> {
    let (mut known, mut refused) = (KnownObjects::new(), Vec::new());
    for (resource, key) in named {
        let part = if resource == SECRETS { Part::Metadata } else { Part::Whole };
        let object = match connection.in_namespace(&key.namespace).find(&v1(resource.clone()), &key.name, part).await {
            Ok(None) => KnownObject::Missing,
            Ok(Some(_)) if part == Part::Metadata => KnownObject::Exists,
            Ok(Some(text)) => KnownObject::with_keys_of(text.as_bytes())
                .map_err(|source| Error::Decode { what: format!("{} {}", resource.plural, key.name), source })?,
            Err(Error::Refused { message, .. }) => {
                refused.push(message);
                KnownObject::Exists
            }
            Err(error) => return Err(error),
        };
        known.insert((resource, key), object);
    }
    let unread = refused.first().map(|why| {
        format!(
            "{} of the referenced ConfigMaps and Secrets cannot be read ({why}): the plan assumes that they exist, with every key",
            refused.len()
        )
    });
    Ok((known, unread))
}

/// Replaces the change by the server's dry-run results.
async fn answered(connection: &Connection, snapshot: &Snapshot, change: Change) -> Result<Change, Error> {
    let mut answers = Vec::new();
    for write in berth_plan::writes(snapshot, &change).map_err(|error| Error::Usage(progress::chain(&error)))? {
        let mut answer = connection.dry_run(&write).await.map_err(|error| match error {
            Error::Refused { code, message, hint } => {
                Error::Refused { code, message: format!("the server would reject {} {}: {message}", write.kind.kind, write.name), hint }
            }
            other => other,
        })?;
        (answer["apiVersion"], answer["kind"]) = (json!(write.kind.api_version()), json!(write.kind.kind));
        answers.push(answer);
    }
    Ok(change.answered(answers))
}

/// Sends one pod of each workload to the server as a dry run. Rejections by quotas are left to the forecast, which knows when there is room
/// again.
async fn ask_about_pods(connection: &Connection, snapshot: &Snapshot, change: &Change) -> Result<Asked, Error> {
    let pods = berth_plan::asked_pods(snapshot, change).map_err(|error| Error::Usage(progress::chain(&error)))?;
    let mut asked = Asked::default();
    for pod in pods {
        match connection.dry_run(&pod.write).await {
            Ok(_) => (),
            Err(Error::Refused { code, message, .. }) => match Refusal::of(code, &message) {
                Refusal::Quota => (),
                Refusal::Object => asked.refused.push(RefusedPod { pod, message }),
                Refusal::Right | Refusal::Request => asked.unasked = Some(message),
            },
            Err(error) => return Err(error),
        }
    }
    Ok(asked)
}

/// One edit for each workload on the command line.
fn edits_of(resources: &[String], edits: &Edits, source: &SnapshotSource) -> Result<Vec<Edit>, Error> {
    let target = Target { resources: resources.to_vec(), ..Target::default() };
    let Selection::Named(names) = Selection::parse(&target)? else {
        return Err(Error::Usage("add the workload as TYPE/NAME, such as deployment/web".to_owned()));
    };
    let edit = |(kind, name): (WorkloadKind, String)| {
        let workload = WorkloadId::new(kind, source.namespace(), name);
        Edit { workload, edits: edits.clone() }
    };
    Ok(names.into_iter().map(edit).collect())
}

/// The source of a snapshot.
enum SnapshotSource {
    Files { documents: Vec<Value>, namespace: String },
    Cluster(Box<Connection>),
}

impl SnapshotSource {
    async fn open(from: &[PathBuf], cluster: &ClusterOptions) -> Result<Self, Error> {
        if from.is_empty() {
            return Ok(Self::Cluster(Box::new(Connection::open(cluster).await?)));
        }
        let documents = manifests::read_cluster(from).await?.into_iter().map(|document| document.object).collect();
        Ok(Self::Files { documents, namespace: cluster.namespace.clone().unwrap_or_else(|| "default".to_owned()) })
    }

    fn namespace(&self) -> &str {
        match self {
            Self::Files { namespace, .. } => namespace,
            Self::Cluster(connection) => connection.namespace(),
        }
    }

    /// Reads all that a forecast of the change needs, but no Secrets.
    async fn snapshot(&mut self, change: &Change) -> Result<Snapshot, Error> {
        match self {
            Self::Files { documents, .. } => Ok(Snapshot::of_documents(std::mem::take(documents))),
            Self::Cluster(connection) => read(connection, change).await,
        }
    }

    /// The feature gates of the cluster. Without a cluster, the defaults.
    async fn gates(&self) -> KnownGates {
        match self.cluster() {
            Some(connection) => features::gates(connection).await,
            None => KnownGates::default(),
        }
    }

    fn cluster(&self) -> Option<&Connection> {
        match self {
            Self::Files { .. } => None,
            Self::Cluster(connection) => Some(connection),
        }
    }
}

pub(super) async fn read(connection: &Connection, change: &Change) -> Result<Snapshot, Error> {
    let of_manifests = change.manifests.iter().filter_map(|manifest| manifest["metadata"]["namespace"].as_str());
    let of_edits = change.edits.iter().map(|edit| &*edit.workload.namespace);
    let namespaces: BTreeSet<&str> = of_manifests.chain(of_edits).chain([connection.namespace()]).collect();
    let (mut objects, mut missing) = (Vec::new(), Vec::new());
    // Without these kinds, no forecast is possible.
    let is_edited = |plural: &str| change.edits.iter().any(|edit| edit.workload.kind.resource().plural == *plural);
    let is_needed = |plural: &str| ["deployments", "statefulsets"].contains(&plural) || is_edited(plural);
    for kind in KINDS {
        match kind_of(connection, kind, &namespaces).await {
            Ok(found) => objects.extend(found),
            Err(error) if is_needed(kind.resource.plural.as_str()) => return Err(error),
            Err(Error::Refused { message, .. }) => {
                missing.push(format!("{} cannot be read ({message}): {}", kind.resource.plural, kind.without));
                if kind.scope == SnapshotScope::All {
                    objects.extend(own(connection, kind, &namespaces).await?);
                }
            }
            Err(error) => return Err(error),
        }
    }
    let extended = extensions(connection, change).await?;
    objects.extend(extended.objects);
    missing.extend(extended.missing);
    // Events only provide pod times.
    for namespace in &namespaces {
        if let Ok(events) = connection.in_namespace(namespace).list(&v1(EVENTS), None).await {
            objects.extend(events.iter().filter_map(|event| typed(&EVENT, event)));
        }
    }
    let shown = Snapshot::of_documents(objects);
    // The server's clock may be ahead.
    Ok(Snapshot { at: shown.at.max(Timestamp::now()), missing, ..shown })
}

/// What extends the API server of a cluster.
#[derive(Default)]
struct Extended {
    objects: Vec<Value>,
    /// What could not be read, as sentences.
    missing: Vec<String>,
}

/// Reads the admission policies and webhooks, the parameters of the policies, and for custom objects of the change their definitions and what exists of
/// them.
async fn extensions(connection: &Connection, change: &Change) -> Result<Extended, Error> {
    let mut extended = Extended::default();
    for kind in ADMISSION_KINDS {
        if let Err(why) = extended.add_all(connection, kind).await? {
            // The first answer is enough, because rights to read them are usually given together.
            extended.missing.push(format!("{} cannot be read ({why}): {}", kind.resource.plural, kind.without));
            break;
        }
    }
    if berth_plan::needs_definitions(&extended.objects, change)
        && let Err(why) = extended.add_all(connection, &DEFINITIONS).await?
    {
        extended.missing.push(format!("{} cannot be read ({why}): {}", DEFINITIONS.resource.plural, DEFINITIONS.without));
    }
    for query in berth_plan::object_queries(&extended.objects, change) {
        match queried(connection, &query).await {
            Ok(found) => extended.objects.extend(found),
            Err(Error::Refused { message, .. }) => extended.missing.push(format!("{} cannot be read ({message})", query.resource.plural)),
            Err(error) => return Err(error),
        }
    }
    Ok(extended)
}

impl Extended {
    /// Adds all objects of a kind. An older server does not serve each kind. Returns why they cannot be read.
    async fn add_all(&mut self, connection: &Connection, kind: &SnapshotKind) -> Result<Result<(), String>, Error> {
        match connection.list_everywhere(&kind.resource, None).await {
            Ok(items) => self.objects.extend(items.iter().filter_map(|item| typed(&kind.kind, item))),
            Err(Error::Refused { code: NOT_FOUND, .. }) => (),
            Err(Error::Refused { message, .. }) => return Ok(Err(message)),
            Err(error) => return Err(error),
        }
        Ok(Ok(()))
    }
}

async fn queried(connection: &Connection, query: &ObjectQuery) -> Result<Vec<Value>, Error> {
    let ObjectQuery { kind, resource, namespace, which } = query;
    let own = namespace.as_ref().map(|namespace| connection.in_namespace(namespace));
    let items = match (which, &own) {
        (QueriedObjects::Named(name), Some(own)) => own.find(resource, name, Part::Whole).await?.into_iter().collect(),
        (QueriedObjects::Named(name), None) => connection.find_everywhere(resource, name).await?.into_iter().collect(),
        (QueriedObjects::Selected(selector), Some(own)) => texts(own.list(resource, Some(selector)).await?),
        (QueriedObjects::Selected(selector), None) => texts(connection.list_everywhere(resource, Some(selector)).await?),
    };
    Ok(items.iter().filter_map(|json| of_kind(kind, json)).collect())
}

fn texts(items: Vec<Item>) -> Vec<String> {
    items.into_iter().map(|item| item.json).collect()
}

async fn kind_of(connection: &Connection, kind: &SnapshotKind, namespaces: &BTreeSet<&str>) -> Result<Vec<Value>, Error> {
    let mut objects = Vec::new();
    if kind.resource.plural == "namespaces" {
        // A user who may read a namespace may not be allowed to list all.
        for namespace in namespaces {
            match connection.text(&format!("/api/v1/namespaces/{namespace}")).await {
                Ok(text) => objects.extend(serde_json::from_str::<Value>(&text).ok()),
                Err(Error::Refused { code: NOT_FOUND, .. }) => (),
                Err(error) => return Err(error),
            }
        }
        return Ok(objects);
    }
    if kind.scope == SnapshotScope::Namespace {
        return own(connection, kind, namespaces).await;
    }
    let items = connection.list_everywhere(&kind.resource, None).await?;
    objects.extend(items.iter().filter_map(|item| typed(&kind.kind, item)));
    Ok(objects)
}

/// The objects of these namespaces.
async fn own(connection: &Connection, kind: &SnapshotKind, namespaces: &BTreeSet<&str>) -> Result<Vec<Value>, Error> {
    let mut objects = Vec::new();
    for namespace in namespaces {
        let items = connection.in_namespace(namespace).list(&kind.resource, None).await?;
        objects.extend(items.iter().filter_map(|item| typed(&kind.kind, item)));
    }
    Ok(objects)
}

/// Adds the kind, which items of a list lack.
fn typed(kind: &GroupVersionKind, item: &Item) -> Option<Value> {
    of_kind(kind, &item.json)
}

fn of_kind(kind: &GroupVersionKind, json: &str) -> Option<Value> {
    let mut object: Value = serde_json::from_str(json).ok()?;
    object["apiVersion"] = json!(kind.group_version());
    object["kind"] = json!(kind.kind);
    Some(object)
}
