//! Jobs and ReplicationControllers of a change. They have no rollout: no change of their template replaces pods. Their pods use the room of nodes
//! and quotas.

use crate::{
    change::Change,
    forecast::{OtherForecast, OtherOutcome, Peak, TroubleKind},
};
use berth_api::{annotations::SIM_COMPLETES_AFTER, simulation::spread};
use berth_identity::{ObjectKey, Uid};
use berth_workloads::{
    Wait,
    resources::{JOB, REPLICATION_CONTROLLER},
    view::{JobView, ReplicaSetView},
};
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};

/// The longest back-off of a Job after failed pods.
const BACKOFF_MAX: Duration = Duration::from_secs(600);

/// A kind whose pods a forecast counts, and that does not roll out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OtherKind {
    Job,
    ReplicationController,
}

impl OtherKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Job => "Job",
            Self::ReplicationController => "ReplicationController",
        }
    }

    fn of_manifest(manifest: &Value) -> Option<Self> {
        let (api_version, kind) = (manifest["apiVersion"].as_str()?, manifest["kind"].as_str()?);
        let known = [(JOB, Self::Job), (REPLICATION_CONTROLLER, Self::ReplicationController)];
        known.into_iter().find(|(of, _)| of.is_written(api_version, kind)).map(|(_, kind)| kind)
    }
}

/// Such an object of a change.
pub(crate) struct TrackedOther {
    pub(crate) kind: OtherKind,
    pub(crate) key: ObjectKey,
    pub(crate) uid: Uid,
    view: LiveOther,
    created: u32,
    /// The number of pods that use resources.
    present: u32,
    most: Peak<u32>,
    /// When it was first as it is to be.
    settled: Option<Duration>,
    /// The kinds of problems that it has had.
    pub(crate) troubles: BTreeSet<TroubleKind>,
}

/// Its present state.
#[derive(Default)]
pub(crate) enum LiveOther {
    #[default]
    Nothing,
    Job(Box<JobView>),
    ReplicationController(Box<ReplicaSetView>),
}

impl Change {
    /// The Jobs and ReplicationControllers of the change, in order.
    pub(crate) fn others(&self) -> Vec<(OtherKind, ObjectKey)> {
        let mut seen = BTreeSet::new();
        let others = self.manifests.iter().filter_map(|manifest| {
            let kind = OtherKind::of_manifest(manifest)?;
            Some((kind, ObjectKey::new(self.namespace_of(manifest), manifest["metadata"]["name"].as_str()?)))
        });
        others.filter(|other| seen.insert(other.clone())).collect()
    }
}

impl TrackedOther {
    pub(crate) fn new(kind: OtherKind, key: ObjectKey) -> Self {
        let view = LiveOther::Nothing;
        let (most, troubles) = (Peak::default(), BTreeSet::new());
        Self { kind, key, uid: Uid::default(), view, created: 0, present: 0, most, settled: None, troubles }
    }

    /// `Job work`.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.kind.name(), self.key.name)
    }

    pub(crate) fn put(&mut self, view: LiveOther, at: Duration) {
        self.uid = match &view {
            LiveOther::Nothing => Uid::default(),
            LiveOther::Job(job) => job.meta.uid.clone(),
            LiveOther::ReplicationController(controller) => controller.meta.uid.clone(),
        };
        self.view = view;
        self.settled = self.is_settled_now().then(|| self.settled.unwrap_or(at));
    }

    /// Records a new pod. `is_news`: it is created after the change.
    pub(crate) fn enter(&mut self, is_news: bool, at: Duration) {
        self.created += u32::from(is_news);
        self.present += 1;
        if self.most.value < self.present {
            self.most = Peak { value: self.present, at };
        }
    }

    /// Records a pod that no longer uses resources.
    pub(crate) fn leave(&mut self) {
        self.present = self.present.saturating_sub(1);
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settled.is_some()
    }

    fn is_settled_now(&self) -> bool {
        match &self.view {
            LiveOther::Nothing => false,
            LiveOther::Job(job) => ended(job).is_some() || held(job).is_some() || (!completes(job) && all_run(job)),
            LiveOther::ReplicationController(controller) => {
                let (status, wanted) = (&controller.status, controller.replicas);
                status.observed_generation >= controller.meta.generation && [status.replicas, status.available_replicas] == [wanted; 2]
            }
        }
    }

    /// How long it may take without any event.
    pub(crate) fn patience(&self) -> Duration {
        let LiveOther::Job(job) = &self.view else { return Duration::ZERO };
        let annotations = job.spec.template.metadata.as_ref().and_then(|metadata| metadata.annotations.clone()).unwrap_or_default();
        let durations = annotations.keys().filter(|key| key.starts_with(SIM_COMPLETES_AFTER)).filter_map(|key| spread(&annotations, key));
        // Twice the middle is at least the longest.
        durations.map(|spread| spread.middle() * 2).max().unwrap_or_default() + BACKOFF_MAX
    }

    pub(crate) fn view(&self) -> &LiveOther {
        &self.view
    }

    /// The result, if nothing more happens after `progressed`. `causes` finds the obstacles, as sentences.
    pub(crate) fn forecast(&self, causes: impl FnOnce() -> Vec<String>, progressed: Duration) -> OtherForecast {
        OtherForecast {
            kind: self.kind.name(),
            namespace: self.key.namespace.to_string(),
            name: self.key.name.to_string(),
            created: self.created,
            pods: self.most,
            outcome: self.outcome(causes, progressed),
        }
    }

    fn outcome(&self, causes: impl FnOnce() -> Vec<String>, progressed: Duration) -> OtherOutcome {
        let after = self.settled.unwrap_or(progressed);
        let stuck = || {
            let causes = causes();
            let why = if causes.is_empty() { vec!["its pods make no progress".to_owned()] } else { causes };
            OtherOutcome::Stuck { after: progressed, why }
        };
        match &self.view {
            LiveOther::Job(job) => match (ended(job), held(job)) {
                (Some(JobEnd::Complete), _) => OtherOutcome::Complete { after },
                (Some(JobEnd::Failed(why)), _) => OtherOutcome::Failed { after, why },
                (None, Some(why)) => OtherOutcome::Held { after, why },
                (None, None) if self.is_settled() => OtherOutcome::Runs { after },
                (None, None) => stuck(),
            },
            LiveOther::ReplicationController(_) if self.is_settled() => OtherOutcome::Available { after },
            LiveOther::Nothing | LiveOther::ReplicationController(_) => stuck(),
        }
    }
}

/// The end of a Job.
enum JobEnd {
    Complete,
    /// With its reason and message.
    Failed(String),
}

/// How the Job has ended.
fn ended(job: &JobView) -> Option<JobEnd> {
    let condition =
        |type_: &str| job.status.conditions.iter().flatten().find(|condition| condition.type_ == type_ && condition.status == "True");
    if condition("Complete").is_some() {
        return Some(JobEnd::Complete);
    }
    let failed = condition("Failed")?;
    let texts = [&failed.reason, &failed.message].into_iter().flatten().filter(|text| !text.is_empty());
    Some(JobEnd::Failed(texts.cloned().collect::<Vec<_>>().join(": ")))
}

/// Why its controller creates no pod, although it has not ended.
fn held(job: &JobView) -> Option<String> {
    let managed_by = job.choices.managed_by.clone().map(|controller| Wait::ManagedBy { controller });
    let suspended = || (job.spec.suspend == Some(true)).then_some(Wait::JobSuspended);
    let without_pods = || (job.spec.parallelism == Some(0)).then(|| "its parallelism is 0".to_owned());
    managed_by.or_else(suspended).map(|wait| wait.to_string()).or_else(without_pods)
}

/// Whether it is known how long its pods run.
fn completes(job: &JobView) -> bool {
    let annotations = job.spec.template.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
    annotations.into_iter().flatten().any(|(key, value)| key.starts_with(SIM_COMPLETES_AFTER) && value != "never")
}

/// Whether all pods that can run at once are ready.
fn all_run(job: &JobView) -> bool {
    let (spec, status) = (&job.spec, &job.status);
    let left = spec.completions.map_or(i32::MAX, |completions| completions - status.succeeded.unwrap_or(0));
    let wanted = spec.parallelism.unwrap_or(1).min(left);
    [status.active.unwrap_or(0), status.ready.unwrap_or(0)] == [wanted; 2]
}
