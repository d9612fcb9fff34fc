//! The load of a cluster's workloads on a simulation, which creates all their pods. Users choose the figures. The API limits each of them,
//! but not their product.

use crate::{error::PlanError, snapshot::entries};
use serde_json::{Value, json};

/// The maximum number of pods of all workloads.
const PODS_MAX: u64 = 200_000;
/// The maximum size of their templates, once for each pod, in bytes of JSON.
const BYTES_MAX: u64 = 1 << 30;
/// The factor for ReplicaSets: during a rolling update they have more pods than their Deployment's spec.
const SETS: u64 = 2;

/// The total demand of workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    /// Of workloads that users create.
    wanted: Pods,
    /// Of all ReplicaSets, whatever their owner: a user may claim an owner that does not exist.
    sets: Pods,
}

/// A number of pods, and the bytes of their templates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pods {
    count: u64,
    bytes: u64,
}

impl Pods {
    fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    fn subtract(&mut self, other: Self) {
        self.count = self.count.saturating_sub(other.count);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }

    fn check(self, times: u64) -> Result<(), PlanError> {
        let Self { count, bytes } = self;
        let (count_max, bytes_max) = (PODS_MAX * times, BYTES_MAX * times);
        match (count_max < count, bytes_max < bytes) {
            (true, _) => Err(PlanError::TooMuch { what: format!("{count} pods"), most: format!("{count_max} pods") }),
            (_, true) => Err(PlanError::TooMuch { what: format!("{count} pods of {bytes} bytes"), most: format!("{bytes_max} bytes") }),
            _ => Ok(()),
        }
    }
}

impl Demand {
    /// The demand of all objects together, on this number of nodes.
    pub(crate) fn of_all(objects: &[Value], nodes: usize) -> Self {
        let mut all = Self::default();
        objects.iter().for_each(|object| all.add(Self::of(object, nodes)));
        all
    }

    /// The demand of one object on this number of nodes. Zero if it is not a workload.
    pub(crate) fn of(object: &Value, nodes: usize) -> Self {
        let is_owned = || entries(&object["metadata"]["ownerReferences"]).any(|owner| owner["controller"] == true);
        let pods = |count: u64| {
            // Includes the claims, of which each pod has its own.
            Pods { count, bytes: count.saturating_mul(object["spec"].to_string().len() as u64) }
        };
        let replicas = || pods(object["spec"]["replicas"].as_u64().unwrap_or(1));
        match object["kind"].as_str() {
            Some("Job") => {
                let count = |member: &str| object["spec"][member].as_u64().unwrap_or(1);
                Self { wanted: pods(count("completions").max(count("parallelism"))), sets: Pods::default() }
            }
            Some("Deployment" | "StatefulSet" | "ReplicationController") => Self { wanted: replicas(), sets: Pods::default() },
            // Without any node, one is assumed.
            Some("DaemonSet") => Self { wanted: pods((nodes as u64).max(1)), sets: Pods::default() },
            Some("ReplicaSet") if is_owned() => Self { wanted: Pods::default(), sets: replicas() },
            Some("ReplicaSet") => Self { wanted: replicas(), sets: replicas() },
            _ => Self::default(),
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.wanted.add(other.wanted);
        self.sets.add(other.sets);
    }

    /// Counts a workload with another number of replicas. Without `object`, it is one of this kind.
    pub(crate) fn resize(&mut self, object: Option<&Value>, kind: &str, replicas: i32) {
        let mut object = object.cloned().unwrap_or_else(|| json!({ "kind": kind }));
        self.subtract(Self::of(&object, 0));
        object["spec"]["replicas"] = json!(replicas);
        self.add(Self::of(&object, 0));
    }

    pub(crate) fn subtract(&mut self, other: Self) {
        self.wanted.subtract(other.wanted);
        self.sets.subtract(other.sets);
    }

    /// Checks that a simulation can create the pods.
    ///
    /// # Errors
    /// [`PlanError::TooMuch`].
    pub(crate) fn check(self) -> Result<Self, PlanError> {
        self.wanted.check(1)?;
        self.sets.check(SETS)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workload(kind: &str, replicas: u64, text: usize) -> Value {
        json!({"kind": kind, "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "x".repeat(text)}]}}}})
    }

    #[test]
    fn pods_and_what_their_templates_come_to_are_bounded_together() {
        let check = |objects: &[Value]| Demand::of_all(objects, 50_000).check().map(drop).map_err(|error| error.to_string());
        assert_eq!(check(&[workload("Deployment", 100_000, 10), workload("StatefulSet", 100_000, 10)]), Ok(()));
        let refused = check(&[workload("Deployment", 2_147_483_647, 10)]).expect_err("too many");
        assert_eq!(refused, "the workloads need 2147483647 pods together; a simulation creates at most 200000 pods");
        assert!(check(&[workload("Deployment", 100_000, 10), workload("ReplicaSet", 100_001, 10)]).is_err());
        assert_eq!(check(&[workload("Deployment", 150_000, 10), workload("DaemonSet", 0, 10)]), Ok(()));
        assert!(check(&[workload("Deployment", 150_001, 10), workload("DaemonSet", 0, 10)]).is_err(), "a pod on each of 50,000 nodes");
        assert!(check(&[workload("Deployment", 2_000, 600_000)]).is_err(), "few pods that are large");
        assert_eq!(check(&[workload("Pod", 2_147_483_647, 10)]), Ok(()), "nothing creates pods of it");
        let job = |member: &str| json!({"kind": "Job", "spec": {member: 200_001}});
        assert!(["completions", "parallelism"].iter().all(|member| check(&[job(member)]).is_err()));
        let owned = |replicas: u64| {
            let owners = json!([{"controller": true, "kind": "ConfigMap", "name": "none"}]);
            json!({"kind": "ReplicaSet", "metadata": {"ownerReferences": owners}, "spec": {"replicas": replicas}})
        };
        assert_eq!(check(&[workload("Deployment", 200_000, 10), owned(200_000), owned(200_000)]), Ok(()), "its sets do not count again");
        assert!(check(&[owned(200_000), owned(200_001)]).is_err(), "the owner may not exist");
        assert!(check(&[workload("Deployment", u64::MAX, 10), workload("Deployment", u64::MAX, 10)]).is_err());
    }
}
