//! Repeats the changes of a recording in a simulation.

use crate::{
    difference::difference,
    error::PlanError,
    replay::{
        column::{Column, Replay},
        ledger::Ledger,
        recorded::{Input, Recorded, imaged, wanted},
        samples::Readings,
        scaling::{self, Autoscaler},
    },
    simulation::{Server, Simulation, Subject},
    snapshot::{Controllers, Snapshot},
};
use berth_api::{
    annotations::{BERTH_ANALYSIS_PROVIDER, BERTH_ANALYSIS_QUERY, BERTH_STEPS},
    apps::steps::{self, Step},
};
use berth_identity::GroupVersionKind;
use berth_store::{EventKind, env::Timestamp};
use berth_trace::ObjectId;
use serde_json::{Value, json};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

/// How long the components have to read the initial objects before the recording begins.
const WARM_UP: Duration = Duration::from_millis(200);
/// How long rollouts that are incomplete at the end of the recording are followed at most.
const AFTER_MAX: Duration = Duration::from_secs(6 * 3600);
/// How many failed changes are reported.
const NOTES_MAX: usize = 20;

/// The policy of the third column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// For all Deployments.
    TerminationComplete,
    /// For all Deployments.
    TerminationStarted,
    /// The strategy of all Deployments and StatefulSets.
    Recreate,
    /// The strategy of all Deployments and StatefulSets, with their own parameters or the defaults.
    RollingUpdate,
}

impl Policy {
    /// Its name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TerminationComplete => "TerminationComplete",
            Self::TerminationStarted => "TerminationStarted",
            Self::Recreate => "Recreate",
            Self::RollingUpdate => "RollingUpdate",
        }
    }

    /// Sets the policy of a workload.
    fn given_to(self, mut object: Value) -> Value {
        let is_deployment = object["kind"] == "Deployment";
        let member = match object["kind"].as_str() {
            Some("Deployment") => "strategy",
            Some("StatefulSet") => "updateStrategy",
            _ => return object,
        };
        let spec = &mut object["spec"];
        match self {
            Self::TerminationComplete | Self::TerminationStarted if is_deployment => spec["podReplacementPolicy"] = json!(self.name()),
            Self::TerminationComplete | Self::TerminationStarted => (),
            Self::Recreate => spec[member] = json!({"type": "Recreate"}),
            Self::RollingUpdate if spec[member]["type"] == "RollingUpdate" => (),
            Self::RollingUpdate => spec[member] = json!({"type": "RollingUpdate"}),
        }
        object
    }
}

/// The options of a replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// The policy of another replay, if there is one.
    pub policy: Option<Policy>,
    /// The autoscalers of another replay, as manifests. It has the policy too.
    pub autoscalers: Vec<Value>,
    /// The seed of the interleaving.
    pub seed: u64,
}

/// The progress of a replay, at each beginning or end of a rollout.
#[derive(Clone, Debug)]
pub struct Passing<'a> {
    /// The name of the column: `replayed`, or the policy's.
    pub column: &'a str,
    /// The time since the recording began.
    pub at: Duration,
    /// The rollouts that began or ended since the last report, as text.
    pub reports: &'a [(Duration, String)],
}

/// Replays a recording as it was and, if requested, with another policy and with other autoscalers. Calls `passing` for each rollout that begins or ends.
///
/// The CPU cost is that of the changes on a server, but no real time passes.
///
/// # Errors
/// [`PlanError`].
pub fn replay(recorded: Recorded, options: ReplayOptions, mut passing: impl FnMut(&Passing<'_>)) -> Result<Replay, PlanError> {
    let autoscalers = Autoscaler::all(&options.autoscalers, &recorded)?;
    let mut run = |name: &str, policy: Option<Policy>, act: bool| {
        // Kubernetes' own controllers have no policies, so a replay under one uses berth's.
        let controllers = if policy.is_some() { Controllers::Berth } else { recorded.controllers };
        let autoscalers = Autoscalers { all: &autoscalers, act };
        Run { name: name.to_owned(), controllers, policy, autoscalers, seed: options.seed }.run(&recorded, &mut passing)
    };
    let (replayed, readings) = run("replayed", None, false)?;
    let under_policy = options.policy.map(|policy| run(policy.name(), Some(policy), false)).transpose()?;
    let under_hpa = (!autoscalers.is_empty()).then(|| {
        let policy = options.policy.map_or_else(String::new, |policy| format!(", {}", policy.name()));
        run(&format!("another autoscaler{policy}"), options.policy, true)
    });
    let under_hpa = under_hpa.transpose()?;
    let mut columns = vec![(&recorded.column, None), (&replayed, Some(&readings))];
    columns.extend(under_policy.iter().chain(&under_hpa).map(|(column, readings)| (column, Some(readings))));
    let autoscaled = autoscalers.iter().map(|autoscaler| autoscaler.report(&recorded, &columns)).collect();
    let (under_policy, under_hpa) = (under_policy.map(|(column, _)| column), under_hpa.map(|(column, _)| column));
    Ok(Replay { recording: recorded.facts, recorded: recorded.column, replayed, under_policy, under_hpa, autoscaled })
}

struct Run<'a> {
    name: String,
    controllers: Controllers,
    policy: Option<Policy>,
    autoscalers: Autoscalers<'a>,
    seed: u64,
}

/// The autoscalers of a run.
#[derive(Clone, Copy)]
struct Autoscalers<'a> {
    /// Those whose targets are measured.
    all: &'a [Autoscaler],
    /// Whether they run, and the recorded changes of their targets' sizes are not repeated.
    act: bool,
}

impl<'a> Autoscalers<'a> {
    /// Whether one of them decides the size of this workload.
    fn size(self, workload: &ObjectId) -> bool {
        self.act && self.all.iter().any(|autoscaler| autoscaler.target == *workload)
    }

    /// The times at which a target is measured, each once, in order.
    fn times(self, recorded: &Recorded) -> Vec<(Duration, &'a ObjectId)> {
        let of = |autoscaler: &'a Autoscaler| {
            let samples = recorded.usage.get(&autoscaler.target).into_iter().flatten();
            samples.map(move |sample| (sample.at, &autoscaler.target))
        };
        let mut times: Vec<_> = self.all.iter().flat_map(of).collect();
        // Stable, so that the readings of a target are in the order of its samples.
        times.sort_by_key(|(at, _)| *at);
        times
    }
}

struct OngoingReplay<'a> {
    simulation: Simulation,
    ledger: Ledger,
    run: &'a Run<'a>,
    /// The measurements that are due, in order.
    due: VecDeque<(Duration, &'a ObjectId)>,
    readings: Readings,
    /// The last desired state.
    known: BTreeMap<ObjectId, Value>,
    notes: Vec<String>,
    unreported: usize,
}

impl Run<'_> {
    fn given(&self, object: Value) -> Value {
        let object = answerable(object);
        match self.policy {
            Some(policy) => policy.given_to(object),
            None => object,
        }
    }

    fn run(&self, recorded: &Recorded, passing: &mut dyn FnMut(&Passing<'_>)) -> Result<(Column, Readings), PlanError> {
        let objects: Vec<Value> = recorded.initial.iter().cloned().map(|object| self.given(object)).collect();
        let before = recorded.begins - WARM_UP;
        let gates = self.controllers.gates();
        let mut simulation = Simulation::new(self.seed, before, &Server::default());
        simulation.gates.clone_from(&gates);
        simulation.usage = self.autoscalers.act.then(|| scaling::usage(recorded, self.autoscalers.all));
        let known = objects.iter().filter_map(|object| Some((ObjectId::of(object)?, object.clone()))).collect();
        let accounts = accounts(&objects);
        let snapshot = Snapshot { objects, at: recorded.begins, ..Snapshot::default() };
        let mut stored = snapshot.stored();
        stored.extend(accounts.into_iter().map(Cow::Owned));
        let mut nodes = recorded.nodes.clone();
        let is_node = |object: &&Cow<'_, Value>| object["kind"] == "Node";
        nodes.extend(stored.iter().filter(is_node).filter_map(|node| Some(node["metadata"]["name"].as_str()?.to_owned())));
        simulation.restore(stored)?;
        simulation.start_with_deletions(recorded.lives.nodes(nodes, before));
        let ledger = Ledger::new(gates);
        let due = self.autoscalers.times(recorded).into();
        let mut ongoing =
            OngoingReplay { simulation, ledger, run: self, due, readings: Readings::new(), known, notes: Vec::new(), unreported: 0 };
        ongoing.follow(recorded.begins, passing)?;
        ongoing.ledger.begin(recorded.begins);
        for (at, input) in &recorded.inputs {
            ongoing.follow_and_measure((recorded.begins, *at), passing)?;
            ongoing.make(input)?;
        }
        let end = recorded.begins + recorded.facts.lasts;
        ongoing.follow_and_measure((recorded.begins, recorded.facts.lasts), passing)?;
        ongoing.ledger.close(end.max(ongoing.simulation.now()));
        ongoing.finish_rollouts(end + AFTER_MAX, passing)?;
        ongoing.simulation.check_panics()?;
        if ongoing.unreported > 0 {
            ongoing.notes.push(format!("{} more changes could not be replayed", ongoing.unreported));
        }
        Ok((ongoing.ledger.column(self.name.clone(), ongoing.notes), ongoing.readings))
    }
}

impl OngoingReplay<'_> {
    /// Creates the autoscaler of a target, if it runs.
    fn make_autoscaler(&mut self, target: &ObjectId) -> Result<(), PlanError> {
        let Autoscalers { all, act } = self.run.autoscalers;
        let own = all.iter().find(|autoscaler| act && autoscaler.target == *target);
        own.map_or(Ok(()), |Autoscaler { manifest, namespace, .. }| {
            self.simulation.make_namespace(namespace)?;
            self.simulation.apply(manifest, namespace)
        })
    }

    /// Advances the time, and reads the pods of targets at the times of their samples. An autoscaler exists from the first sample on.
    fn follow_and_measure(
        &mut self,
        (begins, until): (Timestamp, Duration),
        passing: &mut dyn FnMut(&Passing<'_>),
    ) -> Result<(), PlanError> {
        while let Some((at, target)) = self.due.front().copied().filter(|(at, _)| *at <= until) {
            self.due.pop_front();
            self.follow(begins + at, passing)?;
            let pods = self.ledger.ready_pods(target);
            if let Some(readings) = self.readings.get_mut(target) {
                readings.push(pods);
                continue;
            }
            self.readings.insert(target.clone(), vec![pods]);
            self.make_autoscaler(target)?;
        }
        self.follow(begins + until, passing)
    }

    /// Advances the time.
    fn follow(&mut self, until: Timestamp, passing: &mut dyn FnMut(&Passing<'_>)) -> Result<(), PlanError> {
        while self.step(until)? {
            self.report(passing);
        }
        self.ledger.ripen(until);
        Ok(())
    }

    /// Advances the time until no rollout is in progress.
    fn finish_rollouts(&mut self, longest: Timestamp, passing: &mut dyn FnMut(&Passing<'_>)) -> Result<(), PlanError> {
        while self.ledger.has_open() && self.step(longest)? {
            self.report(passing);
        }
        Ok(())
    }

    fn step(&mut self, until: Timestamp) -> Result<bool, PlanError> {
        let mut events = Vec::new();
        let goes_on = self.simulation.step(until, |plural, changed| events.push((plural.to_owned(), changed.event)))?;
        let now = self.simulation.now();
        for (plural, event) in events {
            match event.kind {
                EventKind::Put => self.ledger.put(&plural, &event.entry.value, now),
                EventKind::Deleted => {
                    // `/registry/pods/NAMESPACE/NAME`
                    let mut parts = event.entry.key.as_str().rsplit('/');
                    if let (Some(name), Some(namespace)) = (parts.next(), parts.next()) {
                        self.ledger.remove(&plural, namespace, name, now);
                    }
                }
            }
        }
        self.ledger.ripen(now);
        // A replay does not read the log.
        self.simulation.log().observations().discard();
        Ok(goes_on)
    }

    /// Reports rollouts that began or ended.
    fn report(&mut self, passing: &mut dyn FnMut(&Passing<'_>)) {
        let reports = self.ledger.take_reports();
        if let Some((at, _)) = reports.last() {
            passing(&Passing { column: &self.run.name, at: *at, reports: &reports });
        }
    }

    /// Repeats a change. A change that the API rules reject is noted.
    fn make(&mut self, input: &Input) -> Result<(), PlanError> {
        let made = match input {
            Input::Put(text) => {
                let object = serde_json::from_str(text).map_err(|error| PlanError::Fault(format!("a change cannot be read: {error}")))?;
                self.put(self.run.given(object))
            }
            Input::Gone(gone) => self.delete(gone),
        };
        match made {
            Err(PlanError::Fault(fault)) => Err(PlanError::Fault(fault)),
            Err(error) if self.notes.len() < NOTES_MAX => {
                let source = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
                self.notes.push(format!("{error}{source}"));
                Ok(())
            }
            Err(_) => {
                self.unreported += 1;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn put(&mut self, mut object: Value) -> Result<(), PlanError> {
        let subject = Subject::of(&object, "");
        let sized = ObjectId::of(&object).filter(|id| self.run.autoscalers.size(id));
        if let Some(known) = sized.and_then(|id| self.known.get(&id)) {
            object["spec"]["replicas"] = known["spec"]["replicas"].clone();
        }
        let before = ObjectId::of(&object).and_then(|id| self.known.insert(id, object.clone()));
        if !subject.namespace.is_empty() && before.is_none() {
            self.simulation.make_namespace(&subject.namespace)?;
        }
        match (object["kind"].as_str(), before) {
            // The pod is already on a node: no controller of the replay created it.
            (Some("Pod"), _) => self.simulation.restore([imaged(object, None)]),
            (Some("Node"), None) => self.simulation.restore([object]),
            (Some("Node"), Some(before)) => {
                if let Some(patch) = difference(&wanted(&before), &wanted(&object)) {
                    self.simulation.patch(&subject, patch)?;
                }
                self.simulation.patch_status(&subject, json!({"status": object["status"]}))
            }
            (_, None) => self.simulation.apply(&wanted(&object), &subject.namespace),
            (_, Some(before)) => {
                let patch = difference(&wanted(&before), &wanted(&object));
                patch.map_or(Ok(()), |patch| self.simulation.patch(&subject, patch))
            }
        }
    }

    fn delete(&mut self, gone: &ObjectId) -> Result<(), PlanError> {
        let ObjectId { kind, namespace, name } = gone;
        let known = self.known.remove(gone);
        let api_version = known.map(|object| object["apiVersion"].as_str().unwrap_or_default().to_owned()).unwrap_or_default();
        let subject = Subject { kind: GroupVersionKind::as_written(&api_version, kind), namespace: namespace.clone(), name: name.clone() };
        // Another component deleted the pod, so it is deleted without a grace period.
        self.simulation.delete(&subject, (*kind == "Pod").then_some(0))
    }
}

/// A recording contains that a step has an analysis, but neither the provider nor the query. Each analysis passes here, whatever the
/// provider.
fn answerable(mut object: Value) -> Value {
    let asks = |annotations: &Value| {
        let steps = annotations[BERTH_STEPS].as_str().and_then(|text| steps::parse(text).ok());
        steps.is_some_and(|steps| steps.contains(&Step::Analysis))
    };
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").filter(|annotations| asks(annotations)) {
        [BERTH_ANALYSIS_PROVIDER, BERTH_ANALYSIS_QUERY].iter().for_each(|key| annotations[*key] = json!("recorded"));
    }
    object
}

/// The default account of each namespace, for pods that name none.
fn accounts(objects: &[Value]) -> Vec<Value> {
    let namespaces: BTreeSet<&str> = objects.iter().filter_map(|object| object["metadata"]["namespace"].as_str()).collect();
    let account = |namespace: &str| {
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": false,
            "metadata": {"name": "default", "namespace": namespace, "uid": format!("account-{namespace}"), "creationTimestamp": Timestamp::UNIX_EPOCH}})
    };
    namespaces.into_iter().chain(["default"]).collect::<BTreeSet<_>>().into_iter().map(account).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_given_to_the_workloads_that_have_such_a_one() {
        let deployment =
            || json!({"kind": "Deployment", "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
        let set = || json!({"kind": "StatefulSet", "spec": {}});
        let given = |policy: Policy, object: Value| policy.given_to(object)["spec"].clone();
        assert_eq!(given(Policy::TerminationComplete, deployment())["podReplacementPolicy"], "TerminationComplete");
        assert_eq!(given(Policy::TerminationComplete, set()), json!({}));
        assert_eq!(given(Policy::Recreate, deployment()), json!({"strategy": {"type": "Recreate"}}));
        assert_eq!(given(Policy::Recreate, set()), json!({"updateStrategy": {"type": "Recreate"}}));
        assert_eq!(given(Policy::RollingUpdate, deployment()), deployment()["spec"]);
    }
}
