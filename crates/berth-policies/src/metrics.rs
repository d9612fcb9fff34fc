//! Upstream's metrics of policies.

use berth_admission::{ErrorType, Policy, PolicyBinding};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};
use std::time::Duration;

/// Upstream's buckets of durations, in seconds.
const BUCKETS: &[f64] = &[0.000_000_5, 0.001, 0.01, 0.1, 1.0];

/// What is counted of evaluations.
pub(crate) struct Metrics {
    validations: Series,
    mutations: Series,
}

struct Series {
    total: IntCounterVec,
    durations: HistogramVec,
}

impl Series {
    fn new(prefix: &str, labels: &[&str]) -> Self {
        let name = |suffix: &str| format!("apiserver_{prefix}_admission_policy_{suffix}");
        let total = Opts::new(name("check_total"), "Evaluations of policies, by policy and binding");
        let durations = HistogramOpts::new(name("check_duration_seconds"), "Duration of evaluations of policies, by policy and binding");
        Self {
            total: IntCounterVec::new(total, labels).expect("the names are constants"),
            durations: HistogramVec::new(durations.buckets(BUCKETS.to_vec()), labels).expect("the names are constants"),
        }
    }

    fn record(&self, values: &[&str], took: Duration) {
        self.total.with_label_values(values).inc();
        self.durations.with_label_values(values).observe(took.as_secs_f64());
    }

    fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.total.clone()))?;
        registry.register(Box::new(self.durations.clone()))
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self {
            validations: Series::new("validating", &["enforcement_action", "error_type", "policy", "policy_binding"]),
            mutations: Series::new("mutating", &["error_type", "policy", "policy_binding"]),
        }
    }

    pub(crate) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        self.validations.register(registry)?;
        self.mutations.register(registry)
    }

    /// Records a finding of a validating policy. `action`: `deny`, `warn`, `audit` or `allow`.
    pub(crate) fn validated(&self, action: &str, error: ErrorType, policy: &Policy, binding: &PolicyBinding, took: Duration) {
        self.validations.record(&[action, error.as_str(), &policy.name, &binding.name], took);
    }

    /// Records a mutation.
    pub(crate) fn mutated(&self, error: ErrorType, policy: &Policy, binding: &PolicyBinding, took: Duration) {
        self.mutations.record(&[error.as_str(), &policy.name, &binding.name], took);
    }
}
