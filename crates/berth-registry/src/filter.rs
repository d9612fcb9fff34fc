//! Selectors over entries: labels, names and indexed fields. They use the key and the header only, without decoding.

use crate::{ApiError, Resource, header, key};
use berth_api::{FieldSelector, Selector, selector::FieldOperator};
use berth_store::{Entry, WatchFilter};
use std::{cell::OnceCell, sync::Arc};

/// The maximum number of requirements. A watch keeps its selectors for its lifetime. One requirement can have as many
/// values as fit in a URL.
const REQUIREMENTS_MAX: usize = 1000;

/// The selectors of a list or a watch.
#[derive(Debug)]
pub(crate) struct Filter {
    resource: Arc<Resource>,
    labels: Selector,
    fields: FieldSelector,
}

impl Filter {
    /// Parses both selectors. Checks their length, and that the resource has the fields.
    ///
    /// # Errors
    /// 400 with upstream's texts.
    pub(crate) fn parse(resource: &Arc<Resource>, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let bad = |error: berth_api::SelectorError| ApiError::bad_request(error.to_string());
        let (labels, fields) = (Selector::parse(labels).map_err(bad)?, FieldSelector::parse(fields).map_err(bad)?);
        check_count("labelSelector", labels.requirement_count())?;
        check_count("fieldSelector", fields.requirements().len())?;
        let filter = Self { resource: Arc::clone(resource), labels, fields };
        for requirement in filter.fields.requirements() {
            check_field(resource, &requirement.field)?;
        }
        Ok(filter)
    }

    /// Returns the same filter in less memory, for the lifetime of a watch. Call [`Self::mark`] before.
    pub(crate) fn compacted(self) -> Self {
        Self { labels: self.labels.compacted(), fields: self.fields.compacted(), ..self }
    }

    /// Whether every entry matches.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Returns a property that every matching entry has, if there is one. A watch can skip changes of other entries.
    pub(crate) fn mark(&self) -> Option<WatchFilter> {
        let mut fields = self.fields.requirements().iter().filter(|one| one.operator == FieldOperator::Equals);
        let field = fields.find(|one| one.field != "metadata.namespace").map(|one| match one.field.as_str() {
            "metadata.name" => WatchFilter::Name(one.value.as_str().into()),
            field => WatchFilter::Field { field: field.into(), value: one.value.as_str().into() },
        });
        field.or_else(|| self.labels.required_label().map(|(key, value)| WatchFilter::Label { key: key.into(), value: value.into() }))
    }

    /// Whether an entry, as the resource presents it, matches.
    pub(crate) fn matches(&self, entry: &Entry) -> bool {
        if self.is_everything() {
            return true;
        }
        let place = key::place(self.resource.scope, &entry.key);
        // A header may be older than the kind: of an object from before the kind was added, or from another server that
        // had the kind first.
        let late = OnceCell::new();
        let read = || late.get_or_init(|| header::read(&self.resource.selectable_fields, &entry.value));
        self.labels.matches(&*entry.header.labels)
            && self.fields.matches(|field| match (field, place) {
                ("metadata.name", Some((_, name))) => Some(name),
                ("metadata.namespace", Some((namespace, _))) => Some(namespace.unwrap_or_default()),
                _ => entry.header.field(field).or_else(|| read().field(field)),
            })
    }
}

fn check_count(option: &str, count: usize) -> Result<(), ApiError> {
    if count <= REQUIREMENTS_MAX {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("{option}: {count} requirements are more than the {REQUIREMENTS_MAX} that are allowed")))
}

fn check_field(resource: &Resource, field: &str) -> Result<(), ApiError> {
    if matches!(field, "metadata.name" | "metadata.namespace") || resource.selectable_fields.iter().any(|known| *known.name == *field) {
        return Ok(());
    }
    Err(ApiError::bad_request(if resource.selectable_fields.is_empty() {
        format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    } else {
        format!("field label not supported: {field}")
    }))
}
