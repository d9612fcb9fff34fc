//! What servers decide about definitions, whatever they have seen before.

use super::plan::{Known, Plan, decide};
use berth_store::{Entry, Header, Key, Revision};
use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

fn now() -> Time {
    Time("2026-01-01T00:00:00Z".parse().expect("a time"))
}

/// Returns a definition of `PLURAL KIND` that was created at a revision.
fn definition(names: &str, created: u64, status: Value) -> Arc<Entry> {
    let (plural, kind) = names.split_once(' ').expect("two names");
    let value = json!({
        "metadata": {"name": format!("{plural}.e.com"), "uid": plural, "generation": 1},
        "spec": {
            "group": "e.com",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
        },
        "status": status,
    });
    stored(plural, created, &value)
}

fn stored(plural: &str, created: u64, value: &Value) -> Arc<Entry> {
    Arc::new(Entry {
        key: Key::new(&format!("/registry/apiextensions.k8s.io/customresourcedefinitions/{plural}.e.com")),
        value: Bytes::from(value.to_string()),
        header: Header::default(),
        create_revision: Revision(created),
        mod_revision: Revision(created),
    })
}

fn known(entries: &[&Arc<Entry>]) -> BTreeMap<String, Known> {
    let read = |entry: &&Arc<Entry>| (entry.name().to_owned(), Known::read(Arc::clone(entry), None).expect("a definition"));
    entries.iter().map(read).collect()
}

/// Returns the names of the definitions that a server serves.
fn served(known: &mut BTreeMap<String, Known>) -> Vec<String> {
    decide(known, &BTreeSet::from(["e.com".to_owned()]), &now());
    let is_served = |known: &&Known| matches!(known.plan(), Plan::Define(_));
    known.values().filter(is_served).map(|known| known.name().to_owned()).collect()
}

#[test]
fn the_older_of_two_new_definitions_gets_the_name() {
    let (ships, boats) = (definition("ships Ship", 7, Value::Null), definition("boats Ship", 9, Value::Null));
    assert_eq!(served(&mut known(&[&ships, &boats])), ["ships.e.com"]);
    // A server that has not seen the newer one yet decides the same about the older one.
    assert_eq!(served(&mut known(&[&ships])), ["ships.e.com"]);
}

#[test]
fn a_definition_that_has_a_name_keeps_it() {
    let boats = definition("boats Ship", 9, Value::Null);
    let mut alone = known(&[&boats]);
    assert_eq!(served(&mut alone), ["boats.e.com"]);
    let status = alone["boats.e.com"].planned.clone().expect("it has no status");
    // An older definition changes its names later.
    let (boats, ships) = (definition("boats Ship", 9, status), definition("ships Ship", 7, Value::Null));
    let mut both = known(&[&boats, &ships]);
    assert_eq!(served(&mut both), ["boats.e.com"]);
    assert_eq!(both["boats.e.com"].planned, None, "its status is right");
}

#[test]
fn what_is_decided_is_decided_again_without_a_write() {
    let ships = definition("ships Ship", 7, Value::Null);
    let mut first = known(&[&ships]);
    served(&mut first);
    let status = first["ships.e.com"].planned.clone().expect("it has no status");
    let mut again = known(&[&definition("ships Ship", 7, status)]);
    assert_eq!(served(&mut again), ["ships.e.com"]);
    assert_eq!(again["ships.e.com"].planned, None);
}

#[test]
fn only_what_objects_depend_on_changes_the_served_resource() {
    let ships = definition("ships Ship", 7, Value::Null);
    let mut known = known(&[&ships]);
    served(&mut known);
    let ships = known.get_mut("ships.e.com").expect("known");
    let Plan::Define(serving) = ships.plan() else { panic!("it is served") };
    ships.serving = Some(serving);
    assert_eq!(ships.plan(), Plan::Keep);
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut value: Value = serde_json::from_slice(&ships.entry.value).expect("JSON");
        value["status"] = ships.planned.clone().expect("decided");
        change(&mut value);
        Known::read(stored("ships", 7, &value), Some(serving)).expect("a definition").plan()
    };
    assert_eq!(changed(&|value| value["metadata"]["labels"] = json!({"a": "b"})), Plan::Keep);
    assert!(matches!(changed(&|value| value["metadata"]["generation"] = json!(2)), Plan::Define(_)));
    assert!(matches!(changed(&|value| value["metadata"]["uid"] = json!("other")), Plan::Define(_)));
    assert!(matches!(changed(&|value| value["status"]["acceptedNames"]["singular"] = json!("s")), Plan::Define(_)));
    let terminating = json!({"type": "Terminating", "status": "True"});
    let marked = changed(&|value| value["status"]["conditions"].as_array_mut().expect("conditions").push(terminating.clone()));
    assert!(matches!(marked, Plan::Terminate(_)), "watches continue");
    assert_eq!(changed(&|value| value["status"]["conditions"] = json!([])), Plan::Stop);
}
