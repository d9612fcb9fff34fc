//! Kinds that clients only create. The server responds and stores nothing.

use crate::resource::{
    AuditedBody, Printed, Resource,
    merge_rules::{MergeRule, atomic},
};
use berth_api::k8s_openapi::api::{
    authentication::v1::{SelfSubjectReview, TokenReview},
    authorization::v1::{LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview},
};

/// Returns their table entries.
pub(in crate::resource) fn resources() -> [Resource; 6] {
    let all = [
        Resource::cluster::<SelfSubjectReview>().merges(OF_AUTHENTICATION),
        Resource::cluster::<TokenReview>().audited(AuditedBody::Never),
        Resource::namespaced::<LocalSubjectAccessReview>().merges(OF_AUTHORIZATION),
        Resource::cluster::<SelfSubjectAccessReview>(),
        Resource::cluster::<SelfSubjectRulesReview>(),
        Resource::cluster::<SubjectAccessReview>(),
    ];
    all.map(Resource::review)
}

const OF_AUTHENTICATION: &[MergeRule] =
    &[atomic("TokenReviewSpec", "audiences"), atomic("TokenReviewStatus", "audiences"), atomic("UserInfo", "groups")];

const OF_AUTHORIZATION: &[MergeRule] = &[
    atomic("FieldSelectorAttributes", "requirements"),
    atomic("FieldSelectorRequirement", "values"),
    atomic("LabelSelectorAttributes", "requirements"),
    atomic("NonResourceRule", "nonResourceURLs"),
    atomic("NonResourceRule", "verbs"),
    atomic("ResourceRule", "apiGroups"),
    atomic("ResourceRule", "resourceNames"),
    atomic("ResourceRule", "resources"),
    atomic("ResourceRule", "verbs"),
    atomic("SubjectAccessReviewSpec", "groups"),
    atomic("SubjectRulesReviewStatus", "nonResourceRules"),
    atomic("SubjectRulesReviewStatus", "resourceRules"),
];

// Their tables have a name and a time.
impl Printed for LocalSubjectAccessReview {}
impl Printed for SelfSubjectAccessReview {}
impl Printed for SelfSubjectReview {}
impl Printed for SelfSubjectRulesReview {}
impl Printed for SubjectAccessReview {}
impl Printed for TokenReview {}
