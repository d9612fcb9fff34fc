//! Tests of `berth-dashboard` from outside: `cargo test -p berth-dashboard --test it TOPIC::`.

mod attacks;
mod browser;
mod common;
mod large;
mod pages;
