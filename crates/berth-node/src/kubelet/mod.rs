//! Simulated nodes: each pod bound to one runs through [`Stage`]s, and its status looks as a kubelet would report it.

mod addresses;
mod agent;
mod behaviour;
mod heartbeat;
mod node;
mod stage;
mod status;
mod view;
mod volumes;

pub use agent::Nodes;
pub use behaviour::{Behaviour, Latencies};
pub use node::NodeShape;
pub use stage::{Stage, begin, due, step};
pub use view::PodView;
