//! Asks the providers of analyses: Prometheus and webhooks, as the administrator's file names them.
//!
//! What users write (a provider's name and a query) chooses among those and is sent as data; it never becomes part of an address. What is answered leaves this crate as a
//! number or as one of a few words ([`NoAnswer`]), whatever came.

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

/// How long one attempt may take, from the lookup of the name to the last byte of the answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(5);
