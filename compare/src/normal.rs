//! What two servers must say differently of one object, taken out of what they say.

use serde_json::{Value, json};

/// An object or a status, without what is each server's own: uids, versions, times, and addresses and ports that no request names.
pub(crate) fn normal(body: &Value, asked: &Value) -> Value {
    let mut body = body.clone();
    if let Some(metadata) = body.get_mut("metadata") {
        metadata_of(metadata);
    }
    if body["kind"] == "Service" {
        addresses(&mut body, asked);
    }
    body
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
