//! Computes the state of workloads from the caches. The sentences are those of `berth rollout status` and
//! `berth explain`.

use crate::{
    board::{Card, Rank, Reading},
    cluster_cache::ClusterCache,
    past::Present,
    views::Notes,
};
use berth_controllers::cache::AnyCache as _;
use berth_identity::{ObjectKey, RolloutRevision};
use berth_rollout::{
    daemon_set, outdated,
    settled::settled,
    stateful_set::{self, Belongings},
    status::{self, RolloutStage, RolloutStatus},
    waits,
};
use berth_workloads::{
    Wait,
    cause::{self, AdviceContext, Causes, DaemonSetFacts, DeploymentFacts, Obstacle, Replacement, StatefulSetFacts, ranked},
    deployment::{annotations, limits::Limits},
    pod_state::PodState,
    stateful_set::{REVISION_LABEL, member_ordinal, ordinals, revision_of},
    view::{
        DaemonSetView, DeploymentStrategy, DeploymentView, EventView, Meta, PodReplacementPolicy, PodView, ReplicaSetView, RevisionView,
        StatefulSetView,
    },
    workload::{WorkloadId, WorkloadKind},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use std::{collections::BTreeMap, sync::Arc};

/// The maximum number of unready pods whose events are read. Events contain the reason, and one pod shows as much as a
/// thousand.
const EVENT_PODS_MAX: usize = 50;
/// The maximum number of further obstacles that are shown.
const OBSTACLES_MAX: usize = 8;

impl ClusterCache {
    /// Returns the current state of a workload, or `None` if it does not exist.
    pub(crate) fn reading(&self, id: &WorkloadId, now: Timestamp) -> Option<Reading> {
        match id.kind {
            WorkloadKind::Deployment => self.deployments.get(&id.key()).map(|deployment| self.deployment(&deployment, now)),
            WorkloadKind::StatefulSet => self.stateful_sets.get(&id.key()).map(|set| self.stateful_set(&set, now)),
            WorkloadKind::DaemonSet => self.daemon_sets.get(&id.key()).map(|set| self.daemon_set(&set, now)),
        }
    }

    fn deployment(&self, deployment: &DeploymentView, now: Timestamp) -> Reading {
        let sets = self.sets.read();
        let mut pods = self.pods.read();
        let observed = waits::observe_known(deployment, &sets, pods.index_mut(), &self.gates, now);
        let own: Vec<Arc<ReplicaSetView>> = sets.index().controlled_by(&deployment.meta.uid).cloned().collect();
        let own_pods: Vec<Arc<PodView>> = own.iter().flat_map(|set| pods.index().controlled_by(&set.meta.uid)).cloned().collect();
        drop((pods, sets));

        let uids = own.iter().map(|set| &*set.meta.uid).chain([&*deployment.meta.uid]);
        let events = self.warnings(uids, &own_pods);
        let lags = deployment.status.observed_generation < deployment.meta.generation;
        let unobserved_since = self.unobserved_since(&deployment.meta, lags, now);
        let facts = DeploymentFacts { deployment, sets: &own, pods: &own_pods, events: &events, gates: &self.gates, unobserved_since, now };
        let causes = self.beyond_pods(cause::of_deployment(&facts), &own_pods);
        let status = status::of_deployment(deployment, observed, causes, &self.gates);
        let status = settled(status, own_pods.iter().map(|pod| &**pod), deployment.spec.min_ready_seconds, now);

        let by_uid: BTreeMap<&str, &ReplicaSetView> = own.iter().map(|set| (&*set.meta.uid, &**set)).collect();
        let revision = |set: &ReplicaSetView| annotations::revision(&set.annotations).unwrap_or_default();
        let mut present = Present { wanted: count(deployment.spec.replicas.unwrap_or(1)), bound: bound(deployment), ..Present::default() };
        for pod in &own_pods {
            let Some(set) = pod.meta.controller().and_then(|owner| by_uid.get(owner.uid.as_str())) else { continue };
            let state = PodState::of(pod, deployment.spec.min_ready_seconds, now);
            state.into_iter().for_each(|state| present.add(&pod.meta.uid, &pod.meta.name, revision(set), state));
        }
        present.keepers =
            own.iter().filter(|set| RolloutRevision::UNSET < revision(set)).map(|set| (set.meta.uid.clone(), revision(set))).collect();
        // The newest revision has a color even without pods.
        let newest = own.iter().map(|set| revision(set)).max();
        let is_shown = |number: RolloutRevision| present.counts.contains_key(&number) || Some(number) == newest;
        let shown = own.iter().filter(|set| is_shown(revision(set)) || 0 < set.replicas);
        present.names = shown.map(|set| (revision(set), named(revision(set), &set.template))).collect();
        let has_earlier = !lags && status.revision.is_some_and(|revision| RolloutRevision::FIRST < revision);
        let outdated = &outdated::of_deployment(deployment, &own, &own_pods);
        let subject = Subject { meta: &deployment.meta, kind: "deployment", has_earlier, outdated, replacement: Replacement::ByItself };
        let on_the_way = on_the_way(&present, deployment.spec.min_ready_seconds);
        let card = Card { on_the_way, ..card(status, &subject, &deployment.spec.template, deployment.spec.paused) };
        Reading { card, present }
    }

    fn stateful_set(&self, set: &StatefulSetView, now: Timestamp) -> Reading {
        let revisions: Vec<Arc<RevisionView>> = self.revisions.read().index().controlled_by(&set.meta.uid).cloned().collect();
        let pods = self.pods_of(set);
        let claims = if set.spec.volume_claim_templates.iter().flatten().next().is_some() {
            self.claims.read().in_namespace(&set.meta.namespace).cloned().collect()
        } else {
            Vec::new()
        };
        let events = self.warnings([&*set.meta.uid], &pods);
        let unobserved_since = self.unobserved_since(&set.meta, set.status.observed_generation < set.meta.generation, now);
        let causes = cause::of_stateful_set(&StatefulSetFacts { set, pods: &pods, events: &events, unobserved_since, now });
        let causes = self.beyond_pods(causes, &pods);
        let numbers: BTreeMap<&str, &RevisionView> = revisions.iter().map(|revision| (&*revision.meta.name, &**revision)).collect();
        let mut present = Present { wanted: count(set.spec.replicas.unwrap_or(1)), bound: None, ..Present::default() };
        for pod in pods.iter().filter(|pod| pod.meta.is_controlled_by(&set.meta.uid)) {
            let number = numbers.get(revision_of(pod)).map_or(RolloutRevision::UNSET, |revision| revision.number);
            let state = PodState::of(pod, set.spec.min_ready_seconds, now);
            state.into_iter().for_each(|state| present.add(&pod.meta.uid, &pod.meta.name, number, state));
        }
        present.keepers = revisions.iter().map(|revision| (revision.meta.uid.clone(), revision.number)).collect();
        let shown = revisions
            .iter()
            .filter(|revision| present.counts.contains_key(&revision.number) || *revision.meta.name == *set.status.update_revision);
        present.names = shown.map(|revision| named_revision(revision)).collect();
        let has_earlier = unobserved_since.is_none() && 1 < revisions.len();
        let outdated = &outdated::of_stateful_set(set, &pods);
        let owned: Vec<Arc<PodView>> = pods.iter().filter(|pod| pod.meta.is_controlled_by(&set.meta.uid)).cloned().collect();
        let belongings = Belongings { revisions: Some(revisions), pods: Some(pods), claims };
        let status = stateful_set::explain(set, &belongings, causes, &self.gates, now);
        let mut status = settled(status, owned.iter().map(|pod| &**pod), set.spec.min_ready_seconds, now);
        if self.unheeded.is_some() {
            status.waits = status.waits.into_iter().map(Wait::unheeded).collect();
        }
        let on_the_way = on_the_way(&present, set.spec.min_ready_seconds);
        let replacement = stateful_set::replacement(set, &self.gates, self.unheeded.is_none());
        let subject = Subject { meta: &set.meta, kind: "statefulset", has_earlier, outdated, replacement };
        let card = Card { on_the_way, ..card(status, &subject, &set.spec.template, false) };
        Reading { card, present }
    }

    fn daemon_set(&self, set: &DaemonSetView, now: Timestamp) -> Reading {
        let (namespace, selector) = (&set.meta.namespace, set.selector.as_ref());
        let known = self.revisions.read();
        let own = known.index().controlled_by(&set.meta.uid).chain(known.index().orphans(namespace, selector));
        let revisions: Vec<Arc<RevisionView>> = own.cloned().collect();
        drop(known);
        let known = self.pods.read();
        let of_set = known.index().controlled_by(&set.meta.uid).chain(known.index().orphans(namespace, selector));
        let pods: Vec<Arc<PodView>> = of_set.cloned().collect();
        drop(known);
        let nodes = self.nodes.is_synced().then(|| self.nodes.read().iter().map(|node| Arc::clone(&node.daemon)).collect());
        let owned: Vec<Arc<PodView>> = pods.iter().filter(|pod| pod.meta.is_controlled_by(&set.meta.uid)).cloned().collect();
        let events = self.warnings([&*set.meta.uid], &owned);
        let lags = set.status.observed_generation.unwrap_or(0) < set.meta.generation.0;
        let unobserved_since = self.unobserved_since(&set.meta, lags, now);
        let causes = cause::of_daemon_set(&DaemonSetFacts { set, pods: &pods, events: &events, unobserved_since, now });
        let causes = self.beyond_pods(causes, &owned);
        let min_ready_seconds = set.spec.min_ready_seconds.unwrap_or(0);
        let of = daemon_set::Belongings { revisions: Some(revisions), pods: Some(pods), nodes };
        let revisions: Vec<&Arc<RevisionView>> =
            of.revisions.iter().flatten().filter(|revision| revision.meta.is_controlled_by(&set.meta.uid)).collect();
        let newest = daemon_set::newest(set, &of);
        let mut present = Present { wanted: count(set.status.desired_number_scheduled), bound: None, ..Present::default() };
        for pod in &owned {
            let hash = pod.meta.labels.get(REVISION_LABEL);
            let revision = revisions.iter().find(|revision| hash.is_some() && revision.meta.labels.get(REVISION_LABEL) == hash);
            let number = revision.map_or(RolloutRevision::UNSET, |revision| revision.number);
            let state = PodState::of(pod, min_ready_seconds, now);
            state.into_iter().for_each(|state| present.add(&pod.meta.uid, &pod.meta.name, number, state));
        }
        present.keepers = revisions.iter().map(|revision| (revision.meta.uid.clone(), revision.number)).collect();
        let is_shown = |revision: &&&Arc<RevisionView>| {
            present.counts.contains_key(&revision.number) || newest.is_some_and(|newest| newest.number == revision.number)
        };
        present.names = revisions.iter().filter(is_shown).map(|revision| named_revision(revision)).collect();
        let has_earlier = !lags && 1 < revisions.len();
        let outdated = &outdated::of_daemon_set(set, newest.map(|revision| &**revision), &owned);
        let status = daemon_set::explain(set, &of, causes, now);
        let status = settled(status, owned.iter().map(|pod| &**pod), min_ready_seconds, now);
        let on_the_way = on_the_way(&present, min_ready_seconds);
        let replacement = daemon_set::replacement(set);
        let subject = Subject { meta: &set.meta, kind: "daemonset", has_earlier, outdated, replacement };
        let card = Card { on_the_way, ..card(status, &subject, &set.spec.template, false) };
        Reading { card, present }
    }

    /// Returns the pods that the set controls, and the pods with the names of its ordinals. The number of existing pods
    /// limits the work, not the number of desired ones.
    fn pods_of(&self, set: &StatefulSetView) -> Vec<Arc<PodView>> {
        let pods = self.pods.read();
        let wanted = ordinals(set);
        let beginning = format!("{}-", set.meta.name);
        let has_its_name =
            |pod: &&Arc<PodView>| member_ordinal(&set.meta.name, &pod.meta.name).is_some_and(|ordinal| wanted.contains(ordinal));
        let named = pods.beginning_with(&set.meta.namespace, &beginning).filter(has_its_name);
        let all = pods.index().controlled_by(&set.meta.uid).chain(named);
        all.map(|pod| (pod.meta.key(), Arc::clone(pod))).collect::<BTreeMap<_, _>>().into_values().collect()
    }

    /// Adds a cause that unready pods do not report themselves: their node does not respond.
    fn beyond_pods(&self, mut causes: Causes, pods: &[Arc<PodView>]) -> Causes {
        if causes.list.iter().any(|cause| cause.kind == cause::Kind::NotReady) {
            let nodes = self.nodes.read();
            let lost = nodes.iter().filter(|node| !node.is_ready).map(|node| (node.name().to_owned(), node.why.clone())).collect();
            cause::on_lost_nodes(&mut causes.list, pods, &lost);
        }
        causes
    }

    /// Returns the warnings about these objects, about unready pods, and about the claims of those pods.
    fn warnings<'a>(&self, uids: impl IntoIterator<Item = &'a str>, pods: &[Arc<PodView>]) -> Vec<Arc<EventView>> {
        let notes = self.notes.read();
        let about = |notes: &Notes, uid: &str| {
            let warnings = notes.about(uid).filter(|note| note.is_warning);
            warnings.map(|note| Arc::clone(&note.event)).collect::<Vec<_>>()
        };
        let pods_with_events = pods.iter().filter(|pod| !pod.ready || pod.meta.deleted.is_some()).take(EVENT_PODS_MAX);
        let mut events: Vec<_> = uids.into_iter().flat_map(|uid| about(notes.index(), uid)).collect();
        for pod in pods_with_events {
            events.extend(about(notes.index(), &pod.meta.uid));
            let waiting = pod.claims.values().filter(|_| pod.node_name.is_empty());
            let claims = waiting.filter_map(|claim| self.claims.get(&ObjectKey::new(pod.meta.namespace.clone(), claim.as_str())));
            events.extend(claims.flat_map(|claim| about(notes.index(), &claim.meta.uid)));
        }
        events
    }
}

fn count(pods: i32) -> u32 {
    u32::try_from(pods).unwrap_or(0)
}

/// Returns the maximum number of pods, if terminating ones count.
fn bound(deployment: &DeploymentView) -> Option<u32> {
    let counts_terminating = matches!(deployment.choices.policy, Ok(PodReplacementPolicy::TerminationComplete));
    let replicas = deployment.spec.replicas.unwrap_or(1);
    let rolling = deployment.spec.strategy.rolling_update.as_ref()?;
    let is_rolling = matches!(deployment.choices.strategy, Ok(DeploymentStrategy::RollingUpdate));
    let limits = Limits::resolve(rolling.max_surge.as_ref(), rolling.max_unavailable.as_ref(), replicas).ok()?;
    (counts_terminating && is_rolling).then(|| count(replicas).saturating_add(u32::try_from(limits.surge).unwrap_or(0)))
}

/// The room for an image in a legend.
const IMAGE_CHARS_MAX: usize = 20;

/// Returns a short name: `#3 web:2`. It omits registry and path, which seldom differ between revisions. It truncates a
/// long image at the front, so that the tag remains.
fn named(revision: RolloutRevision, template: &PodTemplateSpec) -> String {
    let images = images(template);
    let image = images.first().map_or("", |image| image.rsplit('/').next().unwrap_or(image));
    let hidden = image.chars().count().saturating_sub(IMAGE_CHARS_MAX);
    if hidden == 0 {
        return format!("#{revision} {image}");
    }
    let end: String = image.chars().skip(hidden + 1).collect();
    format!("#{revision} …{end}")
}

/// Returns the number of a ControllerRevision with its short name.
fn named_revision(revision: &RevisionView) -> (RolloutRevision, String) {
    let name = revision.template.as_ref().map_or_else(|| format!("#{}", revision.number), |template| named(revision.number, template));
    (revision.number, name)
}

pub(crate) fn images(template: &PodTemplateSpec) -> Vec<String> {
    let containers = template.spec.iter().flat_map(|spec| &spec.containers);
    containers.map(|container| container.image.clone().unwrap_or_default()).collect()
}

/// Reasons of waits that a user can end.
const AT_STEPS: [&str; 5] = ["step_paused", "step_lasts", "step_analysed", "step_unanswered", "step_failed"];

/// What a card describes.
struct Subject<'a> {
    meta: &'a Meta,
    kind: &'static str,
    has_earlier: bool,
    outdated: &'a [String],
    replacement: Replacement,
}

fn card(status: RolloutStatus, subject: &Subject<'_>, template: &PodTemplateSpec, is_paused: bool) -> Card {
    let Subject { meta, kind, has_earlier, outdated, replacement } = *subject;
    let RolloutStatus { revision, progress: standing, rollback, goes_back_to, replicas, causes, waits, requeue_at, .. } = status;
    let has_causes = !causes.is_empty();
    let obstacles = ranked(causes, waits);
    let workload = format!("{kind}/{}", meta.name);
    let place = AdviceContext { workload: &workload, namespace: &meta.namespace, has_earlier, outdated, replacement };
    let first = obstacles.first();
    let is_held =
        is_paused || first.is_some_and(|first| matches!(first.reason(), "step_paused" | "step_without_pods" | "deletion_by_hand"));
    let waits_at_step = obstacles.iter().any(|obstacle| AT_STEPS.contains(&obstacle.reason()));
    let has_failed_at_step = first.is_some_and(|first| first.reason() == "step_failed");
    let rank = match standing.state {
        RolloutStage::Failed => Rank::Failed,
        RolloutStage::Waiting if has_causes || has_failed_at_step => Rank::Stuck,
        RolloutStage::Waiting if is_held => Rank::Held,
        RolloutStage::Waiting => Rank::UnderWay,
        RolloutStage::Complete if rollback.is_some() => Rank::RolledBack,
        RolloutStage::Complete => Rank::Complete,
    };
    let back = goes_back_to.map(|revision| format!("it rolls back to revision {revision} automatically"));
    Card {
        rank,
        stage: standing.state,
        message: standing.message,
        replicas,
        on_the_way: None,
        next: first.map(Obstacle::next),
        to_do: first.map(|first| first.to_do(place)).unwrap_or_default(),
        obstacles: obstacles.iter().take(OBSTACLES_MAX).map(ToString::to_string).collect(),
        revision,
        images: images(template),
        is_paused,
        waits_at_step,
        rollback: rollback.map(|record| record.to_string()).or(back),
        requeue_at,
    }
}

/// Returns what takes time if there is no obstacle: the new pods that are the least advanced, otherwise the terminating
/// pods.
fn on_the_way(present: &Present, min_ready_seconds: i32) -> Option<String> {
    let count = |of: PodState| present.counts.values().map(|counts| counts.of(of)).fold(0, u32::saturating_add);
    let are = |pods: u32, one: &str, many: &str| if pods == 1 { format!("1 pod {one}") } else { format!("{pods} pods {many}") };
    let texts = [
        (PodState::Pending, "has no node yet", "have no node yet"),
        (PodState::Starting, "is starting", "are starting"),
        (PodState::Ready, "is ready and has to stay so", "are ready and have to stay so"),
        (PodState::Terminating, "is terminating", "are terminating"),
    ];
    let (state, text) = texts.into_iter().find_map(|(state, one, many)| {
        let pods = count(state);
        (0 < pods).then(|| (state, are(pods, one, many)))
    })?;
    Some(if state == PodState::Ready && 0 < min_ready_seconds { format!("{text} for {min_ready_seconds} s") } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{Container, PodSpec};

    #[test]
    fn a_legend_has_room_for_the_tag_of_an_image() {
        let name = |image: &str| {
            let container = Container { image: Some(image.to_owned()), ..Container::default() };
            let spec = PodSpec { containers: vec![container], ..PodSpec::default() };
            named(RolloutRevision(3), &PodTemplateSpec { spec: Some(spec), ..PodTemplateSpec::default() })
        };
        assert_eq!(name("registry.example:5000/team/web:2"), "#3 web:2");
        assert_eq!(name("registry.example/recommendations-service:2026-11-28"), "#3 …-service:2026-11-28");
    }

    #[test]
    fn where_nothing_blocks_a_rollout_the_message_names_what_it_waits_for() {
        let said = |states: &[PodState], min_ready| {
            let mut present = Present::default();
            states.iter().for_each(|state| present.add(&"u".into(), "p", RolloutRevision(1), *state));
            on_the_way(&present, min_ready)
        };
        assert_eq!(said(&[PodState::Starting, PodState::Available, PodState::Starting], 0).as_deref(), Some("2 pods are starting"));
        assert_eq!(said(&[PodState::Starting, PodState::Pending], 0).as_deref(), Some("1 pod has no node yet"));
        assert_eq!(said(&[PodState::Ready, PodState::Terminating], 5).as_deref(), Some("1 pod is ready and has to stay so for 5 s"));
        assert_eq!(said(&[PodState::Available, PodState::Terminating], 5).as_deref(), Some("1 pod is terminating"));
        assert_eq!(said(&[PodState::Available], 5), None);
    }
}
