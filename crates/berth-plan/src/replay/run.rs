//! Repeats the changes of a recording in a simulation.

use crate::{
    difference::difference,
    error::PlanError,
    replay::{
        column::{Column, Replay},
        ledger::Ledger,
        recorded::{Input, Recorded, imaged, wanted},
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
    collections::{BTreeMap, BTreeSet},
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
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayOptions {
    /// The policy of a second replay, if there is one.
    pub policy: Option<Policy>,
    /// The seed of the interleaving.
    pub seed: u64,
}

/// The progress of a replay, at each beginning or end of a rollout.
#[derive(Clone, Debug)]
pub struct Passing<'a> {
    /// `replayed`, or the policy's name.
    pub column: &'a str,
    /// The time since the recording began.
    pub at: Duration,
    /// The rollouts that began or ended since the last report, as text.
    pub reports: &'a [(Duration, String)],
}

/// Replays a recording as it was and, if requested, with another policy. Calls `passing` for each rollout that begins or ends.
///
/// The CPU cost is that of the changes on a server, but no real time passes.
///
/// # Errors
/// [`PlanError`].
pub fn replay(recorded: Recorded, options: ReplayOptions, mut passing: impl FnMut(&Passing<'_>)) -> Result<Replay, PlanError> {
    let as_it_was = Run { name: "replayed", controllers: recorded.controllers, policy: None, seed: options.seed };
    let replayed = as_it_was.run(&recorded, &mut passing)?;
    // Kubernetes' own controllers have no policies, so the second replay uses berth's.
    let under = |policy: Policy| Run { name: policy.name(), controllers: Controllers::Berth, policy: Some(policy), seed: options.seed };
    let under_policy = options.policy.map(|policy| under(policy).run(&recorded, &mut passing)).transpose()?;
    Ok(Replay { recording: recorded.facts, recorded: recorded.column, replayed, under_policy })
}

struct Run {
    name: &'static str,
    controllers: Controllers,
    policy: Option<Policy>,
    seed: u64,
}

struct OngoingReplay<'a> {
    simulation: Simulation,
    ledger: Ledger,
    run: &'a Run,
    /// The last desired state.
    known: BTreeMap<ObjectId, Value>,
    notes: Vec<String>,
    unreported: usize,
}

impl Run {
    fn given(&self, object: Value) -> Value {
        let object = answerable(object);
        match self.policy {
            Some(policy) => policy.given_to(object),
            None => object,
        }
    }

    fn run(&self, recorded: &Recorded, passing: &mut dyn FnMut(&Passing<'_>)) -> Result<Column, PlanError> {
        let objects: Vec<Value> = recorded.initial.iter().cloned().map(|object| self.given(object)).collect();
        let before = recorded.begins - WARM_UP;
        let gates = self.controllers.gates();
        let mut simulation = Simulation::new(self.seed, before, &Server::default());
        simulation.gates.clone_from(&gates);
        let known = objects.iter().filter_map(|object| Some((ObjectId::of(object)?, object.clone()))).collect();
        let accounts = accounts(&objects);
        let snapshot = Snapshot { objects, at: recorded.begins, missing: Vec::new() };
        let mut stored = snapshot.stored();
        stored.extend(accounts.into_iter().map(Cow::Owned));
        let mut nodes = recorded.nodes.clone();
        let is_node = |object: &&Cow<'_, Value>| object["kind"] == "Node";
        nodes.extend(stored.iter().filter(is_node).filter_map(|node| Some(node["metadata"]["name"].as_str()?.to_owned())));
        simulation.restore(stored)?;
        simulation.start_with_deletions(recorded.lives.nodes(nodes, before));
        let ledger = Ledger::new(gates);
        let mut ongoing = OngoingReplay { simulation, ledger, run: self, known, notes: Vec::new(), unreported: 0 };
        ongoing.follow(recorded.begins, passing)?;
        ongoing.ledger.begin(recorded.begins);
        for (at, input) in &recorded.inputs {
            ongoing.follow(recorded.begins + *at, passing)?;
            ongoing.make(input)?;
        }
        let end = recorded.begins + recorded.facts.lasts;
        ongoing.follow(end, passing)?;
        ongoing.ledger.close(end.max(ongoing.simulation.now()));
        ongoing.finish_rollouts(end + AFTER_MAX, passing)?;
        ongoing.simulation.check_panics()?;
        if ongoing.unreported > 0 {
            ongoing.notes.push(format!("{} more changes could not be replayed", ongoing.unreported));
        }
        Ok(ongoing.ledger.column(self.name.to_owned(), ongoing.notes))
    }
}

impl OngoingReplay<'_> {
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
            passing(&Passing { column: self.run.name, at: *at, reports: &reports });
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

    fn put(&mut self, object: Value) -> Result<(), PlanError> {
        let subject = Subject::of(&object, "");
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
