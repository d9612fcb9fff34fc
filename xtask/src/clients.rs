//! Clients are built without the crates of the server (docs/decisions/0054-clients-without-the-registry.md).

use crate::workspace::Package;
use std::collections::{BTreeMap, VecDeque};

/// The crates of controllers, nodes and clients, which access an API server only as a `Cluster`.
const CLIENTS: &[&str] = &[
    "berth-analysis",
    "berth-chart",
    "berth-controllers",
    "berth-dashboard",
    "berth-follow",
    "berth-node",
    "berth-remote",
    "berth-rollout",
    "berth-terminal",
    "berth-trace",
    "berth-workloads",
];

/// Crates that no client may depend on, directly or indirectly: each change of them would recompile every client.
const OF_THE_SERVER: &[&str] = &["berth-local", "berth-registry", "berth-store"];

/// Returns the paths of normal dependencies by which clients reach crates of the server.
pub(crate) fn faults(packages: &[Package]) -> Vec<String> {
    let mut faults = Vec::new();
    for client in CLIENTS {
        let paths = normal_paths(packages, client);
        let found = OF_THE_SERVER.iter().filter_map(|server| paths.get(server));
        faults.extend(found.map(|path| format!("{}: clients are built without the server's crates", path.join(" -> "))));
    }
    faults
}

/// A shortest path of normal dependencies from the member `from` to each member that it reaches.
fn normal_paths<'p>(packages: &'p [Package], from: &'p str) -> BTreeMap<&'p str, Vec<&'p str>> {
    let mut paths = BTreeMap::from([(from, vec![from])]);
    let mut queue = VecDeque::from([from]);
    while let Some(name) = queue.pop_front() {
        let package = packages.iter().find(|package| package.name == name);
        for to in package.into_iter().flat_map(|package| &package.dependencies).filter(|to| to.kind.is_none()) {
            let is_member = packages.iter().any(|package| package.name == to.name);
            if is_member && !paths.contains_key(to.name.as_str()) {
                let path = paths[name].iter().copied().chain([to.name.as_str()]).collect();
                paths.insert(&to.name, path);
                queue.push_back(&to.name);
            }
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, Kind};

    #[test]
    fn a_client_that_reaches_the_server_through_others_is_found() {
        let package = |name: &str, dependencies: &[(&str, Option<Kind>)]| Package {
            name: name.to_owned(),
            dependencies: dependencies
                .iter()
                .map(|(name, kind)| Dependency { name: (*name).to_owned(), kind: *kind, ..Dependency::default() })
                .collect(),
            ..Package::default()
        };
        let found = |of_follow: Option<Kind>| {
            let packages = vec![
                package("berth-terminal", &[("berth-follow", None), ("serde", None)]),
                package("berth-follow", &[("berth-local", of_follow)]),
                package("berth-local", &[("berth-registry", None)]),
                package("berth-registry", &[]),
                package("berth-sim", &[("berth-registry", None)]),
            ];
            faults(&packages)
        };
        assert_eq!(found(Some(Kind::Dev)), Vec::<String>::new(), "tests may have a server");
        assert_eq!(
            found(None),
            [
                "berth-follow -> berth-local: clients are built without the server's crates",
                "berth-follow -> berth-local -> berth-registry: clients are built without the server's crates",
                "berth-terminal -> berth-follow -> berth-local: clients are built without the server's crates",
                "berth-terminal -> berth-follow -> berth-local -> berth-registry: clients are built without the server's crates",
            ]
        );
    }
}
