//! Readers of what others write, and what must hold for whatever they write.
//!
//! Each module is a target: its `run` takes the bytes of one input and panics where a rule is broken. `fuzz/` gives these functions to libFuzzer, and this
//! crate's tests run each on its seeds and on a fixed number of inputs that are made from them.

pub mod analysis_answers;
pub mod apply;
pub mod archive;
pub mod definitions;
pub mod expressions;
pub mod field_sets;
pub mod json_body;
pub mod objects;
pub mod patches;
pub mod protobuf_body;
pub mod requests;
pub mod roles;
pub mod scalars;
pub mod selectors;
pub mod stored_records;
pub mod structural;
pub mod trace;
pub mod validation;
pub mod webhook_answers;
pub mod yaml_body;

/// The name of a target, and what runs it with one input.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("analysis_answers", analysis_answers::run),
    ("apply", apply::run),
    ("archive", archive::run),
    ("definitions", definitions::run),
    ("expressions", expressions::run),
    ("field_sets", field_sets::run),
    ("json_body", json_body::run),
    ("patches", patches::run),
    ("protobuf_body", protobuf_body::run),
    ("requests", requests::run),
    ("roles", roles::run),
    ("scalars", scalars::run),
    ("selectors", selectors::run),
    ("stored_records", stored_records::run),
    ("structural", structural::run),
    ("trace", trace::run),
    ("validation", validation::run),
    ("webhook_answers", webhook_answers::run),
    ("yaml_body", yaml_body::run),
];
