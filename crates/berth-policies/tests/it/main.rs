//! Tests of `berth-policies` over a registry: `cargo test -p berth-policies --test it TOPIC::`. Verdicts and texts are those
//! of a real 1.36.2.

mod cluster;
mod mutating;
mod validating;
