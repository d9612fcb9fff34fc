//! What the controllers report: waits, rejected objects and warnings.

use super::Observer;
use crate::{
    controller_log::{Observations, RejectedBy},
    forecast::TroubleKind,
};
use berth_identity::Uid;
use berth_workloads::workload::WorkloadId;
use std::{sync::Arc, time::Duration};

impl Observer {
    /// Processes the new reports of the controllers.
    pub(crate) fn read_log(&mut self) {
        let log = Arc::clone(&self.log);
        let observations = &mut *log.observations();
        for waiting in std::mem::take(&mut observations.waits) {
            let at = self.at(waiting.at);
            if let Some(index) = self.index_of(&waiting.workload) {
                self.tracked[index].wait(&waiting.waits, at);
                self.judge(index, at);
            }
        }
        for rest in std::mem::take(&mut observations.rests) {
            if let Some(index) = self.index_of(&rest.workload) {
                self.tracked[index].is_at_rest = rest.is_at_rest;
                self.judge(index, self.at(rest.at));
            }
        }
        if self.is_begun {
            self.take_rejections(observations);
            self.take_warnings(observations);
        }
    }

    /// The index of a changed workload, once the change is made.
    fn index_of(&self, workload: &WorkloadId) -> Option<usize> {
        self.tracked.iter().position(|tracked| tracked.id == *workload).filter(|_| self.is_begun)
    }

    /// Processes rejected objects of the workloads.
    fn take_rejections(&mut self, observations: &mut Observations) {
        for rejection in std::mem::take(&mut observations.rejections) {
            if rejection.at < self.began {
                continue;
            }
            let kind = match rejection.by {
                RejectedBy::Quota => TroubleKind::Quota,
                RejectedBy::Server => TroubleKind::Refused,
            };
            if let Some(other) = self.others.iter().position(|other| other.uid == rejection.about) {
                let text = format!("{}: {}", self.others[other].title(), rejection.message);
                self.first_trouble_of_other(kind, self.at(rejection.at), other, text);
            }
            let Some(index) = self.workload_of(&rejection.about) else { continue };
            let whose = match self.sets.get(&rejection.about) {
                Some(set) => set.name.clone(),
                None => self.tracked[index].id.name.to_string(),
            };
            self.first_trouble(kind, self.at(rejection.at), index, (format!("{whose}: "), &rejection.message));
        }
    }

    /// Processes the warnings about the workloads and their objects.
    fn take_warnings(&mut self, observations: &Observations) {
        for (time, event) in &observations.warnings[self.heard.min(observations.warnings.len())..] {
            let about = &event["involvedObject"];
            let uid = Uid::from(about["uid"].as_str().unwrap_or_default().to_owned());
            if *time < self.began {
                continue;
            }
            let other = self.pods.get(&uid).and_then(|pod| pod.other);
            if let Some(other) = other.filter(|_| event["reason"] == "FailedScheduling") {
                let message = event["message"].as_str().unwrap_or_default();
                let text = format!("no node fits a pod of {}: {message}", self.others[other].title());
                self.first_trouble_of_other(TroubleKind::Unschedulable, self.at(*time), other, text);
            }
            let Some(index) = self.workload_of(&uid) else { continue };
            let kind = match event["reason"].as_str().unwrap_or_default() {
                "FailedScheduling" => TroubleKind::Unschedulable,
                "AutomaticRollback" => TroubleKind::RolledBack,
                "AutomaticRollbackSkipped" | "RollbackFailed" => TroubleKind::Never,
                _ => continue,
            };
            // The names of a ReplicaSet's pods are not predictable.
            let name = || about["name"].as_str().unwrap_or_default().to_owned();
            let whose = self.pods.get(&uid).map_or_else(name, |pod| format!("a pod of {}", pod.owner));
            let about = if kind == TroubleKind::Unschedulable { format!("no node fits {whose}: ") } else { format!("{whose}: ") };
            self.first_trouble(kind, self.at(*time), index, (about, event["message"].as_str().unwrap_or_default()));
        }
        self.heard = observations.warnings.len();
    }

    /// Records the first problem of this kind about this object. Later ones differ only in their figures.
    fn first_trouble(&mut self, kind: TroubleKind, at: Duration, index: usize, (about, message): (String, &str)) {
        let workload = Some(&self.tracked[index].id);
        if !self.troubles.iter().any(|known| known.kind == kind && known.about.as_ref() == workload && known.text.starts_with(&about)) {
            self.trouble(kind, at, Some(index), about + message);
        }
    }

    /// The same for a Job or a ReplicationController.
    fn first_trouble_of_other(&mut self, kind: TroubleKind, at: Duration, other: usize, text: String) {
        if self.others[other].troubles.insert(kind) {
            self.trouble(kind, at, None, text);
        }
    }

    /// The index of the workload with this uid, or with this pod or set.
    fn workload_of(&self, uid: &Uid) -> Option<usize> {
        let of_set = self.sets.get(uid).and_then(|set| set.target);
        let of_pod = || self.pods.get(uid).and_then(|pod| pod.target);
        of_set.or_else(of_pod).or_else(|| self.tracked.iter().position(|tracked| tracked.uid == *uid))
    }
}
