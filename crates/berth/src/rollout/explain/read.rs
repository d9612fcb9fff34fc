//! The input of an explanation, read once from the cluster. If some objects cannot be read, fewer causes are found, and the explanation
//! lists them.

mod cron_job;
mod daemon_set;
mod job;
mod owner;

use super::{
    super::{
        cluster::{Connection, Item},
        error::Error,
        features::{self, Feature},
        selector::selector_text,
        target::{Found, changed},
    },
    Explanation, Kind, Next, Subject,
    facts::{self, Around, Condition},
    state::WorkloadState,
};
use berth_api::{FeatureGates, decode::Codec};
use berth_identity::{GroupResource, GroupVersionResource, Revision, RolloutRevision};
use berth_rollout::{
    outdated, replica_set,
    settled::{Unsettled, settled, unsettled},
    stateful_set::{self, Belongings},
    status::{self, RolloutProgress, RolloutStage, RolloutStatus},
    waits,
};
use berth_workloads::{
    Wait,
    cause::{
        self, AdviceContext, Cause, DeploymentFacts, Obstacle, PodFacts, Replacement, ReplicaSetFacts, Rival, StatefulSetFacts, ranked,
    },
    deployment::annotations,
    plan::TerminatingPod,
    resources::{BUDGETS, CLAIMS, CRON_JOBS, DEPLOYMENTS, JOBS, NODES, PODS, QUOTAS, REPLICA_SETS, REVISIONS, v1},
    selector::Labels,
    stateful_set::member_ordinal,
    view::{
        BudgetView, ClaimView, DeploymentView, EventView, Meta, PodPhase, PodView, ReplicaKind, ReplicaSetView, RevisionView,
        StatefulSetView, View,
    },
    workload::WorkloadKind,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node, PodTemplateSpec, ResourceQuota},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Reads and explains. With `keeps_input`, also returns the planner's input for the workload.
///
/// # Errors
/// The object itself cannot be read.
pub(super) async fn explanation(
    connection: &Connection,
    subject: &Subject,
    keeps_input: bool,
    now: Timestamp,
) -> Result<Explanation, Error> {
    let reader = Reader { connection, unread: Vec::new(), refused: BTreeSet::new(), now, keeps_input, input: None };
    match subject.kind {
        Kind::Rolled(kind) => {
            let json = connection.named(&kind.gvr(), &subject.name).await?;
            let found = Found { kind, name: subject.name.clone(), json };
            match kind {
                WorkloadKind::Deployment => reader.deployment(&found).await,
                WorkloadKind::StatefulSet => reader.stateful_set(&found).await,
                WorkloadKind::DaemonSet => reader.daemon_set(&found).await,
            }
        }
        Kind::CronJob => reader.cron_job(&connection.named(&v1(CRON_JOBS), &subject.name).await?).await,
        Kind::Job => reader.job(&connection.named(&v1(JOBS), &subject.name).await?).await,
        Kind::Replicas(kind) => reader.replicas(kind, &connection.named(&v1(kind.resource()), &subject.name).await?).await,
        Kind::Pod => reader.pod(&connection.named(&v1(PODS), &subject.name).await?).await,
    }
}

struct Reader<'a> {
    connection: &'a Connection,
    unread: Vec<String>,
    /// The plurals of what could not be read.
    refused: BTreeSet<String>,
    now: Timestamp,
    keeps_input: bool,
    /// The planner's input for the workload.
    input: Option<Box<WorkloadState>>,
}

/// The parts of an explanation that are the same for all kinds.
struct Summary<'a> {
    kind: &'static str,
    meta: &'a Meta,
    state: &'static str,
    message: String,
    conditions: Vec<Condition>,
    /// The workload that has the template: `deployment/web`.
    workload: String,
    has_earlier: bool,
    /// The pods that do not have the current template.
    outdated: Vec<String>,
    /// Whether an update replaces failing pods.
    replacement: Replacement,
    notes: Vec<String>,
    /// Other objects that events may be about, by uid.
    parts: BTreeMap<String, String>,
    /// What happens next although obstacles exist, because the object has ended.
    ended: Option<&'static str>,
}

impl Reader<'_> {
    async fn deployment(mut self, found: &Found) -> Result<Explanation, Error> {
        let deployment: DeploymentView = found.view()?;
        let (gates, notes) = self.gates(found).await?;
        let selected = selector_text(found, deployment.spec.selector.as_ref())?;
        let sets: Vec<Arc<ReplicaSetView>> = self.views(REPLICA_SETS).await?;
        let around = self.around(Some(&selected)).await?;
        let (pods, events, now) = (&around.pods, &around.events, self.now);
        let unobserved_since = (deployment.status.observed_generation < deployment.meta.generation).then(|| found.changed().unwrap_or(now));
        let causes = cause::of_deployment(&DeploymentFacts {
            deployment: &deployment,
            sets: &sets,
            pods,
            events,
            gates: &gates,
            unobserved_since,
            now,
        });
        if self.keeps_input {
            self.input = Some(Box::new(WorkloadState::Deployment(waits::state(&deployment, &sets, pods, &gates, now))));
        }
        let observed = waits::observe(&deployment, &sets, pods, &gates, now);
        let status = status::of_deployment(&deployment, observed, causes, &gates);
        let owned = |pod: &&Arc<PodView>| {
            sets.iter().any(|set| set.meta.is_controlled_by(&deployment.meta.uid) && pod.meta.is_controlled_by(&set.meta.uid))
        };
        let status = settled(status, pods.iter().filter(owned).map(|pod| &**pod), deployment.spec.min_ready_seconds, now);
        let RolloutStatus { revision, progress: standing, mut causes, waits, .. } = status;
        causes.extend(self.neighbors("Deployment", &deployment.meta, &deployment.spec.template, &sets, pods).await?);
        let outdated = outdated::of_deployment(&deployment, &sets, pods);
        let own = sets.iter().filter(|set| set.replicas > 0 && set.meta.is_controlled_by(&deployment.meta.uid));
        let summary = Summary {
            kind: "Deployment",
            meta: &deployment.meta,
            state: state(standing.state),
            message: standing.message,
            conditions: facts::conditions(&found.json),
            workload: format!("deployment/{}", deployment.meta.name),
            has_earlier: unobserved_since.is_none() && revision.is_some_and(|revision| revision > RolloutRevision::FIRST),
            outdated,
            replacement: Replacement::ByItself,
            notes,
            parts: own.map(|set| (set.meta.uid.to_string(), format!("replicaset/{}", set.meta.name))).collect(),
            ended: None,
        };
        let later = facts::deadline(&deployment, now).filter(|_| standing.state != RolloutStage::Complete);
        self.explain(summary, causes, waits, around, later).await
    }

    async fn stateful_set(mut self, found: &Found) -> Result<Explanation, Error> {
        let set: StatefulSetView = found.view()?;
        let (gates, notes) = self.gates(found).await?;
        let sets: Vec<Arc<ReplicaSetView>> = self.views(REPLICA_SETS).await?;
        // By name, as the controller does: another owner's pod may have such a name, and a terminating pod other labels.
        let mut around = self.around(None).await?;
        around.pods.retain(|pod| member_ordinal(&set.meta.name, &pod.meta.name).is_some());
        let revisions: Vec<Arc<RevisionView>> = self.views(REVISIONS).await?;
        let claims = self.items(CLAIMS, None).await?;
        around.held_claims = claims.iter().filter_map(|claim| Some((claim.name.clone(), facts::holders(&claim.json)?))).collect();
        let claims: Vec<Arc<ClaimView>> = views(&claims);
        let (pods, events, now) = (&around.pods, &around.events, self.now);
        let unobserved_since = (set.status.observed_generation < set.meta.generation).then(|| found.changed().unwrap_or(now));
        let causes = cause::of_stateful_set(&StatefulSetFacts { set: &set, pods, events, unobserved_since, now });
        let has_earlier = unobserved_since.is_none() && has_earlier(&set.meta, &revisions);
        let outdated = outdated::of_stateful_set(&set, pods);
        let belongings = Belongings { revisions: Some(revisions), pods: Some(pods.clone()), claims };
        if self.keeps_input {
            self.input = stateful_set::state(&set, &belongings, &gates, now).map(WorkloadState::StatefulSet).map(Box::new);
        }
        let status = stateful_set::explain(&set, &belongings, causes, &gates, now);
        let owned = pods.iter().filter(|pod| pod.meta.is_controlled_by(&set.meta.uid)).map(|pod| &**pod);
        let RolloutStatus { progress: standing, mut causes, mut waits, .. } = settled(status, owned, set.spec.min_ready_seconds, now);
        let supports_annotations = features::support_annotations(self.connection, found).await;
        if !supports_annotations {
            waits = waits.into_iter().map(Wait::unheeded).collect();
        }
        causes.extend(self.neighbors("StatefulSet", &set.meta, &set.spec.template, &sets, pods).await?);
        let summary = Summary {
            kind: "StatefulSet",
            meta: &set.meta,
            state: state(standing.state),
            message: standing.message,
            conditions: facts::conditions(&found.json),
            workload: format!("statefulset/{}", set.meta.name),
            has_earlier,
            outdated,
            replacement: stateful_set::replacement(&set, &gates, supports_annotations),
            notes,
            parts: BTreeMap::new(),
            ended: None,
        };
        self.explain(summary, causes, waits, around, None).await
    }

    async fn replicas(mut self, kind: ReplicaKind, json: &str) -> Result<Explanation, Error> {
        let set = match kind {
            ReplicaKind::ReplicaSet => decoded("replicaset", json)?,
            ReplicaKind::ReplicationController => ReplicaSetView::decode_controller(json.as_bytes(), Revision(0))
                .map_err(|source| Error::Decode { what: "replicationcontroller".to_owned(), source })?,
        };
        let mut around = self.around(None).await?;
        around.pods.retain(|pod| pod.meta.is_controlled_by(&set.meta.uid));
        let (pods, events, now) = (&around.pods, &around.events, self.now);
        let unobserved_since = (set.status.observed_generation < set.meta.generation).then(|| changed(json).unwrap_or(now));
        let mut causes = cause::of_replica_set(&ReplicaSetFacts { set: &set, pods, events, unobserved_since, now }).list;
        let owner = set.meta.controller().map(|owner| (owner.kind.clone(), owner.name.clone()));
        let is_current = self.is_current(&set).await;
        if owner.is_none() {
            let sets: Vec<Arc<ReplicaSetView>> = self.views(REPLICA_SETS).await?;
            causes.extend(self.neighbors(kind.name(), &set.meta, &set.template, &sets, pods).await?);
        }
        let gates = features::gates(self.connection).await.controllers;
        let mut waits = waits::of_set_alone(&set, pods, &gates, now);
        let mut progress = replica_set::progress(&set);
        let is_complete = progress.state == RolloutStage::Complete;
        let owned = pods.iter().map(|pod| &**pod);
        let unsettled = is_complete.then(|| unsettled(&progress.message, owned, set.min_ready_seconds, now)).flatten();
        if let Some(Unsettled { message, cause, wait, .. }) = unsettled {
            progress = RolloutProgress { state: RolloutStage::Waiting, message };
            causes.extend(cause);
            waits.push(wait);
        }
        let summary = Summary {
            kind: kind.name(),
            meta: &set.meta,
            state: state(progress.state),
            message: progress.message,
            conditions: facts::conditions(json),
            has_earlier: is_current && annotations::revision(&set.annotations).is_some_and(|revision| revision > RolloutRevision::FIRST),
            outdated: Vec::new(),
            workload: workload(owner.as_ref(), &kind.name().to_lowercase(), &set.meta.name),
            replacement: if owner.is_some() { Replacement::ByItself } else { Replacement::OnDeletion },
            notes: belongs(owner.as_ref()),
            parts: BTreeMap::new(),
            ended: None,
        };
        self.explain(summary, causes, waits, around, None).await
    }

    async fn pod(mut self, json: &str) -> Result<Explanation, Error> {
        let pod: Arc<PodView> = Arc::new(decoded("pod", json)?);
        let claimed = BTreeMap::from([(pod.meta.name.to_string(), facts::claimed(json))]);
        let mut around = Around { pods: vec![Arc::clone(&pod)], events: self.warnings().await?, claimed, ..Around::default() };
        let of_its_claim = |event: &EventView| event.claim.as_ref().is_some_and(|claim| pod.claims.values().any(|name| name == claim));
        around.events.retain(|event| event.about_uid == pod.meta.uid || of_its_claim(event));
        let mut causes = cause::of_one_pod(&PodFacts { pod: &pod, events: &around.events, now: self.now }).list;
        causes.extend(self.budgets(&around.pods).await?);
        let mut owner = pod.meta.controller().map(|owner| (owner.kind.clone(), owner.name.clone()));
        let of_owner = self.of_owner(owner.as_ref(), &around.pods).await?;
        owner = of_owner.owner.or(owner);
        let (state, message) = match (pod.meta.deleted, pod.ready, pod.phase) {
            (Some(_), ..) => ("Waiting", "it is being deleted"),
            (None, true, _) => ("Complete", "it is ready"),
            (None, false, PodPhase::Succeeded) => ("Complete", "it has succeeded"),
            (None, false, PodPhase::Failed) => ("Failed", "it has failed"),
            (None, false, _) if pod.node_name.is_empty() => ("Waiting", "it has no node yet"),
            (None, false, _) => ("Waiting", "it is not ready yet"),
        };
        let summary = Summary {
            kind: "Pod",
            meta: &pod.meta,
            state,
            message: message.to_owned(),
            conditions: facts::conditions(json),
            workload: workload(owner.as_ref(), "pod", &pod.meta.name),
            has_earlier: of_owner.has_earlier,
            outdated: of_owner.outdated,
            replacement: of_owner.replacement,
            notes: belongs(owner.as_ref()),
            parts: BTreeMap::new(),
            ended: of_owner.ended,
        };
        let waits = pod.is_terminating().then(|| going(&pod, self.now)).into_iter().collect();
        self.explain(summary, causes, waits, around, None).await
    }

    /// Whether a `ReplicaSet` has its Deployment's current template. Only then can an earlier template help.
    async fn is_current(&self, set: &ReplicaSetView) -> bool {
        let Some(owner) = set.meta.controller().filter(|owner| owner.kind == "Deployment") else { return false };
        let Ok(json) = self.connection.get(&v1(DEPLOYMENTS), &owner.name).await else { return false };
        decoded("deployment", &json).is_ok_and(|deployment: DeploymentView| {
            annotations::revision(&deployment.annotations) == annotations::revision(&set.annotations)
                && deployment.meta.generation <= deployment.status.observed_generation
        })
    }

    async fn explain(
        mut self,
        summary: Summary<'_>,
        mut causes: Vec<Cause>,
        waits: Vec<Wait>,
        mut around: Around,
        later: Option<Next>,
    ) -> Result<Explanation, Error> {
        self.add_causes_beyond_pods(&mut causes, &around).await?;
        let obstacles = ranked(causes, waits);
        if obstacles.first().is_some_and(|first| first.reason() == "quota") {
            let items = self.items(QUOTAS, None).await?;
            around.quotas = items.iter().filter_map(|item| ResourceQuota::decode_json(item.json.as_bytes()).ok()).collect();
        }
        let title = format!("{}/{}", summary.kind.to_lowercase(), summary.meta.name);
        let mut parts = summary.parts;
        parts.insert(summary.meta.uid.to_string(), title.clone());
        let evidence = obstacles.first().map_or_else(Vec::new, |first| facts::evidence(first, &around, &title, &summary.conditions, parts));
        let ended = summary.ended.filter(|_| summary.state == "Failed" || !obstacles.is_empty());
        let by_itself = ended.or_else(|| obstacles.first().map(Obstacle::next)).map(|text| Next { text: text.to_owned(), at: None });
        let namespace = if summary.meta.namespace.is_empty() { self.connection.namespace() } else { &*summary.meta.namespace };
        let (outdated, replacement) = (&summary.outdated[..], summary.replacement);
        let place = AdviceContext { workload: &summary.workload, namespace, has_earlier: summary.has_earlier, outdated, replacement };
        let mut to_do = to_do(&obstacles, place);
        if to_do.is_empty() && ended.is_some() {
            to_do.push(cause::recreate(place));
        }
        Ok(Explanation {
            kind: summary.kind,
            name: summary.meta.name.to_string(),
            state: summary.state,
            message: summary.message,
            evidence,
            next: by_itself.into_iter().chain(later).collect(),
            to_do,
            namespace: namespace.to_owned(),
            obstacles,
            notes: summary.notes,
            unread: self.unread,
            at: self.now,
            input: self.input,
        })
    }

    /// Adds the causes that a pod's own status does not show: an unresponsive node or a missing ResourceClaim.
    async fn add_causes_beyond_pods(&mut self, causes: &mut Vec<Cause>, around: &Around) -> Result<(), Error> {
        if causes.iter().any(|cause| cause.kind == cause::Kind::NotReady) {
            let nodes = self.nodes().await?;
            let lost = nodes.iter().filter_map(|item| Some((item.name.clone(), silent(item)?))).collect();
            cause::on_lost_nodes(causes, &around.pods, &lost);
        }
        let waits = causes.iter().any(|cause| cause.kind == cause::Kind::NotScheduled || cause.kind.is_unschedulable());
        let is_own = |pod: &String| around.pods.iter().any(|own| *own.meta.name == **pod);
        let claimed: BTreeMap<String, Vec<String>> = around
            .claimed
            .iter()
            .filter(|(pod, claims)| is_own(pod) && !claims.is_empty())
            .map(|(pod, claims)| (pod.clone(), claims.clone()))
            .collect();
        if waits && !claimed.is_empty() {
            // A server that does not serve the kind has no such objects.
            let claims = self.connection.list(&GroupVersionResource::from_static("resource.k8s.io", "v1", "resourceclaims"), None).await;
            let there: BTreeSet<String> = claims.into_iter().flatten().map(|claim| claim.name).collect();
            let found = cause::resource_claims(&claimed, &there);
            if found.is_some() {
                causes.retain(|cause| cause.kind != cause::Kind::NotScheduled);
            }
            causes.extend(found);
        }
        Ok(())
    }

    async fn nodes(&mut self) -> Result<Vec<Item>, Error> {
        let answer = self.connection.list_everywhere(&v1(NODES), None).await;
        self.allowed("nodes", answer)
    }

    /// The gates of the cluster's controllers, and the assumptions about them.
    async fn gates(&self, found: &Found) -> Result<(FeatureGates, Vec<String>), Error> {
        let mut known = features::Features::default();
        let mut notes = Vec::new();
        if let Some(feature) = Feature::needed_by(found)? {
            let finding = features::find(self.connection, &feature).await;
            notes.extend(finding.note(&feature));
            known.add(finding);
        }
        Ok((known.gates, notes))
    }

    async fn around(&mut self, selected: Option<&str>) -> Result<Around, Error> {
        let pods = self.items(PODS, selected).await?;
        self.around_pods(&pods).await
    }

    async fn around_pods(&mut self, pods: &[Item]) -> Result<Around, Error> {
        let claimed = pods.iter().map(|pod| (pod.name.clone(), facts::claimed(&pod.json))).filter(|(_, claims)| !claims.is_empty());
        let claimed = claimed.collect();
        Ok(Around { pods: views(pods), events: self.warnings().await?, claimed, ..Around::default() })
    }

    async fn warnings(&mut self) -> Result<Vec<Arc<EventView>>, Error> {
        let answer = self.connection.warnings().await;
        let items = self.allowed("events", answer)?;
        Ok(items.iter().filter_map(|item| EventView::decode(item.json.as_bytes()).ok().map(Arc::new)).collect())
    }

    async fn views<V: View>(&mut self, resource: GroupResource) -> Result<Vec<Arc<V>>, Error> {
        Ok(views(&self.items(resource, None).await?))
    }

    /// Returns `None` if the server rejects the request, and records the error.
    async fn readable<V: View>(&mut self, resource: GroupResource) -> Result<Option<Vec<Arc<V>>>, Error> {
        let plural = resource.plural.to_string();
        let found = self.views(resource).await?;
        Ok(self.is_readable(&plural).then_some(found))
    }

    /// Whether the server has rejected no request for these objects.
    fn is_readable(&self, plural: &str) -> bool {
        !self.refused.contains(plural)
    }

    async fn items(&mut self, resource: GroupResource, selected: Option<&str>) -> Result<Vec<Item>, Error> {
        let resource = v1(resource);
        let answer = self.connection.list(&resource, selected).await;
        self.allowed(&resource.plural, answer)
    }

    /// Returns an empty list if the server rejects the request, and records the error.
    fn allowed(&mut self, what: &str, answer: Result<Vec<Item>, Error>) -> Result<Vec<Item>, Error> {
        match answer {
            Err(Error::Refused { message, .. }) => {
                // Some objects are read twice.
                if self.refused.insert(what.to_owned()) {
                    self.unread.push(format!("{what}: {message}"));
                }
                Ok(Vec::new())
            }
            answer => answer,
        }
    }

    /// Other workloads that select the same pods, and budgets that block evictions.
    async fn neighbors(
        &mut self,
        kind: &'static str,
        meta: &Meta,
        template: &PodTemplateSpec,
        sets: &[Arc<ReplicaSetView>],
        pods: &[Arc<PodView>],
    ) -> Result<Vec<Cause>, Error> {
        let mut found: Vec<_> = self.rivals(kind, meta, template, sets).await?.into_iter().collect();
        let own: Vec<_> = match kind {
            "Deployment" => {
                let is_of =
                    |pod: &PodView| sets.iter().any(|set| set.meta.is_controlled_by(&meta.uid) && pod.meta.is_controlled_by(&set.meta.uid));
                pods.iter().filter(|pod| is_of(pod)).cloned().collect()
            }
            _ => pods.iter().filter(|pod| pod.meta.is_controlled_by(&meta.uid)).cloned().collect(),
        };
        found.extend(self.budgets(&own).await?);
        Ok(found)
    }

    /// Other workloads that select the same pods.
    async fn rivals(
        &mut self,
        kind: &'static str,
        meta: &Meta,
        template: &PodTemplateSpec,
        sets: &[Arc<ReplicaSetView>],
    ) -> Result<Option<Cause>, Error> {
        let mut rivals = Vec::new();
        for workload in WorkloadKind::ALL {
            rivals.extend(self.items(workload.resource(), None).await?.iter().filter_map(|item| selecting(workload.name(), item)));
        }
        let bare = sets.iter().filter(|set| set.meta.controller().is_none());
        rivals.extend(
            bare.filter_map(|set| Some(Rival { kind: "ReplicaSet", name: set.meta.name.to_string(), selector: set.selector.clone()? })),
        );
        let labels: Labels = template.metadata.iter().flat_map(|metadata| metadata.labels.iter().flatten()).collect();
        Ok(cause::overlap(kind, &meta.name, &labels, &rivals))
    }

    async fn budgets(&mut self, pods: &[Arc<PodView>]) -> Result<Option<Cause>, Error> {
        let items = self.items(BUDGETS, None).await?;
        let budgets = items.iter().filter_map(|item| BudgetView::decode(item.json.as_bytes(), Revision(0)).ok());
        let strict: Vec<_> = budgets.filter(|budget| budget.status.disruptions_allowed.unwrap_or(0) <= 0).collect();
        if strict.is_empty() {
            return Ok(None);
        }
        let nodes = self.nodes().await?;
        let is_cordoned = |item: &&Item| {
            let node = Node::decode_json(item.json.as_bytes()).unwrap_or_default();
            node.spec.is_some_and(|spec| spec.unschedulable == Some(true))
        };
        let cordoned: BTreeSet<String> = nodes.iter().filter(is_cordoned).map(|item| item.name.clone()).collect();
        Ok(cause::held_by_budgets(pods, &strict, &cordoned))
    }
}

/// Whether revisions contain another template than the newest one of this workload.
fn has_earlier(meta: &Meta, revisions: &[Arc<RevisionView>]) -> bool {
    1 < revisions.iter().filter(|revision| revision.meta.is_controlled_by(&meta.uid)).count()
}

/// The wait of a terminating pod: for its own end.
fn going(pod: &PodView, now: Timestamp) -> Wait {
    let last = pod.meta.deleted.zip(pod.grace_period_seconds).map(|(deleted, grace_period_seconds)| TerminatingPod {
        name: pod.meta.name.to_string(),
        left_seconds: deleted.duration_since(now).as_secs(),
        grace_period_seconds,
    });
    Wait::PodTerminating { pod: pod.meta.name.to_string(), last, then: None }
}

/// Why a node is unresponsive. `None` if it responds.
fn silent(item: &Item) -> Option<String> {
    let node = Node::decode_json(item.json.as_bytes()).ok()?;
    let conditions = node.status?.conditions?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready").filter(|condition| condition.status != "True")?;
    Some(ready.message.clone().or_else(|| ready.reason.clone()).unwrap_or_default())
}

/// The selector of a workload.
fn selecting(kind: &'static str, item: &Item) -> Option<Rival> {
    let object: Value = serde_json::from_str(&item.json).ok()?;
    let selector: LabelSelector = serde_json::from_value(object["spec"]["selector"].clone()).ok()?;
    Some(Rival { kind, name: item.name.clone(), selector: berth_workloads::selector::Selector::parse(&selector)? })
}

fn views<V: View>(items: &[Item]) -> Vec<Arc<V>> {
    // Objects that cannot be decoded are no evidence.
    items.iter().filter_map(|item| V::decode(item.json.as_bytes(), Revision(0)).ok().map(Arc::new)).collect()
}

fn decoded<V: View>(what: &str, json: &str) -> Result<V, Error> {
    V::decode(json.as_bytes(), Revision(0)).map_err(|source| Error::Decode { what: what.to_owned(), source })
}

fn state(stage: RolloutStage) -> &'static str {
    match stage {
        RolloutStage::Waiting => "Waiting",
        RolloutStage::Complete => "Complete",
        RolloutStage::Failed => "Failed",
    }
}

/// The workload that has the template: the controller if there is one, otherwise the object itself.
fn workload(owner: Option<&(String, String)>, kind: &str, name: &str) -> String {
    owner.map_or_else(|| format!("{kind}/{name}"), |(kind, name)| format!("{}/{name}", kind.to_lowercase()))
}

fn belongs(owner: Option<&(String, String)>) -> Vec<String> {
    owner.iter().map(|(kind, name)| format!("it belongs to {}/{name}", kind.to_lowercase())).collect()
}

/// The remedies for the first obstacle, and for others that only a user can end. Each command is listed once.
fn to_do(obstacles: &[Obstacle], place: AdviceContext<'_>) -> Vec<cause::ToDo> {
    const BY_HAND: [&str; 5] = ["outdated_pod_not_ready", "deletion_by_hand", "partition", "paused", "name_taken"];
    let asked = obstacles.iter().enumerate().filter(|(index, obstacle)| *index == 0 || BY_HAND.contains(&obstacle.reason()));
    let mut all: Vec<cause::ToDo> = Vec::new();
    for to_do in asked.flat_map(|(_, obstacle)| obstacle.to_do(place)) {
        if !all.iter().any(|known| known.command == to_do.command) {
            all.push(to_do);
        }
    }
    all
}
