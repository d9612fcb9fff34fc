//! The times and exit codes of a container's runs: `completes-after`, `exit-code`, `fails-first`.

use super::spread::Spread;
use crate::annotations::{SIM_COMPLETES_AFTER, SIM_EXIT_CODE, SIM_FAILS_FIRST};
use std::{collections::BTreeMap, time::Duration};

/// The duration of a run that ends and has no `completes-after`.
pub const USUAL_RUN: Duration = Duration::from_secs(1);

/// The end of a run: `sim.berth.dev/completes-after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The run ends this long after its start.
    After(Spread),
    /// The run never ends.
    Never,
}

impl Completion {
    /// Parses the annotation's value: a duration, a range or `never`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "never" { Some(Self::Never) } else { Spread::parse(text).map(Self::After) }
    }
}

/// The settings for the runs of one container. An unset member has no annotation, or one with an invalid value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// The end of a run.
    pub completes: Option<Completion>,
    /// The exit code of the first, failing runs if there are some, otherwise of all runs.
    pub exit_code: Option<u8>,
    /// The number of runs that fail first.
    pub fails_first: Option<u32>,
}

impl Course {
    fn of(annotations: &BTreeMap<String, String>, key_of: impl Fn(&str) -> String) -> Self {
        let value = |key: &str| annotations.get(&key_of(key));
        Self {
            completes: value(SIM_COMPLETES_AFTER).and_then(|text| Completion::parse(text)),
            exit_code: value(SIM_EXIT_CODE).and_then(|text| text.parse().ok()),
            fails_first: value(SIM_FAILS_FIRST).and_then(|text| text.parse().ok()),
        }
    }

    /// Returns the members of `self`, with those of `other` for unset ones.
    fn or(self, other: Self) -> Self {
        Self {
            completes: self.completes.or(other.completes),
            exit_code: self.exit_code.or(other.exit_code),
            fails_first: self.fails_first.or(other.fails_first),
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The settings of all containers of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Courses {
    of_all: Course,
    by_name: BTreeMap<String, Course>,
}

impl Courses {
    /// Returns the settings in a pod's annotations, or `None` without such annotations.
    #[must_use]
    pub fn of_pod(annotations: &BTreeMap<String, String>) -> Option<Self> {
        let keys = [SIM_COMPLETES_AFTER, SIM_EXIT_CODE, SIM_FAILS_FIRST];
        let name = |key: &String| keys.iter().find_map(|base| Some(key.strip_prefix(base)?.strip_prefix('.')?.to_owned()));
        let names = annotations.keys().filter_map(name);
        let by_name = names.map(|name| (name.clone(), Course::of(annotations, |key| format!("{key}.{name}"))));
        let courses =
            Self { of_all: Course::of(annotations, str::to_owned), by_name: by_name.filter(|(_, course)| !course.is_empty()).collect() };
        (courses != Self::default()).then_some(courses)
    }

    /// Returns the settings of a container: those with its name, otherwise those for all containers.
    #[must_use]
    pub fn of_container(&self, name: &str) -> Course {
        self.of_init_container(name).or(self.of_all)
    }

    /// Returns the settings of an init container or sidecar: only those with its name.
    #[must_use]
    pub fn of_init_container(&self, name: &str) -> Course {
        self.by_name.get(name).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn courses(annotations: &[(&str, &str)]) -> Option<Courses> {
        let annotations = annotations.iter().map(|(key, value)| (format!("sim.berth.dev/{key}"), (*value).to_owned())).collect();
        Courses::of_pod(&annotations)
    }

    #[test]
    fn a_named_container_has_its_own_course_and_the_rest_of_the_pods() {
        let found = courses(&[("completes-after", "2s"), ("exit-code.b", "3"), ("fails-first", "1"), ("fails-first.b", "0")]);
        let found = found.expect("it has annotations");
        let after = Some(Completion::After(Spread::parse("2s").expect("a duration")));
        assert_eq!(found.of_container("a"), Course { completes: after, exit_code: None, fails_first: Some(1) });
        assert_eq!(found.of_container("b"), Course { completes: after, exit_code: Some(3), fails_first: Some(0) });
        assert_eq!(found.of_init_container("a"), Course::default());
        assert_eq!(found.of_init_container("b"), Course { completes: None, exit_code: Some(3), fails_first: Some(0) });
    }

    #[test]
    fn what_specifies_nothing_is_not_kept() {
        assert_eq!(courses(&[("ready-after", "2s"), ("exit-code", "256"), ("exit-code.a", "-1"), ("fails-first", "x")]), None);
        let never = courses(&[("completes-after.a", "never")]).expect("one is valid");
        assert_eq!(never.of_container("a").completes, Some(Completion::Never));
    }
}
