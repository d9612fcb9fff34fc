//! Webhooks whose Service has only simulated pods, as in charts that install a webhook with its pods.

use crate::common::{kubectl_is_here, up};

/// What such a chart has in common: a Deployment and a Service of the webhook, and a configuration without a CA bundle, which a job or a
/// controller of the chart would write.
const CHART: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: team-webhook}
spec:
  selector: {matchLabels: {app: webhook}}
  template:
    metadata: {labels: {app: webhook}}
    spec:
      containers: [{name: webhook, image: example.com/webhook:1}]
---
apiVersion: v1
kind: Service
metadata: {name: team-webhook}
spec:
  selector: {app: webhook}
  ports: [{port: 443, targetPort: 10250}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: team-webhook}
webhooks:
- name: team.example.com
  clientConfig: {service: {namespace: default, name: team-webhook, path: /validate}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  matchConditions: [{name: not-exempt, expression: "object.metadata.name != 'exempt'"}]
  sideEffects: None
  admissionReviewVersions: [v1]
"#;

const FAST: [&str; 4] = ["--store", "memory", "--nodes", "1"];

#[test]
fn a_webhook_that_only_simulated_pods_serve_rejects_requests_and_names_the_option() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(&FAST);
    berth.apply(CHART);
    berth.kubectl(&["rollout", "status", "deployment/team-webhook"]);
    let text = berth.kubectl_fails(&["create", "configmap", "settings"]);
    let wanted = "failed calling webhook \"team.example.com\": failed to call webhook: Post \"https://team-webhook.default.svc:443/validate?timeout=10s\": \
                  no endpoints available for service \"team-webhook\": the pods of this cluster are simulated";
    assert!(text.contains(wanted) && text.contains("--service-resolver default/team-webhook=HOST:PORT"), "{text}");
    berth.kubectl(&["create", "configmap", "exempt"]);
}

#[test]
fn an_option_allows_what_simulated_webhooks_would_review() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(&[&FAST[..], &["--simulated-webhooks", "allow"]].concat());
    berth.apply(CHART);
    berth.kubectl(&["create", "configmap", "settings"]);
}
