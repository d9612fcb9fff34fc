//! The present state of a changed workload.

use crate::{
    count_history::CountHistory,
    forecast::{Step, WaitSpan},
};
use berth_api::{
    FeatureGates, Gate,
    apps::{DeploymentStatus, steps},
};
use berth_identity::{Generation, Ordinal, Uid};
use berth_workloads::{
    Wait, daemon_set,
    deployment::{
        limits::{Limits, Size},
        progress::{Goal, deadline, is_complete},
    },
    stateful_set::{EffectiveStrategy, ordinals, partition, strategy},
    view::{DaemonSetView, DaemonUpdate, DeploymentStrategy, DeploymentView, PodReplacementPolicy, StatefulSetView},
    workload::WorkloadId,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The wait of a terminating workload: nothing rolls out any more.
const BEING_DELETED: &str = "being_deleted";
/// A longer deadline does not count.
const DEADLINE_MAX: Duration = Duration::from_secs(3600);

/// A changed workload.
pub(crate) struct TrackedWorkload {
    pub(crate) id: WorkloadId,
    pub(crate) uid: Uid,
    pub(crate) view: LiveWorkload,
    pub(crate) tally: CountHistory,
    /// The ordinals of a StatefulSet's existing pods.
    pub(crate) ordinals: BTreeSet<Ordinal>,
    pub(crate) steps: Vec<Step>,
    pub(crate) waits: Vec<WaitSpan>,
    /// Indexes of the waits that have not ended.
    pub(crate) open: BTreeMap<&'static str, usize>,
    /// Whether its controller's last reconcile changed nothing.
    pub(crate) is_at_rest: bool,
    /// How it ends if nothing else happens, and since when.
    pub(crate) ended: Option<(End, Duration)>,
    pub(crate) settled: Option<Duration>,
    pub(crate) is_late: bool,
}

/// The end of a workload that goes no further by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// In the desired state.
    Complete,
    /// As far as its owner permits.
    Held,
}

/// The present state of a workload.
#[derive(Default)]
pub(crate) enum LiveWorkload {
    #[default]
    Nothing,
    Deployment(Box<DeploymentView>),
    StatefulSet(Box<StatefulSetView>),
    DaemonSet(Box<DaemonSetView>),
}

impl LiveWorkload {
    pub(crate) fn is_complete(&self, gates: &FeatureGates) -> bool {
        match self {
            Self::Nothing => false,
            Self::Deployment(view) => is_complete(goal(view, view.spec.replicas.unwrap_or(1).into(), gates), &view.status),
            Self::StatefulSet(view) => is_set_complete(view, gates),
            Self::DaemonSet(view) => {
                let updated = view.status.updated_number_scheduled.unwrap_or(0);
                has_its_daemons(view) && view.status.desired_number_scheduled <= updated
            }
        }
    }

    /// Whether its rollouts have an analysis.
    pub(crate) fn asks(&self) -> bool {
        matches!(self, Self::Deployment(view) if view.choices.steps.iter().flatten().any(|step| *step == steps::Step::Analysis))
    }

    fn is_paused(&self) -> bool {
        matches!(self, Self::Deployment(view) if view.spec.paused)
    }

    /// Whether its controller has observed the spec, and all requested pods exist and are available. `sizes` is the sum of its ReplicaSets'
    /// sizes.
    fn has_what_it_asks_for(&self, sizes: impl FnOnce() -> i64, gates: &FeatureGates) -> bool {
        match self {
            Self::Nothing => false,
            Self::Deployment(view) => {
                // Of any template.
                let status = DeploymentStatus { updated_replicas: view.status.replicas, ..view.status.clone() };
                is_complete(goal(view, sizes(), gates), &status)
            }
            Self::StatefulSet(view) => has_its_pods(view),
            Self::DaemonSet(view) => has_its_daemons(view),
        }
    }

    /// The limits of the strategy. `None` if it has none.
    pub(crate) fn size(&self) -> Option<Size> {
        if let Self::DaemonSet(view) = self {
            return size_of_daemon_set(view);
        }
        let Self::Deployment(view) = self else { return None };
        let strategy = view.choices.strategy.clone().ok().filter(|strategy| *strategy == DeploymentStrategy::RollingUpdate)?;
        let replicas = view.spec.replicas.unwrap_or(1);
        let rolling = view.spec.strategy.rolling_update.as_ref();
        let limits = Limits::resolve(
            rolling.and_then(|rolling| rolling.max_surge.as_ref()),
            rolling.and_then(|rolling| rolling.max_unavailable.as_ref()),
            replicas,
        );
        Some(Size::new(strategy, replicas.into(), limits.ok()?))
    }

    pub(crate) fn min_ready_seconds(&self) -> i32 {
        match self {
            Self::Nothing => 0,
            Self::Deployment(view) => view.spec.min_ready_seconds,
            Self::StatefulSet(view) => view.spec.min_ready_seconds,
            Self::DaemonSet(view) => view.spec.min_ready_seconds.unwrap_or(0),
        }
    }

    /// How its pods are replaced, as text.
    pub(crate) fn policy(&self, gates: &FeatureGates) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Deployment(view) => {
                let policy = match (gates.enabled(Gate::DeploymentPodReplacementPolicy), &view.choices.policy) {
                    (true, Ok(PodReplacementPolicy::TerminationComplete)) => "TerminationComplete",
                    (true, Ok(PodReplacementPolicy::TerminationStarted)) => "TerminationStarted",
                    (false, Ok(PodReplacementPolicy::TerminationComplete | PodReplacementPolicy::TerminationStarted)) => {
                        "its podReplacementPolicy has no effect"
                    }
                    _ => "no podReplacementPolicy",
                };
                format!("{}, {policy}", view.spec.strategy.type_)
            }
            Self::StatefulSet(view) => {
                let strategy = match strategy(view, gates) {
                    EffectiveStrategy::RollingUpdate => "RollingUpdate",
                    EffectiveStrategy::OnDelete => "OnDelete",
                    EffectiveStrategy::Recreate => "Recreate",
                };
                format!("{strategy}, {}", view.spec.pod_management_policy)
            }
            Self::DaemonSet(view) => match view.choices {
                DaemonUpdate::RollingUpdate => "RollingUpdate, a pod on each node".to_owned(),
                DaemonUpdate::OnDelete => "OnDelete, a pod on each node".to_owned(),
            },
        }
    }

    pub(crate) fn replicas(&self) -> i64 {
        match self {
            Self::Nothing => 0,
            Self::Deployment(view) => view.spec.replicas.unwrap_or(1).into(),
            Self::StatefulSet(view) => view.spec.replicas.unwrap_or(1).into(),
            Self::DaemonSet(view) => view.status.desired_number_scheduled.into(),
        }
    }

    pub(crate) fn patience(&self) -> Duration {
        let seconds = |seconds: i32| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        match self {
            Self::Nothing => Duration::ZERO,
            Self::Deployment(view) => {
                let longest = deadline(view.spec.progress_deadline_seconds).and_then(|deadline| Duration::try_from(deadline).ok());
                let waits =
                    view.choices.steps.iter().flatten().map(|step| if let steps::Step::Seconds(seconds) = step { *seconds } else { 0 });
                let step = Duration::from_secs(waits.max().unwrap_or(0).into());
                longest.unwrap_or_default().min(DEADLINE_MAX) + seconds(view.spec.min_ready_seconds) + step
            }
            Self::StatefulSet(view) => seconds(view.spec.min_ready_seconds),
            Self::DaemonSet(view) => seconds(view.spec.min_ready_seconds.unwrap_or(0)),
        }
    }
}

/// The conditions for completion with this number of pods.
fn goal(view: &DeploymentView, desired: i64, gates: &FeatureGates) -> Goal {
    let policy = view.choices.policy.clone().unwrap_or_default();
    let policy = if gates.enabled(Gate::DeploymentPodReplacementPolicy) { policy } else { PodReplacementPolicy::Unset };
    Goal { desired, generation: view.meta.generation, policy, terminating: view.status.terminating_replicas.map(i64::from) }
}

fn has_its_pods(view: &StatefulSetView) -> bool {
    let (status, wanted) = (&view.status, view.spec.replicas.unwrap_or(1));
    let is_observed = status.observed_generation >= view.meta.generation;
    is_observed && [status.replicas, status.ready_replicas, status.available_replicas] == [wanted; 3]
}

/// Whether each node that should run a pod of the set has an available one, and no other node has any.
fn has_its_daemons(view: &DaemonSetView) -> bool {
    let status = &view.status;
    let is_observed = view.meta.generation.0 <= status.observed_generation.unwrap_or(0);
    let wanted = status.desired_number_scheduled;
    is_observed && [status.current_number_scheduled, status.number_available.unwrap_or(0)] == [wanted; 2] && status.number_misscheduled == 0
}

/// The limits of a rolling update on the present number of nodes.
fn size_of_daemon_set(view: &DaemonSetView) -> Option<Size> {
    let nodes = u32::try_from(view.status.desired_number_scheduled).unwrap_or(0);
    let daemon_set::Limits { surge, unavailable } = daemon_set::Limits::of(view, nodes);
    let limits = Limits { surge: surge.into(), unavailable: unavailable.into() };
    (view.choices == DaemonUpdate::RollingUpdate).then(|| Size::new(DeploymentStrategy::RollingUpdate, nodes.into(), limits))
}

fn is_set_complete(view: &StatefulSetView, gates: &FeatureGates) -> bool {
    let (status, wanted) = (&view.status, view.spec.replicas.unwrap_or(1));
    if !has_its_pods(view) {
        return false;
    }
    match (strategy(view, gates), partition(view)) {
        (EffectiveStrategy::RollingUpdate, Some(partition)) => status.updated_replicas >= wanted - partition,
        (EffectiveStrategy::RollingUpdate, None) => status.update_revision == status.current_revision,
        (EffectiveStrategy::OnDelete | EffectiveStrategy::Recreate, _) => status.updated_replicas >= wanted,
    }
}

impl TrackedWorkload {
    /// The limits of the strategy. `None` if it has none.
    pub(crate) fn size(&self) -> Option<Size> {
        self.view.size()
    }

    pub(crate) fn min_ready_seconds(&self) -> i32 {
        self.view.min_ready_seconds()
    }

    pub(crate) fn wait(&mut self, waits: &[Wait], at: Duration) {
        let now: BTreeSet<&'static str> = waits.iter().map(Wait::metric_label).collect();
        let over: Vec<&'static str> = self.open.keys().copied().filter(|reason| !now.contains(reason)).collect();
        for reason in over {
            if let Some(place) = self.open.remove(reason) {
                self.waits[place].until = Some(at);
            }
        }
        for wait in waits {
            let reason = wait.metric_label();
            if !self.open.contains_key(reason) {
                self.open.insert(reason, self.waits.len());
                self.waits.push(WaitSpan { reason, text: wait.to_string(), from: at, until: None });
            }
        }
    }

    /// How its pods are replaced, as text.
    pub(crate) fn policy(&self, gates: &FeatureGates) -> String {
        self.view.policy(gates)
    }

    pub(crate) fn replicas(&self) -> i64 {
        self.view.replicas()
    }

    /// How the workload ends, if it goes no further. `sizes` is the sum of its ReplicaSets' sizes.
    ///
    /// A paused Deployment still scales. Its status is then complete, unless a template has no set yet.
    pub(crate) fn end(&self, sizes: impl FnOnce() -> i64, gates: &FeatureGates) -> Option<End> {
        // Counts do not show which pods exist: if the ordinals change, the number of pods does not.
        if !self.has_its_numbers() || self.open.contains_key(BEING_DELETED) {
            return None;
        }
        let waits_for_resume = self.open.contains_key(Wait::Paused.metric_label());
        if self.view.is_complete(gates) && !waits_for_resume {
            return Some(End::Complete);
        }
        // What the controller still waits for without any action is deliberate.
        let is_held = self.is_at_rest && (self.view.is_paused() || !self.open.is_empty());
        (is_held && self.view.has_what_it_asks_for(sizes, gates)).then_some(End::Held)
    }

    /// Whether exactly the pods of a StatefulSet's ordinals exist.
    fn has_its_numbers(&self) -> bool {
        let LiveWorkload::StatefulSet(view) = &self.view else { return true };
        let wanted = ordinals(view);
        self.ordinals.iter().copied().eq(wanted.start.up_to(wanted.end()))
    }

    /// The obstacles, as text.
    pub(crate) fn held_by(&self) -> Vec<String> {
        let waits: Vec<String> = self.open_waits().map(|wait| wait.text.clone()).collect();
        if waits.is_empty() { vec![Wait::Paused.to_string()] } else { waits }
    }

    /// Its progress, by its counts.
    pub(crate) fn how_far(&self) -> String {
        let (updated, available, observed, generation) = match &self.view {
            LiveWorkload::Nothing => return format!("{} {} does not exist", self.id.kind.name(), self.id.name),
            LiveWorkload::Deployment(view) => {
                let status = &view.status;
                (status.updated_replicas, status.available_replicas, status.observed_generation, view.meta.generation)
            }
            LiveWorkload::StatefulSet(view) => {
                let status = &view.status;
                (status.updated_replicas, status.available_replicas, status.observed_generation, view.meta.generation)
            }
            LiveWorkload::DaemonSet(view) => {
                let status = &view.status;
                let observed = Generation(status.observed_generation.unwrap_or(0));
                (status.updated_number_scheduled.unwrap_or(0), status.number_available.unwrap_or(0), observed, view.meta.generation)
            }
        };
        let (wanted, terminating) = (self.replicas(), self.tally.all().terminating);
        if observed < generation {
            return format!("no controller acts on {} {}", self.id.kind.name(), self.id.name);
        }
        format!("{updated} of {wanted} pods have the newest template, {available} pods are available, {terminating} terminate")
    }

    /// The waits that have not ended.
    pub(crate) fn open_waits(&self) -> impl Iterator<Item = &WaitSpan> {
        self.open.values().map(|place| &self.waits[*place])
    }
}
