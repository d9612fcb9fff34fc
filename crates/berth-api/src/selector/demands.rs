//! Many requirements, grouped by label. The cost of matching an object does not depend on the number of requirements.
//!
//! Otherwise each object would cost a lookup per requirement, and clients can send thousands of requirements.

use super::Test;
use std::collections::{BTreeMap, BTreeSet};

/// The number of requirements up to which each is checked separately. Most selectors have one or two, and need no
/// grouped form.
const FEW: usize = 8;

/// The labels of an object, by key, for selectors.
pub trait LabelSource {
    /// Returns the number of labels.
    fn count(&self) -> usize;

    /// Returns the value of a label.
    fn get(&self, key: &str) -> Option<&str>;

    /// Returns keys and values, each key once.
    fn pairs(&self) -> impl Iterator<Item = (&str, &str)>;
}

impl LabelSource for BTreeMap<String, String> {
    fn count(&self) -> usize {
        self.len()
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

/// Sorted by key.
impl LabelSource for [(Box<str>, Box<str>)] {
    fn count(&self) -> usize {
        self.len()
    }

    fn get(&self, key: &str) -> Option<&str> {
        let at = self.binary_search_by(|(there, _)| (**there).cmp(key)).ok()?;
        Some(&self[at].1)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().map(|(key, value)| (&**key, &**value))
    }
}

/// Absent labels are none.
impl<L: LabelSource> LabelSource for Option<&L> {
    fn count(&self) -> usize {
        self.map_or(0, L::count)
    }

    fn get(&self, key: &str) -> Option<&str> {
        (*self)?.get(key)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().flat_map(|labels| labels.pairs())
    }
}

/// All requirements of a selector, by label or field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Demands {
    /// Sorted by name, without duplicates.
    by_name: Box<[(Box<str>, Demand)]>,
    /// The number of demands for a present label.
    required: usize,
}

/// All requirements for one label or field. A watch keeps thousands of them, so values are in sorted slices.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Demand {
    /// Whether the label must be present.
    is_required: bool,
    /// The allowed values. `None`: any.
    allowed: Option<Box<[Box<str>]>>,
    banned: Box<[Box<str>]>,
    bounds: Option<Box<Bounds>>,
}

/// The bounds of a value, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bounds {
    above: Option<i64>,
    below: Option<i64>,
}

/// A demand under construction.
#[derive(Default)]
struct Gathered {
    is_required: bool,
    allowed: Option<BTreeSet<Box<str>>>,
    banned: BTreeSet<Box<str>>,
    bounds: Bounds,
}

impl Demands {
    /// Returns `None` for few requirements, which are checked separately.
    pub(super) fn of<'a>(tests: impl ExactSizeIterator<Item = (&'a str, &'a Test)>) -> Option<Box<Self>> {
        if tests.len() <= FEW {
            return None;
        }
        let mut by_name: BTreeMap<&str, Gathered> = BTreeMap::new();
        for (name, test) in tests {
            by_name.entry(name).or_default().add(test);
        }
        let required = by_name.values().filter(|demand| demand.is_required).count();
        Some(Box::new(Self { by_name: by_name.into_iter().map(|(name, demand)| (name.into(), demand.finish())).collect(), required }))
    }

    /// Whether the labels match. Iterates over the labels or the demands: over the shorter list.
    pub(super) fn are_met_by(&self, labels: &(impl LabelSource + ?Sized)) -> bool {
        if self.by_name.len() < labels.count() {
            return self.by_name.iter().all(|(name, demand)| match labels.get(name) {
                Some(value) => demand.admits(value),
                None => !demand.is_required,
            });
        }
        let mut found = 0;
        for (key, value) in labels.pairs() {
            let Ok(at) = self.by_name.binary_search_by(|(name, _)| (**name).cmp(key)) else { continue };
            let demand = &self.by_name[at].1;
            if !demand.admits(value) {
                return false;
            }
            found += usize::from(demand.is_required);
        }
        found == self.required
    }

    /// Whether the fields match. Every field has a value.
    pub(super) fn are_met_by_fields<'a>(&self, get: impl Fn(&str) -> &'a str) -> bool {
        self.by_name.iter().all(|(name, demand)| demand.admits(get(name)))
    }
}

impl Gathered {
    fn finish(self) -> Demand {
        let Self { is_required, allowed, banned, bounds } = self;
        let bounds = (bounds != Bounds::default()).then(|| Box::new(bounds));
        Demand { is_required, allowed: allowed.map(|allowed| allowed.into_iter().collect()), banned: banned.into_iter().collect(), bounds }
    }

    fn add(&mut self, test: &Test) {
        match test {
            Test::Exists | Test::Equals(_) | Test::In(_) | Test::GreaterThan(_) | Test::LessThan(_) => self.is_required = true,
            Test::DoesNotExist | Test::NotEquals(_) | Test::NotIn(_) => (),
        }
        match test {
            Test::Exists => (),
            Test::DoesNotExist => self.allowed = Some(BTreeSet::new()),
            Test::Equals(value) => self.allow_only(&BTreeSet::from([value.clone()])),
            Test::In(values) => self.allow_only(values),
            Test::NotEquals(value) => _ = self.banned.insert(value.as_str().into()),
            Test::NotIn(values) => self.banned.extend(values.iter().map(|value| value.as_str().into())),
            Test::GreaterThan(bound) => self.bounds.above = Some(self.bounds.above.map_or(*bound, |before| before.max(*bound))),
            Test::LessThan(bound) => self.bounds.below = Some(self.bounds.below.map_or(*bound, |before| before.min(*bound))),
        }
    }

    fn allow_only(&mut self, values: &BTreeSet<String>) {
        match &mut self.allowed {
            Some(allowed) => allowed.retain(|value| values.contains(&**value)),
            None => self.allowed = Some(values.iter().map(|value| value.as_str().into()).collect()),
        }
    }
}

impl Demand {
    fn admits(&self, value: &str) -> bool {
        let is_in = |values: &[Box<str>]| values.binary_search_by(|there| (**there).cmp(value)).is_ok();
        self.allowed.as_deref().is_none_or(is_in) && !is_in(&self.banned) && self.bounds.as_ref().is_none_or(|bounds| bounds.hold(value))
    }
}

impl Bounds {
    fn hold(&self, value: &str) -> bool {
        let fits = |number: i64| self.above.is_none_or(|above| above < number) && self.below.is_none_or(|below| number < below);
        value.parse().is_ok_and(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Selector;
    use std::cell::Cell;

    /// Labels that count their lookups.
    struct Counted {
        labels: BTreeMap<String, String>,
        lookups: Cell<usize>,
    }

    impl LabelSource for Counted {
        fn count(&self) -> usize {
            self.labels.len()
        }

        fn get(&self, key: &str) -> Option<&str> {
            self.lookups.set(self.lookups.get() + 1);
            LabelSource::get(&self.labels, key)
        }

        fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
            self.labels.pairs().inspect(|_| self.lookups.set(self.lookups.get() + 1))
        }
    }

    #[test]
    fn an_object_is_searched_once_however_many_requirements_there_are() {
        let lookups = |selector: &str, labels: usize| {
            let labels = (0..labels).map(|at| (format!("l{at}"), "v".to_owned())).collect();
            let object = Counted { labels, lookups: Cell::new(0) };
            assert!(Selector::parse(selector).expect("valid").matches(&object));
            object.lookups.get()
        };
        let many = |one: fn(usize) -> String| (0..3500).map(one).collect::<Vec<_>>().join(",");
        assert_eq!(lookups(&many(|at| format!("!k{at}")), 3), 3);
        assert_eq!(lookups(&many(|at| format!("k{at}!=v,l1")), 3), 3);
        assert_eq!(lookups(&many(|at| format!("l1!=v{at}")), 3), 1, "of one label");
        assert_eq!(lookups("l1", 5000), 1, "nor does one requirement look at every label");
    }
}
