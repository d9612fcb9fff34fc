//! Tests of `berth-apiserver` from outside: `cargo test -p berth-apiserver --test it TOPIC::`.

mod access;
mod attacks_on_bodies;
mod attacks_on_identity;
mod attacks_on_time;
mod attacks_on_transport;
mod common;
mod credentials;
mod custom;
mod decoding;
mod documented;
mod http2;
mod kinds;
mod logging;
mod overload;
mod part;
mod roles;
mod server;
mod simulated;
mod versions;
