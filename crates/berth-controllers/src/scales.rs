//! The scales of objects whose kinds clients define. No cache has them: they are read when a plan requires them, as upstream's controllers
//! do.

use crate::cluster::{Cluster, ClusterError, ServedKind};
use berth_api::Scope;
use berth_identity::{GroupResource, ObjectKey};
use berth_workloads::autoscaler::ScaledView;
use futures::StreamExt;
use std::sync::Arc;

/// Reads scales. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Scales(Arc<dyn Cluster>);

/// The scale of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CustomScale {
    /// The cluster serves no such kind.
    UnknownKind,
    /// Objects of the kind have no scale.
    None(GroupResource),
    /// The object does not exist.
    Missing(GroupResource),
    /// The object's size, under its own name.
    Found(GroupResource, ScaledView),
}

impl Scales {
    pub(crate) fn of(cluster: Arc<dyn Cluster>) -> Self {
        Self(cluster)
    }

    /// Whether a kind of this group can be one that a client defined: the names of such groups contain a dot.
    pub(crate) fn is_custom(group: &str) -> bool {
        group.contains('.')
    }

    /// Reads the scale of an object of a custom kind, in any version of the kind.
    ///
    /// # Errors
    /// The cluster does not answer.
    pub(crate) async fn read(&self, (group, kind): (&str, &str), key: &ObjectKey) -> Result<CustomScale, ClusterError> {
        let served = self.0.kinds().next().await.unwrap_or_default();
        let is_it = |served: &&ServedKind| served.kind.group == group && served.kind.kind == kind && served.scope == Scope::Namespaced;
        let Some(resource) = served.iter().find(is_it).map(|served| served.resource.clone()) else { return Ok(CustomScale::UnknownKind) };
        match self.0.get_scale(resource.clone(), key).await {
            Ok(Some(scale)) => match ScaledView::of_scale(&scale.json, scale.revision) {
                Ok(scale) => Ok(CustomScale::Found(resource, scale)),
                Err(error) => Err(ClusterError::Unknown(format!("the scale of {resource} {} cannot be read: {error}", key.name))),
            },
            Ok(None) => Ok(CustomScale::Missing(resource)),
            Err(ClusterError::NotFound(_) | ClusterError::Refused(_)) => Ok(CustomScale::None(resource)),
            Err(error) => Err(error),
        }
    }
}
