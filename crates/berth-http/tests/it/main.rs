//! The server from outside, with a service that answers what a test says.

mod common;
mod connections;
mod stops;
