//! Recordings of a cluster's workloads: lines of JSON in Zstandard frames.
//!
//! A recording keeps what planners, the scheduler and the API rules read of an object, and nothing else: one table (`allowed.rs`) says what that is, for
//! whoever writes and for whoever reads. Names may be hashed ([`Naming`]). [`Recorder`] makes lines of what a cluster shows, [`Frames`] puts them into a
//! file, [`Reader`] reads a file that anybody may have made: everything in it has a bound, and a fault has its line and its field.
//!
//! Decides nothing and knows no clock: times come in with what they are of. Start with [`Recorder`] and [`Reader`]; docs/how-to/record-and-replay.md
//! describes the lines.

mod allowed;
mod frames;
mod line;
mod names;
mod reader;
mod recorder;
mod selectors;
mod shape;
mod template;

pub use allowed::{KINDS, TracedKind};
pub use frames::Frames;
pub use line::{Ended, Header, Item, Moment, ObjectId};
pub use names::{KEY_BYTES, Naming};
pub use reader::{Reader, TraceError};
pub use recorder::Recorder;
