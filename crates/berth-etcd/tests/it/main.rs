//! Tests of `berth-etcd` from outside: `cargo test -p berth-etcd --test it TOPIC::`.

mod client;
mod etcd;
mod members;
mod model;
mod users;
