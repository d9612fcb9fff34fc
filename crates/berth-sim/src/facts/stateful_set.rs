//! What the checks read of a StatefulSet.

use super::{Amount, Metadata};
use serde::Deserialize;
use std::{fmt, ops::Range};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StatefulSet {
    pub(crate) metadata: Metadata,
    pub(crate) spec: StatefulSetSpec,
    pub(crate) status: StatefulSetStatus,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StatefulSetSpec {
    pub(crate) replicas: i64,
    pub(crate) min_ready_seconds: i64,
    pub(crate) pod_management_policy: String,
    pub(crate) update_strategy: UpdateStrategy,
    persistent_volume_claim_retention_policy: Retention,
    ordinals: Ordinals,
    volume_claim_templates: Vec<ClaimTemplate>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
struct ClaimTemplate {
    metadata: Name,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
struct Name {
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
struct Retention {
    when_scaled: String,
    when_deleted: String,
}

/// With whom a claim goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoesWith {
    NoOwner,
    Pod,
    Set,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct UpdateStrategy {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    rolling_update: Option<Rolling>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
struct Rolling {
    partition: i64,
    max_unavailable: Option<Amount>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
struct Ordinals {
    start: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StatefulSetStatus {
    pub(crate) observed_generation: i64,
    pub(crate) replicas: i64,
    pub(crate) ready_replicas: i64,
    pub(crate) available_replicas: i64,
    pub(crate) current_replicas: i64,
    pub(crate) updated_replicas: i64,
    pub(crate) current_revision: String,
    pub(crate) update_revision: String,
}

impl StatefulSetSpec {
    /// The numbers that are wanted.
    pub(crate) fn wanted(&self) -> Range<i64> {
        self.ordinals.start..self.ordinals.start + self.replicas
    }

    /// With whom the claims of the pod with this number should go.
    pub(crate) fn claims_go_with(&self, ordinal: i64) -> GoesWith {
        let Retention { when_scaled, when_deleted } = &self.persistent_volume_claim_retention_policy;
        if when_scaled == "Delete" && !self.wanted().contains(&ordinal) {
            GoesWith::Pod
        } else if when_deleted == "Delete" {
            GoesWith::Set
        } else {
            GoesWith::NoOwner
        }
    }

    /// Whether the claims of pods that are scaled away are to be deleted.
    pub(crate) fn claims_go_when_scaled(&self) -> bool {
        self.persistent_volume_claim_retention_policy.when_scaled == "Delete"
    }

    /// Whether claims are to be deleted with the set.
    pub(crate) fn claims_go_when_deleted(&self) -> bool {
        self.persistent_volume_claim_retention_policy.when_deleted == "Delete"
    }

    /// The number of the pod that a claim of this name is for; `None` if it is not named after the set of this name.
    pub(crate) fn ordinal_of_claim(&self, set: &str, claim: &str) -> Option<i64> {
        let of_template = |template: &ClaimTemplate| {
            let pod = claim.strip_prefix(&*template.metadata.name)?.strip_prefix('-')?;
            pod.strip_prefix(set)?.strip_prefix('-')?.parse().ok()
        };
        self.volume_claim_templates.iter().find_map(of_template)
    }

    /// The names of the claims that the pod of this name has.
    pub(crate) fn claims_of<'a>(&'a self, pod: &'a str) -> impl Iterator<Item = String> + 'a {
        self.volume_claim_templates.iter().map(move |template| format!("{}-{pod}", template.metadata.name))
    }

    pub(crate) fn is_ordered(&self) -> bool {
        self.pod_management_policy == "OrderedReady"
    }

    /// Whether its controller brings all pods to the newest template.
    pub(crate) fn updates_all(&self) -> bool {
        self.update_strategy.type_ != "OnDelete" && self.update_from().is_none_or(|from| from <= self.ordinals.start)
    }

    /// The lowest ordinal that a rolling update changes. `None` without a block that could set it.
    pub(crate) fn update_from(&self) -> Option<i64> {
        self.update_strategy.rolling_update.as_ref().map(|rolling| self.ordinals.start + rolling.partition)
    }

    /// How many pods a rolling update may make unavailable.
    pub(crate) fn max_unavailable(&self) -> i64 {
        let amount = self.update_strategy.rolling_update.as_ref().and_then(|rolling| rolling.max_unavailable.as_ref());
        amount.map_or(1, |amount| amount.hundredths(self.replicas) / 100).max(1)
    }
}

impl StatefulSet {
    /// Whether it asks for the repair of broken rollouts.
    pub(crate) fn is_repaired(&self) -> bool {
        self.metadata.annotations.get("berth.dev/repair").is_some_and(|text| text == "Revision")
    }
}

impl fmt::Display for StatefulSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StatefulSetStatus {
            observed_generation, replicas, ready_replicas, updated_replicas, current_revision, update_revision, ..
        } = &self.status;
        let StatefulSetSpec { pod_management_policy, update_strategy, persistent_volume_claim_retention_policy: retention, .. } =
            &self.spec;
        write!(f, "generation={} wanted={:?} {pod_management_policy} ", self.metadata.generation, self.spec.wanted())?;
        write!(f, "claims={}/{} ", retention.when_scaled, retention.when_deleted)?;
        if self.metadata.deletion_timestamp.is_some() {
            f.write_str("terminating ")?;
        }
        write!(f, "{} from={:?} ", update_strategy.type_, self.spec.update_from())?;
        write!(f, "status: observed={observed_generation} replicas={replicas} ready={ready_replicas} updated={updated_replicas} ")?;
        write!(f, "current={current_revision} update={update_revision}")
    }
}
