//! Rollback requested by an annotation (deprecated upstream; `kubectl rollout undo` patches the template itself).

use super::{
    annotations::{self, Annotations, ROLLBACK_TO},
    draft::event,
    observe::Observed,
};
use crate::{
    hash::{same_template, without_hash},
    plan::{Action, EventRecord, Outcome, Plan, Reason, Severity, Stage, Urgency, merge_patch},
    view::{DeploymentView, ReplicaSetView},
};
use berth_identity::RolloutRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde::Serialize;
use serde_json::{Value, json};

/// The requested revision; 0 is the one before the present. `None` if there is no request, or it is not a number.
pub(super) fn requested(deployment: &DeploymentView) -> Option<RolloutRevision> {
    deployment.annotations.get(ROLLBACK_TO)?.parse().ok()
}

/// One write: the revision's template and annotations if it is found and differs, and in any case the removal of the request.
pub(super) fn plan(observed: &Observed<'_>, requested: RolloutRevision) -> Plan {
    let deployment = observed.deployment();
    let (template, annotations, event) = match find_revision(&observed.sets, requested) {
        Err(missing) => {
            let message = match missing {
                NotFound::History => "Unable to find last revision.",
                NotFound::Revision => "Unable to find the revision to rollback to.",
            };
            unchanged(deployment, "DeploymentRollbackRevisionNotFound", message.to_owned())
        }
        Ok(set) if same_template(&set.template, &deployment.spec.template) => {
            let message = format!("The rollback revision contains the same template as current deployment \"{}\"", deployment.meta.name);
            unchanged(deployment, "DeploymentRollbackTemplateUnchanged", message)
        }
        Ok(set) => rolled_back(observed, set),
    };
    let Some(patch) = patch(deployment, &template, &annotations) else { return Plan::default() };
    let action = Action::Patch {
        target: deployment.reference(),
        subresource: None,
        patch,
        urgency: Urgency::Now,
        reason: Reason::Rollback { revision: requested },
        events: Outcome { success: Some(event), failure: None },
    };
    Plan { stages: vec![Stage { actions: vec![action] }], ..Plan::default() }
}

#[derive(PartialEq, Serialize)]
struct Written<'a> {
    template: &'a PodTemplateSpec,
    annotations: &'a Annotations,
}

/// The merge patch that sets this template and these annotations. `None` if the Deployment has them.
pub(super) fn patch(deployment: &DeploymentView, template: &PodTemplateSpec, annotations: &Annotations) -> Option<Value> {
    let stored = Written { template: &deployment.spec.template, annotations: &deployment.annotations };
    let mut patch = merge_patch(&stored, &Written { template, annotations })?;
    let mut whole = json!({"metadata": {"annotations": patch["annotations"].take()}});
    if !patch["template"].is_null() {
        whole["spec"] = json!({"template": patch["template"].take()});
    }
    Some(whole)
}

/// Template, annotations and event.
type Rewrite = (PodTemplateSpec, Annotations, EventRecord);

fn unchanged(deployment: &DeploymentView, reason: &'static str, message: String) -> Rewrite {
    let mut annotations = deployment.annotations.clone();
    annotations.remove(ROLLBACK_TO);
    (deployment.spec.template.clone(), annotations, event(deployment, Severity::Warning, reason, message))
}

fn rolled_back(observed: &Observed<'_>, set: &ReplicaSetView) -> Rewrite {
    let deployment = observed.deployment();
    let mut annotations = annotations::after_rollback(&deployment.annotations, &set.annotations, observed.before_scale);
    annotations.remove(ROLLBACK_TO);
    let revision = annotations::revision(&set.annotations).unwrap_or_default();
    let message = format!("Rolled back deployment \"{}\" to revision {revision}", deployment.meta.name);
    (without_hash(&set.template), annotations, event(deployment, Severity::Normal, "DeploymentRollback", message))
}

/// Why there is no target for a rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// There is no revision before the present one.
    History,
    /// No ReplicaSet has the revision.
    Revision,
}

/// The ReplicaSet of a revision. For revision 0, the one with the second highest number.
///
/// # Errors
/// There is none.
pub fn find_revision<'a>(sets: &[&'a ReplicaSetView], requested: RolloutRevision) -> Result<&'a ReplicaSetView, NotFound> {
    let revision = |set: &&ReplicaSetView| annotations::revision(&set.annotations);
    let wanted = if requested == RolloutRevision::UNSET {
        let mut revisions: Vec<_> = sets.iter().filter_map(revision).collect();
        revisions.sort_unstable();
        revisions.dedup();
        revisions.iter().rev().nth(1).copied().ok_or(NotFound::History)?
    } else {
        requested
    };
    sets.iter().copied().find(|set| revision(set) == Some(wanted)).ok_or(NotFound::Revision)
}
