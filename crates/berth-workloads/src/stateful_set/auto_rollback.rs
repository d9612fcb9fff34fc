//! Automatic rollback. A template whose pods make no progress within the deadline, and whose rollout has not succeeded, is replaced by the
//! last complete one. This happens once for each template. The record is on the set and its ControllerRevisions.

use super::{
    events::event,
    notes::all_annotations,
    observe::Observed,
    progress::{self, Missed},
    rollout::{is_ready, revision_of},
};
use crate::{
    cause::{self, Cause},
    deployment::NODES_MAX,
    hash::template_hash,
    plan::{Action, EventRecord, Outcome, Reason, Repeat, Severity, Urgency, merge_patch},
    rollback::{self, Record, Stays, WayBack},
    rollout_record::Ended,
    view::{PodView, RevisionView, StatefulSetView},
};
use berth_api::annotations::{BERTH_ROLLBACK, BERTH_ROLLED_BACK_TEMPLATES};
use berth_identity::TemplateHash;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

type Annotations = BTreeMap<String, String>;

/// The decision about a template that has missed its deadline.
enum Decision<'o> {
    RollBack(Back<'o>),
    Stays { hash: TemplateHash, why: Stays },
}

/// A rollback.
struct Back<'o> {
    from: &'o RevisionView,
    to: &'o RevisionView,
    template: &'o PodTemplateSpec,
    /// The hash of the template that is rolled back.
    hash: TemplateHash,
    cause: Option<Cause>,
}

/// The revision whose deadline has passed, and the reason.
fn late<'o>(observed: &'o Observed<'_>) -> Option<(&'o RevisionView, Missed)> {
    let missed = progress::missed(observed)?;
    Some((observed.history.update_revision()?, missed))
}

/// The revision whose deadline has passed, and whose pods fail.
fn failing<'o>(observed: &'o Observed<'_>) -> Option<&'o RevisionView> {
    late(observed).filter(|(_, missed)| *missed == Missed::Failing).map(|(revision, _)| revision)
}

/// Why pods of the update do not become ready, or are rejected.
fn cause(observed: &Observed<'_>) -> Option<Cause> {
    let failing = observed.pods().failing(&observed.history.update).next().and_then(cause::of_pod);
    let missing = observed.pods().missing().count();
    let refused = || observed.state.last_error.as_deref().filter(|_| missing > 0);
    failing.or_else(|| cause::refusal_of_stateful_set(&observed.set().meta.name, missing, refused()?))
}

/// The record of the rollback that caused the rollout of this revision, if that was not complete since.
fn way_back_to(set: &StatefulSetView, revision: &RevisionView) -> Option<Record> {
    let record = Record::of(&set.annotations).filter(|record| record.has_made(revision.number, &set.spec.template))?;
    (rollback::completed_revision(&revision.annotations) != Some(record.revision)).then_some(record)
}

/// The rollback whose target has failed as well.
pub(super) fn failed(observed: &Observed<'_>) -> Option<Record> {
    way_back_to(observed.set(), failing(observed)?)
}

fn decide<'o>(observed: &'o Observed<'_>) -> Option<Decision<'o>> {
    let (from, missed) = late(observed)?;
    if way_back_to(observed.set(), from).is_some() {
        return None;
    }
    let hash = template_hash(&observed.set().spec.template, None);
    let stays = |hash, why| Some(Decision::Stays { hash, why });
    // A rollout of this number that was complete only briefly has not succeeded.
    if rollback::completed_revision(&from.annotations).is_some_and(|completed| completed != from.number) {
        return stays(hash, Stays::CompleteBefore);
    }
    if all_annotations(observed.set(), observed.history.listed()).any(|annotations| rollback::is_remembered(annotations, &hash)) {
        return stays(hash, Stays::BroughtBack);
    }
    let cause = cause(observed);
    if let Some(cause) = cause.as_ref().filter(|cause| !cause.kind.may_be_the_templates()) {
        return stays(hash, Stays::NotItsOwn(cause.clone()));
    }
    if missed == Missed::Waiting {
        return stays(hash, Stays::NoneFails);
    }
    let others = observed.history.listed().iter().filter(|revision| revision.meta.uid != from.meta.uid && revision.meta.deleted.is_none());
    let complete = others
        .filter_map(|revision| Some((rollback::completed_revision(&revision.annotations)?, &**revision, revision.template.as_deref()?)));
    match complete.max_by_key(|(completed, ..)| *completed) {
        Some((_, to, template)) => Some(Decision::RollBack(Back { from, to, template, hash, cause })),
        None => stays(hash, Stays::NothingBefore),
    }
}

/// The rollback, if it is due.
pub(super) fn way_back(observed: &Observed<'_>) -> Option<WayBack> {
    match decide(observed)? {
        Decision::RollBack(back) => Some(go_back(observed, &back)),
        Decision::Stays { .. } => None,
    }
}

/// One write: the target's template, the record of the rollback, and the record that the failed template must not be rolled back again.
fn go_back(observed: &Observed<'_>, back: &Back<'_>) -> WayBack {
    let (set, Back { from, to, template, hash, cause }) = (observed.set(), back);
    let record = Record {
        // The number that the target revision will get.
        revision: from.number.max(to.number).next(),
        template_hash: template_hash(template, None),
        from_revision: from.number,
        to_revision: to.number,
        reason: cause.as_ref().map(|cause| cause.kind.reason().to_owned()),
        message: cause.as_ref().map_or_else(|| standing(observed), Cause::to_string),
    };
    let given_up = Annotations::from([(BERTH_ROLLED_BACK_TEMPLATES.to_owned(), hash.to_string())]);
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
    WayBack::new(nodes_to_confirm(observed, back, &record), action)
}

/// Returns the nodes that have to confirm a failure without a known cause.
fn nodes_to_confirm(observed: &Observed<'_>, back: &Back<'_>, record: &Record) -> Option<Action> {
    if back.cause.is_some() {
        return None;
    }
    let is_unready = |pod: &PodView| pod.meta.deleted.is_none() && revision_of(pod) == observed.history.update && !is_ready(pod);
    let unready = observed.pods().slots().filter(|(_, pod)| is_unready(pod));
    let nodes: BTreeSet<String> = unready.map(|(_, pod)| pod.node_name.to_string()).take(NODES_MAX).collect();
    let message = format!("Revision {} has missed its progress deadline and stays: a rollback would not help: ", record.from_revision);
    let skipped = event(observed.set(), Severity::Warning, "AutomaticRollbackSkipped", message);
    rollback::nodes_to_confirm(nodes.into_iter().collect(), record, (&back.hash, skipped), observed.state.now)
}

/// How the update has missed its deadline, if it has.
pub(super) fn failure(observed: &Observed<'_>) -> Option<Ended> {
    failing(observed)?;
    Some(Ended::failed(observed.state.now, cause(observed).as_ref(), || standing(observed)))
}

/// How many of the update revision's pods are unavailable.
fn standing(observed: &Observed<'_>) -> String {
    let pods = observed.pods().slots().filter(|(_, pod)| revision_of(pod) == observed.history.update);
    let (there, unavailable) = pods
        .fold((0, 0), |(there, unavailable), (ordinal, _)| (there + 1, unavailable + i32::from(!observed.pods().is_available(ordinal))));
    format!("{unavailable} of its {there} pods are not available")
}

/// The events for users: a failed template remains, or the target of a rollback has failed. `is_idle`: the controller has no action on
/// pods.
pub(super) fn events(observed: &Observed<'_>, is_idle: bool) -> Option<EventRecord> {
    let set = observed.set();
    let number = observed.history.number;
    let warning =
        |reason, message, per| Some(EventRecord { repeat: Repeat::OncePer(per), ..event(set, Severity::Warning, reason, message) });
    if let Some(record) = failed(observed) {
        return warning("RollbackFailed", record.failure(), number.to_string());
    }
    let Some(Decision::Stays { hash, why }) = decide(observed) else { return None };
    if matches!(why, Stays::NoneFails) && !is_idle {
        return None;
    }
    let message = format!("Revision {number} has missed its progress deadline and stays: {why}");
    warning("AutomaticRollbackSkipped", message, format!("{hash}/{}", why.word()))
}
