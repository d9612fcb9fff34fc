//! Each crate checked by itself, with its own features only.
//!
//! A build of the whole workspace gives every crate the features that any of them asked for: a crate may lean on what it never asked for, and
//! fail for whoever builds it alone. No part of `cargo xtask test`: most dependencies are checked again for each set of features.

use crate::run::{Outcome, command, root, say};
use cargo_metadata::MetadataCommand;
use std::process::Command;

/// Checks every crate with all its targets, and again with each feature of its own. Goes on after a fault.
pub(crate) fn run() -> Outcome {
    let metadata = MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec().map_err(|error| error.to_string())?;
    let mut faults = Vec::new();
    for package in &metadata.packages {
        let features = package.features.keys().map(|feature| Some(feature.as_str()));
        for feature in [None].into_iter().chain(features) {
            let mut cargo = Command::new("cargo");
            cargo.args(["check", "--quiet", "--all-targets", "--package", package.name.as_str()]);
            if let Some(feature) = feature {
                cargo.args(["--features", feature]);
            }
            faults.extend(command(&mut cargo).err());
        }
    }
    if faults.is_empty() {
        say("every crate stands alone");
        return Ok(());
    }
    Err(faults.join("\n"))
}
