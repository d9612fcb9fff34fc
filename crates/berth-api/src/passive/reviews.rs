//! Reviews of identities and permissions. They are computed and not stored, so they have no rules here.

use crate::Kind;
use k8s_openapi::api::{
    authentication::v1::{SelfSubjectReview, TokenReview},
    authorization::v1::{LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview},
};

impl Kind for LocalSubjectAccessReview {}
impl Kind for SelfSubjectAccessReview {}
impl Kind for SelfSubjectReview {}
impl Kind for SelfSubjectRulesReview {}
impl Kind for SubjectAccessReview {}
impl Kind for TokenReview {}
