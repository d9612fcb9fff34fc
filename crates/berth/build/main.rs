//! Passes the commit and the time of the build to the binary, for `berth version`.
//!
//! In release builds only: otherwise each commit would rebuild every test of this crate.
#![expect(clippy::print_stdout, reason = "this is how a build script talks to cargo")]

mod stamp;

use std::{env, path::PathBuf, time::SystemTime};

/// The commit, for builds outside the repository.
const COMMIT: &str = "BERTH_BUILD_COMMIT";
/// The build time in seconds since 1970, for reproducible builds: <https://reproducible-builds.org/specs/source-date-epoch/>.
const EPOCH: &str = "SOURCE_DATE_EPOCH";

fn main() -> Result<(), String> {
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-env-changed={COMMIT}");
    println!("cargo:rerun-if-env-changed={EPOCH}");
    if env::var("PROFILE").as_deref() != Ok("release") {
        return Ok(());
    }
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo names no CARGO_MANIFEST_DIR")?);
    let root = folder.join("../..");
    stamp::changing_files(&root).iter().for_each(|path| println!("cargo:rerun-if-changed={}", path.display()));
    if let Some(commit) = env::var(COMMIT).ok().filter(|commit| !commit.is_empty()).or_else(|| stamp::commit(&root)) {
        println!("cargo:rustc-env=BERTH_COMMIT={commit}");
    }
    println!("cargo:rustc-env=BERTH_BUILT_AT={}", stamp::built_at(env::var(EPOCH).ok().as_deref(), SystemTime::now())?);
    Ok(())
}
