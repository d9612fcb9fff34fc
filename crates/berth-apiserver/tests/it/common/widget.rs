//! A kind without a Rust type: its names and its schema are data, as of a custom resource.

use berth_api::{ObjectRules, Path, Scope};
use berth_kinds::{Cell, Column, Conversion, Definition, Form, JsonPath, Names, SelectableField, Structural, Version};
use serde_json::json;

/// Returns a widget definition with the group and version `api_version` and the selectable `fields`.
pub(crate) fn widgets(api_version: &str, fields: &[&str]) -> Definition {
    let (group, version) = api_version.split_once('/').expect("a named group");
    let [group, version, kind, plural, singular] = [group, version, "Widget", "widgets", "widget"].map(str::to_owned);
    let path = |text: &str| JsonPath::parse(text).expect("a path");
    let field = |name: &&str| SelectableField::at(&path(&format!(".{name}"))).expect("a path of members");
    let size = json!({"type": "integer", "default": 1, "maximum": 10});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "default": {}, "properties": {"color": {"type": "string"}, "size": size}},
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
    }});
    let color = Column {
        name: "Color".to_owned(),
        kind: "string".to_owned(),
        format: String::new(),
        priority: 0,
        description: String::new(),
        cell: Cell::Path(path(".spec.color")),
    };
    Definition {
        group,
        names: Names { kind, plural, singular, short_names: vec!["wd".to_owned()], ..Names::default() },
        scope: Scope::Namespaced,
        versions: vec![Version {
            name: version,
            served: true,
            storage: true,
            schema: Structural::read(&schema, &Path::new("schema")).expect("a structural schema"),
            status: true,
            columns: vec![color],
            selectable_fields: fields.iter().map(field).collect(),
            ..Version::default()
        }],
        conversion: Conversion::None,
        form: Form::Custom,
        rules: ObjectRules::default(),
        empty: Definition::only_metadata(),
        pod_template: &[],
        strategy: None,
    }
}
