//! One run: from a snapshot and a change to a forecast.

use crate::{
    analyses::Analyses,
    asked_pods::{Refusals, RefusedPod},
    autoscalers::{Autoscalers, KIND as AUTOSCALER, KnownUsage},
    change::Change,
    changed::Changed,
    demand::Demand,
    error::PlanError,
    extensions::{Evaluate, Extensions},
    forecast::{Forecast, OtherForecast, OtherOutcome, Outcome, Supposed, Trouble, TroubleKind, WorkloadForecast},
    observer::{Observer, warning_views},
    others::{LiveOther, TrackedOther},
    pod_behavior::PodBehaviors,
    pod_timings::{LearnedTimings, Timings, id_of},
    simulation::{Reviewers, Server, Simulation},
    snapshot::{Controllers, Snapshot},
    times::since,
    tracked_workload::{End, LiveWorkload, TrackedWorkload},
};
use berth_api::{FeatureGates, Gate};
use berth_identity::{GroupResource, Revision};
use berth_node::kubelet::KnownObjects;
use berth_registry::Reviewer;
use berth_store::env::Timestamp;
use berth_workloads::{
    cause::{self, DaemonSetFacts, DeploymentFacts, JobFacts, ReplicaSetFacts, StatefulSetFacts},
    resources::{PODS, REPLICA_SETS},
    view::{PodView, ReplicaSetView, View},
    workload::WorkloadId,
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long the components have to read the initial objects before the change: more than they need.
const WARM_UP: Duration = Duration::from_millis(200);
/// How long the manifests of a snapshot have to roll out.
const SETTLE_MAX: Duration = Duration::from_secs(6 * 3600);
/// How long nothing may happen before the simulation counts as converged.
const RESTING: Duration = Duration::from_secs(60);
/// The maximum time that a rollout with an autoscaler is followed, whose sizes may never settle.
const LONGEST_AUTOSCALED: Duration = Duration::from_secs(86_400);
/// The maximum time that a rollout is followed.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// Assumptions about the cluster from the caller, in place of unknown facts.
#[derive(Clone, Debug, Default)]
pub struct Suppositions {
    /// The cluster's controllers. `None` to derive them from the snapshot.
    pub controllers: Option<Controllers>,
    /// The feature gates of the cluster, as far as it reports them.
    pub gates: KnownGates,
    /// Pods of the change that the API server rejects, according to its own answer.
    pub refused: Vec<RefusedPod>,
    /// Whether the API server has checked the pods of the change.
    pub are_pods_asked: bool,
    /// Why the API server could not check the pods. `None` if it could, or there is no cluster.
    pub unasked: Option<String>,
    /// The time of pods from binding to readiness. `None` to derive it from the snapshot.
    pub start: Option<Duration>,
    /// The time of pods from deletion to their end. `None` to derive it from the snapshot.
    pub stop: Option<Duration>,
    /// The result of analyses in progressive rollouts.
    pub analyses: Analyses,
    /// The seed of the interleaving. With 0, pods take the typical time. With another seed, each takes the time of a random sample.
    pub seed: u64,
    /// The ConfigMaps and Secrets that are known to exist or to be missing. All others count as existing.
    pub objects: KnownObjects,
    /// The usage of the cluster's pods. Without it, autoscalers of real pods do not run.
    pub usage: KnownUsage,
    /// The maximum number of writes of the simulation, for callers that do not wait for long. `None` for 20,000,000.
    pub writes_max: Option<u64>,
}

/// The feature gates of a cluster.
#[derive(Clone, Debug, Default)]
pub struct KnownGates {
    /// The gates of its controllers.
    pub controllers: FeatureGates,
    /// The gates of its API server.
    pub server: FeatureGates,
    /// Why the controllers' gates are unknown. Then those of the API server or the defaults are assumed. `None` if they are known, or there
    /// is no cluster.
    pub unknown: Option<String>,
}

/// Forecasts the effect of the change.
///
/// The CPU cost is that of the rollout on a server, but no real time passes.
///
/// # Errors
/// [`PlanError`].
pub fn forecast(snapshot: &Snapshot, change: &Change, suppositions: &Suppositions) -> Result<Forecast, PlanError> {
    let targets = change.targets()?;
    let (controllers, because) = match suppositions.controllers {
        Some(controllers) => (controllers, "an option sets it".to_owned()),
        None => snapshot.controllers(),
    };
    let node_count = snapshot.of_kinds(&["Node"]).count();
    let autoscalers = Autoscalers::of(snapshot, change, &targets, &suppositions.usage);
    let mut demand = Demand::of_all(&snapshot.objects, node_count);
    autoscalers.add_demand(&snapshot.objects, &mut demand);
    let mut demand = demand.check()?;
    let timings = timings(snapshot, suppositions, change, &targets);
    let slowest = timings.values().flat_map(|of| [of.start.slowest, of.stop.slowest]).max().unwrap_or_default();
    let begins = snapshot.at - WARM_UP;
    let extensions = Arc::new(Extensions::of(snapshot, change, Evaluate::Policies));
    let mut simulation = Simulation::new(suppositions.seed, begins, &server(snapshot, suppositions, &extensions));
    (simulation.analyses, simulation.controllers) = (suppositions.analyses, controllers);
    simulation.writes_max = suppositions.writes_max.unwrap_or(simulation.writes_max);
    simulation.gates = controllers.gates_of(&suppositions.gates.controllers);
    simulation.usage = autoscalers.usage();
    let mut observer = Observer::new(&targets, change.others(), simulation.gates.clone(), simulation.log());
    let (autoscaling, stored): (Vec<_>, Vec<_>) = snapshot.stored().into_iter().partition(|object| object["kind"] == AUTOSCALER);
    simulation.restore(stored)?;
    extensions.install(&mut simulation)?;
    let others = LearnedTimings::default().of_any(suppositions.start, suppositions.stop);
    let knows_references = !suppositions.objects.is_empty();
    let habits = PodBehaviors { timings: timings.clone(), others, seed: suppositions.seed, knows_references };
    let nodes = habits.nodes(snapshot, begins, change.with_applied(&suppositions.objects));
    let has_manifests = make_manifests(&mut simulation, snapshot, &autoscalers)?;
    simulation.start(nodes);
    let until = snapshot.at.max(simulation.now());
    follow(&mut simulation, &mut observer, until, |_, _| false)?;
    if has_manifests {
        settle(&mut simulation, &mut observer)?;
    }
    observer.begin(simulation.now(), |entry| simulation.written_lately(entry));
    extensions.begin();
    let mut changed = change.outcome(&mut simulation, &extensions)?;
    changed.retain(|Changed { subject, .. }| autoscalers.includes(&subject.kind.kind, &subject.namespace, &subject.name));
    for object in &changed {
        demand.subtract(Demand::of(&object.before, node_count));
        demand.add(Demand::of(&object.after, node_count));
    }
    demand.check()?;
    let is_changed = |workload: &WorkloadId| changed.iter().any(|object| object.is_news() && object.is_of(workload));
    simulation.log().observations().begin(simulation.now(), is_changed);
    // Not before: what an autoscaler does is part of the forecast.
    simulation.restore(autoscaling.into_iter().filter(|object| is_included(&autoscalers, object)))?;
    Changed::make(changed, &mut simulation)?;
    let patience = |observer: &Observer| observer.patience(slowest);
    let (log, rest) = (simulation.log(), autoscalers.rest());
    let longest = simulation.now() + if rest.is_some() { LONGEST_AUTOSCALED } else { LONGEST };
    let rests = |observer: &Observer, now: Timestamp| {
        let autoscaled = || log.observations().autoscalings.last().map_or(observer.began, |last| last.at);
        rest.is_none_or(|rest| autoscaled().max(observer.progressed) + rest < now)
    };
    follow(&mut simulation, &mut observer, longest, |observer, now| {
        (observer.is_settled() || observer.progressed + patience(observer) < now) && rests(observer, now)
    })?;
    simulation.check_panics()?;
    Ok(finish(&simulation, observer, Found { snapshot, controllers, because, suppositions, timings, autoscalers, extensions: &extensions }))
}

/// Whether a forecast has an object: not an autoscaler that does not run.
fn is_included(autoscalers: &Autoscalers, object: &Value) -> bool {
    let text = |value: &Value, default: &str| value.as_str().unwrap_or(default).to_owned();
    let metadata = &object["metadata"];
    autoscalers.includes(&text(&object["kind"], ""), &text(&metadata["namespace"], "default"), &text(&metadata["name"], ""))
}

/// The API server of the cluster, as far as it is known.
fn server(snapshot: &Snapshot, suppositions: &Suppositions, extensions: &Arc<Extensions>) -> Server {
    let refusals = Refusals::of(snapshot, &suppositions.refused);
    let reviewers: Vec<Arc<dyn Reviewer>> = if refusals.is_empty() { Vec::new() } else { vec![Arc::new(refusals)] };
    Server { gates: suppositions.gates.server.clone(), first: Some(Arc::<Extensions>::clone(extensions) as Arc<dyn Reviewers>), reviewers }
}

/// The input of a forecast.
struct Found<'a> {
    snapshot: &'a Snapshot,
    controllers: Controllers,
    because: String,
    suppositions: &'a Suppositions,
    timings: BTreeMap<WorkloadId, Timings>,
    autoscalers: Autoscalers,
    extensions: &'a Extensions,
}

/// The timings of all workloads in the snapshot and in the change.
fn timings(snapshot: &Snapshot, suppositions: &Suppositions, change: &Change, targets: &[WorkloadId]) -> BTreeMap<WorkloadId, Timings> {
    let learned = LearnedTimings::from(snapshot, &change.namespaced());
    let known = snapshot.of_kinds(&["Deployment", "StatefulSet", "DaemonSet"]).filter_map(id_of);
    let timed = |id: WorkloadId| (id.clone(), learned.of(&id, suppositions.start, suppositions.stop));
    known.chain(targets.iter().cloned()).map(timed).collect()
}

/// Creates the snapshot's manifests. Returns whether there are any.
fn make_manifests(simulation: &mut Simulation, snapshot: &Snapshot, autoscalers: &Autoscalers) -> Result<bool, PlanError> {
    let mut any = false;
    for manifest in snapshot.manifests().filter(|manifest| is_included(autoscalers, manifest)) {
        let namespace = manifest["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
        simulation.make_namespace(&namespace)?;
        simulation.apply(manifest, &namespace)?;
        any = true;
    }
    Ok(any)
}

/// Runs the simulation until it has converged.
fn settle(simulation: &mut Simulation, observer: &mut Observer) -> Result<(), PlanError> {
    let end = simulation.now() + SETTLE_MAX;
    let mut changed_at = simulation.now();
    let mut changes = 0;
    while simulation.now() < end && simulation.now() < changed_at + RESTING {
        let next = (simulation.now() + Duration::from_secs(1)).min(end);
        let before = changes;
        loop {
            let now = simulation.now();
            let goes_on = simulation.step(next, |plural, changed| {
                changes += u64::from(plural == "pods");
                observer.take_in(plural, &changed, now);
            })?;
            if !goes_on {
                break;
            }
        }
        if changes != before {
            changed_at = simulation.now();
        }
    }
    Ok(())
}

/// Advances the time until `is_over`, which is evaluated after each change, or until `until`.
fn follow(
    simulation: &mut Simulation,
    observer: &mut Observer,
    until: Timestamp,
    is_over: impl Fn(&Observer, Timestamp) -> bool,
) -> Result<(), PlanError> {
    loop {
        let mut changed = false;
        let before = simulation.now();
        let mut events = Vec::new();
        let goes_on = simulation.step(until, |plural, changed| {
            events.push((plural.to_owned(), changed));
        })?;
        let now = simulation.now();
        for (plural, change) in events {
            observer.take_in(&plural, &change, now);
            changed = true;
        }
        if changed || before != now {
            observer.ripen(now);
            observer.read_log();
            if is_over(observer, now) {
                return Ok(());
            }
        }
        if !goes_on {
            return Ok(());
        }
    }
}

fn finish(simulation: &Simulation, mut observer: Observer, found: Found<'_>) -> Forecast {
    observer.explain_victims();
    judge_availability(&mut observer);
    let outcomes: Vec<Outcome> = observer.tracked.iter().map(|tracked| outcome(simulation, &observer, tracked)).collect();
    for (index, outcome) in outcomes.iter().enumerate() {
        if let Outcome::Stuck { after, why } = outcome {
            let tracked = &observer.tracked[index];
            let cause = why.first().map_or_else(String::new, |why| format!(": {why}"));
            let text = format!("the rollout of {} {} never completes{cause}", tracked.id.kind.name(), tracked.id.name);
            observer.trouble(TroubleKind::Never, *after, Some(index), text);
        }
    }
    let others = others(simulation, &mut observer);
    observer.troubles.sort_by_key(|trouble| trouble.at);
    let ends = outcomes.iter().map(Outcome::ends).chain(others.iter().map(|other| other.outcome.ends()));
    let total = ends.max().unwrap_or_default();
    let (quotas, nodes, gates) = (observer.quota_peaks(), observer.nodes.room(), &simulation.gates);
    let asks = observer.tracked.iter().any(|tracked| tracked.view.asks());
    let newest: Vec<Option<String>> = (0..observer.tracked.len()).map(|index| observer.newest(index)).collect();
    let workloads = observer.tracked.into_iter().zip(outcomes).zip(newest).map(|((mut tracked, outcome), newest)| {
        let lives = tracked.tally.take_lives();
        let timings = found.timings[&tracked.id].clone();
        let (about, is_complete) = (Some(tracked.id.clone()), matches!(outcome, Outcome::Complete { .. }));
        let goes_back = |trouble: &Trouble| trouble.kind == TroubleKind::RolledBack && trouble.about == about;
        let (size, replicas, policy) = (tracked.size(), tracked.replicas(), tracked.policy(gates));
        WorkloadForecast {
            workload: tracked.id,
            policy,
            replicas,
            most: size.map(berth_workloads::deployment::limits::Size::max),
            least: size.map(|size| size.min_available),
            outcome,
            rolled_back: is_complete && observer.troubles.iter().any(goes_back),
            start: timings.start,
            stop: timings.stop,
            steps: tracked.steps,
            waits: tracked.waits,
            pods: tracked.tally.pods,
            terminating: tracked.tally.terminating,
            available: tracked.tally.available,
            resources: tracked.tally.resources,
            lives,
            newest,
            lanes: tracked.tally.lanes,
        }
    });
    let supposed = Supposed {
        controllers: found.controllers.name(),
        because: found.because,
        gates: changed_gates(found.controllers, &found.suppositions.gates.controllers),
        unasked_pods: found.suppositions.unasked.clone(),
        unknown_gates: found.suppositions.gates.unknown.clone().filter(|_| found.controllers == Controllers::Berth),
        analysis: asks.then(|| found.suppositions.analyses.name()),
        at: observer.began,
        missing: found.snapshot.missing.iter().cloned().chain(found.extensions.noted()).collect(),
        unevaluated: found.extensions.unevaluated(found.suppositions.are_pods_asked),
        seed: found.suppositions.seed,
    };
    let workloads = workloads.collect();
    let autoscalers = found.autoscalers.finish(&simulation.log().observations().autoscalings, observer.began);
    Forecast { supposed, workloads, others, autoscalers, quotas, nodes, troubles: observer.troubles, total }
}

/// The Jobs and the ReplicationControllers of the change. Records those that fail or never are as specified.
fn others(simulation: &Simulation, observer: &mut Observer) -> Vec<OtherForecast> {
    let progressed = since(observer.began, observer.progressed);
    let all: Vec<OtherForecast> =
        observer.others.iter().map(|other| other.forecast(|| causes_of_other(simulation, other), progressed)).collect();
    for OtherForecast { kind, name, outcome, .. } in &all {
        match outcome {
            OtherOutcome::Failed { after, why } => {
                observer.trouble(TroubleKind::Never, *after, None, format!("{kind} {name} fails: {why}"));
            }
            OtherOutcome::Stuck { after, why } => {
                let cause = why.first().map_or_else(String::new, |why| format!(": {why}"));
                let never = if *kind == "Job" { "never completes" } else { "never has its pods" };
                observer.trouble(TroubleKind::Never, *after, None, format!("{kind} {name} {never}{cause}"));
            }
            OtherOutcome::Complete { .. } | OtherOutcome::Available { .. } | OtherOutcome::Runs { .. } | OtherOutcome::Held { .. } => (),
        }
    }
    all
}

/// The gates that these controllers support and that differ from their defaults.
fn changed_gates(controllers: Controllers, gates: &FeatureGates) -> BTreeMap<Gate, bool> {
    let by_default = FeatureGates::default();
    let known = Gate::ALL.iter().copied().filter(|gate| controllers.know(*gate));
    known.filter(|gate| gates.enabled(*gate) != by_default.enabled(*gate)).map(|gate| (gate, gates.enabled(gate))).collect()
}

/// Records each rolling update that falls below its minimum although it had enough available pods before.
fn judge_availability(observer: &mut Observer) {
    let mut short = Vec::new();
    for (index, tracked) in observer.tracked.iter().enumerate() {
        let Some(size) = tracked.size() else { continue };
        let had = tracked.tally.lanes.first().map_or(0, |lane| lane.revisions.values().map(|counts| counts.available).sum::<u32>());
        let lowest = tracked.tally.available;
        if i64::from(lowest.value) < size.min_available && size.min_available <= i64::from(had) {
            let text = format!(
                "{} {} has {} available pods, but its strategy requires {}",
                tracked.id.kind.name(),
                tracked.id.name,
                lowest.value,
                size.min_available
            );
            short.push((lowest.at, index, text));
        }
    }
    short.into_iter().for_each(|(at, index, text)| observer.trouble(TroubleKind::Unavailable, at, Some(index), text));
}

fn outcome(simulation: &Simulation, observer: &Observer, tracked: &TrackedWorkload) -> Outcome {
    let settled_after = |after| tracked.settled.unwrap_or(after);
    match tracked.ended {
        Some((End::Complete, after)) => Outcome::Complete { after, settled_after: settled_after(after) },
        Some((End::Held, after)) => Outcome::Held { after, settled_after: settled_after(after), why: tracked.held_by() },
        None => {
            let mut why = causes(simulation, tracked);
            why.extend(tracked.open_waits().map(|wait| wait.text.clone()));
            if why.is_empty() {
                why.push(tracked.how_far());
            }
            Outcome::Stuck { after: since(observer.began, observer.progressed), why }
        }
    }
}

/// The obstacles, in the words of `berth rollout status`.
fn causes(simulation: &Simulation, tracked: &TrackedWorkload) -> Vec<String> {
    let (gates, now) = (&simulation.gates, simulation.now());
    let events = warning_views(&simulation.log().observations());
    let pods: Vec<Arc<PodView>> = views(simulation, &PODS, &tracked.id.namespace, |view: &PodView| view.meta.namespace.to_string());
    let found = match &tracked.view {
        LiveWorkload::Deployment(deployment) => {
            let sets: Vec<Arc<ReplicaSetView>> =
                views(simulation, &REPLICA_SETS, &tracked.id.namespace, |view: &ReplicaSetView| view.meta.namespace.to_string());
            let facts = DeploymentFacts { deployment, sets: &sets, pods: &pods, events: &events, gates, unobserved_since: None, now };
            cause::of_deployment(&facts)
        }
        LiveWorkload::StatefulSet(set) => {
            cause::of_stateful_set(&StatefulSetFacts { set, pods: &pods, events: &events, unobserved_since: None, now })
        }
        LiveWorkload::DaemonSet(set) => {
            cause::of_daemon_set(&DaemonSetFacts { set, pods: &pods, events: &events, unobserved_since: None, now })
        }
        LiveWorkload::Nothing => return Vec::new(),
    };
    found.list.iter().map(ToString::to_string).collect()
}

/// The same for a Job or a ReplicationController.
fn causes_of_other(simulation: &Simulation, other: &TrackedOther) -> Vec<String> {
    let now = simulation.now();
    let events = warning_views(&simulation.log().observations());
    let pods: Vec<Arc<PodView>> = views(simulation, &PODS, &other.key.namespace, |view: &PodView| view.meta.namespace.to_string());
    let found = match other.view() {
        LiveOther::Nothing => return Vec::new(),
        LiveOther::Job(job) => cause::of_job(&JobFacts { job, pods: &pods, events: &events, unobserved_since: None, now }),
        LiveOther::ReplicationController(set) => {
            cause::of_replica_set(&ReplicaSetFacts { set, pods: &pods, events: &events, unobserved_since: None, now })
        }
    };
    found.list.iter().map(ToString::to_string).collect()
}

fn views<V: View>(simulation: &Simulation, resource: &GroupResource, namespace: &str, of: impl Fn(&V) -> String) -> Vec<Arc<V>> {
    let decoded = simulation.all(resource).into_iter().filter_map(|entry| V::decode_shared(&entry.value, Revision(0)).ok());
    decoded.filter(|view| of(view) == namespace).map(Arc::new).collect()
}
