//! What a plan changes.

use crate::{
    plan::{EventRecord, Reason, Wait},
    view::PodView,
};
use jiff::Timestamp;

/// Pods to create and to delete.
#[derive(Default)]
pub(super) struct Changes<'a> {
    /// The nodes that get a pod, and why.
    pub(super) create_on: Vec<(&'a str, Reason)>,
    pub(super) delete: Vec<(&'a PodView, Reason)>,
    pub(super) events: Vec<EventRecord>,
    pub(super) waits: Vec<Wait>,
    pub(super) requeue_at: Option<Timestamp>,
}

impl Changes<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.create_on.is_empty() && self.delete.is_empty()
    }

    pub(super) fn requeue(&mut self, at: Timestamp) {
        self.requeue_at = Some(self.requeue_at.map_or(at, |other| other.min(at)));
    }
}
