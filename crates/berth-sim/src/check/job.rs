//! How many pods a Job has, that none of them is counted twice or lost, and that no index runs again after it has ended.

use super::{Checker, Presence, Uid, Violation, violated};
use crate::facts::{Job, Pod};
use berth_store::env::Timestamp;
use std::collections::{BTreeSet, VecDeque};

/// A Job, and what its status has reported so far.
#[derive(Debug, Default)]
pub(super) struct TrackedJob {
    newest: Job,
    /// Sizes that it had, and until when. A controller that lags can still create pods for them.
    former: VecDeque<(i64, Timestamp)>,
    /// Since when it is, or is not, suspended.
    suspended_since: Option<Timestamp>,
    /// Uids of pods that were ever listed.
    succeeded: BTreeSet<Uid>,
    failed: BTreeSet<Uid>,
    /// Indexes of which a pod has succeeded, and since when.
    ended: Vec<(i64, Timestamp)>,
    /// Indexes of which a pod has succeeded, also one that was being deleted.
    succeeded_indexes: BTreeSet<i64>,
}

impl TrackedJob {
    fn size_max(&self) -> i64 {
        self.former.iter().map(|(size, _)| *size).chain([self.newest.spec.parallelism]).max().unwrap_or(0)
    }
}

impl Checker {
    /// Takes a change of a Job in, and compares what its status counts with what it listed before.
    pub(super) fn take_in_job(&mut self, job: Job, presence: Presence, now: Timestamp) -> Result<String, Violation> {
        let (text, uid) = (job.to_string(), job.metadata.uid.clone());
        let mut known = self.jobs.remove(&uid).unwrap_or_default();
        if presence == Presence::Gone {
            return Ok(text);
        }
        if known.newest.metadata.uid == uid {
            check_counts(&mut known, &job)?;
            let (old, new) = (&known.newest.spec, &job.spec);
            if old.parallelism != new.parallelism {
                known.former.push_back((old.parallelism, now));
            }
            if old.suspend != new.suspend {
                known.suspended_since = Some(now);
            }
        }
        while known.former.front().is_some_and(|(_, until)| self.is_known(*until, now)) {
            known.former.pop_front();
        }
        let was_finished = known.newest.is_finished();
        known.newest = job;
        let is_new_end = known.newest.is_finished() && !was_finished;
        self.jobs.insert(uid.clone(), known);
        if is_new_end { self.check_end_of_job(&uid).map(|()| text) } else { Ok(text) }
    }

    /// A Job is finished when all its pods have ended and are counted.
    fn check_end_of_job(&self, uid: &str) -> Result<(), Violation> {
        let Some(TrackedJob { newest: job, .. }) = self.jobs.get(uid) else { return Ok(()) };
        let name = &job.metadata.name;
        let listed = &job.status.uncounted_terminated_pods;
        if !(listed.succeeded.is_empty() && listed.failed.is_empty()) {
            return violated(format!("Job {name} is finished, and pods are listed that are not counted"));
        }
        match self.pods_of(uid).find(|pod| !pod.is_finished() || pod.is_counted_later()) {
            Some(pod) => violated(format!("Job {name} is finished, and its pod {} has not ended or is not counted", pod.metadata.name)),
            None => Ok(()),
        }
    }

    /// Checks a change of a pod against the Job that controls it. The pod is among the known ones, if it is there.
    pub(super) fn check_pod_of_job(
        &mut self,
        before: Option<&Pod>,
        pod: &Pod,
        presence: Presence,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let uid = pod.metadata.controller().to_owned();
        let Some(job) = self.jobs.get_mut(&uid) else { return Ok(()) };
        if pod.status.phase == "Succeeded" {
            job.succeeded_indexes.extend(pod.index());
        }
        let Some(job) = self.jobs.get(&uid) else { return Ok(()) };
        if before.is_none() && presence == Presence::There {
            return self.check_new_pod_of_job(job, pod, now);
        }
        let Some(before) = before else { return Ok(()) };
        if before.is_counted_later() && !(pod.is_counted_later() && presence == Presence::There) {
            check_release(job, pod)?;
        }
        let has_succeeded = pod.status.phase == "Succeeded" && before.status.phase != "Succeeded";
        let ended = pod.index().filter(|_| has_succeeded && pod.metadata.deletion_timestamp.is_none());
        if let Some(index) = ended
            && let Some(job) = self.jobs.get_mut(&uid)
        {
            job.ended.push((index, now));
        }
        Ok(())
    }

    fn check_new_pod_of_job(&self, job: &TrackedJob, pod: &Pod, now: Timestamp) -> Result<(), Violation> {
        let (newest, name) = (&job.newest, &pod.metadata.name);
        let waits = newest.waits_for_end();
        let occupied = self.pods_of(&newest.metadata.uid).filter(|pod| pod.is_live() || waits && pod.is_terminating()).count();
        if job.size_max() < i64::try_from(occupied).unwrap_or(i64::MAX) {
            return violated(format!("Job {} has {occupied} pods, and its parallelism is {}", newest.metadata.name, job.size_max()));
        }
        if newest.is_ending() {
            return violated(format!("pod {name} is created for Job {}, which ends", newest.metadata.name));
        }
        let is_known = |since: Option<Timestamp>| since.is_none_or(|since| self.is_known(since, now));
        if newest.spec.suspend && is_known(job.suspended_since) {
            return violated(format!("pod {name} is created for Job {}, which is suspended", newest.metadata.name));
        }
        if !pod.is_counted_later() {
            return violated(format!("pod {name} has no finalizer, so that it can be lost"));
        }
        if newest.is_indexed() { self.check_index(job, pod) } else { self.check_completions(job) }
    }

    /// No index runs twice at once, or again after it has ended.
    fn check_index(&self, job: &TrackedJob, pod: &Pod) -> Result<(), Violation> {
        let (newest, name) = (&job.newest, &pod.metadata.name);
        let Some(index) = pod.index() else { return violated(format!("pod {name} has no index")) };
        if job.ended.iter().any(|(ended, _)| *ended == index) || newest.completed_indexes().contains(&index) {
            return violated(format!("pod {name} is created for index {index}, which has succeeded"));
        }
        if newest.failed_indexes().contains(&index) {
            return violated(format!("pod {name} is created for index {index}, which has failed"));
        }
        let mut others =
            self.pods_of(&newest.metadata.uid).filter(|other| other.index() == Some(index) && other.metadata.uid != pod.metadata.uid);
        let waits = newest.waits_for_end();
        match others.find(|other| other.is_live() || waits && other.is_terminating()) {
            Some(other) => violated(format!("pods {name} and {} of index {index} run at the same time", other.metadata.name)),
            None => Ok(()),
        }
    }

    /// No more pods run than can still succeed.
    fn check_completions(&self, job: &TrackedJob) -> Result<(), Violation> {
        let Some(completions) = job.newest.spec.completions else { return Ok(()) };
        let is_new_success =
            |pod: &&Pod| pod.status.phase == "Succeeded" && pod.is_counted_later() && !job.succeeded.contains(&pod.metadata.uid);
        let pods = || self.pods_of(&job.newest.metadata.uid);
        let all = pods().filter(|pod| pod.is_live()).count() + pods().filter(is_new_success).count() + job.succeeded.len();
        match completions < i64::try_from(all).unwrap_or(i64::MAX) {
            true => violated(format!("Job {} has {all} pods that run or have succeeded, of {completions}", job.newest.metadata.name)),
            false => Ok(()),
        }
    }
}

/// Each uid is listed once, each listed uid becomes one count, and no count decreases.
fn check_counts(known: &mut TrackedJob, new: &Job) -> Result<(), Violation> {
    let old = known.newest.clone();
    let name = &new.metadata.name;
    let is_by_index = new.is_indexed();
    let (before, after) = (&old.status, &new.status);
    let lists = [
        (
            "succeeded",
            before.succeeded,
            after.succeeded,
            &before.uncounted_terminated_pods.succeeded,
            &after.uncounted_terminated_pods.succeeded,
            &mut known.succeeded,
        ),
        (
            "failed",
            before.failed,
            after.failed,
            &before.uncounted_terminated_pods.failed,
            &after.uncounted_terminated_pods.failed,
            &mut known.failed,
        ),
    ];
    for (what, count_before, count_after, listed_before, listed_after, ever) in lists {
        for uid in listed_after.iter().filter(|uid| !listed_before.contains(uid)) {
            if !ever.insert(uid.clone()) {
                return violated(format!("Job {name} lists pod {uid} in {what} again"));
            }
        }
        if count_after < count_before {
            return violated(format!("{what} of Job {name} decreases from {count_before} to {count_after}"));
        }
        let all = count_after + i64::try_from(listed_after.len()).unwrap_or(i64::MAX);
        let counts_indexes = is_by_index && what == "succeeded";
        if !counts_indexes && all != i64::try_from(ever.len()).unwrap_or(i64::MAX) {
            return violated(format!("{what} of Job {name} is {count_after}, with {} listed, of {} pods", listed_after.len(), ever.len()));
        }
    }
    if let Some(uid) = known.succeeded.intersection(&known.failed).next() {
        return violated(format!("pod {uid} of Job {name} counts as succeeded and as failed"));
    }
    let (completed, failed) = (new.completed_indexes(), new.failed_indexes());
    if !old.completed_indexes().is_subset(&completed) || !old.failed_indexes().is_subset(&failed) || !completed.is_disjoint(&failed) {
        return violated(format!("indexes of Job {name} were lost, or have both results: {completed:?} {failed:?}"));
    }
    if let Some(index) = completed.difference(&known.succeeded_indexes).next() {
        return violated(format!("Job {name} counts index {index}, of which no pod has succeeded"));
    }
    if is_by_index && i64::try_from(completed.len()).unwrap_or(i64::MAX) != after.succeeded {
        return violated(format!("Job {name} has {} completed indexes, and counts {}", completed.len(), after.succeeded));
    }
    Ok(())
}

/// A pod that has ended loses the finalizer when the status lists it. A policy can except it.
fn check_release(job: &TrackedJob, pod: &Pod) -> Result<(), Violation> {
    let newest = &job.newest;
    let uid = &pod.metadata.uid;
    let is_listed = job.succeeded.contains(uid) || job.failed.contains(uid);
    let is_by_index = pod.status.phase == "Succeeded" && pod.index().is_some_and(|index| newest.completed_indexes().contains(&index));
    let is_excepted = !pod.is_finished()
        || newest.spec.pod_failure_policy.is_some()
        || newest.is_finished()
        || newest.metadata.deletion_timestamp.is_some();
    match is_listed || is_by_index || is_excepted {
        true => Ok(()),
        false => violated(format!("pod {} of Job {} has ended and is not counted", pod.metadata.name, newest.metadata.name)),
    }
}
