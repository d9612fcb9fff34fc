//! Tests of `berth`, mostly of the program: `cargo test -p berth --test it TOPIC::`.

mod analysis;
mod apart;
mod causes;
mod certificates;
mod common;
mod crash;
mod custom;
mod cut_off;
mod dashboard;
mod docs;
mod ends;
#[path = "../../../berth-etcd/tests/it/etcd/mod.rs"]
mod etcd;
mod full;
mod helm;
mod history;
mod interrupted;
mod javascript;
mod kube_client;
mod kube_controller;
mod kubectl;
mod linear;
mod manifests;
mod monitoring;
mod nodes;
mod openapi;
mod over_etcd;
mod own_kinds;
mod parts_health;
mod plan;
mod policies;
mod proposals;
mod protobuf;
mod python;
mod rbac;
mod replay;
mod rollout;
mod server_side_apply;
mod services;
mod situations;
mod stateful_sets;
mod store;
mod three_servers;
mod up;
mod upstream_policies;
mod version;
mod watch;
mod webhooks;
mod wire;

// Certificates of etcd are made with it.
use rcgen as _;
