//! The changes in the files. Keeps as many as a store keeps, and forgets them as the store forgets them, so that watchers continue when the store is
//! opened again.

use super::record::Object;
use crate::{Key, Layout, Revision, mvcc};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// What one revision made of one key.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) revision: Revision,
    /// The value that the key got; `None`: it was deleted.
    pub(crate) value: Option<Bytes>,
    /// What was there before.
    pub(crate) previous: Option<Object>,
    /// Among all changes.
    position: usize,
}

impl Change {
    fn cost_bytes(&self) -> usize {
        let previous = self.previous.as_ref().map_or(0, |previous| previous.value.len());
        mvcc::change_bytes(self.value.as_ref().map_or(previous, Bytes::len), previous)
    }
}

/// The changes of one resource that are kept: all that are later than `since`.
#[derive(Debug, Default)]
struct Kept {
    since: Revision,
    changes: VecDeque<Change>,
    bytes: usize,
}

impl Kept {
    fn since(since: Revision) -> Self {
        Self { since, ..Self::default() }
    }

    /// Forgets the oldest revision, all that it changed. Gives what that cost; `None`: nothing is kept.
    fn forget_oldest(&mut self) -> Option<usize> {
        let revision = self.changes.front()?.revision;
        let bytes = self.bytes;
        while let Some(change) = self.changes.front().filter(|change| change.revision == revision) {
            self.bytes -= change.cost_bytes();
            self.changes.pop_front();
        }
        self.since = revision;
        Some(bytes - self.bytes)
    }
}

/// All changes that are kept. The default one keeps none and knows nothing of resources.
#[derive(Default)]
pub(crate) struct History {
    layout: Option<Arc<dyn Layout>>,
    bytes_max: usize,
    bytes: usize,
    /// By what their keys begin with; all keys of no resource by nothing.
    resources: BTreeMap<Box<str>, Kept>,
    /// How many changes there were.
    seen: usize,
    newest: Revision,
}

impl History {
    /// The history of a store with this limit. It begins at the first change, until `begin` sets another start.
    pub(crate) fn new(layout: Arc<dyn Layout>, bytes_max: usize) -> Self {
        Self { layout: Some(layout), bytes_max, ..Self::default() }
    }

    /// Only changes later than `since` follow for a resource, or for all others if it has no name. Text that is no resource any more counts as one of
    /// the others.
    pub(super) fn begin(&mut self, resource: &str, since: Revision) {
        let is_known = |layout: &Arc<dyn Layout>| layout.resource_prefix(resource) == Some(resource);
        let name = if self.layout.as_ref().is_some_and(is_known) { resource } else { "" };
        let kept = self.resources.entry(name.into()).or_default();
        kept.since = kept.since.max(since);
    }

    /// Takes over a change behind all others. One that is not later than what is kept of its resource stays forgotten.
    pub(super) fn add(&mut self, key: &Key, revision: Revision, value: Option<Bytes>, previous: Option<Object>) {
        let Some(layout) = &self.layout else { return };
        let name = layout.resource_prefix(key.as_str()).unwrap_or_default();
        if self.newest < revision {
            // As the writer did: after each commit.
            self.forget_excess();
            self.newest = revision;
        }
        if !self.resources.contains_key(name) {
            let others = self.resources.get("").map_or(Revision(0), |kept| kept.since);
            self.resources.insert(name.into(), Kept::since(others));
        }
        let Some(kept) = self.resources.get_mut(name).filter(|kept| kept.since < revision) else { return };
        self.seen += 1;
        let change = Change { key: key.clone(), revision, value, previous, position: self.seen };
        let bytes = change.cost_bytes();
        kept.changes.push_back(change);
        kept.bytes += bytes;
        self.bytes += bytes;
    }

    /// What takes most forgets first.
    fn forget_excess(&mut self) {
        while self.bytes_max < self.bytes {
            let heaviest = self.resources.iter_mut().max_by_key(|(name, kept)| (kept.bytes, name.is_empty()));
            let Some(bytes) = heaviest.and_then(|(_, kept)| kept.forget_oldest()) else { return };
            self.bytes -= bytes;
        }
    }

    /// Everything up to `revision` is forgotten.
    pub(super) fn compact(&mut self, revision: Revision) {
        self.forget_excess();
        self.begin("", revision);
        for kept in self.resources.values_mut() {
            while kept.changes.front().is_some_and(|change| change.revision <= revision) {
                self.bytes -= kept.forget_oldest().unwrap_or_default();
            }
            kept.since = kept.since.max(revision);
        }
    }

    /// From where on the changes of each resource are kept, and all of them in their order.
    pub(crate) fn into_changes(mut self) -> (Vec<(Box<str>, Revision)>, Vec<Change>) {
        self.forget_excess();
        self.begin("", Revision(0));
        let since = self.resources.iter().map(|(name, kept)| (name.clone(), kept.since)).collect();
        let mut changes: Vec<_> = self.resources.into_values().flat_map(|kept| kept.changes).collect();
        changes.sort_unstable_by_key(|change| change.position);
        (since, changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Header;

    struct Folders;

    impl Layout for Folders {
        fn resource_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
            let known = ["/pods/", "/maps/"].into_iter().find(|prefix| text.starts_with(prefix))?;
            Some(&text[..known.len()])
        }

        fn header(&self, _: &Key, _: &[u8]) -> Header {
            Header::default()
        }
    }

    /// Keeps what so many new values of a byte cost.
    fn keeping(changes: usize) -> History {
        History::new(Arc::new(Folders), changes * mvcc::change_bytes(1, 0))
    }

    fn add(history: &mut History, revision: u64, key: &str) {
        history.add(&Key::new(key), Revision(revision), Some("x".into()), None);
    }

    /// From where on changes are kept, and of which revisions there are.
    fn kept(history: History) -> (Vec<(String, u64)>, Vec<u64>) {
        let (since, changes) = history.into_changes();
        (since.iter().map(|(name, since)| (name.to_string(), since.0)).collect(), changes.iter().map(|change| change.revision.0).collect())
    }

    #[test]
    fn as_much_is_kept_as_may_be_and_no_more() {
        for (bytes, left) in [(3, vec![1, 2, 3]), (2, vec![2, 3])] {
            let mut history = keeping(bytes);
            (1..=3).for_each(|revision| add(&mut history, revision, "/pods/a"));
            assert_eq!(kept(history).1, left, "room for {bytes}");
        }
    }

    /// What was forgotten together with others, before anything of the resource was named, stays so: a follower would take a part for the whole.
    #[test]
    fn a_resource_that_is_named_later_is_kept_from_where_the_others_are() {
        let mut history = keeping(10);
        history.begin("", Revision(5));
        history.begin("/maps/", Revision(2));
        for revision in 3..=7 {
            add(&mut history, revision, "/pods/a");
            add(&mut history, revision, "/maps/a");
        }
        let since = [("", 5), ("/maps/", 2), ("/pods/", 5)].map(|(name, since)| (name.to_owned(), since));
        assert_eq!(kept(history), (since.to_vec(), vec![3, 4, 5, 6, 6, 7, 7]));
    }

    #[test]
    fn what_is_compacted_stays_forgotten() {
        let mut history = keeping(10);
        (1..=3).for_each(|revision| add(&mut history, revision, "/pods/a"));
        history.compact(Revision(2));
        add(&mut history, 2, "/maps/a");
        add(&mut history, 4, "/maps/a");
        let since = ["", "/maps/", "/pods/"].map(|name| (name.to_owned(), 2));
        assert_eq!(kept(history), (since.to_vec(), vec![3, 4]));
    }

    /// As the writer does: after a commit, the excess is forgotten, from the resource that then takes most.
    #[test]
    fn what_is_forgotten_is_chosen_behind_each_commit_not_within_it() {
        let mut history = keeping(3);
        (1..=3).for_each(|revision| add(&mut history, revision, "/pods/a"));
        ["/maps/a", "/maps/b", "/maps/c", "/maps/d"].iter().for_each(|key| add(&mut history, 4, key));
        let since = [("", 0), ("/maps/", 4), ("/pods/", 0)].map(|(name, since)| (name.to_owned(), since));
        assert_eq!(kept(history), (since.to_vec(), vec![1, 2, 3]));
    }

    #[test]
    fn what_is_compacted_makes_room_for_what_comes() {
        for (last, left) in [(5, vec![3, 4, 5]), (6, vec![4, 5, 6])] {
            let mut history = keeping(3);
            (1..=3).for_each(|revision| add(&mut history, revision, "/pods/a"));
            history.compact(Revision(2));
            (4..=last).for_each(|revision| add(&mut history, revision, "/pods/a"));
            assert_eq!(kept(history).1, left, "up to {last}");
        }
    }
}
