//! Which surplus pods are deleted first.

pub use crate::plan::Rule;

use crate::view::{PodPhase, PodView};
use jiff::Timestamp;
use std::{cmp::Ordering, collections::BTreeMap};

/// A pod that may be deleted, with further input of the comparison.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The pod.
    pub pod: &'a PodView,
    /// How many active related pods its node has ([`crate::replica_set::SinglePods::related_on_node`]).
    pub related: u32,
}

/// How candidates are compared.
#[derive(Clone, Copy, Debug)]
pub struct Ranking {
    /// One clock value for the whole sort.
    pub now: Timestamp,
    /// Whether the deletion cost counts.
    pub cost: DeletionCost,
    /// `minReadySeconds`: how long a pod is ready before it is available.
    pub min_ready_seconds: i32,
}

/// Gate `PodDeletionCost`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionCost {
    /// Compared.
    Counts,
    /// Every pod counts as having none.
    Ignored,
}

impl Ranking {
    /// Orders two candidates: `Less` is deleted sooner.
    ///
    /// As upstream's, this is **not** a total order. With equal times the next criterion decides, and with times in one bucket the uid
    /// decides, so three pods can form a cycle. [`Ranking::chosen`] tolerates that, but `slice::sort_by` may panic.
    #[must_use]
    pub fn compare(&self, a: &Candidate<'_>, b: &Candidate<'_>) -> Ordering {
        self.decide(a, b).map_or(Ordering::Equal, |(order, _)| order)
    }

    /// The `count` candidates that are deleted first, in that order, each with its deciding rule.
    #[must_use]
    pub fn chosen<'a>(&self, candidates: Vec<Candidate<'a>>, count: usize) -> Vec<(Rule, &'a PodView)> {
        // Includes the pod that would be deleted next.
        let sorted = self.first_sorted(candidates, count.saturating_add(1));
        let (chosen, rest) = sorted.split_at(count.min(sorted.len()));
        let rule = |candidate| match rest.first().map(|next| self.decide(candidate, next)) {
            None => Rule::AllGo,
            Some(Some((Ordering::Less, rule))) => rule,
            Some(_) => Rule::Alike,
        };
        chosen.iter().map(|candidate| (rule(candidate), candidate.pod)).collect()
    }

    /// Which pod is deleted sooner, and by which criterion. `None` if no criterion distinguishes them.
    ///
    /// Upstream does not compare availability. A Deployment that removes pods that are not available yet (`minReadySeconds`) would then
    /// lose available pods instead, and fall below its minimum.
    fn decide(&self, a: &Candidate<'_>, b: &Candidate<'_>) -> Option<(Ordering, Rule)> {
        let (x, y) = (a.pod, b.pod);
        let cost = |pod: &PodView| if self.cost == DeletionCost::Counts { pod.deletion_cost } else { 0 };
        let is_available = |pod: &PodView| pod.available_at(self.min_ready_seconds).is_some_and(|since| since <= self.now);
        decisive((!x.node_name.is_empty()).cmp(&!y.node_name.is_empty()), Rule::NoNode)
            .or_else(|| decisive(phase_order(x.phase).cmp(&phase_order(y.phase)), Rule::NotRunning))
            .or_else(|| decisive(x.ready.cmp(&y.ready), Rule::NotReady))
            .or_else(|| decisive(cost(x).cmp(&cost(y)), Rule::DeletionCost { than: cost(y) }))
            .or_else(|| decisive(is_available(x).cmp(&is_available(y)), Rule::NotAvailable))
            .or_else(|| decisive(b.related.cmp(&a.related), Rule::Crowded { than: b.related }))
            .or_else(|| if x.ready { self.by_age((x, x.ready_since), (y, y.ready_since), Rule::ReadyLater) } else { None })
            .or_else(|| decisive(y.restarts.cmp(&x.restarts), Rule::Restarts { than: y.restarts }))
            .or_else(|| decisive(y.sidecar_restarts.cmp(&x.sidecar_restarts), Rule::SidecarRestarts { than: y.sidecar_restarts }))
            .or_else(|| self.by_age((x, x.meta.created), (y, y.meta.created), Rule::Newer))
    }

    /// The younger pod first. A pod without a time precedes all others. Ages within the same power of two nanoseconds are equal, and the
    /// uid decides, so that the youngest pod is not always deleted (upstream's `LogarithmicScaleDown`).
    fn by_age(&self, a: (&PodView, Option<Timestamp>), b: (&PodView, Option<Timestamp>), rule: Rule) -> Option<(Ordering, Rule)> {
        match (a.1, b.1) {
            _ if a.1 == b.1 => None,
            (Some(of_a), Some(of_b)) => decisive(self.age_bucket(of_a).cmp(&self.age_bucket(of_b)), rule)
                .or_else(|| decisive(a.0.meta.uid.cmp(&b.0.meta.uid), Rule::Lot)),
            (None, _) => Some((Ordering::Less, rule)),
            (_, None) => Some((Ordering::Greater, rule)),
        }
    }

    /// floor(log2(age in nanoseconds)); -1 for a time in the future.
    fn age_bucket(&self, since: Timestamp) -> i64 {
        match u128::try_from(self.now.duration_since(since).as_nanos()) {
            Ok(age @ 1..) => i64::from(age.ilog2()),
            _ => -1,
        }
    }

    /// The first `number` candidates in order. A merge sort terminates and selects no pod twice, whatever the comparison returns. It omits
    /// the candidates beyond `number` from both halves, so selecting ten of ten thousand does not sort all.
    fn first_sorted<'a>(&self, mut candidates: Vec<Candidate<'a>>, number: usize) -> Vec<Candidate<'a>> {
        if candidates.len() < 2 {
            return candidates;
        }
        let upper = self.first_sorted(candidates.split_off(candidates.len() / 2), number);
        let lower = self.first_sorted(candidates, number);
        let mut merged = Vec::with_capacity(number.min(lower.len() + upper.len()));
        let (mut lower, mut upper) = (lower.into_iter().peekable(), upper.into_iter().peekable());
        while merged.len() < number {
            let next = match (lower.peek(), upper.peek()) {
                (Some(low), Some(high)) if self.compare(low, high).is_le() => lower.next(),
                (_, Some(_)) => upper.next(),
                (_, None) => lower.next(),
            };
            let Some(next) = next else { break };
            merged.push(next);
        }
        merged
    }
}

fn decisive(order: Ordering, rule: Rule) -> Option<(Ordering, Rule)> {
    order.is_ne().then_some((order, rule))
}

/// Pods that have not started are deleted before those of silent nodes, and those before running ones.
fn phase_order(phase: PodPhase) -> u8 {
    match phase {
        PodPhase::Unset | PodPhase::Pending | PodPhase::Succeeded | PodPhase::Failed | PodPhase::Other => 0,
        PodPhase::Unknown => 1,
        PodPhase::Running => 2,
    }
}

/// For the histogram `replicaset_controller_sorting_deletion_age_ratio`: the ready time of each ready pod among the `victims`, divided by
/// that of the youngest ready pod of `all`, as integers.
#[must_use]
pub fn age_ratios(victims: &[&PodView], all: &[&PodView], now: Timestamp) -> Vec<i64> {
    let age = |pod: &&PodView| pod.ready_since.filter(|_| pod.ready).map(|since| now.duration_since(since).as_millis().max(0));
    let youngest = all.iter().filter_map(age).min().unwrap_or(0).max(1);
    victims.iter().filter_map(age).map(|age| i64::try_from(age / youngest).unwrap_or(i64::MAX)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Meta;

    fn at(nanos: i128) -> Timestamp {
        Timestamp::from_nanosecond(nanos).expect("a time")
    }

    fn ready(uid: &str, since: i128, restarts: i32) -> PodView {
        let meta = Meta { uid: uid.into(), ..Meta::default() };
        PodView { meta, ready: true, ready_since: Some(at(since)), restarts, phase: PodPhase::Running, ..PodView::default() }
    }

    /// `b` precedes `a` (equal times, more restarts), `a` precedes `c`, and `c` precedes `b` (one bucket, by uid).
    #[test]
    fn pods_that_form_a_ring_are_all_kept_and_sorted_without_panic() {
        let mut pods: Vec<_> = (0..40).flat_map(|_| [ready("a", 1_000, 0), ready("c", 1_001, 0), ready("d", 1_000, 5)]).collect();
        pods.reverse();
        let ranking = Ranking { now: at(3_000), cost: DeletionCost::Counts, min_ready_seconds: 0 };
        let candidates: Vec<_> = pods.iter().map(|pod| Candidate { pod, related: 1 }).collect();
        assert_eq!(ranking.compare(&candidates[0], &candidates[2]), Ordering::Less, "d before a");
        assert_eq!(ranking.compare(&candidates[2], &candidates[1]), Ordering::Less, "a before c");
        assert_eq!(ranking.compare(&candidates[1], &candidates[0]), Ordering::Less, "c before d");
        assert_eq!(ranking.chosen(candidates, usize::MAX).len(), pods.len());
    }

    #[test]
    fn who_is_chosen_does_not_depend_on_how_many_are() {
        // The pods include cycles and indistinguishable pods.
        let pods: Vec<_> = (0..200_i128).map(|n| ready(&format!("{}", n * 7919 % 83), 1_000 + n * 31 % 5, i32::from(n % 3 == 0))).collect();
        let ranking = Ranking { now: at(3_000), cost: DeletionCost::Counts, min_ready_seconds: 0 };
        let candidates: Vec<_> = pods.iter().map(|pod| Candidate { pod, related: pod.restarts.unsigned_abs() }).collect();
        let chosen =
            |count| ranking.chosen(candidates.clone(), count).into_iter().map(|(_, pod)| std::ptr::from_ref(pod)).collect::<Vec<_>>();
        let all = chosen(pods.len());
        assert_eq!(all.len(), pods.len());
        for count in [0, 1, 2, 3, 9, 10, 63, 64, 65, 100, 199] {
            assert_eq!(chosen(count), all[..count], "the first {count}");
        }
    }

    #[test]
    fn a_pod_of_no_age_yet_goes_before_the_youngest() {
        let ranking = Ranking { now: at(1_000), cost: DeletionCost::Counts, min_ready_seconds: 0 };
        let [new, youngest] = [ready("b", 1_000, 0), ready("a", 999, 0)];
        let of = |pod| Candidate { pod, related: 1 };
        assert_eq!(ranking.compare(&of(&new), &of(&youngest)), Ordering::Less);
    }

    #[test]
    fn pods_that_are_not_available_yet_are_deleted_first_unless_a_cost_decides_otherwise() {
        let second = 1_000_000_000;
        let (available, new) = (ready("a", 0, 0), ready("b", 8 * second, 0));
        let dear = PodView { deletion_cost: 1, ..new.clone() };
        let first = |pod: &PodView, min_ready_seconds| {
            let ranking = Ranking { now: at(10 * second), cost: DeletionCost::Counts, min_ready_seconds };
            let crowded = Candidate { pod: &available, related: 3 };
            ranking.compare(&Candidate { pod, related: 1 }, &crowded)
        };
        assert_eq!(first(&new, 5), Ordering::Less);
        assert_eq!(first(&new, 0), Ordering::Greater, "both are available: the crowd decides");
        assert_eq!(first(&dear, 5), Ordering::Greater);
    }

    #[test]
    fn each_victim_has_the_rule_by_which_it_goes_before_the_first_that_stays() {
        let second = 1_000_000_000;
        let old = |uid: &str| PodView { node_name: "n1".into(), deletion_cost: 5, ..ready(uid, 0, 0) };
        let on = |node: &str, pod: PodView| PodView { node_name: node.into(), ..pod };
        let stays = old("z");
        let check = |victim: PodView, rule: Rule| {
            let ranking = Ranking { now: at(100 * second), cost: DeletionCost::Counts, min_ready_seconds: 10 };
            let related = |pod: &PodView| if pod.node_name == "n2" { 3 } else { 1 };
            // The victim is last in the list.
            let candidates = [&stays, &victim].map(|pod| Candidate { pod, related: related(pod) }).to_vec();
            let chosen: Vec<_> = ranking.chosen(candidates, 1).into_iter().map(|(rule, pod)| (rule, pod.meta.uid.as_str())).collect();
            assert_eq!(chosen, [(rule, victim.meta.uid.as_str())]);
        };
        check(on("", old("a")), Rule::NoNode);
        check(PodView { phase: PodPhase::Pending, ready: false, ..old("a") }, Rule::NotRunning);
        check(PodView { phase: PodPhase::Unknown, ..old("a") }, Rule::NotRunning);
        check(PodView { ready: false, deletion_cost: 9, ..old("a") }, Rule::NotReady);
        check(PodView { deletion_cost: -1, ..old("a") }, Rule::DeletionCost { than: 5 });
        check(PodView { ready_since: Some(at(95 * second)), ..old("a") }, Rule::NotAvailable);
        check(on("n2", old("a")), Rule::Crowded { than: 1 });
        check(PodView { ready_since: Some(at(80 * second)), ..old("zz") }, Rule::ReadyLater);
        check(PodView { ready_since: Some(at(second)), restarts: 9, ..old("a") }, Rule::Lot);
        check(PodView { restarts: 2, ..old("a") }, Rule::Restarts { than: 0 });
        check(PodView { sidecar_restarts: 2, ..old("a") }, Rule::SidecarRestarts { than: 0 });
        let newer = Meta { created: None, ..old("zz").meta };
        let dated = PodView { meta: Meta { created: Some(at(0)), ..stays.meta.clone() }, ..stays.clone() };
        let ranking = Ranking { now: at(100 * second), cost: DeletionCost::Ignored, min_ready_seconds: 0 };
        let undated = PodView { meta: newer, ..old("zz") };
        let both = [&dated, &undated].map(|pod| Candidate { pod, related: 1 }).to_vec();
        assert_eq!(ranking.chosen(both.clone(), 1)[0].0, Rule::Newer);
        assert_eq!(ranking.chosen(both, 2)[0].0, Rule::AllGo);
        let alike = [&stays, &stays].map(|pod| Candidate { pod, related: 1 }).to_vec();
        assert_eq!(ranking.chosen(alike, 1)[0].0, Rule::Alike);
    }

    #[test]
    fn age_ratios_are_whole_numbers_of_the_youngest_age() {
        let second = 1_000_000_000;
        let (old, middle, young) = (ready("a", 0, 0), ready("b", 5 * second, 0), ready("c", 8 * second, 0));
        let pending = PodView::default();
        assert_eq!(age_ratios(&[&old, &middle, &pending], &[&old, &middle, &young], at(10 * second)), [5, 2]);
    }
}
