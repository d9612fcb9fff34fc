//! The bells that wake watchers: one for all watchers of a resource, and one for each filter of some watchers.

use crate::{Entry, WatchFilter};
use event_listener::Event as Bell;
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

/// The name of the bell of watchers whose prefix spans resources, with any filter.
pub(crate) const WIDE: &str = "";

type Names = BTreeMap<Box<str>, Weak<Bell>>;

/// Wakes watchers. A bell without watchers is dropped when it would be rung.
#[derive(Debug, Default)]
pub(crate) struct WatcherNotifier {
    /// By resource.
    all: Names,
    /// By resource too.
    filtered: BTreeMap<Box<str>, Filtered>,
}

/// The bells of watchers with a filter.
#[derive(Debug, Default)]
struct Filtered {
    names: Names,
    labels: BTreeMap<Box<str>, Names>,
    fields: BTreeMap<Box<str>, Names>,
    /// How many changes there were since all of them were rung.
    unrung: usize,
}

impl WatcherNotifier {
    /// Returns the bell for watchers of all changes of `resource`, or of those that a filter matches.
    pub(crate) fn bell(&mut self, resource: &str, filter: Option<&WatchFilter>) -> Arc<Bell> {
        let (bells, name) = match filter {
            None => (&mut self.all, resource),
            Some(filter) => self.filtered.entry(resource.into()).or_default().named(filter),
        };
        if let Some(bell) = bells.get(name).and_then(Weak::upgrade) {
            return bell;
        }
        let bell = Arc::new(Bell::new());
        bells.insert(name.into(), Arc::downgrade(&bell));
        bell
    }

    /// Wakes the watchers of all changes of `resource`.
    pub(crate) fn ring(&mut self, resource: &str) {
        ring(&mut self.all, resource);
    }

    /// Wakes the watchers whose filter matches the version before or after a change. `kept` is the number of kept changes of the resource: before half
    /// of that number has passed, all are woken, so that none falls behind because no change matched.
    pub(crate) fn notify_matching<'e>(&mut self, resource: &str, versions: impl Iterator<Item = &'e Entry>, kept: impl FnOnce() -> usize) {
        let Some(filtered) = self.filtered.get_mut(resource) else { return };
        versions.for_each(|entry| filtered.ring_for(entry));
        filtered.unrung += 1;
        if filtered.unrung * 2 >= kept() && !filtered.notify_all() {
            self.filtered.remove(resource);
        }
    }

    /// Wakes every watcher.
    pub(crate) fn notify_all(&mut self) {
        ring_each(&mut self.all);
        self.filtered.retain(|_, filtered| filtered.notify_all());
    }
}

impl Filtered {
    fn named<'m>(&'m mut self, filter: &'m WatchFilter) -> (&'m mut Names, &'m str) {
        match filter {
            WatchFilter::Name(name) => (&mut self.names, name),
            WatchFilter::Label { key, value } => (self.labels.entry(key.clone()).or_default(), value),
            WatchFilter::Field { field, value } => (self.fields.entry(field.clone()).or_default(), value),
        }
    }

    fn ring_for(&mut self, entry: &Entry) {
        ring(&mut self.names, entry.name());
        for (key, value) in entry.header.labels.iter() {
            self.labels.get_mut(key).into_iter().for_each(|bells| ring(bells, value));
        }
        for (field, bells) in &mut self.fields {
            match entry.header.field(field) {
                Some(value) => ring(bells, value),
                None => ring_each(bells),
            }
        }
    }

    /// Rings every bell. Returns whether there is any.
    fn notify_all(&mut self) -> bool {
        self.unrung = 0;
        ring_each(&mut self.names);
        for by_value in [&mut self.labels, &mut self.fields] {
            by_value.retain(|_, bells| {
                ring_each(bells);
                !bells.is_empty()
            });
        }
        !self.names.is_empty() || !self.labels.is_empty() || !self.fields.is_empty()
    }
}

fn ring(bells: &mut Names, name: &str) {
    let Some(bell) = bells.get(name) else { return };
    match bell.upgrade() {
        Some(bell) => _ = bell.notify(usize::MAX),
        None => _ = bells.remove(name),
    }
}

fn ring_each(bells: &mut Names) {
    bells.retain(|_, bell| match bell.upgrade() {
        Some(bell) => {
            bell.notify(usize::MAX);
            true
        }
        None => false,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Header, Key, Revision};
    use event_listener::Listener;

    fn label(value: &str) -> WatchFilter {
        WatchFilter::Label { key: "app".into(), value: value.into() }
    }

    fn field(value: &str) -> WatchFilter {
        WatchFilter::Field { field: "spec.nodeName".into(), value: value.into() }
    }

    /// Otherwise every filter that was ever watched would stay, and each change of the resource would check them all.
    #[test]
    fn bells_of_dropped_watchers_are_removed() {
        for kept in [WatchFilter::Name("a".into()), label("web"), field("n1")] {
            let mut notifier = WatcherNotifier::default();
            let gone = [WatchFilter::Name("b".into()), label("db"), field("n2")].map(|filter| notifier.bell("/pods/", Some(&filter)));
            let bell = notifier.bell("/pods/", Some(&kept));
            drop(gone);
            notifier.notify_all();
            let filtered = &notifier.filtered["/pods/"];
            let names = [&filtered.names].into_iter().chain(filtered.labels.values()).chain(filtered.fields.values());
            let left: Vec<_> = names.flat_map(BTreeMap::keys).map(|name| &**name).collect();
            assert_eq!(left.len(), 1, "{kept:?}: {left:?}");
            assert_eq!(filtered.labels.len() + filtered.fields.len() + usize::from(!filtered.names.is_empty()), 1, "{kept:?}");

            let listener = bell.listen();
            assert!(Arc::ptr_eq(&bell, &notifier.bell("/pods/", Some(&kept))), "{kept:?}: a later watcher gets the same one");
            notifier.notify_all();
            assert!(listener.wait_timeout(std::time::Duration::ZERO).is_some(), "{kept:?}");
            drop(bell);
            notifier.notify_all();
            assert!(notifier.filtered.is_empty(), "{kept:?}");
        }
    }

    /// So that no watcher falls behind the kept history because no change matched its filter.
    #[test]
    fn before_half_of_what_is_kept_came_to_pass_all_are_rung() {
        let mut notifier = WatcherNotifier::default();
        let bell = notifier.bell("/pods/", Some(&label("web")));
        let other = Entry {
            key: Key::new("/pods/a"),
            value: "1".into(),
            header: Header::default(),
            create_revision: Revision(1),
            mod_revision: Revision(1),
        };
        let mut rung = Vec::new();
        for _ in 0..6 {
            let listener = bell.listen();
            notifier.notify_matching("/pods/", [&other].into_iter(), || 6);
            rung.push(listener.wait_timeout(std::time::Duration::ZERO).is_some());
        }
        assert_eq!(rung, [false, false, true, false, false, true]);
    }
}
