//! Changes of one place of a document, and the patches that make them.

use crate::{
    draw::Draw,
    schema::{Schemas, Shape},
    values::value,
};
use serde_json::{Map, Value, json};

/// A change: the fields and list places on the way, and the new value; `None` removes what is there.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub(crate) path: Vec<String>,
    pub(crate) to: Option<Value>,
}

/// A place of a document that may be changed.
struct Spot<'s> {
    path: Vec<String>,
    schema: &'s Value,
}

/// What a case never changes: it finds the object by them.
const FIXED: &[&str] = &["apiVersion", "kind"];
const FIXED_METADATA: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

impl Edit {
    /// Draws a change of this document, below one of its fields where `within` names one.
    pub(crate) fn draw(draw: &mut Draw, schemas: &Schemas, root: &Value, document: &Value, within: Option<&str>) -> Self {
        let mut spots = Vec::new();
        collect(schemas, root, document, &mut Vec::new(), &mut spots);
        spots.retain(|spot| match within {
            Some(field) => spot.path.first().is_some_and(|first| first == field),
            None => {
                spot.path.first().is_none_or(|first| first != "status")
                    && (spot.path.first().is_none_or(|first| first != "metadata") || draw.percent(30))
            }
        });
        if spots.is_empty() {
            spots.push(Spot { path: within.map(str::to_owned).into_iter().collect(), schema: root });
        }
        let spot = draw.pick(&spots);
        let found = at(document, &spot.path).cloned().unwrap_or(Value::Null);
        let mut known = Vec::new();
        texts(document, &mut known);
        match found {
            Value::Object(fields) => of_object(draw, schemas, spot, &fields, &known),
            Value::Array(items) => of_list(draw, schemas, spot, &items, &known),
            other => of_scalar(draw, schemas, spot, &other, &known),
        }
    }

    /// Makes the change, and the objects on the way that are missing.
    pub(crate) fn make(&self, document: &mut Value) {
        let Some((last, way)) = self.path.split_last() else { return };
        let mut at = document;
        for step in way {
            at = enter(at, step);
        }
        match (at, &self.to) {
            (Value::Array(items), to) => match (step_of(last).filter(|place| *place < items.len()), to) {
                (Some(place), Some(to)) => items[place] = to.clone(),
                (Some(place), None) => drop(items.remove(place)),
                (None, Some(to)) => items.push(to.clone()),
                (None, None) => (),
            },
            (Value::Object(fields), Some(to)) => drop(fields.insert(last.clone(), to.clone())),
            (Value::Object(fields), None) => drop(fields.remove(last)),
            _ => (),
        }
    }

    /// The same change as a JSON merge patch of this document.
    pub(crate) fn merge_patch(&self, document: &Value) -> Value {
        let mut changed = document.clone();
        self.make(&mut changed);
        let mut way = Vec::new();
        for step in &self.path {
            way.push(step.clone());
            if at(&changed, &way).is_none_or(Value::is_array) {
                break;
            }
        }
        let leaf = at(&changed, &way).cloned().unwrap_or(Value::Null);
        way.iter().rev().fold(leaf, |inner, step| json!({ step.as_str(): inner }))
    }

    /// The same change as a strategic merge patch, which names list items by their key.
    pub(crate) fn strategic_patch(&self, schemas: &Schemas, root: &Value, document: &Value) -> Value {
        let mut changed = document.clone();
        self.make(&mut changed);
        strategic(schemas, root, document, &changed, &self.path)
    }

    /// The same change as a JSON patch.
    pub(crate) fn json_patch(&self, document: &Value) -> Value {
        let path: String = self.path.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect();
        let is_there = at(document, &self.path).is_some();
        match &self.to {
            Some(to) if is_there => json!([{"op": "replace", "path": path, "value": to}]),
            Some(to) => json!([{"op": "add", "path": path, "value": to}]),
            None => json!([{"op": "remove", "path": path}]),
        }
    }
}

/// What a strategic patch has at this place.
fn strategic(schemas: &Schemas, schema: &Value, before: &Value, after: &Value, path: &[String]) -> Value {
    let Some((step, rest)) = path.split_first() else { return after.clone() };
    let Some(child) = schemas.child(schema, step) else { return after.clone() };
    match (before, after) {
        (Value::Array(old), Value::Array(new)) => {
            let key = Schemas::merge_key(schema);
            let place = step_of(step).unwrap_or(new.len());
            match (key, old.get(place), new.get(place)) {
                (Some(key), Some(old), _) if rest.is_empty() && new.len() < place + 1 => json!([{"$patch": "delete", key: old[key]}]),
                (Some(key), Some(old), Some(new)) if !rest.is_empty() => {
                    let mut inner = strategic(schemas, child, old, new, rest);
                    if let Value::Object(fields) = &mut inner {
                        fields.entry(key).or_insert_with(|| old[key].clone());
                    }
                    json!([inner])
                }
                (Some(_), _, Some(new)) => json!([new]),
                _ => after.clone(),
            }
        }
        _ => {
            let inner = match after.get(step) {
                Some(new) => strategic(schemas, child, before.get(step).unwrap_or(&Value::Null), new, rest),
                None => Value::Null,
            };
            json!({ step.as_str(): inner })
        }
    }
}

fn step_of(step: &str) -> Option<usize> {
    step.parse().ok()
}

/// What is at a path.
pub(crate) fn at<'d>(document: &'d Value, path: &[String]) -> Option<&'d Value> {
    path.iter().try_fold(document, |at, step| match at {
        Value::Array(items) => items.get(step_of(step)?),
        other => other.get(step),
    })
}

fn enter<'d>(at: &'d mut Value, step: &str) -> &'d mut Value {
    if at.is_array() {
        let items = at.as_array_mut().expect("it is a list");
        let place = step_of(step).filter(|place| *place < items.len());
        let place = place.unwrap_or_else(|| {
            items.push(json!({}));
            items.len() - 1
        });
        return &mut items[place];
    }
    if !at.is_object() {
        *at = json!({});
    }
    at.as_object_mut().expect("it is an object").entry(step).or_insert_with(|| json!({}))
}

fn collect<'s>(schemas: &'s Schemas, schema: &'s Value, at: &Value, path: &mut Vec<String>, spots: &mut Vec<Spot<'s>>) {
    spots.push(Spot { path: path.clone(), schema });
    let steps: Vec<String> = match at {
        Value::Object(fields) => {
            let mut names: Vec<String> = fields.keys().cloned().collect();
            names.sort_unstable();
            names
        }
        Value::Array(items) => (0..items.len()).map(|place| place.to_string()).collect(),
        _ => Vec::new(),
    };
    for step in steps {
        let is_fixed =
            path.is_empty() && FIXED.contains(&step.as_str()) || path.as_slice() == ["metadata"] && FIXED_METADATA.contains(&step.as_str());
        let Some(child) = schemas.child(schema, &step).filter(|_| !is_fixed) else { continue };
        let inner = at.get(&step).or_else(|| at.get(step_of(&step)?)).expect("it was found there");
        path.push(step);
        collect(schemas, child, inner, path, spots);
        path.pop();
    }
}

/// The texts of a document that are short.
fn texts(at: &Value, found: &mut Vec<String>) {
    match at {
        Value::String(text) if text.len() < 40 => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, found)),
        _ => (),
    }
}

fn below(path: &[String], step: &str) -> Vec<String> {
    path.iter().cloned().chain([step.to_owned()]).collect()
}

fn of_object(draw: &mut Draw, schemas: &Schemas, spot: &Spot<'_>, fields: &Map<String, Value>, known: &[String]) -> Edit {
    let name = spot.path.last().map_or("", String::as_str).to_owned();
    let mut own: Vec<&String> = fields.keys().filter(|key| is_free(&spot.path, key)).collect();
    own.sort_unstable();
    if draw.percent(18) && !own.is_empty() {
        let key = *draw.pick(&own);
        let to = draw.percent(25).then_some(Value::Null);
        return Edit { path: below(&spot.path, key), to };
    }
    if draw.percent(4) {
        return Edit { path: below(&spot.path, "unknownField"), to: Some(json!("x")) };
    }
    if draw.percent(4) && !spot.path.is_empty() {
        return odd(draw, &spot.path);
    }
    match schemas.shape(spot.schema) {
        Shape::Object(properties) => {
            let mut names: Vec<&String> = properties.keys().filter(|key| is_free(&spot.path, key) && *key != "status").collect();
            names.sort_unstable();
            if names.is_empty() {
                return Edit { path: below(&spot.path, "unknownField"), to: Some(json!(1)) };
            }
            let key = (*draw.pick(&names)).clone();
            let to = value(draw, schemas, &properties[&key], &key, spot.path.len(), known);
            Edit { path: below(&spot.path, &key), to: Some(to) }
        }
        Shape::Map(_) => {
            let drawn = value(draw, schemas, spot.schema, &name, 0, known);
            let first = drawn.as_object().and_then(|drawn| drawn.iter().next().map(|(key, value)| (key.clone(), value.clone())));
            match first {
                Some((key, value)) => Edit { path: below(&spot.path, &key), to: Some(value) },
                None => Edit { path: spot.path.clone(), to: Some(json!({})) },
            }
        }
        _ => Edit { path: below(&spot.path, "a"), to: Some(json!({"b": 1})) },
    }
}

fn is_free(path: &[String], key: &str) -> bool {
    !(path.is_empty() && FIXED.contains(&key)
        || path == ["metadata"] && FIXED_METADATA.contains(&key)
        || path.is_empty() && key == "metadata")
}

fn of_list(draw: &mut Draw, schemas: &Schemas, spot: &Spot<'_>, items: &[Value], known: &[String]) -> Edit {
    let end = below(&spot.path, &items.len().to_string());
    let name = spot.path.last().map_or("", String::as_str).to_owned();
    match draw.below(10) {
        0 | 1 if !items.is_empty() => Edit { path: end, to: Some(draw.pick(items).clone()) },
        2 | 3 if !items.is_empty() => Edit { path: below(&spot.path, &draw.below(items.len()).to_string()), to: None },
        4 => odd(draw, &spot.path),
        5 if items.len() > 1 => {
            let reversed = items.iter().rev().cloned().collect();
            Edit { path: spot.path.clone(), to: Some(Value::Array(reversed)) }
        }
        _ => match schemas.shape(spot.schema) {
            Shape::List(item) => Edit { path: end, to: Some(value(draw, schemas, item, &name, spot.path.len(), known)) },
            _ => Edit { path: end, to: Some(json!("x")) },
        },
    }
}

fn of_scalar(draw: &mut Draw, schemas: &Schemas, spot: &Spot<'_>, found: &Value, known: &[String]) -> Edit {
    let name = spot.path.last().map_or("", String::as_str).to_owned();
    match draw.below(20) {
        0 | 1 => Edit { path: spot.path.clone(), to: None },
        2 => odd(draw, &spot.path),
        3 if found.is_string() => Edit { path: spot.path.clone(), to: Some(json!(format!("{}-2", found.as_str().unwrap_or_default()))) },
        _ => Edit { path: spot.path.clone(), to: Some(value(draw, schemas, spot.schema, &name, spot.path.len(), known)) },
    }
}

/// A value of another type, an empty one, or none.
fn odd(draw: &mut Draw, path: &[String]) -> Edit {
    let values = [Value::Null, json!(""), json!({}), json!([]), json!("x"), json!(7), json!(1.5), json!(true), json!([{}]), json!([null])];
    Edit { path: path.to_vec(), to: Some(draw.pick(&values).clone()) }
}
