//! What all cases showed, by sorts of difference.

use crate::{
    accepted::{entries, explains},
    case::Seen,
};
use std::collections::{BTreeMap, BTreeSet};

/// Differences of one sort.
struct Class {
    cases: u64,
    verbs: BTreeSet<&'static str>,
    /// The first case that showed it, and the servers' answers there.
    seed: u64,
    theirs: String,
    ours: String,
}

/// The sum of the cases that have ended.
#[derive(Default)]
pub(crate) struct Report {
    cases: u64,
    /// Cases by kind, and how many of them showed a difference that is not accepted.
    kinds: BTreeMap<String, [u64; 2]>,
    /// By verb: sent, accepted by the real server.
    requests: BTreeMap<&'static str, [u64; 2]>,
    /// By kind and class.
    classes: BTreeMap<String, Class>,
    /// Cases by the pattern that explains a difference of theirs.
    accepted: BTreeMap<&'static str, u64>,
}

impl Report {
    /// Adds a case.
    pub(crate) fn add(&mut self, kind: &str, seed: u64, seen: Seen) {
        self.cases += 1;
        for (verb, [sent, good]) in seen.requests {
            let sum = self.requests.entry(verb).or_default();
            sum[0] += sent;
            sum[1] += good;
        }
        let mut is_open = false;
        for (verb, difference) in seen.found {
            let name = format!("{kind} {}", difference.class);
            if let Some(entry) = explains(&name) {
                *self.accepted.entry(entry.pattern).or_default() += 1;
                continue;
            }
            is_open = true;
            let new = || Class { cases: 0, verbs: BTreeSet::new(), seed, theirs: difference.theirs.clone(), ours: difference.ours.clone() };
            let class = self.classes.entry(name).or_insert_with(new);
            class.cases += 1;
            class.verbs.insert(verb);
        }
        let of_kind = self.kinds.entry(kind.to_owned()).or_default();
        of_kind[0] += 1;
        of_kind[1] += u64::from(is_open);
    }

    /// How many sorts of difference are not accepted.
    pub(crate) fn open(&self) -> usize {
        self.classes.len()
    }

    /// One line.
    pub(crate) fn progress(&self) -> String {
        let differ = self.kinds.values().map(|[_, differ]| differ).sum::<u64>();
        let accepted = self.accepted.values().sum::<u64>();
        let sent: u64 = self.requests.values().map(|[sent, _]| sent).sum();
        format!(
            "{} cases, {sent} requests compared, {differ} cases differ in {} sorts, {accepted} accepted differences",
            self.cases,
            self.open()
        )
    }

    /// The sorts, the most frequent first, and the counts. `is_long` also names the entries that explain nothing any more.
    pub(crate) fn text(&self, is_long: bool) -> String {
        let mut classes: Vec<_> = self.classes.iter().collect();
        classes.sort_by_key(|(name, class)| (std::cmp::Reverse(class.cases), (*name).clone()));
        let mut lines = Vec::new();
        for (name, Class { cases, verbs, seed, theirs, ours }) in classes {
            let verbs = verbs.iter().copied().collect::<Vec<_>>().join(", ");
            lines.push(format!("{cases}× {name} ({verbs}; seed {seed})\n    theirs: {theirs}\n    ours:   {ours}"));
        }
        let count = |(name, [all, some]): (&str, &[u64; 2])| format!("{name} {all} ({some})");
        let kinds = self.kinds.iter().map(|(name, counts)| count((name.as_str(), counts))).collect::<Vec<_>>().join(", ");
        let verbs = self.requests.iter().map(|(name, counts)| count((*name, counts))).collect::<Vec<_>>().join(", ");
        lines.push(format!("cases (that differ): {kinds}\nrequests (accepted): {verbs}"));
        if is_long {
            let unused = entries().into_iter().filter(|entry| !self.accepted.contains_key(entry.pattern));
            lines.extend(unused.map(|entry| format!("accepted, and no longer seen: {} | {}", entry.row, entry.pattern)));
        }
        lines.join("\n")
    }
}
