//! The waits of objects: each one is reported once when it begins, and counted while it lasts.

use berth_identity::ObjectKey;
use berth_workloads::plan::Wait;
use prometheus::IntGaugeVec;
use std::collections::{BTreeMap, BTreeSet};

/// The reason that an alert queries.
const SECOND_WRITER: &str = "second_writer";

/// The waits of one controller's objects. A wait is the same while its kind is, whatever its figures.
pub struct Waits {
    controller: &'static str,
    gauge: IntGaugeVec,
    of: BTreeMap<ObjectKey, BTreeSet<&'static str>>,
}

impl Waits {
    /// Starts without waits. `gauge` has the labels `controller` and `reason`.
    #[must_use]
    pub fn new(controller: &'static str, gauge: IntGaugeVec) -> Self {
        let waits = Self { controller, gauge, of: BTreeMap::new() };
        // This series exists from the start, so that an alert has a value to compare.
        waits.count(SECOND_WRITER);
        waits
    }

    /// Records the waits of a reconcile of `key`. Returns those that have begun since the last reconcile.
    ///
    /// A reconcile that waits for a child to be observed has not reached the other waits, so it ends none.
    pub(crate) fn take_in<'w>(&mut self, key: &ObjectKey, waits: &'w [Wait]) -> Vec<&'w Wait> {
        let before = self.of.remove(key).unwrap_or_default();
        let mut now: BTreeSet<_> = waits.iter().map(Wait::metric_label).collect();
        if waits.iter().any(|wait| matches!(wait, Wait::ChildNotObserved { .. })) {
            now.extend(&before);
        }
        now.difference(&before).for_each(|reason| self.count(reason).inc());
        before.difference(&now).for_each(|reason| self.count(reason).dec());
        if !now.is_empty() {
            self.of.insert(key.clone(), now);
        }
        waits.iter().filter(|wait| !before.contains(wait.metric_label())).collect()
    }

    /// Removes the waits of `key`, whose object is deleted.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.take_in(key, &[]);
    }

    fn count(&self, reason: &str) -> prometheus::IntGauge {
        self.gauge.with_label_values(&[self.controller, reason])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_workloads::second_writer::{SecondWriter, Wrote};
    use prometheus::Opts;

    #[test]
    fn a_wait_is_reported_once_and_counted_until_it_ends() {
        let gauge = IntGaugeVec::new(Opts::new("waits", "of a test"), &["controller", "reason"]).expect("a gauge");
        let mut waits = Waits::new("deployment", gauge.clone());
        let key = |name: &str| ObjectKey::new("default", name);
        let leaving = |pods| Wait::PodsTerminating { pods, then_create: 1, last: None };
        let lagging = || Wait::ChildNotObserved { name: "web-1".to_owned() };
        let mut check = |name: &str, now: &[Wait], told: usize, counted: i64| {
            assert_eq!(waits.take_in(&key(name), now).len(), told, "{name} {now:?}");
            assert_eq!(gauge.with_label_values(&["deployment", "pods_terminating"]).get(), counted, "{name} {now:?}");
        };
        check("a", &[leaving(3)], 1, 1);
        check("a", &[leaving(2)], 0, 1);
        check("b", &[Wait::Paused, leaving(1)], 2, 2);
        check("a", &[lagging()], 1, 2);
        check("a", &[leaving(1)], 0, 2);
        check("a", &[], 0, 1);
        check("a", &[leaving(1)], 1, 2);
        check("b", &[], 0, 1);
        assert_eq!(gauge.with_label_values(&["deployment", SECOND_WRITER]).get(), 0);
    }

    #[test]
    fn a_second_writer_is_counted_under_the_reason_that_an_alert_asks_for() {
        let second = SecondWriter { manager: "kube-controller-manager".to_owned(), wrote: Wrote::Status };
        assert_eq!(Wait::SecondWriter(second).metric_label(), SECOND_WRITER);
    }
}
