//! Tests of `berth-plan` from outside: `cargo test -p berth-plan --test it TOPIC::`.

mod common;
mod forecast;
mod foretold;
mod held;
mod picture;
mod replay;
mod rules;
mod supposed;
mod told;
