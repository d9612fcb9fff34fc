//! The checks of one crate: the quick answer between two edits.
//!
//! A build of one crate resolves other features than a build of the workspace, and so compiles its dependencies a second time. The package
//! `workspace-features` has every dependency of the workspace and no code: selected beside the crate, it gives both builds the same features.

use crate::{
    run::{Outcome, command},
    test,
    workspace::{Package, packages},
};
use std::process::Command;

/// The package that is selected beside the crate.
pub(crate) const FEATURES: &str = "workspace-features";

/// Which crates to check.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A crate, with or without `berth-`: `workloads`.
    #[arg(required = true, value_name = "CRATE")]
    crates: Vec<String>,
}

/// Checks the format of the crates, compiles them with their lints, and runs their tests.
pub(crate) fn run(options: &Options) -> Outcome {
    let members = packages()?;
    let chosen: Vec<&Package> = options.crates.iter().map(|name| find(&members, name)).collect::<Result<_, _>>()?;
    let names: Vec<&str> = chosen.iter().flat_map(|package| ["--package", &package.name]).collect();
    command(Command::new("cargo").args(["fmt", "--check"]).args(&names))?;
    // Not `--all-targets`: that of the package of features depends on every crate.
    test::tests(&[&names[..], &["--package", FEATURES, "--tests"]].concat(), None)
}

/// The member of this name, also without `berth-`.
fn find<'p>(members: &'p [Package], name: &str) -> Result<&'p Package, String> {
    let is = |package: &&Package| package.name == name || package.name.strip_prefix("berth-") == Some(name);
    members.iter().find(is).ok_or_else(|| format!("there is no crate {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_found_with_or_without_its_prefix() {
        let members = ["berth", "berth-api"].map(|name| Package { name: name.to_owned(), ..Package::default() });
        let found = |name| find(&members, name).map(|package| package.name.as_str());
        assert_eq!((found("api"), found("berth-api"), found("berth")), (Ok("berth-api"), Ok("berth-api"), Ok("berth")));
        assert_eq!(found("apis"), Err("there is no crate \"apis\"".to_owned()));
    }
}
