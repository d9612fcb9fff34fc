//! Checks what a compiler does not: layers, the scope of bans, sizes, dead files, unused dependencies, links, words, decision records.
//!
//! `crates/clippy.toml` contains the disallowed calls with their reasons.

use crate::{
    check,
    circles::Imports,
    clients, decisions, etcd_protos, kinds,
    run::{Outcome, output, print, root},
    typed_errors, words,
    workspace::{Dependency, Package, packages, texts},
};
use std::collections::{BTreeMap, BTreeSet};

/// From top to bottom. A crate may only depend on those below it.
const LAYERS: &[&str] = &[
    "berth",
    "berth-fuzz",
    "berth-dashboard",
    "berth-terminal",
    "berth-plan",
    "berth-sim",
    "berth-local",
    "berth-etcd",
    "berth-remote",
    "berth-analysis",
    "berth-policies",
    "berth-webhooks",
    "berth-follow",
    "berth-rollout",
    "berth-node",
    "berth-controllers",
    "berth-apiserver",
    "berth-http",
    "berth-protobuf",
    "berth-registry",
    "berth-store",
    "berth-trace",
    "berth-chart",
    "berth-workloads",
    "berth-fieldsets",
    "berth-admission",
    "berth-rbac",
    "berth-kinds",
    "berth-cel",
    "berth-api",
    "berth-identity",
    "berth-env",
    "berth-linear",
    "berth-testing",
];

/// Dependencies that point down but are not allowed, with the reason.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("berth-workloads", "berth-store", "the core decides; it neither reads nor writes"),
    ("berth-workloads", "berth-rbac", "the core decides about workloads, not about who may change them"),
    ("berth-etcd", "berth-api", "etcd's client knows bytes, no kinds"),
    ("berth-etcd", "berth-registry", "etcd's client knows bytes, no kinds"),
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

/// Crates that only tests may depend on.
const FOR_TESTS: &[&str] = &["berth-fuzz", "berth-linear", "berth-testing"];

/// Crates that no crate of the simulation may depend on, directly or indirectly: runtimes, sockets, files, randomness.
const REAL: &[&str] = &["getrandom", "hyper", "kube", "kube-client", "mio", "rustls", "tokio"];

/// The crate that forecasts changes.
const FORECASTS: &str = "berth-plan";

/// The crates that it runs, as the server does.
const RUN_BY_FORECASTS: &[&str] = &["berth-controllers", "berth-node", "berth-registry", "berth-store"];

/// Names of functions and types that decide about workloads, or are the input of decisions.
const DECIDES: &[&str] = &[
    "::plan(",
    "DeploymentState",
    "StatefulSetState",
    "ReplicaSetState",
    "rank::",
    "Ranking",
    "rolling::",
    "recreate::",
    "scale::",
    "plan_scale",
    "Board",
];

/// Crates in `crates/` that access the machine: the bans of `crates/clippy.toml` do not apply there.
const SHELLS: &[&str] = &["berth", "berth-analysis", "berth-apiserver", "berth-dashboard", "berth-http", "berth-webhooks"];

/// The crate with the HTTP server, and the path that only it may use.
const HTTP_SERVER: (&str, &str) = ("crates/berth-http/", "server::conn");

/// Files of a crate that may import each other in a cycle, with the reason. Do not add any.
const CIRCLES: &[(&str, &str, &str)] = &[
    ("berth-protobuf", "envelope walk", "a body may hold whole bodies"),
    (
        "berth-store",
        "lib space",
        "the trait in the root tells what a store has room for, which is counted in the entries that stand there too",
    ),
];

/// Words that no file may contain.
const UNFINISHED: &[&str] = &["FIXME", "TODO", "XXX"];

/// The roots of a crate's integration tests. `cargo test` leaves the second to `cargo xtask forecasts`.
const TEST_ROOTS: &[&str] = &["tests/it/main.rs", "tests/forecasts/main.rs"];

/// The maximum length of a file: a little above the largest. Split a file that grows, instead of raising the limit.
const LINES_MAX: usize = 650;
/// The same for test files, which are read in parts.
const TEST_LINES_MAX: usize = 800;

/// The input of the checks.
#[derive(Default)]
struct Tree {
    /// The texts of handwritten files, by their paths from the root.
    files: BTreeMap<String, String>,
    packages: Vec<Package>,
    /// The names under `[workspace.dependencies]`.
    shared: BTreeSet<String>,
}

/// Runs every check and prints the faults.
pub(crate) fn run() -> Outcome {
    let tree = Tree::read();
    let checks = [
        layers,
        clients,
        circles,
        bans,
        one_http_server,
        unfinished,
        doctests,
        sizes,
        test_programs,
        dead_files,
        unused_dependencies,
        features,
        dead_links,
        etcd_messages,
        one_model,
    ];
    let of_files = [words::faults, decisions::faults, kinds::faults, typed_errors::faults].into_iter().flat_map(|check| check(&tree.files));
    let faults: Vec<String> = checks.iter().flat_map(|check| check(&tree)).chain(simulation_reach()).chain(of_files).collect();
    for fault in &faults {
        print(fault);
    }
    if faults.is_empty() { Ok(()) } else { Err(format!("tidy: {} faults", faults.len())) }
}

impl Tree {
    fn read() -> Self {
        let files = texts();
        let shared = shared_dependencies(&files["Cargo.toml"]);
        Self { files, packages: packages().expect("cargo metadata reads this workspace"), shared }
    }

    fn rust(&self) -> impl Iterator<Item = (&String, &String)> {
        self.files.iter().filter(|(path, _)| path.ends_with(".rs"))
    }
}

/// The names under `[workspace.dependencies]`.
fn shared_dependencies(manifest: &str) -> BTreeSet<String> {
    let lines = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let names = lines.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split_once(" = "));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// No client is built with the server's crates.
fn clients(tree: &Tree) -> Vec<String> {
    clients::faults(&tree.packages)
}

/// Every dependency between crates points down.
fn layers(tree: &Tree) -> Vec<String> {
    let rank = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let mut faults = Vec::new();
    for package in tree.packages.iter().filter(|package| package.folder.starts_with("crates/")) {
        let from = &package.name;
        let Some(own) = rank(from) else {
            faults.push(format!("{from} is not in the list of layers"));
            continue;
        };
        let own_crates = |to: &&Dependency| to.kind.is_none() && to.name.starts_with("berth");
        for Dependency { name: to, .. } in package.dependencies.iter().filter(own_crates) {
            if FOR_TESTS.contains(&to.as_str()) {
                faults.push(format!("{from} depends on {to}, which is for tests only"));
            }
            if rank(to).is_none_or(|below| below <= own) {
                faults.push(format!("{from} depends on {to}, which is not below it"));
            }
            faults
                .extend(FORBIDDEN.iter().filter(|(a, b, _)| a == from && b == to).map(|(a, b, why)| format!("{a} depends on {b}: {why}")));
        }
    }
    faults
}

/// Files of one crate import each other in one direction.
fn circles(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for Package { name, folder, .. } in &tree.packages {
        let folder = format!("{folder}/src/");
        let files: Vec<_> = tree.rust().filter_map(|(path, text)| Some((path.strip_prefix(&folder)?, text.as_str()))).collect();
        let found = Imports::read(&files).circles();
        let known: BTreeSet<&str> = CIRCLES.iter().filter(|(of, ..)| of == name).map(|(_, circle, _)| *circle).collect();
        let new = found.iter().filter(|circle| !known.contains(circle.as_str()));
        faults.extend(new.map(|circle| format!("{name}: these files import each other in a circle: {circle}")));
        let gone = known.iter().filter(|circle| !found.contains(**circle));
        faults.extend(gone.map(|circle| format!("{name}: {circle} are no circle any more; take them off the list")));
    }
    faults
}

/// The simulation, and the forecasts in it, depend on nothing real.
fn simulation_reach() -> Vec<String> {
    let of = |package: &&str| match output("cargo", &["tree", "--package", package, "--edges", "normal", "--prefix", "none", "--offline"]) {
        Ok(tree) => reached(package, &tree),
        Err(error) => vec![error],
    };
    ["berth-sim", "berth-plan"].iter().flat_map(of).collect()
}

/// `tree` contains lines that begin with a crate's name.
fn reached(package: &str, tree: &str) -> Vec<String> {
    let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    REAL.iter().filter(|name| names.contains(**name)).map(|name| format!("{package} reaches {name}")).collect()
}

/// Forecasts have no model of their own: they run what the server runs, and call no planner.
fn one_model(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    if let Some(package) = tree.packages.iter().find(|package| package.name == FORECASTS) {
        let uses = |name: &str| package.dependencies.iter().any(|to| to.name == name && to.kind.is_none());
        let missing = RUN_BY_FORECASTS.iter().filter(|name| !uses(name));
        faults.extend(missing.map(|name| format!("{FORECASTS} does not run {name}, as the server does")));
    }
    let folder = format!("crates/{FORECASTS}/src/");
    for (path, text) in tree.rust().filter(|(path, _)| path.starts_with(&folder)) {
        let named = DECIDES.iter().filter(|name| text.contains(**name));
        faults.extend(named.map(|name| format!("{path} names {name}: a forecast reads what controllers have done, it decides nothing")));
    }
    faults
}

/// Lints apply in every crate, and the bans in every crate that is no shell. The nearest clippy.toml wins: they are not merged.
fn bans(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for Package { name, folder, .. } in &tree.packages {
        let inherits =
            tree.files.get(&format!("{folder}/Cargo.toml")).is_some_and(|manifest| manifest.contains("[lints]\nworkspace = true"));
        if !inherits {
            faults.push(format!("{name} does not inherit the workspace's lints"));
        }
        if tree.files.contains_key(&format!("{folder}/clippy.toml")) && !SHELLS.contains(&name.as_str()) {
            faults.push(format!("{folder}/clippy.toml takes the bans of crates/clippy.toml away from {name}"));
        }
    }
    faults
}

fn etcd_messages(tree: &Tree) -> Vec<String> {
    etcd_protos::fault(|path| tree.files.get(path).map(String::as_str)).into_iter().collect()
}

/// One crate serves HTTP, so that limits and an orderly shutdown are implemented once, and hyper's connections are compiled once.
fn one_http_server(tree: &Tree) -> Vec<String> {
    let (home, named) = HTTP_SERVER;
    let others = tree.rust().filter(|(path, _)| path.starts_with("crates/") && path.contains("/src/") && !path.starts_with(home));
    others.filter(|(_, text)| text.contains(named)).map(|(path, _)| format!("{path} names {named}: {home} has the HTTP server")).collect()
}

fn unfinished(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in tree.rust().filter(|(path, _)| *path != "xtask/src/tidy.rs") {
        for (number, line) in text.lines().enumerate() {
            faults.extend(UNFINISHED.iter().filter(|word| line.contains(**word)).map(|word| format!("{path}:{}: {word}", number + 1)));
        }
    }
    faults
}

/// Code in documentation that cargo would run as a test. `cargo xtask test` does not run doc tests, because rustdoc would read every crate
/// for none.
fn doctests(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in tree.rust() {
        let mut is_open = false;
        for (number, line) in text.lines().enumerate() {
            let comment = ["///", "//!"].iter().find_map(|mark| line.trim_start().strip_prefix(mark));
            let Some(language) = comment.and_then(|comment| comment.trim_start().strip_prefix("```")) else { continue };
            if !is_open && language != "text" {
                faults.push(format!("{path}:{}: say ```text; what is to be run is a test elsewhere", number + 1));
            }
            is_open = !is_open;
        }
    }
    faults
}

fn sizes(tree: &Tree) -> Vec<String> {
    let limit = |path: &str| if path.contains("/src/") && !path.contains("tests") { LINES_MAX } else { TEST_LINES_MAX };
    tree.rust()
        .map(|(path, text)| (path, text.lines().count(), limit(path)))
        .filter(|(_, lines, limit)| lines > limit)
        .map(|(path, lines, limit)| format!("{path}: {lines} lines; split it below {limit}"))
        .collect()
}

/// Each crate has one test program, because each further one is linked with all that the crate uses.
fn test_programs(tree: &Tree) -> Vec<String> {
    let begins = |package: &Package, root: &str| TEST_ROOTS.iter().any(|allowed| root == format!("{}/{allowed}", package.folder));
    let is_test = |package: &Package, root: &str| root.starts_with(&format!("{}/tests/", package.folder));
    let roots = tree.packages.iter().flat_map(|package| package.roots.iter().map(move |root| (package, root)));
    let others = roots.filter(|(package, root)| is_test(package, root) && !begins(package, root));
    others.map(|(_, root)| format!("{root}: a program of its own; make it a module of tests/it/main.rs")).collect()
}

/// Every source file of the workspace is reachable from a target's root through module declarations.
fn dead_files(tree: &Tree) -> Vec<String> {
    let mut reached = BTreeSet::new();
    let roots = || tree.packages.iter().flat_map(|package| &package.roots);
    let mut waiting: Vec<String> = roots().cloned().collect();
    while let Some(path) = waiting.pop() {
        if let Some(text) = tree.files.get(&path)
            && reached.insert(path.clone())
        {
            let is_root = roots().any(|root| *root == path);
            waiting.extend(modules(&path, text, is_root));
        }
    }
    let in_package = |path: &str| tree.packages.iter().any(|package| path.starts_with(&format!("{}/", package.folder)));
    let dead = tree.rust().map(|(path, _)| path).filter(|path| in_package(path) && !reached.contains(*path));
    dead.map(|path| format!("{path}: no module declares it")).collect()
}

/// The possible files of a file's `mod name;`.
fn modules(path: &str, text: &str, is_root: bool) -> Vec<String> {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    let stem = path.trim_end_matches(".rs");
    let folder = if is_root || stem.ends_with("/mod") { parent } else { stem };
    let mut named = None;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(path) = line.strip_prefix("#[path = \"").and_then(|rest| rest.split('"').next()) {
            named = Some(joined(parent, path));
        }
        let item = ["pub(crate) ", "pub(super) ", "pub "].iter().find_map(|visibility| line.strip_prefix(visibility)).unwrap_or(line);
        let Some(name) = item.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) else { continue };
        match named.take() {
            Some(path) => found.push(path),
            None => found.extend([format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]),
        }
    }
    found
}

/// `folder/path` without `.` and `..`.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." | "" => (),
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Every dependency is used by the code that may use it, and every dependency of the workspace by a member.
fn unused_dependencies(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for package in tree.packages.iter().filter(|package| package.name != check::FEATURES) {
        for Dependency { name, kind, .. } in &package.dependencies {
            let folder = if kind.is_none() { format!("{}/src/", package.folder) } else { format!("{}/", package.folder) };
            if !tree.rust().any(|(path, text)| path.starts_with(&folder) && names(text, &name.replace('-', "_"))) {
                faults.push(format!("{} does not use {name}", package.name));
            }
        }
    }
    let is_used = |name: &str| tree.packages.iter().flat_map(|package| &package.dependencies).any(|to| to.name == name);
    faults.extend(tree.shared.iter().filter(|name| !is_used(name)).map(|name| format!("no crate uses the workspace's dependency {name}")));
    faults
}

/// The package that `cargo xtask check` selects beside a crate has each dependency of each member with the same features.
fn features(tree: &Tree) -> Vec<String> {
    let Some(all) = tree.packages.iter().find(|package| package.name == check::FEATURES) else { return Vec::new() };
    let has = |of: &Dependency| {
        let same = all.dependencies.iter().find(|to| to.name == of.name);
        same.is_some_and(|same| of.features.iter().all(|feature| same.features.contains(feature)))
    };
    let members = tree.packages.iter().flat_map(|package| &package.dependencies);
    let missing: BTreeSet<String> = members
        .filter(|to| !to.is_optional && !has(to))
        .map(|Dependency { name, features, .. }| format!("{}/Cargo.toml lacks {name} with the features {features:?}", all.folder))
        .collect();
    missing.into_iter().collect()
}

/// Whether the text has a path that begins with the crate, or uses the crate or its macro as a whole.
fn names(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let begins = !before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        begins && (after.starts_with("::") || after.starts_with('!') || (before.ends_with("use ") && after.starts_with([';', ' '])))
    })
}

/// Every link from a document to a file leads to an existing file of the repository.
fn dead_links(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in tree.files.iter().filter(|(path, _)| path.ends_with(".md")) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for link in links.filter(|link| !link.is_empty() && !link.contains(':')) {
            let climbs = link.split('/').filter(|part| *part == "..").count() > folder.split('/').filter(|part| !part.is_empty()).count();
            if climbs || !root().join(joined(folder, link)).exists() {
                faults.push(format!("{path}: {link} is not in the repository"));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Kind;

    /// One crate, `berth-api`, with these files and dependencies.
    fn tree(files: &[(&str, &str)], dependencies: &[(&str, Option<Kind>)]) -> Tree {
        let folder = "crates/berth-api".to_owned();
        let dependencies =
            dependencies.iter().map(|(name, kind)| Dependency { name: (*name).to_owned(), kind: *kind, ..Dependency::default() }).collect();
        let roots = ["src/lib.rs", "tests/it/main.rs"].map(|root| format!("{folder}/{root}")).to_vec();
        let packages = vec![Package { name: "berth-api".to_owned(), roots, dependencies, folder: folder.clone(), ..Package::default() }];
        let path = |path: &str| path.strip_prefix('/').map_or_else(|| format!("{folder}/{path}"), str::to_owned);
        let files = files.iter().map(|(name, text)| (path(name), (*text).to_owned())).collect();
        Tree { files, packages, shared: BTreeSet::new() }
    }

    const NORMAL: Option<Kind> = None;
    const DEV: Option<Kind> = Some(Kind::Dev);

    #[test]
    fn the_tree_is_tidy() {
        run().expect("no faults; those that there are were printed");
    }

    #[test]
    fn arrows_that_point_up_or_are_forbidden_are_found() {
        assert!(layers(&tree(&[], &[("serde", NORMAL), ("berth-store", DEV)])).is_empty());
        assert_eq!(layers(&tree(&[], &[("berth-store", NORMAL)])), ["berth-api depends on berth-store, which is not below it"]);
        let mut store = tree(&[], &[("berth-api", NORMAL)]);
        store.packages[0].name = "berth-store".to_owned();
        assert_eq!(layers(&store), ["berth-store depends on berth-api: the store knows bytes, no kinds"]);
        assert_eq!(layers(&tree(&[], &[("berth-testing", NORMAL)])), ["berth-api depends on berth-testing, which is for tests only"]);
        store.packages[0].name = "berth-new".to_owned();
        assert_eq!(layers(&store), ["berth-new is not in the list of layers"]);
    }

    #[test]
    fn circles_are_found_unless_they_are_known_and_there() {
        let files = [("src/a.rs", "use crate::b;"), ("src/b.rs", "use crate::a;")];
        assert_eq!(circles(&tree(&files, &[])), ["berth-api: these files import each other in a circle: a b"]);
        let mut protobuf = tree(&[("src/envelope.rs", "use crate::walk;"), ("src/walk.rs", "use crate::envelope;")], &[]);
        protobuf.packages[0].name = "berth-protobuf".to_owned();
        assert_eq!(circles(&protobuf), Vec::<String>::new());
        protobuf.files.clear();
        assert_eq!(circles(&protobuf), ["berth-protobuf: envelope walk are no circle any more; take them off the list"]);
    }

    #[test]
    fn what_the_simulation_must_not_reach_is_found_in_its_tree() {
        assert_eq!(
            reached("berth-sim", "berth-sim v0.0.0 (/x)\nserde v1.0.0\ntokio-util v1.0.0\ntokio v1.0.0\n"),
            ["berth-sim reaches tokio"]
        );
    }

    #[test]
    fn a_forecast_that_decides_itself_or_runs_something_else_is_found() {
        let folder = |path: &str| format!("crates/berth-plan/src/{path}");
        let of = |text: &str, uses: &[&str]| {
            let dependencies =
                uses.iter().map(|name| Dependency { name: (*name).to_owned(), kind: NORMAL, ..Dependency::default() }).collect();
            let package = Package { name: FORECASTS.to_owned(), dependencies, ..Package::default() };
            one_model(&Tree { files: BTreeMap::from([(folder("read.rs"), text.to_owned())]), packages: vec![package], ..Tree::default() })
        };
        assert_eq!(of("use berth_workloads::view::PodView;", RUN_BY_FORECASTS), [] as [&str; 0]);
        assert_eq!(of("deployment::plan(&state)", RUN_BY_FORECASTS).len(), 1);
        assert_eq!(of("", &RUN_BY_FORECASTS[1..]), ["berth-plan does not run berth-controllers, as the server does"]);
    }

    #[test]
    fn a_second_http_server_is_found() {
        let text = "use hyper::server::conn::http1;";
        let faults = ["crates/berth-api/src/page.rs names server::conn: crates/berth-http/ has the HTTP server"];
        assert_eq!(one_http_server(&tree(&[("src/page.rs", text), ("tests/it/main.rs", text)], &[])), faults);
    }

    #[test]
    fn crates_that_escape_lints_or_bans_are_found() {
        let inherits = ("Cargo.toml", "[package]\n[lints]\nworkspace = true\n");
        assert!(bans(&tree(&[inherits], &[])).is_empty());
        assert_eq!(bans(&tree(&[("Cargo.toml", "[package]")], &[])), ["berth-api does not inherit the workspace's lints"]);
        let mut own = tree(&[inherits, ("clippy.toml", "")], &[]);
        assert_eq!(bans(&own), ["crates/berth-api/clippy.toml takes the bans of crates/clippy.toml away from berth-api"]);
        own.packages[0].name = "berth-apiserver".to_owned();
        assert!(bans(&own).is_empty());
    }

    #[test]
    fn unfinished_code_and_long_files_are_found_wherever_they_are() {
        let long = "\n".repeat(LINES_MAX + 1);
        let found =
            tree(&[("src/lib.rs", "#[cfg(test)]\nmod tests;\n// FIXME\n"), ("src/long.rs", &long), ("tests/it/main.rs", &long)], &[]);
        assert_eq!(unfinished(&found), ["crates/berth-api/src/lib.rs:3: FIXME"]);
        assert_eq!(sizes(&found), ["crates/berth-api/src/long.rs: 651 lines; split it below 650"]);
    }

    #[test]
    fn a_second_program_of_tests_is_found() {
        let with = |root: &str| {
            let mut tree = tree(&[], &[]);
            tree.packages[0].roots = ["src/lib.rs", "tests/it/main.rs", root].map(|root| format!("crates/berth-api/{root}")).to_vec();
            tree
        };
        assert!(test_programs(&with("benches/store.rs")).is_empty());
        let faults = ["crates/berth-api/tests/verbs.rs: a program of its own; make it a module of tests/it/main.rs"];
        assert_eq!(test_programs(&with("tests/verbs.rs")), faults);
    }

    #[test]
    fn tests_in_documentation_are_found() {
        let text = "//! ```text\n//! a\n//! ```\n    /// ```\n    /// assert!(true);\n    /// ```\n    /// ```text\n// ```\n";
        let faults = ["crates/berth-api/src/lib.rs:4: say ```text; what is to be run is a test elsewhere"];
        assert_eq!(doctests(&tree(&[("src/lib.rs", text)], &[])), faults);
    }

    #[test]
    fn files_are_dead_unless_a_living_one_declares_them() {
        let alive = [
            ("src/lib.rs", "pub(crate) mod a;\nmod tests {\n    mod inner {}\n}"),
            ("src/a.rs", "mod b;"),
            ("src/a/b/mod.rs", "mod c;"),
            ("src/a/b/c.rs", ""),
            ("tests/it/main.rs", "mod common;\n#[path = \"../world/mod.rs\"]\nmod other;"),
            ("tests/it/common.rs", ""),
            ("tests/world/mod.rs", ""),
        ];
        assert_eq!(dead_files(&tree(&alive, &[])), Vec::<String>::new());
        // Files with a name that others declare, beside the wrong parent, or declared only by a dead file.
        for dead in ["src/b.rs", "src/common.rs", "src/a/c.rs", "tests/it/world.rs"] {
            let with: Vec<_> = alive.iter().copied().chain([(dead, "mod d;")]).collect();
            assert_eq!(dead_files(&tree(&with, &[])), [format!("crates/berth-api/{dead}: no module declares it")]);
        }
        let chain: Vec<_> = alive.iter().copied().chain([("src/x.rs", "mod y;"), ("src/x/y.rs", "")]).collect();
        assert_eq!(dead_files(&tree(&chain, &[])).len(), 2);
    }

    #[test]
    fn dependencies_that_no_code_names_are_found() {
        let code = [("src/lib.rs", "use serde;\nuse a_b::C;\n// serde_json is only spoken of\n"), ("tests/it/main.rs", "proptest! {}")];
        assert!(unused_dependencies(&tree(&code, &[("serde", NORMAL), ("a-b", NORMAL), ("proptest", DEV)])).is_empty());
        let unused = unused_dependencies(&tree(&code, &[("serde_json", NORMAL), ("b", NORMAL), ("proptest", NORMAL)]));
        assert_eq!(unused, ["berth-api does not use serde_json", "berth-api does not use b", "berth-api does not use proptest"]);
        let shared = Tree { shared: BTreeSet::from(["toml".to_owned()]), ..tree(&[], &[]) };
        assert_eq!(unused_dependencies(&shared), ["no crate uses the workspace's dependency toml"]);
    }

    #[test]
    fn a_dependency_or_a_feature_that_only_a_build_of_the_workspace_has_is_found() {
        let mut both = tree(&[], &[("tokio", NORMAL), ("toml", DEV), ("fjall", NORMAL)]);
        both.packages[0].dependencies[0].features.push("net".to_owned());
        both.packages[0].dependencies[2].is_optional = true;
        let mut all = tree(&[], &[("tokio", NORMAL)]).packages.remove(0);
        (all.name, all.folder) = (check::FEATURES.to_owned(), "xtask/features".to_owned());
        both.packages.push(all);
        let missing = ["tokio with the features [\"net\"]", "toml with the features []"];
        assert_eq!(features(&both), missing.map(|name| format!("xtask/features/Cargo.toml lacks {name}")));
    }

    #[test]
    fn links_that_lead_nowhere_or_out_of_the_repository_are_found() {
        let text = "[a](../README.md#x) [b](https://a.example/b) [c](../../README.md) [d](gone.md) [e](#here)";
        let faults = ["docs/x.md: ../../README.md is not in the repository", "docs/x.md: gone.md is not in the repository"];
        assert_eq!(dead_links(&tree(&[("/docs/x.md", text)], &[])), faults);
    }
}
