//! What plans of StatefulSets do in a model world.

mod claims;
#[path = "../world/merge.rs"]
mod merge;
#[path = "../world/patience.rs"]
mod patience;
mod properties;
#[path = "../world/read_back.rs"]
mod read_back;
mod records;
mod recreate;
mod revisions;
mod rollback;
mod rolling;
mod slots;
mod world;
