//! Label selectors, parsed once and matched often.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::{BTreeMap, BTreeSet};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// A parsed label selector: every requirement must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Is(String),
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Reads a selector. `None` if it has an operator that does not exist, or a number of values that its operator does not allow: such a
    /// selector selects nothing, and its object is left alone.
    #[must_use]
    pub fn parse(selector: &LabelSelector) -> Option<Self> {
        let labels = selector.match_labels.iter().flatten();
        let mut requirements: Vec<_> = labels.map(|(key, value)| Requirement { key: key.clone(), test: Test::Is(value.clone()) }).collect();
        for expression in selector.match_expressions.iter().flatten() {
            let values: BTreeSet<String> = expression.values.iter().flatten().cloned().collect();
            let test = match (expression.operator.as_str(), values.is_empty()) {
                ("In", false) => Test::In(values),
                ("NotIn", false) => Test::NotIn(values),
                ("Exists", true) => Test::Exists,
                ("DoesNotExist", true) => Test::DoesNotExist,
                _ => return None,
            };
            requirements.push(Requirement { key: expression.key.clone(), test });
        }
        Some(Self { requirements })
    }

    /// Whether it has no requirement, so that it matches every object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether `labels` meet every requirement. As upstream, `NotIn` holds where the label is missing.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| requirement.test.holds(labels.get(&requirement.key)))
    }
}

impl Test {
    fn holds(&self, value: Option<&String>) -> bool {
        match self {
            Self::Is(wanted) => value == Some(wanted),
            Self::In(wanted) => value.is_some_and(|value| wanted.contains(value)),
            Self::NotIn(refused) => value.is_none_or(|value| !refused.contains(value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
        }
    }
}
