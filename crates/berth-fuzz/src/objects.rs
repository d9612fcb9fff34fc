//! What the fuzz targets share: objects of every kind made from a fuzzer's bytes, by the schemas that berth itself publishes.
//!
//! Bytes that spell whole objects would take a fuzzer ages; a choice of fields and values reaches deep at once.

use arbitrary::{Result, Unstructured};
use berth_registry::{Resource, ResourceTable, resource};
use berth_store::Layout;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::OnceLock};

/// The server's limit for bodies, in bytes.
pub const BODY_BYTES_MAX: usize = 3 << 20;

/// How deep the objects nest that [`object`] makes.
const DEPTH_MAX: usize = 14;

/// Values that rules check more closely: names, numbers at limits, quantities, times, enumerations' cases.
const WORDS: &[&str] = &[
    "",
    "a",
    "b",
    "app",
    "web-0",
    "x.y/z",
    "A",
    "-",
    "é",
    "a b",
    "\u{0}",
    "*",
    "0",
    "1",
    "-1",
    "80",
    "65536",
    "25%",
    "0%",
    "101%",
    "100m",
    "1Gi",
    "1.5",
    "1e3",
    "-1Ki",
    "9223372036854775807",
    "1e99",
    "RollingUpdate",
    "Recreate",
    "OnDelete",
    "OrderedReady",
    "Parallel",
    "Always",
    "Never",
    "OnFailure",
    "IfNotPresent",
    "TCP",
    "UDP",
    "ClusterIP",
    "None",
    "NodePort",
    "LoadBalancer",
    "ExternalName",
    "10.0.0.1",
    "fd00::1",
    "In",
    "NotIn",
    "Exists",
    "DoesNotExist",
    "Equal",
    "NoExecute",
    "NoSchedule",
    "Retain",
    "Delete",
    "TerminationComplete",
    "TerminationStarted",
    "apps/v1",
    "v1",
    "Deployment",
    "Pod",
    "User",
    "Group",
    "ServiceAccount",
    "ClusterRole",
    "Role",
    "rbac.authorization.k8s.io",
    "pods",
    "cpu",
    "memory",
    "requests.cpu",
    "count/pods",
    "default",
    "2026-01-02T03:04:05Z",
    "2026-01-02T03:04:05.000001Z",
    "ReadWriteOnce",
    "Filesystem",
    "Immediate",
    "WaitForFirstConsumer",
    "Opaque",
    "kubernetes.io/tls",
    "aGVsbG8=",
    "Orphan",
    "Foreground",
    "True",
    "False",
    "ClusterFirst",
    "Terminating",
    "BestEffort",
    "Container",
    "Running",
    "Pending",
    "controller.kubernetes.io/pod-deletion-cost",
];

/// Integers at the edges of what fields take.
const INTEGERS: &[i64] = &[0, 1, -1, 2, 3, 10, 80, 127, 128, 443, 65535, 65536, 1000, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN];

/// Makes what is made once, so that it does not count as slowness of the first input.
pub fn warm_up() {
    let _ = schemas("v1");
    let _ = resource::built_in();
}

/// The layout of a store's keys and values.
pub fn layout() -> impl Layout {
    ResourceTable::default()
}

/// A resource of the table.
pub fn any_resource(u: &mut Unstructured<'_>) -> Result<&'static Resource> {
    u.arbitrary().map(resource_of)
}

/// The resource of the table that a byte chooses.
pub fn resource_of(choice: u8) -> &'static Resource {
    let stored: Vec<_> = resource::built_in().stored().collect();
    stored[usize::from(choice) % stored.len()]
}

/// A text: mostly one of [`WORDS`].
pub fn any_word(u: &mut Unstructured<'_>) -> Result<String> {
    let choice: u8 = u.arbitrary()?;
    match choice {
        0..=15 => Ok(u.arbitrary::<&str>()?.to_owned()),
        16..=19 => Ok("a".repeat(usize::from(u.arbitrary::<u16>()?) % 300)),
        _ => Ok(WORDS[usize::from(choice) % WORDS.len()].to_owned()),
    }
}

/// An object of the kind, with its type, whether or not its rules allow it.
pub fn object(u: &mut Unstructured<'_>, of: &Resource) -> Result<Value> {
    let kind = format!(".{}", of.kind());
    let schemas = schemas(of.api_version());
    let name = schemas.iter().find(|(name, schema)| name.ends_with(&kind) && is_kind(schema, of)).map(|(name, _)| name.as_str());
    let mut object = of_schema(u, schemas, &json!({"$ref": format!("#/{}", name.unwrap_or_default())}), DEPTH_MAX)?;
    if !object.is_object() {
        object = json!({});
    }
    if let Some(members) = object.as_object_mut() {
        members.insert("apiVersion".to_owned(), of.api_version().into());
        members.insert("kind".to_owned(), of.kind().as_str().into());
    }
    Ok(object)
}

fn is_kind(schema: &Value, of: &Resource) -> bool {
    let gvks = schema["x-kubernetes-group-version-kind"].as_array();
    gvks.is_some_and(|gvks| gvks.contains(&json!({"group": of.group(), "version": of.version(), "kind": of.kind()})))
}

/// The published schemas of one group and version, by name.
pub fn schemas(api_version: &str) -> &'static Map<String, Value> {
    static SCHEMAS: OnceLock<BTreeMap<String, Map<String, Value>>> = OnceLock::new();
    let all = SCHEMAS.get_or_init(|| {
        let mut all = BTreeMap::new();
        for resource in resource::built_in().all() {
            let path = if resource.group().is_empty() {
                format!("api/{}", resource.version())
            } else {
                format!("apis/{}", resource.api_version())
            };
            let document = resource::built_in().openapi().document(&path).expect("every resource of the table is in a document");
            let mut document: Value = serde_json::from_slice(&document.json).expect("the document is JSON");
            let Value::Object(schemas) = document["components"]["schemas"].take() else { panic!("{path} has schemas") };
            all.insert(resource.api_version().to_owned(), schemas);
        }
        all
    });
    &all[api_version]
}

fn of_schema(u: &mut Unstructured<'_>, schemas: &Map<String, Value>, schema: &Value, depth: usize) -> Result<Value> {
    if let Some(reference) = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str()) {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return of_schema(u, schemas, schemas.get(name).unwrap_or(&Value::Null), depth);
    }
    if u.is_empty() {
        return Ok(Value::Null);
    }
    if depth == 0 || u.ratio(1, 60)? {
        return any_scalar(u);
    }
    if let Some(choices) = schema["oneOf"].as_array().filter(|choices| !choices.is_empty()) {
        let choice = u.choose(choices)?;
        return of_schema(u, schemas, choice, depth - 1);
    }
    match schema["type"].as_str() {
        Some("object") => an_object(u, schemas, schema, depth - 1),
        Some("array") => {
            let length = u.int_in_range(0..=3)?;
            (0..length).map(|_| of_schema(u, schemas, &schema["items"], depth - 1)).collect()
        }
        Some("integer") => Ok((*u.choose(INTEGERS)?).into()),
        Some("boolean") => Ok(u.arbitrary::<bool>()?.into()),
        Some("number") => Ok(json!(f64::from(u.arbitrary::<i32>()?) / 8.0)),
        Some("string") => any_word(u).map(Value::from),
        _ => any_scalar(u),
    }
}

fn an_object(u: &mut Unstructured<'_>, schemas: &Map<String, Value>, schema: &Value, depth: usize) -> Result<Value> {
    let mut object = Map::new();
    if let Some(properties) = schema["properties"].as_object().filter(|properties| !properties.is_empty()) {
        let is_required = |name: &str| schema["required"].as_array().is_some_and(|required| required.contains(&name.into()));
        for (name, of) in properties {
            if u.is_empty() {
                break;
            }
            // Large types would use the bytes up on their first fields.
            let odds = if is_required(name) || ["metadata", "spec", "name"].contains(&name.as_str()) { 7 } else { 2 };
            if u.ratio(odds, 8)? {
                object.insert(name.clone(), of_schema(u, schemas, of, depth)?);
            }
        }
    } else {
        let of = &schema["additionalProperties"];
        for _ in 0..u.int_in_range(0..=3)? {
            object.insert(any_word(u)?, of_schema(u, schemas, of, depth)?);
        }
    }
    if !u.is_empty() && u.ratio(1, 40)? {
        object.insert(any_word(u)?, any_scalar(u)?);
    }
    Ok(Value::Object(object))
}

/// Any value without members.
pub fn any_scalar(u: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match u.int_in_range(0..=7)? {
        0 => Value::Null,
        1 => u.arbitrary::<bool>()?.into(),
        2 => u.arbitrary::<i64>()?.into(),
        3 => (*u.choose(INTEGERS)?).into(),
        4 => json!(u.arbitrary::<f64>()?),
        5 => json!([]),
        6 => json!({}),
        _ => any_word(u)?.into(),
    })
}

/// Whether a document holds fractions or numbers beyond 64 bits: serde_json reads some of them one unit in the last place off, so that they
/// are not the same when they are printed and read again. No field of the API that is compared holds one.
pub fn has_floats(document: &Value) -> bool {
    match document {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_floats),
        Value::Object(members) => members.values().any(has_floats),
        _ => false,
    }
}

/// Every pointer into a document, the empty one first.
pub fn pointers(document: &Value) -> Vec<String> {
    fn walk(value: &Value, at: &str, pointers: &mut Vec<String>) {
        pointers.push(at.to_owned());
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    walk(value, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), pointers);
                }
            }
            Value::Array(items) => {
                for (index, value) in items.iter().enumerate() {
                    walk(value, &format!("{at}/{index}"), pointers);
                }
            }
            _ => (),
        }
    }
    let mut pointers = Vec::new();
    walk(document, "", &mut pointers);
    pointers
}
