//! Collects the decisions of one reconcile and orders their writes.

use super::{
    analyzing,
    annotations::{self, REVISION, REVISION_HISTORY},
    auto_rollback,
    complete::{goal, is_complete},
    draft::{Draft, event, scaled},
    history,
    observe::Observed,
    progress::{self, Goal, Held, Pause, Progress},
    records,
    revision::{self, NewSet},
    status::{self, Conditions, PROGRESSING, Verdict},
    steps,
    subject::Subject,
};
use crate::{
    analysis::Question,
    plan::{Action, EventRecord, Outcome, Plan, Reason, Repeat, Severity, Stage, Subresource, TerminatingPod, Urgency, Wait, status_patch},
    view::{PodReplacementPolicy, PodView},
};
use berth_api::apps::DeploymentStatus;
use berth_identity::Generation;
use serde_json::json;
use std::collections::BTreeMap;

/// The scope of the status update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusStep {
    /// Counts and availability.
    Counts,
    /// Also the progress of the rollout.
    Rollout,
}

/// How a rollout begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    /// With a new set.
    Created,
    /// With an existing set.
    Found,
}

impl Begun {
    fn verdict(self, set: &str) -> Verdict {
        let (reason, word) = match self {
            Self::Created => ("NewReplicaSetCreated", "Created"),
            Self::Found => ("FoundNewReplicaSet", "Found"),
        };
        Verdict { status: "True", reason, message: format!("{word} new replica set \"{set}\"") }
    }
}

pub(super) struct Work<'o, 'a> {
    observed: &'o Observed<'a>,
    /// One for each of the observed sets, in their order.
    pub(super) drafts: Vec<Draft<'a>>,
    created: Option<NewSet>,
    deletes: Vec<Action>,
    waits: Vec<Wait>,
    held: Held,
    /// What a step waits for.
    at_step: Option<String>,
    /// The question of the step's analysis.
    question: Option<Question>,
    /// When the wait ends if nothing changes.
    requeue_at: Option<jiff::Timestamp>,
    events: Vec<EventRecord>,
}

impl<'o, 'a> Work<'o, 'a> {
    /// Starts with the changes that apply in every case: the new set copies the Deployment's annotations, and all sets copy its policies.
    pub(super) fn new(observed: &'o Observed<'a>) -> Self {
        let mut drafts: Vec<_> = observed.sets.iter().map(|set| Draft::new(set)).collect();
        if let Some(new) = observed.new {
            revision::sync(&mut drafts[new], observed);
        }
        drafts.iter_mut().for_each(|draft| revision::sync_policies(draft, observed.deployment()));
        auto_rollback::keep(&mut drafts, observed);
        let number = observed.new.and_then(|new| annotations::revision(drafts[new].annotations()));
        records::supersede(&mut drafts, observed, number.unwrap_or_else(|| observed.new_revision()));
        steps::keep(&mut drafts, observed);
        let held = if steps::are_left(observed) { Held::AtStep } else { Held::No };
        Self { drafts, held, ..Self::unchanged(observed) }
    }

    /// Starts without changes: a terminating Deployment does not touch its sets.
    pub(super) fn unchanged(observed: &'o Observed<'a>) -> Self {
        let drafts = observed.sets.iter().map(|set| Draft::new(set)).collect();
        Self {
            observed,
            drafts,
            created: None,
            deletes: Vec::new(),
            waits: Vec::new(),
            held: Held::No,
            at_step: None,
            question: None,
            requeue_at: None,
            events: Vec::new(),
        }
    }

    /// Changes the size of a set. A set that already has it is not written, even if its annotations are outdated.
    pub(super) fn resize(&mut self, index: usize, to: i64) {
        if self.drafts[index].size != to {
            let finished = self.observed.scale_of(index).finished(to, self.observed.size);
            self.drafts[index].apply(finished, self.observed.before_scale);
        }
    }

    pub(super) fn is_resized(&self) -> bool {
        self.drafts.iter().any(Draft::is_resized)
    }

    /// Whether only the new set has replicas, and has all desired ones except those that a scaling is `lacking`.
    pub(super) fn has_rolled_out(&self, lacking: i64) -> bool {
        let others = self.drafts.iter().enumerate().filter(|(index, _)| Some(*index) != self.observed.new);
        let has_all = self.observed.new.is_some_and(|new| self.drafts[new].size + lacking >= self.observed.size.desired);
        has_all && others.map(|(_, draft)| draft.size).all(|size| size == 0)
    }

    pub(super) fn wait(&mut self, wait: Wait) {
        self.waits.push(wait);
    }

    /// A step of the rollout waits, until this time if the wait ends by itself.
    pub(super) fn wait_at_step(&mut self, wait: Wait, until: Option<jiff::Timestamp>) {
        (self.at_step, self.requeue_at) = (Some(wait.to_string()), until);
        self.wait(wait);
    }

    /// Waits for pods, until this time if they do not change. The deadline is not suspended.
    pub(super) fn wait_until(&mut self, wait: Wait, until: Option<jiff::Timestamp>) {
        self.requeue_at = until;
        self.wait(wait);
    }

    /// Requests an analysis while the step waits.
    pub(super) fn ask(&mut self, question: Question) {
        self.question = Some(question);
    }

    /// Records that so many pods will be created after others are deleted.
    pub(super) fn hold_back(&mut self, then_create: i64) {
        if then_create > 0 {
            self.held = Held::Back;
        }
    }

    /// Waits for room to grow the set at `growing`, or several sets, if pods are to be created. The room depends on an outdated status, on
    /// pods that are left behind or, under TerminationComplete, on terminating pods.
    pub(super) fn wait_for_room(&mut self, growing: Option<usize>, then_create: i64) {
        let observed = self.observed;
        if then_create <= 0 {
            return;
        }
        let counts_terminating = observed.policy == PodReplacementPolicy::TerminationComplete;
        if counts_terminating {
            self.hold_back(then_create);
        }
        if let Some(set) = observed.lagging(growing) {
            self.wait(Wait::ChildNotObserved { name: set.meta.name.to_string() });
        } else if observed.left_behind().staying() > 0 {
            self.wait(Wait::PodsLeftBehind { pods: observed.left_behind().staying(), then_create: count(then_create) });
        } else if counts_terminating && observed.terminating() > 0 {
            self.wait_for_terminating(observed.terminating(), then_create);
        } else if let Some(set) = observed.shrinking(growing) {
            self.wait(Wait::ChildNotObserved { name: set.meta.name.to_string() });
        }
    }

    /// Adds the new set's own wait if there is no other wait. The set is terminating, its controller has not observed it, or its ready pods
    /// are not available yet.
    pub(super) fn wait_for_new(&mut self) {
        let Some(new) = self.observed.new_set().filter(|_| self.waits.is_empty()) else { return };
        let (name, status) = (new.meta.name.to_string(), &new.status);
        let unavailable = i64::from(status.ready_replicas) - i64::from(status.available_replicas);
        if new.meta.deleted.is_some() {
            self.wait(Wait::BeingDeleted { kind: "ReplicaSet".to_owned(), name });
        } else if status.observed_generation < new.meta.generation {
            self.wait(Wait::ChildNotObserved { name });
        } else if 0 < unavailable && 0 < new.min_ready_seconds {
            self.wait(Wait::MinReady { pods: count(unavailable), seconds: count(new.min_ready_seconds.into()) });
        }
    }

    /// Waits for the last pods to be deleted, if under TerminationComplete nothing else is missing for completion.
    fn wait_for_completion(&mut self, status: &DeploymentStatus) {
        if self.held == Held::AtStep {
            return;
        }
        let goal = self.goal();
        let all_but_gone = progress::is_complete(Goal { terminating: Some(0), ..goal }, status);
        let was_complete = Conditions::of(status).reason(PROGRESSING) == progress::NEW_AVAILABLE;
        if self.waits.is_empty() && all_but_gone && !progress::is_complete(goal, status) && !was_complete {
            self.wait_for_terminating(goal.terminating.unwrap_or(0), 0);
        }
    }

    fn wait_for_terminating(&mut self, pods: i64, then_create: i64) {
        let observed = self.observed;
        let last = observed.sets.iter().filter_map(|set| observed.state.pods.get(&set.meta.uid)?.last_to_go.as_ref());
        let last = last.chain(&observed.left_behind().last).max_by_key(|pod| pod.meta.deleted).and_then(|pod| self.terminating(pod));
        self.wait(Wait::PodsTerminating { pods: count(pods), then_create: count(then_create), last });
    }

    fn terminating(&self, pod: &PodView) -> Option<TerminatingPod> {
        Some(TerminatingPod {
            name: pod.meta.name.to_string(),
            left_seconds: pod.meta.deleted?.duration_since(self.observed.state.now).as_secs(),
            grace_period_seconds: pod.grace_period_seconds?,
        })
    }

    /// Deletes surplus old sets if the stored status shows a complete rollout.
    pub(super) fn clean_up_if_complete(&mut self) {
        let stored = &self.observed.deployment().status;
        if is_complete(self.observed, stored) {
            self.clean_up();
        }
    }

    /// Deletes surplus old sets.
    pub(super) fn clean_up(&mut self) {
        self.deletes = history::clean_up(self.observed);
    }

    /// Creates the set for the Deployment's template with this size, and ends the reconcile.
    pub(super) fn create(mut self, size: i64) -> Plan {
        let Ok(new) = revision::new_set(self.observed, size) else { return self.collision() };
        if let Some(error) = &self.observed.state.last_error {
            let message = format!("Failed to create new replica set \"{}\": {error}", new.name);
            return self.create_again(new, message);
        }
        self.created = Some(new);
        self.finish(StatusStep::Rollout)
    }

    /// Retries a failed creation. The status is written first, then the set is created.
    fn create_again(self, new: NewSet, message: String) -> Plan {
        let mut conditions = self.conditions();
        if self.deadline().is_some() {
            let verdict = Verdict { status: "False", reason: "ReplicaSetCreateError", message };
            conditions.set(PROGRESSING, verdict, self.observed.state.now);
        }
        let status = DeploymentStatus { conditions: conditions.into_stored(), ..self.observed.deployment().status.clone() };
        let stages = [self.write_deployment(&status, None), Some(self.create_action(new))];
        Plan { stages: stages.into_iter().flatten().map(one).collect(), waits: self.waits, ..Plan::default() }
    }

    /// Another object has the name. The next reconcile uses another hash.
    fn collision(self) -> Plan {
        let deployment = self.observed.deployment();
        let collisions = deployment.status.collision_count.unwrap_or(0).saturating_add(1);
        let action = Action::Patch {
            target: deployment.reference(),
            subresource: Some(Subresource::Status),
            patch: json!({"status": {"collisionCount": collisions}}),
            urgency: Urgency::Now,
            reason: Reason::NameTaken,
            events: Outcome::default(),
        };
        Plan { stages: vec![one(action)], ..Plan::default() }
    }

    /// Orders the writes: shrinking sets come before growing ones, so that the total is never higher than before and after. The status is
    /// last.
    pub(super) fn finish(mut self, step: StatusStep) -> Plan {
        let status = self.status(step);
        if step == StatusStep::Rollout {
            self.wait_for_completion(&status);
            self.events.extend(auto_rollback::events(self.observed));
            self.record_end(&status);
        }
        self.report_failing_pods();
        let observed = self.observed;
        let revision = self.created.as_ref().map(|new| new.revision.to_string()).or_else(|| self.stored_revision());
        let is_growth = |draft: &&Draft<'_>| draft.size > i64::from(draft.set.replicas);
        let (growing, others): (Vec<_>, Vec<_>) = self.drafts.iter().partition(is_growth);
        let actions = |drafts: Vec<&Draft<'_>>| drafts.into_iter().filter_map(|draft| draft.action(observed)).collect::<Vec<_>>();
        let status_write = self.write_deployment(&status, revision);
        let create = self.created.take().map(|new| self.create_action(new));
        let last = status_write.into_iter().chain(self.deletes).collect();
        let stages = [actions(others), actions(growing), create.into_iter().collect(), last];
        Plan {
            stages: stages.into_iter().filter(|actions| !actions.is_empty()).map(|actions| Stage { actions }).collect(),
            events: self.events,
            waits: self.waits,
            question: self.question,
            requeue_at: match step {
                StatusStep::Counts => None,
                StatusStep::Rollout => {
                    let times = [requeue_at(self.observed, &status), self.requeue_at, auto_rollback::next_decision(self.observed)];
                    times.into_iter().flatten().min()
                }
            },
            ..Plan::default()
        }
    }

    /// Records the end of the rollout on the new set before any status reports it.
    fn record_end(&mut self, status: &DeploymentStatus) {
        let Some(new) = self.observed.new else { return };
        let is_complete = self.held == Held::No && is_complete(self.observed, status);
        let subject = self.progress(status).subject;
        records::end(&mut self.drafts[new], self.observed, status, records::RolloutProgress { is_complete, subject });
    }

    /// The revision that the Deployment copies from its new set.
    fn stored_revision(&self) -> Option<String> {
        self.drafts[self.observed.new?].annotations().get(REVISION).cloned()
    }

    fn create_action(&self, new: NewSet) -> Action {
        let deployment = self.observed.deployment();
        let failed = format!("Failed to create new replica set \"{}\": ", new.name);
        Action::Create {
            reason: Reason::NewTemplate { revision: new.revision },
            events: Outcome {
                success: (new.size > 0).then(|| scaled(deployment, &new.name, 0, new.size)),
                failure: Some(event(deployment, Severity::Warning, "ReplicaSetCreateError", failed)),
            },
            object: new.object.into(),
        }
    }

    fn status(&self, step: StatusStep) -> DeploymentStatus {
        let observed = self.observed;
        let wanted = self.drafts.iter().map(|draft| draft.size).sum::<i64>() + self.created.as_ref().map_or(0, |new| new.size);
        let mut status = status::counts(observed, wanted);
        let mut conditions = self.conditions();
        status::set_available(&mut conditions, observed, &status);
        if step == StatusStep::Rollout {
            let progress = self.progress(&status);
            progress::set_step(&mut conditions, self.at_step.clone(), &progress.subject, observed.state.now);
            if self.at_step.is_none() || progress.deadline.is_none() {
                progress::set_progress(&mut conditions, &progress);
            }
            status::set_replica_failure(&mut conditions, observed);
            let new = observed.new.map(|new| &self.drafts[new]);
            analyzing::set_failed(&mut conditions, observed, new.map(Draft::annotations));
            auto_rollback::set_failed(&mut conditions, observed, new);
        }
        status.conditions = conditions.into_stored();
        status
    }

    /// The stored conditions with the changes that precede all decisions: pausing, and whether the new set was found or created.
    fn conditions(&self) -> Conditions {
        let (deployment, now) = (self.observed.deployment(), self.observed.state.now);
        let mut conditions = Conditions::of(&deployment.status);
        if deployment.meta.deleted.is_some() || self.deadline().is_none() {
            return conditions;
        }
        let pause = if deployment.spec.paused { Pause::Paused } else { Pause::Running };
        progress::set_paused(&mut conditions, pause, now);
        let known = self.created.as_ref().map(|new| (Begun::Created, new.name.as_str()));
        if let Some((begun, name)) = known.or_else(|| self.begun_before(&conditions)) {
            conditions.set(PROGRESSING, begun.verdict(name), now);
        }
        conditions
    }

    /// The new set, if the status does not report that its rollout has begun. Either the status has no such condition, or the condition is
    /// about another rollout and the Deployment does not have the new set's revision yet. Upstream keeps the condition in the second case.
    /// If no pod can be created, a rollout without a status update, or a rollback to an older set, would never miss a deadline there. A
    /// client that waits for an undo after a missed deadline could also get the former failure.
    fn begun_before(&self, conditions: &Conditions) -> Option<(Begun, &'a str)> {
        let new = self.observed.new_set()?;
        let revision = self.stored_revision();
        let is_recorded = revision.as_ref() == self.observed.deployment().annotations.get(REVISION);
        let has_ended = [progress::NEW_AVAILABLE, progress::DEADLINE_EXCEEDED].contains(&conditions.reason(PROGRESSING));
        if let Some(condition) = conditions.get(PROGRESSING) {
            let is_its_own = || Subject::ReplicaSet(new.meta.name.to_string()).is_of(condition);
            let is_of_another = has_ended || conditions.reason(PROGRESSING) == progress::UPDATED && !is_its_own();
            if is_recorded || !is_of_another {
                return None;
            }
        }
        // A set with an earlier number existed before, whatever the changes of its spec.
        let was_there = self.drafts[self.observed.new?].annotations().contains_key(REVISION_HISTORY);
        let begun = if !is_recorded && new.meta.generation == Generation(1) && !was_there { Begun::Created } else { Begun::Found };
        Some((begun, &new.meta.name))
    }

    fn progress<'p>(&self, new: &'p DeploymentStatus) -> Progress<'p>
    where
        'a: 'p,
    {
        let deployment = self.observed.deployment();
        let new_name = self.created.as_ref().map(|new| new.name.clone()).or(self.observed.new_set().map(|set| set.meta.name.to_string()));
        let subject = new_name.map_or_else(|| Subject::Deployment(deployment.meta.name.to_string()), Subject::ReplicaSet);
        let (goal, held, deadline, now) = (self.goal(), self.held, self.deadline(), self.observed.state.now);
        Progress { stored: &deployment.status, new, goal, held, deadline, subject, now }
    }

    fn goal(&self) -> Goal {
        goal(self.observed)
    }

    fn deadline(&self) -> Option<jiff::SignedDuration> {
        progress::deadline(self.observed.deployment().spec.progress_deadline_seconds)
    }

    /// Writes status and revision. One write covers both.
    fn write_deployment(&self, status: &DeploymentStatus, revision: Option<String>) -> Option<Action> {
        let deployment = self.observed.deployment();
        let revision =
            revision.filter(|revision| deployment.annotations.get(REVISION) != Some(revision) && deployment.meta.deleted.is_none());
        let annotation = revision.map(|revision| json!({"annotations": BTreeMap::from([(REVISION, revision)])}));
        let is_news = annotation.is_some() || status::is_news(&deployment.status, status) || is_complete(self.observed, status);
        let urgency = if is_news { Urgency::Now } else { Urgency::Soon };
        let status = status_patch(&deployment.status, status, |status| &mut status.conditions);
        let patch = match (annotation, status) {
            (Some(metadata), Some(status)) => json!({"metadata": metadata, "status": status}),
            (Some(metadata), None) => json!({"metadata": metadata}),
            (None, Some(status)) => json!({"status": status}),
            (None, None) => return None,
        };
        Some(Action::Patch {
            target: deployment.reference(),
            subresource: Some(Subresource::Status),
            patch,
            urgency,
            reason: Reason::ReplicaSetsChanged,
            events: Outcome::default(),
        })
    }

    /// Records an event if pods of the new template do not become ready or cannot be created, once for each set and kind of cause.
    fn report_failing_pods(&mut self) {
        let observed = self.observed;
        let Some(set) = observed.new_set() else { return };
        let Some(cause) = observed.failing(set) else { return };
        let message = match cause.about.kind {
            "Pod" => format!("Pods of replica set \"{}\" are failing: {cause}", set.meta.name),
            _ => cause.to_string(),
        };
        let event = event(observed.deployment(), Severity::Warning, "NewPodsFailing", message);
        let repeat = Repeat::OncePer(format!("{}/{}", set.meta.name, cause.kind.reason()));
        self.events.push(EventRecord { repeat, ..event });
    }
}

fn requeue_at(observed: &Observed<'_>, status: &DeploymentStatus) -> Option<jiff::Timestamp> {
    if is_complete(observed, status) {
        return None;
    }
    let now = observed.state.now;
    let deadline = progress::deadline(observed.deployment().spec.progress_deadline_seconds);
    progress::requeue_at(progress::next_check(deadline, Conditions::of(status).get(PROGRESSING), now), now)
}

/// Waits for the pods of the old sets that are not deleted yet, including those that are not terminating yet.
pub(super) fn wait_for_old_pods(work: &mut Work<'_, '_>, then_create: i64) {
    let observed = work.observed;
    let lagging = observed.old().find(|(_, set)| set.status.observed_generation < set.meta.generation);
    let running = observed.old().map(|(_, set)| i64::from(set.status.replicas)).sum::<i64>();
    work.hold_back(then_create);
    if let Some((_, set)) = lagging {
        work.wait(Wait::ChildNotObserved { name: set.meta.name.to_string() });
    } else if running > 0 {
        work.wait(Wait::OldPodsRunning { pods: count(running), then_create: count(then_create) });
    } else if then_create > 0 && observed.left_behind().staying() > 0 {
        work.wait(Wait::PodsLeftBehind { pods: observed.left_behind().staying(), then_create: count(then_create) });
    } else if then_create > 0 && observed.terminating() > 0 {
        work.wait_for_terminating(observed.terminating(), then_create);
    }
}

fn one(action: Action) -> Stage {
    Stage { actions: vec![action] }
}

pub(super) fn count(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}
