//! Extensions of the API.

use crate::{Kind, normal::normal};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// This kind can be listed but not created.
impl Kind for CustomResourceDefinition {}

normal! {
    CustomResourceDefinition { visit: metadata; }
}
