//! Label selectors of workloads.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// A parsed label selector of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(berth_api::Selector);

impl Selector {
    /// Reads a selector. `None` if it is not valid: such a selector selects nothing, and its object is left alone.
    #[must_use]
    pub fn parse(selector: &LabelSelector) -> Option<Self> {
        berth_api::Selector::from_label_selector(selector).ok().map(Self)
    }

    /// Whether it has no requirement, so that it matches every object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_everything()
    }

    /// A label that every object that matches has, with its value; `None` where no requirement asks for exactly one.
    #[must_use]
    pub fn required_label(&self) -> Option<(&str, &str)> {
        self.0.required_label()
    }

    /// Whether `labels` meet every requirement.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.matches_map(labels)
    }
}
