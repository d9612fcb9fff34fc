//! A definition from the object that describes it.

use super::names::names_of;
use crate::{
    Cell, Column, Conversion, ConversionWebhook, Definition, Form, JsonPath, Names, ScalePaths, SelectableField, Source, Structural,
    Version,
    members::{list, text},
    version_priority,
};
use berth_api::{FieldError, ObjectRules, Path, Scope};
use serde_json::Value;
use std::sync::Arc;

/// Returns the definition that a `CustomResourceDefinition` describes: names, scope, all versions with schemas, columns, scale and selectable fields, and
/// the conversion. The object is valid and has its defaults. Its memory is a part of that of its JSON: equal parts of schemas are shared, and the descriptions are
/// compressed.
///
/// # Errors
/// What contradicts itself, with upstream's paths and words.
pub fn definition_of(object: &Value) -> Result<Definition, Vec<FieldError>> {
    let spec = &object["spec"];
    let names = names_of(&spec["names"]);
    let (mut versions, mut faults) = (Vec::new(), Vec::new());
    let recommended = recommended(list(spec, "versions"));
    for (index, version) in list(spec, "versions").iter().enumerate() {
        match version_of(version, spec, &names, recommended, index) {
            Ok(version) => versions.push(version),
            Err(found) => faults.extend(found),
        }
    }
    versions.sort_by(|one, other| version_priority::compare(&one.name, &other.name));
    let definition = Definition {
        group: text(spec, "group").to_owned(),
        names,
        scope: if text(spec, "scope") == "Cluster" { Scope::Cluster } else { Scope::Namespaced },
        versions,
        conversion: conversion_of(&spec["conversion"]),
        form: Form::Custom,
        rules: ObjectRules::default(),
        empty: Definition::only_metadata(),
        pod_template: &[],
        strategy: None,
    };
    if faults.is_empty() {
        faults = definition.check();
    }
    if faults.is_empty() { Ok(definition) } else { Err(faults) }
}

fn version_of(version: &Value, spec: &Value, names: &Names, recommended: Option<&str>, index: usize) -> Result<Version, Vec<FieldError>> {
    let schema = &version["schema"]["openAPIV3Schema"];
    let subresources = &version["subresources"];
    let name = text(version, "name").to_owned();
    let warning = is(version, "deprecated").then(|| deprecation_warning(version, spec, names, recommended));
    let schema_path = Path::new("spec").child("versions").index(index).child("schema").child("openAPIV3Schema");
    Ok(Version {
        schema: Structural::read_valid(schema, &schema_path)?,
        source: Some(Source::new(schema)),
        served: is(version, "served"),
        storage: is(version, "storage"),
        status: subresources["status"].is_object(),
        approval: false,
        scale: scale_of(&subresources["scale"]),
        columns: columns_of(list(version, "additionalPrinterColumns")),
        selectable_fields: selectable_of(list(version, "selectableFields")),
        deprecation_warning: warning,
        name,
    })
}

/// The paths of `/scale`. Members are between dots: upstream knows no other notation there.
fn scale_of(scale: &Value) -> Option<ScalePaths> {
    let path = |name: &str| Some(text(scale, name)).filter(|path| !path.is_empty()).map(JsonPath::of_members);
    Some(ScalePaths {
        spec_replicas: path("specReplicasPath")?,
        status_replicas: path("statusReplicasPath")?,
        label_selector: path("labelSelectorPath"),
    })
}

/// The columns of a Table besides the name. Upstream shows the age if there are none, and none if it cannot read the path of one.
fn columns_of(columns: &[Value]) -> Vec<Column> {
    if columns.is_empty() {
        return vec![age()];
    }
    columns.iter().map(column_of).collect::<Option<Vec<Column>>>().unwrap_or_default()
}

fn column_of(column: &Value) -> Option<Column> {
    Some(Column {
        name: text(column, "name").to_owned(),
        kind: text(column, "type").to_owned(),
        format: text(column, "format").to_owned(),
        priority: column["priority"].as_i64().and_then(|priority| i32::try_from(priority).ok()).unwrap_or(0),
        description: Some(text(column, "description")).filter(|text| !text.is_empty()).map_or_else(|| described(column), str::to_owned),
        cell: Cell::Path(JsonPath::parse(text(column, "jsonPath")).ok()?),
    })
}

/// The description of a column without one.
fn described(column: &Value) -> String {
    let path = text(column, "jsonPath");
    format!("Custom resource definition column (in JSONPath format): {path}")
}

fn age() -> Column {
    Column {
        name: "Age".to_owned(),
        kind: "date".to_owned(),
        format: String::new(),
        priority: 0,
        description: "When the object was created.".to_owned(),
        cell: JsonPath::parse(".metadata.creationTimestamp").map_or(Cell::Age, Cell::Path),
    }
}

fn selectable_of(fields: &[Value]) -> Vec<SelectableField> {
    let field = |field: &Value| {
        let fields: Vec<String> = text(field, "jsonPath").trim_start_matches('.').split('.').map(str::to_owned).collect();
        SelectableField { name: fields.join("."), fields }
    };
    fields.iter().map(field).collect()
}

fn conversion_of(conversion: &Value) -> Conversion {
    if text(conversion, "strategy") != "Webhook" {
        return Conversion::None;
    }
    let webhook = &conversion["webhook"];
    let review_versions = list(webhook, "conversionReviewVersions").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Conversion::Webhook(Arc::new(ConversionWebhook { client_config: webhook["clientConfig"].clone(), review_versions }))
}

/// The author's warning, or one that names the `recommended` version if clients prefer it.
fn deprecation_warning(version: &Value, spec: &Value, names: &Names, recommended: Option<&str>) -> String {
    if let Some(given) = version["deprecationWarning"].as_str() {
        return given.to_owned();
    }
    let (name, group, kind) = (text(version, "name"), text(spec, "group"), &names.kind);
    let better = recommended.filter(|other| version_priority::compare(other, name).is_lt());
    let instead = better.map(|better| format!("; use {group}/{better} {kind}")).unwrap_or_default();
    format!("{group}/{name} {kind} is deprecated{instead}")
}

/// The served version that clients prefer of those that are not deprecated.
fn recommended(versions: &[Value]) -> Option<&str> {
    let current =
        versions.iter().filter(|version| is(version, "served") && !is(version, "deprecated")).map(|version| text(version, "name"));
    current.min_by(|one, other| version_priority::compare(one, other))
}

fn is(version: &Value, flag: &str) -> bool {
    version[flag].as_bool().unwrap_or(false)
}
