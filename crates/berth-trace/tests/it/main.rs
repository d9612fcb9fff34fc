//! Tests of `berth-trace` from outside: `cargo test -p berth-trace --test it TOPIC::`.

mod allow_list;
mod common;
mod hostile;
