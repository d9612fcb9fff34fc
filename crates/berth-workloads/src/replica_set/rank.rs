//! Which pods of a surplus go first.

use crate::view::{PodPhase, PodView};
use jiff::Timestamp;
use std::{cmp::Ordering, collections::BTreeMap};

/// A pod that may be deleted, with what the comparison needs besides the pod itself.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The pod.
    pub pod: &'a PodView,
    /// How many active related pods its node has ([`crate::counts::PodSource::related_on_node`]).
    pub related: u32,
}

/// How candidates are compared.
#[derive(Clone, Copy, Debug)]
pub struct Ranking {
    /// One reading of the clock for the whole sort.
    pub now: Timestamp,
    /// Whether the deletion cost counts.
    pub cost: DeletionCost,
    /// How ages are compared.
    pub ages: Ages,
}

/// Gate `PodDeletionCost`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionCost {
    /// Compared.
    Counts,
    /// As if no pod had one.
    Ignored,
}

/// Gate `LogarithmicScaleDown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ages {
    /// Ages within the same power of two nanoseconds are alike, and the uid decides: so that not always the youngest pod goes.
    Logarithmic,
    /// The younger pod goes first.
    Exact,
}

impl Ranking {
    /// Orders two candidates: `Less` is deleted sooner.
    ///
    /// As upstream's, this is **not** a total order: equal times let the next criterion decide, times in one bucket let the uid decide, so
    /// three pods may form a ring. [`Ranking::first`] can cope with that, `slice::sort_by` may panic.
    #[must_use]
    pub fn compare(&self, a: &Candidate<'_>, b: &Candidate<'_>) -> Ordering {
        self.by_state(a, b)
            .then_with(|| match (a.pod.ready, b.pod.ready) {
                (true, true) => self.by_age(a.pod, b.pod, a.pod.ready_since, b.pod.ready_since),
                _ => Ordering::Equal,
            })
            .then_with(|| b.pod.restarts.cmp(&a.pod.restarts))
            .then_with(|| b.pod.sidecar_restarts.cmp(&a.pod.sidecar_restarts))
            .then_with(|| self.by_age(a.pod, b.pod, a.pod.meta.created, b.pod.meta.created))
    }

    /// The `count` candidates that are deleted first, in that order.
    #[must_use]
    pub fn first<'a>(&self, candidates: Vec<Candidate<'a>>, count: usize) -> Vec<Candidate<'a>> {
        let mut sorted = self.sorted(candidates);
        sorted.truncate(count);
        sorted
    }

    /// Node, phase, readiness, cost and crowd: the criteria before any age.
    fn by_state(&self, a: &Candidate<'_>, b: &Candidate<'_>) -> Ordering {
        let cost = |candidate: &Candidate<'_>| match self.cost {
            DeletionCost::Counts => candidate.pod.deletion_cost,
            DeletionCost::Ignored => 0,
        };
        let key = |candidate: &Candidate<'_>| {
            let pod = candidate.pod;
            (!pod.node_name.is_empty(), phase_order(pod.phase), pod.ready, cost(candidate), std::cmp::Reverse(candidate.related))
        };
        key(a).cmp(&key(b))
    }

    /// The younger first; a pod without a time before any that has one.
    fn by_age(&self, a: &PodView, b: &PodView, time_a: Option<Timestamp>, time_b: Option<Timestamp>) -> Ordering {
        match (time_a, time_b, self.ages) {
            _ if time_a == time_b => Ordering::Equal,
            (Some(time_a), Some(time_b), Ages::Logarithmic) => {
                let buckets = self.age_bucket(time_a).cmp(&self.age_bucket(time_b));
                buckets.then_with(|| a.meta.uid.cmp(&b.meta.uid))
            }
            (Some(time_a), Some(time_b), Ages::Exact) => time_b.cmp(&time_a),
            (None, _, _) => Ordering::Less,
            (_, None, _) => Ordering::Greater,
        }
    }

    /// floor(log2(age in nanoseconds)); -1 for what is not yet past.
    fn age_bucket(&self, since: Timestamp) -> i64 {
        match u128::try_from(self.now.duration_since(since).as_nanos()) {
            Ok(age @ 1..) => i64::from(age.ilog2()),
            _ => -1,
        }
    }

    /// Merge sort: ends, and loses nothing, whatever the comparison answers.
    fn sorted<'a>(&self, mut candidates: Vec<Candidate<'a>>) -> Vec<Candidate<'a>> {
        if candidates.len() < 2 {
            return candidates;
        }
        let upper = self.sorted(candidates.split_off(candidates.len() / 2));
        let mut lower = self.sorted(candidates).into_iter().peekable();
        let mut upper = upper.into_iter().peekable();
        let mut merged = Vec::with_capacity(lower.len() + upper.len());
        while let (Some(low), Some(high)) = (lower.peek(), upper.peek()) {
            let next = if self.compare(low, high).is_le() { lower.next() } else { upper.next() };
            merged.extend(next);
        }
        merged.extend(lower.chain(upper));
        merged
    }
}

/// Pods that have not started go before those whose node is silent, those before running ones.
fn phase_order(phase: PodPhase) -> u8 {
    match phase {
        PodPhase::Unset | PodPhase::Pending | PodPhase::Succeeded | PodPhase::Failed | PodPhase::Other => 0,
        PodPhase::Unknown => 1,
        PodPhase::Running => 2,
    }
}

/// How many active pods each node has. Pods without a node share the empty name.
#[must_use]
pub fn related_per_node<'a>(pods: impl IntoIterator<Item = &'a PodView>) -> BTreeMap<&'a str, u32> {
    let mut per_node = BTreeMap::new();
    for pod in pods.into_iter().filter(|pod| pod.is_active()) {
        *per_node.entry(pod.node_name.as_str()).or_default() += 1;
    }
    per_node
}
