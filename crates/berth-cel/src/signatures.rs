//! The functions of the language: which types they take and return.
//!
//! `signatures.txt` has one overload per line: name, identifier, parameters, result. `string.(int)` is a call of a member with the target `string`.
//! `A` and `B` are any types. The identifiers are upstream's, because costs depend on them.

use crate::{
    Type,
    functions::{Body, body},
};
use std::{collections::BTreeMap, sync::LazyLock};

/// The functions that Kubernetes adds for one use only.
const JSON_PATCH: &str = "jsonpatch.escapeKey string_jsonpatch_escapeKey_string (string) string";

/// The comparisons whose overloads are those of `_<_`.
const COMPARISONS: &[(&str, &str)] = &[("_<=_", "less_equals"), ("_>_", "greater"), ("_>=_", "greater_equals")];

/// A function with the types that it takes.
pub(crate) struct Signature {
    pub(crate) overloads: Vec<Overload>,
    pub(crate) body: Body,
}

/// One combination of types.
#[derive(Clone)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    pub(crate) is_member: bool,
    /// A target first.
    pub(crate) parameters: Vec<Type>,
    pub(crate) result: Type,
}

/// The signature of a function.
pub(crate) fn signature(name: &str) -> Option<&'static Signature> {
    SIGNATURES.get(name)
}

static SIGNATURES: LazyLock<BTreeMap<&'static str, Signature>> = LazyLock::new(|| {
    let mut all = BTreeMap::new();
    for line in include_str!("signatures.txt").lines().chain([JSON_PATCH]) {
        let (name, overload) = read(line);
        add(&mut all, name, overload);
    }
    for (name, id) in COMPARISONS {
        let less: Vec<Overload> = all.get("_<_").map(|less: &Signature| less.overloads.clone()).unwrap_or_default();
        for overload in less {
            let id = overload.id.replacen("less", id, 1);
            add(&mut all, name, Overload { id: id.leak(), ..overload });
        }
    }
    all
});

fn add(all: &mut BTreeMap<&'static str, Signature>, name: &'static str, overload: Overload) {
    let signature = all.entry(name).or_insert_with(|| Signature { overloads: Vec::new(), body: body(name) });
    signature.overloads.push(overload);
}

fn read(line: &'static str) -> (&'static str, Overload) {
    let mut parts = line.split(' ');
    let mut part = || parts.next().unwrap_or_default();
    let (name, id, parameters, result) = (part(), part(), part(), part());
    let (target, arguments) = match parameters.rsplit_once(".(") {
        Some((target, arguments)) => (Some(target), arguments),
        None => (None, parameters.trim_start_matches('(')),
    };
    let arguments = arguments.strip_suffix(')').unwrap_or(arguments);
    let parameters = target.into_iter().chain(parts_of(arguments)).map(type_of).collect();
    (name, Overload { id, is_member: target.is_some(), parameters, result: type_of(result) })
}

/// Divides a text at the commas that are not in brackets.
fn parts_of(text: &'static str) -> Vec<&'static str> {
    let mut depth = 0;
    let is_end = |mark: char| {
        match mark {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => (),
        }
        mark == ',' && depth == 0
    };
    text.split(is_end).filter(|part| !part.is_empty()).collect()
}

fn type_of(text: &'static str) -> Type {
    if let Some((outer, inner)) = text.split_once('(') {
        let inner = parts_of(inner.strip_suffix(')').unwrap_or(inner));
        let mut inner = inner.into_iter().map(type_of);
        let mut next = || inner.next().unwrap_or(Type::Dyn);
        return match outer {
            "list" => Type::list(next()),
            "map" => Type::map(next(), next()),
            "optional" => Type::optional(next()),
            _ => Type::Type(Box::new(next())),
        };
    }
    match text {
        "A" => Type::Variable(0),
        "B" => Type::Variable(1),
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        other => Type::Opaque(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read() {
        let shown = |name: &str| -> Vec<String> {
            let show =
                |overload: &Overload| format!("{} {} {:?} {}", overload.id, overload.is_member, overload.parameters.len(), overload.result);
            signature(name).expect("known").overloads.iter().map(show).collect()
        };
        assert_eq!(shown("_[_]")[1], "index_map false 2 _var1");
        assert_eq!(shown("getQuery"), ["url_get_query true 1 map(string, list(string))"]);
        assert_eq!(shown("optional.none"), ["optional_none false 0 optional_type(_var0)"]);
        assert_eq!(shown("_>=_")[9], "greater_equals_double_uint64 false 2 bool");
        assert!(shown("_>=_").contains(&"greater_equals_string false 2 bool".to_owned()));
        assert!(signature("other").is_none());
    }
}
