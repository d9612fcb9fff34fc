//! The metrics of flow control, with upstream's names.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// The schema of all requests that are not exempt.
const SCHEMA: &str = "global-default";

/// The metric families.
#[derive(Clone, Debug)]
pub(crate) struct FlowCollectors {
    rejected: IntCounterVec,
    waiting: IntGaugeVec,
    executing: IntGaugeVec,
}

/// Why a request was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejected {
    /// Its user has too many waiting requests.
    QueueFull,
    /// It waited too long.
    TimeOut,
}

/// The metrics of one level.
#[derive(Debug)]
pub(super) struct FlowMetrics {
    /// Waiting requests.
    pub(super) waiting: IntGauge,
    /// Requests with seats.
    pub(super) executing: IntGauge,
    queue_full: IntCounter,
    time_out: IntCounter,
}

impl FlowCollectors {
    /// Creates the families without series.
    ///
    /// # Errors
    /// Never, because the names are constants.
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let labels = ["flow_schema", "priority_level"];
        let rejected = Opts::new("apiserver_flowcontrol_rejected_requests_total", "Requests answered with 429.");
        let waiting = Opts::new("apiserver_flowcontrol_current_inqueue_requests", "Requests that wait for a seat.");
        let executing = Opts::new("apiserver_flowcontrol_current_executing_requests", "Requests that hold seats.");
        Ok(Self {
            rejected: IntCounterVec::new(rejected, &["flow_schema", "priority_level", "reason"])?,
            waiting: IntGaugeVec::new(waiting, &labels)?,
            executing: IntGaugeVec::new(executing, &labels)?,
        })
    }

    /// Registers the families.
    ///
    /// # Errors
    /// A metric with one of these names exists.
    pub(crate) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.rejected.clone()))?;
        registry.register(Box::new(self.waiting.clone()))?;
        registry.register(Box::new(self.executing.clone()))
    }

    pub(super) fn of(&self, level: &str) -> FlowMetrics {
        let rejected = |why: &str| self.rejected.with_label_values(&[SCHEMA, level, why]);
        FlowMetrics {
            waiting: self.waiting.with_label_values(&[SCHEMA, level]),
            executing: self.executing.with_label_values(&[SCHEMA, level]),
            queue_full: rejected("queue-full"),
            time_out: rejected("time-out"),
        }
    }
}

impl FlowMetrics {
    pub(super) fn reject(&self, why: Rejected) {
        match why {
            Rejected::QueueFull => self.queue_full.inc(),
            Rejected::TimeOut => self.time_out.inc(),
        }
    }
}
