//! The objects that every cluster has from the start.

use crate::{
    Actor, ApiError, Body, Collection, DeleteOptions, Registry, Target, WriteOptions, admission::DEFAULT_ACCOUNT, key, resource, stored,
};
use berth_api::{
    Kind, Object,
    k8s_openapi::api::{
        core::v1::{Namespace, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding},
    },
};
use berth_identity::GroupVersionKind;
use berth_rbac::bootstrap::{
    BindingUpdate, cluster_role_bindings, cluster_roles, dashboard_binding, dashboard_role, updated_binding, updated_role,
};
use berth_store::RangeRequest;
use futures::future::{try_join, try_join_all};
use serde_json::{Value, json};
use std::sync::Arc;

impl Registry {
    /// Creates the default namespaces with their service accounts, the storage class and the priority classes. Existing
    /// objects are unchanged.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn bootstrap(&self) -> Result<(), ApiError> {
        // Concurrently, so that the writes share the store's commits.
        try_join_all(first_objects().into_iter().map(|object| self.create_missing(object))).await?;
        self.make_missing_accounts().await
    }

    /// Namespaces of another store may have no accounts, and the server's CA may have been renewed.
    async fn make_missing_accounts(&self) -> Result<(), ApiError> {
        let (namespaces, accounts) = (resource::of::<Namespace>(), resource::of::<ServiceAccount>());
        let request = RangeRequest::all(namespaces.prefix());
        for entry in self.storage.store.range(request).await?.entries {
            let Some(namespace) = key::target_of(namespaces, &entry.key).map(|target| target.name) else { continue };
            if self.storage.store.get(&key::key_of(accounts, Some(&namespace), DEFAULT_ACCOUNT)).await?.is_none() {
                // No account is created in a terminating namespace.
                drop(self.make_default_account(&namespace).await);
            }
            drop(self.publish_root_ca(&namespace).await);
        }
        Ok(())
    }

    /// Creates the default roles and bindings, and adds missing rules to existing ones. For servers that authorize
    /// requests.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn bootstrap_policy(&self) -> Result<(), ApiError> {
        let roles = self.bring_up_roles();
        let bindings = try_join_all(cluster_role_bindings().into_iter().map(|binding| self.bring_up_binding(binding)));
        try_join(roles, bindings).await?;
        Ok(())
    }

    /// Aggregated roles come last, one after the other, after the roles that they select. Their rules are then complete
    /// from the start.
    async fn bring_up_roles(&self) -> Result<(), ApiError> {
        let (gathering, plain): (Vec<_>, Vec<_>) = cluster_roles().into_iter().partition(|role| role.aggregation_rule.is_some());
        try_join_all(plain.into_iter().map(|role| self.bring_up_role(role))).await?;
        for role in gathering {
            self.bring_up_role(role).await?;
        }
        Ok(())
    }

    /// Does the same for the role and the binding of the dashboard's user, when a user first opens the dashboard.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn bootstrap_dashboard(&self) -> Result<(), ApiError> {
        try_join(self.bring_up_role(dashboard_role()), self.bring_up_binding(dashboard_binding())).await?;
        Ok(())
    }

    async fn bring_up_role(&self, wanted: ClusterRole) -> Result<(), ApiError> {
        match self.existing::<ClusterRole>(wanted.metadata.name.as_deref()).await? {
            None => self.create_unless_exists(wanted).await,
            Some(existing) => match updated_role(&existing, &wanted) {
                Some(updated) => self.put_over(updated).await,
                None => Ok(()),
            },
        }
    }

    async fn bring_up_binding(&self, wanted: ClusterRoleBinding) -> Result<(), ApiError> {
        let Some(existing) = self.existing::<ClusterRoleBinding>(wanted.metadata.name.as_deref()).await? else {
            return self.create_unless_exists(wanted).await;
        };
        match updated_binding(&existing, &wanted) {
            BindingUpdate::Keep => Ok(()),
            BindingUpdate::Replace(updated) => self.put_over(*updated).await,
            BindingUpdate::Recreate => {
                self.delete(&Actor::System, &target_of(&wanted), &DeleteOptions::default()).await?;
                self.create_unless_exists(wanted).await
            }
        }
    }

    /// Returns the stored object of this name, if it exists.
    async fn existing<K: Kind>(&self, name: Option<&str>) -> Result<Option<K>, ApiError> {
        let resource = resource::of::<K>();
        let Some(entry) = self.storage.store.get(&key::key_of(resource, None, name.unwrap_or_default())).await? else { return Ok(None) };
        Ok(stored::load(resource, &entry)?.downcast_ref::<K>().cloned())
    }

    /// Another server may create it first.
    async fn create_unless_exists<K: Kind>(&self, object: K) -> Result<(), ApiError> {
        let at = Collection { resource: Arc::clone(resource::of::<K>()), namespace: None };
        match self.create(&Actor::System, &at, Body::Object(Box::new(object)), &WriteOptions::default()).await {
            Ok(_) | Err(ApiError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn put_over<K: Kind>(&self, object: K) -> Result<(), ApiError> {
        let target = target_of(&object);
        self.update(&Actor::System, &target, Body::Object(Box::new(object)), &WriteOptions::default()).await.map(drop)
    }

    async fn create_missing(&self, object: Value) -> Result<(), ApiError> {
        let text = |member: &str| object[member].as_str().unwrap_or_default();
        let resource = resource::built_in()
            .by_kind(&GroupVersionKind::as_written(text("apiVersion"), text("kind")))
            .expect("the first objects are of kinds that are served");
        let at = Collection { resource: Arc::clone(resource), namespace: None };
        match self.create(&Actor::System, &at, Body::Json(object.to_string().into_bytes()), &WriteOptions::default()).await {
            Ok(_) | Err(ApiError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn target_of<K: Kind>(object: &K) -> Target {
    let name = Object::meta(object).name.clone().unwrap_or_default();
    Target { resource: Arc::clone(resource::of::<K>()), namespace: None, name, subresource: None }
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
