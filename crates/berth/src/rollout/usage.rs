//! The usage of pods, from `metrics.k8s.io`.

use super::{cluster::Connection, error::Error};
use berth_identity::GroupVersionResource;
use serde_json::Value;

const POD_METRICS: GroupVersionResource = GroupVersionResource::from_static("metrics.k8s.io", "v1beta1", "pods");

/// The usage of the pods of a namespace, or of all: the items of the list.
///
/// # Errors
/// The cluster has no metrics server, or the user may not read it.
pub(super) async fn of_pods(connection: &Connection, namespace: Option<&str>) -> Result<Vec<Value>, Error> {
    let items = match namespace {
        Some(namespace) => connection.in_namespace(namespace).list(&POD_METRICS, None).await?,
        None => connection.list_everywhere(&POD_METRICS, None).await?,
    };
    Ok(items.iter().filter_map(|item| serde_json::from_str(&item.json).ok()).collect())
}
