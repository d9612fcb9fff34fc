//! The `Scale` of an object with replicas.

use crate::ApiError;
use berth_api::{
    Object, Selector,
    k8s_openapi::{
        api::autoscaling::v1::{Scale, ScaleSpec, ScaleStatus},
        apimachinery::pkg::apis::meta::v1::ObjectMeta,
    },
    object::ScaledSelector,
};

/// Returns the `/scale` of an object, without a resource version.
///
/// # Errors
/// [`ApiError::UnknownResource`] for an object without replicas.
pub(crate) fn scale_of(object: &dyn Object) -> Result<Scale, ApiError> {
    let scaled = object.scale().ok_or(ApiError::UnknownResource)?;
    let selector = scaled.selector.and_then(|selector| match selector {
        ScaledSelector::Labels(selector) => Selector::from_label_selector(selector).ok().map(|selector| selector.to_string()),
        ScaledSelector::Text(text) => Some(text.to_owned()),
        ScaledSelector::Equal(labels) => {
            let pairs = labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
            Some(pairs.collect::<Vec<_>>().join(","))
        }
    });
    let meta = object.meta();
    Ok(Scale {
        metadata: ObjectMeta {
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            creation_timestamp: meta.creation_timestamp.clone(),
            ..ObjectMeta::default()
        },
        spec: Some(ScaleSpec { replicas: scaled.replicas.filter(|replicas| *replicas != 0) }),
        status: Some(ScaleStatus { replicas: scaled.current, selector }),
    })
}

/// Sets the replicas of a `Scale` on an object.
pub(crate) fn set_scale(object: &mut dyn Object, scale: &dyn Object) {
    if let Some(Scale { spec, .. }) = scale.downcast_ref() {
        object.set_replicas(spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0));
    }
}
