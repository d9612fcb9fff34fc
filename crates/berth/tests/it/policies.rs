//! Admission policies and API services with kubectl.

use crate::common::{deployment, kubectl_is_here, up};

const FAST: &[&str] = &["--store", "memory", "--nodes", "1"];

const POLICY: &str = include_str!("../../../../examples/admission-policies.yaml");

#[test]
fn policies_decide_about_deployments() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(POLICY);
    berth.apply(&deployment("small", 3, "image"));
    assert_eq!(berth.kubectl(&["get", "deployment", "small", "--output=jsonpath={.metadata.labels.team}"]), "default");
    // The rule does not match `deployments/scale`, as upstream.
    berth.kubectl(&["scale", "deployment", "small", "--replicas=4"]);
}

#[test]
fn a_denied_write_has_upstreams_message() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(POLICY);
    let output = berth.kubectl_with(&deployment("large", 4, "image"), &["apply", "--filename=-"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    // As upstream, kubectl apply prints the causes of an error with the reason `Invalid`, and not its message.
    let wanted = "The deployments \"large\" is invalid: : ValidatingAdmissionPolicy 'few-replicas' with binding 'few-replicas' denied request: at most 3 replicas";
    assert!(!output.status.success() && text.contains(wanted), "{text}");
    let shown = berth.kubectl(&["get", "validatingadmissionpolicies", "--no-headers"]);
    assert_eq!(shown.split_whitespace().take(3).collect::<Vec<_>>(), ["few-replicas", "1", "v1/ConfigMap"]);
    let shown = berth.kubectl(&["get", "validatingadmissionpolicybindings", "--no-headers"]);
    assert_eq!(shown.split_whitespace().take(3).collect::<Vec<_>>(), ["few-replicas", "few-replicas", "*/limits"]);
}

#[test]
fn the_status_of_a_policy_warns_about_unknown_fields() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    let broken = POLICY.replace("object.spec.replicas <= int", "object.spec.size <= int");
    berth.apply(&broken);
    let path = "--output=jsonpath={.status.observedGeneration} {.status.typeChecking.expressionWarnings}";
    let shown = berth.kubectl_until(&["get", "validatingadmissionpolicy", "few-replicas", path], |shown| shown.starts_with("1 "));
    assert!(shown.contains("spec.validations[0].expression") && shown.contains("undefined field 'size'"), "{shown}");
}

#[test]
fn each_served_version_has_an_available_api_service() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    let shown = berth.kubectl_until(&["get", "apiservices", "--no-headers"], |shown| shown.contains("v2.autoscaling"));
    let line = shown.lines().find(|line| line.starts_with("v1.apps ")).expect("it is listed");
    assert_eq!(line.split_whitespace().take(3).collect::<Vec<_>>(), ["v1.apps", "Local", "True"]);
    let aggregated = "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.a.example.com}\nspec: {group: a.example.com, version: v1, \
                      groupPriorityMinimum: 100, versionPriority: 10, service: {name: s, namespace: elsewhere}}\n";
    berth.apply(aggregated);
    let line = berth.kubectl(&["get", "apiservice", "v1.a.example.com", "--no-headers"]);
    assert_eq!(line.split_whitespace().take(4).collect::<Vec<_>>(), ["v1.a.example.com", "elsewhere/s", "False", "(NotForwarded)"]);
}
