//! A cache of template comparisons. The page is rendered several times a second and compares the same revisions each
//! time. Without the cache, the comparisons cost more than the rest of the page.

use crate::difference::differences;
use berth_identity::Uid;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

/// The maximum number of cached comparisons: three pages of twenty revisions.
const KEPT_MAX: usize = 64;
/// The maximum number of lines per comparison. Further lines are only counted.
const LINES_MAX: usize = 60;

/// The differences between two templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// The first differences, one per line.
    pub lines: Vec<String>,
    /// The number of differences.
    pub count: usize,
}

/// A template, and the object that contains it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept<'a> {
    pub(crate) keeper: &'a Uid,
    pub(crate) template: &'a Arc<PodTemplateSpec>,
}

/// All cached comparisons, by the uids of their objects.
#[derive(Debug, Default)]
pub(crate) struct Comparisons(RwLock<BTreeMap<(Uid, Uid), Comparison>>);

#[derive(Clone, Debug)]
struct Comparison {
    of: (Arc<PodTemplateSpec>, Arc<PodTemplateSpec>),
    found: Arc<Compared>,
}

impl Comparisons {
    /// Returns how the second template differs from the first. The result is cached while both templates are the same.
    /// A changed object has a new allocation of an equal template, so pointers alone do not suffice.
    pub(crate) fn between(&self, from: Kept<'_>, to: Kept<'_>) -> Arc<Compared> {
        self.found_by(from, to, compare)
    }

    fn found_by(
        &self,
        from: Kept<'_>,
        to: Kept<'_>,
        compare: impl FnOnce(&PodTemplateSpec, &PodTemplateSpec) -> Compared,
    ) -> Arc<Compared> {
        let place = (from.keeper.clone(), to.keeper.clone());
        let is_same = |one: &Arc<PodTemplateSpec>, other: &Arc<PodTemplateSpec>| Arc::ptr_eq(one, other) || one == other;
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&place).cloned();
        let known = known.filter(|known| is_same(&known.of.0, from.template) && is_same(&known.of.1, to.template));
        let has_pointers = |known: &Comparison| Arc::ptr_eq(&known.of.0, from.template) && Arc::ptr_eq(&known.of.1, to.template);
        let found = match known {
            Some(known) if has_pointers(&known) => return known.found,
            Some(known) => known.found,
            None => Arc::new(compare(from.template, to.template)),
        };
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // The cache does not know which comparisons are still in use.
        if KEPT_MAX <= all.len() && !all.contains_key(&place) {
            all.clear();
        }
        let of = (Arc::clone(from.template), Arc::clone(to.template));
        all.insert(place, Comparison { of, found: Arc::clone(&found) });
        found
    }
}

fn compare(from: &PodTemplateSpec, to: &PodTemplateSpec) -> Compared {
    let all = differences(&value(from), &value(to));
    Compared { count: all.len(), lines: all.iter().take(LINES_MAX).map(ToString::to_string).collect() }
}

/// Returns the template as JSON, without the labels that a controller adds to distinguish its pods.
fn value(template: &PodTemplateSpec) -> Value {
    let mut value = serde_json::to_value(template).unwrap_or_default();
    if let Some(labels) = value.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove("pod-template-hash");
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::cell::Cell;

    fn template(image: &str, hash: &str) -> Arc<PodTemplateSpec> {
        let value = json!({
            "metadata": {"labels": {"app": "web", "pod-template-hash": hash}},
            "spec": {"containers": [{"name": "main", "image": image}]},
        });
        Arc::new(serde_json::from_value(value).expect("a template"))
    }

    #[test]
    fn what_was_compared_is_not_compared_again_until_it_is_another() {
        let (comparisons, times) = (Comparisons::default(), Cell::new(0));
        let (from, to) = (Uid::from("a"), Uid::from("b"));
        let ask = |old: &Arc<PodTemplateSpec>, new: &Arc<PodTemplateSpec>| {
            let (from, to) = (Kept { keeper: &from, template: old }, Kept { keeper: &to, template: new });
            let found = comparisons.found_by(from, to, |old, new| {
                times.set(times.get() + 1);
                compare(old, new)
            });
            (found.lines.clone(), times.get())
        };
        let (old, new) = (template("web:1", "a"), template("web:2", "b"));
        let lines = |image: &str| vec![format!("  spec.containers[main].image: web:1 -> {image}")];
        assert_eq!(ask(&old, &new), (lines("web:2"), 1), "the label of a controller is no difference");
        assert_eq!(ask(&old, &new), (lines("web:2"), 1), "the very same");
        assert_eq!(ask(&old, &template("web:2", "b")), (lines("web:2"), 1), "read anew, and the same");
        assert_eq!(ask(&old, &template("web:3", "b")), (lines("web:3"), 2), "another writer has changed it in place");
        assert_eq!(ask(&old, &new), (lines("web:2"), 3));
    }

    #[test]
    fn few_comparisons_and_few_lines_are_kept() {
        let comparisons = Comparisons::default();
        let (old, new) = (template("web:1", "a"), template("web:2", "b"));
        for number in 0..1000 {
            let (from, to) = (Uid::from(number.to_string()), Uid::from("newest"));
            comparisons.between(Kept { keeper: &from, template: &old }, Kept { keeper: &to, template: &new });
            assert!(comparisons.0.read().expect("whole").len() <= KEPT_MAX);
        }
        let noted = |count: usize| {
            let mut template = (*new).clone();
            let annotations = (0..count).map(|number| (format!("example.com/{number}"), "x".to_owned()));
            template.metadata.get_or_insert_default().annotations = Some(annotations.collect());
            Arc::new(template)
        };
        let (from, to) = (Uid::from("one"), Uid::from("many"));
        let found = comparisons.between(Kept { keeper: &from, template: &noted(1) }, Kept { keeper: &to, template: &noted(1001) });
        assert_eq!((found.lines.len(), found.count), (LINES_MAX, 1000));
    }
}
