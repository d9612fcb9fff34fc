//! The server from outside, with a service that gives the answers of a test.

mod common;
mod connections;
mod stops;
