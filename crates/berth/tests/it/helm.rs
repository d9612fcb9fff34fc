//! Helm 3 and Helm 4 with our chart (`examples/chart`) against a real `berth up`; `cargo xtask test` installs both.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{self, Berth, kubectl_is_here, tool, up};
use berth_testing::{Tool, skip};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

const FAST: &[&str] = &["--store", "memory", "--nodes", "3", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/chart")
}

/// Helm 3 with its server. In its commands, `CHART` is the chart.
struct Helm {
    helm: PathBuf,
    berth: Berth,
}

impl Helm {
    fn start() -> Option<Self> {
        let helm = common::helm()?;
        kubectl_is_here().then(|| Self { helm, berth: up(FAST) })
    }

    fn run(&self, command: &str) -> (bool, String) {
        let chart = chart();
        let words: Vec<&str> = command.split(' ').map(|word| if word == "CHART" { chart.to_str().unwrap() } else { word }).collect();
        let output = self.berth.run(&self.helm, "", &words);
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    #[track_caller]
    fn check(&self, command: &str, expected: &str) {
        let (succeeded, text) = self.run(command);
        assert!(succeeded && text.contains(expected), "helm {command}:\n{text}");
    }

    #[track_caller]
    fn check_refused(&self, command: &str, expected: &str) {
        let (succeeded, text) = self.run(command);
        assert!(!succeeded && text.contains(expected), "helm {command}:\n{text}");
    }

    /// Checks the output of a JSONPath for an object on the server.
    #[track_caller]
    fn check_object(&self, object: &str, path: &str, expected: &str) {
        let words: Vec<&str> = object.split(' ').collect();
        let path = format!("--output=jsonpath={path}");
        assert_eq!(self.berth.kubectl(&[&["get"], &words[..], &[&path]].concat()), expected, "{object} {path}");
    }

    fn check_web(&self, image: &str, replicas: u32) {
        let path = "{.spec.template.spec.containers[0].image} {.status.replicas} {.status.updatedReplicas} {.status.availableReplicas}";
        self.check_object("deployment shop-web", path, &format!("{image} {replicas} {replicas} {replicas}"));
    }

    /// The statuses of all revisions, first to last.
    fn check_history(&self, expected: &[&str]) {
        let (_, text) = self.run("history shop --output json");
        let revisions: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        let statuses: Vec<&str> = revisions.iter().map(|revision| revision["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, expected);
    }
}

const FIRST: &str = "registry.example/shop/web:1.0";

#[test]
fn a_release_is_installed_upgraded_rolled_back_and_uninstalled() {
    let Some(helm) = Helm::start() else { return };
    helm.check("lint --strict CHART", "0 chart(s) failed");
    helm.check("template shop CHART --validate", "podReplacementPolicy: TerminationComplete");
    helm.check("install shop CHART --wait --timeout 60s", "STATUS: deployed");
    helm.check_web(FIRST, 3);
    helm.check_object("deployment shop-web", "{.spec.podReplacementPolicy}", "TerminationComplete");
    helm.check_object("statefulset shop-database", "{.status.availableReplicas}", "2");
    helm.check_object("pdb shop-web", "{.spec.minAvailable} {.status.expectedPods}", "1 3");
    helm.check_object("secrets -l owner=helm,status=deployed", "{.items[*].type}", "helm.sh/release.v1");
    helm.check_object("configmap shop-revision", "{.data.revision}", "1");
    helm.check_refused("install shop CHART", "cannot re-use a name that is still in use");

    helm.check("upgrade shop CHART --set web.image=web:2,web.podReplacementPolicy=TerminationStarted --wait --timeout 60s", "REVISION: 2");
    helm.check_web("web:2", 3);
    helm.check_object("deployment shop-web", "{.spec.podReplacementPolicy}", "TerminationStarted");
    helm.check_object("configmap shop-revision", "{.data.revision}", "2");
    helm.check("rollback shop 1 --wait --timeout 60s", "Rollback was a success");
    helm.check_web(FIRST, 3);
    helm.check_object("deployment shop-web", "{.spec.podReplacementPolicy}", "TerminationComplete");
    helm.check_history(&["superseded", "superseded", "deployed"]);
    helm.check("status shop", "shop: 3 web pods, 2 of the database.");
    helm.check("get manifest shop", "kind: PodDisruptionBudget");
    helm.check("list --all-namespaces", "shop-0.1.0");

    helm.check("uninstall shop --wait --timeout 60s", "release \"shop\" uninstalled");
    let left = "deployments,statefulsets,replicasets,pdb,secrets,roles,rolebindings";
    helm.check_object(left, "{.items}", "[]");
    helm.check_object("services", "{.items[*].metadata.name}", "kubernetes");
    helm.check_refused("uninstall shop", "not found");
}

#[test]
fn what_others_changed_is_merged_in_three_ways() {
    let Some(helm) = Helm::start() else { return };
    helm.check("upgrade --install shop CHART --namespace default --wait --timeout 60s", "REVISION: 1");
    helm.berth.kubectl(&["label", "deployment", "shop-web", "team=front"]);
    helm.berth.kubectl(&["set", "env", "deployment/shop-web", "DEBUG=1"]);
    helm.berth.kubectl(&["scale", "deployment/shop-web", "--replicas=5"]);
    helm.check("upgrade --install shop CHART --set web.image=web:2 --wait --timeout 60s", "REVISION: 2");
    // Values in the chart are as in the chart. Other values remain.
    helm.check_web("web:2", 3);
    let path = "{.metadata.labels.team} {.spec.template.spec.containers[0].env[*].name}";
    helm.check_object("deployment shop-web", path, "front DEBUG");
    helm.check("upgrade shop CHART --dry-run --set web.image=web:3", "image: \"web:3\"");
    helm.check_web("web:2", 3);
    helm.check("upgrade shop CHART --reuse-values --set web.minAvailable=null", "REVISION: 3");
    helm.check_object("pdb", "{.items}", "[]");
}

#[test]
fn a_failed_atomic_upgrade_is_rolled_back() {
    let Some(helm) = Helm::start() else { return };
    helm.check("install shop CHART --namespace default --wait --timeout 60s", "STATUS: deployed");
    // The timeout also applies to the rollback.
    let broken = "--set web.image=web:2 --set web.podAnnotations.sim\\.berth\\.dev/fails=ImagePullBackOff";
    // Helm words its reason in more than one way: the timeout may expire while it waits for its own rate limit.
    let told = "has been rolled back due to atomic being set";
    helm.check_refused(&format!("upgrade shop CHART --atomic --timeout 8s {broken}"), told);
    // Helm accepts as many pods as maxUnavailable leaves. After its timeout it does not wait at all.
    helm.berth.kubectl(&["rollout", "status", "deployment/shop-web", "--timeout=60s"]);
    helm.check_web(FIRST, 3);
    helm.check_history(&["superseded", "failed", "deployed"]);
}

#[test]
fn helm_4_goes_its_journey() {
    let Some(python) = tool(Tool::PythonClient, "python/bin/python") else { return };
    if !Command::new(&python).args(["-c", "import helm_python"]).output().unwrap().status.success() {
        skip(Tool::Helm4, "PyPI has none for this machine");
        return;
    }
    let berth = up(FAST);
    let journey = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/helm.py");
    let output = Command::new(python).arg(journey).arg(berth.kubeconfig()).arg(chart()).output().unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}
