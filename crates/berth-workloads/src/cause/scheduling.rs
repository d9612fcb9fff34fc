//! Why a scheduler found no node, parsed from its message.

use super::Kind;

/// A scheduler's messages about nodes, with the kind of each cause. Source: the reasons of kube-scheduler's filter plug-ins.
const TEXTS: [(&str, Kind); 20] = [
    ("Insufficient ", Kind::UnschedulableResources),
    ("Too many pods", Kind::UnschedulableResources),
    ("free ports", Kind::UnschedulableResources),
    ("exceed max volume count", Kind::UnschedulableVolume),
    ("volume node affinity conflict", Kind::UnschedulableVolume),
    ("PersistentVolume's node affinity", Kind::UnschedulableVolume),
    ("had no available volume zone", Kind::UnschedulableVolume),
    ("didn't find available persistent volumes", Kind::UnschedulableVolume),
    ("ReadWriteOncePod", Kind::UnschedulableVolume),
    ("unbound immediate PersistentVolumeClaims", Kind::UnschedulableVolume),
    ("not have enough free storage", Kind::UnschedulableVolume),
    ("untolerated taint", Kind::UnschedulableTaint),
    ("node(s) were unschedulable", Kind::UnschedulableCordoned),
    ("node affinity", Kind::UnschedulableAffinity),
    ("node selector", Kind::UnschedulableAffinity),
    ("pod affinity", Kind::UnschedulableAffinity),
    ("anti-affinity", Kind::UnschedulableAffinity),
    ("topology spread", Kind::UnschedulableAffinity),
    ("requested node name", Kind::UnschedulableAffinity),
    ("[NodeAffinity]", Kind::UnschedulableAffinity),
];

/// The kind that most nodes have. If several tie, the one with the first rank.
///
/// The text is `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {a: b}. preemption: …`, in newer versions with
/// `no new claims to deallocate, ` before the result of preemption. The scheduler checks claims before any node:
/// `persistentvolumeclaim "data" not found`, `pod has unbound immediate PersistentVolumeClaims`.
pub(super) fn kind(message: &str) -> Kind {
    let mut counts = std::collections::BTreeMap::<Kind, u64>::new();
    for (nodes, text) in misfits(message) {
        let Some((_, kind)) = TEXTS.iter().find(|(part, _)| text.contains(part)) else { continue };
        let count = counts.entry(*kind).or_default();
        *count = count.saturating_add(nodes);
    }
    let most = counts.values().copied().max();
    let is_about_claims = || first_sentence(message).to_ascii_lowercase().contains("persistentvolumeclaim");
    match counts.into_iter().find(|(_, count)| Some(*count) == most) {
        Some((kind, _)) => kind,
        None if is_about_claims() => Kind::UnschedulableVolume,
        None => Kind::Unschedulable,
    }
}

/// A scheduler's reasons, each with the number of nodes that have it: `1 Insufficient cpu, 2 node(s) had untolerated taint {a: b}`.
pub fn misfits(message: &str) -> impl Iterator<Item = (u64, &str)> {
    let (_, misfits) = first_sentence(message).split_once("nodes are available: ").unwrap_or_default();
    misfits.trim_end_matches('.').split(", ").filter_map(|misfit| {
        let (nodes, text) = misfit.split_once(' ')?;
        Some((nodes.parse().ok()?, text))
    })
}

fn first_sentence(message: &str) -> &str {
    message.split_once(". ").map_or(message, |(first, _)| first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_nodes_lack_is_the_cause() {
        for (message, wanted) in [
            ("0/3 nodes are available: 3 Insufficient cpu.", Kind::UnschedulableResources),
            (
                "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) had untolerated taint {a: b}.",
                Kind::UnschedulableResources,
            ),
            (
                "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {a: b}. preemption: 0/3 nodes are available: 3 No \
                 preemption victims found for incoming pod.",
                Kind::UnschedulableTaint,
            ),
            (
                "0/3 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption \
                 victims found for incoming pod.",
                Kind::UnschedulableResources,
            ),
            ("0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity.", Kind::UnschedulableVolume),
            ("0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].", Kind::UnschedulableAffinity),
            ("0/3 nodes are available: 3 node(s) didn't match pod affinity rules.", Kind::UnschedulableAffinity),
            (
                "0/3 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
                 another pod, 2 Insufficient cpu.",
                Kind::UnschedulableResources,
            ),
            ("0/3 nodes are available: 3 pod has unbound immediate PersistentVolumeClaims.", Kind::UnschedulableVolume),
            ("0/3 nodes are available: 3 node(s) were unschedulable.", Kind::UnschedulableCordoned),
            ("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", Kind::UnschedulableAffinity),
            ("0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.", Kind::UnschedulableAffinity),
            ("0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints.", Kind::UnschedulableAffinity),
            ("0/3 nodes are available: 3 node(s) had volume node affinity conflict.", Kind::UnschedulableVolume),
            ("0/3 nodes are available: persistentvolumeclaim \"data\" not found.", Kind::UnschedulableVolume),
            ("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.", Kind::UnschedulableVolume),
            ("0/3 nodes are available: 3 Too many pods.", Kind::UnschedulableResources),
            ("no nodes available to schedule pods", Kind::Unschedulable),
            ("0/3 nodes are available: 99999999999999999999 Insufficient cpu.", Kind::Unschedulable),
            ("", Kind::Unschedulable),
        ] {
            assert_eq!(kind(message), wanted, "{message}");
        }
    }

    #[test]
    fn nodes_are_counted_by_what_they_lack() {
        let of = |message| misfits(message).collect::<Vec<_>>();
        let message = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {a: b}. preemption: 0/3 nodes are available: 3 No victims.";
        assert_eq!(of(message), [(1, "Insufficient cpu"), (2, "node(s) had untolerated taint {a: b}")]);
        let newer =
            "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 No victims.";
        assert_eq!(of(newer), [(3, "Insufficient cpu")]);
        assert_eq!(of("no nodes available to schedule pods"), []);
        assert_eq!(of("0/3 nodes are available: persistentvolumeclaim \"data\" not found."), []);
    }
}
