//! The pods of Jobs: one cache of them alone, and what plans find in it.

use crate::{
    cache::{Cache, Index},
    cluster::{Change, RawObject},
    owners::Orphans,
};
use berth_api::decode::from_json;
use berth_identity::{ObjectKey, Uid};
use berth_workloads::{
    job::{backoff::FailureStreak, counted_end},
    selector::Selector,
    view::{JobPodView, PodReplacement, View, concerns_jobs},
};
use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// All pods that concern Jobs: those that a Job controls, and those without a controller, which a Job can adopt.
pub type JobPodCache = Cache<JobPodView, JobPodIndex>;

/// The changes of pods that concern Jobs. A pod that no longer does counts as deleted.
#[must_use]
pub(super) fn of_jobs(changes: BoxStream<'static, Change>) -> BoxStream<'static, Change> {
    changes.map(leave_out_others).boxed()
}

fn leave_out_others(change: Change) -> Change {
    match change {
        Change::Applied { key, object } if !concerns_a_job(&object) => Change::Deleted { key, revision: object.revision },
        other => other,
    }
}

/// A pod that cannot be read is left to the cache, which reports it.
fn concerns_a_job(pod: &RawObject) -> bool {
    if let Some(read) = &pod.object {
        return concerns_jobs(read.meta().owner_references.as_deref().unwrap_or_default());
    }
    let owned = from_json::<Owned>(&pod.json);
    owned.map_or(true, |owned| concerns_jobs(owned.metadata.owner_references.as_deref().unwrap_or_default()))
}

#[derive(Deserialize)]
struct Owned {
    #[serde(default)]
    metadata: OwnedMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnedMetadata {
    owner_references: Option<Vec<OwnerReference>>,
}

/// The pods of each Job that its plans read, and how its other pods ended. A pod that has ended and is counted costs nothing.
#[derive(Debug, Default)]
pub struct JobPodIndex {
    by_job: BTreeMap<Uid, PodsOfJob>,
    /// Uids of Jobs by namespace and name: several where a Job replaced another of its name.
    uids: BTreeMap<ObjectKey, BTreeSet<Uid>>,
    orphans: Orphans<JobPodView>,
    /// Pods with the finalizer and without a controller.
    abandoned: BTreeMap<ObjectKey, Arc<JobPodView>>,
}

/// What is known of the pods of one Job.
#[derive(Debug, Default)]
struct PodsOfJob {
    /// Those that have not ended, or are not counted.
    open: BTreeMap<ObjectKey, Arc<JobPodView>>,
    /// How those ended that are counted, if pods count as failed when they terminate.
    past_by_termination: FailureStreak,
    /// The same, if pods count as failed when they have the phase `Failed`.
    past_by_phase: FailureStreak,
}

impl JobPodIndex {
    /// The pods of the Job with this uid that its plans read.
    pub fn open(&self, job: &Uid) -> impl Iterator<Item = &Arc<JobPodView>> {
        self.by_job.get(job).into_iter().flat_map(|pods| pods.open.values())
    }

    /// How the counted pods of a Job ended.
    #[must_use]
    pub fn past(&self, job: &Uid, replacement: PodReplacement) -> FailureStreak {
        let past = self.by_job.get(job).map(|pods| match replacement {
            PodReplacement::TerminatingOrFailed => &pods.past_by_termination,
            PodReplacement::Failed => &pods.past_by_phase,
        });
        past.cloned().unwrap_or_default()
    }

    /// The pods of a namespace that no controller has and that `selector` matches.
    pub fn orphans<'a>(&'a self, namespace: &'a str, selector: Option<&'a Selector>) -> impl Iterator<Item = &'a Arc<JobPodView>> {
        selector.into_iter().flat_map(|selector| self.orphans.selected(namespace, selector))
    }

    /// The pods of a namespace that have the finalizer and no controller.
    pub fn abandoned<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<JobPodView>> {
        let here = self.abandoned.range(ObjectKey::new(namespace, "")..);
        here.take_while(move |(key, _)| key.namespace == *namespace).map(|(_, pod)| pod)
    }

    /// The uids of all Jobs that had this key and whose pods are known.
    #[must_use]
    pub fn uids(&self, job: &ObjectKey) -> Vec<Uid> {
        self.uids.get(job).into_iter().flatten().cloned().collect()
    }

    /// The Job with this uid no longer exists. Forgets it, if it has no pod that is open.
    pub fn forget(&mut self, job: &ObjectKey, uid: &Uid) {
        if self.open(uid).next().is_some() {
            return;
        }
        self.by_job.remove(uid);
        if let Some(uids) = self.uids.get_mut(job) {
            uids.remove(uid);
            if uids.is_empty() {
                self.uids.remove(job);
            }
        }
    }

    fn of_job(&mut self, pod: &JobPodView) -> Option<&mut PodsOfJob> {
        let owner = pod.job()?;
        let uid = Uid::from(&owner.uid);
        if !self.by_job.contains_key(&uid) {
            self.uids.entry(ObjectKey::new(&pod.pod.meta.namespace, &owner.name)).or_default().insert(uid.clone());
        }
        Some(self.by_job.entry(uid).or_default())
    }

    fn remove(&mut self, pod: &JobPodView) {
        let key = pod.key();
        match pod.job() {
            Some(owner) => {
                self.by_job.get_mut(owner.uid.as_str()).and_then(|pods| pods.open.remove(&key));
            }
            None => {
                self.orphans.remove(pod);
                self.abandoned.remove(&key);
            }
        }
    }

    fn insert(&mut self, pod: &Arc<JobPodView>) {
        let is_open = pod.is_tracked() || !pod.pod.phase.is_finished();
        match self.of_job(pod) {
            Some(pods) if is_open => drop(pods.open.insert(pod.key(), Arc::clone(pod))),
            Some(_) => (),
            None => {
                self.orphans.add(pod);
                if pod.is_tracked() {
                    self.abandoned.insert(pod.key(), Arc::clone(pod));
                }
            }
        }
    }

    /// Notes how a pod ended that its Job has counted. A pod that lost its owner at the same time was not counted.
    fn note_end(&mut self, old: Option<&JobPodView>, new: Option<&JobPodView>) {
        let Some(pod) = new.or(old) else { return };
        let ends = [PodReplacement::TerminatingOrFailed, PodReplacement::Failed].map(|replacement| counted_end(old, new, replacement));
        if ends == [None, None] {
            return;
        }
        let Some(pods) = self.of_job(pod) else { return };
        let pasts = [&mut pods.past_by_termination, &mut pods.past_by_phase];
        for (end, past) in ends.into_iter().zip(pasts) {
            end.into_iter().for_each(|end| past.take_in(end));
        }
    }
}

impl Index<JobPodView> for JobPodIndex {
    fn change(&mut self, old: Option<&Arc<JobPodView>>, new: Option<&Arc<JobPodView>>) {
        old.into_iter().for_each(|old| self.remove(old));
        new.into_iter().for_each(|new| self.insert(new));
        self.note_end(old.map(|pod| &**pod), new.map(|pod| &**pod));
    }
}
