//! The selector of a workload, in the form of a list request.

use super::{error::Error, target::Found};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;

/// A workload's selector in the form of a list request.
pub(super) fn selector_text(workload: &Found, selector: Option<&LabelSelector>) -> Result<String, Error> {
    let parsed = Selector::try_from(selector.cloned().unwrap_or_default());
    parsed.map(|selector| selector.to_string()).map_err(|error| workload.fault(format!("has a selector that is not valid: {error}")))
}
