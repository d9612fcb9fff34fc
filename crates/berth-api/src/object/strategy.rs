//! The rules of a kind, for an object whose kind is known only at run time.

use super::{FinalizerRule, GenerationRule, Kind, NameRule, Object, Scaled};
use crate::{FeatureGates, FieldError, Subresource, deletion::Grace, normal::Normal, own_annotations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::borrow::Cow;

/// The rules of a kind that are constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectRules {
    /// [`Kind::NAME_RULE`].
    pub name_rule: NameRule,
    /// [`Kind::CHECKS_NEW_NAME_BASE`].
    pub checks_new_name_base: bool,
    /// [`Kind::GENERATION_RULE`].
    pub generation_rule: GenerationRule,
    /// [`Kind::REQUIRES_RESOURCE_VERSION`].
    pub requires_resource_version: bool,
    /// [`Kind::RETURNS_DELETED`].
    pub returns_deleted: bool,
    /// [`Kind::FINALIZER_RULE`].
    pub finalizer_rule: FinalizerRule,
}

impl Default for ObjectRules {
    /// Returns the rules of custom resources.
    fn default() -> Self {
        Self {
            name_rule: NameRule::Subdomain,
            checks_new_name_base: false,
            generation_rule: GenerationRule::Spec,
            requires_resource_version: true,
            returns_deleted: false,
            finalizer_rule: FinalizerRule::Plain,
        }
    }
}

/// The rules of an object's kind. A method with a body has the default for a kind without such a rule.
pub trait ObjectStrategy: Send + Sync {
    /// Returns the constant rules.
    fn rules(&self) -> &ObjectRules;
    /// [`Normal::normalize`].
    fn normalize(&mut self) {}
    /// [`Normal::normalize`], then [`Kind::set_defaults`].
    fn set_defaults(&mut self);
    /// [`Kind::prepare_create`].
    fn prepare_create(&mut self, gates: &FeatureGates);
    /// Runs before validation of an update through the object's endpoint or a subresource's: [`Kind::prepare_update`],
    /// [`Kind::prepare_status_update`], [`Kind::prepare_finalize`].
    fn prepare_update(&mut self, old: &dyn Object, subresource: Option<Subresource>, gates: &FeatureGates);
    /// [`Kind::validate`].
    fn validate(&self, gates: &FeatureGates) -> Vec<FieldError>;
    /// Validates an update through the object's endpoint or a subresource's, except for generic metadata:
    /// [`Kind::validate_update`], [`Kind::validate_status_update`], [`Kind::validate_finalize`].
    fn validate_update(&self, old: &dyn Object, subresource: Option<Subresource>, gates: &FeatureGates) -> Vec<FieldError>;
    /// [`Kind::warnings`].
    fn warnings(&self, old: Option<&dyn Object>) -> Vec<String>;
    /// [`Kind::spec_differs`].
    fn spec_differs(&self, old: &dyn Object) -> bool;
    /// [`Kind::stamp`].
    fn stamp(&mut self, _old: Option<&dyn Object>, _now: &Time) {}
    /// [`Kind::begin_deletion`].
    fn begin_deletion(&mut self, _now: &Time) {}
    /// [`Kind::has_own_finalizers`].
    fn has_own_finalizers(&self) -> bool {
        false
    }
    /// [`Kind::grace`].
    fn grace(&self, _seconds: Option<i64>) -> Grace {
        Grace::None
    }
    /// [`Kind::scale`].
    fn scale(&self) -> Option<Scaled<'_>> {
        None
    }
    /// [`Kind::set_replicas`].
    fn set_replicas(&mut self, _replicas: i32) {}
    /// [`Kind::selectable`].
    fn selectable(&self, _field: &str) -> Option<Cow<'_, str>> {
        None
    }
    /// [`Kind::with_status`].
    fn with_status(&self, _part: &dyn Object, _members: &[&str]) -> Option<Box<dyn Object>> {
        None
    }
}

fn same_kind<K: Kind>(object: &dyn Object) -> &K {
    object.downcast_ref().expect("the registry pairs objects of one resource only")
}

impl<K: Kind> ObjectStrategy for K {
    fn rules(&self) -> &ObjectRules {
        const {
            &ObjectRules {
                name_rule: K::NAME_RULE,
                checks_new_name_base: K::CHECKS_NEW_NAME_BASE,
                generation_rule: K::GENERATION_RULE,
                requires_resource_version: K::REQUIRES_RESOURCE_VERSION,
                returns_deleted: K::RETURNS_DELETED,
                finalizer_rule: K::FINALIZER_RULE,
            }
        }
    }

    fn normalize(&mut self) {
        Normal::normalize(self);
    }

    fn set_defaults(&mut self) {
        Normal::normalize(self);
        Kind::set_defaults(self);
    }

    fn prepare_create(&mut self, gates: &FeatureGates) {
        Kind::prepare_create(self, gates);
    }

    fn prepare_update(&mut self, old: &dyn Object, subresource: Option<Subresource>, gates: &FeatureGates) {
        let old = same_kind(old);
        match subresource {
            Some(Subresource::Status) => Kind::prepare_status_update(self, old, gates),
            Some(Subresource::Finalize) => Kind::prepare_finalize(self, old),
            _ => Kind::prepare_update(self, old, gates),
        }
    }

    fn validate(&self, gates: &FeatureGates) -> Vec<FieldError> {
        Kind::validate(self, gates)
    }

    fn validate_update(&self, old: &dyn Object, subresource: Option<Subresource>, gates: &FeatureGates) -> Vec<FieldError> {
        let old = same_kind(old);
        match subresource {
            Some(Subresource::Status) => Kind::validate_status_update(self, old, gates),
            Some(Subresource::Finalize) => Kind::validate_finalize(self),
            _ => Kind::validate_update(self, old, gates),
        }
    }

    fn warnings(&self, old: Option<&dyn Object>) -> Vec<String> {
        let old = old.map(same_kind);
        let mut warnings = Kind::warnings(self, old);
        if old.is_none_or(|old: &K| old.meta().annotations != self.meta().annotations || Kind::spec_differs(self, old)) {
            warnings.extend(own_annotations::of_object(K::KIND, self.meta()));
        }
        warnings
    }

    fn spec_differs(&self, old: &dyn Object) -> bool {
        Kind::spec_differs(self, same_kind(old))
    }

    fn stamp(&mut self, old: Option<&dyn Object>, now: &Time) {
        Kind::stamp(self, old.map(same_kind), now);
    }

    fn begin_deletion(&mut self, now: &Time) {
        Kind::begin_deletion(self, now);
    }

    fn has_own_finalizers(&self) -> bool {
        Kind::has_own_finalizers(self)
    }

    fn grace(&self, seconds: Option<i64>) -> Grace {
        Kind::grace(self, seconds)
    }

    fn scale(&self) -> Option<Scaled<'_>> {
        Kind::scale(self)
    }

    fn set_replicas(&mut self, replicas: i32) {
        Kind::set_replicas(self, replicas);
    }

    fn selectable(&self, field: &str) -> Option<Cow<'_, str>> {
        Kind::selectable(self, field)
    }

    fn with_status(&self, part: &dyn Object, members: &[&str]) -> Option<Box<dyn Object>> {
        Some(Box::new(Kind::with_status(self, part.downcast_ref()?, members)?))
    }
}
