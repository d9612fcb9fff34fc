//! Calls admission webhooks and conversion webhooks over HTTPS.
//!
//! Start with [`Webhooks`]: a reviewer of writes that calls the webhooks of the configurations in the store, and a
//! converter that calls those of custom resource definitions.
//! `berth-admission` decides what they match and reads their answers. `round.rs` calls those that match a write.
//! `client.rs` has the connections: each webhook has its own, bounded in number, and each answer is bounded in size and
//! time. So a slow webhook costs only the requests that it matches. `services.rs` finds the address of a Service.
//!
//! Configurations are read once and followed by watches ([`berth_registry::Following`]). Requests about objects of
//! their group are never sent to a webhook, so that a broken configuration can be removed.

mod client;
mod configurations;
mod conversion;
mod failure;
mod metrics;
mod reviewer;
mod round;
mod services;
mod tls;

pub use client::{ANSWER_BYTES_MAX, CALLS_MAX};
pub use reviewer::{Options, SimulatedWebhooks, Webhooks};
pub use services::{Address, AddressError, ServiceAddresses};
