//! Warnings about `berth.dev/…` annotations without effect: misspelled ones, and those of another kind.
//!
//! They only cause warnings, because objects of another cluster, or of another version of berth, must be storable.

use crate::{
    Path,
    annotations::{
        BERTH_ANALYSIS, BERTH_ANALYSIS_PROVIDER, BERTH_ANALYSIS_QUERY, BERTH_AUTO_ROLLBACK, BERTH_CHANGED_BY, BERTH_COMPLETED_AT,
        BERTH_COMPLETED_REVISION, BERTH_DELETED_POD_REPLACEMENT_POLICY, BERTH_GIVEN_BACK, BERTH_NODE_LABELS, BERTH_POD_REPLACEMENT_POLICY,
        BERTH_PROGRESS, BERTH_PROGRESS_DEADLINE_SECONDS, BERTH_PROMOTED, BERTH_PROMOTED_BY, BERTH_REPAIR, BERTH_ROLLBACK,
        BERTH_ROLLED_BACK_TEMPLATES, BERTH_ROLLOUT, BERTH_SCALED_BY, BERTH_STEP, BERTH_STEPS, BERTH_UPDATE_STRATEGY, BERTH_WHEN_SCALED,
        CONTENT_ID, CONTENT_IDS,
    },
    unset::entries,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

/// The prefix of these annotations.
const PREFIX: &str = "berth.dev/";

/// The annotations that users write on a Deployment.
const OF_DEPLOYMENTS: [&str; 7] = [
    BERTH_POD_REPLACEMENT_POLICY,
    BERTH_DELETED_POD_REPLACEMENT_POLICY,
    BERTH_AUTO_ROLLBACK,
    BERTH_STEPS,
    BERTH_PROMOTED,
    BERTH_ANALYSIS_PROVIDER,
    BERTH_ANALYSIS_QUERY,
];

/// The annotations that users write on a StatefulSet.
const OF_STATEFUL_SETS: [&str; 4] = [BERTH_UPDATE_STRATEGY, BERTH_REPAIR, BERTH_AUTO_ROLLBACK, BERTH_PROGRESS_DEADLINE_SECONDS];

/// The annotations that users write on a ReplicaSet.
const OF_REPLICA_SETS: [&str; 2] = [BERTH_POD_REPLACEMENT_POLICY, BERTH_DELETED_POD_REPLACEMENT_POLICY];

/// The annotations that berth writes, on the kinds that need them. A rollback by kubectl copies some of them to other
/// objects.
const WRITTEN_BY_BERTH: [&str; 16] = [
    BERTH_STEP,
    BERTH_ANALYSIS,
    BERTH_ROLLBACK,
    BERTH_ROLLED_BACK_TEMPLATES,
    BERTH_COMPLETED_REVISION,
    BERTH_COMPLETED_AT,
    BERTH_PROGRESS,
    BERTH_WHEN_SCALED,
    BERTH_CHANGED_BY,
    BERTH_SCALED_BY,
    BERTH_PROMOTED_BY,
    BERTH_ROLLOUT,
    BERTH_GIVEN_BACK,
    BERTH_NODE_LABELS,
    CONTENT_ID,
    CONTENT_IDS,
];

/// The maximum edit distance of a misspelled key.
const SLIPS_MAX: usize = 3;
/// The maximum length of a key for comparisons, whose cost depends on the length.
const KEY_BYTES_MAX: usize = 80;
/// The minimum length of a part of a name that identifies a key.
const PART_BYTES_MIN: usize = 4;

/// The object that has the annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bearer<'k> {
    /// An object of this kind.
    Object(&'k str),
    /// A workload's pod template.
    Template,
}

impl Bearer<'_> {
    /// Returns the annotations that users may write here.
    fn known(self) -> &'static [&'static str] {
        match self {
            Self::Object("Deployment") => &OF_DEPLOYMENTS,
            Self::Object("StatefulSet") => &OF_STATEFUL_SETS,
            Self::Object("ReplicaSet") => &OF_REPLICA_SETS,
            Self::Object(_) | Self::Template => &[],
        }
    }

    /// Whether controllers copy annotations of a workload here.
    fn has_copies(self) -> bool {
        matches!(self, Self::Object("ReplicaSet" | "ControllerRevision"))
    }
}

/// Returns the warnings about annotations without effect of an object of this kind.
#[must_use]
pub fn of_object(kind: &str, metadata: &ObjectMeta) -> Vec<String> {
    warnings(Bearer::Object(kind), metadata, &Path::new("metadata"))
}

/// Returns the warnings about annotations without effect of an object or a template. `path` is that of its metadata.
pub(crate) fn warnings(bearer: Bearer<'_>, metadata: &ObjectMeta, path: &Path) -> Vec<String> {
    let path = path.child("annotations");
    let Some(annotations) = &metadata.annotations else { return Vec::new() };
    let ours = entries(&metadata.annotations).map(|(key, _)| key).filter(|key| key.starts_with(PREFIX));
    ours.filter_map(|key| Some(format!("{}: {}", path.key(key), fault(bearer, key, annotations)?))).collect()
}

fn fault(bearer: Bearer<'_>, key: &str, annotations: &BTreeMap<String, String>) -> Option<String> {
    let known = bearer.known();
    if known.contains(&key) {
        return None;
    }
    if WRITTEN_BY_BERTH.contains(&key) {
        // `step` for `steps`.
        let meant = known.iter().find(|known| strsim::osa_distance(key, known) == 1 && !annotations.contains_key(**known))?;
        return Some(format!("has no effect here, and is for berth's controllers alone; did you mean {meant}?"));
    }
    if all().any(|setting| setting == key) {
        return match bearer {
            _ if bearer.has_copies() => None,
            Bearer::Template => Some("has no effect here; put it into metadata.annotations".to_owned()),
            Bearer::Object(kind) => Some(format!("has no effect on a {kind}")),
        };
    }
    let candidates: Vec<&str> = if known.is_empty() || bearer.has_copies() { all().collect() } else { known.to_vec() };
    let meant = nearest(key, &candidates).or_else(|| nearest(key, &all().collect::<Vec<_>>()));
    Some(match meant {
        Some(meant) => format!("unknown annotation is ignored; did you mean {meant}?"),
        None => format!("unknown annotation is ignored: known are {}", candidates.join(", ")),
    })
}

/// Returns all annotations that users write, each once.
fn all() -> impl Iterator<Item = &'static str> {
    let of_stateful_sets = OF_STATEFUL_SETS.into_iter().filter(|key| !OF_DEPLOYMENTS.contains(key));
    OF_DEPLOYMENTS.into_iter().chain(of_stateful_sets)
}

/// Returns the intended key: one with a small edit distance, or one that contains the name or is a part of it.
fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    if KEY_BYTES_MAX < key.len() {
        return None;
    }
    let written = name(key);
    let distance = |known: &str| strsim::osa_distance(&written, &name(known));
    let is_part = |known: &str| {
        let known = name(known);
        PART_BYTES_MIN <= written.len().min(known.len()) && (known.contains(&written) || written.contains(&known))
    };
    let near = known.iter().filter(|known| distance(known) <= SLIPS_MAX).min_by_key(|known| distance(known));
    near.or_else(|| known.iter().filter(|known| is_part(known)).min_by_key(|known| distance(known))).copied()
}

/// Returns the part after the prefix, in lower case.
fn name(key: &str) -> String {
    key.strip_prefix(PREFIX).unwrap_or(key).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bearer: Bearer<'_>, keys: &[&str], wanted: &[&str]) {
        let annotations = keys.iter().map(|key| ((*key).to_owned(), "x".to_owned())).collect();
        let metadata = ObjectMeta { annotations: Some(annotations), ..ObjectMeta::default() };
        assert_eq!(warnings(bearer, &metadata, &Path::new("metadata")), wanted, "{bearer:?} {keys:?}");
    }

    const DEPLOYMENT: Bearer<'_> = Bearer::Object("Deployment");
    const STATEFUL_SET: Bearer<'_> = Bearer::Object("StatefulSet");

    #[test]
    fn a_misspelled_key_is_named_with_the_one_that_was_meant() {
        for (bearer, key, meant) in [
            (STATEFUL_SET, "repairs", "repair"),
            (STATEFUL_SET, "Repair", "repair"),
            (STATEFUL_SET, "progress-deadline", "progress-deadline-seconds"),
            (STATEFUL_SET, "strategy", "update-strategy"),
            (DEPLOYMENT, "pod-replacement-polcy", "pod-replacement-policy"),
            (DEPLOYMENT, "podReplacementPolicy", "pod-replacement-policy"),
            (DEPLOYMENT, "replacement-policy", "pod-replacement-policy"),
            (DEPLOYMENT, "auto_rollback", "auto-rollback"),
            (DEPLOYMENT, "repairs", "repair"),
            (Bearer::Template, "autorollback", "auto-rollback"),
            (Bearer::Object("Service"), "stepps", "steps"),
            (Bearer::Object("ReplicaSet"), "stepps", "steps"),
        ] {
            let wanted = format!("metadata.annotations[berth.dev/{key}]: unknown annotation is ignored; did you mean berth.dev/{meant}?");
            check(bearer, &[&format!("berth.dev/{key}")], &[&wanted]);
        }
    }

    #[test]
    fn a_key_that_is_like_none_is_named_with_those_that_are_known() {
        let wanted = "metadata.annotations[berth.dev/colour]: unknown annotation is ignored: known are berth.dev/update-strategy, \
                      berth.dev/repair, berth.dev/auto-rollback, berth.dev/progress-deadline-seconds";
        check(STATEFUL_SET, &["berth.dev/colour"], &[wanted]);
        let long = format!("berth.dev/{}", "x".repeat(100_000));
        let metadata = ObjectMeta { annotations: Some([(long, String::new())].into()), ..ObjectMeta::default() };
        assert_eq!(warnings(STATEFUL_SET, &metadata, &Path::new("metadata")).len(), 1);
    }

    #[test]
    fn a_key_of_another_kind_is_reported_to_have_no_effect() {
        check(DEPLOYMENT, &["berth.dev/repair"], &["metadata.annotations[berth.dev/repair]: has no effect on a Deployment"]);
        check(Bearer::Object("Pod"), &["berth.dev/steps"], &["metadata.annotations[berth.dev/steps]: has no effect on a Pod"]);
        let beside = "metadata.annotations[berth.dev/steps]: has no effect here; put it into metadata.annotations";
        check(Bearer::Template, &["berth.dev/steps"], &[beside]);
        let own =
            "metadata.annotations[berth.dev/step]: has no effect here, and is for berth's controllers alone; did you mean berth.dev/steps?";
        check(DEPLOYMENT, &["berth.dev/step"], &[own]);
    }

    #[test]
    fn keys_that_are_known_and_those_of_others_are_not_warned_about() {
        check(DEPLOYMENT, &OF_DEPLOYMENTS, &[]);
        check(STATEFUL_SET, &OF_STATEFUL_SETS, &[]);
        check(DEPLOYMENT, &["berth.dev/step", "berth.dev/steps", "berth.dev/rollback"], &[]);
        check(Bearer::Object("ReplicaSet"), &[&OF_DEPLOYMENTS[..], &WRITTEN_BY_BERTH].concat(), &[]);
        check(Bearer::Object("Node"), &[BERTH_NODE_LABELS, "example.com/steps", "sim.berth.dev/fails"], &[]);
    }
}
