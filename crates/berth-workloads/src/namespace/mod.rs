//! The conditions of a terminating namespace about its remaining contents.

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::NamespaceCondition, apimachinery::pkg::apis::meta::v1::Time};
use std::collections::BTreeMap;

/// The remaining contents of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    /// Objects by `resource.group`. A core resource ends in the dot, as upstream prints it.
    pub objects: BTreeMap<String, usize>,
    /// The number of objects that each finalizer blocks.
    pub finalizers: BTreeMap<String, usize>,
    /// Why some objects could not be deleted.
    pub failures: Vec<String>,
}

impl Remaining {
    /// Whether nothing remains.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Whether pods remain.
    #[must_use]
    pub fn has_pods(&self) -> bool {
        self.objects.contains_key("pods.")
    }
}

/// The conditions of a terminating namespace. Conditions in `stored` about other topics remain. A transition time changes only with its
/// status.
///
/// Source: upstream `namespace/deletion/status_condition_utils.go`.
#[must_use]
pub fn conditions(stored: &[NamespaceCondition], remaining: &Remaining, now: Timestamp) -> Vec<NamespaceCondition> {
    let objects: Vec<_> = remaining.objects.iter().map(|(resource, count)| format!("{resource} has {count} resource instances")).collect();
    let finalizers: Vec<_> =
        remaining.finalizers.iter().map(|(finalizer, count)| format!("{finalizer} in {count} resource instances")).collect();
    let wanted = [
        condition("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered", None),
        condition("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed", None),
        condition(
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
            found(&remaining.failures, "ContentDeletionFailed", "Failed to delete all resource types, "),
        ),
        condition(
            "NamespaceContentRemaining",
            "ContentRemoved",
            "All content successfully removed",
            found(&objects, "SomeResourcesRemain", "Some resources are remaining: "),
        ),
        condition(
            "NamespaceFinalizersRemaining",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
            found(&finalizers, "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "),
        ),
    ];
    let others = stored.iter().filter(|stored| !wanted.iter().any(|wanted| wanted.type_ == stored.type_)).cloned();
    others.chain(wanted.iter().map(|wanted| since(stored, wanted, now))).collect()
}

/// Reason and message of a condition that is True. `None` if there are no items.
fn found(items: &[String], reason: &'static str, start: &str) -> Option<(&'static str, String)> {
    (!items.is_empty()).then(|| (reason, format!("{start}{}", items.join(", "))))
}

fn condition(type_: &str, reason: &'static str, message: &str, found: Option<(&'static str, String)>) -> NamespaceCondition {
    let status = if found.is_some() { "True" } else { "False" };
    let (reason, message) = found.unwrap_or((reason, message.to_owned()));
    NamespaceCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: None,
    }
}

fn since(stored: &[NamespaceCondition], wanted: &NamespaceCondition, now: Timestamp) -> NamespaceCondition {
    let old = stored.iter().find(|old| old.type_ == wanted.type_ && old.status == wanted.status);
    let last_transition_time = old.and_then(|old| old.last_transition_time.clone()).or(Some(Time(now)));
    NamespaceCondition { last_transition_time, ..wanted.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn text(conditions: &[NamespaceCondition], type_: &str) -> String {
        let condition = conditions.iter().find(|condition| condition.type_ == type_).expect("there");
        let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
        format!("{} {}: {}", condition.status, or_empty(&condition.reason), or_empty(&condition.message))
    }

    #[test]
    fn remaining_objects_are_reported_by_kind_and_finalizer() {
        let remaining = Remaining {
            objects: [("pods.".to_owned(), 2), ("deployments.apps".to_owned(), 1)].into(),
            finalizers: [("example.com/hold".to_owned(), 1)].into(),
            failures: Vec::new(),
        };
        let conditions = conditions(&[], &remaining, at(5));
        assert_eq!(
            text(&conditions, "NamespaceContentRemaining"),
            "True SomeResourcesRemain: Some resources are remaining: deployments.apps has 1 resource instances, pods. has 2 resource instances"
        );
        assert_eq!(
            text(&conditions, "NamespaceFinalizersRemaining"),
            "True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        );
        assert_eq!(
            text(&conditions, "NamespaceDeletionContentFailure"),
            "False ContentDeleted: All content successfully deleted, may be waiting on finalization"
        );
    }

    #[test]
    fn transition_times_move_with_the_status_and_other_conditions_stay() {
        let other = NamespaceCondition { type_: "Other".into(), status: "True".into(), ..NamespaceCondition::default() };
        let first = conditions(&[other], &Remaining::default(), at(5));
        let remaining = Remaining { objects: [("pods.".to_owned(), 2)].into(), ..Remaining::default() };
        let second = conditions(&first, &remaining, at(9));
        let times: Vec<_> = second.iter().map(|c| c.last_transition_time.as_ref().map(|time| time.0.as_second())).collect();
        assert_eq!(times, [None, Some(5), Some(5), Some(5), Some(9), Some(5)]);
        assert_eq!(conditions(&second, &remaining, at(20)), second, "planning again changes nothing");
    }

    #[test]
    fn failed_deletions_are_reported_with_all_reasons() {
        let failures = vec!["pods: no".to_owned(), "secrets: busy".to_owned()];
        let remaining = Remaining { objects: [("pods.".to_owned(), 1)].into(), failures, ..Remaining::default() };
        let told = text(&conditions(&[], &remaining, at(5)), "NamespaceDeletionContentFailure");
        assert_eq!(told, "True ContentDeletionFailed: Failed to delete all resource types, pods: no, secrets: busy");
        assert!(remaining.has_pods() && !remaining.is_empty());
        let none = Remaining { failures: remaining.failures, ..Remaining::default() };
        assert!(!none.has_pods() && none.is_empty());
    }
}
