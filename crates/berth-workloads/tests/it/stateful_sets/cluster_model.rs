//! A model cluster for plans of StatefulSets: objects as JSON, and a clock that only tests advance. Executes plans action by action, and
//! checks the invariants after each one.

use crate::cluster_model::{Patience, Stored, is_written_down, merge, read_back};
use berth_api::{FeatureGates, Gate, Object};
use berth_identity::{ObjectRef, Ordinal, Revision};
use berth_workloads::{
    Action, Plan,
    plan::{EventRecord, NewObject, Outcome, Repeat, Wait},
    selector::Selector,
    stateful_set::{self, ControlledPods, REVISION_LABEL, StatefulSetState, claim_names, claims_in_doubt, member_ordinal, ordinals},
    view::{ClaimView, PodView, RevisionView, StatefulSetView},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// One StatefulSet `web` and the objects that belong to it.
#[derive(Clone, Debug)]
pub(crate) struct ClusterModel {
    pub(crate) set: Stored,
    pub(crate) revisions: BTreeMap<String, Stored>,
    pub(crate) claims: BTreeMap<String, Stored>,
    pub(crate) pods: BTreeMap<String, Stored>,
    pub(crate) now: Timestamp,
    pub(crate) gates: FeatureGates,
    pub(crate) events: Vec<(String, String)>,
    /// What an event recorder remembers of events that are recorded once.
    recorded_once: Vec<(String, String, Repeat)>,
    /// Why the last reconcile failed.
    pub(crate) last_error: Option<String>,
    /// Broken templates now work, because the missing dependency of their pods exists.
    pub(crate) is_healed: bool,
    /// Which deferred writes to leave out.
    pub(crate) patience: Patience,
    writes: u64,
}

impl ClusterModel {
    /// A model cluster with only a StatefulSet of this spec. The default is two pods of template 1.
    pub(crate) fn new(spec: &Value) -> Self {
        let mut full = json!({
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template(1), "serviceName": "web",
            "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        });
        merge(&mut full, spec);
        let json = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": "web", "namespace": "shop", "uid": "uid-web", "generation": 1}, "spec": full,
        });
        Self {
            set: Stored::new(json, Revision(1)),
            revisions: BTreeMap::new(),
            claims: BTreeMap::new(),
            pods: BTreeMap::new(),
            now: Timestamp::from_second(1_000_000).expect("a time"),
            gates: FeatureGates::default(),
            events: Vec::new(),
            recorded_once: Vec::new(),
            last_error: None,
            is_healed: false,
            patience: Patience::default(),
            writes: 1,
        }
    }

    pub(crate) fn with_gates(mut self, gates: &str) -> Self {
        self.gates = FeatureGates::parse(gates).expect("known gates");
        self
    }

    pub(crate) fn view(&self) -> StatefulSetView {
        Arc::unwrap_or_clone(self.set.view())
    }

    pub(crate) fn pod_views(&self) -> Vec<Arc<PodView>> {
        self.pods.values().map(Stored::view).collect()
    }

    pub(crate) fn controlled(&self) -> ControlledPods {
        self.controlled_of(&self.view(), &self.pod_views())
    }

    fn controlled_of(&self, set: &StatefulSetView, pods: &[Arc<PodView>]) -> ControlledPods {
        ControlledPods::new(set, pods.iter().filter(|pod| pod.meta.is_controlled_by(&"uid-web".into())), self.now)
    }

    /// The claims with these names.
    fn found(&self, names: impl IntoIterator<Item = String>) -> BTreeMap<String, Arc<ClaimView>> {
        names.into_iter().filter_map(|name| self.claims.get(&name).map(Stored::view).map(|claim| (name, claim))).collect()
    }

    /// Ordinals whose claims have wrong owners, whether there is a pod or not.
    pub(crate) fn in_doubt(&self) -> BTreeSet<Ordinal> {
        self.in_doubt_of(&self.view(), &self.controlled())
    }

    fn in_doubt_of(&self, set: &StatefulSetView, controlled: &ControlledPods) -> BTreeSet<Ordinal> {
        let claimed = self.claims.keys().filter_map(|name| claim_ordinal(name));
        claims_in_doubt(set, controlled, &self.found(claim_names(set, claimed.clone())), claimed)
    }

    /// The controller's present plan.
    pub(crate) fn plan(&self) -> Plan {
        let (set, pods) = (self.set.view::<StatefulSetView>(), self.pod_views());
        let controlled = self.controlled_of(&set, &pods);
        let in_doubt = self.in_doubt_of(&set, &controlled);
        let all: Vec<Arc<RevisionView>> = self.revisions.values().map(Stored::view).collect();
        let orphans = pods.into_iter().filter(|pod| pod.meta.controller().is_none()).collect();
        let is_mine = |meta: &berth_workloads::view::Meta| meta.controller().is_none() || meta.is_controlled_by(&"uid-web".into());
        let mut state = StatefulSetState::new(set, Arc::new(controlled), self.gates.clone(), self.now);
        state.revisions = all.iter().filter(|revision| is_mine(&revision.meta)).cloned().collect();
        state.orphans = orphans;
        state.claims_in_doubt = in_doubt;
        state.last_error.clone_from(&self.last_error);
        let wanted = stateful_set::wanted(&state);
        state.found.pods = wanted.pods.into_iter().filter(|name| self.pods.contains_key(name)).collect();
        state.found.claims = self.found(wanted.claims);
        while let Some(name) = stateful_set::wanted_revision(&state) {
            let Some(revision) = all.iter().find(|revision| revision.meta.name == name) else { break };
            state.found.revisions.insert(name, Arc::clone(revision));
        }
        let plan = stateful_set::plan(&state);
        if is_written_down(self.writes) {
            let written = serde_json::to_string(&state).expect("JSON");
            let read: StatefulSetState = serde_json::from_str(&written).expect("a state");
            assert_eq!((&read, stateful_set::plan(&read)), (&state, plan.clone()), "a state that is written down and read back");
        }
        read_back(plan)
    }

    /// Plans, and executes the first `limit` actions before the controller crashes. Returns the number of actions to execute.
    pub(crate) fn reconcile(&mut self, limit: usize) -> usize {
        let plan = self.plan();
        let (seen, there) = (self.controlled().ordinals().collect::<Vec<_>>(), self.names());
        plan.events.iter().for_each(|event| self.record_once(event));
        let mut actions: Vec<_> = plan.stages.into_iter().flat_map(|stage| stage.actions).collect();
        let (all, count) = (actions.len(), actions.len().min(limit));
        self.patience.leave_out(&mut actions);
        actions.into_iter().take(limit).for_each(|action| self.execute(action));
        if count == all {
            self.check_claims(&seen, &there);
        }
        count
    }

    /// The invariant of every complete reconcile: each claim has the right owners, whether its pod exists or not. For a pod that was just
    /// adopted, this is not known yet.
    fn check_claims(&self, seen: &[Ordinal], there: &[String]) {
        let (set, controlled) = (self.view(), self.controlled());
        for (name, claim) in self.claims.iter().filter(|_| set.meta.deleted.is_none()) {
            let ordinal = claim_ordinal(name).expect("a claim of the set");
            let pod = controlled.pod(ordinal).map(|pod| pod.meta.uid.as_str());
            let is_wanted = ordinals(&set).contains(ordinal);
            let is_labeled = claim.json["metadata"]["labels"]["app"] == "web";
            let is_made = || is_wanted && !there.contains(&format!("web-{ordinal}"));
            if pod.is_none() && is_labeled || pod.is_some() && (seen.contains(&ordinal) || is_made()) {
                self.check_claim(name, claim, is_wanted, pod);
            }
        }
    }

    fn check_claim(&self, name: &str, claim: &Stored, is_wanted: bool, pod: Option<&str>) {
        let metadata = &claim.json["metadata"];
        let policy = &self.set.json["spec"]["persistentVolumeClaimRetentionPolicy"];
        let (goes_scaled, goes_deleted) = (policy["whenScaled"] == "Delete", policy["whenDeleted"] == "Delete");
        let owners = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
        let is_own = |owner: &Value| owner["uid"] == "uid-web" || pod.is_some_and(|uid| owner["uid"] == uid);
        let pod_name = name.split_once('-').expect("a claim's name").1;
        let is_former_pod = |owner: &Value| !is_own(owner) && owner["kind"] == "Pod" && owner["name"] == pod_name;
        let is_former_set = |owner: &Value| !is_own(owner) && owner["kind"] == "StatefulSet" && owner["name"] == "web";
        let is_collected = owners.iter().any(|owner| is_former_set(owner) || is_former_pod(owner) && (goes_scaled || pod.is_some()));
        let is_others = owners.iter().any(|owner| !is_own(owner) && owner["controller"] == true);
        if is_collected || is_others || !metadata["deletionTimestamp"].is_null() {
            return;
        }
        let wanted = match (goes_scaled, goes_deleted, is_wanted, pod) {
            (true, _, false, Some(pod)) => Some(pod),
            (_, true, ..) => Some("uid-web"),
            (_, false, ..) => None,
        };
        let what = || format!("{name}, wanted: {is_wanted}, pod: {pod:?}, {}", self.set.json["spec"]);
        let uids: Vec<_> = owners.iter().filter(|owner| is_own(owner)).filter_map(|owner| owner["uid"].as_str()).collect();
        assert_eq!(uids, wanted.into_iter().collect::<Vec<_>>(), "owner of {}", what());
        let is_marked = metadata["annotations"]["berth.dev/when-scaled"] == "Delete";
        assert!(is_marked == goes_scaled || goes_scaled && !is_wanted, "mark of {}", what());
        let stays = is_wanted || !is_marked || pod.is_some() || self.pods.contains_key(pod_name) || !owners.iter().all(is_own);
        assert!(stays, "is left: {}", what());
    }

    /// As [`ClusterModel::reconcile`], but the controller crashes before it writes any event. The next leader remembers nothing.
    pub(crate) fn reconcile_and_lose_events(&mut self, limit: usize) {
        let events = self.events.clone();
        self.reconcile(limit);
        self.events = events;
        self.recorded_once.clear();
    }

    fn record_once(&mut self, event: &EventRecord) {
        let (reason, message) = text(event);
        let what = if let Repeat::OncePer(what) = &event.repeat { what } else { &message };
        let key = (reason.clone(), what.clone(), event.repeat.clone());
        assert_ne!(event.repeat, Repeat::Each, "what every look sees is not recorded each time: {reason}");
        if !self.recorded_once.contains(&key) {
            self.recorded_once.push(key);
            self.events.push((reason, message));
        }
    }

    /// As [`ClusterModel::reconcile`] with an API server that rejects every pod.
    pub(crate) fn reconcile_without_pods(&mut self) {
        self.reconcile_refused("pods \"web-n\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2");
    }

    /// The same, with this error text.
    pub(crate) fn reconcile_refused(&mut self, why: &str) {
        let plan = self.plan();
        plan.events.iter().for_each(|event| self.record_once(event));
        for stage in plan.stages {
            let is_pod = |action: &Action| matches!(action, Action::Create { object: NewObject::Pod(_), .. });
            let (pods, others): (Vec<_>, Vec<_>) = stage.actions.into_iter().partition(is_pod);
            others.into_iter().for_each(|action| self.execute(action));
            if !pods.is_empty() {
                self.last_error = Some(why.to_owned());
                return;
            }
        }
        self.last_error = None;
    }

    fn execute(&mut self, action: Action) {
        match action {
            Action::ConfirmAlive { .. } | Action::ConfirmNodeReady { .. } => (),
            Action::Create { object, events, .. } => {
                self.create(object.as_object());
                self.record(events);
            }
            Action::Patch { target, patch, events, .. } => {
                self.patch(&target, &patch);
                self.record(events);
            }
            Action::Delete { target, events, .. } => {
                self.delete(&target);
                self.record(events);
            }
            other => panic!("not for StatefulSets: {other:?}"),
        }
    }

    fn record(&mut self, events: Outcome) {
        self.events.extend(events.success.as_ref().map(text));
    }

    fn create(&mut self, object: &dyn Object) {
        self.writes += 1;
        let mut json = object.to_value();
        let name = object.meta().name.clone().expect("a name");
        json["metadata"]["uid"] = json!(format!("uid-{name}-{}", self.writes));
        json["metadata"]["creationTimestamp"] = json!(self.now.to_string());
        if object.kind() == "Pod" {
            json["status"] = json!({"phase": "Pending"});
            self.check_creation(&name, &json);
        }
        let revision = Revision(self.writes);
        let kept = match object.kind() {
            "Pod" => &mut self.pods,
            "PersistentVolumeClaim" => &mut self.claims,
            _ => &mut self.revisions,
        };
        assert!(kept.insert(name.clone(), Stored::new(json, revision)).is_none(), "{name} is there already");
    }

    /// The invariants of every pod creation.
    fn check_creation(&self, name: &str, json: &Value) {
        let set = self.view();
        let ordinal = member_ordinal("web", name).expect("a member");
        assert!(ordinals(&set).contains(ordinal), "{name} is not wanted");
        let revision = json["metadata"]["labels"][REVISION_LABEL].as_str().expect("a revision");
        assert!(self.revisions.contains_key(revision), "{name} names {revision}, which is not there");
        for template in set.spec.volume_claim_templates.iter().flatten() {
            let claim = format!("{}-{name}", template.metadata.name.as_deref().expect("a name"));
            assert!(self.claims.contains_key(&claim), "{claim} is missing when {name} is created");
        }
        if set.spec.pod_management_policy == "OrderedReady" {
            let controlled = self.controlled();
            let below = ordinals(&set).start.up_to(ordinal).find(|below| !controlled.is_available(*below));
            assert_eq!(below, None, "{name} is created before its predecessors are available");
        }
        if set.spec.update_strategy.type_ == "Recreate" && self.gates.enabled(Gate::StatefulSetRecreateStrategy) {
            let is_own = |pod: &&Stored| pod.json["metadata"]["ownerReferences"][0]["uid"] == "uid-web";
            let others = self.pods.values().filter(is_own).filter(|pod| pod.json["metadata"]["labels"][REVISION_LABEL] != revision);
            assert_eq!(others.count(), 0, "{name} of {revision} meets pods of other revisions");
        }
    }

    fn stored(&mut self, target: &ObjectRef) -> &mut Stored {
        let stored = match &*target.resource.plural {
            "statefulsets" => Some(&mut self.set),
            "pods" => self.pods.get_mut(&*target.key.name),
            "persistentvolumeclaims" => self.claims.get_mut(&*target.key.name),
            _ => self.revisions.get_mut(&*target.key.name),
        };
        let stored = stored.expect("the target is there");
        assert_eq!(stored.json["metadata"]["uid"], target.uid.as_str(), "{target:?}");
        if let Some(version) = target.resource_version {
            assert_eq!(version, stored.revision, "a write of a version that is not the last: {target:?}");
        }
        stored
    }

    fn patch(&mut self, target: &ObjectRef, patch: &Value) {
        self.writes += 1;
        let revision = Revision(self.writes);
        let stored = self.stored(target);
        merge(&mut stored.json, patch);
        stored.revision = revision;
    }

    fn delete(&mut self, target: &ObjectRef) {
        self.stored(target);
        match &*target.resource.plural {
            "pods" => self.delete_pod(&target.key.name),
            "persistentvolumeclaims" => drop(self.claims.remove(&*target.key.name)),
            _ => drop(self.revisions.remove(&*target.key.name)),
        }
    }

    /// A change by the set's owner.
    pub(crate) fn edit(&mut self, patch: &Value) {
        self.writes += 1;
        let before = self.set.json["spec"].clone();
        merge(&mut self.set.json, patch);
        self.set.revision = Revision(self.writes);
        if self.set.json["spec"] != before {
            let generation = self.set.json["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            self.set.json["metadata"]["generation"] = json!(generation);
        }
    }

    /// A change of a pod by another client.
    pub(crate) fn edit_pod(&mut self, name: &str, patch: &Value) {
        self.writes += 1;
        let pod = self.pods.get_mut(name).expect("a pod");
        merge(&mut pod.json, patch);
        pod.revision = Revision(self.writes);
    }

    /// Deletes a pod with a grace period of 30 seconds.
    pub(crate) fn delete_pod(&mut self, name: &str) {
        let until = self.now + SignedDuration::from_secs(30);
        if self.pods[name].json["metadata"]["deletionTimestamp"].is_null() {
            self.edit_pod(name, &json!({"metadata": {"deletionTimestamp": until.to_string(), "deletionGracePeriodSeconds": 30}}));
        }
    }

    /// A terminating pod is deleted, together with the claims that it owns.
    pub(crate) fn gone(&mut self, name: &str) {
        let pod = self.pods.remove(name).expect("a pod");
        let uid = &pod.json["metadata"]["uid"];
        let goes = |claim: &Stored| {
            claim.json["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == *uid))
        };
        self.claims.retain(|_, claim| !goes(claim));
    }

    /// The pod runs, and is ready unless its template is broken.
    pub(crate) fn start(&mut self, name: &str) {
        let status = if self.is_broken(name) { "False" } else { "True" };
        let is_ready = self.pods[name].json["status"]["conditions"][0]["status"] == status;
        if !is_ready && !self.is_going(name) {
            let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": self.now.to_string()});
            self.edit_pod(name, &json!({"status": {"phase": "Running", "conditions": [condition]}}));
        }
    }

    fn is_broken(&self, name: &str) -> bool {
        let image = &self.pods[name].json["spec"]["containers"][0]["image"];
        !self.is_healed && image.as_str().is_some_and(|image| image.ends_with('!'))
    }

    pub(crate) fn is_going(&self, name: &str) -> bool {
        !self.pods[name].json["metadata"]["deletionTimestamp"].is_null()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.pods.keys().cloned().collect()
    }

    /// Pods start, terminating pods are deleted, and a minute passes.
    pub(crate) fn pass(&mut self) {
        for name in self.names() {
            if self.is_going(&name) { self.gone(&name) } else { self.start(&name) }
        }
        self.now += SignedDuration::from_mins(1);
    }

    /// Runs all controllers until none has work left.
    pub(crate) fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..400 {
            let acted = self.reconcile(usize::MAX);
            self.pass();
            quiet = if acted == 0 { quiet + 1 } else { 0 };
            if quiet == 3 {
                return;
            }
        }
        panic!("no end: {:#?}\n{:#?}", self.plan(), self.pods.keys());
    }

    /// The revision number in each pod's image, by name.
    pub(crate) fn images(&self) -> BTreeMap<String, String> {
        let image = |pod: &Stored| pod.json["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned();
        self.pods.iter().map(|(name, pod)| (name.clone(), image(pod))).collect()
    }

    /// Names with images, in short: `web-0=1 web-1=2`. `~` marks terminating pods.
    pub(crate) fn short(&self) -> String {
        let mark = |name: &str| if self.is_going(name) { "~" } else { "" };
        let texts = self.images().into_iter().map(|(name, image)| format!("{name}={image}{}", mark(&name)));
        texts.collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn waits(&self) -> Vec<String> {
        self.plan().waits.iter().map(Wait::to_string).collect()
    }

    pub(crate) fn condition(&self, type_: &str) -> (String, String) {
        let conditions = self.view().status.conditions.unwrap_or_default();
        let condition = conditions.into_iter().find(|condition| condition.type_ == type_);
        condition.map_or_else(Default::default, |condition| (condition.status, condition.reason.unwrap_or_default()))
    }

    /// A condition in one line: `True Reason: message`. Empty if there is none. Revisions are shown by their templates' image.
    pub(crate) fn condition_text(&self, type_: &str) -> String {
        let conditions = self.view().status.conditions.unwrap_or_default();
        let condition = conditions.into_iter().find(|condition| condition.type_ == type_);
        let text = condition.map_or_else(String::new, |condition| {
            format!("{} {}: {}", condition.status, condition.reason.unwrap_or_default(), condition.message.unwrap_or_default())
        });
        self.revisions.iter().fold(text, |text, (name, revision)| {
            let image = &revision.json["data"]["spec"]["template"]["spec"]["containers"][0]["image"];
            text.replace(name, image.as_str().unwrap_or_default())
        })
    }

    /// Reasons of the events so far that are about the set as a whole.
    pub(crate) fn reasons(&self) -> Vec<&str> {
        let about_pods = |reason: &&str| !reason.starts_with("Successful");
        self.events.iter().map(|(reason, _)| reason.as_str()).filter(about_pods).collect()
    }

    /// Whether the set selects an orphan with these labels.
    pub(crate) fn selects(&self, labels: &Value) -> bool {
        let labels = serde_json::from_value(labels.clone()).expect("labels");
        self.view().selector.as_ref().is_some_and(|selector: &Selector| selector.matches(&labels))
    }
}

/// The ordinal of the pod that a claim of this name belongs to.
pub(crate) fn claim_ordinal(claim: &str) -> Option<Ordinal> {
    member_ordinal("web", claim.split_once('-')?.1)
}

fn text(event: &EventRecord) -> (String, String) {
    (event.reason.to_string(), event.message.clone())
}

/// A template whose image is its number.
pub(crate) fn template(number: u32) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": number.to_string()}]}})
}

/// A template whose pods never become ready.
pub(crate) fn broken(number: u32) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": format!("{number}!")}]}})
}
