//! Tests of `berth-sim` from outside: `cargo test -p berth-sim --test it TOPIC::`.

mod autoscalers;
mod clock;
mod costs;
mod crashes;
mod cron_jobs;
mod daemon_sets;
mod ended;
mod job_crashes;
mod left_behind;
mod limits;
mod lives;
mod pod_replacement;
mod references;
mod replication_controllers;
mod rollouts;
mod stateful_set_crashes;
mod storms;
mod volumes;
