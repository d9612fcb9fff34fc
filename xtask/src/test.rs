//! Every test, and what they need.

use crate::{
    deny, fuzz, programs,
    run::{self, Built, Outcome, command, exists, output, program, root, say},
    skipped, vectors,
};
use std::{fs, path::Path, process::Command, thread};

/// Checks format, lints, dependencies and vectors while what is missing is fetched, then runs every test, and tells which were skipped.
pub(crate) fn run() -> Outcome {
    // Installing waits for the network more than for a processor, building the other way round.
    let (built, installed) = thread::scope(|scope| {
        let installed = scope.spawn(install);
        (build(), installed.join().expect("an installation does not panic"))
    });
    let built = built.and_then(|programs| installed.map(|()| programs))?;
    let skipped = skipped::begin()?;
    // Tests wait for time to pass more than for a processor: the fuzz targets are built meanwhile.
    let (tests, targets) = thread::scope(|scope| {
        let targets = scope.spawn(|| fuzz::build(fuzz::Build::Quick));
        let tests = programs::run(built, &skipped);
        (tests, targets.join().expect("a build does not panic"))
    });
    let outcome = tests.and_then(|()| fuzz::short_with(&targets?));
    let told = skipped::tell();
    outcome.and(told)
}

/// Gives the programs of tests. There are no others: nobody writes tests into documentation (`cargo xtask tidy`).
fn build() -> Result<Vec<Built>, String> {
    program("cargo", &["fmt", "--all", "--check"])?;
    program("cargo", &["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"])?;
    program("cargo", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])?;
    deny::with_tests()?;
    vectors::compare_if_there()?;
    run::build(&["test", "--workspace", "--no-run"])
}

fn install() -> Outcome {
    promtool();
    browser();
    etcd();
    python_packages()?;
    schemathesis()
}

/// A browser, and what drives it.
pub(crate) fn browser() {
    chromium();
    npm_packages();
}

/// What asks a server all that its OpenAPI documents allow, from PyPI, in a virtual environment of its own.
fn schemathesis() -> Outcome {
    let folder = root().join("target/tools/schemathesis");
    let wanted = "schemathesis==4.32.*";
    if is_installed(&folder, wanted) {
        return Ok(());
    }
    command(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    pip_install(&folder, wanted)?;
    mark_installed(&folder, wanted)
}

fn pip_install(environment: &Path, package: &str) -> Outcome {
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", package];
    command(Command::new(environment.join("bin/python")).args(pip))
}

/// The Kubernetes client of PyPI and, where its library exists for this machine, Helm 4, in a virtual environment of their own.
fn python_packages() -> Outcome {
    let folder = root().join("target/tools/python");
    let (client, helm) = ("kubernetes==37.*", "helm-python-sdk==0.2.2");
    let wanted = format!("{client} {helm}\n");
    if is_installed(&folder, &wanted) {
        return Ok(());
    }
    command(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    pip_install(&folder, client)?;
    if pip_install(&folder, helm).is_err() {
        say("Helm 4 cannot be had for this machine: its journey will say that it is skipped");
    }
    mark_installed(&folder, &wanted)
}

/// What `tests/javascript/package.json` names: the JavaScript client, a Node that it runs on, Helm 3. Their tests are skipped where not.
fn npm_packages() {
    let folder = root().join("target/tools/javascript");
    let from = root().join("tests/javascript");
    let files = ["package.json", "package-lock.json", ".npmrc"];
    let install = || {
        let wanted = fs::read_to_string(from.join("package-lock.json")).map_err(|error| error.to_string())?;
        if is_installed(&folder, &wanted) {
            return Ok(());
        }
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        for file in files {
            fs::copy(from.join(file), folder.join(file)).map_err(|error| format!("{file}: {error}"))?;
        }
        command(Command::new("npm").args(["ci", "--no-audit", "--no-fund", "--prefix"]).arg(&folder))?;
        mark_installed(&folder, &wanted)
    };
    if let Err(error) = install() {
        say(&format!(
            "packages of npm cannot be had: the journeys of the JavaScript client and Helm 3 will say that they are skipped ({error})"
        ));
    }
}

/// Whether just this was installed into the folder.
fn is_installed(folder: &Path, wanted: &str) -> bool {
    fs::read_to_string(folder.join("installed")).is_ok_and(|installed| installed == wanted)
}

fn mark_installed(folder: &Path, wanted: &str) -> Outcome {
    fs::write(folder.join("installed"), wanted).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Debian's etcd, for machines without a newer one (PyPI's, 3.5.1, can lose what it acknowledged, and is refused); its tests are skipped where not.
fn etcd() {
    if !unpacked("etcd-server", "etcd-server", "3.*", "usr/bin/etcd") {
        say("Debian's etcd-server cannot be had: tests that want an etcd will say that they are skipped");
    }
}

/// Whether a package of Debian is unpacked in that folder of `target/tools`, with that file in it, or could be.
fn unpacked(folder: &str, package: &str, version: &str, file: &str) -> bool {
    let folder = root().join("target/tools").join(folder);
    let unpack = format!("mkdir -p $0 && cd $0 && apt-get download {package} && dpkg-deb --extract {package}_{version}.deb .");
    let unpack = || command(Command::new("sh").args(["-c", &unpack]).arg(&folder));
    folder.join(file).exists() || exists("apt-get") && unpack().or_else(|_| program("apt-get", &["update"]).and_then(|()| unpack())).is_ok()
}

/// Debian's Chromium with a font, where it can be installed; the journey over the page is skipped where not.
fn chromium() {
    if !Path::new("/usr/bin/chromium").exists() && !installed_by_apt(&["chromium", "fonts-dejavu-core"]) {
        say("Debian's chromium is not on this machine and cannot be installed: the journey over the page will say that it is skipped");
    }
}

/// Debian's `promtool`, where it can be installed; the test that needs it is skipped where not.
fn promtool() {
    if exists("promtool") {
        return;
    }
    if !installed_by_apt(&["prometheus"]) {
        say("promtool is not on this machine and cannot be installed: the check of metrics will say that it is skipped");
    }
}

/// Whether packages of Debian could be installed: by root alone.
fn installed_by_apt(packages: &[&str]) -> bool {
    let is_root = output("id", &["--user"]).is_ok_and(|id| id.trim() == "0");
    let install = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    is_root && exists("apt-get") && program("apt-get", &["update"]).and_then(|()| program("apt-get", &install)).is_ok()
}
