//! From client-side to server-side apply: what `kubectl apply` wrote into an annotation counts as owned by `kubectl`.

use crate::{Application, ApplyError, Conflicts, Force, Managers, Set, apply};
use serde_json::Value;

/// Where client-side apply keeps what it applied last.
pub const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The only manager that takes over from client-side apply.
const KUBECTL: &str = "kubectl";

/// As [`apply`], but where the manager is `kubectl`, fields that are still as the last client-side apply wanted them are no conflict.
///
/// # Errors
/// As [`apply`].
pub fn apply_as_kubectl(managers: &Managers, application: &Application<'_>, force: Force) -> Result<(Value, Managers), ApplyError> {
    match apply(managers, application, force) {
        Err(ApplyError::Conflicts(conflicts)) if application.writer.name == KUBECTL => {
            let Some(allowed) = last_applied(application) else { return Err(ApplyError::Conflicts(conflicts)) };
            let left: Vec<_> = conflicts.0.into_iter().filter(|conflict| !allowed.has(&conflict.path)).collect();
            if left.is_empty() { apply(managers, application, Force::Yes) } else { Err(ApplyError::Conflicts(Conflicts(left))) }
        }
        done => done,
    }
}

/// The fields that the last client-side apply named and that are still as it wanted them.
fn last_applied(application: &Application<'_>) -> Option<Set> {
    let Application { root, live, writer, .. } = *application;
    let text = live.get("metadata")?.get("annotations")?.get(LAST_APPLIED_ANNOTATION)?.as_str()?;
    let applied: Value = serde_json::from_str(text).ok()?;
    if applied.get("apiVersion")?.as_str()? != writer.api_version || root.validate(&applied).is_err() {
        return None;
    }
    let compared = root.compare(&applied, live);
    Some(root.fields(&applied).difference(&compared.modified).difference(&compared.added).difference(&compared.removed))
}
