//! Names of fields as expressions write them: `foo-bar` is `foo__dash__bar`, `namespace` is `__namespace__`.
//!
//! Source: kubernetes `apiserver/pkg/cel/escaping.go`.

/// Words that the language reserves.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// The marks that a name can have, and how they are written.
const MARKS: &[(&str, &str)] = &[("__", "underscores"), (".", "dot"), ("-", "dash"), ("/", "slash")];

/// The name of a field as expressions write it. `None`: no expression can read this field.
#[must_use]
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let mark = MARKS.iter().find(|(mark, _)| rest.starts_with(mark));
        if let Some((mark, word)) = mark {
            escaped.push_str("__");
            escaped.push_str(word);
            escaped.push_str("__");
            rest = &rest[mark.len()..];
        } else if first.is_ascii_alphanumeric() || first == '_' {
            escaped.push(first);
            rest = &rest[1..];
        } else {
            return None;
        }
    }
    Some(escaped)
}

/// The name of a field from an expression. `None`: no field is written so.
#[must_use]
pub fn unescape(escaped: &str) -> Option<String> {
    let mut name = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = rest.find("__") {
        name.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let word = after.find("__").map(|end| &after[..end]).filter(|word| !word.is_empty() && !word.contains('_'));
        let Some(word) = word else {
            // Without an end it is no escape.
            name.push_str("__");
            rest = after;
            continue;
        };
        if let Some((mark, _)) = MARKS.iter().find(|(_, known)| *known == word) {
            name.push_str(mark);
        } else if RESERVED.contains(&word) && word.len() + 4 == escaped.len() {
            name.push_str(word);
        } else {
            return None;
        }
        rest = &after[word.len() + 2..];
    }
    name.push_str(rest);
    Some(name)
}

/// Whether a word cannot be the name of a variable.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_upstream_does() {
        let cases = [
            ("a", Some("a")),
            ("namespace", Some("__namespace__")),
            ("a-b", Some("a__dash__b")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("a___b", Some("a__underscores___b")),
            ("1a", None),
            ("a b", None),
            ("é", None),
            ("", None),
            ("$ref", None),
        ];
        for (name, escaped) in cases {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
            if let Some(escaped) = escaped {
                assert_eq!(unescape(escaped).as_deref(), Some(name), "{escaped}");
            }
        }
        assert_eq!(unescape("a__if__"), None);
        assert_eq!(unescape("a__other__b"), None);
    }
}
