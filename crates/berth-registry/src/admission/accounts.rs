//! The service account of new pods.

use crate::{ApiError, Registry, consequences::DEFAULT_ACCOUNT, key, resource};
use berth_api::k8s_openapi::api::core::v1::PodSpec;

impl Registry {
    /// A pod runs as the account that it names, else as the namespace's default one, which is made where it is missing: a pod must never
    /// wait for it.
    ///
    /// # Errors
    /// An account that does not exist.
    pub(super) async fn set_account(&self, pod: &str, namespace: &str, spec: &mut PodSpec) -> Result<(), ApiError> {
        let name = spec.service_account_name.take().filter(|name| !name.is_empty()).unwrap_or_else(|| DEFAULT_ACCOUNT.to_owned());
        spec.service_account = Some(name.clone());
        let name = spec.service_account_name.insert(name);
        let accounts = resource::by_name("", "serviceaccounts").expect("service accounts are served");
        if self.store.get(&key::key_of(accounts, Some(namespace), name)).await?.is_some() {
            return Ok(());
        }
        if name == DEFAULT_ACCOUNT {
            return self.make_default_account(namespace).await;
        }
        let pods = resource::by_name("", "pods").expect("pods are served");
        let why = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        Err(ApiError::forbidden(pods, pod, &why, Vec::new()))
    }
}
