//! Histories that can be put in order, histories that cannot, and whether the check distinguishes them.
#![expect(clippy::unwrap_used, reason = "tests")]

mod by_force;
mod faults;
mod lines;
mod lists;
mod objects;
mod properties;
mod serial_store;
mod watches;
