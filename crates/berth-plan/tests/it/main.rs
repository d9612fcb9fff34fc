//! Tests of `berth-plan` from outside: `cargo test -p berth-plan --test it TOPIC::`.

mod accuracy;
mod autoscaled;
mod common;
mod extended;
mod forecast;
mod held;
mod output;
mod picture;
mod replay;
mod rules;
mod supposed;
