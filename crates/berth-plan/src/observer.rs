//! Observes a simulation while it runs: only what its store shows and its controllers report.

mod log;
mod others;

use crate::{
    controller_log::{ControllerLog, Observations, SetChange},
    count_history::CountHistory,
    forecast::{QuotaPeak, Step, StepKind, Trouble, TroubleKind, Victim},
    nodes::Nodes,
    others::{OtherKind, TrackedOther},
    times::since,
    tracked_workload::{LiveWorkload, TrackedWorkload},
    version::{Changed, Version},
};
use berth_api::{FeatureGates, Object, decode::from_json, quantity::Quantity};
use berth_identity::{Lookup, NodeName, ObjectKey, Revision, RolloutRevision, Uid};
use berth_node::{resources::Amounts, scheduler::PodInfo};
use berth_store::{Entry, EventKind, env::Timestamp};
use berth_workloads::{
    deployment::annotations,
    pod_state::PodState,
    stateful_set::{REVISION_LABEL, member_ordinal},
    view::{BudgetView, DaemonSetView, DeploymentView, EventView, PodView, ReplicaSetView, RevisionView, StatefulSetView},
    workload::{WorkloadId, WorkloadKind},
};
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Events of one kind within this time are one step.
const ONE_STEP: Duration = Duration::from_millis(150);
/// How long a rollout without a deadline may make no progress, in addition to the time of its pods.
const PATIENCE: Duration = Duration::from_secs(600);

/// The observations since the change.
pub(crate) struct Observer {
    gates: FeatureGates,
    log: Arc<ControllerLog>,
    pub(crate) began: Timestamp,
    pub(crate) tracked: Vec<TrackedWorkload>,
    pub(crate) others: Vec<TrackedOther>,
    /// The objects before the change, by key: plural and JSON.
    before: BTreeMap<String, (String, Arc<Entry>)>,
    is_begun: bool,
    sets: BTreeMap<Uid, Set>,
    /// The ControllerRevision with the highest number, by its owner: number and hash.
    revisions: BTreeMap<Uid, (RolloutRevision, String)>,
    pods: Lookup<Uid, Pod>,
    /// Ready pods that become available by time alone.
    ripening: BTreeSet<(Timestamp, Uid)>,
    pub(crate) nodes: Nodes,
    quotas: BTreeMap<(ObjectKey, String), Quota>,
    /// The number of processed warnings.
    heard: usize,
    /// Budgets that had fewer pods than they require before the change.
    short: BTreeSet<ObjectKey>,
    pub(crate) troubles: Vec<Trouble>,
    /// When a rollout last progressed.
    pub(crate) progressed: Timestamp,
}

struct Set {
    name: String,
    target: Option<usize>,
    replicas: i64,
    /// The number of its revision.
    number: Option<RolloutRevision>,
}

struct Pod {
    name: String,
    target: Option<usize>,
    owner: String,
    revision: String,
    state: Option<PodState>,
    is_terminating: bool,
    /// A pod that crashes and restarts is not progress.
    was_available: bool,
    ripe_at: Option<Timestamp>,
    node: NodeName,
    requests: Amounts,
    /// The Job or the ReplicationController among [`Observer::others`], until the pod uses no resources.
    other: Option<usize>,
}

struct Quota {
    used: Quantity,
    hard: Quantity,
    at: Duration,
}

#[derive(Deserialize)]
struct WireQuota {
    #[serde(default)]
    status: WireQuotaStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireQuotaStatus {
    hard: BTreeMap<String, String>,
    used: BTreeMap<String, String>,
}

impl Observer {
    pub(crate) fn new(targets: &[WorkloadId], others: Vec<(OtherKind, ObjectKey)>, gates: FeatureGates, log: Arc<ControllerLog>) -> Self {
        let tracked = |id: &WorkloadId| TrackedWorkload {
            id: id.clone(),
            uid: Uid::default(),
            view: LiveWorkload::Nothing,
            tally: CountHistory::default(),
            steps: Vec::new(),
            waits: Vec::new(),
            open: BTreeMap::new(),
            ordinals: BTreeSet::new(),
            is_at_rest: false,
            ended: None,
            settled: None,
            is_late: false,
        };
        Self {
            gates,
            log,
            began: Timestamp::UNIX_EPOCH,
            tracked: targets.iter().map(tracked).collect(),
            others: others.into_iter().map(|(kind, key)| TrackedOther::new(kind, key)).collect(),
            before: BTreeMap::new(),
            is_begun: false,
            sets: BTreeMap::new(),
            revisions: BTreeMap::new(),
            pods: Lookup::default(),
            ripening: BTreeSet::new(),
            nodes: Nodes::default(),
            quotas: BTreeMap::new(),
            heard: 0,
            short: BTreeSet::new(),
            troubles: Vec::new(),
            progressed: Timestamp::UNIX_EPOCH,
        }
    }

    /// Starts the forecast with the present objects, right before the change.
    ///
    /// `known` returns the decoded object of an entry's value, if it has it.
    pub(crate) fn begin(&mut self, now: Timestamp, known: impl Fn(&Entry) -> Option<Arc<dyn Object>>) {
        (self.began, self.progressed) = (now, now);
        let before = std::mem::take(&mut self.before);
        // Owners come before the objects that they own.
        for plural in [
            "nodes",
            "resourcequotas",
            "poddisruptionbudgets",
            "deployments",
            "statefulsets",
            "daemonsets",
            "controllerrevisions",
            "jobs",
            "replicationcontrollers",
            "replicasets",
            "pods",
        ] {
            for (_, entry) in before.values().filter(|(of, _)| of == plural) {
                self.put(plural, &Version { entry, object: known(entry).as_ref() }, now);
            }
        }
        self.is_begun = true;
        for index in 0..self.tracked.len() {
            self.tracked[index].tally.begin();
            self.judge(index, Duration::ZERO);
        }
        self.note_room(Duration::ZERO);
    }

    /// Records one change of the store.
    pub(crate) fn take_in(&mut self, plural: &str, changed: &Changed, now: Timestamp) {
        let event = &*changed.event;
        let entry = &event.entry;
        if !self.is_begun {
            let key = entry.key.as_str().to_owned();
            match event.kind {
                EventKind::Put => drop(self.before.insert(key, (plural.to_owned(), Arc::clone(entry)))),
                EventKind::Deleted => drop(self.before.remove(&key)),
            }
            return;
        }
        self.ripen(now);
        match event.kind {
            EventKind::Put => self.put(plural, &changed.version(), now),
            EventKind::Deleted => self.remove(plural, &changed.version(), now),
        }
    }

    /// The controller's reason for a change of a ReplicaSet.
    fn reason(&self, set: ObjectKey, change: SetChange) -> String {
        self.log.observations().take_reason(set, change)
    }

    fn at(&self, now: Timestamp) -> Duration {
        since(self.began, now)
    }

    fn put(&mut self, plural: &str, version: &Version<'_>, now: Timestamp) {
        match plural {
            "pods" => version.view().into_iter().for_each(|view| self.put_pod(&view, version, now)),
            "replicasets" => version.view().into_iter().for_each(|view| self.put_set(&view, now)),
            "deployments" => version.view().into_iter().for_each(|view| self.put_deployment(view, now)),
            "statefulsets" => version.view().into_iter().for_each(|view| self.put_stateful_set(view, now)),
            "controllerrevisions" => version.view().into_iter().for_each(|view| self.put_revision(&view)),
            "daemonsets" => version.view().into_iter().for_each(|view| self.put_daemon_set(view, now)),
            "jobs" => version.view().into_iter().for_each(|view| self.put_job(view, now)),
            "replicationcontrollers" => {
                let view = ReplicaSetView::decode_controller(&version.entry.value, Revision(0)).ok();
                view.into_iter().for_each(|view| self.put_controller(view, now));
            }
            "nodes" => version.view().into_iter().for_each(|view| self.nodes.put(view)),
            "poddisruptionbudgets" => version.view().into_iter().for_each(|view| self.put_budget(&view, now)),
            "resourcequotas" => self.put_quota(version.entry, now),
            _ => (),
        }
    }

    fn remove(&mut self, plural: &str, version: &Version<'_>, now: Timestamp) {
        match plural {
            "pods" => version.view().into_iter().for_each(|view: PodView| self.remove_pod(&view.meta.uid, now)),
            "replicasets" => version.view().into_iter().for_each(|view| self.remove_set(&view, now)),
            _ => (),
        }
    }

    fn remove_set(&mut self, view: &ReplicaSetView, now: Timestamp) {
        let Some(set) = self.sets.remove(&view.meta.uid) else { return };
        if let Some(target) = set.target {
            let reason = self.reason(view.meta.key(), SetChange::Delete);
            self.step(target, StepKind::DeleteSet { set: set.name }, reason, now);
        }
    }

    fn tracked(&self, kind: WorkloadKind, key: &ObjectKey) -> Option<usize> {
        self.tracked
            .iter()
            .position(|tracked| tracked.id.kind == kind && tracked.id.namespace == key.namespace && tracked.id.name == key.name)
    }

    fn put_deployment(&mut self, view: DeploymentView, now: Timestamp) {
        let Some(index) = self.tracked(WorkloadKind::Deployment, &view.meta.key()) else { return };
        let at = self.at(now);
        let is_late =
            view.status.conditions.iter().flatten().any(|condition| condition.reason.as_deref() == Some("ProgressDeadlineExceeded"));
        let tracked = &mut self.tracked[index];
        let is_new = is_late && !tracked.is_late;
        (tracked.is_late, tracked.uid) = (is_late, view.meta.uid.clone());
        let name = format!("Deployment {}", view.meta.name);
        let deadline = view.spec.progress_deadline_seconds.unwrap_or(600);
        tracked.view = LiveWorkload::Deployment(Box::new(view));
        if is_new {
            self.trouble(TroubleKind::Deadline, at, Some(index), format!("{name} exceeds its progress deadline of {deadline} s"));
        }
        self.judge(index, at);
    }

    fn put_stateful_set(&mut self, view: StatefulSetView, now: Timestamp) {
        let Some(index) = self.tracked(WorkloadKind::StatefulSet, &view.meta.key()) else { return };
        let at = self.at(now);
        let tracked = &mut self.tracked[index];
        tracked.uid = view.meta.uid.clone();
        tracked.view = LiveWorkload::StatefulSet(Box::new(view));
        self.judge(index, at);
    }

    fn put_daemon_set(&mut self, view: DaemonSetView, now: Timestamp) {
        let Some(index) = self.tracked(WorkloadKind::DaemonSet, &view.meta.key()) else { return };
        let at = self.at(now);
        let tracked = &mut self.tracked[index];
        tracked.uid = view.meta.uid.clone();
        tracked.view = LiveWorkload::DaemonSet(Box::new(view));
        self.judge(index, at);
    }

    fn put_revision(&mut self, view: &RevisionView) {
        let (Some(owner), Some(hash)) = (view.meta.controller(), view.meta.labels.get(REVISION_LABEL)) else { return };
        let known = self.revisions.entry(Uid::from(owner.uid.clone())).or_default();
        if known.0 <= view.number {
            *known = (view.number, hash.to_owned());
        }
    }

    /// Records the end of a rollout if it goes no further and none of its actions is in progress.
    fn judge(&mut self, index: usize, at: Duration) {
        let sizes = || self.sets.values().filter(|set| set.target == Some(index)).map(|set| set.replicas).sum();
        let end = self.tracked[index].end(sizes, &self.gates);
        let tracked = &mut self.tracked[index];
        if tracked.ended.map(|(known, _)| known) != end {
            (tracked.ended, tracked.settled) = (end.map(|end| (end, at)), None);
        }
        if end.is_none() {
            return;
        }
        match tracked.tally.all().terminating {
            0 => drop(tracked.settled.get_or_insert(at)),
            _ => tracked.settled = None,
        }
    }

    fn put_set(&mut self, view: &ReplicaSetView, now: Timestamp) {
        let replicas = i64::from(view.replicas);
        let owner = view.meta.controller().map(|owner| Uid::from(owner.uid.clone()));
        let target = owner.and_then(|owner| self.tracked.iter().position(|tracked| tracked.uid == owner));
        let name = view.meta.name.to_string();
        let number = annotations::revision(&view.annotations);
        let known = self.sets.insert(view.meta.uid.clone(), Set { name: name.clone(), target, replicas, number });
        let Some(target) = target else { return };
        match known {
            None => {
                let reason = self.reason(view.meta.key(), SetChange::Create);
                self.step(target, StepKind::CreateSet { set: name, replicas }, reason, now);
            }
            Some(known) if known.replicas != replicas => {
                let reason = self.reason(view.meta.key(), SetChange::Resize(replicas));
                self.step(target, StepKind::Resize { set: name, from: known.replicas, to: replicas }, reason, now);
            }
            Some(_) => (),
        }
    }

    fn put_pod(&mut self, view: &PodView, version: &Version<'_>, now: Timestamp) {
        let uid = &view.meta.uid;
        let at = self.at(now);
        if !self.pods.contains_key(uid) {
            let pod = self.new_pod(view, version);
            if let Some(other) = pod.other {
                self.others[other].enter(self.is_begun, at);
                self.progressed = now;
            }
            if let Some(index) = pod.target {
                let (owner, name) = (pod.owner.clone(), pod.name.clone());
                let is_numbered = self.tracked[index].id.kind == WorkloadKind::StatefulSet;
                let ordinal = member_ordinal(&self.tracked[index].id.name, &name).filter(|_| is_numbered);
                self.tracked[index].ordinals.extend(ordinal);
                let names = if is_numbered { vec![name] } else { Vec::new() };
                self.tracked[index].tally.hold(&pod.requests, at);
                self.step(index, StepKind::CreatePods { owner, count: 1, names }, String::new(), now);
                self.progressed = now;
            }
            self.pods.insert(uid.clone(), pod);
        }
        let Some(mut pod) = self.pods.remove(uid) else { return };
        if pod.node.is_empty() && !view.node_name.is_empty() {
            pod.node.clone_from(&view.node_name);
            self.nodes.take(&pod.node, &pod.requests);
            self.note_room(at);
        }
        let min_ready_seconds = pod.target.map(|index| self.tracked[index].min_ready_seconds());
        let ripe_at = min_ready_seconds.and_then(|seconds| view.available_at(seconds));
        let state = PodState::of(view, min_ready_seconds.unwrap_or(0), now);
        if state.is_none() && pod.state.is_some() {
            if pod.other.is_some() {
                self.progressed = now;
            }
            self.give_back(&mut pod);
        }
        if let Some(index) = pod.target {
            if view.meta.deleted.is_some() && !pod.is_terminating {
                pod.is_terminating = true;
                let (owner, victim) = (pod.owner.clone(), Victim { pod: pod.name.clone(), rule: String::new() });
                self.step(index, StepKind::DeletePods { owner, pods: vec![victim] }, String::new(), now);
                self.progressed = now;
            }
            if state != pod.state {
                self.count(index, uid, &pod, state, at);
                if state == Some(PodState::Available) && !std::mem::replace(&mut pod.was_available, true) {
                    self.progressed = now;
                }
            }
            if let Some(ripe) = pod.ripe_at.take() {
                self.ripening.remove(&(ripe, uid.clone()));
            }
            if let Some(ripe) = ripe_at.filter(|_| state == Some(PodState::Ready)) {
                pod.ripe_at = Some(ripe);
                self.ripening.insert((ripe, uid.clone()));
            }
        }
        pod.state = state;
        let target = pod.target;
        self.pods.insert(uid.clone(), pod);
        target.into_iter().for_each(|index| self.judge(index, at));
    }

    fn new_pod(&self, view: &PodView, version: &Version<'_>) -> Pod {
        // A finished pod still exists as an object, but uses no resources.
        let asks = || version.view().map(|info: PodInfo| info.requests).unwrap_or_default();
        let requests = if view.phase.is_finished() { Amounts::default() } else { asks() };
        // A pod without a controller belongs to no workload, nor to one that is not created yet.
        let uid = view.meta.controller().map(|owner| Uid::from(owner.uid.clone()));
        let set = uid.as_ref().and_then(|uid| self.sets.get(uid)).filter(|set| set.target.is_some());
        let is_own = |tracked: &TrackedWorkload| tracked.id.kind != WorkloadKind::Deployment && uid.as_ref() == Some(&tracked.uid);
        let workload = self.tracked.iter().position(is_own);
        let (target, owner, revision) = match (set, workload) {
            (Some(set), _) => (set.target, set.name.clone(), set.name.clone()),
            (None, Some(index)) => {
                let id = &self.tracked[index].id;
                let revision = view.meta.labels.get(REVISION_LABEL).unwrap_or_default();
                // Pods of a DaemonSet have only the hash of their revision.
                let is_hash = id.kind == WorkloadKind::DaemonSet;
                let revision = if is_hash { named_revision(&id.name, revision) } else { revision.to_owned() };
                (Some(index), id.name.to_string(), revision)
            }
            (None, None) => (None, String::new(), String::new()),
        };
        let name = view.meta.name.to_string();
        let is_other = |other: &TrackedOther| !view.phase.is_finished() && uid.as_ref() == Some(&other.uid);
        Pod {
            other: self.others.iter().position(is_other),
            name,
            target,
            owner,
            revision,
            state: None,
            is_terminating: false,
            was_available: false,
            ripe_at: None,
            node: NodeName::default(),
            requests,
        }
    }

    /// Releases its resources.
    fn give_back(&mut self, pod: &mut Pod) {
        self.nodes.give_back(&pod.node, &pod.requests);
        if let Some(other) = pod.other.take() {
            self.others[other].leave();
        }
        if let Some(index) = pod.target {
            self.tracked[index].tally.let_go(&pod.requests);
        }
        pod.requests = Amounts::default();
    }

    fn remove_pod(&mut self, uid: &Uid, now: Timestamp) {
        let Some(mut pod) = self.pods.remove(uid) else { return };
        if let Some(ripe) = pod.ripe_at {
            self.ripening.remove(&(ripe, uid.clone()));
        }
        self.give_back(&mut pod);
        let (at, Some(index)) = (self.at(now), pod.target) else { return };
        self.count(index, uid, &pod, None, at);
        if let Some(ordinal) = member_ordinal(&self.tracked[index].id.name, &pod.name) {
            self.tracked[index].ordinals.remove(&ordinal);
        }
        self.progressed = now;
        self.judge(index, at);
    }

    /// Moves a pod from its state to another. `None` if it no longer exists.
    fn count(&mut self, index: usize, uid: &Uid, pod: &Pod, to: Option<PodState>, at: Duration) {
        let tally = &mut self.tracked[index].tally;
        tally.change(&pod.revision, pod.state, to, at);
        tally.follow(uid, &pod.name, &pod.revision, to, at);
    }

    /// Records pods that have become available by time alone.
    pub(crate) fn ripen(&mut self, now: Timestamp) {
        while let Some((ripe, uid)) = self.ripening.first().filter(|(ripe, _)| *ripe <= now).cloned() {
            self.ripening.pop_first();
            let at = self.at(ripe);
            let Some(pod) = self.pods.get_mut(&uid) else { continue };
            let Some(index) = pod.target else { continue };
            let tally = &mut self.tracked[index].tally;
            tally.change(&pod.revision, pod.state, Some(PodState::Available), at);
            tally.follow(&uid, &pod.name, &pod.revision, Some(PodState::Available), at);
            (pod.state, pod.ripe_at) = (Some(PodState::Available), None);
            if !std::mem::replace(&mut pod.was_available, true) {
                self.progressed = self.progressed.max(ripe);
            }
        }
    }

    /// Whether the change concerns the namespace of the object.
    fn is_concerned(&self, key: &ObjectKey) -> bool {
        let is_here = |other: &TrackedOther| other.key.namespace == key.namespace;
        self.tracked.iter().any(|tracked| tracked.id.namespace == key.namespace) || self.others.iter().any(is_here)
    }

    fn put_budget(&mut self, view: &BudgetView, now: Timestamp) {
        let (at, key) = (self.at(now), view.meta.key());
        if !self.is_concerned(&key) {
            return;
        }
        let (healthy, wanted) = (view.status.current_healthy.unwrap_or(0), view.status.desired_healthy.unwrap_or(0));
        if wanted <= healthy {
            self.short.remove(&key);
        } else if self.short.insert(key.clone()) && self.is_begun {
            let text = format!("budget {} has {healthy} healthy pods instead of {wanted}: rollouts ignore budgets", key.name);
            self.trouble(TroubleKind::Unavailable, at, None, text);
        }
    }

    fn put_quota(&mut self, entry: &Entry, now: Timestamp) {
        let (Ok(quota), Ok(meta)) = (from_json::<WireQuota>(&entry.value), from_json::<Meta>(&entry.value)) else { return };
        let key = ObjectKey::new(meta.metadata.namespace.as_str(), meta.metadata.name.as_str());
        if !self.is_concerned(&key) {
            return;
        }
        let at = self.at(now);
        for (resource, hard) in quota.status.hard {
            let used = quota.status.used.get(&resource).and_then(|used| used.parse().ok()).unwrap_or(Quantity::ZERO);
            let Ok(hard) = hard.parse::<Quantity>() else { continue };
            let known = self.quotas.entry((key.clone(), resource)).or_insert(Quota { used, hard, at });
            known.hard = hard;
            if known.used < used {
                (known.used, known.at) = (used, at);
            }
        }
    }

    /// Records a problem of the workload with that index. `None` for a problem of no workload in particular.
    pub(crate) fn trouble(&mut self, kind: TroubleKind, at: Duration, workload: Option<usize>, text: String) {
        let about = workload.map(|index| self.tracked[index].id.clone());
        if self.is_begun && !self.troubles.iter().any(|known| (known.kind, &known.text, &known.about) == (kind, &text, &about)) {
            self.troubles.push(Trouble { kind, at, text, about });
        }
    }

    /// Adds to the present step, or begins a new one.
    fn step(&mut self, target: usize, kind: StepKind, reason: String, now: Timestamp) {
        if !self.is_begun {
            return;
        }
        if matches!(kind, StepKind::CreateSet { .. } | StepKind::Resize { .. }) {
            self.progressed = now;
        }
        let at = self.at(now);
        let steps = &mut self.tracked[target].steps;
        let recent = steps.iter_mut().rev().take_while(|step| at <= step.at + ONE_STEP);
        for known in recent {
            match (&mut known.kind, &kind) {
                (StepKind::CreatePods { owner, count, names }, StepKind::CreatePods { owner: of, names: more, .. }) if owner == of => {
                    *count += 1;
                    names.extend(more.iter().cloned());
                    return;
                }
                (StepKind::DeletePods { owner, pods }, StepKind::DeletePods { owner: of, pods: more }) if owner == of => {
                    pods.extend(more.iter().cloned());
                    return;
                }
                _ => (),
            }
        }
        steps.push(Step { at, kind, reason });
    }

    /// Records the free capacity for the resources that the workloads request.
    fn note_room(&mut self, at: Duration) {
        if !self.is_begun {
            return;
        }
        let asked: BTreeSet<&String> = self.tracked.iter().flat_map(|tracked| tracked.tally.resources.keys()).collect();
        self.nodes.note(asked, at);
    }

    /// Adds the rules by which the controllers chose the deleted pods.
    pub(crate) fn explain_victims(&mut self) {
        let log = Arc::clone(&self.log);
        let observations = log.observations();
        for tracked in &mut self.tracked {
            for step in &mut tracked.steps {
                let StepKind::DeletePods { pods, .. } = &mut step.kind else { continue };
                for victim in pods {
                    let key = ObjectKey::new(tracked.id.namespace.clone(), victim.pod.as_str());
                    observations.rules.get(&key).into_iter().for_each(|rule| victim.rule.clone_from(rule));
                }
            }
        }
    }

    /// The revision of a workload's template, in the form that its pods refer to.
    pub(crate) fn newest(&self, index: usize) -> Option<String> {
        match &self.tracked[index].view {
            LiveWorkload::StatefulSet(view) => return Some(view.status.update_revision.clone()).filter(|name| !name.is_empty()),
            LiveWorkload::DaemonSet(view) => {
                return self.revisions.get(&view.meta.uid).map(|(_, hash)| named_revision(&view.meta.name, hash));
            }
            LiveWorkload::Nothing | LiveWorkload::Deployment(_) => (),
        }
        let own = self.sets.values().filter(|set| set.target == Some(index) && set.number.is_some());
        own.max_by_key(|set| set.number).map(|set| set.name.clone())
    }

    /// Whether all workloads have settled.
    pub(crate) fn is_settled(&self) -> bool {
        self.tracked.iter().all(|tracked| tracked.settled.is_some()) && self.others.iter().all(TrackedOther::is_settled)
    }

    /// After this time without events, nothing more will happen. `slowest` is how long pods take to start or to stop.
    pub(crate) fn patience(&self, slowest: Duration) -> Duration {
        let of_workloads = self.tracked.iter().map(|tracked| tracked.view.patience());
        of_workloads.chain(self.others.iter().map(TrackedOther::patience)).max().unwrap_or_default() + slowest + PATIENCE
    }

    pub(crate) fn quota_peaks(&self) -> Vec<QuotaPeak> {
        let peak = |((key, resource), quota): (&(ObjectKey, String), &Quota)| QuotaPeak {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            resource: resource.clone(),
            used: quota.used.to_string(),
            hard: quota.hard.to_string(),
            at: quota.at,
        };
        self.quotas.iter().map(peak).collect()
    }
}

/// A revision of a DaemonSet, from its hash.
fn named_revision(set: &str, hash: &str) -> String {
    format!("{set}-{hash}")
}

#[derive(Deserialize)]
struct Meta {
    metadata: Named,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    namespace: String,
    name: String,
}

/// The events as views, for the evaluation of causes.
pub(crate) fn warning_views(observations: &Observations) -> Vec<Arc<EventView>> {
    let view = |event: &Value| EventView::decode(event.to_string().as_bytes()).ok();
    observations.warnings.iter().filter_map(|(_, event)| view(event)).map(Arc::new).collect()
}
