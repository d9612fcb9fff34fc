//! Claims and volumes over a real registry.

use super::{PROVISION_LATENCY, Running};
use berth_controllers::cluster::{Cluster, DeleteParams};
use berth_identity::{GroupResource, ObjectKey};
use berth_workloads::resources::{CLAIMS, CLASSES, PODS, VOLUMES};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::Arc;

/// Longer than provisioning takes.
const PROVISIONED: SignedDuration = SignedDuration::from_secs(40);

fn claim(name: &str, spec: &Value) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    merge(&mut claim["spec"], spec);
    claim
}

fn volume(name: &str, size: &str, spec: &Value) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "labels": {"size": size.to_lowercase()}},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "hostPath": {"path": "/x"}},
    });
    merge(&mut volume["spec"], spec);
    volume
}

fn merge(into: &mut Value, from: &Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}

fn user(name: &str, claim: &str, node: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": node, "containers": [{"name": "main", "image": "main"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        },
    })
}

impl Running {
    /// Each claim and volume as `name phase other`, in order.
    fn bindings(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let claims = self.list(CLAIMS).into_iter().map(|claim| (claim["spec"]["volumeName"].clone(), claim));
        let volumes = self.list(VOLUMES).into_iter().map(|volume| (volume["spec"]["claimRef"]["name"].clone(), volume));
        let line = |(other, object): (Value, Value)| {
            format!("{} {} {}", text(&object["metadata"]["name"]), text(&object["status"]["phase"]), text(&other))
        };
        claims.chain(volumes).map(line).collect()
    }

    fn remove(&self, resource: GroupResource, name: &str) {
        let namespace = if resource == VOLUMES { "" } else { "default" };
        let (cluster, key) = (Arc::clone(&self.cluster), ObjectKey::new(namespace, name));
        self.test_env.block_on(async move { cluster.delete(resource, &key, Default::default()).await }).expect("it is there");
        self.settle();
    }

    fn reasons(&self) -> Vec<String> {
        let mut reasons: Vec<String> = self.events().into_iter().map(|(reason, _)| reason).collect();
        reasons.sort();
        reasons
    }
}

#[test]
fn a_claim_of_the_default_class_gets_a_volume_after_a_while() {
    let running = Running::start("*");
    running.create(Some("default"), &claim("data", &json!({})));
    running.test_env.run_for(SignedDuration::try_from(PROVISION_LATENCY).expect("seconds") - SignedDuration::from_secs(1));
    assert_eq!(running.bindings(), ["data Pending -"]);
    running.settle();
    let made = format!("pvc-{}", running.list(CLAIMS)[0]["metadata"]["uid"].as_str().unwrap_or_default());
    assert_eq!(running.bindings(), [format!("data Bound {made}"), format!("{made} Bound data")]);
    let (claim, volume) = (&running.list(CLAIMS)[0], &running.list(VOLUMES)[0]);
    assert_eq!((&claim["status"]["capacity"], &claim["status"]["accessModes"]), (&json!({"storage": "1Gi"}), &json!(["ReadWriteOnce"])));
    let annotations = json!({
        "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
        "volume.beta.kubernetes.io/storage-provisioner": "berth.dev/simulated", "volume.kubernetes.io/storage-provisioner": "berth.dev/simulated",
    });
    assert_eq!(
        (&claim["metadata"]["annotations"], &claim["metadata"]["finalizers"]),
        (&annotations, &json!(["kubernetes.io/pvc-protection"]))
    );
    assert_eq!(volume["metadata"]["annotations"], json!({"pv.kubernetes.io/provisioned-by": "berth.dev/simulated"}));
    assert_eq!(
        (&volume["spec"]["persistentVolumeReclaimPolicy"], &volume["spec"]["storageClassName"]),
        (&json!("Delete"), &json!("standard"))
    );
    assert_eq!(running.reasons(), ["ExternalProvisioning", "Provisioning", "ProvisioningSucceeded"]);
}

#[test]
fn a_claim_in_use_stays_until_its_pods_are_gone_and_takes_its_volume_with_it() {
    let running = Running::start("*,-podgc,-nodelifecycle");
    running.create(Some("default"), &claim("data", &json!({})));
    running.create(Some("default"), &user("placed", "data", Some("node-0")));
    running.create(Some("default"), &user("unplaced", "data", None));
    running.test_env.run_for(PROVISIONED);
    running.remove(CLAIMS, "data");
    assert!(running.bindings()[0].starts_with("data Bound pvc-"), "{:?}", running.bindings());
    running.remove(VOLUMES, running.list(VOLUMES)[0]["metadata"]["name"].as_str().unwrap_or_default());
    assert_eq!(running.count(VOLUMES), 1, "a bound volume stays");
    let key = ObjectKey::new("default", "placed");
    let cluster = Arc::clone(&running.cluster);
    let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    running.test_env.block_on(async move { cluster.delete(PODS, &key, params).await }).expect("it is there");
    running.settle();
    assert_eq!(running.bindings(), Vec::<String>::new());
}

#[test]
fn a_replace_without_finalizers_leaves_a_claim_in_use_protected() {
    let running = Running::start("*,-podgc,-nodelifecycle");
    running.create(Some("default"), &claim("data", &json!({})));
    running.create(Some("default"), &user("placed", "data", Some("node-0")));
    running.test_env.run_for(PROVISIONED);
    let volume = running.list(VOLUMES)[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    for (resource, namespace, name) in [(CLAIMS, "default", "data"), (VOLUMES, "", volume.as_str())] {
        let (cluster, of, key) = (Arc::clone(&running.cluster), resource.clone(), ObjectKey::new(namespace, name));
        let patch = json!({"metadata": {"finalizers": null}});
        running.test_env.block_on(async move { cluster.patch(of, &key, None, patch).await }).expect("a valid patch");
        running.settle();
        running.remove(resource, name);
    }
    assert_eq!(running.bindings(), [format!("data Bound {volume}"), format!("{volume} Bound data")]);
}

#[test]
fn a_retained_volume_is_released_and_free_again_when_its_claim_ref_is_removed() {
    let running = Running::start("*");
    running.create(None, &volume("keep", "2Gi", &json!({"storageClassName": "manual"})));
    running.settle();
    assert_eq!(running.bindings(), ["keep Available -"]);
    running.create(Some("default"), &claim("data", &json!({"storageClassName": "manual"})));
    running.settle();
    assert_eq!(running.bindings(), ["data Bound keep", "keep Bound data"]);
    assert_eq!(running.list(CLAIMS)[0]["status"]["capacity"]["storage"], "2Gi", "it has what the volume holds");
    running.remove(CLAIMS, "data");
    assert_eq!(running.bindings(), ["keep Released data"]);
    running.create(Some("default"), &claim("data", &json!({"storageClassName": "manual"})));
    running.settle();
    assert_eq!(running.bindings(), ["data Pending -", "keep Released data"], "another claim of the same name does not get the data");
    let key = ObjectKey::cluster_scoped("keep");
    let cluster = Arc::clone(&running.cluster);
    let patch = json!({"spec": {"claimRef": null}});
    running.test_env.block_on(async move { cluster.patch(VOLUMES, &key, None, patch).await }).expect("a valid patch");
    running.settle();
    assert_eq!(running.bindings(), ["data Bound keep", "keep Bound data"]);
}

#[test]
fn a_claim_of_a_waiting_class_is_bound_when_the_scheduler_has_chosen() {
    let running = Running::start("*");
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
        "provisioner": "berth.dev/simulated", "volumeBindingMode": "WaitForFirstConsumer"});
    running.create(Some("default"), &claim("data", &json!({"storageClassName": "late"})));
    running.settle();
    assert_eq!(running.reasons(), ["ProvisioningFailed"], "the class is not there yet");
    running.create(None, &class);
    running.create(Some("default"), &user("web", "data", None));
    running.test_env.run_for(PROVISIONED);
    assert_eq!((running.bindings(), running.count(CLASSES)), (vec!["data Pending -".to_owned()], 2));
    let waiting = ("WaitForPodScheduled".to_owned(), "waiting for pod web to be scheduled".to_owned());
    assert!(running.events().contains(&waiting), "{:?}", running.events());
    running.patch(CLAIMS, "data", json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-0"}}}));
    running.test_env.run_for(PROVISIONED);
    assert!(running.bindings()[0].starts_with("data Bound pvc-"), "{:?}", running.bindings());
}

#[test]
fn a_hundred_claims_get_a_volume_each() {
    let running = Running::start("*");
    for number in 0..50 {
        running.create(None, &volume(&format!("made-{number:02}"), "1Gi", &json!({"storageClassName": "manual"})));
        running.create(Some("default"), &claim(&format!("manual-{number:02}"), &json!({"storageClassName": "manual"})));
        running.create(Some("default"), &claim(&format!("claim-{number:02}"), &json!({})));
    }
    running.test_env.run_for(PROVISIONED);
    let mut volumes: Vec<String> = running.list(CLAIMS).iter().map(|claim| claim["spec"]["volumeName"].to_string()).collect();
    volumes.sort();
    volumes.dedup();
    assert_eq!((volumes.len(), running.count(VOLUMES)), (100, 100));
    assert!(running.bindings().iter().all(|line| line.contains(" Bound ")), "{:?}", running.bindings());
}
