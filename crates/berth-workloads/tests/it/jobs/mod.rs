//! Jobs in a model cluster.

mod model;
mod properties;
mod recorded;
