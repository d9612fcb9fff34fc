//! The approval of definitions in the groups of Kubernetes itself.
//!
//! Source: upstream `apiextensions-apiserver/pkg/apihelpers/helpers.go`.

use super::condition::CustomCondition;
use serde_json::Value;

/// The annotation that names the approval.
pub(crate) const APPROVED: &str = "api-approved.kubernetes.io";
const PROTECTED_SUFFIXES: [&str; 2] = ["k8s.io", "kubernetes.io"];
const KIND: &str = "KubernetesAPIApprovalPolicyConformant";

/// The approval of a definition in a protected group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Approval {
    /// The annotation has the address of the approval.
    Approved(String),
    /// The annotation states that it is not approved.
    Bypassed(String),
    /// There is no annotation.
    Missing,
    /// The annotation is neither.
    Invalid(String),
}

/// Whether definitions of a group require an approval.
pub(crate) fn is_protected(group: &str) -> bool {
    PROTECTED_SUFFIXES.iter().any(|suffix| group.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// The approval in these annotations.
pub(crate) fn approval(annotation: Option<&str>) -> Approval {
    match annotation {
        None | Some("") => Approval::Missing,
        Some(text) if text.starts_with("unapproved") => Approval::Bypassed(text.to_owned()),
        Some(text) if is_address(text) => Approval::Approved(text.to_owned()),
        Some(text) => Approval::Invalid(text.to_owned()),
    }
}

/// An address with a scheme and a host.
fn is_address(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.split('/').next().unwrap_or_default().is_empty())
}

/// The text for what is not an approval.
pub(crate) fn problem(approval: &Approval) -> Option<String> {
    match approval {
        Approval::Approved(_) => None,
        Approval::Bypassed(text) => Some(format!("not approved: {text:?}")),
        Approval::Missing => Some(format!(
            "protected groups must have approval annotation {APPROVED:?}, see https://github.com/kubernetes/enhancements/pull/1111"
        )),
        Approval::Invalid(_) => Some(format!(
            "protected groups must have approval annotation {APPROVED:?} with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111"
        )),
    }
}

/// The condition of a definition. `None`: its group is not protected.
pub(super) fn condition(group: &str, annotations: &Value) -> Option<CustomCondition> {
    let approval = is_protected(group).then(|| approval(annotations[APPROVED].as_str()))?;
    let (status, reason, message) = match &approval {
        Approval::Approved(address) => ("True", "ApprovedAnnotation", format!("approved in {address}")),
        Approval::Bypassed(_) => ("False", "UnapprovedAnnotation", problem(&approval).unwrap_or_default()),
        Approval::Missing => ("False", "MissingAnnotation", problem(&approval).unwrap_or_default()),
        Approval::Invalid(_) => ("False", "InvalidAnnotation", problem(&approval).unwrap_or_default()),
    };
    Some(CustomCondition::of(KIND, status, reason, &message))
}
