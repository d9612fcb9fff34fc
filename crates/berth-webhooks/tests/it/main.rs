//! Tests of `berth-webhooks` with a webhook that speaks HTTPS: `cargo test -p berth-webhooks --test it TOPIC::`.

mod admission;
mod cluster;
mod conditions;
mod conversion;
mod harm;
mod metrics;
mod real;
mod server;
mod services;
