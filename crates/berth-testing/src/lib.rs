//! What tests of several crates share about the machine that they run on: the required tools ([`Tool`]), the note of a test that cannot run without one
//! ([`skip`]), pictures that are kept ([`kept()`]), and a real Kubernetes where one is available ([`Upstream`]).
//!
//! For tests and `xtask` only, which prints after a run what was skipped. Nothing of the product depends on it.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "tests meet the machine; one that is skipped prints why"
)]

mod kept;
mod merged;
mod real;
mod skipped;
mod upstream;

pub use kept::kept;
pub use merged::merged;
pub use real::real_manifests;
pub use skipped::{SKIPPED, Tool, skip};
pub use upstream::{Upstream, upstream_folder};
