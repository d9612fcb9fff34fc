//! The Deployment controller's decisions: how many pods of which template, and how one template gives way to the next.

mod analysing;
pub mod annotations;
mod auto_rollback;
mod complete;
mod draft;
pub mod history;
pub mod limits;
pub mod observe;
pub mod partial_scale;
mod plan;
pub mod progress;
mod records;
pub mod recreate;
mod revision;
pub mod rollback;
pub mod rolling;
pub mod scale;
mod scaling;
pub mod status;
mod steering;
mod stepping;
pub mod steps;
mod work;

pub use draft::wait_event;
pub use plan::plan;

use crate::{
    analysis::Asked,
    counts::SetPods,
    view::{DeploymentView, ReplicaSetView},
};
use berth_api::FeatureGates;
use jiff::Timestamp;

/// What the plan of one Deployment is made from: one consistent reading of the caches, in which every own write is already visible.
pub struct State<'a> {
    /// The Deployment.
    pub deployment: &'a DeploymentView,
    /// The ReplicaSets of its namespace (and group) that it controls, and those that nobody controls and that its selector matches. Any order.
    pub sets: Vec<&'a ReplicaSetView>,
    /// Whether the namespace has a ReplicaSet of this name, whoever controls it: then a new one of another template needs another name.
    pub name_taken: &'a dyn Fn(&str) -> bool,
    /// The pods of the sets.
    pub pods: &'a dyn SetPods,
    /// What went wrong when the plan before was carried out; `None` if nothing did. If it was the creation of a ReplicaSet, it becomes part of
    /// the condition `Progressing`.
    pub last_error: Option<&'a str>,
    /// What an analysis that an earlier plan wanted has come to so far; `None` where nobody asks, as where somebody else only looks.
    pub asked: Option<&'a Asked>,
    /// The controllers' feature gates.
    pub gates: &'a FeatureGates,
    /// The time of this reading.
    pub now: Timestamp,
}

#[cfg(test)]
mod tests;
