//! The shell around the plans: the [`Cluster`] seam, caches, work queues, the executor, events.

pub mod cluster;

pub use cluster::{Change, Cluster, RawObject};
