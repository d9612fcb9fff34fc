//! Recordings of a cluster's workloads: lines of JSON in Zstandard frames.
//!
//! A recording contains the fields that planners, the scheduler and the API rules read, and no others. One table
//! (`allowed.rs`) lists them, for the writer and for the reader. Names may be hashed ([`Naming`]). [`Recorder`]
//! converts changes of a cluster to lines, and [`Frames`] writes them into a file. [`Reader`] reads untrusted files:
//! every size has a limit, and an error names its line and its field.
//!
//! This crate decides nothing and has no clock: the caller passes in times. Start with [`Recorder`] and [`Reader`]. The
//! page docs/how-to/record-and-replay.md describes the lines.

mod allowed;
mod frames;
mod line;
mod names;
mod reader;
mod recorder;
mod selectors;
mod shape;
mod template;
mod usage;

pub use allowed::{KINDS, TracedKind};
pub use frames::Frames;
pub use line::{Ended, Header, Item, Moment, ObjectId, Usage};
pub use names::{KEY_BYTES, Naming};
pub use reader::{Reader, TraceError};
pub use recorder::Recorder;
pub use usage::{Measured, PodUsage};
