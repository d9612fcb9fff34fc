//! What the checks read of a Job.

use super::{Condition, Metadata};
use serde::Deserialize;
use std::{collections::BTreeSet, fmt};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Job {
    pub(crate) metadata: Metadata,
    pub(crate) spec: JobSpec,
    pub(crate) status: JobStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct JobSpec {
    pub(crate) parallelism: i64,
    pub(crate) completions: Option<i64>,
    completion_mode: String,
    pub(crate) suspend: bool,
    pod_replacement_policy: String,
    pub(crate) pod_failure_policy: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct JobStatus {
    pub(crate) succeeded: i64,
    pub(crate) failed: i64,
    completed_indexes: String,
    failed_indexes: String,
    pub(crate) uncounted_terminated_pods: Uncounted,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Uncounted {
    pub(crate) succeeded: Vec<String>,
    pub(crate) failed: Vec<String>,
}

impl Job {
    pub(crate) fn is_indexed(&self) -> bool {
        self.spec.completion_mode == "Indexed"
    }

    /// Whether a pod is replaced only when it has the phase `Failed`.
    pub(crate) fn waits_for_end(&self) -> bool {
        self.spec.pod_replacement_policy == "Failed"
    }

    /// Whether it has ended, and all its pods with it.
    pub(crate) fn is_finished(&self) -> bool {
        self.has("Complete") || self.has("Failed")
    }

    /// Whether its end is decided.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_finished() || self.has("SuccessCriteriaMet") || self.has("FailureTarget")
    }

    fn has(&self, type_: &str) -> bool {
        self.status.conditions.iter().any(|condition| condition.type_ == type_ && condition.status == "True")
    }

    pub(crate) fn completed_indexes(&self) -> BTreeSet<i64> {
        indexes(&self.status.completed_indexes)
    }

    pub(crate) fn failed_indexes(&self) -> BTreeSet<i64> {
        indexes(&self.status.failed_indexes)
    }
}

/// Reads `1,3-5`.
fn indexes(text: &str) -> BTreeSet<i64> {
    let number = |text: &str| text.parse::<i64>().ok();
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => Some(number(first)?..=number(last)?),
        None => Some(number(part)?..=number(part)?),
    };
    text.split(',').filter_map(range).flatten().collect()
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JobStatus { succeeded, failed, completed_indexes, uncounted_terminated_pods: listed, conditions, .. } = &self.status;
        let conditions: Vec<_> =
            conditions.iter().filter(|condition| condition.status == "True").map(|condition| condition.type_.as_str()).collect();
        let listed = listed.succeeded.len() + listed.failed.len();
        write!(f, "succeeded={succeeded} failed={failed} listed={listed} indexes={completed_indexes} {}", conditions.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::indexes;

    #[test]
    fn ranges_of_indexes_are_read() {
        assert_eq!(indexes("1,3-5,7").into_iter().collect::<Vec<_>>(), [1, 3, 4, 5, 7]);
        assert!(indexes("").is_empty());
    }
}
