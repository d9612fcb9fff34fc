//! The effects of plans of StatefulSets in a model cluster.

mod claims;
mod cluster_model;
mod properties;
mod records;
mod recreate;
mod revisions;
mod rollback;
mod rolling;
mod slots;
