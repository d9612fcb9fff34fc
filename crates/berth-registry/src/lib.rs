//! The API rules: the effect of a request on the store, and its result. This crate uses no sockets and no HTTP
//! encodings.
//!
//! Start with [`Registry`]. It contains the definitions of the served kinds, the chain (`admission`) and storage
//! (`storage.rs`). Every verb is a method of it, in a file of its own. A verb that depends on the [`Actor`] takes it
//! first. Each kind is an entry of one table ([`resource`]). IO happens only through [`berth_store::Store`]. Time and
//! randomness come in through [`berth_store::env`].

mod actor;
mod admission;
pub mod age;
pub mod allocation;
mod answer;
mod applying;
pub mod archive;
pub mod authorization;
mod binding;
mod bootstrap;
mod checks;
mod computed;
mod configure;
mod continuing;
mod converter;
mod converting;
mod create;
mod decoding;
mod definition_progress;
pub mod definitions;
mod delete;
mod delete_collection;
pub mod discovery;
mod document;
mod documents;
mod entailed;
pub mod error;
mod eviction;
mod failure;
mod fencing;
mod filter;
mod following;
mod fresh;
mod get;
mod header;
mod key;
mod kubernetes_service;
mod list;
mod living_servers;
pub mod log;
mod modify;
pub mod openapi;
pub mod options;
mod ownership;
pub mod patch;
mod patching;
mod pieces;
mod pressure;
mod registry;
mod replicas;
pub mod resource;
mod restore;
mod scale;
mod service_ranges;
mod shares;
pub mod splice;
mod stamps;
mod storage;
mod stored;
pub mod table;
mod target;
mod update;
pub mod usage;
mod watch;

pub use actor::Actor;
pub use admission::{
    Operation, Remarks,
    chain::ORDER as ADMISSION_ORDER,
    plug_in::RequestVerifier,
    resource_quota::NAME as RESOURCE_QUOTA,
    reviewer::{AdmissionRequest, Reviewer, Stage},
    versions::{ChangeError, Versions},
};
pub use answer::{ApiErrorBox, Current, Deleted, List, WatchEvent, Written};
pub use berth_admission::{DenialCause, DenialDetails, Reinvocation};
pub use berth_rbac::bootstrap::DASHBOARD as DASHBOARD_USER;
pub use configure::{Configuration, Configured, ManifestFields};
#[cfg(feature = "fuzzing")]
pub use continuing::round_trips as continue_token_round_trips;
pub use converter::Converter;
pub use delete_collection::RETURNED_BYTES_MAX;
pub use document::{Discovery, Document, OpenApi};
pub use documents::{Documents, Shown};
pub use error::ApiError;
pub use following::{Content, Following};
pub use kubernetes_service::ServerAddress;
pub use living_servers::Living;
pub use options::{Body, DeleteOptions, GetOptions, ListOptions, Patch, PropagationPolicy, RequestOptions, WatchOptions, WriteOptions};
pub use pressure::Pressure;
pub use registry::Registry;
pub use resource::{BoxObject, Resource, ResourceTable, Resources, Subresource};
pub use restore::{Archived, ArchivedFault, ObjectFault};
pub use target::{Collection, Target};
