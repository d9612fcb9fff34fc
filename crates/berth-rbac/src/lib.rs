//! Role-based access control, decided without IO: who asks ([`User`]), for what ([`Attributes`]), and whether roles and bindings grant it.
//!
//! Start with [`Policy`], an index of roles and bindings. Their owner keeps it up to date with one [`Policy::put_role`] or [`Policy::put_binding`] per
//! change. Nothing here knows where they are stored, and nothing here refuses: [`Attributes::refusal`] words refusals, and the callers return them.
//!
//! Everything is additive: no rule removes a permission. The group [`MASTERS`] is exempt from all this.

mod aggregation;
mod attributes;
pub mod bootstrap;
mod policy;
mod rule;
mod user;

pub use aggregation::{aggregated_rules, stale_aggregates};
pub use attributes::{Attributes, PathAttributes, ResourceAttributes};
pub use policy::{Binding, Grant, Policy, RoleName, Scope};
pub use rule::{allows, combinations, compact, describe, everything, uncovered};
pub use user::{AUTHENTICATED, MASTERS, SERVICE_ACCOUNTS, UNAUTHENTICATED, User, service_account_name};

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
