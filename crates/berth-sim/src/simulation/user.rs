//! The actions of a test as the user of a simulation.

use super::Simulation;
use berth_api::Subresource;
use berth_controllers::{ClusterError, DeleteParams, Propagation};
use berth_identity::{GroupResource, GroupVersionKind, GroupVersionResource, ObjectKey};
use berth_registry::{Actor, ApiError, Body, Collection, Target, WriteOptions, resource};
use berth_workloads::resources::{DEPLOYMENTS, PODS, STATEFUL_SETS};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const SETS: GroupResource = GroupResource::from_static("apps", "replicasets");
/// How long it may take until what an object leaves is let go: controllers may have crashed, and what they see be old.
const ORPHANED_MAX: Duration = Duration::from_secs(600);

impl Simulation {
    /// Creates an object; in the namespace `default`, unless it is cluster-scoped.
    ///
    /// # Panics
    /// If the API refuses it.
    pub fn create(&mut self, object: &Value) {
        let text = |member: &str| object[member].as_str().unwrap_or_default();
        let resource =
            resource::built_in().by_kind(&GroupVersionKind::as_written(text("apiVersion"), text("kind"))).expect("the kind is served");
        let namespace = (resource.scope == berth_api::Scope::Namespaced).then(|| "default".to_owned());
        let (registry, at, body) =
            (self.registry.clone(), Collection { resource: Arc::clone(resource), namespace }, Body::Json(object.to_string().into()));
        self.block_on(async move { registry.create(&Actor::System, &at, body, &WriteOptions::default()).await })
            .expect("the object is valid");
    }

    /// Patches a Deployment (JSON merge patch).
    ///
    /// # Panics
    /// If the API refuses it.
    pub fn patch_deployment(&mut self, name: &str, patch: Value) {
        self.patch(DEPLOYMENTS, name, patch);
    }

    /// Patches a StatefulSet (JSON merge patch).
    ///
    /// # Panics
    /// If the API refuses it.
    pub fn patch_stateful_set(&mut self, name: &str, patch: Value) {
        self.patch(STATEFUL_SETS, name, patch);
    }

    /// Patches an object (JSON merge patch).
    ///
    /// # Panics
    /// If the API refuses it.
    pub fn patch(&mut self, resource: GroupResource, name: &str, patch: Value) {
        let (api, key) = (Arc::clone(&self.api), in_default(name));
        self.block_on(async move { api.patch(resource, &key, None, patch).await }).expect("the patch is valid");
    }

    /// Patches a part of an object (JSON merge patch), as a controller does that is not berth's.
    ///
    /// # Panics
    /// If the API refuses it.
    pub fn patch_part(&mut self, resource: GroupResource, name: &str, part: Subresource, patch: Value) {
        let (api, key) = (Arc::clone(&self.api), in_default(name));
        self.block_on(async move { api.patch(resource, &key, Some(part), patch).await }).expect("the patch is valid");
    }

    /// The same of an object that may be gone, or in a state in which it cannot be changed so.
    pub fn patch_if_there(&mut self, resource: GroupResource, name: &str, patch: Value) {
        let (api, key) = (Arc::clone(&self.api), in_default(name));
        match self.block_on(async move { api.patch(resource, &key, None, patch).await.map(drop) }) {
            Ok(()) | Err(ClusterError::NotFound(_) | ClusterError::Refused(_)) => (),
            Err(error) => self.fail(&format!("{name} could not be patched: {error}")),
        }
    }

    /// Sets a Deployment's size.
    ///
    /// # Panics
    /// If there is no such Deployment.
    pub fn scale(&mut self, deployment: &str, replicas: u32) {
        self.patch_deployment(deployment, json!({"spec": {"replicas": replicas}}));
    }

    /// Changes the image in a Deployment's template.
    ///
    /// # Panics
    /// If there is no such Deployment.
    pub fn set_image(&mut self, deployment: &str, image: &str) {
        let containers = json!([{"name": "main", "image": image}]);
        self.patch_deployment(deployment, json!({"spec": {"template": {"spec": {"containers": containers}}}}));
    }

    /// Goes back to the revision before, by the annotation that has the controller do so.
    ///
    /// # Panics
    /// If there is no such Deployment.
    pub fn undo(&mut self, deployment: &str) {
        self.undo_to(deployment, 0);
    }

    /// Goes back to a revision; 0: the one before.
    ///
    /// # Panics
    /// If there is no such Deployment.
    pub fn undo_to(&mut self, deployment: &str, revision: u32) {
        self.patch_deployment(
            deployment,
            json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": revision.to_string()}}}),
        );
    }

    /// Deletes a ReplicaSet by hand, in the background: its pods stay until the garbage collector deletes them. One that is gone already stays so.
    ///
    /// # Panics
    /// If the API refuses for another reason.
    pub fn delete_set(&mut self, name: &str) {
        self.checker.delete_set_by_hand(name);
        self.delete_somehow(SETS, name, DeleteParams { propagation: Some(Propagation::Background), ..DeleteParams::default() });
    }

    /// Deletes a Deployment, with all that is its own.
    ///
    /// # Panics
    /// If there is no such Deployment.
    pub fn delete_deployment(&mut self, name: &str) {
        self.delete(DEPLOYMENTS, name, DeleteParams::default()).expect("it is there");
    }

    /// Deletes an object, with all that is its own. One that is gone already stays so.
    ///
    /// # Panics
    /// If the API refuses for another reason.
    pub fn delete_if_there(&mut self, resource: GroupResource, name: &str) {
        self.delete_somehow(resource, name, DeleteParams::default());
    }

    /// Deletes an object, and orphans its dependents. It is deleted when this returns.
    ///
    /// # Panics
    /// If the API refuses, or no controller removes the finalizers.
    pub fn orphan(&mut self, resource: GroupResource, name: &str) {
        self.delete_somehow(resource.clone(), name, DeleteParams { propagation: Some(Propagation::Orphan), ..DeleteParams::default() });
        self.run_until_seen("what was orphaned is gone", ORPHANED_MAX, |sim| sim.object(&resource.plural, name).is_null());
    }

    /// Deletes an object, and its dependents as `propagation` specifies. One that is gone already stays so.
    ///
    /// # Panics
    /// If the API refuses for another reason.
    pub fn delete_with(&mut self, resource: GroupResource, name: &str, propagation: Propagation) {
        self.delete_somehow(resource, name, DeleteParams { propagation: Some(propagation), ..DeleteParams::default() });
    }

    fn delete_somehow(&mut self, resource: GroupResource, name: &str, params: DeleteParams) {
        match self.delete(resource, name, params) {
            Ok(()) | Err(ClusterError::NotFound(_)) => (),
            Err(error) => self.fail(&format!("{name} could not be deleted: {error}")),
        }
    }

    /// Deletes a pod, as a client that is no controller. A deleted pod is no error.
    ///
    /// # Panics
    /// If the API refuses for another reason.
    pub fn delete_pod(&mut self, name: &str) {
        self.checker.delete_by_hand(name);
        self.let_pod_go(name, None);
    }

    /// Removes a pod at once, as a user does whose node is lost. A deleted pod is no error.
    ///
    /// # Panics
    /// If the API refuses for another reason.
    pub fn force_delete_pod(&mut self, name: &str) {
        self.checker.remove_by_hand(name);
        self.let_pod_go(name, Some(0));
    }

    /// Evicts a pod, as `kubectl drain` does; gives whether it goes. A pod that is gone already stays so, and one may be refused for its budget.
    ///
    /// # Panics
    /// If the API refuses for another reason.
    pub fn evict_pod(&mut self, name: &str) -> bool {
        let resource = resource::built_in().find(&GroupVersionResource::from_static("", "v1", "pods")).expect("pods are served");
        let at = Target {
            resource: Arc::clone(resource),
            namespace: Some("default".to_owned()),
            name: name.to_owned(),
            subresource: Some(Subresource::Eviction),
        };
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        let (registry, body) = (self.registry.clone(), Body::Json(eviction.to_string().into()));
        self.checker.delete_by_hand(name);
        match self.block_on(async move { registry.create_subresource(&Actor::System, &at, body, &WriteOptions::default()).await.map(drop) })
        {
            Ok(()) => true,
            Err(ApiError::NotFound { .. } | ApiError::TooManyRequests { .. }) => false,
            Err(error) => self.fail(&format!("pod {name} could not be evicted: {error}")),
        }
    }

    /// Has a pod end as failed, as a node does that runs out of memory. A pod that is gone already stays so.
    ///
    /// # Panics
    /// If the API refuses for another reason.
    pub fn fail_pod(&mut self, name: &str) {
        let (api, pod) = (Arc::clone(&self.api), in_default(name));
        let failed = json!({"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}});
        match self.block_on(async move { api.patch(PODS, &pod, Some(Subresource::Status), failed).await.map(drop) }) {
            Ok(()) | Err(ClusterError::NotFound(_)) => (),
            Err(error) => self.fail(&format!("pod {name} could not fail: {error}")),
        }
    }

    fn let_pod_go(&mut self, name: &str, grace_period_seconds: Option<i64>) {
        self.delete_somehow(PODS, name, DeleteParams { grace_period_seconds, ..DeleteParams::default() });
    }

    fn delete(&mut self, resource: GroupResource, name: &str, params: DeleteParams) -> Result<(), ClusterError> {
        let (api, key) = (Arc::clone(&self.api), in_default(name));
        self.block_on(async move { api.delete(resource, &key, params).await.map(drop) })
    }
}

fn in_default(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}
