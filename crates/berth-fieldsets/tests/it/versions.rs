//! Managers that write in different versions of a kind. `v2` calls the size of `v1` a length.

use berth_fieldsets::{
    Application, ApplyError, Force, Managers, Operation, Root, Schema, Set, Update, Versions, Writer, apply, update, update_entries,
};
use serde_json::{Value, json};

/// A kind as one of its versions sees it.
#[derive(Debug)]
struct Kind {
    own: Schema,
    other: Schema,
    other_version: &'static str,
    nothing: Set,
}

fn schema(size: &str) -> Schema {
    let mut schema = Schema::default();
    let number = json!({"type": "integer"});
    let kind =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {size: number, "color": {"type": "string"}}}}});
    schema.add_openapi(json!({ "thing": kind }).as_object().expect("an object"));
    schema
}

impl Kind {
    fn seen_as(version: &str) -> Self {
        let ((own, other), other_version) = if version == "v1" { (("size", "length"), "v2") } else { (("length", "size"), "v1") };
        Self { own: schema(own), other: schema(other), other_version, nothing: Set::default() }
    }

    fn root(&self) -> Root<'_> {
        self.own.root("thing").expect("it is there")
    }
}

impl Versions for Kind {
    fn root(&self, api_version: &str) -> Option<Root<'_>> {
        (api_version == self.other_version).then(|| self.other.root("thing").expect("it is there"))
    }

    fn ignored(&self, _: &str) -> &Set {
        &self.nothing
    }

    fn convert(&self, document: &Value, _: &str, to: &str) -> Option<Value> {
        let (before, after) = if to == "v2" { ("size", "length") } else { ("length", "size") };
        let mut converted = document.clone();
        if let Some(spec) = converted.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove(before).and_then(|value| spec.insert(after.to_owned(), value));
        }
        Some(converted)
    }
}

fn writer(name: &str, version: &str) -> Writer {
    Writer { name: name.to_owned(), api_version: version.to_owned(), subresource: String::new() }
}

fn applied(live: &Value, managers: &Managers, by: (&str, &str), spec: Value, force: Force) -> Result<(Value, Managers), ApplyError> {
    let (kind, empty, config, writer) = (Kind::seen_as(by.1), json!({}), json!({ "spec": spec }), writer(by.0, by.1));
    let ignored = Set::default();
    let application = Application {
        root: kind.root(),
        live,
        empty: &empty,
        config: &config,
        writer: &writer,
        ignored: &ignored,
        now: None,
        versions: &kind,
    };
    apply(managers, &application, force)
}

fn in_version(document: &Value, from: &str, to: &str) -> Value {
    if from == to { document.clone() } else { Kind::seen_as(from).convert(document, from, to).expect("it converts") }
}

fn owned(managers: &Managers, name: &str) -> (String, Value) {
    let entry = managers.0.iter().find(|(id, _)| id.name == name);
    entry.map(|(_, owned)| (owned.api_version.clone(), owned.fields.to_value())).unwrap_or_default()
}

#[test]
fn a_field_has_its_owner_in_every_version() {
    let (live, managers) = applied(&json!({}), &Managers::default(), ("first", "v1"), json!({"size": 1}), Force::No).expect("it is free");
    let live = in_version(&live, "v1", "v2");
    let refused = applied(&live, &managers, ("second", "v2"), json!({"length": 2, "color": "red"}), Force::No).expect_err("it is owned");
    assert_eq!(refused.to_string(), "Apply failed with 1 conflict: conflict with \"first\": .spec.size");
    // The same value is shared.
    let (live, shared) =
        applied(&live, &managers, ("second", "v2"), json!({"length": 1, "color": "red"}), Force::No).expect("it is the same");
    assert_eq!(owned(&shared, "first"), ("v1".to_owned(), json!({"f:spec": {"f:size": {}}})));
    let (live, managers) = applied(&live, &shared, ("second", "v2"), json!({"length": 2}), Force::Yes).expect("it is forced");
    assert_eq!((&live["spec"], owned(&managers, "first")), (&json!({"length": 2}), (String::new(), Value::Null)));
    assert_eq!(owned(&managers, "second"), ("v2".to_owned(), json!({"f:spec": {"f:length": {}}})));
}

#[test]
fn what_an_applier_gives_up_stays_if_another_wants_it_in_another_version() {
    let (live, managers) = applied(&json!({}), &Managers::default(), ("first", "v1"), json!({"size": 1}), Force::No).expect("it is free");
    let live = in_version(&live, "v1", "v2");
    let (live, managers) =
        applied(&live, &managers, ("second", "v2"), json!({"length": 1, "color": "red"}), Force::No).expect("it is the same");
    // The second one applies in the other version now, and wants nothing any more.
    let live = in_version(&live, "v2", "v1");
    let (live, managers) = applied(&live, &managers, ("second", "v1"), json!({}), Force::No).expect("it is free to");
    assert_eq!(live["spec"], json!({"size": 1}));
    assert_eq!(owned(&managers, "first"), ("v1".to_owned(), json!({"f:spec": {"f:size": {}}})));
    assert_eq!(owned(&managers, "second"), ("v1".to_owned(), json!({"f:spec": {}})));
    let (live, _) = applied(&live, &managers, ("first", "v1"), json!({}), Force::No).expect("it is free to");
    assert_eq!(live.get("spec").filter(|spec| !spec.is_null()), None);
}

#[test]
fn a_change_takes_fields_from_their_owners_in_other_versions() {
    let spec = json!({"size": 1, "color": "red"});
    let (live, managers) = applied(&json!({}), &Managers::default(), ("first", "v1"), spec, Force::No).expect("it is free");
    let (old, new) = (in_version(&live, "v1", "v2"), json!({"spec": {"length": 2, "color": "red"}}));
    let (kind, writer, ignored) = (Kind::seen_as("v2"), writer("third", "v2"), Set::default());
    let change = Update { root: kind.root(), old: &old, new: &new, writer: &writer, ignored: &ignored, now: None, versions: &kind };
    let entries = update_entries(managers.encode(), &change);
    let mut managers = managers;
    update(&mut managers, &change);
    assert_eq!(entries, managers.encode(), "both ways are one");
    assert_eq!(owned(&managers, "first"), ("v1".to_owned(), json!({"f:spec": {"f:color": {}}})));
    let third = managers.0.get(&writer.id(Operation::Update)).map(|owned| owned.fields.to_value());
    assert_eq!(third, Some(json!({"f:spec": {"f:length": {}}})));
}

#[test]
fn what_is_owned_in_a_version_that_is_gone_is_forgotten() {
    let (live, managers) = applied(&json!({}), &Managers::default(), ("first", "v0"), json!({"length": 1}), Force::No).expect("it is free");
    let (_, managers) = applied(&live, &managers, ("second", "v2"), json!({"length": 2}), Force::No).expect("it has no owner");
    assert_eq!(owned(&managers, "first"), (String::new(), Value::Null));
}
