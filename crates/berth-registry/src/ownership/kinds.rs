//! Computes the facts about a kind that field ownership needs.

use crate::{
    Resource, Subresource,
    resource::{KindFields, fill},
};
use berth_fieldsets::{Path, PathElement, Schema, Set};
use serde_json::json;
use std::collections::BTreeMap;

/// The fields that a status endpoint copies from the stored object.
const STATUS_KEEPS: &[&str] = &["spec"];

/// Returns the facts about a resource's kind. The first call for a kind computes them in some milliseconds.
pub(super) fn fields_of(resource: &Resource) -> &KindFields {
    resource.fields.get_or_init(|| made(resource))
}

fn made(resource: &Resource) -> KindFields {
    let others = resource.rules.other_versions();
    let others = others.iter().map(|other| (other.api_version().to_owned(), of_version(other))).collect();
    KindFields { others, ..of_version(resource) }
}

fn of_version(resource: &Resource) -> KindFields {
    let (name, schemas) = resource.schemas();
    let has = |part: &str| schemas.get(&name).is_some_and(|schema| schema["properties"].get(part).is_some());
    let empty = resource.rules.empty().unwrap_or_else(|| {
        let mut empty = json!({"metadata": {}});
        for part in ["spec", "status"].into_iter().filter(|part| has(part)) {
            empty[part] = json!({});
        }
        fill(&mut empty, &resource.always_has);
        empty
    });
    let mut schema = Schema::default();
    schema.add_openapi(&schemas);
    let has_status = resource.subresources.contains(&Subresource::Status);
    // No manager owns the spec of what is approved, as upstream.
    let is_approved = resource.subresources.contains(&Subresource::Approval);
    let main_ignores = [(has_status, ["status"]), (is_approved, ["spec"])];
    KindFields {
        schema,
        name,
        empty,
        main_ignores: paths(main_ignores.iter().filter(|(ignores, _)| *ignores).map(|(_, path)| path.as_slice())),
        status_ignores: paths([STATUS_KEEPS].into_iter().chain(resource.status_keeps.iter().copied())),
        others: BTreeMap::new(),
    }
}

fn paths<'p>(paths: impl IntoIterator<Item = &'p [&'p str]>) -> Set {
    Set::of(paths.into_iter().map(|path| Path(path.iter().copied().map(PathElement::field).collect())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource;
    use berth_api::k8s_openapi::api::core::v1::Pod;

    #[test]
    fn every_kind_has_a_schema_that_its_empty_object_fits() {
        for resource in resource::built_in().stored() {
            let kind = fields_of(resource);
            kind.root().validate(&kind.empty).unwrap_or_else(|faults| panic!("{}: {faults}", resource.kind()));
            let fault = kind.root().validate(&json!({"bogus": 1})).expect_err(resource.kind());
            assert_eq!(fault.to_string(), ".bogus: field not declared in schema");
        }
    }

    #[test]
    fn keys_of_ports_have_their_defaults() {
        let port = json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}});
        let fields = fields_of(resource::of::<Pod>()).root().fields(&port).encode();
        assert!(
            fields.contains(r#""f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}"#),
            "{fields}"
        );
    }
}
