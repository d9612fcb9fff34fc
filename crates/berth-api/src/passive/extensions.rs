//! What extends the API.

use crate::{Kind, normal::normal};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Known, so that it can be listed; none can be made.
impl Kind for CustomResourceDefinition {}

normal! {
    CustomResourceDefinition { visit: metadata; }
}
