//! Clients and frameworks with a kind of their own (`tests/own-kind.json`), against a real `berth up`.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{Berth, PATIENCE, kubectl_is_here, tool, up};
use berth_testing::Tool;
use futures::StreamExt;
use k8s_openapi::{api::core::v1::ConfigMap, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition};
use kube::{
    Api, Client, Error, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, Object, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    discovery,
    runtime::{
        Controller,
        controller::Action,
        wait::{await_condition, conditions},
        watcher,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;

const FAST: &[&str] = &["--store", "memory", "--nodes", "1", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];
const DEFINITION: &str = include_str!("../../../../tests/own-kind.json");
const NAME: &str = "ships.fleet.example.com";

#[derive(Clone, Debug, Deserialize, Serialize)]
struct ShipSpec {
    color: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    crew: Option<u32>,
}

#[derive(Clone, Debug, Deserialize, Serialize, Default)]
struct ShipStatus {
    color: Option<String>,
}

type Ship = Object<ShipSpec, ShipStatus>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

/// The clients of the controller, and the kind as the server describes it.
struct Context {
    client: Client,
    kind: ApiResource,
}

impl Context {
    fn ships(&self) -> Api<Ship> {
        Api::default_namespaced_with(self.client.clone(), &self.kind)
    }
}

/// Keeps a ConfigMap with the color of the ship, and reports the color in the status.
async fn reconcile(ship: Arc<Ship>, context: Arc<Context>) -> Result<Action, Error> {
    let (name, color) = (ship.name_any(), &ship.spec.color);
    let paint = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"color": color},
        "metadata": {"name": name, "ownerReferences": [ship.controller_owner_ref(&context.kind).unwrap()]},
    });
    let maps: Api<ConfigMap> = Api::default_namespaced(context.client.clone());
    maps.patch(&name, &PatchParams::apply("ships").force(), &Patch::Apply(&paint)).await?;
    let status = json!({"status": {"color": color}});
    context.ships().patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
    Ok(Action::await_change())
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("in time")
}

#[tokio::test]
async fn a_controller_of_kube_rs_has_a_kind_of_its_own() {
    let berth = up(FAST);
    let client = berth.kube_client().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &serde_json::from_str(DEFINITION).unwrap()).await.unwrap();
    in_time(await_condition(definitions.clone(), NAME, conditions::is_crd_established())).await.unwrap();
    let (kind, capabilities) = discovery::pinned_kind(&client, &GroupVersionKind::gvk("fleet.example.com", "v1", "Ship")).await.unwrap();
    assert_eq!(capabilities.subresources.len(), 2);

    let context = Arc::new(Context { client: client.clone(), kind: kind.clone() });
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let controller = Controller::new_with(context.ships(), watcher::Config::default(), kind.clone())
        .owns(maps.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(10)), Arc::clone(&context))
        .for_each(|_| async {});
    let controller = tokio::spawn(controller);

    let ships = context.ships();
    let red = Ship::new("a", &kind, ShipSpec { color: "red".to_owned(), crew: None });
    assert_eq!(ships.create(&PostParams::default(), &red).await.unwrap().spec.crew, Some(1));
    let is = |color: &'static str| {
        move |ship: Option<&Ship>| ship.and_then(|ship| ship.status.as_ref()?.color.as_deref()).is_some_and(|reported| reported == color)
    };
    in_time(await_condition(ships.clone(), "a", is("red"))).await.unwrap();
    let first = maps.get("a").await.unwrap();
    ships.patch("a", &PatchParams::default(), &Patch::Merge(&json!({"spec": {"color": "blue"}}))).await.unwrap();
    in_time(await_condition(ships.clone(), "a", is("blue"))).await.unwrap();
    assert_eq!(maps.get("a").await.unwrap().data.unwrap()["color"], "blue");

    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let again = |map: Option<&ConfigMap>| map.is_some_and(|map| map.uid() != first.uid());
    in_time(await_condition(maps.clone(), "a", again)).await.unwrap();
    ships.delete("a", &DeleteParams::default()).await.unwrap();
    in_time(await_condition(maps.clone(), "a", |map: Option<&ConfigMap>| map.is_none())).await.unwrap();
    controller.abort();

    definitions.delete(NAME, &DeleteParams::default()).await.unwrap();
    in_time(await_condition(definitions, NAME, |found: Option<&CustomResourceDefinition>| found.is_none())).await.unwrap();
    let Error::Api(status) = ships.get("a").await.unwrap_err() else { panic!("the server answers") };
    assert_eq!(status.code, 404);
}

/// Runs a client's script to its end.
fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_python_client_has_a_kind_of_its_own() {
    let Some(python) = tool(Tool::PythonClient, "python/bin/python") else { return };
    let berth = up(FAST);
    run(Command::new(python).arg(folder().join("python/own_kind.py")).arg(berth.kubeconfig()));
}

#[test]
fn the_javascript_client_has_a_kind_of_its_own() {
    let Some(node) = tool(Tool::JavaScriptClient, "javascript/node_modules/.bin/node") else { return };
    let berth = up(FAST);
    // Node searches packages in the script's folder.
    let script = node.ancestors().nth(3).unwrap().join("own-kind.mjs");
    fs::copy(folder().join("javascript/own-kind.mjs"), &script).unwrap();
    run(Command::new(node).arg(script).arg(berth.kubeconfig()).arg(folder().join("own-kind.json")));
}

/// The process of an operator, which ends with the test.
struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_operator_of_kopf_has_a_kind_of_its_own() {
    let Some(kopf) = tool(Tool::Kopf, "kopf/bin/kopf").filter(|_| kubectl_is_here()) else { return };
    let (berth, log) = (up(FAST), TempDir::new().unwrap());
    berth.apply(DEFINITION);
    berth.kubectl(&["wait", "--for=condition=Established", &format!("crd/{NAME}"), "--timeout=60s"]);
    let log = log.path().join("log");
    let (out, errors) = (File::create(&log).unwrap(), log.with_extension("errors"));
    let _operator = Operator(
        Command::new(kopf)
            .args(["run", "--standalone", "--namespace", "default"])
            .arg(folder().join("python/ships.py"))
            .env("KUBECONFIG", berth.kubeconfig())
            .stdout(Stdio::from(out))
            .stderr(Stdio::from(File::create(&errors).unwrap()))
            .spawn()
            .unwrap(),
    );
    let ship = json!({"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": "a"}, "spec": {"color": "red"}});
    berth.apply(&ship.to_string());
    until_painted(&berth, "red");
    berth.kubectl(&["patch", "ships", "a", "--type=merge", "--patch", r#"{"spec": {"color": "blue"}}"#]);
    until_painted(&berth, "blue");
    // The operator's finalizer delays the deletion until its handler has run.
    berth.kubectl(&["delete", "ships", "a", "--timeout=60s"]);
    let printed = fs::read_to_string(&log).unwrap();
    assert!(printed.contains("a is sunk"), "{printed}{}", fs::read_to_string(&errors).unwrap());
}

fn until_painted(berth: &Berth, color: &str) {
    berth.kubectl(&["wait", &format!("--for=jsonpath={{.status.color}}={color}"), "ships/a", "--timeout=60s"]);
}
