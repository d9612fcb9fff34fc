//! Kinds that clients define, with kubectl, the controllers, restarts, manifests and archives.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::{
    common::{kubectl_is_here, up, up_in},
    etcd::{self, Etcd},
};
use berth_testing::Upstream;
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

const FAST: &[&str] = &["--store", "memory", "--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];

const SHIPS: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.e.com}
spec:
  group: e.com
  scope: Namespaced
  names: {kind: Ship, plural: ships, singular: ship, shortNames: [sp], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.crew, statusReplicasPath: .status.crew, labelSelectorPath: .status.selector}
    additionalPrinterColumns:
    - {name: Color, type: string, jsonPath: .spec.color}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    - {name: Crew, type: integer, jsonPath: .spec.crew, priority: 1}
    schema:
      openAPIV3Schema:
        description: A vessel.
        type: object
        properties:
          spec:
            description: What it is built of.
            type: object
            required: [color]
            properties:
              color: {description: The color of the hull., type: string, enum: [red, blue]}
              crew: {description: How many sail it., type: integer, default: 1}
          status:
            type: object
            properties: {crew: {type: integer}, selector: {type: string}}
";

fn ship(name: &str, more: &str) -> String {
    format!("apiVersion: e.com/v1\nkind: Ship\nmetadata: {{name: {name}{more}}}\nspec: {{color: red}}\n")
}

#[test]
fn kubectl_works_with_a_defined_kind_as_with_any_other() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    assert_eq!(berth.apply(SHIPS), "customresourcedefinition.apiextensions.k8s.io/ships.e.com created\n");
    let met = berth.kubectl(&["wait", "--for=condition=Established", "crd/ships.e.com", "--timeout=60s"]);
    assert_eq!(met, "customresourcedefinition.apiextensions.k8s.io/ships.e.com condition met\n");
    let resources = berth.kubectl(&["api-resources", "--api-group=e.com", "--no-headers"]);
    assert_eq!(resources.split_whitespace().collect::<Vec<_>>(), ["ships", "sp", "e.com/v1", "true", "Ship"]);

    assert_eq!(berth.apply(&ship("a", "")), "ship.e.com/a created\n");
    let rows = berth.kubectl(&["get", "sp"]);
    let cells: Vec<&str> = rows.split_whitespace().collect();
    assert_eq!(cells[..5], ["NAME", "COLOR", "AGE", "a", "red"], "{rows}");
    assert!(berth.kubectl(&["get", "ships", "-o", "wide"]).contains("CREW"));
    assert!(berth.kubectl(&["get", "all"]).contains("ship.e.com/a"));
    let explained = berth.kubectl(&["explain", "ships.spec"]);
    for text in [
        "GROUP:      e.com",
        "KIND:       Ship",
        "What it is built of.",
        "color\t<string> -required-",
        "enum: red, blue",
        "crew\t<integer>",
    ] {
        assert!(explained.contains(text), "{text}: {explained}");
    }
    let wrong = ship("b", "").replace("red", "green");
    let refused = berth.kubectl_with(&wrong, &["apply", "-f", "-"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\""), "{told}");
    let unknown = berth.kubectl_with(&ship("b", "").replace("color: red", "color: red, sails: 2"), &["apply", "-f", "-"]);
    let told = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(told.contains("unknown field \"spec.sails\""), "{told}");

    assert_eq!(berth.kubectl(&["scale", "ship/a", "--replicas=4"]), "ship.e.com/a scaled\n");
    assert_eq!(berth.kubectl(&["get", "ship/a", "-o", "jsonpath={.spec.crew}"]), "4");
    berth.kubectl(&["patch", "ship", "a", "--subresource=status", "--type=merge", "-p", r#"{"status": {"crew": 4}}"#]);
    berth.kubectl(&["wait", "--for=jsonpath={.status.crew}=4", "ship/a", "--timeout=60s"]);
    let applied = berth.kubectl_with(&ship("a", ""), &["apply", "--server-side", "--force-conflicts", "-f", "-"]);
    assert_eq!(String::from_utf8_lossy(&applied.stdout), "ship.e.com/a serverside-applied\n", "{applied:?}");
    assert_eq!(berth.kubectl(&["label", "ship", "a", "x=y"]), "ship.e.com/a labeled\n");
    assert_eq!(berth.apply(&ship("b", "")), "ship.e.com/b created\n");
    assert_eq!(berth.apply(&ship("b", "").replace("red", "blue")), "ship.e.com/b configured\n");
    assert_eq!(berth.kubectl(&["get", "ship", "b", "-o", "jsonpath={.spec.color}"]), "blue");
    // The time of the creation, as upstream prints it.
    let defined = berth.kubectl(&["get", "crd", "ships.e.com", "--no-headers"]);
    assert!(defined.split_whitespace().nth(1).is_some_and(|created| created.parse::<jiff::Timestamp>().is_ok()), "{defined}");
    assert!(berth.kubectl(&["describe", "ship", "a"]).contains("Color:  red"));
    assert!(berth.kubectl(&["delete", "crd", "ships.e.com"]).contains("\"ships.e.com\" deleted"));
    // kubectl still knows the kind.
    let unknown = berth.kubectl_fails(&["get", "ships"]);
    assert!(unknown.contains("the server could not find the requested resource (get ships.e.com)"), "{unknown}");
}

#[test]
fn the_controllers_collect_custom_objects_and_what_they_own() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(SHIPS);
    berth.kubectl(&["wait", "--for=condition=Established", "crd/ships.e.com", "--timeout=60s"]);
    berth.kubectl(&["create", "namespace", "harbor"]);
    let created = berth.kubectl_with(&ship("a", ""), &["create", "-n", "harbor", "-o", "jsonpath={.metadata.uid}", "-f", "-"]);
    let uid = String::from_utf8_lossy(&created.stdout).into_owned();
    let owned = |kind: &str, name: &str| {
        format!(
            "apiVersion: {kind}\nmetadata:\n  name: {name}\n  namespace: harbor\n  \
             ownerReferences: [{{apiVersion: e.com/v1, kind: Ship, name: a, uid: {uid}}}]\n"
        )
    };
    berth.apply(&owned("v1\nkind: ConfigMap", "chart"));
    berth.apply(&(owned("e.com/v1\nkind: Ship", "boat") + "spec: {color: blue}\n"));
    berth.kubectl(&["delete", "-n", "harbor", "ship", "a"]);
    berth.kubectl_until(&["get", "-n", "harbor", "ships,configmap/chart", "-o", "name", "--ignore-not-found"], str::is_empty);

    berth.kubectl_with(&ship("b", ""), &["create", "-n", "harbor", "-f", "-"]);
    berth.kubectl(&["delete", "namespace", "harbor"]);
    berth.kubectl(&["create", "namespace", "harbor"]);
    assert_eq!(berth.kubectl(&["get", "-n", "harbor", "ships", "-o", "name"]), "");

    berth.kubectl(&["create", "quota", "q", "--hard=count/ships.e.com=1"]);
    berth.apply(&ship("c", ""));
    berth.kubectl_until(&["get", "quota", "q", "-o", r"jsonpath={.status.used.count/ships\.e\.com}"], |used| used == "1");
    let refused = berth.kubectl_with(&ship("d", ""), &["create", "-f", "-"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("exceeded quota: q"), "{refused:?}");
}

/// A pod that a custom object owns, and what a budget and an autoscaler compute from the object's scale.
#[test]
fn budgets_and_autoscalers_read_the_scale_of_custom_owners() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(SHIPS);
    berth.kubectl(&["wait", "--for=condition=Established", "crd/ships.e.com", "--timeout=60s"]);
    berth.apply(&ship("a", ""));
    berth.kubectl(&["scale", "ship/a", "--replicas=4"]);
    berth.kubectl(&[
        "patch",
        "ship",
        "a",
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status": {"crew": 4, "selector": "ship=a"}}"#,
    ]);
    let uid = berth.kubectl(&["get", "ship", "a", "-o", "jsonpath={.metadata.uid}"]);
    for name in ["one", "two", "three", "four"] {
        berth.apply(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  labels: {{ship: a}}\n  annotations: {{berth.dev/usage-cpu: 200m}}\n  \
             ownerReferences: [{{apiVersion: e.com/v1, kind: Ship, name: a, uid: {uid}, controller: true}}]\nspec:\n  \
             containers: [{{name: main, image: sailor:1, resources: {{requests: {{cpu: 100m}}}}}}]\n"
        ));
    }
    berth.kubectl(&["wait", "--for=condition=Ready", "pods", "-l", "ship=a", "--timeout=60s"]);
    berth.apply(
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a}\nspec:\n  maxUnavailable: 25%\n  selector: {matchLabels: {ship: a}}\n",
    );
    berth.kubectl_until(
        &["get", "pdb", "a", "-o", "jsonpath={.status.expectedPods} {.status.desiredHealthy} {.status.disruptionsAllowed}"],
        |status| status == "4 3 1",
    );
    berth.apply(
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec:\n  minReplicas: 6\n  maxReplicas: 9\n  \
         scaleTargetRef: {apiVersion: e.com/v1, kind: Ship, name: a}\n  \
         metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]\n",
    );
    berth.kubectl_until(&["get", "ship", "a", "-o", "jsonpath={.spec.crew}"], |crew| crew == "6");
    berth.kubectl_until(&["describe", "hpa", "a"], |text| text.contains("SuccessfulRescale"));
}

#[test]
fn definitions_and_objects_survive_a_restart() {
    if !kubectl_is_here() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let berth = up_in(folder.path(), &["--nodes", "0"]);
    berth.apply(SHIPS);
    berth.kubectl(&["wait", "--for=condition=Established", "crd/ships.e.com", "--timeout=60s"]);
    berth.apply(&ship("a", ""));
    let before = berth.kubectl(&["get", "crd,ships", "-o", "json"]);
    drop(berth.kill());
    let berth = up_in(folder.path(), &["--nodes", "0"]);
    assert_eq!(berth.kubectl(&["get", "crd,ships", "-o", "json"]), before);
}

#[test]
fn an_archive_has_custom_objects_whatever_the_order_of_their_groups() {
    if !kubectl_is_here() {
        return;
    }
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let berth = up_in(folder.path(), &["--nodes", "0"]);
    for group in ["aa.com", "zz.com"] {
        berth.apply(&SHIPS.replace("e.com", group));
        berth.kubectl(&["wait", "--for=condition=Established", &format!("crd/ships.{group}"), "--timeout=60s"]);
        berth.apply(&ship("a", "").replace("e.com", group));
    }
    let all = ["get", "crd,ships.aa.com,ships.zz.com", "-o", "json"];
    let before = berth.kubectl(&all);
    drop(berth.terminate());
    let archive = other.path().join("archive");
    let run = |arguments: &[&str], folder: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_berth")).args(arguments).arg("--data-dir").arg(folder).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["backup", archive.to_str().unwrap()], folder.path());
    let restored = other.path().join("restored");
    run(&["restore", archive.to_str().unwrap()], &restored);
    let berth = up_in(&restored, &["--nodes", "0"]);
    let without_revisions = |text: &str| {
        let lines = text.lines().filter(|line| !line.contains("resourceVersion"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(without_revisions(&berth.kubectl(&all)), without_revisions(&before));
}

#[test]
fn manifests_have_definitions_in_any_order() {
    if !kubectl_is_here() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let manifest = folder.path().join("all.yaml");
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: harbor}\n";
    fs::write(&manifest, [&ship("a", ""), namespace, &ship("b", ", namespace: harbor"), SHIPS].join("---\n")).unwrap();
    let mut berth = up(&[FAST, &["-f", manifest.to_str().unwrap()]].concat());
    berth.line_with("Running.");
    assert_eq!(berth.kubectl(&["get", "ships", "-A", "-o", "name"]), "ship.e.com/a\nship.e.com/b\n");
    fs::write(folder.path().join("web.yaml"), [SHIPS, &ship("c", ""), &crate::common::deployment("web", 2, "web:1")].join("---\n"))
        .unwrap();
    let planned = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["plan", "--from"])
        .arg(&manifest)
        .arg("-f")
        .arg(folder.path().join("web.yaml"))
        .output();
    let planned = planned.unwrap();
    assert!(planned.status.success(), "{}", String::from_utf8_lossy(&planned.stderr));
    assert!(String::from_utf8_lossy(&planned.stdout).contains("web"), "{planned:?}");
}

/// kubectl rejects it: its annotation of the last manifest is too large.
#[test]
fn a_manifest_can_have_a_definition_of_any_size() {
    if !kubectl_is_here() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let manifest = folder.path().join("large.yaml");
    let large = |text: &str, color: &str| {
        let large = SHIPS.replace("A vessel.", &text.repeat(300 << 10));
        fs::write(&manifest, [&large, "---\n", &ship("a", "").replace("red", color)].concat()).unwrap();
    };
    large("x", "red");
    let run = || {
        let mut berth = up_in(&folder.path().join("data"), &["--nodes", "0", "-f", manifest.to_str().unwrap()]);
        berth.line_with("Running.");
        berth
    };
    drop(run().terminate());
    large("y", "blue");
    let berth = run();
    let description = "jsonpath={.spec.versions[0].schema.openAPIV3Schema.description}";
    assert!(berth.kubectl(&["get", "crd", "ships.e.com", "-o", description]).starts_with("yy"));
    assert_eq!(berth.kubectl(&["get", "ship", "a", "-o", "jsonpath={.spec.color}"]), "blue");
}

/// The second server over an etcd reads what the first one wrote.
#[test]
fn a_server_over_an_etcd_serves_the_definitions_in_it() {
    if !kubectl_is_here() || !etcd::is_here() {
        return;
    }
    let (etcd, pki) = (Etcd::start(etcd::PATIENT), TempDir::new().unwrap());
    let server =
        |controllers: &'static str| up_in(pki.path(), &["--store", "etcd", "--etcd-servers", &etcd.endpoint, "--nodes", "0", controllers]);
    let first = server("--controllers=-*");
    first.apply(SHIPS);
    first.kubectl(&["wait", "--for=condition=Established", "crd/ships.e.com", "--timeout=60s"]);
    first.apply(&ship("a", ""));
    drop(first.kill());
    let again = server("--controllers=*");
    assert_eq!(again.kubectl(&["get", "ships", "-o", "name"]), "ship.e.com/a\n");
    again.kubectl(&["delete", "crd", "ships.e.com", "--timeout=60s"]);
    let unknown = again.kubectl_fails(&["get", "ships"]);
    assert!(unknown.contains("the server could not find the requested resource (get ships.e.com)"), "{unknown}");
}

/// The process of a real controller, which ends with the test.
struct Controllers(Child);

impl Drop for Controllers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Upstream's own garbage collector and namespace controller, over berth as their API server.
#[test]
fn the_real_controller_manager_collects_custom_objects() {
    if !kubectl_is_here() {
        return;
    }
    let Some(upstream) = Upstream::start(&["--etcd-only"]) else { return };
    let folder = TempDir::new().unwrap();
    let berth = up_in(folder.path(), &["--store", "memory", "--nodes", "0", "--controllers=-*"]);
    berth.apply(SHIPS);
    berth.kubectl(&["wait", "--for=condition=Established", "crd/ships.e.com", "--timeout=60s"]);
    let _controllers = Controllers(
        Command::new(Path::new(&upstream.variable("UPSTREAM_BIN")).join("kube-controller-manager"))
            .args(["--leader-elect=false", "--secure-port=0", "--controllers=garbage-collector-controller,namespace-controller"])
            .arg("--kubeconfig")
            .arg(berth.kubeconfig())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let created = berth.kubectl_with(&ship("a", ""), &["create", "-o", "jsonpath={.metadata.uid}", "-f", "-"]);
    let uid = String::from_utf8_lossy(&created.stdout).into_owned();
    let owner = format!("ownerReferences: [{{apiVersion: e.com/v1, kind: Ship, name: a, uid: {uid}}}]");
    berth.apply(&format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: chart, {owner}}}\n"));
    berth.apply(&ship("boat", &format!(", {owner}")));
    berth.kubectl(&["delete", "ship", "a"]);
    berth.kubectl_until(&["get", "ships,configmap/chart", "-o", "name", "--ignore-not-found"], str::is_empty);
    berth.kubectl(&["create", "namespace", "harbor"]);
    berth.kubectl_with(&ship("b", ""), &["create", "-n", "harbor", "-f", "-"]);
    berth.kubectl(&["delete", "namespace", "harbor", "--timeout=60s"]);
    berth.kubectl(&["create", "namespace", "harbor"]);
    assert_eq!(berth.kubectl(&["get", "-n", "harbor", "ships", "-o", "name"]), "");
}
