//! Custom resource definitions: kinds that clients define at run time.
//!
//! Start with [`definition_of`], which makes a [`Definition`](crate::Definition) of such an object. [`plan_status`] decides its status: the names that
//! the server accepts, and the conditions. Both read plain JSON. The kind of these objects is
//! [`custom_resource_definition`](crate::built_in::custom_resource_definition).

pub(crate) mod approval;
mod condition;
mod deletion;
mod names;
pub(crate) mod normal;
mod read;
mod status;
pub(crate) mod validate;

pub use condition::CustomCondition;
pub use deletion::begin_deletion;
pub use names::{NamePlan, TakenNames, names_of, plan_names};
pub use read::definition_of;
pub use status::{CLEANUP_FINALIZER, Termination, is_established, is_terminating, plan_status, with_condition};

#[cfg(test)]
mod tests;
