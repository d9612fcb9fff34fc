//! What a compiler does not check: the layers, the calls that crates without IO must not make, sizes, dead files.

use crate::run::{Outcome, output, root, say};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Top to bottom; a crate may depend on those below it only.
const LAYERS: &[&str] = &[
    "berth",
    "berth-sim",
    "berth-node",
    "berth-controllers",
    "berth-apiserver",
    "berth-protobuf",
    "berth-registry",
    "berth-store",
    "berth-workloads",
    "berth-fieldsets",
    "berth-rbac",
    "berth-api",
];

/// Arrows that point down and are wrong all the same, with the reason.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("berth-workloads", "berth-store", "the core decides; it neither reads nor writes"),
    ("berth-workloads", "berth-rbac", "the core decides about workloads, not about who may change them"),
    ("berth-store", "berth-api", "the store knows bytes, no kinds"),
    ("berth-store", "berth-workloads", "the store knows bytes, no kinds"),
    ("berth-fieldsets", "berth-api", "ownership knows schemas, no kinds"),
    ("berth-registry", "berth-workloads", "the API rules decide about no workload"),
    ("berth-controllers", "berth-apiserver", "controllers know no HTTP"),
    ("berth-node", "berth-apiserver", "nodes know no HTTP"),
    ("berth-sim", "berth-apiserver", "the simulation has no sockets"),
    ("berth-protobuf", "berth-registry", "protobuf becomes JSON, which has rules elsewhere"),
    ("berth-protobuf", "berth-api", "protobuf becomes JSON, whose types are elsewhere"),
];

/// Crates that the simulation links: all that they need of time, tasks and randomness is passed in.
const DETERMINISTIC: &[&str] = &[
    "berth-api",
    "berth-fieldsets",
    "berth-rbac",
    "berth-workloads",
    "berth-store",
    "berth-registry",
    "berth-controllers",
    "berth-node",
    "berth-sim",
];

/// The parts of those crates that the simulation does not build.
const REAL_BACKENDS: &[&str] = &["crates/berth-store/src/backend/embedded"];

/// What must not stand in a deterministic crate, with the reason.
const BANNED: &[(&str, &str)] = &[
    ("tokio", "tasks and time come in through berth_store::env"),
    ("Instant", "time comes in through Clock"),
    ("SystemTime", "time comes in through Clock"),
    ("Timestamp::now", "time comes in through Clock"),
    ("Zoned::now", "time comes in through Clock"),
    ("HashMap", "its order would reach plans; use BTreeMap"),
    ("HashSet", "its order would reach plans; use BTreeSet"),
    ("thread::", "tasks come in through Spawner"),
    ("select!", "its choice is random; poll in a fixed order"),
    ("select_biased!", "one way to do it: poll in a fixed order by hand"),
    ("getrandom", "randomness comes in through Rng"),
];

/// What must stand nowhere.
const UNFINISHED: &[&str] = &["todo!(", "unimplemented!(", "FIXME", "dbg!("];

/// A file that does not fit in a head.
const LINES_MAX: usize = 900;

/// Runs every check and prints what is wrong.
pub(crate) fn run() -> Outcome {
    let faults: Vec<String> =
        [layers(), simulation_reach(), banned_calls(), unfinished(), sizes(), dead_files()].into_iter().flatten().collect();
    for fault in &faults {
        say(fault);
    }
    if faults.is_empty() { Ok(()) } else { Err(format!("tidy: {} faults", faults.len())) }
}

fn metadata() -> Metadata {
    MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec().expect("cargo metadata reads this workspace")
}

/// Every arrow between crates points down.
fn layers() -> Vec<String> {
    let rank = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let mut faults = Vec::new();
    for package in metadata().packages.iter().filter(|package| package.name.starts_with("berth")) {
        let from = package.name.as_str();
        let Some(own) = rank(from) else {
            faults.push(format!("{from} is not in the list of layers"));
            continue;
        };
        for to in package.dependencies.iter().filter(|to| to.kind == DependencyKind::Normal && to.name.starts_with("berth")) {
            if rank(&to.name).is_none_or(|below| below <= own) {
                faults.push(format!("{from} depends on {}, which is not below it", to.name));
            }
            faults.extend(
                FORBIDDEN.iter().filter(|(a, b, _)| *a == from && *b == to.name).map(|(a, b, why)| format!("{a} depends on {b}: {why}")),
            );
        }
    }
    faults
}

/// The simulation reaches no runtime and no sockets.
fn simulation_reach() -> Vec<String> {
    let tree = match output("cargo", &["tree", "--package", "berth-sim", "--edges", "normal", "--prefix", "none", "--offline"]) {
        Ok(tree) => tree,
        Err(error) => return vec![error],
    };
    let reached: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    ["tokio", "kube", "kube-client", "hyper", "rustls", "fjall", "redb"]
        .into_iter()
        .filter(|name| reached.contains(name))
        .map(|name| format!("berth-sim reaches {name}"))
        .collect()
}

/// No call of [`BANNED`] in code that the simulation builds.
fn banned_calls() -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in DETERMINISTIC.iter().flat_map(|name| sources(&format!("crates/{name}/src"))) {
        if REAL_BACKENDS.iter().any(|real| path.starts_with(real)) {
            continue;
        }
        for (number, line) in code_lines(&text) {
            faults
                .extend(BANNED.iter().filter(|(word, _)| line.contains(word)).map(|(word, why)| format!("{path}:{number}: {word}: {why}")));
        }
    }
    faults
}

fn unfinished() -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in sources("crates").into_iter().chain(sources("xtask/src")) {
        if path.ends_with("xtask/src/tidy.rs") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            faults.extend(UNFINISHED.iter().filter(|word| line.contains(**word)).map(|word| format!("{path}:{}: {word}", number + 1)));
        }
    }
    faults
}

fn sizes() -> Vec<String> {
    sources("crates")
        .into_iter()
        .chain(sources("xtask/src"))
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(path, lines)| format!("{path}: {lines} lines; split it below {LINES_MAX}"))
        .collect()
}

/// Every source file is a module of something.
fn dead_files() -> Vec<String> {
    let files: BTreeMap<String, String> = sources("crates").into_iter().collect();
    let declared: BTreeSet<String> = files
        .values()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.trim().trim_start_matches("pub(crate) ").trim_start_matches("pub ").strip_prefix("mod "))
        .filter_map(|rest| rest.split([';', ' ', '{']).next().map(str::to_owned))
        .collect();
    let is_root = |path: &str| path.ends_with("/lib.rs") || path.ends_with("/main.rs") || !path.contains("/src/") || path.contains("/bin/");
    let module = |path: &str| {
        let path = Path::new(path);
        let stem = path.file_stem()?.to_str()?;
        if stem == "mod" { path.parent()?.file_name()?.to_str().map(str::to_owned) } else { Some(stem.to_owned()) }
    };
    files
        .keys()
        .filter(|path| !is_root(path))
        .filter(|path| module(path).is_some_and(|name| !declared.contains(&name)))
        .map(|path| format!("{path}: no module declares it"))
        .collect()
}

/// Lines of code with their numbers, without comments and without the tests at the end of a file.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(index, line)| (index + 1, line))
}

/// Every Rust file below a folder of the repository: path from the root, and text.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((relative(&path), fs::read_to_string(&path).expect("sources are UTF-8")));
            }
        }
    }
    found.sort();
    found
}

fn relative(path: &Path) -> String {
    let path: PathBuf = path.strip_prefix(root()).expect("walked from the root").to_path_buf();
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(faults: &[String]) {
        assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    }

    #[test]
    fn arrows_between_crates_point_down() {
        check(&layers());
    }

    #[test]
    fn the_simulation_reaches_no_runtime() {
        check(&simulation_reach());
    }

    #[test]
    fn crates_without_io_ask_the_machine_for_nothing() {
        check(&banned_calls());
    }

    #[test]
    fn nothing_is_left_unfinished() {
        check(&unfinished());
    }

    #[test]
    fn files_fit_in_a_head() {
        check(&sizes());
    }

    #[test]
    fn every_file_is_used() {
        check(&dead_files());
    }

    #[test]
    fn code_lines_leave_out_comments_and_tests() {
        let lines: Vec<_> = code_lines("a\n// b\nc\n#[cfg(test)]\nd").collect();
        assert_eq!(lines, [(1, "a"), (3, "c")]);
    }
}
