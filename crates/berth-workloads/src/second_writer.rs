//! Detects another controller that writes the same objects as berth's controllers.
//!
//! A lease proves nothing: a kube-controller-manager still holds its lease with its three workload controllers off. The proof is a write
//! that only controllers make, by another field manager, after berth's controllers have started: a status, or a pod, a `ReplicaSet` or a
//! revision of an object.

use crate::view::ForeignWrite;
use berth_identity::ObjectKey;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// The evidence that another controller writes an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondWriter {
    /// The other field manager.
    pub manager: String,
    /// Its write.
    pub wrote: Wrote,
}

/// What another controller wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wrote {
    /// The object's status.
    Status,
    /// An object that the object controls: its kind and name.
    Owned {
        /// `Pod`, `ReplicaSet` or `ControllerRevision`.
        kind: String,
        /// Its name.
        name: String,
    },
}

impl fmt::Display for SecondWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.wrote {
            Wrote::Status => write!(f, "{} writes the status", self.manager),
            Wrote::Owned { kind, name } => write!(f, "{} writes {kind} {name}", self.manager),
        }
    }
}

/// The objects of one controller that another controller writes. An object is stopped until a restart, or until it is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// The newest foreign write before the start. Times are the API server's, so that no two clocks are compared.
    before: Option<Timestamp>,
    has_started: bool,
    stopped: BTreeMap<ObjectKey, SecondWriter>,
}

impl Guard {
    /// Records a foreign write to the status of `object` or to an object that it controls. Returns whether berth must stop on that object
    /// now.
    pub fn record(&mut self, object: &ObjectKey, write: &ForeignWrite, wrote: impl FnOnce() -> Wrote) -> bool {
        if !self.has_started {
            self.before = self.before.max(Some(write.at));
            return false;
        }
        if Some(write.at) <= self.before || self.stopped.contains_key(object) {
            return false;
        }
        self.stopped.insert(object.clone(), SecondWriter { manager: write.manager.to_string(), wrote: wrote() });
        true
    }

    /// Starts to count writes. Call it when the caches have synced.
    pub fn start(&mut self) {
        self.has_started = true;
    }

    /// The other controller of the object. `None` if none is known.
    #[must_use]
    pub fn stopped(&self, object: &ObjectKey) -> Option<&SecondWriter> {
        self.stopped.get(object)
    }

    /// Removes a deleted object, whose name may be reused.
    pub fn forget(&mut self, object: &ObjectKey) {
        self.stopped.remove(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> ForeignWrite {
        ForeignWrite { manager: "kube-controller-manager".into(), at: Timestamp::from_second(second).expect("a time") }
    }

    fn pod(name: &str) -> Wrote {
        Wrote::Owned { kind: "Pod".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn only_writes_after_the_start_prove_a_second_writer() {
        let (mut guard, web) = (Guard::default(), ObjectKey::new("shop", "web"));
        assert!(!guard.record(&web, &at(5), || Wrote::Status), "it was there at the start");
        assert!(!guard.record(&ObjectKey::new("shop", "db"), &at(3), || Wrote::Status));
        guard.start();
        assert!(!guard.record(&web, &at(5), || pod("web-1")), "seen again");
        assert!(!guard.record(&web, &at(4), || pod("web-2")), "an older write of another object");
        assert_eq!(guard.stopped(&web), None);
        assert!(guard.record(&web, &at(6), || pod("web-3")));
        assert_eq!(guard.stopped(&web).map(ToString::to_string).as_deref(), Some("kube-controller-manager writes Pod web-3"));
    }

    #[test]
    fn an_object_is_stopped_once_and_alone_until_it_is_deleted() {
        let (mut guard, web, db) = (Guard::default(), ObjectKey::new("shop", "web"), ObjectKey::new("shop", "db"));
        guard.start();
        assert!(guard.record(&web, &at(0), || Wrote::Status), "with nothing at the start any write counts");
        assert!(!guard.record(&web, &at(9), || pod("web-1")), "reported once");
        assert_eq!(guard.stopped(&web).map(ToString::to_string).as_deref(), Some("kube-controller-manager writes the status"));
        assert_eq!(guard.stopped(&db), None);
        guard.forget(&web);
        assert_eq!(guard, Guard { has_started: true, ..Guard::default() });
    }
}
