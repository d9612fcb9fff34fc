//! What a part does by default, and what it refuses, depending on the vendor of the API server.

use super::options::Node;
use crate::nodes::Taint;
use berth_controllers::manager::WORKLOAD_CONTROLLERS;
use berth_remote::Vendor;

/// Simulated nodes would join a cluster whose API server is not berth's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the API server is not berth's ({version}): simulated nodes run no containers, but real pods that its scheduler binds to them would count as running. Use another --kubeconfig, or add tainted nodes with --join-foreign-cluster"
)]
pub(super) struct ForeignCluster {
    version: String,
}

/// The controllers to run: the named ones, or the default ones. These are all on berth's own server, and berth's workload controllers on
/// another server.
pub(super) fn controllers<'a>(named: Option<&'a str>, vendor: &Vendor) -> &'a str {
    match (named, vendor) {
        (Some(named), _) => named,
        (None, Vendor::Berth) => "*",
        (None, Vendor::Foreign(_)) => WORKLOAD_CONTROLLERS,
    }
}

/// The taint of simulated nodes.
///
/// # Errors
/// [`ForeignCluster`]: the nodes must not join.
pub(super) fn taint(options: &Node, vendor: &Vendor) -> Result<Taint, ForeignCluster> {
    match vendor {
        Vendor::Berth => Ok(Taint::None),
        Vendor::Foreign(_) if !options.join_foreign_cluster => Err(ForeignCluster { version: version(vendor) }),
        Vendor::Foreign(_) if options.no_simulated_taint => Ok(Taint::None),
        Vendor::Foreign(_) => Ok(Taint::Simulated),
    }
}

/// The server's version, as text for users.
pub(super) fn version(vendor: &Vendor) -> String {
    match vendor {
        Vendor::Berth => "berth".to_owned(),
        Vendor::Foreign(version) if version.is_empty() => "its version is unknown".to_owned(),
        Vendor::Foreign(version) => version.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        node: Node,
    }

    fn foreign() -> Vendor {
        Vendor::Foreign("v1.36.2".to_owned())
    }

    #[test]
    fn on_a_cluster_of_another_only_workload_controllers_run_unless_others_are_named() {
        assert_eq!(controllers(None, &Vendor::Berth), "*");
        assert_eq!(controllers(None, &foreign()), "deployment,replicaset,statefulset");
        for vendor in [Vendor::Berth, foreign()] {
            assert_eq!(controllers(Some("*,-podgc"), &vendor), "*,-podgc");
        }
    }

    #[test]
    fn simulated_nodes_join_a_cluster_of_another_only_when_asked_to_and_with_a_taint() {
        let check = |flags: &[&str], vendor: &Vendor, wanted: Option<Taint>| {
            let Arguments { node } = Arguments::parse_from([&["node"][..], flags].concat());
            assert_eq!(taint(&node, vendor).ok(), wanted, "{flags:?} {vendor:?}");
        };
        check(&[], &Vendor::Berth, Some(Taint::None));
        check(&["--join-foreign-cluster"], &Vendor::Berth, Some(Taint::None));
        check(&[], &foreign(), None);
        check(&[], &Vendor::Foreign(String::new()), None);
        check(&["--join-foreign-cluster"], &foreign(), Some(Taint::Simulated));
        check(&["--join-foreign-cluster", "--no-simulated-taint"], &foreign(), Some(Taint::None));
        let refusal = ForeignCluster { version: version(&foreign()) }.to_string();
        assert!(refusal.contains("v1.36.2") && refusal.contains("--join-foreign-cluster"), "{refusal}");
    }
}
