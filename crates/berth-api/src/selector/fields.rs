//! Field selectors: `metadata.name=a,status.phase!=Running`.

use super::SelectorError;
use std::fmt;

/// Which fields an object must have. All requirements must hold; none at all matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// In the order in which upstream prints them: sorted as written.
    pub requirements: Vec<FieldRequirement>,
}

/// One condition on a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// As `status.phase`. Which fields a kind knows is the registry's to say.
    pub field: String,
    /// How the field is compared.
    pub operator: FieldOperator,
    /// What it is compared with.
    pub value: String,
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOperator {
    /// `=` or `==`.
    Equals,
    /// `!=`.
    NotEquals,
}

impl FieldSelector {
    /// Reads `k=v`, `k==v`, `k!=v`, joined by commas; `\\`, `\,` and `\=` stand for themselves in values. Empty parts are skipped.
    ///
    /// # Errors
    /// A part without operator, an unknown escape, a bare `=` in a value; with upstream's message for a 400.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parts: Vec<&str> = split_terms(text).into_iter().filter(|part| !part.is_empty()).collect();
        parts.sort_unstable();
        let requirements = parts.into_iter().map(|part| parse_term(text, part)).collect::<Result<_, _>>()?;
        Ok(Self { requirements })
    }

    /// Whether an object matches whose fields `get` knows; a field that it does not know is empty.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let equal = get(&requirement.field).unwrap_or_default() == requirement.value;
            equal == (requirement.operator == FieldOperator::Equals)
        })
    }
}

/// The parts between commas that no backslash escapes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn parse_term(text: &str, term: &str) -> Result<FieldRequirement, SelectorError> {
    let not_understood = || SelectorError(format!("invalid selector: '{text}'; can't understand '{term}'"));
    let split = |at: usize| {
        let operators = [("!=", FieldOperator::NotEquals), ("==", FieldOperator::Equals), ("=", FieldOperator::Equals)];
        let parts = |(sign, operator)| term[at..].strip_prefix(sign).map(|value| (&term[..at], operator, value));
        operators.into_iter().find_map(parts)
    };
    let (field, operator, value) = term.char_indices().find_map(|(at, _)| split(at)).ok_or_else(not_understood)?;
    Ok(FieldRequirement { field: field.to_owned(), operator, value: unescape(value)? })
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(SelectorError(format!("invalid field selector: invalid escape sequence: {sequence}")));
                }
            },
            // Upstream prints the character's number.
            '=' => return Err(SelectorError(format!("invalid field selector: unescaped character in value: {}", u32::from(c)))),
            _ => plain.push(c),
        }
    }
    Ok(plain)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.operator {
            FieldOperator::Equals => "=",
            FieldOperator::NotEquals => "!=",
        };
        let escaped = self.value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
        write!(f, "{}{sign}{escaped}", self.field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, wanted: &str) {
        let parsed = FieldSelector::parse(text).map_or_else(|error| error.to_string(), |selector| selector.to_string());
        assert_eq!(parsed, wanted, "{text}");
    }

    #[test]
    fn selectors_read_or_refuse_as_upstream() {
        check("", "");
        check(",", "");
        check("metadata.name=a", "metadata.name=a");
        check("b==1,a!=2", "a!=2,b=1");
        check("a=", "a=");
        check(r"a=b\,c\=d\\", r"a=b\,c\=d\\");
        check("foo", "invalid selector: 'foo'; can't understand 'foo'");
        check("a=1,foo", "invalid selector: 'a=1,foo'; can't understand 'foo'");
        check(r"a=\x", r"invalid field selector: invalid escape sequence: \x");
        check(r"a=x\", r"invalid field selector: invalid escape sequence: \");
        check("a=b=c", "invalid field selector: unescaped character in value: 61");
    }

    #[test]
    fn an_unknown_field_is_empty() {
        let selector = |text| FieldSelector::parse(text).expect("valid");
        let get = |field: &str| (field == "a").then_some("1");
        assert!(selector("a=1,b=,c!=2").matches(get));
        assert!(!selector("a!=1").matches(get));
    }

    proptest! {
        #[test]
        fn any_value_survives_printing(value in ".{0,12}") {
            let requirement = FieldRequirement { field: "a.b".to_owned(), operator: FieldOperator::NotEquals, value };
            let selector = FieldSelector { requirements: vec![requirement] };
            prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
        }
    }
}
