//! How pods of older templates are replaced.

use super::{
    changes::Changes,
    fit::Fit,
    observe::{Observed, OnNode, Pair, count},
};
use crate::{
    plan::{Reason, Wait},
    view::{DaemonSetView, DaemonUpdate, PodView},
};
use berth_api::int_or_string::{Rounding, resolve};
use berth_identity::NodeName;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// `maxUnavailable` and `maxSurge` in nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// `maxUnavailable`.
    pub unavailable: u32,
    /// `maxSurge`. 0: a node's old pod is deleted before its new one is created.
    pub surge: u32,
}

impl Limits {
    /// The limits of a set's rolling update if this number of nodes should have a pod. 0 for `OnDelete`. Percentages are rounded up.
    #[must_use]
    pub fn of(set: &DaemonSetView, nodes: u32) -> Self {
        if set.choices == DaemonUpdate::OnDelete {
            return Self::default();
        }
        let block = set.spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let total = i32::try_from(nodes).unwrap_or(i32::MAX);
        let resolved = |limit: Option<&IntOrString>| {
            limit.and_then(|limit| resolve(limit, total, Rounding::Up)).and_then(|nodes| u32::try_from(nodes).ok()).unwrap_or(0)
        };
        let surge = resolved(block.and_then(|block| block.max_surge.as_ref()));
        let unavailable = resolved(block.and_then(|block| block.max_unavailable.as_ref()));
        // Without either, no pod could ever be replaced.
        Self { surge, unavailable: if surge == 0 { unavailable.max(1) } else { unavailable } }
    }
}

/// The limits of a rolling update. Percentages are of the nodes that should have a pod.
pub(super) fn limits(observed: &Observed<'_>) -> Limits {
    Limits::of(observed.set(), observed.desired())
}

/// Decides which pods of older templates are replaced now. No pod is missing or surplus.
///
/// Source: kubernetes `pkg/controller/daemon/update.go`, `rollingUpdate`.
pub(super) fn update<'a>(observed: &Observed<'a>) -> Changes<'a> {
    match (observed.set().choices, observed.outdated()) {
        (_, 0) => Changes::default(),
        (DaemonUpdate::OnDelete, pods) => Changes { waits: vec![Wait::DeletionByHand { pods }], ..Changes::default() },
        (DaemonUpdate::RollingUpdate, _) => match limits(observed) {
            Limits { unavailable, surge: 0 } => replace(observed, unavailable),
            Limits { surge, .. } => surge_up(observed, surge),
        },
    }
}

/// The nodes that have a pod or should have one.
fn concerned<'o, 'a>(observed: &'o Observed<'a>) -> impl Iterator<Item = (&'a str, &'o OnNode<'a>)> {
    let nodes = observed.nodes.iter().map(|(name, node)| (*name, node));
    nodes.filter(|(_, node)| node.fit == Some(Fit::Runs) || !node.pods.is_empty())
}

/// Deletes old pods, and the next plans create the new ones: unavailable ones at once, available ones as far as `maxUnavailable` allows.
fn replace<'a>(observed: &Observed<'a>, max_unavailable: u32) -> Changes<'a> {
    let (mut unavailable, mut changes, mut candidates) = (0, Changes::default(), Vec::new());
    for (_, node) in concerned(observed) {
        match observed.pair(node) {
            Some(Pair { new: Some(new), old: None }) => unavailable += u32::from(!observed.is_available(new)),
            Some(Pair { new: None, old: Some(old) }) if observed.is_available(old) => candidates.push(old),
            Some(Pair { new: None, old: Some(old) }) => {
                unavailable += 1;
                changes.delete.push((old, Reason::OutdatedUnavailable));
            }
            // A plan before the next ones creates or deletes pods here.
            Some(Pair { .. }) | None => unavailable += 1,
        }
    }
    let room = max_unavailable.saturating_sub(unavailable);
    let candidate_count = count(candidates.iter());
    changes.delete.extend(candidates.into_iter().take(room as usize).map(|old| (old, Reason::Outdated)));
    if room < candidate_count {
        changes.waits.push(wait(observed, unavailable + room));
    }
    changes
}

/// Creates new pods beside old ones, as many as `maxSurge` allows, and deletes each old pod whose new one is available. A node with an unavailable old
/// pod counts against no limit.
fn surge_up<'a>(observed: &Observed<'a>, max_surge: u32) -> Changes<'a> {
    let (mut surging, mut available) = (0, 0);
    let (mut changes, mut candidates, mut misplaced) = (Changes::default(), Vec::new(), Vec::new());
    for (name, node) in concerned(observed) {
        let Some(Pair { new, old }) = observed.pair(node) else {
            surging += 1;
            continue;
        };
        available += u32::from(old.or(new).is_some_and(|pod| observed.is_available(pod)));
        match (new, old, node.fit) {
            (_, None, _) | (_, _, None) => (),
            (Some(new), Some(old), _) if observed.is_available(new) => changes.delete.push((old, Reason::Surged)),
            (Some(_), Some(_), _) => surging += 1,
            (None, Some(old), Some(Fit::Runs)) if observed.is_available(old) => candidates.push(name),
            (None, Some(_), Some(Fit::Runs)) => changes.create_on.push((name, Reason::Surges)),
            (None, Some(old), Some(_)) if observed.is_available(old) => misplaced.push((name, old)),
            (None, Some(old), Some(_)) => changes.delete.push((old, Reason::NodeDoesNotFit { node: NodeName::shared(name) })),
        }
    }
    // The set stays available while it moves to other nodes: a misplaced pod is deleted when a pod elsewhere has its place.
    let spare = available.saturating_sub(observed.desired()) as usize;
    let misplaced = misplaced.into_iter().take(spare);
    changes.delete.extend(misplaced.map(|(name, old)| (old, Reason::NodeDoesNotFit { node: NodeName::shared(name) })));
    let room = max_surge.saturating_sub(surging);
    let candidate_count = count(candidates.iter());
    changes.create_on.extend(candidates.into_iter().take(room as usize).map(|name| (name, Reason::Surges)));
    if room < candidate_count {
        changes.waits.push(wait(observed, surging + count(changes.create_on.iter())));
    }
    changes
}

/// The reason why further old pods are kept.
fn wait(observed: &Observed<'_>, unavailable: u32) -> Wait {
    let is_ripening = |pod: &&&PodView| observed.is_new(pod) && pod.meta.deleted.is_none() && pod.ready && !observed.is_available(pod);
    let ripening = count(observed.nodes.values().flat_map(|node| &node.pods).filter(is_ripening));
    match u32::try_from(observed.min_ready_seconds()) {
        Ok(seconds @ 1..) if 0 < ripening && unavailable <= ripening => Wait::MinReady { pods: ripening, seconds },
        _ => Wait::PodsUnavailable { pods: unavailable, of: observed.desired() },
    }
}
