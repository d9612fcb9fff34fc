//! Tests of `berth-node` from outside: `cargo test -p berth-node --test it TOPIC::`.

mod pod_costs;
