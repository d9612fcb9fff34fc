//! Upstream's metrics of webhooks.

use berth_admission::{ConditionsResult, ConversionFault, Matching};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};
use std::time::Duration;

/// Upstream's buckets of the duration of a call, in seconds.
const BUCKETS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

/// Upstream's buckets of the duration of an evaluation of match conditions, in seconds.
const CONDITION_BUCKETS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];

/// Upstream's buckets of the duration of a conversion, in seconds.
const CONVERSION_BUCKETS: &[f64] = &[0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// The label of match conditions that are those of webhooks.
const WEBHOOK: &str = "webhook";

/// What is counted of calls.
pub(crate) struct Metrics {
    durations: HistogramVec,
    requests: IntCounterVec,
    rejections: IntCounterVec,
    fail_open: IntCounterVec,
    condition_durations: HistogramVec,
    condition_errors: IntCounterVec,
    exclusions: IntCounterVec,
    conversions: IntCounterVec,
    conversion_durations: HistogramVec,
}

/// What a call of a webhook was.
#[derive(Clone, Copy)]
pub(crate) struct Called<'a> {
    pub(crate) name: &'a str,
    /// `admit` or `validating`.
    pub(crate) kind: &'static str,
    pub(crate) operation: &'static str,
}

/// How a call ended. The codes are those of HTTP.
#[derive(Clone, Copy)]
pub(crate) enum Outcome {
    /// The webhook allowed the request.
    Allowed,
    /// The webhook denied the request.
    Denied(u16),
    /// The webhook could not be called, or its answer could not be used: the request is rejected.
    Failed(u16),
    /// The same, but the failure policy ignores it.
    Ignored(u16),
    /// Its patch could not be applied: the request is rejected.
    Unusable,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let counter =
            |name: &str, help: &str, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels).expect("the names are constants");
        let histogram = |name: &str, help: &str, labels: &[&str], buckets: &[f64]| {
            HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels).expect("the names are constants")
        };
        let of_conditions = ["kind", "name", "operation", "type"];
        Self {
            durations: histogram(
                "apiserver_admission_webhook_admission_duration_seconds",
                "Duration of calls of webhooks",
                &["name", "operation", "rejected", "type"],
                BUCKETS,
            ),
            requests: counter(
                "apiserver_admission_webhook_request_total",
                "Calls of webhooks, by the code of the verdict",
                &["code", "name", "operation", "rejected", "type"],
            ),
            rejections: counter(
                "apiserver_admission_webhook_rejection_count",
                "Requests that webhooks rejected",
                &["error_type", "name", "operation", "rejection_code", "type"],
            ),
            fail_open: counter(
                "apiserver_admission_webhook_fail_open_count",
                "Failed calls that were ignored, because of the failure policy",
                &["name", "type"],
            ),
            condition_durations: histogram(
                "apiserver_admission_match_condition_evaluation_seconds",
                "Duration of evaluations of match conditions",
                &of_conditions,
                CONDITION_BUCKETS,
            ),
            condition_errors: counter(
                "apiserver_admission_match_condition_evaluation_errors_total",
                "Match conditions that could not be evaluated",
                &of_conditions,
            ),
            exclusions: counter(
                "apiserver_admission_match_condition_exclusions_total",
                "Calls that match conditions excluded",
                &of_conditions,
            ),
            conversions: counter("apiserver_conversion_webhook_request_total", "Calls of conversion webhooks", &["failure_type", "result"]),
            conversion_durations: histogram(
                "apiserver_conversion_webhook_duration_seconds",
                "Duration of calls of conversion webhooks",
                &["failure_type", "result"],
                CONVERSION_BUCKETS,
            ),
        }
    }

    pub(crate) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.durations.clone()))?;
        registry.register(Box::new(self.requests.clone()))?;
        registry.register(Box::new(self.rejections.clone()))?;
        registry.register(Box::new(self.fail_open.clone()))?;
        registry.register(Box::new(self.condition_durations.clone()))?;
        registry.register(Box::new(self.condition_errors.clone()))?;
        registry.register(Box::new(self.exclusions.clone()))?;
        registry.register(Box::new(self.conversions.clone()))?;
        registry.register(Box::new(self.conversion_durations.clone()))
    }

    /// Records a call.
    pub(crate) fn called(&self, called: Called<'_>, took: Duration, outcome: Outcome) {
        let Called { name, kind, operation } = called;
        let (code, rejection) = match outcome {
            Outcome::Allowed => (200, None),
            Outcome::Denied(code) => (code, Some("no_error")),
            Outcome::Failed(code) => (code, Some("calling_webhook_error")),
            Outcome::Ignored(code) => (code, None),
            Outcome::Unusable => (0, Some("apiserver_internal_error")),
        };
        let rejected = if rejection.is_some() { "true" } else { "false" };
        let code = code.to_string();
        self.durations.with_label_values(&[name, operation, rejected, kind]).observe(took.as_secs_f64());
        self.requests.with_label_values(&[&code, name, operation, rejected, kind]).inc();
        if let Some(error) = rejection {
            self.rejections.with_label_values(&[error, name, operation, &code, kind]).inc();
        }
        if matches!(outcome, Outcome::Ignored(_)) {
            self.fail_open.with_label_values(&[name, kind]).inc();
        }
    }

    /// Records a call of a conversion webhook.
    pub(crate) fn converted(&self, took: Duration, fault: Option<&ConversionFault>) {
        let labels = fault.map_or(["", "success"], |fault| [fault.label(), "failure"]);
        self.conversions.with_label_values(&labels).inc();
        self.conversion_durations.with_label_values(&labels).observe(took.as_secs_f64());
    }

    /// Records an evaluation of match conditions.
    pub(crate) fn evaluated(&self, called: Called<'_>, took: Duration, result: &ConditionsResult) {
        let Called { name, kind, operation } = called;
        self.condition_durations.with_label_values(&[WEBHOOK, name, operation, kind]).observe(took.as_secs_f64());
        if 0 < result.failed {
            let failed = u64::try_from(result.failed).unwrap_or(u64::MAX);
            self.condition_errors.with_label_values(&[WEBHOOK, name, operation, kind]).inc_by(failed);
        }
        if result.matching == Matching::No {
            // Upstream has another name of this kind here.
            let kind = if kind == "validating" { "validate" } else { kind };
            self.exclusions.with_label_values(&[WEBHOOK, name, operation, kind]).inc();
        }
    }
}
