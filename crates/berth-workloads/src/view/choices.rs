//! The choices of a workload's owner, parsed from the spec and from berth's annotations. Plans decide by their gates whether a choice
//! counts.

use berth_api::{
    annotations::{
        BERTH_AUTO_ROLLBACK, BERTH_POD_REPLACEMENT_POLICY, BERTH_PROGRESS_DEADLINE_SECONDS, BERTH_REPAIR, BERTH_STEPS,
        BERTH_UPDATE_STRATEGY,
    },
    apps::{
        DeploymentSpec, StatefulSetSpec,
        stateful_set::{ON_DELETE, PARALLEL, RECREATE, ROLLING_UPDATE},
        steps::{self, Step, StepsError},
    },
};
use jiff::SignedDuration;
use std::collections::BTreeMap;

/// A text that names none of the choices. Another version may have such a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownChoice(pub String);

/// The choices of a Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentChoices {
    /// `spec.strategy.type`.
    pub strategy: Result<DeploymentStrategy, UnknownChoice>,
    /// `spec.podReplacementPolicy`, otherwise berth's annotation.
    pub policy: Result<PodReplacementPolicy, UnknownChoice>,
    /// berth's annotation.
    pub auto_rollback: Result<AutoRollback, UnknownChoice>,
    /// berth's annotation with the steps of a rollout. Without steps, a template is rolled out at once. An error is an invalid text.
    pub steps: Result<Vec<Step>, StepsError>,
}

/// When a failed template is rolled back to a complete one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoRollback {
    /// Only on request.
    #[default]
    Never,
    /// When its rollout misses the progress deadline.
    OnDeadline,
}

impl AutoRollback {
    fn of(annotations: &BTreeMap<String, String>) -> Result<Self, UnknownChoice> {
        match annotations.get(BERTH_AUTO_ROLLBACK).map(String::as_str) {
            None => Ok(Self::Never),
            Some("OnDeadline") => Ok(Self::OnDeadline),
            Some(other) => Err(UnknownChoice(other.to_owned())),
        }
    }
}

/// How a Deployment replaces its pods of an older template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeploymentStrategy {
    /// Step by step, within limits.
    #[default]
    RollingUpdate,
    /// All are deleted before the first new one is created.
    Recreate,
}

/// When replacement pods are created (KEP-5882).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodReplacementPolicy {
    /// As upstream without the field: Recreate waits during a rollout but not during scaling, and RollingUpdate never waits.
    #[default]
    Unset,
    /// When the former pods are terminating.
    TerminationStarted,
    /// When the former pods are deleted.
    TerminationComplete,
}

impl PodReplacementPolicy {
    fn parse(text: &str) -> Result<Self, UnknownChoice> {
        match text {
            "TerminationStarted" => Ok(Self::TerminationStarted),
            "TerminationComplete" => Ok(Self::TerminationComplete),
            other => Err(UnknownChoice(other.to_owned())),
        }
    }

    /// Parses an annotation. An unknown text counts as unset.
    pub(super) fn of_annotation(annotations: &BTreeMap<String, String>, key: &str) -> Self {
        annotations.get(key).and_then(|text| Self::parse(text).ok()).unwrap_or_default()
    }
}

impl DeploymentChoices {
    pub(super) fn of(spec: &DeploymentSpec, annotations: &BTreeMap<String, String>) -> Self {
        let policy = spec.pod_replacement_policy.as_ref().or(annotations.get(BERTH_POD_REPLACEMENT_POLICY));
        Self {
            strategy: match spec.strategy.type_.as_str() {
                "RollingUpdate" | "" => Ok(DeploymentStrategy::RollingUpdate),
                "Recreate" => Ok(DeploymentStrategy::Recreate),
                other => Err(UnknownChoice(other.to_owned())),
            },
            policy: policy.map_or(Ok(PodReplacementPolicy::Unset), |text| PodReplacementPolicy::parse(text)),
            auto_rollback: AutoRollback::of(annotations),
            steps: annotations.get(BERTH_STEPS).map_or(Ok(Vec::new()), |text| steps::parse(text)),
        }
    }
}

impl Default for DeploymentChoices {
    fn default() -> Self {
        Self {
            strategy: Ok(DeploymentStrategy::default()),
            policy: Ok(PodReplacementPolicy::default()),
            auto_rollback: Ok(AutoRollback::default()),
            steps: Ok(Vec::new()),
        }
    }
}

/// The choices of a StatefulSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatefulSetChoices {
    /// `spec.updateStrategy.type`, and berth's annotation.
    pub strategy: UpdateStrategy,
    /// `spec.podManagementPolicy`.
    pub management: PodManagement,
    /// Whether berth's annotation requests the deletion of unready pods of older revisions that block a rolling update.
    pub repairs: bool,
    /// `spec.persistentVolumeClaimRetentionPolicy`.
    pub retention: Retention,
    /// berth's annotation. An unknown text counts as unset.
    pub auto_rollback: AutoRollback,
    /// How long an update may make no progress, from berth's annotation. A text that is not a number of seconds counts as unset.
    pub progress_deadline: Option<SignedDuration>,
}

/// How a StatefulSet's pods of an older template are replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdateStrategy {
    /// One after the other.
    #[default]
    RollingUpdate,
    /// When a user deletes them. Also the meaning of an unknown text.
    OnDelete,
    /// All are deleted before the first new one is created (KEP-3541).
    Recreate,
    /// Recreate for controllers that support berth's annotation, and OnDelete for all others.
    RecreateByAnnotation,
}

/// The order in which a StatefulSet's pods are created and deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodManagement {
    /// One after the other.
    #[default]
    OrderedReady,
    /// All at once.
    Parallel,
}

/// The retention of a StatefulSet's claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// When the set no longer has their ordinal.
    pub when_scaled: RetentionPolicy,
    /// When the set is deleted.
    pub when_deleted: RetentionPolicy,
}

/// What happens to a claim that is no longer needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetentionPolicy {
    /// It remains.
    #[default]
    Retain,
    /// It is deleted.
    Delete,
}

impl UpdateStrategy {
    fn parse(text: &str, annotation: Option<&String>) -> Self {
        match text {
            ROLLING_UPDATE | "" => Self::RollingUpdate,
            RECREATE => Self::Recreate,
            ON_DELETE if annotation.is_some_and(|text| text == RECREATE) => Self::RecreateByAnnotation,
            _ => Self::OnDelete,
        }
    }

    /// Whether Recreate is requested, by the field or by the annotation.
    #[must_use]
    pub fn asks_for_recreate(self) -> bool {
        matches!(self, Self::Recreate | Self::RecreateByAnnotation)
    }
}

impl StatefulSetChoices {
    pub(super) fn of(spec: &StatefulSetSpec, annotations: &BTreeMap<String, String>) -> Self {
        let retention = spec.persistent_volume_claim_retention_policy.as_ref();
        let policy = |text: Option<&String>| match text.map(String::as_str) {
            Some("Delete") => RetentionPolicy::Delete,
            _ => RetentionPolicy::Retain,
        };
        Self {
            strategy: UpdateStrategy::parse(&spec.update_strategy.type_, annotations.get(BERTH_UPDATE_STRATEGY)),
            management: if spec.pod_management_policy == PARALLEL { PodManagement::Parallel } else { PodManagement::OrderedReady },
            repairs: annotations.get(BERTH_REPAIR).is_some_and(|text| text == "Revision"),
            auto_rollback: AutoRollback::of(annotations).unwrap_or_default(),
            progress_deadline: deadline(annotations),
            retention: Retention {
                when_scaled: policy(retention.and_then(|retention| retention.when_scaled.as_ref())),
                when_deleted: policy(retention.and_then(|retention| retention.when_deleted.as_ref())),
            },
        }
    }
}

fn deadline(annotations: &BTreeMap<String, String>) -> Option<SignedDuration> {
    let seconds = annotations.get(BERTH_PROGRESS_DEADLINE_SECONDS)?.parse::<i32>().ok()?;
    (seconds > 0).then(|| SignedDuration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn annotations(json: &Value) -> BTreeMap<String, String> {
        serde_json::from_value(json.clone()).expect("annotations")
    }

    #[test]
    fn the_field_decides_before_the_annotation() {
        let check = |spec: Value, annotation: Value, wanted: Result<PodReplacementPolicy, &str>| {
            let spec: DeploymentSpec = serde_json::from_value(spec).expect("a spec");
            let choices = DeploymentChoices::of(&spec, &annotations(&annotation));
            assert_eq!(choices.policy, wanted.map_err(|text| UnknownChoice(text.to_owned())), "{annotation}");
        };
        let complete = || json!({BERTH_POD_REPLACEMENT_POLICY: "TerminationComplete"});
        check(json!({}), json!({}), Ok(PodReplacementPolicy::Unset));
        check(json!({}), complete(), Ok(PodReplacementPolicy::TerminationComplete));
        check(json!({"podReplacementPolicy": "TerminationStarted"}), complete(), Ok(PodReplacementPolicy::TerminationStarted));
        check(json!({}), json!({BERTH_POD_REPLACEMENT_POLICY: "Whenever"}), Err("Whenever"));
    }

    #[test]
    fn the_annotation_makes_recreate_of_on_delete_alone() {
        let check = |type_: &str, annotation: Option<&str>, wanted: UpdateStrategy| {
            let annotation = annotation.map(str::to_owned);
            assert_eq!(UpdateStrategy::parse(type_, annotation.as_ref()), wanted, "{type_} {annotation:?}");
        };
        check("", Some(RECREATE), UpdateStrategy::RollingUpdate);
        check(ROLLING_UPDATE, Some(RECREATE), UpdateStrategy::RollingUpdate);
        check(RECREATE, None, UpdateStrategy::Recreate);
        check(ON_DELETE, Some(RECREATE), UpdateStrategy::RecreateByAnnotation);
        check(ON_DELETE, Some("Recreates"), UpdateStrategy::OnDelete);
        check(ON_DELETE, None, UpdateStrategy::OnDelete);
        let asks =
            [UpdateStrategy::Recreate, UpdateStrategy::RecreateByAnnotation, UpdateStrategy::OnDelete, UpdateStrategy::RollingUpdate];
        assert_eq!(asks.map(UpdateStrategy::asks_for_recreate), [true, true, false, false]);
    }
}
