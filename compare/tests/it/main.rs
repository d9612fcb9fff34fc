//! Tests of `compare` from outside: `cargo test -p compare --test it`.

use berth_testing::{Tool, skip, upstream_folder};
use std::{path::Path, process::Command};

/// Kinds of which no case of the first two differs. A kind that gets as far is added.
const ALIKE: &str = "CSIDriver,CSIStorageCapacity,ClusterRoleBinding,ConfigMap,ControllerRevision,Deployment,EndpointSlice,Endpoints,Event,HorizontalPodAutoscaler,IPAddress,\
                     Ingress,IngressClass,Lease,LimitRange,Namespace,NetworkPolicy,Node,PersistentVolume,Pod,PodDisruptionBudget,PriorityClass,\
                     ReplicaSet,Role,RoleBinding,Secret,Service,ServiceAccount,ServiceCIDR,StatefulSet,StorageClass";

/// Compares; `None` without a real Kubernetes. Gives whether nothing differed, and what was printed.
fn compare(arguments: &[&str]) -> Option<(bool, String)> {
    let scripts = upstream_folder();
    if !scripts.join("start").exists() {
        skip(Tool::Upstream, &format!("BERTH_UPSTREAM names no folder with one, and {} is none", scripts.display()));
        return None;
    }
    let compare = env!("CARGO_BIN_EXE_compare");
    let berth = Path::new(compare).with_file_name("berth");
    assert!(berth.exists(), "cargo build --package berth makes {}", berth.display());
    let run = Command::new(compare).args(arguments).env("BERTH_BINARY", berth).env_remove("BERTH_REAL").output().expect("it was built");
    let [printed, complained] = [run.stdout, run.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Some((run.status.success(), printed + &complained))
}

/// One case of each kind: this holds the tool itself. `cargo xtask compare` lists the differences, and fails for them.
#[test]
fn a_short_comparison_with_the_real_kubernetes_runs_to_its_end() {
    let Some((_, printed)) = compare(&["--seeds", "0..33"]) else { return };
    assert!(printed.lines().last().is_some_and(|line| line.starts_with("seeds 0..33: 33 cases, ")), "{printed}");
}

#[test]
fn most_kinds_answer_as_the_real_kubernetes() {
    let Some((is_alike, printed)) = compare(&["--seeds", "0..99", "--only", ALIKE]) else { return };
    assert!(is_alike && printed.lines().last().is_some_and(|line| line.starts_with("seeds 0..99: 61 cases, ")), "{printed}");
}

/// A few seeds, of which none differs. `compare --definitions --seeds` runs more by hand.
#[test]
fn generated_definitions_and_their_objects_answer_as_the_real_kubernetes() {
    let Some((is_alike, printed)) = compare(&["--definitions", "--seeds", "0..9"]) else { return };
    assert!(is_alike, "{printed}");
}
