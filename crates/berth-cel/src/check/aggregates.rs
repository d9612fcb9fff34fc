//! Checks after the types are known: lists and maps of one type, and formats that fit their values.

use super::Checker;
use crate::{
    Type,
    functions::formatting::{clause, only},
    stack::with_stack,
    syntax::{Call, Expr, Kind, Literal},
};

impl Checker<'_> {
    /// `is_format`: the part is in the call of `format`, whose values can have different types.
    pub(super) fn check_aggregates(&mut self, expr: &Expr, is_format: bool) {
        with_stack(|| {
            let is_format = is_format || matches!(&expr.kind, Kind::Call(call) if &*call.name == "format");
            match &expr.kind {
                Kind::List(elements) if !is_format => {
                    self.check_same(elements.iter().map(|element| (&element.value, element.is_optional)));
                }
                Kind::Map(entries) if !is_format => {
                    self.check_same(entries.iter().map(|entry| (&entry.key, false)));
                    self.check_same(entries.iter().map(|entry| (&entry.value, entry.is_optional)));
                }
                Kind::Call(call) if &*call.name == "format" => self.check_format(expr, call),
                _ => (),
            }
            expr.parts().into_iter().for_each(|part| self.check_aggregates(part, is_format));
        });
    }

    /// All values have the type of the first.
    fn check_same<'e>(&mut self, values: impl Iterator<Item = (&'e Expr, bool)>) {
        let mut first: Option<Type> = None;
        for (value, is_optional) in values {
            let found = match self.types[value.id as usize].clone() {
                Type::Optional(inner) if is_optional => *inner,
                other => other,
            };
            match &first {
                None => first = Some(found),
                Some(first) if *first == found => (),
                Some(first) => {
                    self.mismatch(value, &first.clone(), &found);
                    return;
                }
            }
        }
    }

    /// A format that is written in the expression fits the values that are written in it.
    fn check_format(&mut self, expr: &Expr, call: &Call) {
        let Some(Kind::Literal(Literal::String(format))) = call.target.as_ref().map(|target| &target.kind) else { return };
        let [argument] = &call.arguments[..] else { return };
        let Kind::List(values) = &argument.kind else { return };
        let (mut rest, mut used) = (&**format, 0);
        while let Some(at) = rest.find('%') {
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                rest = after;
                continue;
            }
            let Some(value) = values.get(used) else {
                self.fault(expr, format!("index {used} out of range"));
                return;
            };
            used += 1;
            match clause(rest) {
                Ok((_, verb, after)) => {
                    rest = after;
                    let found = self.types[value.value.id as usize].clone();
                    if !fits(verb, &found) {
                        let shown = format!("error during formatting: {}, was given {}", only(verb), self.bare_name(&found));
                        self.fault(&value.value, shown);
                        return;
                    }
                }
                Err(why) => {
                    self.fault(expr, why.to_string());
                    return;
                }
            }
        }
        if used < values.len() {
            let text = format!("too many arguments supplied to string.format (expected {used}, got {})", values.len());
            self.fault(expr, text);
        }
    }

    /// The name of a type without the types inside it.
    fn bare_name(&self, of: &Type) -> String {
        match of {
            Type::List(_) => "list".to_owned(),
            Type::Map(_) => "map".to_owned(),
            Type::Optional(_) => "optional_type".to_owned(),
            Type::Type(_) => "type".to_owned(),
            Type::Null => "null_type".to_owned(),
            Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Type::Duration => "google.protobuf.Duration".to_owned(),
            other => self.shown(other),
        }
    }
}

/// Whether a value of the type can be formatted so.
fn fits(verb: char, of: &Type) -> bool {
    match (verb, of) {
        (_, Type::Dyn) => true,
        ('s', of) => !matches!(of, Type::Object(_) | Type::Opaque(_) | Type::Optional(_) | Type::Constructed(_)),
        ('d' | 'o', of) => matches!(of, Type::Int | Type::Uint),
        ('b', of) => matches!(of, Type::Int | Type::Uint | Type::Bool),
        ('x' | 'X', of) => matches!(of, Type::Int | Type::Uint | Type::String | Type::Bytes),
        (_, of) => matches!(of, Type::Double | Type::String),
    }
}
