//! Custom resources: what a definition costs, and how fast its objects are created.

use crate::{
    figures::{Figure, Runs, Table, seconds},
    loads::{load, wait_until},
    server::{Parts, Server, Target},
};
use serde_json::{Map, Value, json};
use std::time::Duration;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GROUP: &str = "bench.example.com";
const FIELDS: usize = 200;
const RULES: usize = 10;

/// Creates of an object whose schema has many fields and rules. A run is a part of all requests to one server.
pub(crate) async fn creates(target: &Target) -> Vec<Figure> {
    const CREATES: usize = 4000;
    let server = Server::start(target, Parts::StoreOnly).await;
    let mut connection = server.connect().await;
    connection.create(DEFINITIONS, &definition(0)).await;
    wait_until(&mut connection, &format!("{DEFINITIONS}/things0.{GROUP}"), is_established).await;
    let objects = format!("/apis/{GROUP}/v1/namespaces/default/things0");
    connection.until_found(&objects).await;
    let create = |number: usize| ("POST", objects.clone(), object(number).to_string());
    // The first ones warm up.
    load(&server, 0..CREATES, create).await;
    let mut runs = Runs::default();
    for run in 1..=5 {
        let rate = load(&server, run * CREATES..(run + 1) * CREATES, create).await;
        let what = format!("creates of a custom object, schema of {FIELDS} fields and {RULES} rules, 64 connections");
        runs.add(&what, "1/s", Table::Readme, rate);
    }
    runs.figures()
}

/// The memory of definitions, and how much later a server is ready that has them in its store.
pub(crate) async fn definitions(target: &Target) -> Vec<Figure> {
    const COUNT: usize = 100;
    let mut runs = Runs::default();
    for _ in 0..5 {
        let mut server = Server::start(target, Parts::StoreOnly).await;
        server.restart(Parts::StoreOnly).await;
        let (ready_before, memory_before) = (server.ready_after, at_rest(&server).await);
        let mut connection = server.connect().await;
        for number in 0..COUNT {
            connection.create(DEFINITIONS, &definition(number)).await;
        }
        for number in 0..COUNT {
            wait_until(&mut connection, &format!("{DEFINITIONS}/things{number}.{GROUP}"), is_established).await;
        }
        server.restart(Parts::StoreOnly).await;
        let later = seconds(server.ready_after) - seconds(ready_before);
        let per_definition = (at_rest(&server).await - memory_before) * 1024.0 / COUNT as f64;
        let json = definition(0).to_string().len() as f64 / 1024.0;
        runs.add(&format!("start with {COUNT} definitions in the store: later than without"), "ms", Table::Readme, later * 1000.0);
        runs.add(&format!("memory of a definition of {json:.0} KiB"), "KiB", Table::Readme, per_definition);
    }
    runs.figures()
}

async fn at_rest(server: &Server) -> f64 {
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.resident_mib()
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

fn definition(number: usize) -> Value {
    let mut fields = Map::new();
    for field in 0..FIELDS {
        let schema = match field % 4 {
            0 => json!({"type": "string", "maxLength": 64, "description": format!("The text of field {field} of things {number}.")}),
            1 => json!({"type": "integer", "minimum": 0, "description": format!("The number of field {field}.")}),
            2 => json!({"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 64}}),
            _ => json!({"type": "object", "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "boolean"}}}),
        };
        fields.insert(format!("field{field}"), schema);
    }
    let rule = |rule: usize| {
        let (text, count) = (rule * 4, rule * 4 + 1);
        let expression = format!("!has(self.field{text}) || self.field{text}.size() < 60 && self.field{count} <= {}", 1000 + number);
        json!({"rule": expression, "message": format!("field{text} or field{count} is too large")})
    };
    let rules: Vec<Value> = (0..RULES).map(rule).collect();
    let spec = json!({"type": "object", "properties": fields, "x-kubernetes-validations": rules});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things{number}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "names": {"plural": format!("things{number}"), "kind": format!("Thing{number}")},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

fn object(number: usize) -> Value {
    let mut spec = Map::new();
    for field in 0..FIELDS {
        let value = match field % 4 {
            0 => json!("some text"),
            1 => json!(field),
            2 => json!(["one", "two"]),
            _ => json!({"b": true}),
        };
        spec.insert(format!("field{field}"), value);
    }
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Thing0", "metadata": {"name": format!("t{number}")}, "spec": spec})
}
