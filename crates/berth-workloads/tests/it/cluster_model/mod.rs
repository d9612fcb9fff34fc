//! A model cluster for plans: objects as JSON, pods as views, and a clock that only tests advance. Executes plans action by action.

mod merge;
mod patience;
mod read_back;
mod stored;

use berth_api::{FeatureGates, apps::ReplicaSet};
use berth_identity::{NodeName, Revision, Uid};
use berth_workloads::{
    Action, Plan, Wait,
    analysis::Asked,
    cause,
    counts::{LeftBehind, PodCounts, PodsOfSet, Role, role},
    deployment::{self, DeploymentState, Found},
    plan::NewObject,
    replica_set::{self, ReplicaSetState, SinglePods, WantedPods, wanted_pods},
    resources::PODS,
    view::{DeploymentView, PodPhase, PodView, ReplicaSetView, View},
};
use jiff::Timestamp;
pub(crate) use merge::merge;
pub(crate) use patience::Patience;
pub(crate) use read_back::read_back;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};
pub(crate) use stored::Stored;

/// One Deployment, its ReplicaSets and their pods.
#[derive(Clone, Debug)]
pub(crate) struct ClusterModel {
    /// The Deployment.
    pub(crate) deployment: Stored,
    /// By name.
    pub(crate) sets: BTreeMap<String, Stored>,
    /// In order of creation.
    pub(crate) pods: Vec<PodView>,
    /// The present time.
    pub(crate) now: Timestamp,
    /// The controllers' gates.
    pub(crate) gates: FeatureGates,
    /// Which deferred writes to leave out.
    pub(crate) patience: Patience,
    /// The question of an analysis and its answer.
    pub(crate) asked: Option<Asked>,
    /// Why the Deployment's last reconcile failed.
    pub(crate) last_error: Option<String>,
    writes: u64,
}

impl ClusterModel {
    /// A model cluster with only a Deployment of this spec, which selects `app: web`.
    pub(crate) fn new(mut spec: Value) -> Self {
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        if spec["template"].is_null() {
            spec["template"] = template(1);
        }
        let json = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "uid-web", "generation": 1},
            "spec": spec, "status": {},
        });
        let now = Timestamp::from_second(1_000_000).expect("a time");
        Self {
            deployment: Stored::new(json, Revision(1)),
            sets: BTreeMap::new(),
            pods: Vec::new(),
            now,
            gates: FeatureGates::default(),
            patience: Patience::default(),
            asked: None,
            last_error: None,
            writes: 1,
        }
    }

    /// The Deployment's view.
    pub(crate) fn deployment_view(&self) -> DeploymentView {
        Arc::unwrap_or_clone(self.deployment.view())
    }

    /// The sets' views.
    pub(crate) fn set_views(&self) -> Vec<Arc<ReplicaSetView>> {
        self.sets.values().map(Stored::view).collect()
    }

    /// The Deployment controller's present plan.
    pub(crate) fn plan_deployment(&self) -> Plan {
        let state = self.deployment_state();
        let plan = deployment::plan(&state);
        if is_written_down(self.writes) {
            let written = serde_json::to_string(&state).expect("JSON");
            let read: DeploymentState = serde_json::from_str(&written).expect("a state");
            assert_eq!((&read, deployment::plan(&read)), (&state, plan.clone()), "a state that is written down and read back");
        }
        read_back(plan)
    }

    /// The Deployment controller's present state.
    fn deployment_state(&self) -> DeploymentState {
        let sets = self.set_views();
        let mut state = DeploymentState {
            deployment: self.deployment.view(),
            pods: sets.iter().map(|set| (set.meta.uid.clone(), self.pods_of(set))).collect(),
            left_behind: self.left_behind(&sets),
            sets,
            found: Found::default(),
            last_error: self.last_error.clone(),
            asked: self.asked.clone(),
            gates: self.gates.clone(),
            now: self.now,
        };
        let wanted = deployment::wanted(&state);
        state.found = Found {
            is_name_taken: wanted.set_name.is_some_and(|name| self.sets.contains_key(&name)),
            all_ready_since: wanted.all_ready_since.and_then(|set| self.all_ready_since(&set)),
            unready_on: wanted.unready_on.map(|set| self.unready_on(&set)).unwrap_or_default(),
        };
        state
    }

    fn active(&self, set: &Uid) -> impl Iterator<Item = &PodView> {
        self.pods.iter().filter(move |pod| pod.meta.is_controlled_by(set) && pod.is_active())
    }

    fn pods_of(&self, set: &ReplicaSetView) -> PodsOfSet {
        let uid = &set.meta.uid;
        let terminating = self.pods.iter().filter(|pod| pod.meta.is_controlled_by(uid) && pod.is_terminating());
        let failing = self.active(uid).filter_map(|pod| Some((cause::of_pod(pod)?.kind, pod)));
        PodsOfSet {
            counts: PodCounts::recount(set, &self.pods, self.now).0,
            last_to_go: terminating.max_by_key(|pod| pod.meta.deleted).cloned().map(Arc::new),
            failing: failing.min_by_key(|(kind, _)| *kind).map(|(_, pod)| Arc::new(pod.clone())),
        }
    }

    fn unready_on(&self, set: &Uid) -> Vec<NodeName> {
        self.active(set).filter(|pod| !pod.ready).map(|pod| pod.node_name.clone()).collect()
    }

    fn all_ready_since(&self, set: &Uid) -> Option<Timestamp> {
        let since: Option<Vec<_>> = self.active(set).map(|pod| pod.ready_since.filter(|_| pod.ready)).collect();
        since?.into_iter().max()
    }

    fn left_behind(&self, sets: &[Arc<ReplicaSetView>]) -> LeftBehind {
        let is_known = |pod: &&PodView| sets.iter().any(|set| pod.meta.is_controlled_by(&set.meta.uid));
        let behind = self.pods.iter().filter(|pod| pod.meta.controller().is_some() && !is_known(pod));
        behind.fold(LeftBehind::default(), |all, pod| all.with(&Arc::new(pod.clone())))
    }

    /// Until when a step waits for its pods to stay available, if it does.
    pub(crate) fn settles_at(&self) -> Option<Timestamp> {
        let until = |wait: &Wait| if let Wait::StepSettles { until, .. } = wait { *until } else { None };
        self.plan_deployment().waits.iter().find_map(until)
    }

    /// The ReplicaSet controller's present plan for this set.
    pub(crate) fn plan_set(&self, set: &ReplicaSetView) -> Plan {
        let (counts, next_available_at) = PodCounts::recount(set, &self.pods, self.now);
        let of = |wanted: Role| -> Vec<Arc<PodView>> {
            self.pods.iter().filter(|pod| pod.is_active() && role(set, pod) == wanted).cloned().map(Arc::new).collect()
        };
        let mut related_on_node = BTreeMap::new();
        self.pods.iter().filter(|pod| pod.is_active()).for_each(|pod| *related_on_node.entry(pod.node_name.clone()).or_default() += 1);
        let pods = match wanted_pods(set, &counts) {
            WantedPods::None => SinglePods::default(),
            WantedPods::Adoption => SinglePods { mismatched: of(Role::Mismatched), adoptable: of(Role::Orphan), ..SinglePods::default() },
            WantedPods::Victims { .. } => SinglePods { active: of(Role::Owned), related_on_node, ..SinglePods::default() },
        };
        let (set, gates) = (Arc::new(set.clone()), self.gates.clone());
        let state = ReplicaSetState { set, counts, next_available_at, pods, last_error: None, gates, now: self.now };
        if is_written_down(self.writes) {
            let written = serde_json::to_string(&state).expect("JSON");
            assert_eq!(serde_json::from_str::<ReplicaSetState>(&written).expect("a state"), state);
        }
        read_back(replica_set::plan(&state))
    }

    /// Executes the first `limit` actions of a plan. Returns their number, including deferred ones.
    pub(crate) fn execute(&mut self, plan: Plan, limit: usize) -> usize {
        let mut actions: Vec<_> = plan.stages.into_iter().flat_map(|stage| stage.actions).collect();
        let count = actions.len();
        self.patience.leave_out(&mut actions);
        actions.into_iter().take(limit).for_each(|action| self.execute_one(action));
        count.min(limit)
    }

    fn execute_one(&mut self, action: Action) {
        match action {
            Action::ConfirmAlive { .. } | Action::ConfirmGone { .. } | Action::ConfirmNodeReady { .. } => (),
            Action::Patch { target, patch, .. } if target.resource == PODS => self.patch_pod(&target.key.name, &patch),
            Action::Patch { target, patch, .. } => self.patch(&target.resource.plural, &target.key.name, target.resource_version, &patch),
            Action::Create { object: NewObject::ReplicaSet(set), .. } => self.create_set(&set),
            Action::Create { object, .. } => panic!("not for Deployments: {object:?}"),
            Action::Delete { target, .. } => {
                let set = self.sets.remove(&*target.key.name).expect("a set to delete");
                assert_eq!(target.resource_version, Some(set.revision), "a delete of a version that is not the last");
            }
            Action::CreatePods { template, count, .. } => (0..count).for_each(|_| self.create_pod(&template)),
            Action::DeletePods { victims, .. } => {
                victims.iter().flat_map(|victims| &victims.pods).for_each(|pod| self.delete_pod(&pod.key.name));
            }
        }
    }

    fn patch(&mut self, resource: &str, name: &str, version: Option<Revision>, patch: &Value) {
        self.writes += 1;
        let stored = match resource {
            "deployments" => &mut self.deployment,
            _ => self.sets.get_mut(name).expect("a set to patch"),
        };
        assert_eq!(version, Some(stored.revision), "a write of a version that is not the last: {resource} {name}");
        let before = stored.json.clone();
        merge(&mut stored.json, patch);
        stored.revision = Revision(self.writes);
        let annotations = resource == "deployments" && stored.json["metadata"]["annotations"] != before["metadata"]["annotations"];
        if stored.json["spec"] != before["spec"] || annotations {
            stored.json["metadata"]["generation"] = json!(before["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
        }
    }

    /// A change by the Deployment's owner.
    pub(crate) fn edit(&mut self, patch: &Value) {
        self.patch("deployments", "web", Some(self.deployment.revision), patch);
    }

    fn create_set(&mut self, set: &ReplicaSet) {
        self.writes += 1;
        let name = set.metadata.name.clone().expect("a name");
        let mut json = serde_json::to_value(set).expect("JSON");
        json["metadata"]["uid"] = json!(format!("uid-{name}-{}", self.writes));
        json["metadata"]["generation"] = json!(1);
        // Each set is a second younger than the one before, so that their ages are ordered.
        let created = Timestamp::from_second(500_000 + i64::try_from(self.writes).expect("few writes")).expect("a time");
        json["metadata"]["creationTimestamp"] = json!(created.to_string());
        assert!(self.sets.insert(name.clone(), Stored::new(json, Revision(self.writes))).is_none(), "{name} is there already");
    }

    fn create_pod(&mut self, template: &k8s_openapi::api::core::v1::Pod) {
        self.writes += 1;
        let name = format!("{}{}", template.metadata.generate_name.as_deref().expect("a prefix"), self.writes);
        let mut json = serde_json::to_value(template).expect("JSON");
        json["metadata"]["name"] = json!(name);
        json["metadata"]["uid"] = json!(format!("uid-{name}"));
        json["status"] = json!({"phase": "Running"});
        let mut pod = PodView::decode(json.to_string().as_bytes(), Revision(self.writes)).expect("a pod");
        pod.meta.created = Some(self.now);
        self.pods.push(pod);
    }

    fn pod_mut(&mut self, name: &str) -> &mut PodView {
        self.pods.iter_mut().find(|pod| pod.meta.name == name).expect("a pod of this name")
    }

    fn patch_pod(&mut self, name: &str, patch: &Value) {
        let owners = serde_json::from_value(patch["metadata"]["ownerReferences"].clone()).unwrap_or_default();
        self.pod_mut(name).meta.owners = owners;
    }

    /// Deletes a pod with a grace period of 30 seconds.
    pub(crate) fn delete_pod(&mut self, name: &str) {
        let until = self.now + jiff::SignedDuration::from_secs(30);
        let pod = self.pod_mut(name);
        pod.meta.deleted.get_or_insert(until);
        pod.grace_period_seconds = Some(30);
    }

    /// Makes every active pod ready.
    pub(crate) fn ready_all(&mut self) {
        let now = self.now;
        for pod in self.pods.iter_mut().filter(|pod| pod.is_active() && !pod.ready) {
            (pod.ready, pod.ready_since, pod.phase) = (true, Some(now), PodPhase::Running);
        }
    }

    /// Removes every terminating pod.
    pub(crate) fn gone_all(&mut self) {
        self.pods.retain(|pod| pod.meta.deleted.is_none());
    }

    /// Runs the ReplicaSet controller until it has no work left.
    pub(crate) fn settle_sets(&mut self) {
        for _ in 0..50 {
            let plans: Vec<_> = self.set_views().iter().map(|set| self.plan_set(set)).collect();
            let acted: usize = plans.into_iter().map(|plan| self.execute(plan, usize::MAX)).sum();
            if acted == 0 {
                return;
            }
        }
        panic!("the ReplicaSet controller does not come to rest");
    }

    /// The annotation that ends the wait of this name (`REVISION/STEP`) of the rollout to the newest template.
    pub(crate) fn promotion(&self, name: &str) -> Value {
        let new = self.new_set().expect("the new set");
        let hash = new["metadata"]["labels"]["pod-template-hash"].as_str().expect("a label");
        json!({"berth.dev/promoted": format!("{name}/{hash}")})
    }

    /// Whether the newest template has a set.
    pub(crate) fn has_new_set(&self) -> bool {
        self.new_set().is_some()
    }

    fn new_set(&self) -> Option<&Value> {
        let image = |template: &Value| template["spec"]["containers"][0]["image"].clone();
        let newest = image(&self.deployment.json["spec"]["template"]);
        self.sets.values().map(|set| &*set.json).find(|set| image(&set["spec"]["template"]) == newest)
    }

    /// Sizes of the sets by name.
    pub(crate) fn sizes(&self) -> BTreeMap<String, i64> {
        self.sets.iter().map(|(name, set)| (name.clone(), set.json["spec"]["replicas"].as_i64().expect("a size"))).collect()
    }

    /// Pods in use: existing ones and those that sets still have to create.
    pub(crate) fn in_use(&self) -> i64 {
        let held = |set: &Arc<ReplicaSetView>| {
            let (counts, _) = PodCounts::recount(set, &self.pods, self.now);
            i64::from(set.replicas).max(counts.active.into()) + i64::from(counts.terminating)
        };
        self.set_views().iter().map(held).sum()
    }

    /// Live and terminating pods.
    pub(crate) fn pods_there(&self) -> i64 {
        i64::try_from(self.pods.len()).expect("few pods")
    }
}

/// Whether the state after so many writes is serialized and read back: one of 32, because that costs more than its plan. The fifth is the
/// first, so that short tests have one.
pub(crate) fn is_written_down(writes: u64) -> bool {
    writes % 32 == 5
}

/// A template that differs by its number.
pub(crate) fn template(number: u32) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": format!("web:{number}")}]}})
}
