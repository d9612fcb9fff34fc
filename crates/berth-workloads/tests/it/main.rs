//! Tests of `berth-workloads` from outside: `cargo test -p berth-workloads --test it TOPIC::`.

mod analyses;
mod cluster_model;
mod cron_jobs;
mod jobs;
mod plans;
mod records;
mod rollbacks;
mod stateful_sets;
mod steps;
mod vectors;
mod way_back;
