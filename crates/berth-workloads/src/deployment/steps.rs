//! Progressive rollouts: how many pods of the new template there may be as yet, and when there may be more.
//!
//! A share of the pods is rounded up. While a step lasts the new set has its share, and the old ones what is left of `spec.replicas` ([`super::steering`]); on the
//! way there all bounds of the rolling update hold. The position is on the new set ([`BERTH_STEP`]) from the beginning of its rollout, with the number of that: another
//! rollout begins again. Only templates that were never complete go in steps: going back does not wait.

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

/// Where a rollout is in its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPosition {
    /// The number of the rollout.
    pub revision: RolloutRevision,
    /// The step, counted from 0.
    pub index: usize,
    /// Since when; `None` where nothing was written yet.
    pub since: Option<Timestamp>,
}

impl StepPosition {
    /// Where the set of these annotations is in its latest rollout: at the first step, where nothing says otherwise.
    #[must_use]
    pub fn of(set: &Annotations) -> Self {
        let revision = annotations::revision(set).unwrap_or_default();
        let kept = set.get(BERTH_STEP).and_then(|text| Self::parse(text)).filter(|position| position.revision == revision);
        kept.unwrap_or(Self::first(revision))
    }

    /// Where the rollout of this number begins.
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

    /// What [`BERTH_PROMOTED`] says where its wait is over. It names the template too, by the label of its set: numbers begin again from 1 where a Deployment is
    /// deleted and created.
    ///
    /// [`BERTH_PROMOTED`]: berth_api::annotations::BERTH_PROMOTED
    #[must_use]
    pub fn promotion(&self, set: &Meta) -> String {
        format!("{}/{}", self.name(), set.labels.get(POD_TEMPLATE_HASH).unwrap_or_default())
    }

    /// What [`BERTH_STEP`] says of it.
    pub(super) fn value(&self, since: Timestamp) -> String {
        format!("{}@{}", self.name(), since.strftime("%Y-%m-%dT%H:%M:%SZ"))
    }
}

/// What a step allows.
pub(super) struct Stand<'a> {
    steps: &'a [Step],
    position: StepPosition,
    percent: u8,
    /// The share of the new set, in pods.
    share: i64,
}

/// The steps of the Deployment; none where its strategy knows none.
fn steps<'a>(observed: &Observed<'a>) -> &'a [Step] {
    let chosen = observed.deployment().choices.steps.as_deref().ok();
    chosen.filter(|_| observed.strategy == DeploymentStrategy::RollingUpdate).unwrap_or_default()
}

/// Whether new templates of the Deployment roll out in steps.
pub(super) fn has_steps(observed: &Observed<'_>) -> bool {
    !steps(observed).is_empty()
}

/// `None`: the rollout does not go in steps, or there is none.
pub(super) fn stand<'a>(observed: &Observed<'a>) -> Option<Stand<'a>> {
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
    Some(Stand { steps, position, percent, share: steps::pods(percent, observed.size.desired) })
}

/// Whether the rollout has steps before it that are not the last: it is not complete, whatever the counts say.
pub(super) fn are_left(observed: &Observed<'_>) -> bool {
    stand(observed).is_some_and(|stand| stand.next().is_some())
}

/// Keeps on the new set where its rollout is, from the beginning: what becomes of the old sets' pods does not end the steps. Where there are none any more, the
/// rest is rolled out, and what comes later begins again.
pub(super) fn keep(drafts: &mut [Draft<'_>], observed: &Observed<'_>) {
    let Some(new) = observed.new else { return };
    match stand(observed) {
        Some(stand) if stand.position().since.is_none() => {
            drafts[new].annotate(BERTH_STEP, Some(&stand.position().value(observed.state.now)));
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
    // One that comes back gets its number in this look: where it was when it went is none of its places any more.
    if position.revision < begins.revision && annotations::is_numbered(&new.annotations) { begins } else { position }
}

/// The position decides, once it is written, whatever becomes of the old sets' pods. Without pods of another template there is nothing to be careful of: the first
/// rollout is one, unless there is something to go back to.
fn goes_in_steps(observed: &Observed<'_>, position: &StepPosition) -> bool {
    let begins = || observed.new_set().is_none_or(|new| annotations::revision(&new.annotations) != Some(position.revision));
    let is_proven = || observed.old().any(|(_, set)| set.meta.deleted.is_none() && was_complete(&set.annotations));
    position.since.is_some() || observed.old().any(|(_, set)| set.replicas > 0) || begins() && is_proven()
}

impl Stand<'_> {
    pub(super) fn position(&self) -> &StepPosition {
        &self.position
    }

    /// The share of the new set, in pods.
    pub(super) fn share(&self) -> i64 {
        self.share
    }

    /// Whether it says how large each set is to be: at the last step all pods are to be of the new template.
    pub(super) fn steers(&self) -> bool {
        self.percent < 100
    }

    /// The position after it, if there is one.
    pub(super) fn next(&self) -> Option<StepPosition> {
        let index = self.position.index + 1;
        (index < self.steps.len()).then(|| StepPosition { index, ..self.position.clone() })
    }

    /// The step that it is at.
    pub(super) fn step(&self) -> Step {
        self.steps[self.position.index]
    }

    /// It in words.
    pub(super) fn at(&self, observed: &Observed<'_>) -> AtStep {
        let deployment = observed.deployment().meta.name.to_string();
        AtStep { deployment, step: self.position.index + 1, of: self.steps.len(), percent: self.percent }
    }
}
