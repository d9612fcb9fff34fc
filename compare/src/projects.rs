//! Definitions that people publish, and objects of them: both servers get each, and their answers are compared.
//!
//! A folder has a folder for each project. Its files and those in its folders hold definitions and objects. Definitions come first. An object is created,
//! read in each version, and written back as it was read.

use crate::{
    documents,
    print::print,
    served::{Answer, Ask, Pair},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How long a definition has until both servers serve it.
const SERVED_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
/// What differs in each run.
const OF_THE_RUN: [&str; 3] = ["uid", "resourceVersion", "creationTimestamp"];

/// How much was compared, and how much of it differed.
#[derive(Debug, Default)]
pub(crate) struct Found {
    projects: usize,
    definitions: usize,
    accepted: usize,
    objects: usize,
    valid_objects: usize,
    /// Answers to reads and updates.
    others: usize,
    pub(crate) differences: usize,
}

/// Compares all projects of a folder. `None` where there is no real Kubernetes.
pub(crate) async fn run(folder: &Path) -> Option<Found> {
    let pair = Pair::start_for_manifests().await?;
    let mut found = Found::default();
    for project in folders(folder) {
        found.projects += 1;
        one(&pair, &project, &mut found).await;
    }
    print(&format!("{found:?}"));
    assert!(0 < found.definitions, "the folder contains no definition");
    Some(found)
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// A version that the definitions of a project describe.
struct Served {
    group: String,
    version: String,
    plural: String,
    is_namespaced: bool,
}

impl Served {
    fn collection(&self) -> String {
        let Self { group, version, plural, is_namespaced } = self;
        format!("/apis/{group}/{version}{}/{plural}", if *is_namespaced { "/namespaces/default" } else { "" })
    }
}

async fn one(pair: &Pair, project: &Path, found: &mut Found) {
    let name = project.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (definitions, objects): (Vec<Value>, Vec<Value>) =
        documents::all(project).into_iter().partition(|object| object["kind"] == "CustomResourceDefinition");
    let mut kinds: BTreeMap<String, Vec<Served>> = BTreeMap::new();
    for definition in &definitions {
        let answers = ask(pair, "POST", DEFINITIONS, definition).await;
        found.definitions += 1;
        found.accepted += usize::from(answers[0].is_good());
        compare(&format!("{name}: {}", definition["metadata"]["name"]), &answers, found);
        if answers.iter().all(Answer::is_good) {
            let of_kind = kinds.entry(text(&definition["spec"]["names"]["kind"]).to_owned()).or_default();
            of_kind.extend(served(definition));
        }
    }
    for served in kinds.values().flatten() {
        until_served(pair, &served.collection()).await;
    }
    for object in objects {
        let Some(of_kind) = kinds.get(text(&object["kind"])) else { continue };
        let is_its = |served: &&Served| object["apiVersion"] == format!("{}/{}", served.group, served.version);
        let Some(served) = of_kind.iter().find(is_its) else { continue };
        let others: Vec<&Served> = of_kind.iter().filter(|other| other.group == served.group).collect();
        round_trip(pair, &name, (served, &others), object, found).await;
    }
    print(&format!("{name}: {found:?}"));
}

/// The served versions of a definition.
fn served(definition: &Value) -> impl Iterator<Item = Served> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
    versions.map(|version| Served {
        group: text(&spec["group"]).to_owned(),
        version: text(&version["name"]).to_owned(),
        plural: text(&spec["names"]["plural"]).to_owned(),
        is_namespaced: spec["scope"] == "Namespaced",
    })
}

async fn until_served(pair: &Pair, path: &str) {
    let started = Instant::now();
    for server in [&pair.theirs, &pair.ours] {
        while !server.read(path).await.is_good() && started.elapsed() < SERVED_WITHIN {
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Creates an object, reads it in all versions, and writes it back.
async fn round_trip(pair: &Pair, project: &str, (served, others): (&Served, &[&Served]), mut object: Value, found: &mut Found) {
    if served.is_namespaced {
        object["metadata"]["namespace"] = json!("default");
    }
    let (what, path) = (format!("{project}: {} {}", object["kind"], object["metadata"]["name"]), served.collection());
    let created = ask(pair, "POST", &path, &object).await;
    found.objects += 1;
    found.valid_objects += usize::from(created[0].is_good());
    compare(&what, &created, found);
    if !created.iter().all(Answer::is_good) {
        return;
    }
    let name = text(&created[0].body["metadata"]["name"]).to_owned();
    for other in others {
        let path = format!("{}/{name}", other.collection());
        let read = [pair.theirs.read(&path).await, pair.ours.read(&path).await];
        found.others += 1;
        compare(&format!("{what} in {}", other.version), &read, found);
    }
    let path = format!("{path}/{name}?fieldValidation=Warn");
    let put = |answer: &Answer| Ask { method: "PUT", path: path.clone(), content_type: "application/json", body: answer.body.clone() };
    let updated = pair.ask(&put(&created[0]), &put(&created[1])).await;
    found.others += 1;
    compare(&format!("{what} written back"), &updated, found);
}

async fn ask(pair: &Pair, method: &'static str, path: &str, body: &Value) -> [Answer; 2] {
    let path = format!("{path}?fieldValidation=Warn");
    let ask = Ask { method, path, content_type: "application/json", body: body.clone() };
    pair.ask(&ask, &ask).await
}

fn compare(what: &str, answers: &[Answer; 2], found: &mut Found) {
    let [theirs, ours] = [0, 1].map(|at| comparable(&answers[at]));
    if theirs != ours {
        found.differences += 1;
        print(&format!("{what}\n  theirs {theirs}\n  ours   {ours}"));
    }
}

/// An answer without what differs in each run.
fn comparable(answer: &Answer) -> Value {
    let mut body = answer.body.clone();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        OF_THE_RUN.iter().for_each(|name| _ = metadata.remove(*name));
    }
    let managers = body.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for manager in managers.into_iter().flatten().filter_map(Value::as_object_mut) {
        manager.remove("time");
    }
    let mut warnings = answer.warnings.clone();
    warnings.sort();
    json!({"status": answer.status, "body": body, "warnings": warnings})
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
