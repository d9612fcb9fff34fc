//! The real kubectl against a real `berth up`: what a person types.

mod common;

use common::{deployment, kubectl_is_here, up};

/// Pods that start and stop at once, so that only what the test waits for takes time.
const FAST: &[&str] = &["--store", "memory", "--nodes", "3", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];

#[test]
fn a_manifest_is_applied_scaled_updated_undone_and_deleted() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    assert_eq!(berth.apply(&deployment("web", 3, "web:1")), "deployment.apps/web created\n");
    assert_eq!(berth.apply(&deployment("web", 3, "web:1")), "deployment.apps/web unchanged\n");
    assert!(berth.kubectl(&["rollout", "status", "deployment/web"]).contains("successfully rolled out"));

    berth.kubectl(&["scale", "deployment/web", "--replicas", "5"]);
    berth.kubectl(&["wait", "--for=jsonpath={.status.availableReplicas}=5", "deployment/web", "--timeout=60s"]);
    assert_eq!(berth.kubectl(&["get", "pods", "-l", "app=web", "-o", "name"]).lines().count(), 5);

    berth.kubectl(&["set", "image", "deployment/web", "main=web:2"]);
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    berth.kubectl_until(&["get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}"], |images| {
        images.split(' ').count() == 5 && images.split(' ').all(|image| image == "web:2")
    });
    let history = berth.kubectl(&["rollout", "history", "deployment/web"]);
    assert!(history.contains("REVISION") && history.lines().any(|line| line.starts_with('2')), "{history}");

    assert!(berth.kubectl(&["rollout", "undo", "deployment/web"]).contains("rolled back"));
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    assert_eq!(berth.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"]), "web:1");

    berth.kubectl(&["delete", "deployment", "web"]);
    berth.kubectl_until(&["get", "pods,replicasets", "-o", "name"], str::is_empty);
}

#[test]
fn a_bad_update_stops_at_max_unavailable_and_is_undone() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(&deployment("web", 4, "web:1"));
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    let patch =
        r#"{"spec":{"progressDeadlineSeconds":2,"template":{"metadata":{"annotations":{"sim.berth.dev/fails":"ImagePullBackOff"}}}}}"#;
    berth.kubectl(&["patch", "deployment", "web", "--patch", patch]);
    assert!(berth.kubectl_fails(&["rollout", "status", "deployment/web"]).contains("exceeded its progress deadline"));
    assert_eq!(berth.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}"]), "3");
    assert!(berth.kubectl(&["get", "pods"]).contains("ImagePullBackOff"));
    berth.kubectl(&["rollout", "undo", "deployment/web"]);
    berth.kubectl(&["rollout", "status", "deployment/web"]);
}

#[test]
fn pause_holds_a_change_back_and_resume_lets_it_go() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(&deployment("web", 2, "web:1"));
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    berth.kubectl(&["rollout", "pause", "deployment/web"]);
    berth.kubectl(&["set", "image", "deployment/web", "main=web:2"]);
    berth.kubectl(&["scale", "deployment/web", "--replicas", "3"]);
    berth.kubectl(&["wait", "--for=jsonpath={.status.availableReplicas}=3", "deployment/web", "--timeout=60s"]);
    assert_eq!(berth.kubectl(&["get", "replicasets", "-o", "name"]).lines().count(), 1);
    berth.kubectl(&["rollout", "resume", "deployment/web"]);
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    assert_eq!(berth.kubectl(&["get", "replicasets", "-o", "name"]).lines().count(), 2);
    berth.kubectl(&["rollout", "restart", "deployment/web"]);
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    assert_eq!(berth.kubectl(&["get", "replicasets", "-o", "name"]).lines().count(), 3);
    berth.kubectl(&["rollout", "pause", "deployment/web"]);
    assert!(berth.kubectl_fails(&["rollout", "undo", "deployment/web"]).contains("paused"));
}

#[test]
fn each_cascade_does_what_it_says() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    for cascade in ["background", "foreground", "orphan"] {
        let name = format!("web-{cascade}");
        berth.apply(&deployment(&name, 2, "web:1"));
        berth.kubectl(&["rollout", "status", &format!("deployment/{name}")]);
        berth.kubectl(&["delete", "deployment", &name, &format!("--cascade={cascade}")]);
        let selector = format!("app={name}");
        let left = ["get", "replicasets,pods", "-l", selector.as_str(), "-o", "name"];
        match cascade {
            "foreground" => assert_eq!(berth.kubectl(&left), ""),
            "background" => drop(berth.kubectl_until(&left, str::is_empty)),
            _ => {
                assert_eq!(berth.kubectl(&left).lines().count(), 3);
                let owners = berth.kubectl(&["get", "replicasets", "-l", &selector, "-o", "jsonpath={.items[*].metadata.ownerReferences}"]);
                assert_eq!(owners, "");
                // A new Deployment with the same selector and template takes the orphans up again.
                berth.apply(&deployment(&name, 2, "web:1"));
                berth.kubectl(&["rollout", "status", &format!("deployment/{name}")]);
                assert_eq!(berth.kubectl(&left).lines().count(), 3);
            }
        }
    }
}

#[test]
fn reading_works_in_every_form() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(&deployment("web", 3, "web:1"));
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    assert!(berth.kubectl(&["get", "deployments"]).contains("3/3"));
    assert!(berth.kubectl(&["get", "deploy", "web", "-o", "wide"]).contains("web:1"));
    assert!(berth.kubectl(&["get", "deploy", "web", "-o", "yaml"]).contains("progressDeadlineSeconds: 600"));
    assert!(berth.kubectl(&["get", "deploy", "web", "-o", "json"]).contains("\"MinimumReplicasAvailable\""));
    assert_eq!(berth.kubectl(&["get", "deploy", "-o", "name"]), "deployment.apps/web\n");
    assert_eq!(berth.kubectl(&["get", "pods", "--chunk-size=1", "-o", "name"]).lines().count(), 3);
    assert_eq!(berth.kubectl(&["get", "pods", "--field-selector", "status.phase=Running", "-o", "name"]).lines().count(), 3);
    assert_eq!(berth.kubectl(&["get", "pods", "--field-selector", "status.phase!=Running", "-o", "name"]), "");
    assert!(berth.kubectl(&["describe", "deployment", "web"]).contains("ScalingReplicaSet"));
    assert!(berth.kubectl(&["describe", "pods"]).contains("Successfully assigned"));
    assert!(berth.kubectl(&["describe", "nodes"]).contains("Ready"));
    assert!(berth.kubectl(&["get", "events"]).contains("SuccessfulCreate"));
    assert!(berth.kubectl(&["get", "all"]).contains("replicaset.apps/web-"));
    assert!(berth.kubectl(&["explain", "deployment.spec.podReplacementPolicy"]).contains("TerminationComplete"));
    assert!(berth.kubectl(&["api-resources"]).contains("statefulsets"));
    assert!(berth.kubectl(&["version"]).contains("Server Version: v1.36"));
}

#[test]
fn writing_works_in_every_form() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    let created = berth.kubectl_with(&deployment("web", 1, "web:1"), &["create", "--filename", "-"]);
    assert_eq!(String::from_utf8_lossy(&created.stdout), "deployment.apps/web created\n");
    berth.kubectl(&["label", "deployment", "web", "tier=front"]);
    assert_eq!(berth.kubectl(&["get", "deploy", "-l", "tier=front", "-o", "name"]), "deployment.apps/web\n");
    berth.kubectl(&["annotate", "deployment", "web", "note=hello"]);
    for (kind, patch) in [
        ("strategic", r#"{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"A","value":"1"}]}]}}}}"#),
        ("merge", r#"{"spec":{"minReadySeconds":1}}"#),
        ("json", r#"[{"op":"add","path":"/spec/revisionHistoryLimit","value":3}]"#),
    ] {
        assert!(berth.kubectl(&["patch", "deploy", "web", "--type", kind, "--patch", patch]).contains("patched"));
    }
    let spec = berth.kubectl(&["get", "deploy", "web", "-o", "jsonpath={.spec.minReadySeconds} {.spec.revisionHistoryLimit} {.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[0].name}"]);
    assert_eq!(spec, "1 3 web:1 A");
    let unknown = deployment("typo", 1, "web:1").replace("replicas:", "replicsa:");
    let refused = berth.kubectl_with(&unknown, &["apply", "--filename", "-"]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("unknown field \"spec.replicsa\""),
        "{}",
        String::from_utf8_lossy(&refused.stderr)
    );
    let invalid = deployment("bad", 1, "web:1").replace("matchLabels: {app: bad}", "matchLabels: {app: other}");
    let refused = berth.kubectl_with(&invalid, &["apply", "--filename", "-"]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("does not match template `labels`"),
        "{}",
        String::from_utf8_lossy(&refused.stderr)
    );
    berth.kubectl(&["delete", "deployment", "web", "--wait"]);
    berth.kubectl_fails(&["get", "deployment", "web"]);
}
