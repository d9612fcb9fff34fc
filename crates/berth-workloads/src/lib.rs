//! What each controller decides: observed objects, gates and time in; a [`Plan`] out. No IO, no clock, no randomness, no async.

pub mod plan;

pub use plan::{Action, Plan, Stage, Wait};
