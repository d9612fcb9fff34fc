//! Columns and cell texts that several kinds share.

pub(crate) use crate::resource::printed::{NAME, name, text};
use crate::{age, resource::Column};
use berth_api::k8s_openapi::{
    api::core::v1::PodSpec,
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
pub(super) use berth_api::label_selector::shown as selector;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// The column of the object's age.
pub(crate) const AGE: Column = text("Age", "How long ago the object was created.");
pub(super) const CONTAINERS: Column = wide("Containers", "Names of the template's containers.");
pub(super) const IMAGES: Column = wide("Images", "Images of the template's containers.");
pub(super) const SELECTOR: Column = wide("Selector", "Which pods belong to the object.");

/// A column that only wide output shows.
pub(super) const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", priority: 1, description }
}

/// A column of whole numbers.
pub(crate) const fn integer(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "integer", format: "", priority: 0, description }
}

pub(crate) fn age_of(meta: &ObjectMeta, now: Timestamp) -> String {
    age::since(meta.creation_timestamp.as_ref(), now)
}

/// Returns the text, or `absent` if it is missing or empty.
pub(super) fn or<'a>(text: Option<&'a str>, absent: &'a str) -> &'a str {
    text.filter(|text| !text.is_empty()).unwrap_or(absent)
}

/// Returns the names and images of a template's containers, each joined by commas.
pub(super) fn containers(spec: Option<&PodSpec>) -> (String, String) {
    let containers = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let names: Vec<&str> = containers.iter().map(|c| c.name.as_str()).collect();
    let images: Vec<&str> = containers.iter().map(|c| c.image.as_deref().unwrap_or_default()).collect();
    (names.join(","), images.join(","))
}

/// `k=v,l=w`.
pub(super) fn labels(labels: Option<&BTreeMap<String, String>>) -> String {
    let texts: Vec<String> = labels.into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
    or(Some(&texts.join(",")), "<none>").to_owned()
}

/// Returns the first `max` of `items`, joined by commas, and the number of further ones.
pub(super) fn first_few(items: &[String], max: usize) -> String {
    let shown = items[..items.len().min(max)].join(",");
    if items.len() > max { format!("{shown} + {} more...", items.len() - max) } else { shown }
}

pub(super) fn int_or_string(value: Option<&IntOrString>) -> String {
    match value {
        None => "N/A".to_owned(),
        Some(IntOrString::Int(number)) => number.to_string(),
        Some(IntOrString::String(text)) => text.clone(),
    }
}
