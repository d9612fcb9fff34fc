//! Writes the condition that berth runs no autoscaler to HorizontalPodAutoscalers.

use crate::{cache::Cache, plan_loop::Planner, worker::Queue};
use berth_identity::ObjectKey;
use berth_workloads::{
    Plan,
    autoscaler::{self, AutoscalerView},
    resources::AUTOSCALERS,
    view::View,
};
use jiff::Timestamp;
use std::sync::Arc;

/// All autoscalers.
pub type AutoscalerCache = Cache<AutoscalerView>;

/// Plans their conditions.
#[derive(Clone)]
pub struct AutoscalerPlanner(pub Arc<AutoscalerCache>);

impl Default for AutoscalerPlanner {
    fn default() -> Self {
        Self(Arc::new(AutoscalerCache::new(AUTOSCALERS)))
    }
}

impl AutoscalerPlanner {
    /// Adds the keys of changed autoscalers to `queue`. Call it before the cache starts.
    pub fn wake(&self, queue: &Queue<ObjectKey>) {
        let queue = queue.clone();
        self.0.on_change(move |delta| delta.new.iter().for_each(|autoscaler| queue.add(autoscaler.key())));
    }
}

impl Planner for AutoscalerPlanner {
    fn plan(&self, key: &ObjectKey, _last_error: Option<&str>, now: Timestamp) -> Option<Plan> {
        Some(autoscaler::plan(&*self.0.get(key)?, now))
    }
}
