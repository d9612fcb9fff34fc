//! Calls reviewers for a write.

use super::{
    Admission, Operation, Remarks,
    plug_in::{Chain, PlugIn},
    reviewer::{AdmissionRequest, Stage},
};
use crate::{ApiError, BoxObject, Subresource, checks::Mode, replicas};
use berth_admission::Reinvocation;
use berth_api::Object;
use berth_store::MinRevision;
use std::mem;

pub(super) struct Reviewers;

/// The calls of the reviewers to mutate one object.
#[derive(Default)]
pub(super) struct Rounds {
    begun: u8,
    /// One for each reviewer.
    states: Vec<ReviewerState>,
}

impl Rounds {
    /// Whether a reviewer was called.
    pub(super) fn have_begun(&self) -> bool {
        0 < self.begun
    }
}

/// What the first round leaves for the second one.
#[derive(Default)]
struct ReviewerState {
    reinvocation: Reinvocation,
    /// The object after the reviewer's call, if the second round may call one of its hooks.
    output: Option<BoxObject>,
}

/// The second round is the last one, as upstream.
const ROUNDS_MAX: u8 = 2;

impl PlugIn for Reviewers {
    const NAME: &'static str = "Reviewers";

    async fn mutate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        if admission.rounds.begun == ROUNDS_MAX || !chain.may_be_reviewed(Stage::Mutate, admission) {
            return Ok(());
        }
        // Boxed, so that the future of writes without reviewers stays small.
        Box::pin(chain.ask_to_change(admission)).await
    }

    async fn validate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        if chain.may_be_reviewed(Stage::Validate, admission) { Box::pin(chain.ask_to_accept(admission)).await } else { Ok(()) }
    }
}

impl Chain {
    fn may_be_reviewed(&self, stage: Stage, admission: &Admission<'_>) -> bool {
        !self.reviewers.is_empty() && {
            let request = request(admission, admission.name(), None);
            self.reviewers.iter().any(|reviewer| reviewer.may_review(stage, &request))
        }
    }

    async fn ask_to_change(&self, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        // Reviewers may take long, so later reads must be newer.
        admission.as_of = MinRevision::default();
        let mut rounds = mem::take(&mut admission.rounds);
        rounds.begun += 1;
        rounds.states.resize_with(self.reviewers.len(), ReviewerState::default);
        let old = old_view(admission)?;
        let is_deletion = admission.operation == Operation::Delete;
        let mut object = view(admission, &*admission.object)?.unwrap_or_else(|| admission.object.clone_object());
        let before = object.clone_object();
        let name = admission.name().to_owned();
        let mut all = Remarks::default();
        for (reviewer, ReviewerState { reinvocation, output }) in self.reviewers.iter().zip(&mut rounds.states) {
            let request = request(admission, &name, old.as_deref());
            if !reviewer.may_review(Stage::Mutate, &request) {
                continue;
            }
            if 1 < rounds.begun {
                reinvocation.begin_second(output.take().is_some_and(|output| !object.same_as(&*output)));
            }
            if reinvocation.is_done() {
                continue;
            }
            let remarks = reviewer.mutate(&request, (!is_deletion).then_some(&mut object), reinvocation).await;
            all.add(remarks.map_err(|error| error.warned_before(&[&admission.remarks.warnings, &all.warnings]))?);
            request.restore_identity(&mut *object, &*before);
            *output = reinvocation.is_waiting().then(|| object.clone_object());
        }
        admission.remarks.add(all);
        let is_first = rounds.begun == 1;
        admission.rounds = rounds;
        if is_deletion || object.same_as(&*before) {
            return Ok(());
        }
        admission.is_changed_outside = is_first;
        match admission.subresource() {
            Some(Subresource::Scale) => replicas::set_scale(&mut *admission.object, &*object),
            _ => admission.object = object.into(),
        }
        if !is_first {
            admission.set_defaults();
        }
        Ok(())
    }

    async fn ask_to_accept(&self, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        let old = old_view(admission)?;
        let shown = view(admission, &*admission.object)?;
        let is_deletion = admission.operation == Operation::Delete;
        let mut all = Remarks::default();
        for reviewer in self.reviewers.iter() {
            let request = request(admission, admission.name(), old.as_deref());
            if !reviewer.may_review(Stage::Validate, &request) {
                continue;
            }
            let object = shown.as_deref().unwrap_or(&*admission.object);
            let remarks = reviewer.validate(&request, (!is_deletion).then_some(object)).await;
            all.add(remarks.map_err(|error| error.warned_before(&[&admission.remarks.warnings, &all.warnings]))?);
        }
        admission.remarks.add(all);
        Ok(())
    }
}

fn request<'r>(admission: &'r Admission<'_>, name: &'r str, old_view: Option<&'r dyn Object>) -> AdmissionRequest<'r> {
    AdmissionRequest {
        operation: admission.operation,
        resource: admission.at.resource,
        subresource: admission.subresource(),
        namespace: admission.at.namespace,
        name,
        is_dry_run: admission.at.mode == Mode::Dry,
        caller: admission.author.actor.limited(),
        user: admission.author.actor.user(),
        options: admission.author.options,
        old: old_view.or(admission.old.as_ref().map(|old| &*old.object)),
        resource_version: admission.old.as_ref().map(|old| old.entry.mod_revision),
    }
}

/// Returns the object of the subresource. `None`: the object itself.
fn view(admission: &Admission<'_>, object: &dyn Object) -> Result<Option<BoxObject>, ApiError> {
    match admission.subresource() {
        Some(Subresource::Scale) => replicas::scale_of(object).map(|scale| Some(Box::new(scale) as BoxObject)),
        _ => Ok(None),
    }
}

fn old_view(admission: &Admission<'_>) -> Result<Option<BoxObject>, ApiError> {
    admission.old.as_ref().map_or(Ok(None), |old| view(admission, &*old.object))
}
