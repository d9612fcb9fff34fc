//! The process's use of its machine, under the metric names that all exporters share.

use crate::memory;
use jiff::Timestamp;
use prometheus::{
    Counter, Gauge,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use rustix::time::{ClockId, clock_gettime};
use std::fs;

/// Reads the values on each scrape.
pub(super) struct Process {
    cpu: Counter,
    memory: Gauge,
    files: Gauge,
    started: Gauge,
}

impl Process {
    /// The metrics of a process that has just started.
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let started = Gauge::new("process_start_time_seconds", "When the process began, in seconds since 1970")?;
        started.set(Timestamp::now().as_millisecond() as f64 / 1000.0);
        Ok(Self {
            cpu: Counter::new("process_cpu_seconds_total", "Processor time that the process has used, in seconds")?,
            memory: Gauge::new("process_resident_memory_bytes", "What the process has of the machine's memory")?,
            files: Gauge::new("process_open_fds", "Files and connections that the process has open")?,
            started,
        })
    }

    fn refresh(&self) {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let used = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
        self.cpu.inc_by((used - self.cpu.get()).max(0.0));
        if let Some(bytes) = memory::of_this_process() {
            self.memory.set(bytes as f64);
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            self.files.set(open.count() as f64);
        }
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        let of: [&dyn Collector; 4] = [&self.cpu, &self.memory, &self.files, &self.started];
        of.into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.refresh();
        let of: [&dyn Collector; 4] = [&self.cpu, &self.memory, &self.files, &self.started];
        of.into_iter().flat_map(Collector::collect).collect()
    }
}
