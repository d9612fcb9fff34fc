//! Values for a field, by its schema and its name: good ones, bounds, bad ones.

use crate::{
    draw::Draw,
    schema::{Schemas, Shape},
};
use serde_json::{Map, Value, json};

/// Below this depth only what a schema requires is drawn.
const DEPTH_MAX: usize = 5;

const TEXTS: &[&str] =
    &["", "a", "web", "data", "1", "true", "Not Valid!", "a.b/c", "-a", "ünï", "a b", "example.com/x", "UPPER", "a_b", "$(A)", "*"];
const INTEGERS: &[i64] =
    &[0, 1, -1, 2, 3, 5, 30, 80, 100, 101, 443, 600, 8080, 30080, 65535, 65536, 86401, 1 << 31, (1 << 31) - 1, 1 << 40];
const QUANTITIES: &[&str] =
    &["1", "100m", "1Gi", "-1", "0", "1.5", "0.0001", "1e3", "x", "", "1k", "1Ti", "0.1", "2000m", "010", "+1", "1.0", "1024Mi"];
const TIMES: &[&str] = &["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.123456Z", "2024-01-01T02:00:00+02:00", "2024-01-01", "", "x"];
const BYTES: &[&str] = &["YQ==", "", "YQ", "!!", "YWJj"];
const ADDRESSES: &[&str] =
    &["10.0.0.200", "1.2.3.4", "::1", "300.1.1.1", "01.2.3.4", "127.0.0.1", "169.254.1.1", "0.0.0.0", "fd00::1", "None", ""];
const RANGES: &[&str] = &["10.0.0.0/8", "10.0.0.1/8", "::/0", "192.168.1.0/24", "x", "", "fd00::/64", "10.0.0.0/33"];
const NAMES: &[&str] = &["web", "data", "http", "a.b", "UPPER", "", "-x", "web-1", "a_b", "default", "xn--a", "metrics-port-too-long-name"];
const KEYS: &[&str] =
    &["app", "app.kubernetes.io/name", "bad key", "x/y/z", "", "tier", "node-role.kubernetes.io/x", "-a", "kubernetes.io/hostname"];
const PATHS: &[&str] = &["/", "/data", "data", "../x", "", "/a/../b", "a:b", "/healthz", "."];
const RESOURCES: &[&str] =
    &["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu", "storage", "x", "pods", "requests.cpu", "kubernetes.io/x"];
const IMAGES: &[&str] = &["registry.example/web:1", "web", "web:latest", "", " web", "web@sha256:0123", "web:1 "];

/// A value that the schema allows, and that the rules of the kind may allow or not. `known` are texts that the document has.
pub(crate) fn value(draw: &mut Draw, schemas: &Schemas, schema: &Value, name: &str, depth: usize, known: &[String]) -> Value {
    match schemas.shape(schema) {
        Shape::Object(properties) => object(draw, schemas, schemas.resolve(schema), properties, depth, known),
        Shape::Map(item) => {
            let count = draw.below(3);
            let keys: &[&str] = if is_resources(schemas, item) { RESOURCES } else { KEYS };
            (0..count).map(|_| ((*draw.pick(keys)).to_owned(), value(draw, schemas, item, "value", depth + 1, known))).collect()
        }
        Shape::List(item) => {
            let count = if depth > DEPTH_MAX { 0 } else { *draw.pick(&[0, 1, 1, 1, 2, 3]) };
            (0..count).map(|_| value(draw, schemas, item, name, depth + 1, known)).collect()
        }
        Shape::Text => text(draw, schemas.resolve(schema), name, known),
        Shape::Time => json!(draw.pick(TIMES)),
        Shape::Bytes => json!(draw.pick(BYTES)),
        Shape::Integer => json!(draw.pick(INTEGERS)),
        Shape::Boolean => json!(draw.percent(50)),
        Shape::IntOrString if draw.percent(60) => json!(draw.pick(INTEGERS)),
        Shape::IntOrString => json!(draw.pick(&["25%", "0%", "100%", "101%", "x", "http", "-1%", "", "1", "50"])),
        Shape::Quantity if draw.percent(15) => draw.pick(&[json!(1), json!(0.5), json!(-1), json!(0), json!(10_000_000_000_i64)]).clone(),
        Shape::Quantity => json!(draw.pick(QUANTITIES)),
        Shape::Any => json!({}),
    }
}

fn is_resources(schemas: &Schemas, item: &Value) -> bool {
    schemas.shape(item) == Shape::Quantity
}

fn object(draw: &mut Draw, schemas: &Schemas, schema: &Value, properties: &Map<String, Value>, depth: usize, known: &[String]) -> Value {
    let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let mut names: Vec<&String> = properties.keys().collect();
    names.sort_unstable();
    // Of a union one member is right; of another object some of its fields.
    let chance = if depth > DEPTH_MAX { 0 } else { (200 / names.len().max(1)).clamp(4, 50) };
    let mut drawn = Map::new();
    for name in names {
        let wanted = if required(name) { draw.percent(96) } else { draw.percent(chance) };
        if wanted {
            drawn.insert(name.clone(), value(draw, schemas, &properties[name], name, depth + 1, known));
        }
    }
    Value::Object(drawn)
}

fn text(draw: &mut Draw, schema: &Value, name: &str, known: &[String]) -> Value {
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.is_empty()) {
        let drawn = draw.pick(allowed).clone();
        return if draw.percent(85) { drawn } else { json!(draw.pick(&["", "None", "other", "ALL"])) };
    }
    if !known.is_empty() && draw.percent(20) {
        return json!(draw.pick(known));
    }
    if draw.percent(3) {
        return json!("x".repeat(*draw.pick(&[16, 64, 254, 300])));
    }
    let lower = name.to_ascii_lowercase();
    let fits = |endings: &[&str]| endings.iter().any(|ending| lower.ends_with(ending));
    let pool: &[&str] = match () {
        () if fits(&["cidr", "cidrs"]) => RANGES,
        () if fits(&["ip", "ips", "address", "addresses"]) => ADDRESSES,
        () if fits(&["path", "prefix", "urls"]) => PATHS,
        () if fits(&["name", "names", "claim", "account"]) => NAMES,
        () if fits(&["key", "keys", "labelkeys"]) => KEYS,
        () if fits(&["image"]) => IMAGES,
        () if fits(&["resource", "resourcename", "resources"]) => RESOURCES,
        () => TEXTS,
    };
    json!(draw.pick(pool))
}
