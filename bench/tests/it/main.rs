//! Tests of `bench` from outside: `cargo test -p bench --test it TOPIC::`.

mod torture;
