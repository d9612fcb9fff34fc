//! Queries the providers of analyses: Prometheus and webhooks in the administrator's file.
//!
//! Users write only a provider's name and a query. The name selects one of the providers, and the query is sent as data: it never becomes
//! part of an address. An answer leaves this crate only as a number or as an enum case ([`NoAnswer`]), whatever its content.

mod address;
mod answer;
mod client;
mod config;
mod files;
mod follow;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;

pub use client::ANSWER_BYTES_MAX;
pub use config::OpenError;
pub use follow::FileProviders;

use std::time::Duration;

/// The timeout of one attempt, from the DNS lookup to the last byte of the answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(5);
