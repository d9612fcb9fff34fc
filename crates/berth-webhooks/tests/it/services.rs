//! Webhooks behind Services.

use crate::{
    cluster::{Cluster, config_map, hook, merged},
    server::{Reply, WebhookServer},
};
use berth_webhooks::{Options, ServiceAddresses, SimulatedWebhooks};
use serde_json::{Value, json};

async fn allowing() -> WebhookServer {
    WebhookServer::start(|_, _| Reply::Response(json!({"allowed": true}))).await
}

/// Installs a webhook behind the Service `tools/hook`, which exists.
async fn install(cluster: &Cluster, webhook: &WebhookServer, more: &Value) {
    cluster.create("namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tools"}})).await.expect("new");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook", "namespace": "tools"}, "spec": {"ports": [{"port": 443}]}});
    cluster.create_in("tools", "services", &service).await;
    let client = json!({"service": {"namespace": "tools", "name": "hook", "path": "/x"}, "caBundle": webhook.client("/")["caBundle"]});
    let hook = merged(hook(webhook, "h", "/"), &json!({"clientConfig": client}));
    cluster.configure("Validating", json!([merged(hook, more)])).await;
}

/// Returns the error of a call with this timeout.
fn simulated(timeout: &str) -> String {
    format!(
        "failed calling webhook \"h.example.com\": failed to call webhook: Post \"https://hook.tools.svc:443/x?timeout={timeout}\": no endpoints \
         available for service \"hook\": the pods of this cluster are simulated (berth up --service-resolver tools/hook=HOST:PORT names a server)"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_option_names_the_address_of_a_service() {
    let webhook = allowing().await;
    let services: ServiceAddresses = format!("tools/hook={}", webhook.address).parse().expect("an address");
    let cluster = Cluster::with(Options { services, ..Options::default() }).await;
    install(&cluster, &webhook, &json!({})).await;
    cluster.create("configmaps", &config_map("x")).await.expect("allowed");
    assert_eq!(webhook.taken()[0].0, "/x?timeout=10s");
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_of_a_user_are_called_and_simulated_pods_are_not() {
    let webhook = allowing().await;
    let cluster = Cluster::new().await;
    install(&cluster, &webhook, &json!({"timeoutSeconds": 1})).await;
    assert_eq!(cluster.refused("configmaps", &config_map("x")).await, simulated("1s"));
    // Kubernetes allows no loopback addresses in endpoints. Nothing answers at this one, which is for documentation.
    let slice = |name: &str, more: Value| {
        let labels = json!({"kubernetes.io/service-name": "hook"});
        let endpoint = merged(json!({"addresses": ["192.0.2.1"]}), &more);
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": name, "labels": labels},
            "addressType": "IPv4", "endpoints": [endpoint], "ports": [{"name": "", "port": 9443}],
        })
    };
    let of_pod = slice("pods", json!({"targetRef": {"kind": "Pod", "name": "p", "namespace": "tools"}}));
    cluster.create_in("tools", "discovery.k8s.io/v1/endpointslices", &of_pod).await;
    assert_eq!(cluster.refused("configmaps", &config_map("x")).await, simulated("1s"));
    cluster.create_in("tools", "discovery.k8s.io/v1/endpointslices", &slice("real", json!({}))).await;
    let refused = cluster.refused("configmaps", &config_map("x")).await;
    let called = "failed calling webhook \"h.example.com\": failed to call webhook: Post \"https://hook.tools.svc:443/x?timeout=1s\": ";
    assert!(refused.starts_with(called) && !refused.contains("simulated"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_names_a_host_is_called_there() {
    let webhook = allowing().await;
    let cluster = Cluster::new().await;
    let port = webhook.address.port();
    let client =
        json!({"service": {"namespace": "tools", "name": "here", "path": "/x", "port": port}, "caBundle": webhook.client("/")["caBundle"]});
    install(&cluster, &webhook, &json!({"clientConfig": client})).await;
    let spec = json!({"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "here", "namespace": "tools"}, "spec": spec});
    cluster.create_in("tools", "services", &service).await;
    cluster.create("configmaps", &config_map("x")).await.expect("allowed");
    assert_eq!(webhook.taken().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn simulated_webhooks_allow_each_request_if_the_option_asks_for_it() {
    let webhook = allowing().await;
    let cluster = Cluster::with(Options { simulated: SimulatedWebhooks::Allow, ..Options::default() }).await;
    install(&cluster, &webhook, &json!({})).await;
    cluster.create("configmaps", &config_map("x")).await.expect("allowed without a call");
    assert_eq!(webhook.taken().len(), 0);
    cluster.configure("Validating", json!([hook(&webhook, "h", "/x")])).await;
    cluster.create("configmaps", &config_map("y")).await.expect("allowed");
    assert_eq!(webhook.taken().len(), 1, "a webhook with an address is called");
}
