//! How fast a real `berth up` is, over HTTPS, on this machine: a table for people, JSON for programs. Run by hand: `cargo xtask bench`.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark stops at the first surprise and prints its results")]

mod client;
mod scenarios;
mod server;
mod stateful_sets;

use serde_json::json;
use std::time::Duration;

/// One figure of one scenario.
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) name: String,
    /// The middle of the runs.
    pub(crate) median: f64,
    /// The smallest.
    pub(crate) min: f64,
    /// The largest.
    pub(crate) max: f64,
    /// `ms`, `1/s`, `MiB`, `s`.
    pub(crate) unit: &'static str,
}

impl Figure {
    /// The spread of several runs of the same.
    pub(crate) fn new(name: &str, unit: &'static str, mut runs: Vec<f64>) -> Self {
        runs.sort_by(f64::total_cmp);
        Self { name: name.to_owned(), unit, median: runs[runs.len() / 2], min: runs[0], max: runs[runs.len() - 1] }
    }
}

fn main() {
    let only: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut figures = Vec::new();
    for (name, scenario) in scenarios::all() {
        if only.is_empty() || only.iter().any(|wanted| wanted == name) {
            eprint(&format!("{name} …"));
            figures.extend(runtime.block_on(scenario()));
        }
    }
    println!("\n{:58} {:>10} {:>10} {:>10}", "", "median", "min", "max");
    for figure in &figures {
        println!("{:58} {:>10} {:>10} {:>10}  {}", figure.name, shown(figure.median), shown(figure.min), shown(figure.max), figure.unit);
    }
    let figures: Vec<_> = figures
        .iter()
        .map(|figure| json!({"name": figure.name, "unit": figure.unit, "median": figure.median, "min": figure.min, "max": figure.max}))
        .collect();
    println!("\n{}", json!({"cores": std::thread::available_parallelism().unwrap().get(), "figures": figures}));
}

#[expect(clippy::print_stderr, reason = "progress, apart from the results")]
fn eprint(line: &str) {
    eprintln!("{line}");
}

fn shown(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// Seconds, as a figure.
pub(crate) fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
