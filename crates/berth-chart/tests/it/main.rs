//! Tests of `berth-chart` from outside: `cargo test -p berth-chart --test it TOPIC::`.

mod attacks;
mod common;
mod kept;
