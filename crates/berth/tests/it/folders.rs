//! Folders that earlier builds have left (`testdata/folders`): a copy of each is opened, and everything is there.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::part::Part;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

fn kept() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/folders");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut found: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(".tar.gz")).collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

/// A copy, as `--data-dir`.
fn copy(archive: &Path) -> TempDir {
    let folder = TempDir::new().unwrap();
    let status = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder.path()).status().unwrap();
    assert!(status.success());
    folder
}

/// What the build that left it served of it: objects by the path of their list.
fn served_then(archive: &Path) -> BTreeMap<String, Vec<Value>> {
    let name = archive.to_string_lossy().replace(".tar.gz", ".json.gz");
    let text = Command::new("gzip").args(["-dc", &name]).output().unwrap();
    assert!(text.status.success());
    serde_json::from_slice(&text.stdout).unwrap()
}

fn berth(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_berth")).args(arguments).arg("--data-dir").arg(folder).output().unwrap()
}

async fn server(folder: &Path) -> (Part, Client) {
    let data_dir = folder.display().to_string();
    let mut server = Part::start(&["apiserver", "--secure-port", "0", "--data-dir", &data_dir], None);
    server.line_with("API server ready at");
    let kubeconfig = Kubeconfig::read_from(folder.join("kubeconfig")).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    (server, Client::try_from(config).unwrap())
}

async fn list(client: &Client, path: &str) -> Vec<Value> {
    let list: Value = client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
    serde_json::from_value(list["items"].clone()).unwrap()
}

/// What stood there and is not served as it was; what is served besides is no difference.
fn differences(path: &str, then: &Value, now: &Value, found: &mut Vec<String>) {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            for (name, value) in then {
                differences(&format!("{path}.{name}"), value, now.get(name).unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(then), Value::Array(now)) if then.len() == now.len() => {
            then.iter().zip(now).enumerate().for_each(|(index, (then, now))| differences(&format!("{path}[{index}]"), then, now, found));
        }
        _ if then == now => (),
        _ => found.push(format!("{path}: {then} became {now}")),
    }
}

fn by_name(items: Vec<Value>) -> Map<String, Value> {
    let key = |item: &Value| {
        format!("{}/{}", item["metadata"]["namespace"].as_str().unwrap_or_default(), item["metadata"]["name"].as_str().unwrap())
    };
    items.into_iter().map(|item| (key(&item), item)).collect()
}

/// By each start, and not recorded.
fn is_brought_up_to_date(object: &Value) -> bool {
    let meta = &object["metadata"];
    let leads_to_itself = meta["namespace"] == "default" && meta["name"] == "kubernetes";
    leads_to_itself || meta["name"] == "kube-root-ca.crt" || !meta["labels"]["kubernetes.io/bootstrapping"].is_null()
}

/// What is not as it was.
async fn changed_since(then: &BTreeMap<String, Vec<Value>>, client: &Client) -> Vec<String> {
    let mut found = Vec::new();
    for (path, items) in then {
        let [then, mut now] = [items.clone(), list(client, path).await].map(by_name);
        now.retain(|_, object| !is_brought_up_to_date(object));
        differences(path, &then.clone().into(), &now.clone().into(), &mut found);
        found.extend(now.keys().filter(|name| !then.contains_key(*name)).map(|name| format!("{path}: {name} is new")));
    }
    found
}

/// The formats that the files of a store say they are of.
fn formats(store: &Path) -> BTreeSet<u64> {
    // Behind the head of a file's first frame stand the tag of its beginning and the format (`frame.rs` and `record.rs` of berth-store).
    const AT: usize = 24;
    let files = fs::read_dir(store).unwrap().map(|file| file.unwrap().path());
    let of_frames = files.filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("log-") || name.starts_with("checkpoint-")
    });
    let format = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes[AT], 5, "{}", path.display());
        u64::from_le_bytes(bytes[AT + 1..AT + 9].try_into().unwrap())
    };
    of_frames.map(format).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_earlier_build_has_left_is_there_and_goes_on() {
    for archive in kept() {
        let (folder, then) = (copy(&archive), served_then(&archive));
        assert!(then.values().map(Vec::len).sum::<usize>() >= 40, "{}", archive.display());
        let checked = berth(&["check"], folder.path());
        assert!(checked.status.success(), "{}: {}", archive.display(), String::from_utf8_lossy(&checked.stderr));
        let (mut first, client) = server(folder.path()).await;
        assert_eq!(changed_since(&then, &client).await, [""; 0], "{}", archive.display());
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "later"}})).unwrap();
        let made = Api::namespaced(client, "shop").create(&PostParams::default(), &map).await.unwrap();
        let newest =
            |items: &[Value]| items.iter().map(|item| item["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap()).max();
        let before = then.values().filter_map(|items| newest(items)).max().unwrap();
        assert!(before < made.metadata.resource_version.as_ref().unwrap().parse().unwrap(), "versions go on behind those of then");
        first.kill();

        let (_second, client) = server(folder.path()).await;
        let told = "/api/v1/configmaps: shop/later is new".to_owned();
        assert_eq!(changed_since(&then, &client).await, [told], "{}", archive.display());
        let found: ConfigMap = Api::namespaced(client, "shop").get("later").await.unwrap();
        assert_eq!(found.metadata.uid, made.metadata.uid);
    }
}

/// Also by an earlier berth than the one that exported it, as long as the form of archives is the same. Resource versions are given anew.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_build_exported_of_a_folder_is_imported_by_this_one() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/folders");
    let (export, then) = (kept.join("2026-11-26.berth"), served_then(&kept.join("2026-11-23.tar.gz")));
    let folder = TempDir::new().unwrap();
    let imported = berth(&["restore", export.to_str().unwrap()], folder.path());
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let (_server, client) = server(folder.path()).await;
    let mut changed = changed_since(&then, &client).await;
    let count = changed.len();
    changed.retain(|told| !told.contains(".metadata.resourceVersion: "));
    assert_eq!((changed, count), (Vec::new(), then.values().map(Vec::len).sum()), "every object is there, with a version of its own");
}

/// Who goes back to the build of that folder can: what this one writes is of the same format. Where it is another, the build of then refuses it; then a folder of today's is to be kept too, and
/// docs/how-to/backup.md is to say from which version on there is no way back but a backup.
#[tokio::test(flavor = "multi_thread")]
async fn what_this_build_writes_can_be_read_by_that_of_the_newest_folder() {
    let archive = kept().pop().unwrap();
    let folder = copy(&archive);
    let store = folder.path().join("store");
    let of_then = formats(&store);
    let (mut server, client) = server(folder.path()).await;
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "later"}})).unwrap();
    Api::namespaced(client, "shop").create(&PostParams::default(), &map).await.unwrap();
    assert!(server.terminate().success());
    assert_eq!(formats(&store), of_then);
}

#[test]
fn what_is_missing_or_other_is_a_difference_and_what_is_more_is_none() {
    let told = |then: Value, now: Value| {
        let mut found = Vec::new();
        differences("", &then, &now, &mut found);
        found
    };
    assert_eq!(told(json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 2, "c": 3}], "d": 4})), [""; 0]);
    assert_eq!(told(json!({"a": [1], "b": 2}), json!({"a": [1, 2]})), [".a: [1] became [1,2]", ".b: 2 became null"]);
}
