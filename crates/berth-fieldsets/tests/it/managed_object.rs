//! A small kind, and an object of it that managers write to.

use berth_fieldsets::{
    Application, ApplyError, Force, Managers, OneVersion, Operation, Root, Schema, Set, Update, Writer, apply, apply_as_kubectl, update,
    update_entries,
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// What every object of the kind holds.
pub(crate) fn empty() -> Value {
    json!({"metadata": {}, "spec": {}, "status": {}})
}

fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let text = json!({"type": "string"});
        let texts = |kind: &str| json!({"type": "array", "items": text, "x-kubernetes-list-type": kind});
        let members = |kind: &str| json!({"type": "object", "additionalProperties": text, "x-kubernetes-map-type": kind});
        let list_of = |name: &str, keys: Value| {
            let items = json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}], "default": {}});
            json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys})
        };
        let structure = |properties: Value| json!({"type": "object", "properties": properties});
        let schemas = json!({
            "Thing": structure(json!({
                "apiVersion": text, "kind": text,
                "metadata": {"allOf": [{"$ref": "#/components/schemas/Meta"}]},
                "spec": {"$ref": "#/components/schemas/Spec"},
                "status": structure(json!({"phase": text})),
            })),
            "Meta": structure(json!({
                "name": text, "namespace": text, "labels": members("granular"), "annotations": members("granular"), "finalizers": texts("set"),
                "generation": {"type": "integer"},
            })),
            "Spec": structure(json!({
                "replicas": {"type": "integer"}, "paused": {"type": "boolean"}, "any": {"oneOf": [{"type": "string"}, {"type": "number"}]},
                "selector": members("atomic"), "args": {"type": "array", "items": text}, "containers": list_of("Container", json!(["name"])),
                "free": {"type": "object"}, "kept": {"x-kubernetes-preserve-unknown-fields": true},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": text}}, "strategy": structure(json!({"type": text, "max": {"type": "integer"}})),
            })),
            "Container": structure(json!({
                "name": text, "image": text, "ports": list_of("Port", json!(["containerPort", "protocol"])), "env": list_of("Env", json!(["name"])),
            })),
            "Port": structure(json!({"containerPort": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": text})),
            "Env": structure(json!({"name": text, "value": text})),
        });
        let mut schema = Schema::default();
        schema.add_openapi(schemas.as_object().unwrap());
        schema
    })
}

/// The kind.
pub(crate) fn thing() -> Root<'static> {
    schema().root("Thing").unwrap()
}

/// An object and who owns it. Time passes with every write.
#[derive(Clone, Debug)]
pub(crate) struct ManagedObject {
    pub(crate) object: Value,
    pub(crate) managers: Managers,
    now: i64,
}

impl ManagedObject {
    pub(crate) fn new() -> Self {
        Self { object: empty(), managers: Managers::default(), now: 0 }
    }

    fn tick(&mut self) -> Time {
        self.now += 1;
        Time(Timestamp::from_second(self.now).unwrap())
    }

    /// A write that is no apply, through the object itself.
    pub(crate) fn update(&mut self, manager: &str, new: Value) {
        self.update_as(&writer(manager, ""), new, &main_ignores());
    }

    pub(crate) fn update_as(&mut self, writer: &Writer, new: Value, ignored: &Set) {
        let now = self.tick();
        let change = Update { root: thing(), old: &self.object, new: &new, writer, ignored, now: Some(&now), versions: &OneVersion };
        let entries = update_entries(self.managers.encode(), &change);
        update(&mut self.managers, &change);
        assert_eq!(entries, self.managers.encode(), "both ways are one");
        self.object = new;
    }

    /// An apply through the object itself.
    pub(crate) fn apply(&mut self, manager: &str, config: Value) -> Result<(), ApplyError> {
        self.apply_with(manager, config, Force::No)
    }

    pub(crate) fn apply_with(&mut self, manager: &str, config: Value, force: Force) -> Result<(), ApplyError> {
        let (now, empty, writer, ignored) = (self.tick(), empty(), writer(manager, ""), main_ignores());
        let (live, config) = (&self.object, &config);
        let application = Application {
            root: thing(),
            live,
            empty: &empty,
            config,
            writer: &writer,
            ignored: &ignored,
            now: Some(&now),
            versions: &OneVersion,
        };
        let done = if manager == "kubectl" { apply_as_kubectl } else { apply };
        let (object, managers) = done(&self.managers, &application, force)?;
        (self.object, self.managers) = (without_nulls(object), managers);
        Ok(())
    }

    /// What a manager owns, as FieldsV1.
    pub(crate) fn owned(&self, manager: &str, operation: Operation) -> Value {
        let id = writer(manager, "").id(operation);
        self.managers.0.get(&id).map_or(Value::Null, |owned| owned.fields.to_value())
    }
}

pub(crate) fn writer(name: &str, subresource: &str) -> Writer {
    Writer { name: name.to_owned(), api_version: "v1".to_owned(), subresource: subresource.to_owned() }
}

/// The main endpoint leaves the status alone.
pub(crate) fn main_ignores() -> Set {
    Set::from_value(&json!({"f:status": {}})).unwrap()
}

/// As an object's type does away with them.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name, without_nulls(value))).collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}
