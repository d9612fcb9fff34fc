//! Simulated nodes: each pod bound to one runs through [`PodStage`]s, and its status looks as a kubelet would report it.

mod addresses;
mod agent;
mod behavior;
mod heartbeat;
mod held;
mod images;
mod lives;
mod node;
mod references;
mod sources;
mod stage;
mod start;
mod status;
mod view;
mod volumes;
mod waiting;

pub use agent::{Habits, Nodes};
pub use behavior::{Behavior, Latencies};
pub use images::MissingImages;
pub use lives::{Lives, Stop};
pub use node::{NodeOptionError, NodeShape, Zone, parse_amount, parse_cpu, parse_label, parse_resource};
pub use references::required_objects;
pub use sources::{KnownObject, KnownObjects};
pub use stage::{PodStage, begin, due, step};
pub use start::ForeignNodes;
pub use view::{Annotated, KubeletPod, RestartPolicy};
