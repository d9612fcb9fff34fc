//! Progressive rollouts: how many pods of the new template there may be as yet, and when there may be more.
//!
//! A share of the pods is rounded up. While a step lasts the new set has its share, and the old ones what is left of `spec.replicas`; on the way there all bounds of
//! the rolling update hold. The place is on the new set ([`BERTH_STEP`]), with the number of its rollout: another rollout begins anew. Only templates
//! that were never complete go in steps: going back does not wait.

use super::{
    annotations::{self, Annotations},
    observe::Observed,
    work::Work,
};
use crate::{
    plan::{AtStep, Wait},
    rollback,
};
use berth_api::{
    annotations::{BERTH_PROMOTED, BERTH_STEP},
    apps::steps::{self, Step},
};
use jiff::{SignedDuration, Timestamp};

/// Where a rollout is in its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the rollout.
    pub revision: i64,
    /// The step, counted from 0.
    pub index: usize,
    /// Since when. The first step has no time: it begins with the rollout.
    pub since: Option<Timestamp>,
}

impl Place {
    /// Where the set of these annotations is in its latest rollout: at the first step, where nothing says otherwise.
    #[must_use]
    pub fn of(set: &Annotations) -> Self {
        let revision = annotations::revision(set).unwrap_or(0);
        let kept = set.get(BERTH_STEP).and_then(|text| Self::parse(text)).filter(|place| place.revision == revision);
        kept.unwrap_or(Self { revision, index: 0, since: None })
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

    /// Its name: what [`BERTH_PROMOTED`] says where it is over.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.revision, self.index + 1)
    }
}

/// What a step allows, and how far it is.
pub(super) struct Stand<'a> {
    steps: &'a [Step],
    place: Place,
    percent: u8,
    /// The share of the new set, in pods.
    share: i64,
    /// The size of the new set.
    new: i64,
    /// The sum of the old sets' sizes.
    old: i64,
    desired: i64,
}

/// `None`: all pods may be of the new template.
pub(super) fn stand<'a>(observed: &Observed<'a>) -> Option<Stand<'a>> {
    let steps = observed.deployment().choices.steps.as_deref().ok().filter(|steps| !steps.is_empty())?;
    let new = observed.new_set();
    if new.is_some_and(|new| rollback::completed_revision(&new.annotations).is_some()) {
        return None;
    }
    let mut place = new.map_or(Place { revision: 0, index: 0, since: None }, |new| Place::of(&new.annotations));
    place.index = place.index.min(steps.len() - 1);
    let percent = steps[..=place.index].iter().rev().find_map(|step| if let Step::Percent(percent) = step { Some(*percent) } else { None });
    let percent = percent.unwrap_or(100);
    let (desired, old) = (observed.size.desired, observed.old().map(|(_, set)| i64::from(set.replicas)).sum());
    // Without pods of another template there is nothing to be careful of: the first rollout is one.
    (desired > 0 && old > 0).then_some(Stand {
        steps,
        place,
        percent,
        share: steps::pods(percent, desired),
        new: new.map_or(0, |new| new.replicas.into()),
        old,
        desired,
    })
}

impl Stand<'_> {
    /// How large the new set may be. Where old sets have less than what is left, by whatever cause, it makes up for them: no step costs pods.
    pub(super) fn most(&self) -> i64 {
        self.share.max(self.desired - self.old)
    }

    /// How many pods of old sets may go.
    pub(super) fn removable(&self) -> i64 {
        (self.old - (self.desired - self.share.max(self.new))).max(0)
    }

    /// Whether the new set has its share, all available, and the old ones have no more than what is left.
    fn is_reached(&self, observed: &Observed<'_>) -> bool {
        let has_share = observed.new_set().is_some_and(|new| {
            let counts = [new.replicas, new.status.replicas, new.status.available_replicas];
            new.status.observed_generation >= new.meta.generation && counts.iter().all(|count| i64::from(*count) >= self.share)
        });
        has_share && self.removable() == 0
    }
}

/// Goes on to the next step where this one is over, or waits. What waits at a step waits for nothing else: its pods are available.
pub(super) fn go_on(work: &mut Work<'_, '_>, observed: &Observed<'_>, stand: &Stand<'_>) {
    let Stand { steps, place, percent, .. } = stand;
    let (Some(new), true) = (observed.new, stand.is_reached(observed)) else { return };
    let (now, step) = (observed.state.now, steps[place.index]);
    let is_promoted = observed.deployment().annotations.get(BERTH_PROMOTED).is_some_and(|text| *text == place.name());
    let until = place.since.unwrap_or(now).checked_add(match step {
        Step::Seconds(seconds) => SignedDuration::from_secs(seconds.into()),
        Step::Percent(_) | Step::Pause => SignedDuration::ZERO,
    });
    let until = until.unwrap_or(Timestamp::MAX);
    let is_over = match step {
        Step::Percent(_) => true,
        Step::Seconds(_) => is_promoted || until <= now,
        Step::Pause => is_promoted,
    };
    if is_over {
        if place.index + 1 < steps.len() {
            let next = Place { index: place.index + 1, ..place.clone() };
            work.drafts[new].annotate(BERTH_STEP, Some(&format!("{}@{}", next.name(), now.strftime("%Y-%m-%dT%H:%M:%SZ"))));
        }
        return;
    }
    let at = AtStep { deployment: observed.deployment().meta.name.to_string(), step: place.index + 1, of: steps.len(), percent: *percent };
    match step {
        Step::Seconds(_) => work.wait_at_step(Wait::StepLasts { at, until }, Some(until)),
        Step::Percent(_) | Step::Pause => work.wait_at_step(Wait::StepPaused { at }, None),
    }
}
