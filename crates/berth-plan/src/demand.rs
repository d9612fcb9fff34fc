//! How much the workloads of a cluster demand of a simulation, which makes all their pods. The figures are a user's: each of them has a bound in
//! the API, their product has none there.

use crate::{error::PlanError, snapshot::entries};
use serde_json::Value;

/// More pods than these no workloads may want together.
const PODS_MAX: u64 = 200_000;
/// What their templates may come to together, once for each pod, in bytes of JSON.
const BYTES_MAX: u64 = 1 << 30;

/// What workloads want together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    pods: u64,
    bytes: u64,
}

impl Demand {
    /// Of one object; nothing of what is no workload, or wanted by another one.
    pub(crate) fn of(object: &Value) -> Self {
        let is_owned = || entries(&object["metadata"]["ownerReferences"]).any(|owner| owner["controller"] == true);
        let is_workload = match object["kind"].as_str() {
            Some("Deployment" | "StatefulSet") => true,
            Some("ReplicaSet") => !is_owned(),
            _ => false,
        };
        if !is_workload {
            return Self::default();
        }
        let pods = object["spec"]["replicas"].as_u64().unwrap_or(1);
        // With claims, of which each pod has its own.
        Self { pods, bytes: pods.saturating_mul(object["spec"].to_string().len() as u64) }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.pods = self.pods.saturating_add(other.pods);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    pub(crate) fn subtract(&mut self, other: Self) {
        self.pods = self.pods.saturating_sub(other.pods);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }

    /// Whether a simulation can make them.
    ///
    /// # Errors
    /// [`PlanError::TooMuch`].
    pub(crate) fn check(self) -> Result<Self, PlanError> {
        let Self { pods, bytes } = self;
        match (PODS_MAX < pods, BYTES_MAX < bytes) {
            (true, _) => Err(PlanError::TooMuch { what: format!("{pods} pods"), most: format!("{PODS_MAX} pods") }),
            (_, true) => Err(PlanError::TooMuch { what: format!("{pods} pods of {bytes} bytes"), most: format!("{BYTES_MAX} bytes") }),
            _ => Ok(self),
        }
    }
}

impl<'a> FromIterator<&'a Value> for Demand {
    fn from_iter<I: IntoIterator<Item = &'a Value>>(objects: I) -> Self {
        let mut all = Self::default();
        objects.into_iter().for_each(|object| all.add(Self::of(object)));
        all
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
        let check = |objects: &[Value]| objects.iter().collect::<Demand>().check().map(drop).map_err(|error| error.to_string());
        assert_eq!(check(&[workload("Deployment", 100_000, 10), workload("StatefulSet", 100_000, 10)]), Ok(()));
        let refused = check(&[workload("Deployment", 2_147_483_647, 10)]).expect_err("too many");
        assert_eq!(refused, "the workloads want 2147483647 pods together; a simulation makes 200000 pods at most");
        assert!(check(&[workload("Deployment", 100_000, 10), workload("ReplicaSet", 100_001, 10)]).is_err());
        assert!(check(&[workload("Deployment", 2_000, 600_000)]).is_err(), "few pods that are large");
        assert_eq!(check(&[workload("Pod", 2_147_483_647, 10)]), Ok(()), "nobody makes pods of it");
        let owned = json!({"kind": "ReplicaSet", "metadata": {"ownerReferences": [{"controller": true}]}, "spec": {"replicas": 500_000}});
        assert_eq!(check(&[owned]), Ok(()), "its owner counts");
        assert!(check(&[workload("Deployment", u64::MAX, 10), workload("Deployment", u64::MAX, 10)]).is_err());
    }
}
