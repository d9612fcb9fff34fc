//! All checks, one row for each version of a check in a range of releases.

use super::{
    baseline,
    found::Violation,
    policy::{Level, LevelVersion},
    restricted,
    subject::Subject,
};
use k8s_openapi::{api::core::v1::PodSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use std::fmt;

/// The violations of a pod. Printed as upstream, with details.
#[derive(Debug, PartialEq, Eq)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text without details, which is the same for pods with the same violations.
    #[must_use]
    pub fn reasons(&self) -> String {
        self.0.iter().map(|violation| violation.reason).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Violation { reason, detail }) in self.0.iter().enumerate() {
            write!(f, "{}{reason} ({detail})", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// A row: `Level, releases 1.a to before 1.b, check`. If a stricter check of the restricted level replaces it, the row
/// ends with the first release of that check.
struct Check {
    level: Level,
    from: u32,
    until: u32,
    find: fn(&Subject<'_>) -> Option<Violation>,
    /// The first release in which another check replaces it at the restricted level.
    overridden: u32,
}

const NEVER: u32 = u32::MAX;

const fn baseline(from: u32, until: u32, find: fn(&Subject<'_>) -> Option<Violation>) -> Check {
    Check { level: Level::Baseline, from, until, find, overridden: NEVER }
}

const fn restricted(from: u32, until: u32, find: fn(&Subject<'_>) -> Option<Violation>) -> Check {
    Check { level: Level::Restricted, from, until, find, overridden: NEVER }
}

impl Check {
    const fn overridden_from(self, overridden: u32) -> Self {
        Self { overridden, ..self }
    }

    fn counts(&self, allowed: LevelVersion) -> bool {
        let minor = allowed.version.minor();
        let is_left_to_another = allowed.level == Level::Restricted && self.overridden != NEVER && self.overridden <= minor;
        let is_in_range = self.from <= minor && (minor < self.until || self.until == NEVER);
        self.level <= allowed.level && is_in_range && !is_left_to_another
    }
}

/// In the order of reported violations.
static CHECKS: &[Check] = &[
    baseline(0, NEVER, baseline::app_armor),
    baseline(0, NEVER, baseline::capabilities).overridden_from(22),
    baseline(0, NEVER, baseline::host_namespaces),
    baseline(0, NEVER, baseline::host_path_volumes).overridden_from(0),
    baseline(0, NEVER, baseline::host_ports),
    baseline(34, NEVER, baseline::probe_hosts),
    baseline(0, NEVER, baseline::privileged),
    baseline(0, 35, baseline::proc_mount),
    baseline(35, NEVER, baseline::proc_mount_of_node_users).overridden_from(35),
    baseline(0, 31, |pod| baseline::se_linux(pod, 3)),
    baseline(31, NEVER, |pod| baseline::se_linux(pod, 4)),
    baseline(0, 19, baseline::seccomp_annotations),
    baseline(19, NEVER, baseline::seccomp).overridden_from(19),
    baseline(0, 27, |pod| baseline::sysctls(pod, 5)),
    baseline(27, 29, |pod| baseline::sysctls(pod, 6)),
    baseline(29, 32, |pod| baseline::sysctls(pod, 10)),
    baseline(32, NEVER, |pod| baseline::sysctls(pod, 12)),
    baseline(0, NEVER, baseline::host_process),
    restricted(8, 25, restricted::privilege_escalation),
    restricted(25, NEVER, |pod| unless_windows(pod, restricted::privilege_escalation)),
    restricted(22, 25, restricted::capabilities),
    restricted(25, NEVER, |pod| unless_windows(pod, restricted::capabilities)),
    restricted(35, NEVER, baseline::proc_mount),
    restricted(0, NEVER, restricted::volume_types),
    restricted(0, 35, restricted::run_as_non_root),
    restricted(35, NEVER, |pod| unless_own_users(pod, restricted::run_as_non_root)),
    restricted(23, 35, restricted::run_as_user),
    restricted(35, NEVER, |pod| unless_own_users(pod, restricted::run_as_user)),
    restricted(19, 25, restricted::seccomp),
    restricted(25, NEVER, |pod| unless_windows(pod, restricted::seccomp)),
];

fn unless_windows(pod: &Subject<'_>, find: fn(&Subject<'_>) -> Option<Violation>) -> Option<Violation> {
    if pod.is_for_windows() { None } else { find(pod) }
}

fn unless_own_users(pod: &Subject<'_>, find: fn(&Subject<'_>) -> Option<Violation>) -> Option<Violation> {
    if pod.has_own_users() { None } else { find(pod) }
}

pub(super) fn evaluate(allowed: LevelVersion, meta: &ObjectMeta, spec: &PodSpec) -> Violations {
    if allowed.level == Level::Privileged {
        return Violations(Vec::new());
    }
    let pod = Subject::new(meta, spec);
    Violations(CHECKS.iter().filter(|check| check.counts(allowed)).filter_map(|check| (check.find)(&pod)).collect())
}
