//! ComponentStatus: the health of the parts of the control plane. It is computed for each request, and nothing is stored.

use super::values::{list, native, text};
use crate::{Cell, Column, Content, Definition, Names, Version};
use berth_api::{ObjectRules, Scope, object::GenerationRule};
use serde_json::{Value, json};

/// The definition of the kind.
#[must_use]
pub fn component_status() -> Definition {
    let column = |name: &str, description: &str, cell| Column { cell, ..Column::text(name, description) };
    let version = Version {
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            column("Status", "Whether the component is healthy.", Cell::Computed(|component| json!(status(component)))),
            column("Message", "What its health check answers.", Cell::Computed(|component| json!(of_healthy(component, "message")))),
            column("Error", "Why it cannot be checked.", Cell::Computed(|component| json!(of_healthy(component, "error")))),
        ],
        ..Version::default()
    };
    Definition {
        rules: ObjectRules { generation_rule: GenerationRule::None, ..super::rules() },
        ..native::<k8s_openapi::api::core::v1::ComponentStatus>(
            "",
            Names { short_names: vec!["cs".to_owned()], ..Names::of("ComponentStatus", "componentstatuses") },
            Scope::Cluster,
            version,
            &[TYPES],
        )
    }
}

fn healthy(component: &Content) -> Option<&Value> {
    list(component.members(), "conditions").iter().find(|condition| text(condition, "type") == "Healthy")
}

fn of_healthy<'c>(component: &'c Content, field: &str) -> &'c str {
    healthy(component).map_or("", |condition| text(condition, field))
}

fn status(component: &Content) -> &'static str {
    match of_healthy(component, "status") {
        "True" => "Healthy",
        "False" => "Unhealthy",
        _ => "Unknown",
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out.
const TYPES: &str = include_str!("component_status.json");
