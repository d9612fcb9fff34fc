//! What every cluster has from the start.

use crate::{ApiError, Body, Collection, Registry, WriteOptions, resource};
use serde_json::{Value, json};

impl Registry {
    /// Makes the namespaces, the storage class and the priority classes that every cluster has. What is there already stays as it is.
    ///
    /// # Errors
    /// The store's.
    pub async fn bootstrap(&self) -> Result<(), ApiError> {
        for object in first_objects() {
            self.create_missing(&object).await?;
        }
        Ok(())
    }

    async fn create_missing(&self, object: &Value) -> Result<(), ApiError> {
        let text = |member: &str| object[member].as_str().unwrap_or_default();
        let resource = resource::by_kind(text("apiVersion"), text("kind")).expect("the first objects are of kinds that are served");
        let at = Collection { resource, namespace: None };
        match self.create(&at, Body::Json(object.to_string().into_bytes()), &WriteOptions::default()).await {
            Ok(_) | Err(ApiError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn first_objects() -> Vec<Value> {
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let priority = |name: &str, value: i32, description: &str| {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
            "preemptionPolicy": "PreemptLowerPriority", "description": description})
    };
    let storage = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "berth.dev/simulated", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"});
    let mut objects: Vec<Value> = ["default", "kube-system", "kube-public", "kube-node-lease"].map(namespace).into();
    objects.push(storage);
    objects.push(priority("system-cluster-critical", 2_000_000_000, "For pods that the cluster cannot do without, on any node."));
    objects.push(priority("system-node-critical", 2_000_001_000, "For pods that their node cannot do without."));
    objects
}
