//! What plans of StatefulSets do in a model world.

mod claims;
#[path = "../world/merge.rs"]
mod merge;
mod properties;
mod recreate;
mod revisions;
mod rolling;
mod slots;
mod world;
