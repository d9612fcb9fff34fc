//! Limits the cached events. A rollout of many pods creates thousands, which exist for an hour. Only the newest are
//! cached.

use berth_api::decode::from_json;
use berth_controllers::{Change, RawObject};
use berth_identity::ObjectKey;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};

/// The maximum number of cached warnings, and of other events. Normal events of many workloads must not displace the
/// warnings of one.
const KEPT_MAX: [usize; 2] = [10_000, 5_000];

/// Limits a stream of changes: for each event beyond the limit, it deletes the oldest one.
pub(crate) fn newest(changes: BoxStream<'static, Change>) -> BoxStream<'static, Change> {
    let mut kept = Kept::up_to(KEPT_MAX);
    changes.flat_map(move |change| stream::iter(kept.take(change))).boxed()
}

struct Kept {
    most: [usize; 2],
    /// The events of both types in order of arrival, each with its number. An event that was updated occurs more than
    /// once.
    order: [VecDeque<(ObjectKey, u64)>; 2],
    /// The last number of each cached event.
    there: BTreeMap<ObjectKey, u64>,
    next: u64,
}

#[derive(Deserialize)]
struct Sort {
    #[serde(rename = "type")]
    type_: Option<String>,
}

fn warns(event: &RawObject) -> bool {
    from_json::<Sort>(&event.json).is_ok_and(|sort| sort.type_.as_deref() == Some("Warning"))
}

impl Kept {
    fn up_to(most: [usize; 2]) -> Self {
        Self { most, order: Default::default(), there: BTreeMap::new(), next: 0 }
    }

    /// Returns the change, and the deletions that it causes.
    fn take(&mut self, change: Change) -> Vec<Change> {
        let mut gone = None;
        match &change {
            Change::Restarted => *self = Self::up_to(self.most),
            Change::Applied { key, object } => {
                self.next += 1;
                self.there.insert(key.clone(), self.next);
                let sort = usize::from(!warns(object));
                self.order[sort].push_back((key.clone(), self.next));
                gone = self.oldest_beyond(sort).map(|key| Change::Deleted { key, revision: object.revision });
            }
            Change::Deleted { key, .. } => drop(self.there.remove(key)),
            Change::Synced(_) | Change::Progress(_) => (),
        }
        [Some(change), gone].into_iter().flatten().collect()
    }

    /// Returns the oldest event beyond the limit, unless it was updated since.
    fn oldest_beyond(&mut self, sort: usize) -> Option<ObjectKey> {
        let is_beyond = self.most[sort] < self.order[sort].len();
        let (key, number) = if is_beyond { self.order[sort].pop_front()? } else { return None };
        (self.there.get(&key) == Some(&number)).then(|| {
            self.there.remove(&key);
            key
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use futures::FutureExt;
    use std::collections::BTreeSet;

    fn event(name: &str, type_: &str) -> Change {
        let object = RawObject::new(format!(r#"{{"type":"{type_}"}}"#), Revision(7));
        Change::Applied { key: ObjectKey::new("shop", name), object }
    }

    /// Returns the events that remain after these changes.
    fn left(changes: Vec<Change>) -> BTreeSet<String> {
        let mut there = BTreeSet::new();
        for change in newest(stream::iter(changes).boxed()).collect::<Vec<_>>().now_or_never().expect("all is there") {
            match change {
                Change::Applied { key, .. } => drop(there.insert(key.name.to_string())),
                Change::Deleted { key, .. } => assert!(there.remove(&*key.name), "{key} went twice"),
                Change::Restarted => there.clear(),
                Change::Synced(_) | Change::Progress(_) => (),
            }
        }
        there
    }

    fn normal(names: std::ops::Range<usize>) -> Vec<Change> {
        names.map(|name| event(&format!("n{name}"), "Normal")).collect()
    }

    #[test]
    fn the_newest_stay_and_warnings_are_not_replaced_by_others() {
        let mut changes = vec![event("w", "Warning")];
        changes.extend(normal(0..5_003));
        let there = left(changes);
        assert_eq!(there.len(), 5_001);
        assert!(there.contains("w") && !there.contains("n2") && there.contains("n3") && there.contains("n5002"));
    }

    #[test]
    fn an_event_that_returns_is_new_and_a_deleted_one_is_not_counted() {
        let gone = Change::Deleted { key: ObjectKey::new("shop", "n1"), revision: Revision(8) };
        let there = left([normal(0..3), vec![gone], normal(0..1), normal(3..5_001)].concat());
        assert!(there.contains("n0") && !there.contains("n1"), "it came again");
        assert_eq!(there.len(), 5_000);
    }

    #[test]
    fn a_list_starts_from_scratch() {
        let there = left([normal(0..4_999), vec![Change::Restarted], normal(0..4_999)].concat());
        assert_eq!(there.len(), 4_999);
    }
}
