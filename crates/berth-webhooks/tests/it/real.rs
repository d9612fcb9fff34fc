//! The webhooks of cert-manager and Kueue, as these projects publish their configurations and definitions. The server of
//! the test answers for them, and the test writes the CA bundle, as an injector does.

use crate::{
    cluster::Cluster,
    server::{Reply, WebhookServer},
};
use berth_kinds::custom::definition_of;
use berth_registry::ApiError;
use berth_testing::real_manifests;
use berth_webhooks::{Options, ServiceAddresses};
use serde_json::{Value, json};

/// The Services of the webhooks, which are in the certificate of the server too.
const SERVICES: [(&str, &str); 2] = [("default", "cert-manager-webhook"), ("system", "webhook-service")];

/// Returns the objects of these kinds in the files whose path ends so.
fn objects(part: &str, file: &str, kinds: &[&str]) -> Option<Vec<Value>> {
    let documents = real_manifests(part)?.into_iter().filter(|(path, _)| path.ends_with(file));
    let objects = documents.filter_map(|(_, text)| serde_saphyr::from_str::<Value>(&text).ok());
    Some(objects.filter(|object| kinds.iter().any(|kind| object["kind"] == *kind)).collect())
}

/// Starts a cluster with the definitions and the webhooks of a project.
async fn install(webhook: &WebhookServer, definitions: &str, (part, file): (&str, &str)) -> Option<Cluster> {
    let definitions = objects("crds", ".yaml", &["CustomResourceDefinition"])?
        .into_iter()
        .filter(|definition| definition["spec"]["group"].as_str().is_some_and(|group| group.ends_with(definitions)));
    let configurations = objects(part, file, &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])?;
    let mut services = ServiceAddresses::default();
    for (namespace, name) in SERVICES {
        services.add(&format!("{namespace}/{name}={}", webhook.address)).expect("an address");
    }
    let cluster = Cluster::with(Options { services, ..Options::default() }).await;
    let mut count = 0;
    for definition in definitions {
        let created = cluster.create("apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.expect("a valid definition");
        let definition = definition_of(&created).expect("its kind can be served");
        cluster.registry.table().define(definition).expect("a free name");
        count += 1;
    }
    assert!(0 < count, "the project has definitions");
    for mut configuration in configurations {
        for hook in configuration["webhooks"].as_array_mut().expect("it has webhooks") {
            hook["clientConfig"]["caBundle"] = webhook.client("")["caBundle"].clone();
        }
        let plural = format!("{}s", configuration["kind"].as_str().unwrap_or_default().to_lowercase());
        cluster.create(&format!("admissionregistration.k8s.io/v1/{plural}"), &configuration).await.expect("a valid configuration");
    }
    Some(cluster)
}

fn deny(why: &str) -> Reply {
    Reply::Response(json!({"allowed": false, "status": {"code": 403, "reason": "Forbidden", "message": why}}))
}

/// Answers as the webhook of cert-manager: a request gets the identity of its author, and cannot change afterwards.
fn cert_manager(path: &str, review: &Value) -> Reply {
    let request = &review["request"];
    match path {
        "/mutate" => Reply::patch(&json!([
            {"op": "add", "path": "/spec/username", "value": request["userInfo"]["username"]},
            {"op": "add", "path": "/spec/groups", "value": request["userInfo"]["groups"]},
        ])),
        _ if request["operation"] == "UPDATE"
            && request["resource"]["resource"] == "certificaterequests"
            && request["object"]["spec"] != request["oldObject"]["spec"] =>
        {
            deny("spec: Forbidden: cannot change spec after creation")
        }
        _ => Reply::Response(json!({"allowed": true})),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cert_manager_records_the_author_of_a_request_and_keeps_its_spec() {
    let webhook = WebhookServer::start(cert_manager).await;
    let Some(cluster) = install(&webhook, "cert-manager.io", ("charts", "cert-manager.yaml")).await else { return };
    let requests = "cert-manager.io/v1/certificaterequests";
    let sent = json!({
        "apiVersion": "cert-manager.io/v1", "kind": "CertificateRequest", "metadata": {"name": "web"},
        "spec": {"request": "aGk=", "issuerRef": {"name": "ca"}, "username": "other"},
    });
    let created = cluster.create(requests, &sent).await.expect("the webhooks allow it");
    assert_eq!(created["spec"]["username"], "alice");
    assert_eq!(created["spec"]["groups"], json!(["developers", "system:authenticated"]));
    let denied = cluster.merge(requests, "web", &json!({"spec": {"username": "bob"}})).await;
    assert_eq!(
        denied.map_err(|error| error.to_string()),
        Err("admission webhook \"webhook.cert-manager.io\" denied the request: spec: Forbidden: cannot change spec after creation"
            .to_owned())
    );
    cluster.merge(requests, "web", &json!({"metadata": {"labels": {"a": "b"}}})).await.expect("only the spec stays");
    // Other kinds of the project are only validated, and the kinds of Kubernetes not at all.
    webhook.taken();
    let issuer = json!({
        "apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": {"name": "ca"}, "spec": {"selfSigned": {}},
    });
    cluster.create("cert-manager.io/v1/issuers", &issuer).await.expect("the webhook allows it");
    cluster.create("configmaps", &crate::cluster::config_map("x")).await.expect("no webhook");
    let paths: Vec<String> = webhook.taken().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["/validate?timeout=30s"]);
    // The chart lets users exclude a namespace.
    let label = json!({"metadata": {"labels": {"cert-manager.io/disable-validation": "true"}}});
    cluster.merge("namespaces", "default", &label).await.expect("a label");
    cluster.merge(requests, "web", &json!({"spec": {"username": "bob"}})).await.expect("it is not validated");
}

/// Answers as the webhooks of Kueue: jobs with a queue start suspended, and a queue cannot change while they run.
fn kueue(path: &str, review: &Value) -> Reply {
    let (object, old) = (&review["request"]["object"], &review["request"]["oldObject"]);
    let queue = |object: &Value| object["metadata"]["labels"]["kueue.x-k8s.io/queue-name"].clone();
    match path {
        "/mutate-batch-v1-job" if queue(object).is_string() => {
            Reply::patch(&json!([{"op": "add", "path": "/spec/suspend", "value": true}]))
        }
        "/mutate-kueue-x-k8s-io-v1beta2-resourceflavor" => {
            Reply::patch(&json!([{"op": "add", "path": "/metadata/finalizers", "value": ["kueue.x-k8s.io/resource-in-use"]}]))
        }
        "/validate-batch-v1-job" if old.is_object() && old["spec"]["suspend"] == false && queue(object) != queue(old) => {
            deny("metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: field is immutable")
        }
        _ => Reply::Response(json!({"allowed": true})),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kueue_suspends_jobs_with_a_queue_and_sees_its_own_kinds_in_the_version_of_its_rules() {
    let webhook = WebhookServer::start(kueue).await;
    let Some(cluster) = install(&webhook, "kueue.x-k8s.io", ("apps", "kueue-install/webhook-manifests.yaml")).await else { return };
    let job = |name: &str, labels: Value| {
        let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels}, "spec": {"template": pod}})
    };
    let queued = job("queued", json!({"kueue.x-k8s.io/queue-name": "team"}));
    assert_eq!(cluster.create("batch/v1/jobs", &queued).await.expect("allowed")["spec"]["suspend"], true);
    assert_eq!(cluster.create("batch/v1/jobs", &job("plain", json!({}))).await.expect("allowed")["spec"]["suspend"], false);
    cluster.merge("batch/v1/jobs", "queued", &json!({"spec": {"suspend": false}})).await.expect("allowed");
    let other = json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}});
    match cluster.merge("batch/v1/jobs", "queued", &other).await {
        Err(ApiError::Denied { code: 403, reason, message, .. }) => {
            let why = "metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: field is immutable";
            assert_eq!((reason.as_str(), message), ("Forbidden", format!("admission webhook \"vjob.kb.io\" denied the request: {why}")));
        }
        other => panic!("{other:?}"),
    }
    // The rules name v1beta2 only.
    webhook.taken();
    let flavor = json!({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor", "metadata": {"name": "f"}});
    let created = cluster.create("kueue.x-k8s.io/v1beta1/resourceflavors", &flavor).await.expect("allowed");
    assert_eq!(created["apiVersion"], "kueue.x-k8s.io/v1beta1");
    assert_eq!(created["metadata"]["finalizers"], json!(["kueue.x-k8s.io/resource-in-use"]));
    let seen: Vec<(String, Value)> = webhook.taken();
    let versions: Vec<&str> = seen.iter().filter_map(|(_, review)| review["request"]["object"]["apiVersion"].as_str()).collect();
    assert_eq!(versions, ["kueue.x-k8s.io/v1beta2"; 2]);
    assert!(seen.iter().all(|(_, review)| review["request"]["requestKind"]["version"] == "v1beta1"));
}
