//! Removes the necessary differences between two servers' answers about one object.

use serde_json::{Value, json};

/// An object or a status, without what is each server's own: uids, versions, times, and addresses and ports that no request names.
pub(crate) fn normal(body: &Value, asked: &Value) -> Value {
    let mut body = body.clone();
    own_names(&mut body);
    if body["kind"] == "Status" {
        uids(&mut body);
        addresses_in_texts(&mut body, &asked.to_string());
    }
    if let Some(metadata) = body.get_mut("metadata") {
        metadata_of(metadata);
    }
    if body["kind"] == "Service" {
        addresses(&mut body, asked);
    }
    if body["kind"] == "PersistentVolume"
        && let Some(time) = body.pointer_mut("/status/lastPhaseTransitionTime").filter(|time| time.is_string())
    {
        *time = json!("$time");
    }
    owners(&mut body);
    body
}

/// Normalizes the owners of fields. Removes fields that the object does not have, or of which it has none: docs/deviations.md lists that berth forgets
/// their owners. Entries are in the order of their seconds, which may pass between the two answers: they are sorted by their contents.
fn owners(body: &mut Value) {
    let object = body.clone();
    let Some(Value::Array(entries)) = body.pointer_mut("/metadata/managedFields") else { return };
    for entry in entries.iter_mut() {
        // The fields of a status are those of the object, too.
        forget_absent(&mut entry["fieldsV1"], &object);
    }
    entries.retain(|entry| entry["fieldsV1"].as_object().is_none_or(|fields| !fields.is_empty()));
    entries.sort_by_key(Value::to_string);
    if entries.is_empty()
        && let Some(Value::Object(metadata)) = body.get_mut("metadata")
    {
        metadata.remove("managedFields");
    }
}

/// Members of lists are left as they are.
fn forget_absent(fields: &mut Value, of: &Value) {
    let Value::Object(fields) = fields else { return };
    let mut absent = Vec::new();
    for (key, below) in fields.iter_mut() {
        let Some(name) = key.strip_prefix("f:") else { continue };
        match of.get(name).filter(|value| !value.is_null() && **value != json!([])) {
            None => absent.push(key.clone()),
            Some(value) => {
                let had_some = below.as_object().is_some_and(|below| !below.is_empty());
                forget_absent(below, value);
                if had_some && below.as_object().is_some_and(serde_json::Map::is_empty) {
                    absent.push(key.clone());
                }
            }
        }
    }
    absent.iter().for_each(|key| drop(fields.remove(key)));
}

/// Some objects repeat their uid and their name: a Job in its labels and its selector.
fn own_names(body: &mut Value) {
    let text = |path: &str| body.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let uid = text("/metadata/uid");
    let name = text("/metadata/name");
    let base = text("/metadata/generateName");
    let generated = name.zip(base).filter(|(name, base)| name.strip_prefix(base).is_some_and(|rest| rest.len() == 5));
    let Some(members) = body.as_object_mut() else { return };
    for value in members.values_mut() {
        uid.iter().for_each(|uid| replace(value, uid, "$uid"));
        if let Some((name, base)) = &generated {
            replace(value, name, &format!("{base}$name"));
        }
    }
}

/// Texts of a status can have the uid of an object that was not created.
fn uids(value: &mut Value) {
    match value {
        Value::String(text) => {
            while let Some(at) = (0..text.len()).find(|at| is_uid(text.as_bytes().get(*at..at + UID_BYTES))) {
                text.replace_range(at..at + UID_BYTES, "$uid");
            }
        }
        Value::Array(list) => list.iter_mut().for_each(uids),
        Value::Object(members) => members.values_mut().for_each(uids),
        _ => (),
    }
}

/// The length of a uid.
const UID_BYTES: usize = 36;

fn is_uid(text: Option<&[u8]>) -> bool {
    let is_part = |(index, byte): (usize, &u8)| if matches!(index, 8 | 13 | 18 | 23) { *byte == b'-' } else { byte.is_ascii_hexdigit() };
    text.is_some_and(|text| text.iter().enumerate().all(is_part))
}

/// Replaces each text that is equal to `from`, at all depths.
fn replace(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text == from => to.clone_into(text),
        Value::Array(list) => list.iter_mut().for_each(|value| replace(value, from, to)),
        Value::Object(members) => members.values_mut().for_each(|value| replace(value, from, to)),
        _ => (),
    }
}

/// Messages name the address that a server drew for a Service.
fn addresses_in_texts(value: &mut Value, asked: &str) {
    const RANGE: &str = "10.0.0.";
    match value {
        Value::String(text) => {
            let parts: Vec<&str> = text.split(RANGE).collect();
            let (first, rest) = parts.split_first().expect("a text has a part");
            let shown = rest.iter().map(|part| {
                let end = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
                let address = format!("{RANGE}{}", &part[..end]);
                if asked.contains(&address) { address + &part[end..] } else { format!("$address{}", &part[end..]) }
            });
            *text = first.to_string() + &shown.collect::<String>();
        }
        Value::Array(list) => list.iter_mut().for_each(|value| addresses_in_texts(value, asked)),
        Value::Object(members) => members.values_mut().for_each(|value| addresses_in_texts(value, asked)),
        _ => (),
    }
}

fn metadata_of(metadata: &mut Value) {
    for (field, stands_for) in
        [("uid", "$uid"), ("resourceVersion", "$version"), ("creationTimestamp", "$time"), ("deletionTimestamp", "$time")]
    {
        if metadata[field].is_string() {
            metadata[field] = json!(stands_for);
        }
    }
    for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        if entry["time"].is_string() {
            entry["time"] = json!("$time");
        }
    }
    if let (Some(prefix), true) = (metadata["generateName"].as_str().map(str::to_owned), metadata["name"].is_string())
        && metadata["name"].as_str().is_some_and(|name| name.strip_prefix(&prefix).is_some_and(|rest| rest.len() == 5))
    {
        metadata["name"] = json!(format!("{prefix}$name"));
    }
}

fn addresses(service: &mut Value, asked: &Value) {
    let is_asked = |value: &Value| asked.to_string().contains(&value.to_string());
    let Some(spec) = service.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    let is_drawn = |value: &Value| value.as_str().is_some_and(|ip| ip.starts_with("10.")) && !is_asked(value);
    if is_drawn(&spec["clusterIP"]) {
        spec["clusterIP"] = json!("$address");
    }
    for ip in spec.get_mut("clusterIPs").and_then(Value::as_array_mut).into_iter().flatten().filter(|ip| is_drawn(ip)) {
        *ip = json!("$address");
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if port["nodePort"].is_number() && !is_asked(&port["nodePort"]) {
            port["nodePort"] = json!("$port");
        }
    }
    if spec["healthCheckNodePort"].is_number() && !is_asked(&spec["healthCheckNodePort"]) {
        spec["healthCheckNodePort"] = json!("$port");
    }
}

/// A stored object as a client would send it again: without what the server fills in. `stored` is normal.
pub(crate) fn to_send(stored: &Value) -> Value {
    let mut document = stored.clone();
    if let Some(metadata) = document["metadata"].as_object_mut() {
        for field in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "generation",
            "selfLink",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            metadata.remove(field);
        }
    }
    remove_placeholders(&mut document);
    document
}

fn remove_placeholders(at: &mut Value) {
    let is_placeholder = |value: &Value| matches!(value.as_str(), Some("$address" | "$port" | "$time"));
    match at {
        Value::Object(fields) => {
            fields.retain(|_, value| !is_placeholder(value) && !value.as_array().is_some_and(|items| items.iter().any(is_placeholder)));
            fields.values_mut().for_each(remove_placeholders);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_placeholders),
        _ => (),
    }
}

/// The body for one server: its own uid and version in place of `$uid` and `$version`.
pub(crate) fn for_server(body: &Value, stored: &Value) -> Value {
    match body {
        Value::String(text) if text == "$uid" => stored["metadata"]["uid"].clone(),
        Value::String(text) if text == "$version" => stored["metadata"]["resourceVersion"].clone(),
        Value::Array(items) => items.iter().map(|item| for_server(item, stored)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), for_server(value, stored))).collect(),
        other => other.clone(),
    }
}
