//! The path of the field that a fault of a rule names: `.spec.names['a.b']`.

use crate::{Additional, Structural};
use berth_api::Path;

/// The path as faults show it. `None`: the schema has no such field.
pub(super) fn field_path(text: &str, schema: &Structural) -> Option<String> {
    let (mut path, mut schema, mut rest) = (Path::new(""), schema, text);
    while !rest.is_empty() {
        let (name, after) = step(rest)?;
        rest = after;
        if schema.properties.is_empty() {
            let Additional::Of(values) = &schema.additional else { return None };
            path = path.key(&name);
            schema = values;
        } else {
            path = path.child(&name);
            schema = schema.properties.get(&name)?;
        }
    }
    Some(path.to_string())
}

/// The first name of a path, and the rest.
fn step(path: &str) -> Option<(String, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        return (0 < end).then(|| (rest[..end].to_owned(), &rest[end..]));
    }
    let rest = path.strip_prefix("['")?;
    let mut characters = rest.char_indices();
    let mut name = String::new();
    loop {
        match characters.next()? {
            (at, '\'') => return rest[at + 1..].strip_prefix(']').map(|rest| (name, rest)),
            (_, '\\') => name.push(match characters.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                other @ ('\'' | '\\') => other,
                _ => return None,
            }),
            (_, other) => name.push(other),
        }
    }
}
