//! Label selectors and field selectors, as clients write them in queries and in specs.

mod demands;
mod fields;
mod parse;

pub use demands::LabelSource;
pub use fields::{FieldOperator, FieldRequirement, FieldSelector};

use crate::names::{check_label_key, check_label_value};
use demands::Demands;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use std::{collections::BTreeSet, fmt};

/// Which labels an object must carry. All requirements must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Matching);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Matching {
    Nothing,
    AllOf(Requirements),
}

/// Requirements as they were written; none at all matches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirements {
    /// Sorted by key.
    list: Vec<Requirement>,
    /// The same by label, where there are many.
    by_label: Option<Box<Demands>>,
}

/// One condition on the label `key`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

/// What must hold for the value of a label. A negative test also holds where the label is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    DoesNotExist,
    Equals(String),
    NotEquals(String),
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    GreaterThan(i64),
    LessThan(i64),
}

/// Why a selector cannot be used. The text is upstream's, for a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl Selector {
    /// Matches every object.
    #[must_use]
    pub fn everything() -> Self {
        Self::all_of(Vec::new())
    }

    /// Matches no object.
    #[must_use]
    pub fn nothing() -> Self {
        Self(Matching::Nothing)
    }

    /// Reads `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2`; empty text matches everything.
    ///
    /// # Errors
    /// Text outside the grammar, malformed keys or values, bounds that are no integers; with upstream's message.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parse::parse(text).map(Self::all_of)
    }

    /// Converts the selector of a spec. `{}` matches everything. The caller decides about an absent one.
    ///
    /// # Errors
    /// An unknown operator, a malformed key or value, a set operator without values or values where there may be none.
    pub fn from_label_selector(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let labels = selector.match_labels.iter().flatten();
        let equal = labels.map(|(key, value)| Requirement::new(key, Test::Equals(value.clone())));
        let expressions = selector.match_expressions.iter().flatten().map(Requirement::from_expression);
        equal.chain(expressions).collect::<Result<_, _>>().map(Self::all_of)
    }

    fn all_of(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        let by_label = Demands::of(requirements.iter().map(|requirement| (requirement.key.as_str(), &requirement.test)));
        Self(Matching::AllOf(Requirements { list: requirements, by_label }))
    }

    /// Whether an object with `labels` matches. The cost is one lookup for each element of the shorter list: labels
    /// or requested keys. It does not depend on the number of requirements.
    #[must_use]
    pub fn matches(&self, labels: &(impl LabelSource + ?Sized)) -> bool {
        match &self.0 {
            Matching::Nothing => false,
            Matching::AllOf(Requirements { by_label: Some(demands), .. }) => demands.are_met_by(labels),
            Matching::AllOf(Requirements { list, .. }) => {
                list.iter().all(|requirement| requirement.test.holds(labels.get(&requirement.key)))
            }
        }
    }

    /// Returns the same selector in less memory, for matching only. Many requirements are kept in one form, and it
    /// prints as if it had none.
    #[must_use]
    pub fn compacted(mut self) -> Self {
        if let Matching::AllOf(Requirements { list, by_label: Some(_) }) = &mut self.0 {
            *list = Vec::new();
        }
        self
    }

    /// How many requirements there are.
    #[must_use]
    pub fn requirement_count(&self) -> usize {
        self.requirements().len()
    }

    fn requirements(&self) -> &[Requirement] {
        match &self.0 {
            Matching::Nothing => &[],
            Matching::AllOf(requirements) => &requirements.list,
        }
    }

    /// Returns a label with its value that every matching object has, or `None` if no requirement demands exactly one
    /// value.
    #[must_use]
    pub fn required_label(&self) -> Option<(&str, &str)> {
        self.requirements().iter().find_map(|requirement| match &requirement.test {
            Test::Equals(value) => Some((requirement.key.as_str(), value.as_str())),
            Test::In(values) if values.len() == 1 => Some((requirement.key.as_str(), values.first()?.as_str())),
            _ => None,
        })
    }

    /// Whether every object matches.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        matches!(&self.0, Matching::AllOf(requirements) if requirements.list.is_empty() && requirements.by_label.is_none())
    }
}

impl fmt::Display for Selector {
    /// Formats the selector as kubectl and `/scale` do. [`Selector::parse`] can parse the result.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl Requirement {
    /// A requirement with a well-formed key and values.
    fn new(key: &str, test: Test) -> Result<Self, SelectorError> {
        check("key", key, &check_label_key(key))?;
        for (index, value) in test.values().enumerate() {
            check(&format!("values[{index}][{key}]"), value, &check_label_value(value))?;
        }
        Ok(Self { key: key.to_owned(), test })
    }

    fn from_expression(expression: &LabelSelectorRequirement) -> Result<Self, SelectorError> {
        let values: BTreeSet<String> = expression.values.iter().flatten().cloned().collect();
        let test = match (expression.operator.as_str(), values.is_empty()) {
            ("In", false) => Test::In(values),
            ("NotIn", false) => Test::NotIn(values),
            ("In" | "NotIn", true) => {
                return Err(SelectorError("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".to_owned()));
            }
            ("Exists", true) => Test::Exists,
            ("DoesNotExist", true) => Test::DoesNotExist,
            ("Exists" | "DoesNotExist", false) => {
                let values = serde_json::json!(values);
                return Err(SelectorError(format!(
                    "values: Invalid value: {values}: values set must be empty for exists and does not exist"
                )));
            }
            (unknown, _) => return Err(SelectorError(format!("{unknown:?} is not a valid label selector operator"))),
        };
        Self::new(&expression.key, test)
    }
}

fn check(field: &str, value: &str, messages: &[String]) -> Result<(), SelectorError> {
    if messages.is_empty() {
        return Ok(());
    }
    let value = serde_json::Value::from(value);
    Err(SelectorError(format!("{field}: Invalid value: {value}: {}", messages.join("; "))))
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            Test::Exists => f.write_str(key),
            Test::DoesNotExist => write!(f, "!{key}"),
            Test::Equals(value) => write!(f, "{key}={value}"),
            Test::NotEquals(value) => write!(f, "{key}!={value}"),
            Test::In(values) => write!(f, "{key} in ({})", Joined(values)),
            Test::NotIn(values) => write!(f, "{key} notin ({})", Joined(values)),
            Test::GreaterThan(bound) => write!(f, "{key}>{bound}"),
            Test::LessThan(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

struct Joined<'a>(&'a BTreeSet<String>);

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, value) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{value}")?;
        }
        Ok(())
    }
}

impl Test {
    fn holds(&self, label: Option<&str>) -> bool {
        let number = || label.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Exists => label.is_some(),
            Self::DoesNotExist => label.is_none(),
            Self::Equals(value) => label == Some(value),
            Self::NotEquals(value) => label != Some(value),
            Self::In(values) => label.is_some_and(|label| values.contains(label)),
            Self::NotIn(values) => label.is_none_or(|label| !values.contains(label)),
            Self::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            Self::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }

    /// The values that must be well-formed; bounds are, being integers.
    fn values(&self) -> impl Iterator<Item = &String> {
        let (one, many) = match self {
            Self::Equals(value) | Self::NotEquals(value) => (Some(value), None),
            Self::In(values) | Self::NotIn(values) => (None, Some(values)),
            Self::Exists | Self::DoesNotExist | Self::GreaterThan(_) | Self::LessThan(_) => (None, None),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn labels(text: &str) -> BTreeMap<String, String> {
        text.split_whitespace().filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    }

    fn check_match(selector: &str, object: &str, wanted: bool) {
        let parsed = Selector::parse(selector).unwrap_or_else(|error| panic!("{selector}: {error}"));
        assert_eq!(parsed.matches(&labels(object)), wanted, "{selector} on {object}");
    }

    #[test]
    fn requirements_match_as_upstream() {
        check_match("", "", true);
        check_match("a=b", "a=b", true);
        check_match("a==b", "a=b c=d", true);
        check_match("a=b", "", false);
        check_match("a=", "a=", true);
        check_match("a!=b", "", true);
        check_match("a!=b", "a=b", false);
        check_match("a in (b,c)", "a=c", true);
        check_match("a in (b,c)", "", false);
        check_match("a notin (b,c)", "a=c", false);
        check_match("a notin (b,c)", "", true);
        check_match("a", "a=", true);
        check_match("!a", "a=", false);
        check_match("!a,b", "b=1", true);
        check_match("a>1", "a=2", true);
        check_match("a<1", "a=2", false);
        check_match("a>1", "a=x", false);
        check_match("in in (in,notin)", "in=notin", true);
        assert!(!Selector::nothing().matches(&labels("a=b")));
    }

    #[test]
    fn a_compacted_selector_matches_as_before() {
        let many: String = (0..20).map(|at| format!(",k{at} notin (a,b),l{at} in (a,c),n{at}>1,n{at}<9")).collect();
        let selector = Selector::parse(&many[1..]).expect("valid");
        let of = |l: &str, n: &str| labels(&(0..20).map(|at| format!("l{at}={l} n{at}={n} ")).collect::<String>());
        for (object, wanted) in
            [(of("a", "5"), true), (of("c", "2"), true), (of("b", "5"), false), (of("a", "9"), false), (of("a", "x"), false)]
        {
            assert_eq!((selector.matches(&object), selector.clone().compacted().matches(&object)), (wanted, wanted), "{object:?}");
        }
        assert!(!selector.compacted().is_everything() && Selector::everything().compacted().is_everything());
    }

    #[test]
    fn a_required_label_is_one_that_every_match_has() {
        let check = |selector: &str, wanted| assert_eq!(Selector::parse(selector).expect(selector).required_label(), wanted, "{selector}");
        check("a=b", Some(("a", "b")));
        check("!z,b in (c)", Some(("b", "c")));
        check("", None);
        check("a,b!=c,d notin (e),f in (g,h),i>1", None);
        assert_eq!(Selector::nothing().required_label(), None);
    }

    fn spec(json: serde_json::Value) -> Result<Selector, SelectorError> {
        Selector::from_label_selector(&serde_json::from_value(json).expect("a label selector"))
    }

    #[test]
    fn a_spec_prints_as_kubectl_prints_it() {
        let selector = spec(serde_json::json!({
            "matchLabels": {"b": "1", "a": "x"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "z", "operator": "DoesNotExist"},
                {"key": "c", "operator": "Exists"},
            ],
        }));
        assert_eq!(selector.expect("valid").to_string(), "a=x,b=1,c,tier in (a,b),!z");
        assert!(spec(serde_json::json!({})).expect("valid").is_everything());
    }

    #[test]
    fn a_bad_spec_is_refused() {
        let refused =
            |expression: serde_json::Value| spec(serde_json::json!({"matchExpressions": [expression]})).expect_err("invalid").to_string();
        assert_eq!(refused(serde_json::json!({"key": "a", "operator": "Is"})), "\"Is\" is not a valid label selector operator");
        assert!(refused(serde_json::json!({"key": "a", "operator": "In"})).contains("can't be empty"));
        assert!(refused(serde_json::json!({"key": "a", "operator": "Exists", "values": ["x"]})).contains("must be empty"));
        assert!(refused(serde_json::json!({"key": "a b", "operator": "Exists"})).starts_with("key: Invalid value: \"a b\": name part"));
        let long = refused(serde_json::json!({"key": "a", "operator": "In", "values": ["-"]}));
        assert!(long.starts_with("values[0][a]: Invalid value: \"-\": a valid label"), "{long}");
    }

    const WORD: &str = "(in|notin|[a-z0-9]([a-zA-Z0-9._-]{0,5}[a-zA-Z0-9])?)";

    fn word() -> impl Strategy<Value = String> {
        WORD
    }

    fn requirement(key: &'static str) -> impl Strategy<Value = Requirement> {
        let set = || proptest::collection::btree_set(word(), 1..4);
        let test = prop_oneof![
            Just(Test::Exists),
            Just(Test::DoesNotExist),
            word().prop_map(Test::Equals),
            word().prop_map(Test::NotEquals),
            set().prop_map(Test::In),
            set().prop_map(Test::NotIn),
            (0..i64::MAX).prop_map(Test::GreaterThan),
            (0..i64::MAX).prop_map(Test::LessThan),
        ];
        (key, test).prop_map(|(key, test)| Requirement { key, test })
    }

    proptest! {
        #[test]
        fn many_requirements_hold_as_each_of_them_does(
            requirements in proptest::collection::vec(requirement("[a-d]"), 0..24),
            labels in proptest::collection::btree_map("[a-f]", "[a-z]|-?[0-9]|in", 0..6),
        ) {
            let each = requirements.iter().all(|requirement| requirement.test.holds(labels.get(&requirement.key).map(String::as_str)));
            let pairs: Vec<(Box<str>, Box<str>)> = labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
            let selector = Selector::all_of(requirements);
            prop_assert_eq!((selector.matches(&labels), selector.matches(&*pairs)), (each, each), "{}", selector);
        }

        #[test]
        fn what_is_printed_reads_back(requirements in proptest::collection::vec(requirement(WORD), 0..12)) {
            let selector = Selector::all_of(requirements);
            prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a-b =!<>(),/]{0,12}|.{0,20}") {
            let _ = Selector::parse(&text);
        }
    }
}
