//! Tests of `berth-remote` from outside: `cargo test -p berth-remote --test it TOPIC::`.

mod cluster;
mod common;
