//! Field selectors: `metadata.name=a,status.phase!=Running`.

use super::{SelectorError, Test, demands::Demands};
use std::fmt;

/// Which fields an object must have. All requirements must hold; none at all matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
    /// The same by field, where there are many.
    by_field: Option<Box<Demands>>,
}

/// One condition on a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field, such as `status.phase`. The registry determines the supported fields of a kind.
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
    /// Parses `k=v`, `k==v`, `k!=v`, joined by commas. `\\`, `\,` and `\=` are escapes in values. Empty parts are
    /// skipped.
    ///
    /// # Errors
    /// A part without operator, an unknown escape, a bare `=` in a value; with upstream's message for a 400.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parts: Vec<&str> = split_terms(text).into_iter().filter(|part| !part.is_empty()).collect();
        parts.sort_unstable();
        parts.into_iter().map(|part| parse_term(text, part)).collect::<Result<_, _>>().map(Self::new)
    }

    /// All of these.
    #[must_use]
    pub fn new(requirements: Vec<FieldRequirement>) -> Self {
        let tests: Vec<Test> = requirements.iter().map(FieldRequirement::test).collect();
        let by_field = Demands::of(requirements.iter().map(|requirement| requirement.field.as_str()).zip(&tests));
        Self { requirements, by_field }
    }

    /// Returns the same selector in less memory, for matching only. Many requirements are kept in one form.
    #[must_use]
    pub fn compacted(mut self) -> Self {
        if self.by_field.is_some() {
            self.requirements = Vec::new();
        }
        self
    }

    /// Whether every object matches.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && self.by_field.is_none()
    }

    /// In the order in which upstream prints them: sorted as written.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether an object matches. `get` returns its fields, and an unknown field is empty. Each field is read once, or
    /// a few times.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        if let Some(demands) = &self.by_field {
            return demands.are_met_by_fields(|field| get(field).unwrap_or_default());
        }
        self.requirements.iter().all(|requirement| {
            let equal = get(&requirement.field).unwrap_or_default() == requirement.value;
            equal == (requirement.operator == FieldOperator::Equals)
        })
    }
}

impl FieldRequirement {
    fn test(&self) -> Test {
        match self.operator {
            FieldOperator::Equals => Test::Equals(self.value.clone()),
            FieldOperator::NotEquals => Test::NotEquals(self.value.clone()),
        }
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

    #[test]
    fn a_field_is_asked_for_once_however_many_requirements_there_are() {
        let text = (0..2700).map(|at| format!("a!={at},b=")).collect::<Vec<_>>().join(",");
        let asked = std::cell::Cell::new(0);
        let get = |field: &str| {
            asked.set(asked.get() + 1);
            (field == "a").then_some("x")
        };
        assert!(FieldSelector::parse(&text).expect("valid").matches(get));
        assert_eq!(asked.get(), 2);
    }

    fn requirements() -> impl Strategy<Value = Vec<FieldRequirement>> {
        let operator = prop_oneof![Just(FieldOperator::NotEquals), Just(FieldOperator::Equals)];
        let one = ("[a-c]", operator, "[x-z]?").prop_map(|(field, operator, value)| FieldRequirement { field, operator, value });
        proptest::collection::vec(one, 0..16)
    }

    proptest! {
        #[test]
        fn many_requirements_hold_as_each_of_them_does(requirements in requirements(), a in "[x-z]?") {
            let get = |field: &str| (field == "a").then_some(a.as_str());
            let each = requirements.iter().all(|one| FieldSelector::new(vec![one.clone()]).matches(get));
            prop_assert_eq!(FieldSelector::new(requirements).matches(get), each);
        }

        #[test]
        fn any_value_survives_printing(value in ".{0,12}") {
            let requirement = FieldRequirement { field: "a.b".to_owned(), operator: FieldOperator::NotEquals, value };
            let selector = FieldSelector::new(vec![requirement]);
            prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
        }
    }
}
