//! What overload looks like from outside, under upstream's names.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// One schema serves all that are not exempt.
const SCHEMA: &str = "global-default";

/// The families of metrics.
#[derive(Clone, Debug)]
pub(crate) struct FlowCollectors {
    rejected: IntCounterVec,
    waiting: IntGaugeVec,
    executing: IntGaugeVec,
}

/// Why a request was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejected {
    /// Its user has too many waiting.
    QueueFull,
    /// It waited for too long.
    TimeOut,
}

/// The metrics of one level.
#[derive(Debug)]
pub(super) struct FlowMetrics {
    /// Requests that wait.
    pub(super) waiting: IntGauge,
    /// Requests that hold seats.
    pub(super) executing: IntGauge,
    queue_full: IntCounter,
    time_out: IntCounter,
}

impl FlowCollectors {
    /// Families without members.
    ///
    /// # Errors
    /// None with names that are constants.
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

    /// Shows them.
    ///
    /// # Errors
    /// A metric of one of these names is registered already.
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
