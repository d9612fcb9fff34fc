//! What a run of cycles comes to.

use super::memory::{Fault, What};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

/// How many faults of a kind are printed when they happen; the rest are counted.
const PRINTED_MAX: u64 = 20;

/// Counts of a run.
#[derive(Default)]
pub(crate) struct Tally {
    /// Where histories go that show a fault.
    pub(crate) kept: PathBuf,
    /// By what was done.
    pub(crate) cycles: BTreeMap<&'static str, u64>,
    pub(crate) acknowledged: u64,
    pub(crate) refused: u64,
    /// Writes of unknown outcome.
    pub(crate) unknown: u64,
    /// Of those on objects with one writer: how many had happened.
    pub(crate) happened: u64,
    /// Shown to watchers.
    pub(crate) events: u64,
    /// How often a watcher went on where it was, and how often it could not.
    pub(crate) resumed: u64,
    pub(crate) relisted: u64,
    /// Operations of clients that were found to fit one order.
    pub(crate) ordered: u64,
    /// Histories for which that could not be determined within the effort.
    pub(crate) too_hard: u64,
    /// By file and damage: how often it was noticed, and how often not, when nothing was lost by it.
    pub(crate) damage: BTreeMap<String, [u64; 2]>,
    /// How the disk was filled.
    pub(crate) full_disks: BTreeMap<&'static str, u64>,
    faults: BTreeMap<What, u64>,
}

impl Tally {
    pub(crate) fn new(kept: &Path) -> Self {
        Self { kept: kept.to_owned(), ..Self::default() }
    }

    /// Counts a fault, and prints it.
    pub(crate) fn fault(&mut self, Fault { what, text }: Fault) {
        let count = self.faults.entry(what).or_default();
        *count += 1;
        if *count <= PRINTED_MAX {
            crate::print::print(&format!("FAULT {what:?}: {text}"));
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    pub(crate) fn faults(&self) -> u64 {
        self.faults.values().sum()
    }

    /// All of it for people.
    pub(crate) fn text(&self, seed: u64, took: Duration) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| writeln!(text, "{name:42} {value}").expect("memory takes it");
        let count = |what: What| self.faults.get(&what).copied().unwrap_or_default().to_string();
        line("seed", seed.to_string());
        line("time", format!("{:.1} min", took.as_secs_f64() / 60.0));
        line("cycles", self.cycles.values().sum::<u64>().to_string());
        self.cycles.iter().for_each(|(kind, cycles)| line(&format!("  {kind}"), cycles.to_string()));
        line("writes acknowledged", self.acknowledged.to_string());
        line("writes refused", self.refused.to_string());
        line("writes of unknown outcome", format!("{}, of which {} were seen to have happened", self.unknown, self.happened));
        line("acknowledged and lost", count(What::Lost));
        line("doubled, or not written by a client", count(What::Doubled));
        line("versions that went back", count(What::Version));
        line("operations checked for one order", format!("{}; too hard to say: {}", self.ordered, self.too_hard));
        line("histories that have none", count(What::Order));
        line("watch events shown", self.events.to_string());
        line("watches gone on with; lists anew", format!("{}; {}", self.resumed, self.relisted));
        line("watchers that missed events, or saw others", count(What::Watch));
        line("answers that are none", count(What::Answer));
        line("starts that failed", count(What::Start));
        line("times that went back", count(What::Time));
        self.full_disks.iter().for_each(|(how, times)| line(&format!("full disks, {how}"), times.to_string()));
        self.damage.iter().for_each(|(kind, [noticed, harmless])| {
            line(&format!("damage, {kind}"), format!("{noticed} noticed, {harmless} not noticed and nothing lost"));
        });
        line("damage that cost something", count(What::Damage));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_fault_of_any_kind_is_a_failure_and_is_shown() {
        let mut tally = Tally::default();
        assert!(tally.is_clean());
        tally.fault(Fault::new(What::Lost, "w1-1"));
        assert_eq!((tally.is_clean(), tally.faults()), (false, 1));
        let text = tally.text(7, Duration::from_secs(90));
        let shown = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned()).unwrap();
        assert_eq!((shown("seed"), shown("time"), shown("acknowledged and lost")), ("7".into(), "1.5 min".into(), "1".into()));
    }
}
