//! The details of one workload: its pods, revisions, conditions and events.

use crate::{
    cluster_cache::ClusterCache,
    compared::{Compared, Kept},
    readings::images,
    rows::Row,
    text::number,
    views::NoteView,
};
use berth_api::Gate;
use berth_identity::{RolloutRevision, Uid};
use berth_workloads::{
    deployment::annotations,
    pod_state::PodState,
    stateful_set::{REVISION_LABEL, revision_of},
    view::{AutoRollback, DaemonSetView, DaemonUpdate, DeploymentView, Meta, PodReplacementPolicy, PodView, RevisionView, StatefulSetView},
    workload::{WorkloadId, WorkloadKind},
};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::Time};
use std::{collections::BTreeMap, sync::Arc};

/// The maximum number of pods whose events are shown.
const EVENT_PODS_MAX: usize = 50;
const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// A stored revision.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Its number.
    pub number: RolloutRevision,
    /// The name of the object that stores it.
    pub keeper: String,
    /// The uid of that object.
    pub keeper_uid: Uid,
    /// The creation time of that object.
    pub created: Option<Timestamp>,
    /// The change cause that the user recorded.
    pub cause: Option<String>,
    /// The number of its pods that have not terminated.
    pub pods: usize,
    /// The template of its pods.
    pub template: Option<Arc<PodTemplateSpec>>,
}

impl Revision {
    /// Returns the images of its template.
    #[must_use]
    pub fn images(&self) -> Vec<String> {
        self.template.as_ref().map(|template| images(template)).unwrap_or_default()
    }

    fn kept(&self) -> Option<Kept<'_>> {
        Some(Kept { keeper: &self.keeper_uid, template: self.template.as_ref()? })
    }
}

/// A condition in Kubernetes' terms.
#[derive(Clone, Debug)]
pub struct Condition {
    /// `Available`.
    pub type_: String,
    /// `True`, `False`, `Unknown`.
    pub status: String,
    /// The reason and message.
    pub text: String,
    /// The last transition.
    pub since: Option<Timestamp>,
}

impl Condition {
    fn new((type_, status): (&str, &str), (reason, message): (Option<&str>, Option<&str>), since: Option<&Time>) -> Self {
        let text = [message, reason].into_iter().flatten().find(|text| !text.is_empty()).unwrap_or_default();
        Self { type_: type_.to_owned(), status: status.to_owned(), text: text.to_owned(), since: since.map(|time| time.0) }
    }
}

/// The details of a workload.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Its metadata.
    pub meta: Meta,
    /// Its pods.
    pub pods: Vec<Row>,
    /// Its revisions, newest first.
    pub revisions: Vec<Revision>,
    /// The conditions of its status.
    pub conditions: Vec<Condition>,
    /// The uids of the objects whose events are shown.
    pub about: Vec<String>,
    /// Strategy and policy in words.
    pub manner: String,
    /// A setting that has no effect in this cluster.
    pub ineffective_setting: Option<String>,
}

impl ClusterCache {
    /// Returns the details of a workload, or `None` if it does not exist.
    #[must_use]
    pub fn facts(&self, id: &WorkloadId, now: Timestamp) -> Option<Facts> {
        match id.kind {
            WorkloadKind::Deployment => self.deployments.get(&id.key()).map(|deployment| of_deployment(self, &deployment, now)),
            WorkloadKind::StatefulSet => self.stateful_sets.get(&id.key()).map(|set| of_stateful_set(self, &set, now)),
            WorkloadKind::DaemonSet => self.daemon_sets.get(&id.key()).map(|set| of_daemon_set(self, &set, now)),
        }
    }

    /// Returns how the newest revision's template differs from an earlier one's. Cached after the first call.
    #[must_use]
    pub fn compared(&self, earlier: &Revision, newest: &Revision) -> Arc<Compared> {
        let both = earlier.kept().zip(newest.kept());
        both.map(|(earlier, newest)| self.comparisons.between(earlier, newest)).unwrap_or_default()
    }

    /// Returns the events of these objects, by uid, newest first.
    #[must_use]
    pub fn events_about(&self, about: &[String]) -> Vec<Arc<NoteView>> {
        let mut notes: Vec<Arc<NoteView>> = {
            let known = self.notes.read();
            about.iter().flat_map(|uid| known.index().about(uid)).cloned().collect()
        };
        notes.sort_by_key(|note| std::cmp::Reverse(note.event.last));
        notes
    }
}

fn of_deployment(cluster_cache: &ClusterCache, deployment: &DeploymentView, now: Timestamp) -> Facts {
    let sets: Vec<_> = cluster_cache.sets.read().index().controlled_by(&deployment.meta.uid).cloned().collect();
    let pods = cluster_cache.pods.read();
    let min_ready = deployment.spec.min_ready_seconds;
    let (mut rows, mut revisions) = (Vec::new(), Vec::new());
    for set in &sets {
        let number = annotations::revision(&set.annotations);
        let own: Vec<Row> = pods.index().controlled_by(&set.meta.uid).map(|pod| Row::new(Arc::clone(pod), min_ready, now)).collect();
        revisions.extend(number.map(|number| Revision {
            number,
            keeper: format!("ReplicaSet {}", set.meta.name),
            keeper_uid: set.meta.uid.clone(),
            created: set.meta.created,
            cause: set.annotations.get(CHANGE_CAUSE).cloned(),
            pods: own.iter().filter(|row| row.state.is_some()).count(),
            template: Some(Arc::clone(&set.template)),
        }));
        rows.extend(own.into_iter().map(|row| Row { revision: number, ..row }));
    }
    drop(pods);
    let conditions =
        deployment.status.conditions.iter().flatten().map(|of| {
            Condition::new((&of.type_, &of.status), (of.reason.as_deref(), of.message.as_deref()), of.last_transition_time.as_ref())
        });
    let strategy = &deployment.spec.strategy;
    let limits = strategy.rolling_update.as_ref().map(|rolling| {
        format!(", maxSurge {}, maxUnavailable {}", number(rolling.max_surge.as_ref()), number(rolling.max_unavailable.as_ref()))
    });
    let policy = deployment.spec.pod_replacement_policy.as_ref().map(|policy| format!(", {policy}"));
    Facts {
        about: about(&deployment.meta, sets.iter().map(|set| &set.meta), &rows),
        meta: deployment.meta.clone(),
        conditions: conditions.collect(),
        ineffective_setting: vain_wishes_of_deployment(cluster_cache, deployment),
        manner: format!("{}{}{}", strategy.type_, limits.unwrap_or_default(), policy.unwrap_or_default()),
        revisions: newest_first(revisions),
        pods: rows,
    }
}

fn of_stateful_set(cluster_cache: &ClusterCache, set: &StatefulSetView, now: Timestamp) -> Facts {
    let kept: Vec<_> = cluster_cache.revisions.read().index().controlled_by(&set.meta.uid).cloned().collect();
    let own: Vec<Arc<PodView>> = cluster_cache.pods.read().index().controlled_by(&set.meta.uid).cloned().collect();
    let numbers: BTreeMap<&str, RolloutRevision> = kept.iter().map(|revision| (&*revision.meta.name, revision.number)).collect();
    let row = |pod: Arc<PodView>| {
        let revision = numbers.get(revision_of(&pod)).copied();
        Row { revision, ..Row::new(pod, set.spec.min_ready_seconds, now) }
    };
    let rows: Vec<_> = own.into_iter().map(row).collect();
    let conditions =
        set.status.conditions.iter().flatten().map(|of| {
            Condition::new((&of.type_, &of.status), (of.reason.as_deref(), of.message.as_deref()), of.last_transition_time.as_ref())
        });
    Facts {
        about: about(&set.meta, [], &rows),
        meta: set.meta.clone(),
        conditions: conditions.collect(),
        ineffective_setting: vain_wishes_of_set(cluster_cache, set),
        manner: format!("{}, {}", set.spec.update_strategy.type_, set.spec.pod_management_policy),
        revisions: newest_first(kept.iter().map(|revision| in_controller_revision(revision, &rows)).collect()),
        pods: rows,
    }
}

fn in_controller_revision(revision: &RevisionView, rows: &[Row]) -> Revision {
    Revision {
        number: revision.number,
        keeper: format!("ControllerRevision {}", revision.meta.name),
        keeper_uid: revision.meta.uid.clone(),
        created: revision.meta.created,
        cause: None,
        pods: rows.iter().filter(|row| row.revision == Some(revision.number) && row.state.is_some()).count(),
        template: revision.template.clone(),
    }
}

fn of_daemon_set(cluster_cache: &ClusterCache, set: &DaemonSetView, now: Timestamp) -> Facts {
    let kept: Vec<_> = cluster_cache.revisions.read().index().controlled_by(&set.meta.uid).cloned().collect();
    let own: Vec<Arc<PodView>> = cluster_cache.pods.read().index().controlled_by(&set.meta.uid).cloned().collect();
    let numbers = numbers_by_hash(&kept);
    let row = |pod: Arc<PodView>| {
        let revision = pod.meta.labels.get(REVISION_LABEL).and_then(|hash| numbers.get(hash)).copied();
        Row { revision, ..Row::new(pod, set.spec.min_ready_seconds.unwrap_or(0), now) }
    };
    let rows: Vec<_> = own.into_iter().map(row).collect();
    let conditions =
        set.status.conditions.iter().flatten().map(|of| {
            Condition::new((&of.type_, &of.status), (of.reason.as_deref(), of.message.as_deref()), of.last_transition_time.as_ref())
        });
    let rolling = set.spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let manner = match (set.choices, rolling) {
        (DaemonUpdate::OnDelete, _) => "OnDelete".to_owned(),
        (DaemonUpdate::RollingUpdate, None) => "RollingUpdate".to_owned(),
        (DaemonUpdate::RollingUpdate, Some(limits)) => format!(
            "RollingUpdate, maxSurge {}, maxUnavailable {}",
            number(limits.max_surge.as_ref()),
            number(limits.max_unavailable.as_ref())
        ),
    };
    Facts {
        about: about(&set.meta, [], &rows),
        meta: set.meta.clone(),
        conditions: conditions.collect(),
        ineffective_setting: None,
        manner,
        revisions: newest_first(kept.iter().map(|revision| in_controller_revision(revision, &rows)).collect()),
        pods: rows,
    }
}

/// The numbers of a DaemonSet's revisions by the hash in the labels of its pods.
fn numbers_by_hash(revisions: &[Arc<RevisionView>]) -> BTreeMap<&str, RolloutRevision> {
    revisions.iter().filter_map(|revision| Some((revision.meta.labels.get(REVISION_LABEL)?, revision.number))).collect()
}

fn vain_wishes_of_deployment(cluster_cache: &ClusterCache, deployment: &DeploymentView) -> Option<String> {
    let choices = &deployment.choices;
    let asks_for_policy = !matches!(choices.policy, Ok(PodReplacementPolicy::Unset) | Err(_));
    let asks = asks_for_policy
        || choices.steps.as_ref().is_ok_and(|steps| !steps.is_empty())
        || choices.auto_rollback != Ok(AutoRollback::default());
    let off = asks_for_policy.then_some((Gate::DeploymentPodReplacementPolicy, "podReplacementPolicy"));
    vain_wishes(cluster_cache, asks, off)
}

fn vain_wishes_of_set(cluster_cache: &ClusterCache, set: &StatefulSetView) -> Option<String> {
    let choices = &set.choices;
    let asks_for_recreate = choices.strategy.asks_for_recreate();
    let asks = asks_for_recreate || choices.repairs || choices.auto_rollback != AutoRollback::default();
    vain_wishes(cluster_cache, asks, asks_for_recreate.then_some((Gate::StatefulSetRecreateStrategy, "Recreate")))
}

/// Returns a message if the cluster ignores a setting: one that only berth supports (`asks`), or one whose feature gate
/// is off.
fn vain_wishes(cluster_cache: &ClusterCache, asks: bool, gated: Option<(Gate, &str)>) -> Option<String> {
    let switched_off = || {
        let (gate, wish) = gated.filter(|(gate, _)| !cluster_cache.gates.enabled(*gate))?;
        Some(format!("{wish} has no effect: the controllers have the feature {gate} off"))
    };
    cluster_cache.unheeded.clone().filter(|_| asks).or_else(switched_off)
}

fn newest_first(mut revisions: Vec<Revision>) -> Vec<Revision> {
    revisions.sort_by_key(|revision| std::cmp::Reverse(revision.number));
    revisions
}

fn about<'a>(meta: &'a Meta, parts: impl IntoIterator<Item = &'a Meta>, pods: &'a [Row]) -> Vec<String> {
    // Events explain why a pod is not available.
    let pods_with_events = pods.iter().filter(|row| row.state != Some(PodState::Available)).take(EVENT_PODS_MAX).map(|row| &row.pod.meta);
    [meta].into_iter().chain(parts).chain(pods_with_events).map(|meta| meta.uid.to_string()).collect()
}
