//! Progressive rollouts: how many pods of the new template may exist, and when that number may grow.
//!
//! A share of the pods is rounded up. During a step the new set has its share, and the old sets have the rest of `spec.replicas`
//! ([`super::steering`]). On the way, all bounds of the rolling update hold. The new set records the position ([`BERTH_STEP`]) from the
//! beginning of its rollout, with the rollout's number: another rollout starts from the first step. Only templates that were never complete
//! have steps, so a rollback does not wait.

use super::{
    annotations::{self, Annotations},
    draft::Draft,
    observe::Observed,
};
use crate::{
    plan::AtStep,
    rollback,
    view::{DeploymentStrategy, Meta},
};
use berth_api::{
    annotations::{BERTH_STEP, POD_TEMPLATE_HASH},
    apps::steps::{self, Step},
};
use berth_identity::RolloutRevision;
use jiff::Timestamp;

/// The position of a rollout in its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPosition {
    /// The number of the rollout.
    pub revision: RolloutRevision,
    /// The step, counted from 0.
    pub index: usize,
    /// Since when; `None` if the position is not written yet.
    pub since: Option<Timestamp>,
}

impl StepPosition {
    /// The position of the set with these annotations in its latest rollout. Without a record, the first step.
    #[must_use]
    pub fn of(set: &Annotations) -> Self {
        let revision = annotations::revision(set).unwrap_or_default();
        let kept = set.get(BERTH_STEP).and_then(|text| Self::parse(text)).filter(|position| position.revision == revision);
        kept.unwrap_or(Self::first(revision))
    }

    /// The first position of the rollout with this number.
    fn first(revision: RolloutRevision) -> Self {
        Self { revision, index: 0, since: None }
    }

    fn parse(text: &str) -> Option<Self> {
        let (at, since) = text.split_once('@')?;
        let (revision, step) = at.split_once('/')?;
        Some(Self {
            revision: revision.parse().ok()?,
            index: step.parse::<usize>().ok()?.checked_sub(1)?,
            since: Some(since.parse().ok()?),
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.revision, self.index + 1)
    }

    /// The value of [`BERTH_PROMOTED`] that ends its wait. It contains the template hash too, because numbers restart from 1 when a user
    /// deletes and recreates a Deployment.
    ///
    /// [`BERTH_PROMOTED`]: berth_api::annotations::BERTH_PROMOTED
    #[must_use]
    pub fn promotion(&self, set: &Meta) -> String {
        format!("{}/{}", self.name(), set.labels.get(POD_TEMPLATE_HASH).unwrap_or_default())
    }

    /// The value of [`BERTH_STEP`].
    pub(super) fn value(&self, since: Timestamp) -> String {
        format!("{}@{}", self.name(), since.strftime("%Y-%m-%dT%H:%M:%SZ"))
    }
}

/// What a step allows.
pub(super) struct CurrentStep<'a> {
    steps: &'a [Step],
    position: StepPosition,
    percent: u8,
    /// The share of the new set, in pods.
    share: i64,
}

/// The steps of the Deployment; none if its strategy does not support steps.
fn steps<'a>(observed: &Observed<'a>) -> &'a [Step] {
    let chosen = observed.deployment().choices.steps.as_deref().ok();
    chosen.filter(|_| observed.strategy == DeploymentStrategy::RollingUpdate).unwrap_or_default()
}

/// Whether new templates of the Deployment roll out in steps.
pub(super) fn has_steps(observed: &Observed<'_>) -> bool {
    !steps(observed).is_empty()
}

/// Returns `None` if the rollout has no steps, or there is no rollout.
pub(super) fn current_step<'a>(observed: &Observed<'a>) -> Option<CurrentStep<'a>> {
    let steps = steps(observed);
    let new = observed.new_set();
    if steps.is_empty() || new.is_some_and(|new| was_complete(&new.annotations)) {
        return None;
    }
    let mut position = position(observed);
    if !goes_in_steps(observed, &position) {
        return None;
    }
    position.index = position.index.min(steps.len() - 1);
    let percent =
        steps[..=position.index].iter().rev().find_map(|step| if let Step::Percent(percent) = step { Some(*percent) } else { None });
    let percent = percent.unwrap_or(100);
    Some(CurrentStep { steps, position, percent, share: steps::pods(percent, observed.size.desired) })
}

/// Whether the rollout has steps left before the last. It is not complete then, whatever the counts.
pub(super) fn are_left(observed: &Observed<'_>) -> bool {
    current_step(observed).is_some_and(|current_step| current_step.next().is_some())
}

/// Records the rollout's position on the new set from the beginning, so that changes of the old sets' pods do not end the steps. Without
/// old pods the rest is rolled out, and a later rollout starts from the first step.
pub(super) fn keep(drafts: &mut [Draft<'_>], observed: &Observed<'_>) {
    let Some(new) = observed.new else { return };
    match current_step(observed) {
        Some(current_step) if current_step.position().since.is_none() => {
            drafts[new].annotate(BERTH_STEP, Some(&current_step.position().value(observed.state.now)));
        }
        None if observed.deployment().choices.steps.as_ref().is_ok_and(Vec::is_empty) => drafts[new].annotate(BERTH_STEP, None),
        _ => (),
    }
}

fn was_complete(set: &Annotations) -> bool {
    rollback::completed_revision(set).is_some()
}

fn position(observed: &Observed<'_>) -> StepPosition {
    let begins = StepPosition::first(observed.new_revision());
    let Some(new) = observed.new_set() else { return begins };
    let position = StepPosition::of(&new.annotations);
    // A set that a rollback activates gets its number in this reconcile. Its former position no longer applies.
    if position.revision < begins.revision && annotations::is_numbered(&new.annotations) { begins } else { position }
}

/// Once written, the position decides, whatever happens to the old sets' pods. Without pods of another template no caution is necessary.
/// The first rollout has steps only if a rollback target exists.
fn goes_in_steps(observed: &Observed<'_>, position: &StepPosition) -> bool {
    let begins = || observed.new_set().is_none_or(|new| annotations::revision(&new.annotations) != Some(position.revision));
    let is_proven = || observed.old().any(|(_, set)| set.meta.deleted.is_none() && was_complete(&set.annotations));
    position.since.is_some() || observed.old().any(|(_, set)| set.replicas > 0) || begins() && is_proven()
}

impl CurrentStep<'_> {
    pub(super) fn position(&self) -> &StepPosition {
        &self.position
    }

    /// The share of the new set, in pods.
    pub(super) fn share(&self) -> i64 {
        self.share
    }

    /// Whether the step determines the size of each set. At the last step all pods have the new template.
    pub(super) fn steers(&self) -> bool {
        self.percent < 100
    }

    /// The next position, if there is one.
    pub(super) fn next(&self) -> Option<StepPosition> {
        let index = self.position.index + 1;
        (index < self.steps.len()).then(|| StepPosition { index, ..self.position.clone() })
    }

    /// The step of this position.
    pub(super) fn step(&self) -> Step {
        self.steps[self.position.index]
    }

    /// The step as a text.
    pub(super) fn at(&self, observed: &Observed<'_>) -> AtStep {
        let deployment = observed.deployment().meta.name.to_string();
        AtStep { deployment, step: self.position.index + 1, of: self.steps.len(), percent: self.percent }
    }
}
