//! Tests of `berth-analysis` from outside: `cargo test -p berth-analysis --test it TOPIC::`.

mod providers;
