//! What plans of StatefulSets do in a model world.

mod claims;
mod properties;
mod records;
mod recreate;
mod revisions;
mod rollback;
mod rolling;
mod slots;
mod world;
