//! Values and types that are written in an expression.

use crate::{
    Type,
    functions::patterns,
    syntax::{Call, Kind, Literal},
    value::times,
};

/// The type of a value that is written in the expression.
pub(super) fn type_of(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// Names of types, as values.
pub(super) fn named(name: &str) -> Option<(&'static str, Type)> {
    let known = [
        ("bool", Type::Bool),
        ("int", Type::Int),
        ("uint", Type::Uint),
        ("double", Type::Double),
        ("string", Type::String),
        ("bytes", Type::Bytes),
        ("list", Type::list(Type::Dyn)),
        ("map", Type::map(Type::Dyn, Type::Dyn)),
        ("null_type", Type::Null),
        ("type", Type::Type(Box::new(Type::Dyn))),
        ("optional_type", Type::optional(Type::Dyn)),
        ("google.protobuf.Timestamp", Type::Timestamp),
        ("google.protobuf.Duration", Type::Duration),
        ("net.IP", Type::Opaque("net.IP")),
        ("net.CIDR", Type::Opaque("net.CIDR")),
        ("kubernetes.URL", Type::Opaque("kubernetes.URL")),
        ("kubernetes.Quantity", Type::Opaque("kubernetes.Quantity")),
        ("kubernetes.Semver", Type::Opaque("kubernetes.Semver")),
        ("kubernetes.NamedFormat", Type::Opaque("kubernetes.NamedFormat")),
    ];
    known.into_iter().find(|(known, _)| *known == name)
}

/// Compiles the pattern of a call that is written in the expression, and finds an argument that no evaluation can use: its number, and the fault.
pub(super) fn check(call: &mut Call) -> Option<(u32, String)> {
    let argument = match (&*call.name, call.target.is_some(), &call.arguments[..]) {
        ("matches", false, [_, pattern]) | ("matches" | "find" | "findAll", true, [pattern, ..]) => pattern,
        ("duration" | "timestamp", false, [argument]) => argument,
        _ => return None,
    };
    let text = match (&argument.kind, &*call.name) {
        (Kind::Literal(Literal::String(text)), _) => text,
        (Kind::Literal(Literal::Int(second)), "timestamp") => {
            return times::at_second(*second).is_none().then(|| (argument.id, "invalid timestamp argument".to_owned()));
        }
        (Kind::Literal(Literal::Int(_)), "duration") => return Some((argument.id, "invalid duration argument".to_owned())),
        _ => return None,
    };
    let is_valid = match &*call.name {
        "duration" => times::duration(text).is_some(),
        "timestamp" => times::timestamp(text).is_some(),
        _ => {
            call.pattern = patterns::compile(text).ok().map(Box::new);
            call.pattern.is_some() || &*call.name != "matches"
        }
    };
    (!is_valid).then(|| (argument.id, format!("invalid {} argument", call.name)))
}
