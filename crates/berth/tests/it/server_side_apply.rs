//! `kubectl apply --server-side` against a real `berth up`.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{Berth, deployment, kubectl_is_here, up};

const FAST: &[&str] = &["--store", "memory", "--nodes", "3", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];

/// kubectl's output if it succeeded, else its error.
fn apply(berth: &Berth, manifest: &str, arguments: &[&str]) -> Result<String, String> {
    let output = berth.kubectl_with(manifest, &[&["apply", "--server-side", "--filename", "-"], arguments].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// One field of the Deployment `web`.
fn field(berth: &Berth, path: &str) -> String {
    berth.kubectl(&["get", "deployment", "web", "-o", &format!("jsonpath={{{path}}}")])
}

/// `manager/operation/subresource` of every entry, in order.
fn owners(berth: &Berth) -> Vec<String> {
    let template = r"jsonpath={range .metadata.managedFields[*]}{.manager}/{.operation}/{.subresource} {end}";
    let shown = berth.kubectl(&["get", "deployment", "web", "--show-managed-fields", "-o", template]);
    shown.split_whitespace().map(str::to_owned).collect()
}

const APPLIED: &str = "deployment.apps/web serverside-applied\n";

#[test]
fn managers_share_an_object_field_by_field() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    let web = deployment("web", 2, "web:1");
    assert_eq!(apply(&berth, &web, &[]).as_deref(), Ok(APPLIED));
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    assert_eq!(apply(&berth, &web, &[]).as_deref(), Ok(APPLIED));
    assert_eq!(field(&berth, ".metadata.generation"), "1");
    assert!(!berth.kubectl(&["get", "deployment", "web", "-o", "yaml"]).contains("managedFields"));
    assert_eq!(owners(&berth), ["kubectl/Apply/", "berth-controller-manager/Update/status"]);

    berth.kubectl(&["scale", "deployment/web", "--replicas", "4"]);
    let refused = apply(&berth, &web, &[]).unwrap_err();
    assert!(
        refused
            .contains("Apply failed with 1 conflict: conflict with \"kubectl\" with subresource \"scale\" using apps/v1: .spec.replicas"),
        "{refused}"
    );
    assert_eq!(field(&berth, ".spec.replicas"), "4");
    // Dry runs print the same, and the result that would follow.
    apply(&berth, &web, &["--dry-run=server"]).unwrap_err();
    let tried = apply(&berth, &web, &["--dry-run=server", "--force-conflicts", "-o", "jsonpath={.spec.replicas}"]);
    assert_eq!((tried.as_deref(), field(&berth, ".spec.replicas").as_str()), (Ok("2"), "4"));
    assert_eq!(apply(&berth, &web, &["--force-conflicts"]).as_deref(), Ok(APPLIED));
    assert_eq!(field(&berth, ".spec.replicas"), "2");

    let label = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  labels:\n    team: shop\n";
    assert_eq!(apply(&berth, label, &["--field-manager", "labeller"]).as_deref(), Ok(APPLIED));
    assert_eq!(apply(&berth, &web, &[]).as_deref(), Ok(APPLIED));
    assert_eq!(field(&berth, ".metadata.labels.team"), "shop");
    let nothing = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n";
    assert_eq!(apply(&berth, nothing, &["--field-manager", "labeller"]).as_deref(), Ok(APPLIED));
    assert_eq!(field(&berth, ".metadata.labels.team"), "");
    assert!(!owners(&berth).contains(&"labeller/Apply/".to_owned()));
    berth.kubectl(&["rollout", "status", "deployment/web"]);
}

#[test]
fn an_object_of_client_side_apply_moves_over() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(&["--store", "memory", "--controllers=-*", "--nodes", "0"]);
    berth.apply(&deployment("web", 2, "web:1"));
    assert_eq!(owners(&berth), ["kubectl-client-side-apply/Update/"]);
    assert_eq!(apply(&berth, &deployment("web", 3, "web:2"), &[]).as_deref(), Ok(APPLIED));
    assert_eq!(field(&berth, ".spec.replicas"), "3");
    assert!(!owners(&berth).iter().any(|owner| owner.starts_with("kubectl-client-side-apply")), "{:?}", owners(&berth));
    assert!(owners(&berth).contains(&"kubectl/Apply/".to_owned()));
    // It can now give up the fields that it got by client-side apply.
    let manifest = deployment("web", 3, "web:2").replace("  replicas: 3\n", "");
    assert_eq!(apply(&berth, &manifest, &[]).as_deref(), Ok(APPLIED));
    assert_eq!(field(&berth, ".spec.replicas"), "1");
    // The reverse.
    berth.apply(&deployment("web", 5, "web:3"));
    assert_eq!(field(&berth, ".spec.replicas"), "5");
}

#[test]
fn mistakes_are_reported() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(&["--store", "memory", "--controllers=-*", "--nodes", "0"]);
    let typo = deployment("web", 2, "web:1").replace("  replicas:", "  replicaz:");
    let refused = apply(&berth, &typo, &[]).unwrap_err();
    assert!(refused.contains(".spec.replicaz: field not declared in schema"), "{refused}");
    assert_eq!(apply(&berth, &deployment("web", 2, "web:1"), &[]).as_deref(), Ok(APPLIED));
    let output = berth.kubectl_with(&deployment("web", 2, "web:2"), &["diff", "--server-side", "--filename", "-"]);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.lines().any(|line| line.starts_with('+') && line.contains("image: web:2")), "{shown}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn conflicts_are_reported_in_full() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(&["--store", "memory", "--controllers=-*", "--nodes", "0"]);
    let web = deployment("web", 2, "web:1");
    assert_eq!(apply(&berth, &web, &[]).as_deref(), Ok(APPLIED));
    berth.kubectl(&["set", "image", "deployment/web", "main=web:2", "--field-manager=ci"]);
    let one = "Apply failed with 1 conflict: conflict with \"ci\" using apps/v1: .spec.template.spec.containers[name=\"main\"].image\n";
    let refused = apply(&berth, &web, &[]).unwrap_err();
    assert!(refused.contains(&format!("error: {one}")) && refused.contains("--force-conflicts"), "{refused}");
    let diff = |arguments: &[&str]| berth.kubectl_with(&web, &[&["diff", "--server-side", "--filename", "-"], arguments].concat());
    let refused = diff(&[]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() > Some(1) && text.contains(&format!("Error from server (Conflict): {one}")), "{text}");
    let shown = diff(&["--force-conflicts"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("\n-      - image: web:2\n+      - image: web:1\n"));

    berth.kubectl(&["patch", "deployment", "web", "--field-manager=ci", "--patch", r#"{"spec":{"replicas":5}}"#]);
    let two = "Apply failed with 2 conflicts: conflicts with \"ci\" using apps/v1:\n- .spec.replicas\n- .spec.template.spec.containers[name=\"main\"].image\n";
    let refused = apply(&berth, &web, &[]).unwrap_err();
    assert!(refused.contains(two), "{refused}");
    assert_eq!(apply(&berth, &web, &["--force-conflicts"]).as_deref(), Ok(APPLIED));
    assert_eq!(owners(&berth), ["kubectl/Apply/"]);
}

#[test]
fn a_scaler_works_beside_an_applier_who_gave_replicas_up() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    assert_eq!(apply(&berth, &deployment("web", 2, "web:1"), &[]).as_deref(), Ok(APPLIED));
    berth.kubectl(&["scale", "deployment/web", "--replicas", "4"]);
    for image in ["web:1", "web:2"] {
        let silent = deployment("web", 2, image).replace("  replicas: 2\n", "");
        assert_eq!(apply(&berth, &silent, &[]).as_deref(), Ok(APPLIED));
        assert_eq!(field(&berth, ".spec.replicas"), "4");
    }
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    assert_eq!(field(&berth, ".spec.template.spec.containers[0].image"), "web:2");
}

#[test]
fn the_last_applied_manifest_is_kept_for_readers() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(&["--store", "memory", "--controllers=-*", "--nodes", "0"]);
    let view = ["apply", "view-last-applied", "deployment/web"];
    let created = berth.kubectl_with(&deployment("web", 2, "web:1"), &["create", "--save-config", "--filename", "-"]);
    assert!(created.status.success());
    assert!(berth.kubectl(&view).contains("image: web:1"));
    assert_eq!(berth.apply(&deployment("web", 2, "web:2")), "deployment.apps/web configured\n");
    // A user who used client-side apply before keeps the annotation, and can therefore return to it.
    assert_eq!(apply(&berth, &deployment("web", 2, "web:3"), &[]).as_deref(), Ok(APPLIED));
    assert!(berth.kubectl(&view).contains("image: web:3"));
    assert_eq!(berth.apply(&deployment("web", 2, "web:3")), "deployment.apps/web configured\n");
}

#[test]
fn what_left_an_apply_set_is_pruned() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(&["--store", "memory", "--nodes", "0"]);
    let map = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n---\n");
    let whole = [map("one"), map("two"), deployment("web", 1, "web:1")].concat();
    for parent in ["configmap/set", "secret/set"] {
        let set = ["--namespace", "default", "--prune", "--applyset", parent];
        assert!(apply(&berth, &whole, &set).unwrap().contains("configmap/two serverside-applied"));
        let told = apply(&berth, &map("one"), &set).unwrap();
        assert!(told.contains("configmap/two pruned") && told.contains("deployment.apps/web pruned"), "{told}");
        let id = r"jsonpath={.metadata.labels.applyset\.kubernetes\.io/id}";
        assert!(berth.kubectl(&["get", parent, "-o", id]).starts_with("applyset-"));
        berth.kubectl(&["delete", parent]);
        berth.kubectl(&["delete", "configmap", "one"]);
    }
}
