//! Progressive rollouts: how many pods of the new template there may be as yet, and when there may be more.
//!
//! A share of the pods is rounded up. While a step lasts the new set has its share, and the old ones what is left of `spec.replicas`; on the way there all bounds of
//! the rolling update hold. The place is on the new set ([`BERTH_STEP`]), with the number of its rollout: another rollout begins anew. Only templates
//! that were never complete go in steps: going back does not wait.

use super::{
    annotations::{self, Annotations},
    observe::Observed,
};
use crate::{plan::AtStep, rollback};
use berth_api::{
    annotations::BERTH_STEP,
    apps::steps::{self, Step},
};
use jiff::Timestamp;

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
    // One that comes back gets its number in this look: where it was when it went is none of its places any more.
    let last = observed.old().filter_map(|(_, set)| annotations::revision(&set.annotations)).max();
    if let Some(last) = last.filter(|last| place.revision <= *last && new.is_none_or(|new| annotations::is_numbered(&new.annotations))) {
        place = Place { revision: last.saturating_add(1), index: 0, since: None };
    }
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
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// The place after it, if there is one.
    pub(super) fn next(&self) -> Option<Place> {
        let index = self.place.index + 1;
        (index < self.steps.len()).then(|| Place { index, ..self.place.clone() })
    }

    /// The step that it is at.
    pub(super) fn step(&self) -> Step {
        self.steps[self.place.index]
    }

    /// It in words.
    pub(super) fn at(&self, observed: &Observed<'_>) -> AtStep {
        let deployment = observed.deployment().meta.name.to_string();
        AtStep { deployment, step: self.place.index + 1, of: self.steps.len(), percent: self.percent }
    }

    /// How large the new set may be. Where old sets have less than what is left, by whatever cause, it makes up for them: no step costs pods.
    pub(super) fn most(&self) -> i64 {
        self.share.max(self.desired - self.old)
    }

    /// How many pods of old sets may go.
    pub(super) fn removable(&self) -> i64 {
        (self.old - (self.desired - self.share.max(self.new))).max(0)
    }

    /// Whether the new set has its share, all available, and the old ones have no more than what is left.
    pub(super) fn is_reached(&self, observed: &Observed<'_>) -> bool {
        let has_share = observed.new_set().is_some_and(|new| {
            let counts = [new.replicas, new.status.replicas, new.status.available_replicas];
            new.status.observed_generation >= new.meta.generation && counts.iter().all(|count| i64::from(*count) >= self.share)
        });
        has_share && self.removable() == 0
    }
}
