//! Automatic rollback: a template whose pods do not become available within the deadline, and that was never complete, gives way to the last one that was.
//! Once for each template; what is known of that is on the set and on its ControllerRevisions.

use super::{EffectiveStrategy, State, events::event, observe::Observed, rollout::revision_of, volumes::References};
use crate::{
    cause::{self, Cause},
    hash::template_hash,
    plan::{Action, EventRecord, Outcome, Plan, Reason, Repeat, Severity, Stage, Urgency, merge_patch},
    rollback::{self, Record, Stays},
    view::{AutoRollback, RevisionView, StatefulSetView},
};
use berth_api::annotations::{BERTH_ROLLBACK, BERTH_ROLLED_BACK_TEMPLATES, BERTH_ROLLED_OUT_AT};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};

type Annotations = BTreeMap<String, String>;

/// What becomes of a template that has missed its deadline.
enum Fate<'o> {
    GoesBack(Back<'o>),
    Stays { hash: String, why: Stays },
}

/// A way back.
pub(super) struct Back<'o> {
    from: &'o RevisionView,
    to: &'o RevisionView,
    template: &'o PodTemplateSpec,
    /// Of the template that gives way.
    hash: String,
    cause: Option<Cause>,
}

/// When the update has stood still for as long as it may: since its template was rolled out, and the last of its pods was made or became ready. `None` where
/// there is no deadline, or no pod of it that is there is unavailable: what it waits for is something else then.
fn deadline(observed: &Observed<'_>) -> Option<Timestamp> {
    let (set, roster) = (observed.set(), observed.roster());
    let choices = set.choices;
    let patience = choices.progress_deadline.filter(|_| choices.auto_rollback == AutoRollback::OnDeadline)?;
    if set.meta.deleted.is_some() || observed.strategy == EffectiveStrategy::OnDelete {
        return None;
    }
    let mut last = observed.history.update_revision()?.rolled_out?;
    let mut is_failing = false;
    for (ordinal, pod) in roster.slots() {
        if pod.meta.deleted.is_none() && revision_of(pod) == observed.history.update {
            is_failing |= !roster.is_available(ordinal);
            let became_ready = pod.ready_since.filter(|_| pod.ready);
            last = pod.meta.created.into_iter().chain(became_ready).fold(last, Timestamp::max);
        }
    }
    last.checked_add(patience).ok().filter(|_| is_failing)
}

/// When to look whether the deadline has passed; `None` if it has, or there is none.
pub(super) fn next_look(observed: &Observed<'_>) -> Option<Timestamp> {
    deadline(observed).filter(|at| observed.state.now < *at)
}

/// The revision whose deadline has passed.
fn late<'o>(observed: &'o Observed<'_>) -> Option<&'o RevisionView> {
    deadline(observed).filter(|at| *at <= observed.state.now)?;
    observed.history.update_revision()
}

/// The record of the rollback that has made the rollout of this revision, if it was not complete since.
fn way_back_to(set: &StatefulSetView, revision: &RevisionView) -> Option<Record> {
    let record = Record::of(&set.annotations).filter(|record| record.has_made(revision.number, &set.spec.template))?;
    (rollback::completed_revision(&revision.annotations) != Some(record.revision)).then_some(record)
}

/// The rollback that has failed as well.
pub(super) fn failed(observed: &Observed<'_>) -> Option<Record> {
    way_back_to(observed.set(), late(observed)?)
}

fn fate<'o>(observed: &'o Observed<'_>) -> Option<Fate<'o>> {
    let from = late(observed)?;
    if rollback::completed_revision(&from.annotations).is_some() || way_back_to(observed.set(), from).is_some() {
        return None;
    }
    let hash = template_hash(&observed.set().spec.template, None);
    let stays = |hash, why| Some(Fate::Stays { hash, why });
    if all_annotations(observed.set(), observed.history.listed()).any(|annotations| rollback::is_remembered(annotations, &hash)) {
        return stays(hash, Stays::BroughtBack);
    }
    let cause = observed.roster().failing(&observed.history.update).and_then(cause::of_pod);
    if let Some(cause) = cause.as_ref().filter(|cause| !cause.kind.may_be_the_templates()) {
        return stays(hash, Stays::NotItsOwn(cause.clone()));
    }
    let others = observed.history.listed().iter().filter(|revision| revision.meta.uid != from.meta.uid && revision.meta.deleted.is_none());
    let complete = others
        .filter_map(|revision| Some((rollback::completed_revision(&revision.annotations)?, &**revision, revision.template.as_deref()?)));
    match complete.max_by_key(|(completed, ..)| *completed) {
        Some((_, to, template)) => Some(Fate::GoesBack(Back { from, to, template, hash, cause })),
        None => stays(hash, Stays::NothingBefore),
    }
}

/// The way back, if the template is to give way now.
pub(super) fn way_back<'o>(observed: &'o Observed<'_>) -> Option<Back<'o>> {
    match fate(observed)? {
        Fate::GoesBack(back) => Some(back),
        Fate::Stays { .. } => None,
    }
}

/// The set's last: it knows best.
fn all_annotations<'a>(set: &'a StatefulSetView, listed: &'a [Arc<RevisionView>]) -> impl Iterator<Item = &'a Annotations> {
    listed.iter().map(|revision| &revision.annotations).chain([&set.annotations])
}

/// One write, after those to claims: the template, that it was gone back to, and that the other one is not to be gone back from again.
pub(super) fn plan(observed: &Observed<'_>, back: &Back<'_>, references: References) -> Plan {
    let (set, Back { from, to, template, hash, cause }) = (observed.set(), back);
    let record = Record {
        // As the revision that is gone back to will be numbered.
        revision: from.number.max(to.number).saturating_add(1),
        template_hash: template_hash(template, None),
        from_revision: from.number,
        to_revision: to.number,
        reason: cause.as_ref().map(|cause| cause.kind.reason().to_owned()),
        message: cause.as_ref().map_or_else(|| standing(observed), Cause::to_string),
    };
    let given_up = Annotations::from([(BERTH_ROLLED_BACK_TEMPLATES.to_owned(), hash.clone())]);
    let known: Vec<&Annotations> = all_annotations(set, observed.history.listed()).collect();
    let annotations = json!({
        BERTH_ROLLED_BACK_TEMPLATES: rollback::remembered(known.into_iter().chain([&given_up])),
        BERTH_ROLLBACK: record.value(),
    });
    let template = merge_patch(&set.spec.template, *template).unwrap_or_else(|| json!({}));
    let action = Action::Patch {
        target: set.reference(),
        subresource: None,
        patch: json!({"metadata": {"annotations": annotations}, "spec": {"template": template}}),
        urgency: Urgency::Now,
        reason: Reason::AutomaticRollback { from: record.from_revision, to: record.to_revision },
        events: Outcome { success: Some(event(set, Severity::Warning, "AutomaticRollback", record.to_string())), failure: None },
    };
    let stages = [references.writes, vec![action]].into_iter().filter(|actions| !actions.is_empty());
    Plan { stages: stages.map(|actions| Stage { actions }).collect(), events: references.events, ..Plan::default() }
}

/// What a revision is to keep beside its template: the templates that were rolled back from, so that they are not forgotten
/// with a set that somebody replaces; the last rollback, if it is about it; that it was complete, as long as the stored status says so, which is not
/// overwritten before; and when it is rolled out again, if `raised` is its new number.
pub(super) fn notes(state: &State<'_>, listed: &[Arc<RevisionView>], revision: &RevisionView, raised: Option<i64>) -> Annotations {
    let set = state.set;
    let mut notes = revision.annotations.clone();
    let remembered = rollback::remembered(all_annotations(set, listed));
    if !remembered.is_empty() {
        notes.insert(BERTH_ROLLED_BACK_TEMPLATES.to_owned(), remembered);
    }
    if let Some(told) = set.annotations.get(BERTH_ROLLBACK)
        && let Some(template) = &revision.template
        && Record::of(&set.annotations).is_some_and(|record| record.is_about(raised.unwrap_or(revision.number), template))
    {
        notes.insert(BERTH_ROLLBACK.to_owned(), told.clone());
    }
    if is_complete(set, revision) && rollback::completed_revision(&revision.annotations) != Some(revision.number) {
        notes.extend(rollback::completion(revision.number, state.now).map(|(key, value)| (key.to_owned(), value)));
    }
    if raised.is_some() && set.choices.auto_rollback == AutoRollback::OnDeadline {
        notes.insert(BERTH_ROLLED_OUT_AT.to_owned(), state.now.to_string());
    }
    notes
}

/// By which cause, and how, the update has missed its deadline.
pub(super) fn failure(observed: &Observed<'_>) -> Option<(Option<Cause>, String)> {
    late(observed)?;
    let cause = observed.roster().failing(&observed.history.update).and_then(cause::of_pod);
    Some((cause, standing(observed)))
}

/// How many of the update revision's pods are not available.
fn standing(observed: &Observed<'_>) -> String {
    let pods = observed.roster().slots().filter(|(_, pod)| revision_of(pod) == observed.history.update);
    let (there, unavailable) = pods
        .fold((0, 0), |(there, unavailable), (ordinal, _)| (there + 1, unavailable + i32::from(!observed.roster().is_available(ordinal))));
    format!("{unavailable} of its {there} pods are not available")
}

/// Whether the stored status says that all pods have this revision and are available.
fn is_complete(set: &StatefulSetView, revision: &RevisionView) -> bool {
    let (status, wanted) = (&set.status, set.spec.replicas.unwrap_or(1));
    let names = [&status.current_revision, &status.update_revision];
    let counts = [status.replicas, status.ready_replicas, status.available_replicas, status.updated_replicas];
    let has_all = wanted > 0 && counts.iter().all(|count| *count == wanted);
    set.choices.auto_rollback == AutoRollback::OnDeadline && has_all && names.iter().all(|name| *revision.meta.name == **name)
}

/// What people should know: that something stays that has failed, and that a way back has failed.
pub(super) fn events(observed: &Observed<'_>) -> Option<EventRecord> {
    let set = observed.set();
    let number = observed.history.number;
    let told = |reason, message, per| Some(EventRecord { repeat: Repeat::OncePer(per), ..event(set, Severity::Warning, reason, message) });
    if let Some(record) = failed(observed) {
        return told("RollbackFailed", record.failure(), number.to_string());
    }
    let Some(Fate::Stays { hash, why }) = fate(observed) else { return None };
    let message = format!("Revision {number} has missed its progress deadline and stays: {why}");
    told("AutomaticRollbackSkipped", message, format!("{hash}/{}", why.word()))
}
