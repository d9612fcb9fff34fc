//! kubectl 1.20, Debian's, against a real `berth up`: it knows OpenAPI v2 only. `cargo xtask test` unpacks it.

use crate::common::{Berth, deployment, tool, up};
use berth_testing::Tool;
use std::path::PathBuf;

const FAST: &[&str] = &["--store", "memory", "--nodes", "1", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];

/// An old kubectl with its server.
struct Old {
    kubectl: PathBuf,
    berth: Berth,
}

impl Old {
    fn start() -> Option<Self> {
        Some(Self { kubectl: tool(Tool::Kubectl120, "old-kubectl/usr/bin/kubectl")?, berth: up(FAST) })
    }

    /// Runs it; gives whether it succeeded, and all that it printed.
    fn run(&self, input: &str, command: &str) -> (bool, String) {
        let words: Vec<&str> = command.split(' ').collect();
        let output = self.berth.run(&self.kubectl, input, &words);
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    #[track_caller]
    fn check(&self, input: &str, command: &str, expected: &str) {
        let (succeeded, text) = self.run(input, command);
        assert!(succeeded && text.contains(expected), "{command}:\n{text}");
    }

    #[track_caller]
    fn check_refused(&self, input: &str, command: &str, expected: &str) {
        let (succeeded, text) = self.run(input, command);
        assert!(!succeeded && text.contains(expected), "{command}:\n{text}");
    }
}

#[test]
fn manifests_are_validated_applied_and_rolled_out() {
    let Some(old) = Old::start() else { return };
    let manifest = deployment("web", 2, "web:1");
    old.check(&manifest, "apply --filename -", "deployment.apps/web created");
    old.check(&manifest, "apply --filename -", "deployment.apps/web unchanged");
    let typo = manifest.replace("replicas:", "replicsa:");
    old.check_refused(&typo, "apply --filename -", "unknown field \"replicsa\" in io.k8s.api.apps.v1.DeploymentSpec");
    let word = manifest.replace("replicas: 2", "replicas: two");
    old.check_refused(&word, "apply --filename -", "got \"string\", expected \"integer\"");
    let next = manifest.replace("web:1", "web:2");
    old.check(&next, "apply --filename - --dry-run=server", "configured (server dry run)");
    old.check(&next, "apply --filename -", "deployment.apps/web configured");
    old.check("", "rollout status deployment/web", "successfully rolled out");
    old.check("", "rollout undo deployment/web", "rolled back");
    old.check("", "get deployment web --output=jsonpath={.spec.template.spec.containers[0].image}", "web:1");
}

#[test]
fn kinds_are_explained() {
    let Some(old) = Old::start() else { return };
    old.check("", "explain deployment.spec.podReplacementPolicy", "`TerminationComplete`");
    old.check("", "explain deployment.spec.strategy.rollingUpdate.maxSurge", "<string>");
    old.check("", "explain pod.spec.containers.ports", "<[]Object>");
    old.check("", "explain secret.data", "<map[string]string>");
    old.check("", "explain statefulset.spec.template.spec.volumes.emptyDir.sizeLimit", "<string>");
}

#[test]
fn nodes_are_drained_and_objects_made_by_flags() {
    let Some(old) = Old::start() else { return };
    old.check("", "create deployment web --image=web:1", "created");
    old.check("", "rollout status deployment/web", "successfully rolled out");
    old.check("", "create configmap c --from-literal=a=b", "created");
    old.check("", "drain node-0 --timeout=30s", "node/node-0 evicted");
}

#[test]
fn manifests_are_applied_on_the_server_side() {
    let Some(old) = Old::start() else { return };
    let manifest = deployment("web", 2, "web:1");
    let apply = "apply --server-side --filename -";
    old.check(&manifest, apply, "deployment.apps/web serverside-applied");
    old.check("", "set image deployment/web main=web:2 --field-manager=ci", "image updated");
    let conflict = "Apply failed with 1 conflict: conflict with \"ci\" using apps/v1: .spec.template.spec.containers[name=\"main\"].image";
    old.check_refused(&manifest, apply, conflict);
    old.check(&manifest, "apply --server-side --force-conflicts --filename -", "serverside-applied");
    old.check("", "get deployment web --output=jsonpath={.spec.template.spec.containers[0].image}", "web:1");
}
