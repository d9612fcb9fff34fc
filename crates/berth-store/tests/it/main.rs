//! Tests of `berth-store` from outside: `cargo test -p berth-store --test it TOPIC::`.

mod crash;
#[path = "../../../berth-etcd/tests/it/etcd/mod.rs"]
mod etcd;
mod restarts;
mod suite;
mod util;

// The etcds beside the suite use them.
use berth_etcd as _;
use berth_testing as _;
use rcgen as _;
use serde_json as _;
use tokio as _;
