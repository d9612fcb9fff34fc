//! Regular expressions. Upstream's are those of Go, whose classes have only ASCII characters.

use super::{Outcome, no_overload, tenth};
use crate::{Budget, EvaluationError, Value};
use regex::{Regex, RegexBuilder};

/// How much memory a compiled expression takes at most.
const BYTES_MAX: usize = 256 * 1024;
/// How deep an expression is nested at most.
const NESTING_MAX: u32 = 100;
/// What it costs to compile an expression that the rule computes. Upstream does not count it.
pub(crate) const COMPILE_COST: u64 = 2_000;

/// Compiles an expression. Its program is bounded, and matching takes time linear in the text.
pub(crate) fn compile(pattern: &str) -> Result<Regex, EvaluationError> {
    let built = RegexBuilder::new(&translated(pattern)).size_limit(BYTES_MAX).dfa_size_limit(BYTES_MAX).nest_limit(NESTING_MAX).build();
    built.map_err(|_| EvaluationError::failed(format!("error parsing regexp: invalid or too large: `{pattern}`")))
}

/// Go's expression as one of the crate `regex`: classes of ASCII characters, and a bracket in a class means itself.
fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut in_class = false;
    let mut characters = pattern.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => match characters.next().map(|(_, escaped)| escaped) {
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('s') => out.push_str("[\\t\\n\\f\\r ]"),
                Some('S') => out.push_str("[^\\t\\n\\f\\r ]"),
                Some('b') if !in_class => out.push_str("(?-u:\\b)"),
                Some('B') if !in_class => out.push_str("(?-u:\\B)"),
                escaped => {
                    out.push('\\');
                    out.extend(escaped);
                }
            },
            '[' if in_class && !pattern[at..].starts_with("[:") => out.push_str("\\["),
            '[' if in_class => out.push('['),
            '[' => {
                in_class = true;
                out.push('[');
                // A closing bracket right after the opening one means itself.
                let rest = &pattern[at + 1..];
                let is_negated = rest.starts_with('^');
                if is_negated {
                    out.push('^');
                    characters.next();
                }
                if rest[usize::from(is_negated)..].starts_with(']') {
                    out.push_str("\\]");
                    characters.next();
                }
            }
            ']' if in_class && pattern[..at].ends_with(':') && pattern[..at].rfind("[:").is_some_and(|open| open + 2 < at) => out.push(']'),
            ']' => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => out.extend(['\\', character]),
            other => out.push(other),
        }
    }
    out
}

/// What it costs to match a text.
fn spend(arguments: &[Value<'_>], budget: &mut Budget) -> Result<(), EvaluationError> {
    let [text, pattern, ..] = arguments else { return Err(no_overload()) };
    budget.spend(tenth(text.size() + 1).saturating_mul(pattern.size().div_ceil(4)))
}

pub(super) fn matches<'a>(arguments: &[Value<'a>], pattern: &Regex, budget: &mut Budget) -> Outcome<'a> {
    spend(arguments, budget)?;
    let [Value::String(text), _] = arguments else { return Err(no_overload()) };
    Ok(pattern.is_match(text).into())
}

pub(super) fn find<'a>(arguments: &[Value<'a>], pattern: &Regex, budget: &mut Budget) -> Outcome<'a> {
    spend(arguments, budget)?;
    let [Value::String(text), _] = arguments else { return Err(no_overload()) };
    Ok(pattern.find(text).map_or("", |found| found.as_str()).to_owned().into())
}

pub(super) fn find_all<'a>(arguments: &[Value<'a>], pattern: &Regex, budget: &mut Budget) -> Outcome<'a> {
    spend(arguments, budget)?;
    let (text, limit) = match arguments {
        [Value::String(text), _] => (text, usize::MAX),
        [Value::String(text), _, Value::Int(limit)] => (text, usize::try_from(*limit).unwrap_or(usize::MAX)),
        _ => return Err(no_overload()),
    };
    let mut found = Vec::new();
    for one in pattern.find_iter(text).take(limit) {
        budget.spend(1)?;
        found.push(one.as_str().to_owned().into());
    }
    Ok(Value::list(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_mean_what_they_mean_in_go() {
        let cases = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^[\w.]+$", "a_1.", true),
            (r"^\w$", "é", false),
            (r"^[a-z[]+$", "a[", true),
            (r"^[[:alpha:]_]+$", "a_b", true),
            (r"^[]a]+$", "]a", true),
            (r"^[^]a]+$", "]a", false),
            (r"^[a&&b]+$", "a&b", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^[^\s]+$", "a b", false),
            (r"^(?P<name>x)$", "x", true),
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-b", true),
            (r"^\[x\]$", "[x]", true),
        ];
        for (pattern, text, is) in cases {
            assert_eq!(compile(pattern).expect(pattern).is_match(text), is, "{pattern} {text}");
        }
        assert!(compile("(a{1000}){1000}").is_err());
        assert!(compile("(").is_err());
    }
}
