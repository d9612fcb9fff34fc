//! The annotations in which a Deployment records data about ReplicaSets.

use berth_api::{
    Path,
    annotations::{
        BERTH_ANALYSIS, BERTH_ANALYSIS_PROVIDER, BERTH_ANALYSIS_QUERY, BERTH_AUTO_ROLLBACK, BERTH_CHANGED_BY, BERTH_COMPLETED_AT,
        BERTH_COMPLETED_REVISION, BERTH_DELETED_POD_REPLACEMENT_POLICY, BERTH_POD_REPLACEMENT_POLICY, BERTH_PROMOTED, BERTH_PROMOTED_BY,
        BERTH_ROLLBACK, BERTH_ROLLED_BACK_TEMPLATES, BERTH_ROLLOUT, BERTH_SCALED_BY, BERTH_STEP, BERTH_STEPS,
    },
    apps::{
        analysis::{validate_provider, validate_query},
        steps,
    },
};
use berth_identity::RolloutRevision;
use std::collections::BTreeMap;

/// Annotations of an object.
pub type Annotations = BTreeMap<String, String>;

/// The number of the rollout, on ReplicaSets and on the Deployment.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier numbers of a ReplicaSet, oldest first, separated by commas.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// `spec.replicas` of the Deployment when the ReplicaSet was last sized.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The maximum number of the Deployment's pods when the ReplicaSet was last sized.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// The size of a ReplicaSet when an unfinished scaling began (KEP-5882).
pub const REPLICAS_BEFORE_SCALE: &str = "deployment.kubernetes.io/replicaset-replicas-before-scale";
/// Requests a rollback to a revision. Deprecated upstream.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// The configuration that `kubectl apply` applied last.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotations that every set copies from its Deployment, old sets too. `kubectl rollout undo` copies the annotations of the target set,
/// and would change a policy otherwise.
pub const POLICIES: [&str; 6] = [
    BERTH_POD_REPLACEMENT_POLICY,
    BERTH_DELETED_POD_REPLACEMENT_POLICY,
    BERTH_AUTO_ROLLBACK,
    BERTH_STEPS,
    BERTH_ANALYSIS_PROVIDER,
    BERTH_ANALYSIS_QUERY,
];
/// Annotations about single rollouts: the controller's record of automatic rollbacks (which it places itself), the promoted wait, and the
/// authors of changes. The latter go into a set's own record when its rollout begins.
const OF_ROLLOUTS: [&str; 6] =
    [BERTH_ROLLBACK, BERTH_ROLLED_BACK_TEMPLATES, BERTH_PROMOTED, BERTH_PROMOTED_BY, BERTH_CHANGED_BY, BERTH_SCALED_BY];
/// Annotations about a set's own rollouts. They have no meaning on a Deployment: one that `kubectl rollout undo` left there must not reach
/// another set.
const OF_SETS: [&str; 5] = [BERTH_COMPLETED_REVISION, BERTH_COMPLETED_AT, BERTH_STEP, BERTH_ANALYSIS, BERTH_ROLLOUT];

/// Longest [`REVISION_HISTORY`].
pub const REVISION_HISTORY_CHARS_MAX: usize = 2000;

/// Whether berth manages the annotation `replicaset-replicas-before-scale`: reads it, writes it and does not copy it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeforeScale {
    /// Both gates of `podReplacementPolicy` are on.
    Managed,
    /// It is treated like any other annotation.
    Ignored,
}

/// Whether an annotation is neither copied to a ReplicaSet nor restored from one by a rollback.
#[must_use]
pub fn is_skipped(key: &str, before_scale: BeforeScale) -> bool {
    match key {
        REPLICAS_BEFORE_SCALE => before_scale == BeforeScale::Managed,
        _ => {
            [LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO].contains(&key)
                || [&POLICIES[..], &OF_ROLLOUTS, &OF_SETS].iter().any(|keys| keys.contains(&key))
        }
    }
}

/// The Deployment's annotations after a rollback to a ReplicaSet: the ReplicaSet's, but the Deployment's for skipped keys.
/// [`REPLICAS_BEFORE_SCALE`], where it is managed, and the records of a set's rollouts belong on ReplicaSets only. The Deployment does not
/// keep them either.
#[must_use]
pub fn after_rollback(deployment: &Annotations, set: &Annotations, before_scale: BeforeScale) -> Annotations {
    let skipped = |key: &str| is_skipped(key, before_scale);
    let of_sets_alone = |key: &str| key == REPLICAS_BEFORE_SCALE && before_scale == BeforeScale::Managed || OF_SETS.contains(&key);
    let kept = deployment.iter().filter(|(key, _)| skipped(key) && !of_sets_alone(key));
    let taken = set.iter().filter(|(key, _)| !skipped(key));
    kept.chain(taken).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The Deployment's valid value of one of [`POLICIES`], for its sets.
#[must_use]
pub fn policy<'a>(deployment: &'a Annotations, key: &str) -> Option<&'a String> {
    let text = deployment.get(key)?;
    let is_known = match key {
        BERTH_AUTO_ROLLBACK => text == "OnDeadline",
        BERTH_STEPS => steps::parse(text).is_ok(),
        BERTH_ANALYSIS_PROVIDER => validate_provider(text, &Path::new(key)).is_none(),
        BERTH_ANALYSIS_QUERY => validate_query(text, &Path::new(key)).is_none(),
        _ => ["TerminationStarted", "TerminationComplete"].contains(&text.as_str()),
    };
    is_known.then_some(text)
}

/// A number of pods in an annotation: decimal digits only, at most 2³¹-1. Any other text counts as absent.
#[must_use]
pub fn pod_count(text: Option<&str>) -> Option<i64> {
    let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse::<i32>().ok().map(i64::from)
}

/// A number of pods in the annotation `key`.
#[must_use]
pub fn pod_count_in(annotations: &Annotations, key: &str) -> Option<i64> {
    pod_count(annotations.get(key).map(String::as_str))
}

/// The revision in an annotation. `None` if it is missing or not a number.
#[must_use]
pub fn revision(annotations: &Annotations) -> Option<RolloutRevision> {
    annotations.get(REVISION)?.parse().ok()
}

/// Whether a set is numbered. A set whose revision is not a number keeps its annotations.
#[must_use]
pub fn is_numbered(annotations: &Annotations) -> bool {
    annotations.get(REVISION).is_none_or(|text| text.is_empty() || text.parse::<i64>().is_ok())
}

/// Raises the revision to `to` and appends the former one to the history, whose oldest entries are dropped above `chars_max`. Changes
/// nothing if the revision is as high already or is not a number.
pub fn raise_revision(annotations: &mut Annotations, to: RolloutRevision, chars_max: usize) {
    let former = annotations.get(REVISION).filter(|text| !text.is_empty()).cloned();
    let former_number = former.as_deref().map_or(Some(RolloutRevision::UNSET), |text| text.parse().ok());
    if former_number.is_none_or(|number| number >= to) {
        return;
    }
    annotations.insert(REVISION.to_owned(), to.to_string());
    let Some(former) = former else { return };
    let history = annotations.get(REVISION_HISTORY).map(String::as_str).unwrap_or_default();
    if let Some(history) = append_history(history, &former, chars_max) {
        annotations.insert(REVISION_HISTORY.to_owned(), history);
    }
}

/// Returns `None` if the new entry alone is too long. The first entry is always accepted.
fn append_history(history: &str, entry: &str, chars_max: usize) -> Option<String> {
    if history.is_empty() {
        return Some(entry.to_owned());
    }
    let mut rest = Some(history);
    while let Some(kept) = rest {
        if kept.len() + 1 + entry.len() <= chars_max {
            return Some(format!("{kept},{entry}"));
        }
        rest = kept.split_once(',').map(|(_, younger)| younger);
    }
    (entry.len() <= chars_max).then(|| entry.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations<const N: usize>(pairs: [(&str, &str); N]) -> Annotations {
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn a_rollback_takes_over_what_is_not_about_the_rollout_itself() {
        let deployment = annotations([(REVISION, "5"), (LAST_APPLIED, "{}"), (REPLICAS_BEFORE_SCALE, "1"), ("team", "a"), ("gone", "1")]);
        let set = annotations([(REVISION, "2"), (DESIRED_REPLICAS, "3"), (REPLICAS_BEFORE_SCALE, "7"), ("team", "b"), ("more", "1")]);
        let taken = annotations([(REVISION, "5"), (LAST_APPLIED, "{}"), ("team", "b"), ("more", "1")]);
        assert_eq!(after_rollback(&deployment, &set, BeforeScale::Managed), taken);
        let mut like_any_other = taken;
        like_any_other.insert(REPLICAS_BEFORE_SCALE.to_owned(), "7".to_owned());
        assert_eq!(after_rollback(&deployment, &set, BeforeScale::Ignored), like_any_other);
    }

    #[test]
    fn records_stay_where_they_are() {
        let deployment = annotations([(BERTH_CHANGED_BY, "new"), (BERTH_SCALED_BY, "new"), (BERTH_ROLLOUT, "left there by kubectl")]);
        let set = annotations([(BERTH_CHANGED_BY, "old"), (BERTH_ROLLOUT, "its own")]);
        let kept = annotations([(BERTH_CHANGED_BY, "new"), (BERTH_SCALED_BY, "new")]);
        assert_eq!(after_rollback(&deployment, &set, BeforeScale::Managed), kept);
        assert!(berth_api::annotations::RECORDS.iter().all(|key| is_skipped(key, BeforeScale::Ignored)));
    }

    #[test]
    fn sets_get_valid_policies_and_no_others() {
        for (key, good, bad) in [
            (BERTH_AUTO_ROLLBACK, "OnDeadline", "Always"),
            (BERTH_STEPS, "10%, 5m, 50%, pause, 100%", "10 of them"),
            (BERTH_ANALYSIS_PROVIDER, "prod", "no name"),
            (BERTH_ANALYSIS_QUERY, "up", ""),
            (BERTH_POD_REPLACEMENT_POLICY, "TerminationComplete", "OnDeadline"),
        ] {
            let of = |text: &str| policy(&annotations([(key, text)]), key).cloned();
            assert_eq!((of(good).as_deref(), of(bad)), (Some(good), None), "{key}");
            assert_eq!(policy(&Annotations::new(), key), None, "{key}");
        }
    }

    #[test]
    fn a_set_is_numbered_unless_its_revision_is_no_number() {
        let is = |text: &str| is_numbered(&annotations([(REVISION, text)]));
        assert_eq!((["3", "-1", ""].map(is), ["x", "3a", " "].map(is)), ([true; 3], [false; 3]));
        assert!(is_numbered(&Annotations::new()));
    }

    #[test]
    fn the_history_is_cut_where_it_would_be_longer_than_it_may() {
        let history = |chars_max: usize| {
            let mut annotations = annotations([(REVISION, "3"), (REVISION_HISTORY, "1,2")]);
            raise_revision(&mut annotations, RolloutRevision(4), chars_max);
            annotations.remove(REVISION_HISTORY)
        };
        assert_eq!([history(5), history(4), history(3), history(1)].map(|text| text.expect("a history")), ["1,2,3", "2,3", "2,3", "3"]);
    }
}
