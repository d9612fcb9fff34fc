//! Kinds that are data: one [`Resource`] of the table for each served version.

use super::{
    BoxObject, DecodeError, Decoded, FormError, KindSchema, Names, PrinterColumn, Resource, Rules, SelectableField, StoredForm,
    printed::name,
};
use crate::age::{of_seconds, since};
use berth_api::{Object, Subresource};
use berth_kinds::{Cell, Column, Conversion, ConversionWebhook, Definition, Document, Form, JsonPath, Kind, KindVersion, Type};
use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::SchemaGenerator;
use serde_json::{Value, json};
use std::{borrow::Cow, sync::Arc};

impl Resource {
    /// Returns the resources of a kind: its served versions, in order of preference.
    #[must_use]
    pub fn of_kind(kind: &Arc<Kind>) -> Vec<Self> {
        kind.served().map(Self::of_version).collect()
    }

    fn of_version(kind: KindVersion) -> Self {
        let (definition, version) = (kind.definition().clone(), kind.version().clone());
        let Definition { names, scope, form, .. } = definition;
        let own = Names {
            singular: names.singular.into(),
            short_names: names.short_names.iter().map(Into::into).collect(),
            categories: names.categories.iter().map(Into::into).collect(),
            ..Names::new(kind.gvk().clone(), names.plural)
        };
        // A kind of upstream's Go types has one version, its storage version.
        let is_native = matches!(form, Form::Native { .. });
        let stored_form: Option<Box<dyn StoredForm>> = match form {
            Form::Custom => Some(Box::new(Versioned(kind.clone()))),
            Form::Native { .. } => None,
        };
        let mut resource = Self::new(own, scope, Defined(kind));
        resource.stored_form = stored_form;
        let subresources = [
            (version.approval, Subresource::Approval),
            (version.scale.is_some(), Subresource::Scale),
            (version.status, Subresource::Status),
        ];
        resource.subresources = subresources.into_iter().filter(|(has, _)| *has).map(|(_, subresource)| subresource).collect();
        if !is_native {
            // Upstream's order in discovery: the status of a custom resource comes first, and that of a built-in kind last.
            resource.subresources.reverse();
        }
        let field = |field: &berth_kinds::SelectableField| {
            let pointer = field.fields.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1"))).collect();
            let path: Vec<&str> = field.fields.iter().map(String::as_str).collect();
            let is_number = version.schema.at(&path).is_some_and(|schema| schema.kind == Some(Type::Integer));
            // Upstream's Go types omit a zero.
            let absent = if is_native && is_number { "0" } else { "" };
            SelectableField { name: field.name.as_str().into(), pointer, absent }
        };
        resource.selectable_fields = version.selectable_fields.iter().map(field).collect();
        resource.selectable_fields.sort();
        resource
    }
}

/// Objects of a custom resource, stored in the storage version or an earlier one.
struct Versioned(KindVersion);

impl StoredForm for Versioned {
    fn api_version(&self) -> &str {
        self.0.stored_api_version()
    }

    fn webhook(&self) -> Option<&ConversionWebhook> {
        match &self.0.definition().conversion {
            Conversion::Webhook(webhook) => Some(webhook),
            Conversion::None | Conversion::By(_) => None,
        }
    }

    fn encode(&self, object: &dyn Object) -> Result<Bytes, FormError> {
        let document = Document::of(object).ok_or(FormError::NoDocument)?;
        Ok(self.0.to_stored(document)?.into())
    }

    fn show(&self, stored: &[u8]) -> Result<Option<Bytes>, FormError> {
        Ok(self.0.from_stored(stored)?.map(Bytes::from))
    }
}

/// The rules of one version of a kind that is data.
struct Defined(KindVersion);

impl Defined {
    /// Whether the columns include the name. Those of a custom resource do not, because every table has it.
    fn has_name(&self) -> bool {
        self.0.version().columns.iter().any(|column| column.format == "name")
    }
}

impl Rules for Defined {
    fn decode(&self, value: Value) -> Result<Decoded, DecodeError> {
        let (object, unknown) = self.0.decode(value)?;
        Ok(Decoded { object: Box::new(object), unknown })
    }

    fn decode_applied(&self, value: Value) -> Result<Decoded, DecodeError> {
        let (object, unknown) = self.0.decode_applied(value)?;
        Ok(Decoded { object: Box::new(object), unknown })
    }

    fn decode_stored(&self, bytes: &[u8]) -> Result<BoxObject, DecodeError> {
        Ok(Box::new(self.0.decode_stored(bytes)?))
    }

    fn adopt(&self, object: BoxObject) -> Result<BoxObject, DecodeError> {
        let is_own = Document::of(&*object).is_some_and(|document| document.version().is(&self.0));
        if is_own { Ok(object) } else { self.decode_stored(&object.encode()) }
    }

    fn columns(&self) -> Cow<'_, [PrinterColumn<'_>]> {
        let of_name = (!self.has_name()).then_some(super::printed::NAME);
        of_name.into_iter().chain(self.0.version().columns.iter().map(described)).collect()
    }

    fn cells(&self, object: &dyn Object, now: Timestamp) -> Vec<Value> {
        let Some(document) = Document::of(object) else { return Vec::new() };
        let columns = &self.0.version().columns;
        let reads_paths = columns.iter().any(|column| matches!(column.cell, Cell::Path(_) | Cell::Since(_) | Cell::Elapsed(..)));
        let whole = if reads_paths { document.to_value() } else { Value::Null };
        let of_name = (!self.has_name()).then(|| json!(name(document.meta())));
        of_name.into_iter().chain(columns.iter().map(|column| cell(column, document, &whole, now))).collect()
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> KindSchema {
        if let Form::Native { described_by, .. } = self.0.definition().form {
            described_by(generator);
        }
        let metadata = Value::from(generator.subschema_for::<ObjectMeta>());
        let metadata = json!({"allOf": [metadata], "description": "Standard object's metadata."});
        KindSchema::Published(self.0.published(&metadata))
    }

    fn deprecation_warning(&self) -> Option<&str> {
        self.0.version().deprecation_warning.as_deref()
    }

    fn other_versions(&self) -> Vec<Resource> {
        self.0.others().map(Resource::of_version).collect()
    }

    fn convert(&self, document: &Value, from: &str, to: &str) -> Option<Value> {
        self.0.convert(document, from, to)
    }

    fn empty(&self) -> Option<Value> {
        Some(self.0.definition().empty.clone())
    }
}

fn described(column: &Column) -> PrinterColumn<'_> {
    let Column { name, kind, format, priority, description, .. } = column;
    PrinterColumn { name, kind, format, priority: *priority, description }
}

fn cell(column: &Column, document: &Document, whole: &Value, now: Timestamp) -> Value {
    match &column.cell {
        Cell::Name => json!(name(document.meta())),
        Cell::Created => json!(document.meta().creation_timestamp),
        Cell::Age => json!(since(document.meta().creation_timestamp.as_ref(), now)),
        Cell::Computed(value) => value(document.content()),
        Cell::Since(path) => json!(time_at(path, whole).map_or_else(|| "<none>".to_owned(), |then| since(Some(&Time(then)), now))),
        Cell::Elapsed(from, until) => {
            let elapsed = time_at(from, whole).map(|from| time_at(until, whole).unwrap_or(now).duration_since(from).as_secs());
            json!(elapsed.map(of_seconds).unwrap_or_default())
        }
        Cell::Path(path) => path.first(whole).map(|value| printed(&column.kind, value, now)).unwrap_or_default(),
    }
}

fn time_at(path: &JsonPath, whole: &Value) -> Option<Timestamp> {
    path.first(whole)?.as_str()?.parse().ok()
}

/// Formats a value for a column of this type. A value of another type is omitted.
///
/// Source: upstream `apiextensions-apiserver/pkg/registry/customresource/tableconvertor`.
fn printed(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", Value::String(text)) => json!(text),
        ("string", Value::Null) => Value::Null,
        ("string", other) => json!(other.to_string()),
        ("integer", Value::Number(number)) if number.is_f64() => json!(number.as_f64().map(|number| number as i64)),
        ("integer" | "number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(then) => json!(since(Some(&Time(then)), now)),
            Err(_) => json!("<invalid>"),
        },
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{DefineError, ResourceTable};
    use berth_api::{ObjectRules, Scope};
    use berth_identity::GroupResource;
    use berth_kinds::{Conversion, Structural, Version};

    /// Returns a definition with these versions, of which the first is the storage version.
    fn definition(group: &str, plural: &str, versions: &[&str]) -> Definition {
        let schema = Structural::read(&json!({"type": "object"}), &berth_api::Path::new("schema")).expect("structural");
        let version = |(index, name): (usize, &&str)| Version {
            name: (*name).to_owned(),
            served: true,
            storage: index == 0,
            schema: schema.clone(),
            ..Version::default()
        };
        Definition {
            group: group.to_owned(),
            names: berth_kinds::Names::of("Gauge", plural),
            scope: Scope::Namespaced,
            versions: versions.iter().enumerate().map(version).collect(),
            conversion: Conversion::None,
            form: Form::Custom,
            rules: ObjectRules::default(),
            empty: Definition::only_metadata(),
            pod_template: &[],
            strategy: None,
        }
    }

    fn versions(table: &ResourceTable) -> Vec<String> {
        let resources = table.resources();
        let added = resources.all().iter().filter(|resource| !resource.is_built_in());
        added.map(|resource| format!("{resource:?} as {}", resource.stored_api_version())).collect()
    }

    #[test]
    fn a_definition_is_served_in_its_versions_until_it_is_removed() {
        let table = ResourceTable::default();
        table.define(definition("example.com", "gauges", &["v2", "v1"])).expect("free");
        let both = ["example.com/v2/gauges as example.com/v2", "example.com/v1/gauges as example.com/v2"];
        assert_eq!(versions(&table), both);
        let of_key = |table: &ResourceTable| {
            table.resources().by_key("/registry/example.com/gauges/a/b").map(|resource| resource.version().to_string())
        };
        assert_eq!(of_key(&table).as_deref(), Some("v2"));
        table.define(definition("example.com", "gauges", &["v1", "v3"])).expect("in place of the earlier one");
        assert_eq!(versions(&table), ["example.com/v3/gauges as example.com/v1", "example.com/v1/gauges as example.com/v1"]);
        assert_eq!(of_key(&table).as_deref(), Some("v1"));
        assert_eq!(table.undefine(&GroupResource::from_static("example.com", "gauges")).len(), 2);
        assert_eq!(versions(&table), Vec::<String>::new());
        assert!(table.undefine(&GroupResource::from_static("networking.k8s.io", "ingresses")).is_empty(), "what is built in stays");
    }

    #[test]
    fn a_definition_that_cannot_be_served_changes_nothing() {
        let table = ResourceTable::default();
        table.define(definition("example.com", "gauges", &["v1"])).expect("free");
        let before = versions(&table);
        let taken = table.define(definition("example.com", "meters", &["v2", "v1"])).expect_err("the kind is another resource's");
        assert_eq!(taken.to_string(), "example.com/v1 has another resource meters or kind Gauge already");
        let wrong = table.define(definition("example.com", "gauges", &[])).expect_err("it has no version");
        assert!(matches!(&wrong, DefineError::Invalid(faults) if faults.len() == 1), "{wrong}");
        assert_eq!(versions(&table), before);
    }

    #[test]
    fn cells_have_the_type_of_their_column_or_nothing() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().expect("a time");
        for (kind, value, wanted) in [
            ("string", json!("abc"), json!("abc")),
            ("string", json!(5), json!("5")),
            ("string", json!({"a": ["b"]}), json!("{\"a\":[\"b\"]}")),
            ("string", json!(null), json!(null)),
            ("integer", json!(5), json!(5)),
            ("integer", json!(1.5), json!(1)),
            ("integer", json!("abc"), json!(null)),
            ("number", json!(1.5), json!(1.5)),
            ("boolean", json!(false), json!(false)),
            ("boolean", json!("x"), json!(null)),
            ("date", json!("2026-01-01T00:00:00Z"), json!("60s")),
            ("date", json!("x"), json!("<invalid>")),
            ("date", json!(5), json!(null)),
        ] {
            assert_eq!(printed(kind, &value, now), wanted, "{kind} {value}");
        }
    }
}
