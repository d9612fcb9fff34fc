//! StatefulSet: types, defaults, what writes keep and drop.

mod claims;
mod validate;

use super::{choices, is_zero, misplaced_annotations, null_as_default, template_path};
use crate::{
    FeatureGates, FieldError, Gate, Kind, Path,
    annotations::{BERTH_AUTO_ROLLBACK, BERTH_PROGRESS_DEADLINE_SECONDS, BERTH_REPAIR, BERTH_UPDATE_STRATEGY},
    object::{GenerationRule, NameRule, Scaled, ScaledSelector},
    pod::{claim::claim_warnings, fill_template, template_warnings},
    unset::default_to,
};
use berth_identity::Generation;
use k8s_openapi::{
    api::{
        apps::v1::{StatefulSetCondition, StatefulSetOrdinals, StatefulSetPersistentVolumeClaimRetentionPolicy},
        core::v1::{PersistentVolumeClaim, PodTemplateSpec},
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pods with identities of their own (`apps/v1`).
#[derive(Clone, Debug, Default, PartialEq, JsonSchema)]
pub struct StatefulSet {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: StatefulSetSpec,
    /// What was last observed.
    pub status: StatefulSetStatus,
}

/// What a StatefulSet's owner wants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetSpec {
    /// How many pods; 1 if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Which pods belong to it. Required, immutable, must match the template's labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// The pods to run. A change starts an update.
    #[serde(default, deserialize_with = "null_as_default")]
    pub template: PodTemplateSpec,
    /// Claims that every pod gets one each of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_claim_templates: Option<Vec<PersistentVolumeClaim>>,
    /// The headless Service that gives the pods their host names.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub service_name: String,
    /// `OrderedReady` (default): one pod after the other; `Parallel`: all at once.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub pod_management_policy: String,
    /// How pods of an older template are replaced.
    #[serde(default, deserialize_with = "null_as_default")]
    pub update_strategy: StatefulSetUpdateStrategy,
    /// How many old revisions are kept for rollback; 10 if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// How long a pod must be ready before it counts as available.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub min_ready_seconds: i32,
    /// What becomes of claims when their pod or the set goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_retention_policy: Option<StatefulSetPersistentVolumeClaimRetentionPolicy>,
    /// Where the numbering of pods starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinals: Option<StatefulSetOrdinals>,
}

/// How a StatefulSet's pods of an older template are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetUpdateStrategy {
    /// `RollingUpdate` (default): one by one, highest ordinal first; `OnDelete`: when a user deletes them; `Recreate`:
    /// all are deleted at once and recreated after the last is deleted, which also repairs a broken rollout (KEP-3541).
    #[serde(rename = "type", default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["OnDelete", "Recreate", "RollingUpdate"]))]
    pub type_: String,
    /// Limits of a rolling update; only with `RollingUpdate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdateStatefulSet>,
}

/// Limits of a StatefulSet's rolling update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdateStatefulSet {
    /// Pods below this slot keep the old template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// How many pods may be missing: a number, or a percentage of `replicas` rounded down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
}

/// What was last observed of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetStatus {
    /// The generation that this status speaks of.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    #[schemars(with = "i64")]
    pub observed_generation: Generation,
    /// Pods that exist.
    #[serde(default, deserialize_with = "null_as_default")]
    pub replicas: i32,
    /// Those of them that are ready.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Those of the current revision.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub current_replicas: i32,
    /// Those of the update revision.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    /// The revision that the update started from.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub current_revision: String,
    /// The revision that the update leads to.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub update_revision: String,
    /// How often the name of a new revision was already taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// The state of the set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-patch-merge-key" = "type", "x-kubernetes-patch-strategy" = "merge"))]
    pub conditions: Option<Vec<StatefulSetCondition>>,
    /// Pods that have been ready for `minReadySeconds`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub available_replicas: i32,
}

apps_kind!(StatefulSet, StatefulSetSpec, StatefulSetStatus, "statefulsets", "StatefulSetList");

/// The strategy that replaces pods one by one; the default.
pub const ROLLING_UPDATE: &str = "RollingUpdate";
/// The strategy that updates pods only when a user deletes them.
pub const ON_DELETE: &str = "OnDelete";
/// The strategy that deletes all pods at once (KEP-3541).
pub const RECREATE: &str = "Recreate";
/// One pod after the other; the default.
pub const ORDERED_READY: &str = "OrderedReady";
/// All pods at once.
pub const PARALLEL: &str = "Parallel";

impl Kind for StatefulSet {
    const NAME_RULE: NameRule = NameRule::Label;
    const GENERATION_RULE: GenerationRule = GenerationRule::Spec;
    const HAS_STATUS: bool = true;

    fn set_defaults(&mut self) {
        let spec = &mut self.spec;
        spec.replicas.get_or_insert(1);
        spec.revision_history_limit.get_or_insert(10);
        if spec.pod_management_policy.is_empty() {
            ORDERED_READY.clone_into(&mut spec.pod_management_policy);
        }
        let retention = spec.persistent_volume_claim_retention_policy.get_or_insert_default();
        default_to(&mut retention.when_deleted, "Retain");
        default_to(&mut retention.when_scaled, "Retain");
        spec.update_strategy.set_defaults();
        if let Some(ordinals) = &mut spec.ordinals {
            ordinals.start.get_or_insert(0);
        }
        spec.volume_claim_templates.iter_mut().flatten().for_each(claims::set_defaults);
        fill_template(&mut spec.template);
    }

    fn prepare_create(&mut self, gates: &FeatureGates) {
        self.status = StatefulSetStatus::default();
        self.spec.update_strategy.prepare_max_unavailable(None, gates);
    }

    fn prepare_update(&mut self, old: &Self, gates: &FeatureGates) {
        self.status = old.status.clone();
        self.spec.update_strategy.drop_default_block();
        self.spec.update_strategy.prepare_max_unavailable(Some(&old.spec.update_strategy), gates);
    }

    fn prepare_status_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.spec = old.spec.clone();
    }

    fn validate(&self, gates: &FeatureGates) -> Vec<FieldError> {
        validate::create(self, gates)
    }

    fn validate_update(&self, old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        validate::update(self, old, gates)
    }

    fn validate_status_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        validate::status_update(self, old)
    }

    fn warnings(&self, old: Option<&Self>) -> Vec<String> {
        let mut warnings = misplaced_annotations(&self.metadata, old.map(|old| &old.metadata));
        if old.is_none_or(|old| self.spec_differs(old)) {
            warnings.extend(template_warnings(&self.spec.template, &template_path()));
            let claims = Path::new("spec").child("volumeClaimTemplates");
            for (index, claim) in self.spec.volume_claim_templates.iter().flatten().enumerate() {
                // The path without `spec` is upstream's.
                warnings.extend(claim.spec.iter().flat_map(|spec| claim_warnings(spec, &claims.index(index))));
            }
        }
        if old.is_none_or(|old| self.spec_differs(old) || self.metadata.annotations != old.metadata.annotations) {
            warnings.extend(self.idle_rollback());
            warnings.extend(self.idle_strategy());
        }
        if self.spec.revision_history_limit.is_some_and(i32::is_negative) {
            let advice = "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.push(format!("spec.revisionHistoryLimit: {advice}"));
        }
        warnings
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.spec != old.spec
    }

    fn scale(&self) -> Option<Scaled<'_>> {
        Some(Scaled {
            replicas: self.spec.replicas,
            current: self.status.replicas,
            selector: self.spec.selector.as_ref().map(ScaledSelector::Labels),
        })
    }

    fn set_replicas(&mut self, replicas: i32) {
        self.spec.replicas = Some(replicas);
    }
}

impl StatefulSet {
    /// Returns the warning that a rollback will have no or little effect.
    fn idle_rollback(&self) -> Option<String> {
        let value = |key| choices::value(&self.metadata, key);
        value(BERTH_AUTO_ROLLBACK)?;
        let recreates = match self.spec.update_strategy.type_.as_str() {
            RECREATE => true,
            ON_DELETE if value(BERTH_UPDATE_STRATEGY) == Some(RECREATE) => true,
            ON_DELETE => {
                return Some(format!(
                    "{}: has no effect with OnDelete, because pods are replaced manually",
                    annotation(BERTH_AUTO_ROLLBACK)
                ));
            }
            _ => false,
        };
        let text = if value(BERTH_PROGRESS_DEADLINE_SECONDS).is_none() {
            format!("has no effect without the annotation {BERTH_PROGRESS_DEADLINE_SECONDS}")
        } else if !recreates && value(BERTH_REPAIR) != Some("Revision") {
            format!(
                "pods of a failed template block their own rollback; add the annotation {BERTH_REPAIR}: Revision, or use the strategy Recreate"
            )
        } else {
            return None;
        };
        Some(format!("{}: {text}", annotation(BERTH_AUTO_ROLLBACK)))
    }
}

impl StatefulSet {
    /// Returns the warnings about annotations that have no effect with the set's strategy.
    fn idle_strategy(&self) -> Vec<String> {
        let strategy = self.spec.update_strategy.type_.as_str();
        let is_asked_for = |key| choices::value(&self.metadata, key).is_some();
        let mut warnings = Vec::new();
        if is_asked_for(BERTH_UPDATE_STRATEGY) && ![ON_DELETE, RECREATE].contains(&strategy) {
            warnings.push(format!("{}: has no effect unless spec.updateStrategy.type is {ON_DELETE}", annotation(BERTH_UPDATE_STRATEGY)));
        }
        // `Recreate` replaces failing pods without the annotation.
        if is_asked_for(BERTH_REPAIR) && strategy == ON_DELETE {
            warnings.push(format!("{}: has no effect where spec.updateStrategy.type is {ON_DELETE}", annotation(BERTH_REPAIR)));
        }
        warnings
    }
}

fn annotation(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}

impl StatefulSetUpdateStrategy {
    /// Quirk kept from upstream: `rollingUpdate` is created only if `type` was missing too.
    fn set_defaults(&mut self) {
        if self.type_.is_empty() {
            ROLLING_UPDATE.clone_into(&mut self.type_);
            self.rolling_update.get_or_insert_default();
        }
        if let Some(rolling) = self.rolling_update.as_mut().filter(|_| self.type_ == ROLLING_UPDATE) {
            rolling.partition.get_or_insert(0);
        }
    }

    /// Drops a `rollingUpdate` of default values beside another type. An apply or a patch that changes the type leaves
    /// it behind, although the client never wrote it. Other values are kept, and rejected.
    fn drop_default_block(&mut self) {
        let is_default = |rolling: &RollingUpdateStatefulSet| {
            let is_one = |unavailable: &IntOrString| *unavailable == IntOrString::Int(1);
            rolling.partition.unwrap_or(0) == 0 && rolling.max_unavailable.as_ref().is_none_or(is_one)
        };
        if matches!(self.type_.as_str(), ON_DELETE | RECREATE) {
            self.rolling_update.take_if(|rolling| is_default(rolling));
        }
    }

    /// Defaults `maxUnavailable` if the gate is on. Otherwise drops it, unless the stored object uses it.
    fn prepare_max_unavailable(&mut self, old: Option<&Self>, gates: &FeatureGates) {
        let Some(rolling) = &mut self.rolling_update else { return };
        let in_use = |strategy: &Self| strategy.rolling_update.as_ref().is_some_and(|rolling| rolling.max_unavailable.is_some());
        if !gates.enabled(Gate::MaxUnavailableStatefulSet) {
            rolling.max_unavailable.take_if(|_| !old.is_some_and(in_use));
        } else if self.type_ == ROLLING_UPDATE {
            rolling.max_unavailable.get_or_insert(IntOrString::Int(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::testing::{check_round_trip, gates, stateful_set};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]
    fn spec(spec: Value) -> Value {
        crate::Object::to_value(&stateful_set(json!({"spec": spec})))["spec"].clone()
    }

    #[test]
    fn what_is_left_out_is_filled_in() {
        let spec = spec(json!({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}, "ordinals": {}}));
        assert_eq!((&spec["replicas"], &spec["revisionHistoryLimit"]), (&json!(1), &json!(10)));
        assert_eq!(spec["podManagementPolicy"], json!("OrderedReady"));
        assert_eq!(spec["persistentVolumeClaimRetentionPolicy"], json!({"whenDeleted": "Retain", "whenScaled": "Delete"}));
        assert_eq!(spec["ordinals"], json!({"start": 0}));
        let status = crate::Object::to_value(&stateful_set(json!({})))["status"].clone();
        assert_eq!(status, json!({"replicas": 0, "availableReplicas": 0}));
    }

    #[test]
    fn the_rolling_block_is_made_only_where_the_type_was_left_out() {
        let strategy = |sent: Value| spec(json!({"updateStrategy": sent}))["updateStrategy"].clone();
        let made = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
        assert_eq!(strategy(json!({})), made);
        assert_eq!(strategy(json!({"type": "RollingUpdate", "rollingUpdate": {}})), made);
        for kept in ["RollingUpdate", "OnDelete", "Recreate"] {
            assert_eq!(strategy(json!({"type": kept})), json!({"type": kept}));
        }
    }

    #[test]
    fn claims_are_defaulted() {
        let spec = spec(json!({"volumeClaimTemplates": [
            {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "0.5Gi"}}}},
        ]}));
        assert_eq!(
            spec["volumeClaimTemplates"],
            json!([{
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
                "spec": {"resources": {"requests": {"storage": "512Mi"}}, "volumeMode": "Filesystem"}, "status": {"phase": "Pending"},
            }])
        );
    }

    #[test]
    fn a_rollback_that_would_not_get_far_is_warned_about() {
        let check = |annotations: Value, strategy: &str, wanted: Option<&str>| {
            let mut annotations = annotations;
            annotations["berth.dev/auto-rollback"] = json!("OnDeadline");
            let set = stateful_set(json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": {"type": strategy}}}));
            let found = set.warnings(None);
            let begins =
                |text: &&str| found.len() == 1 && found[0].starts_with(&format!("metadata.annotations[berth.dev/auto-rollback]: {text}"));
            assert!(wanted.as_ref().map_or(found.is_empty(), begins), "{annotations} {strategy}: {found:?}");
            assert!(set.warnings(Some(&set)).is_empty(), "said once");
        };
        let deadline = || json!({"berth.dev/progress-deadline-seconds": "60"});
        check(json!({}), "Recreate", Some("has no effect without the annotation berth.dev/progress-deadline-seconds"));
        check(deadline(), "Recreate", None);
        check(deadline(), "RollingUpdate", Some("pods of a failed template block their own rollback"));
        check(deadline(), "OnDelete", Some("has no effect with OnDelete, because pods are replaced manually"));
        let with = |key: &str, value: &str| {
            let mut annotations = deadline();
            annotations[key] = json!(value);
            annotations
        };
        check(with("berth.dev/repair", "Revision"), "RollingUpdate", None);
        check(with("berth.dev/update-strategy", "Recreate"), "OnDelete", None);
    }

    #[test]
    fn max_unavailable_follows_its_gate() {
        let with = |unavailable: Option<i32>| {
            stateful_set(json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": unavailable}}}}))
        };
        let check = |old: Option<Option<i32>>, new: Option<i32>, setting: &str, wanted: Option<i32>| {
            let mut object = with(new);
            match old {
                None => object.prepare_create(&gates(setting)),
                Some(old) => object.prepare_update(&with(old), &gates(setting)),
            }
            let found = object.spec.update_strategy.rolling_update.expect("defaulted").max_unavailable;
            assert_eq!(found, wanted.map(IntOrString::Int), "{new:?} over {old:?} with {setting:?}");
        };
        check(None, Some(2), "", None);
        check(Some(None), Some(2), "", None);
        check(Some(Some(1)), Some(2), "", Some(2));
        check(None, Some(2), "MaxUnavailableStatefulSet=true", Some(2));
        check(None, None, "MaxUnavailableStatefulSet=true", Some(1));
    }

    #[test]
    fn a_rolling_update_block_of_only_defaults_does_not_outlive_its_type() {
        let updated = |type_: &str, rolling: Value| {
            let strategy = |strategy: Value| stateful_set(json!({"spec": {"updateStrategy": strategy}}));
            let mut new = strategy(json!({"type": type_, "rollingUpdate": rolling}));
            new.prepare_update(&strategy(json!({})), &FeatureGates::default());
            crate::Object::to_value(&new)["spec"]["updateStrategy"].get("rollingUpdate").cloned()
        };
        for other in ["OnDelete", "Recreate"] {
            for default in [json!({}), json!({"partition": 0})] {
                assert_eq!(updated(other, default), None, "{other}");
            }
            for said in [json!({"partition": 2}), json!({"partition": 0, "maxUnavailable": 2})] {
                let kept = updated(other, said.clone()).expect("it is refused, not dropped");
                assert_eq!(kept["partition"], said["partition"], "{other}");
            }
        }
        assert_eq!(updated("RollingUpdate", json!({"partition": 0})), Some(json!({"partition": 0})));
        assert_eq!(updated("Odd", json!({"partition": 0})), Some(json!({"partition": 0})), "its meaning there is unknown");
    }

    #[test]
    fn each_endpoint_keeps_what_is_not_its_own() {
        let old = stateful_set(json!({"spec": {"replicas": 1}, "status": {"replicas": 1}}));
        let sent = stateful_set(json!({"spec": {"replicas": 2}, "status": {"replicas": 2}}));
        let (mut created, mut updated, mut status) = (sent.clone(), sent.clone(), sent);
        created.prepare_create(&FeatureGates::default());
        updated.prepare_update(&old, &FeatureGates::default());
        status.prepare_status_update(&old, &FeatureGates::default());
        assert_eq!((created.spec.replicas, created.status.replicas), (Some(2), 0));
        assert_eq!((updated.spec.replicas, updated.status.replicas), (Some(2), 1));
        assert_eq!((status.spec.replicas, status.status.replicas), (Some(1), 2));
    }

    #[test]
    fn odd_values_are_warned_about() {
        let set = stateful_set(json!({"spec": {
            "revisionHistoryLimit": -1,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1500m"}}}}],
        }}));
        let history = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
        let claim =
            "spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer";
        assert_eq!(set.warnings(None), [claim, history]);
        assert_eq!(set.warnings(Some(&set)), [history]);
    }

    fn arbitrary_spec() -> impl Strategy<Value = Value> {
        let type_ = proptest::option::of(prop_oneof![Just("RollingUpdate"), Just("Recreate"), Just("OnDelete"), Just(""), Just("X")]);
        let number = || proptest::option::of(-1..3_i32);
        (type_, proptest::option::of((number(), number())), number(), proptest::option::of(0..2_usize)).prop_map(
            |(type_, rolling, replicas, claims)| {
                let rolling = rolling.map(|(partition, unavailable)| json!({"partition": partition, "maxUnavailable": unavailable}));
                let claims = claims.map(|count| vec![json!({"metadata": {"name": "data"}}); count]);
                json!({
                    "replicas": replicas, "volumeClaimTemplates": claims, "updateStrategy": {"type": type_, "rollingUpdate": rolling},
                })
            },
        )
    }

    proptest! {
        #[test]
        fn defaults_are_idempotent_and_survive_storing(spec in arbitrary_spec()) {
            let once = stateful_set(json!({"spec": spec}));
            let mut twice = once.clone();
            twice.set_defaults();
            prop_assert_eq!(&once, &twice);
            check_round_trip(&once);
        }
    }
}
