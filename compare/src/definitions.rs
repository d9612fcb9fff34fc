//! Generated custom resource definitions, and objects of them: the real server's answers, and what berth's pure functions return.
//!
//! A seed is a definition, with rules in many of its parts, and a few objects that are created or that replace the first one. Its schema is valid, nearly
//! valid or neither. What is compared: the verdict, all faults with their paths, warnings about unknown fields, and what is stored, with its defaults and
//! without what was pruned. No berth runs: the functions are asked that its server asks.

mod rules;

use crate::{
    draw::Draw,
    print::print,
    served::{Answer, Ask, Server},
};
use berth_api::{FeatureGates, FieldError, Object as _, ObjectStrategy as _};
use berth_kinds::{Document, Kind, KindVersion, built_in::custom_resource_definition, custom::definition_of};
use berth_testing::Upstream;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeSet,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The name of the object that others replace.
const OLD: &str = "old";
/// How many objects of a definition are compared.
const OBJECTS: usize = 16;
/// How deep generated schemas and values are.
const DEPTH: usize = 3;
/// How long a definition has until it is served.
const SERVED_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);
/// How many differences are printed.
const PRINTED_MAX: usize = 60;
/// The names of fields. There are few, so that values have what schemas describe.
const NAMES: [&str; 9] = ["a", "b", "c", "name", "spec", "status", "metadata", "kind", "x-y"];
const FORMATS: [&str; 30] = [
    "int32",
    "int64",
    "float",
    "double",
    "date",
    "date-time",
    "datetime",
    "duration",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid4",
    "byte",
    "uri",
    "email",
    "hostname",
    "hexcolor",
    "rgbcolor",
    "isbn",
    "isbn10",
    "creditcard",
    "ssn",
    "password",
    "bsonobjectid",
    "k8s-short-name",
    "k8s-long-name",
    "other",
    "",
];
const PATTERNS: [&str; 8] = ["^a*$", "[0-9]{2}", "(a|b)+c?", "^\\d+$", "(", "a**", "^[a-z]([-a-z0-9]*[a-z0-9])?$", "^\\w\\b"];
const TEXTS: [&str; 44] = [
    "",
    "a",
    "b",
    "12",
    "é",
    "a-b",
    "1.5",
    "10.0.0.1",
    "010.0.0.1",
    "::1",
    "::ffff:1.2.3.4",
    "10.0.0.0/8",
    "10.0.0.1/8",
    "fe80::/64",
    "00:11:22:33:44:55",
    "123e4567-e89b-12d3-a456-426614174000",
    "123e4567-e89b-42d3-a456-426614174000",
    "123E4567E89B12D3A456426614174000",
    "aGk=",
    "aGk",
    "a+/=",
    "https://example.com/a?b#c",
    "mailto:a@example.com",
    "/a/b",
    "//a",
    "a:b",
    "http://[::1",
    "a@example.com",
    "A <a@example.com>",
    "a.example.com",
    "-a.com",
    "a_b",
    "#fff",
    "#ffff",
    "rgb(1,2,3)",
    "2020-01-31",
    "2020-02-30",
    "2020-01-01T00:00:00Z",
    "2020-01-01T00:00:00.123456789+02:00",
    "2020-01-01 00:00:00Z",
    "1h30m",
    "3 days",
    "5f1d7f0a9e3b4c2d1a0b9c8d",
    "978-3-16-148410-0",
];

/// How valid what is generated is meant to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Care {
    Valid,
    Near,
    Wild,
}

/// What differed, and how much was compared.
#[derive(Debug, Default)]
pub(crate) struct Found {
    definitions: usize,
    accepted: usize,
    objects: usize,
    valid_objects: usize,
    updates: usize,
    pub(crate) differences: usize,
}

/// Compares these seeds. `None` where there is no real Kubernetes.
pub(crate) async fn run(seeds: Range<u64>) -> Option<Found> {
    let upstream = Upstream::start(&["--no-controllers"])?;
    let server = Server::open(&upstream.kubeconfig()).await;
    let kind = Kind::new(custom_resource_definition()).expect("it does not contradict itself");
    let definitions = kind.served().next().expect("it is served");
    let (mut found, mut printed) = (Found::default(), Instant::now());
    for seed in seeds {
        one(&server, &definitions, seed, &mut found).await;
        if Duration::from_secs(10) <= printed.elapsed() {
            printed = Instant::now();
            print(&format!("{found:?}; at seed {seed}"));
        }
    }
    print(&format!("{found:?}"));
    Some(found)
}

async fn one(server: &Server, definitions: &KindVersion, seed: u64, found: &mut Found) {
    let mut draw = Draw::new(seed);
    let care = *draw.pick(&[Care::Valid, Care::Valid, Care::Near, Care::Near, Care::Wild]);
    let (group, plural) = (format!("g{seed}.example.com"), "things");
    let definition = definition(&mut draw, care, &group, plural);
    let theirs = post(server, DEFINITIONS, &definition, true).await;
    let ours = ours(definitions, &definition, None);
    found.definitions += 1;
    let is_equal = compare(&format!("seed {seed}: definition"), &definition, &theirs, &ours, found);
    if !theirs.is_good() || !is_equal {
        return;
    }
    found.accepted += 1;
    let read = definition_of(&theirs.body)
        .map_err(|faults| format!("{faults:?}"))
        .and_then(|read| Kind::new(read).map_err(|faults| format!("{faults:?}")));
    let kind: Arc<Kind> = match read {
        Ok(kind) => kind,
        Err(why) => return difference(found, &format!("seed {seed}: cannot be read: {why} {definition}")),
    };
    let created = post(server, DEFINITIONS, &definition, false).await;
    let path = format!("/apis/{group}/v1/namespaces/default/{plural}");
    if created.is_good() && is_served(server, &path).await {
        let version = kind.served().find(|version| version.version().name == "v1").expect("it is served");
        let schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        let mut old = None;
        for index in 0..OBJECTS {
            let object = object(&mut draw, &schema, &group);
            let (theirs, ours) = (post(server, &path, &object, true).await, self::ours(&version, &object, None));
            found.objects += 1;
            found.valid_objects += usize::from(theirs.is_good());
            let is_equal = compare(&format!("seed {seed}: object {index} of {schema}"), &object, &theirs, &ours, found);
            match &old {
                Some(old) => {
                    replace(server, (&path, &version, old), object, &format!("seed {seed}: update {index} of {schema}"), found).await;
                }
                // The first valid object is the one that the others replace.
                None if theirs.is_good() && is_equal => {
                    let mut kept = object;
                    kept["metadata"]["name"] = json!(OLD);
                    let created = post(server, &path, &kept, false).await;
                    old = version.decode(created.body).ok().filter(|_| created.status == 201).map(|(old, _)| old);
                }
                None => (),
            }
        }
    } else {
        print(&format!("seed {seed}: not served: {} {}", created.status, created.body["message"]));
    }
    let delete =
        Ask { method: "DELETE", path: format!("{DEFINITIONS}/{plural}.{group}"), content_type: "application/json", body: json!({}) };
    server.ask(&delete).await;
}

/// Compares an update.
async fn replace(server: &Server, (path, version, old): (&str, &KindVersion, &Document), mut object: Value, what: &str, found: &mut Found) {
    object["metadata"]["resourceVersion"] = json!(old.meta().resource_version);
    object["metadata"]["name"] = json!(OLD);
    let path = format!("{path}/{OLD}?dryRun=All&fieldValidation=Warn");
    let theirs = server.ask(&Ask { method: "PUT", path, content_type: "application/json", body: object.clone() }).await;
    let ours = ours(version, &object, Some(old));
    found.updates += 1;
    compare(what, &object, &theirs, &ours, found);
}

async fn post(server: &Server, path: &str, body: &Value, is_dry: bool) -> Answer {
    let query = if is_dry { "?dryRun=All&fieldValidation=Warn" } else { "?fieldValidation=Ignore" };
    server.ask(&Ask { method: "POST", path: format!("{path}{query}"), content_type: "application/json", body: body.clone() }).await
}

async fn is_served(server: &Server, path: &str) -> bool {
    let started = Instant::now();
    while started.elapsed() < SERVED_WITHIN {
        if server.read(path).await.is_good() {
            return true;
        }
        tokio::time::sleep(POLL).await;
    }
    false
}

/// What a server with berth's functions answers to a create, or to an update of `old`.
fn ours(version: &KindVersion, sent: &Value, old: Option<&Document>) -> Answer {
    let (mut object, unknown) = match version.decode(sent.clone()) {
        Ok(read) => read,
        Err(error) => return Answer { status: 400, warnings: Vec::new(), body: json!({"message": error.to_string()}) },
    };
    object.set_defaults();
    let gates = FeatureGates::default();
    let faults = match old {
        None => {
            object.prepare_create(&gates);
            object.validate(&gates)
        }
        Some(old) => {
            object.prepare_update(old, None, &gates);
            object.validate_update(old, None, &gates)
        }
    };
    let mut warnings: Vec<String> = unknown.iter().map(|field| format!("unknown field \"{field}\"")).collect();
    warnings.extend(object.warnings(old.map(|old| old as _)));
    if faults.is_empty() {
        let body = serde_json::from_slice(&object.encode()).expect("berth writes JSON");
        return Answer { status: 201, warnings, body };
    }
    let cause = |fault: &FieldError| json!({"field": fault.field.to_string(), "reason": fault.wire_reason(), "message": fault.message()});
    let causes: Value = faults.iter().map(cause).collect();
    Answer { status: 422, warnings, body: json!({"details": {"causes": causes}}) }
}

/// Whether both answers are equal. Prints them if not.
fn compare(what: &str, sent: &Value, theirs: &Answer, ours: &Answer, found: &mut Found) -> bool {
    let (shown, ours_shown) = (comparable(theirs), comparable(ours));
    let is_equal = shown == ours_shown;
    if !is_equal {
        difference(found, &format!("{what}\n  sent   {sent}\n  theirs {shown}\n  ours   {ours_shown}"));
    }
    is_equal
}

fn difference(found: &mut Found, text: &str) {
    found.differences += 1;
    if found.differences <= PRINTED_MAX {
        print(text);
    }
}

/// What must be equal of an answer. Upstream validates maps in random order. A value that is shown with a fault can be of its internal type.
fn comparable(answer: &Answer) -> Value {
    let warnings: BTreeSet<&String> = answer.warnings.iter().collect();
    match answer.status {
        200..=299 => {
            let mut body = answer.body.clone();
            if let Some(members) = body.as_object_mut() {
                ["metadata", "apiVersion", "kind"].iter().for_each(|name| _ = members.remove(*name));
            }
            json!({"status": 201, "object": body, "warnings": warnings})
        }
        422 => {
            let causes = answer.body["details"]["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
            let causes: BTreeSet<String> = causes.iter().map(shown_cause).collect();
            json!({"status": 422, "faults": causes, "warnings": warnings})
        }
        status => json!({"status": status, "message": if status == 400 { Value::Null } else { answer.body["message"].clone() }}),
    }
}

fn shown_cause(cause: &Value) -> String {
    let text = |name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    let message = text("message");
    // A schema or a list of versions as upstream's internal type has it.
    let shown = match (message.find("Invalid value: {\"ID\"").or_else(|| message.find("Invalid value: {")), message.rfind("}: ")) {
        (Some(_), Some(end)) => format!("Invalid value: {}", &message[end + 1..]),
        _ => message,
    };
    format!("{} {} {shown}", text("field"), text("reason"))
}

fn definition(draw: &mut Draw, care: Care, group: &str, plural: &str) -> Value {
    let mut schema = schema(draw, DEPTH, care);
    if !(care == Care::Wild && draw.percent(30)) {
        schema["type"] = json!("object");
        if let Some(members) = schema.as_object_mut() {
            members.retain(|name, _| {
                matches!(name.as_str(), "type" | "properties" | "required" | "description" | "allOf" | "anyOf" | "oneOf" | "not")
            });
        }
    }
    if draw.percent(60) {
        rules::add(draw, &mut schema, care);
    }
    let mut version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    if draw.percent(20) {
        version["subresources"] = json!({"status": {}});
    }
    if draw.percent(10) && care != Care::Valid {
        let path = *draw.pick(&[".spec", ".a.b", "a", "", ".", ".a[0]", ".spec.a"]);
        version["selectableFields"] = json!([{"jsonPath": path}, {"jsonPath": ".a"}]);
        version["additionalPrinterColumns"] =
            json!([{"name": draw.pick(&["", "A"]), "type": draw.pick(&["string", "x", ""]), "jsonPath": path}]);
    }
    if draw.percent(10) {
        version["subresources"]["scale"] = json!({
            "specReplicasPath": draw.pick(&[".spec.a", ".spec.a", ".a", "spec.a"]),
            "statusReplicasPath": draw.pick(&[".status.a", ".status.a", ".spec.a", ""]),
        });
    }
    let mut versions = vec![version];
    if draw.percent(20) {
        let mut other = versions[0].clone();
        other["name"] = json!(draw.pick(&["v2", "v1beta1", "v1", "V1"][..if care == Care::Valid { 2 } else { 4 }]));
        other["storage"] = json!(care != Care::Valid && draw.percent(10));
        other["deprecated"] = json!(draw.percent(30));
        if draw.percent(50) {
            other["schema"]["openAPIV3Schema"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        }
        versions.push(other);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Thing", "plural": plural}, "versions": versions},
    })
}

fn schema(draw: &mut Draw, depth: usize, care: Care) -> Value {
    let kinds = [
        "object",
        "object",
        "object",
        "array",
        "array",
        "string",
        "string",
        "integer",
        "number",
        "boolean",
        "open",
        "int-or-string",
        "embedded",
    ];
    let mut kind = *draw.pick(&kinds);
    if depth == 0 && ["object", "array", "embedded"].contains(&kind) {
        kind = "string";
    }
    let mut members = Map::new();
    let mut put = |name: &str, value: Value| _ = members.insert(name.to_owned(), value);
    match kind {
        "open" => put("x-kubernetes-preserve-unknown-fields", json!(true)),
        "int-or-string" => put("x-kubernetes-int-or-string", json!(true)),
        "embedded" => {
            put("type", json!("object"));
            put("x-kubernetes-embedded-resource", json!(true));
            put("x-kubernetes-preserve-unknown-fields", json!(true));
        }
        kind => put("type", json!(kind)),
    }
    match kind {
        "object" if draw.percent(75) => put("properties", properties(draw, depth, care)),
        "object" => put("additionalProperties", if draw.percent(20) { json!(draw.percent(50)) } else { schema(draw, depth - 1, care) }),
        "embedded" if draw.percent(50) => put("properties", properties(draw, depth, care)),
        "array" => put("items", schema(draw, depth - 1, care)),
        _ => (),
    }
    let mut schema = Value::Object(members);
    for _ in 0..draw.below(4) {
        mark(draw, &mut schema, kind, depth, care);
    }
    let is_broken = care == Care::Wild && draw.percent(10);
    if let Some(members) = schema.as_object_mut().filter(|_| is_broken) {
        members.remove("type");
    }
    schema
}

fn properties(draw: &mut Draw, depth: usize, care: Care) -> Value {
    let mut members = Map::new();
    for _ in 0..=draw.below(4) {
        let name = *draw.pick(&NAMES);
        let is_special = ["metadata", "kind"].contains(&name);
        if !is_special || care == Care::Wild {
            members.insert(name.to_owned(), schema(draw, depth.saturating_sub(1), care));
        }
    }
    members.into()
}

/// Adds a member that suits the kind, or, in what is not valid, any.
fn mark(draw: &mut Draw, schema: &mut Value, kind: &str, depth: usize, care: Care) {
    let suits = match kind {
        _ if care == Care::Wild || care == Care::Near && draw.percent(8) => draw.below(30),
        "string" => *draw.pick(&[0, 1, 2, 3, 4, 5, 6, 7]),
        "integer" | "number" => *draw.pick(&[0, 1, 3, 4, 8, 9, 10]),
        "array" => *draw.pick(&[0, 1, 4, 11, 12, 13]),
        "object" | "embedded" => *draw.pick(&[0, 1, 4, 14, 15, 16, 17]),
        "int-or-string" => *draw.pick(&[0, 1, 18]),
        _ => *draw.pick(&[0, 1, 4]),
    };
    let (name, value) = match suits {
        0 => ("nullable", json!(true)),
        1 if care == Care::Valid && !["string", "boolean"].contains(&kind) => return,
        1 => ("default", value_for(draw, schema, depth.min(2))),
        2 => ("format", json!(draw.pick(&FORMATS[5..]))),
        3 => ("enum", json!([text(draw), number(draw), text(draw)])),
        4 => ("description", json!("text")),
        5 => ("pattern", json!(draw.pick(if care == Care::Valid { &PATTERNS[..4] } else { &PATTERNS[..] }))),
        6 => ("minLength", small(draw)),
        7 => ("maxLength", small(draw)),
        8 => ("format", json!(draw.pick(&FORMATS[..4]))),
        9 => (*draw.pick(&["minimum", "maximum", "multipleOf"]), number(draw)),
        10 => (*draw.pick(&["exclusiveMinimum", "exclusiveMaximum"]), json!(true)),
        11 => (*draw.pick(&["minItems", "maxItems"]), small(draw)),
        12 => ("x-kubernetes-list-type", json!(draw.pick(&["atomic", "set"]))),
        13 => {
            schema["items"] = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "a": {"type": "integer", "default": 3}}});
            schema["x-kubernetes-list-map-keys"] = json!(["name"]);
            ("x-kubernetes-list-type", json!("map"))
        }
        14 => ("required", json!([draw.pick(&NAMES)])),
        15 => (*draw.pick(&["minProperties", "maxProperties"]), small(draw)),
        16 => (*draw.pick(&["allOf", "anyOf", "oneOf"]), json!([junctor(draw, 1), junctor(draw, 1)])),
        17 => ("not", junctor(draw, 1)),
        18 => ("anyOf", json!([{"type": "integer"}, {"type": "string"}])),
        19 => ("x-kubernetes-map-type", json!(draw.pick(&["atomic", "granular", "other"]))),
        20 => (*draw.pick(&["x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "uniqueItems"]), json!(draw.percent(80))),
        21 => ("x-kubernetes-preserve-unknown-fields", json!(draw.percent(60))),
        22 => ("x-kubernetes-list-map-keys", json!([draw.pick(&NAMES), draw.pick(&NAMES)])),
        23 => ("type", json!(draw.pick(&["object", "string", "null", "other", ""]))),
        24 => (*draw.pick(&["$ref", "id", "$schema", "title"]), json!("x")),
        25 => (*draw.pick(&["definitions", "patternProperties", "properties"]), json!({"x": {"type": "string"}})),
        26 => ("items", json!([{"type": "string"}])),
        27 => ("additionalProperties", json!({"type": "string"})),
        28 => ("x-kubernetes-list-type", json!(draw.pick(&["atomic", "set", "map", "other"]))),
        _ => (*draw.pick(&["allOf", "anyOf", "oneOf"]), json!([schema_in_junctor(draw, depth, care)])),
    };
    schema[name] = value;
}

fn schema_in_junctor(draw: &mut Draw, depth: usize, care: Care) -> Value {
    schema(draw, depth.min(1), care)
}

/// A restriction that describes no field.
fn junctor(draw: &mut Draw, depth: usize) -> Value {
    match draw.below(if depth == 0 { 4 } else { 6 }) {
        0 => json!({"required": [draw.pick(&NAMES)]}),
        1 => json!({"minProperties": small(draw)}),
        2 => json!({"enum": [{"a": 1}, {}]}),
        3 => json!({"maxProperties": small(draw), "required": ["a"]}),
        4 => json!({"properties": {"a": {"minLength": small(draw), "pattern": "a"}}}),
        _ => json!({"not": junctor(draw, 0), "anyOf": [junctor(draw, 0)]}),
    }
}

fn small(draw: &mut Draw) -> Value {
    json!(*draw.pick(&[0, 1, 1, 2, 2, 3, 5, -1]))
}

fn number(draw: &mut Draw) -> Value {
    draw.pick(&[
        json!(0),
        json!(1),
        json!(-1),
        json!(2),
        json!(1.5),
        json!(3.0),
        json!(5_000_000_000_i64),
        json!(0.1),
        json!(1e20),
        json!(2_147_483_648_i64),
    ])
    .clone()
}

fn text(draw: &mut Draw) -> Value {
    json!(*draw.pick(&TEXTS))
}

/// A value that mostly suits a schema.
fn value_for(draw: &mut Draw, schema: &Value, depth: usize) -> Value {
    if draw.percent(6) {
        return any_value(draw, depth);
    }
    if draw.percent(4) {
        return Value::Null;
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.is_empty() && draw.percent(70)) {
        return draw.pick(allowed).clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return if draw.percent(50) { number(draw) } else { text(draw) };
    }
    let kind = schema["type"].as_str().unwrap_or_default();
    match kind {
        "string" => text(draw),
        "integer" if draw.percent(85) => json!(draw.below(6)),
        "integer" | "number" => number(draw),
        "boolean" => json!(draw.percent(50)),
        "array" => (0..draw.below(4)).map(|_| value_for(draw, &schema["items"], depth.saturating_sub(1))).collect(),
        "object" if schema["x-kubernetes-embedded-resource"] == true => embedded(draw, schema, depth),
        "object" => object_for(draw, schema, depth).into(),
        _ => any_value(draw, depth),
    }
}

fn object_for(draw: &mut Draw, schema: &Value, depth: usize) -> Map<String, Value> {
    let mut members = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = schema["required"].as_array().is_some_and(|required| required.iter().any(|known| known == name));
        if draw.percent(if is_required { 95 } else { 65 }) {
            members.insert(name.clone(), value_for(draw, property, depth.saturating_sub(1)));
        }
    }
    if schema["additionalProperties"].is_object() {
        for _ in 0..draw.below(3) {
            members.insert((*draw.pick(&NAMES)).to_owned(), value_for(draw, &schema["additionalProperties"], depth.saturating_sub(1)));
        }
    }
    if draw.percent(15) {
        members.insert((*draw.pick(&NAMES)).to_owned(), any_value(draw, 1));
    }
    members
}

fn embedded(draw: &mut Draw, schema: &Value, depth: usize) -> Value {
    let mut members = object_for(draw, schema, depth);
    if draw.percent(90) {
        members.insert("apiVersion".to_owned(), json!(draw.pick(&["v1", "a/b", "v1", "a/b/c", ""])));
        members.insert("kind".to_owned(), json!(draw.pick(&["Pod", "Pod", "a_b"])));
    }
    if draw.percent(50) {
        let all = [
            json!({"name": "a"}),
            json!({}),
            json!({"labels": {"a": "b"}, "foo": 1}),
            json!({"labels": {"_": "b"}}),
            json!({"name": 1}),
            json!(null),
            json!({"name": "a/b", "namespace": "x_"}),
            json!({"creationTimestamp": null, "annotations": {}}),
        ];
        let metadata = draw.pick(&all);
        members.insert("metadata".to_owned(), metadata.clone());
    }
    members.into()
}

fn any_value(draw: &mut Draw, depth: usize) -> Value {
    match draw.below(if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => json!(draw.percent(50)),
        2 => number(draw),
        3 | 4 => text(draw),
        5 => (0..draw.below(3)).map(|_| any_value(draw, depth - 1)).collect(),
        _ => (0..draw.below(3)).map(|_| ((*draw.pick(&NAMES)).to_owned(), any_value(draw, depth - 1))).collect::<Map<_, _>>().into(),
    }
}

fn object(draw: &mut Draw, schema: &Value, group: &str) -> Value {
    let mut members = object_for(draw, schema, DEPTH);
    ["metadata", "kind", "apiVersion"].iter().for_each(|name| _ = members.remove(*name));
    let mut object = Value::Object(members);
    object["apiVersion"] = json!(format!("{group}/v1"));
    object["kind"] = json!("Thing");
    object["metadata"] = json!({"name": "a", "namespace": "default"});
    object
}
